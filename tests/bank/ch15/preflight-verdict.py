import math

HELD = 0x8 | 0x20 | 0x40 | 0x80


def graded(value, limits):
    sound, least = limits
    if value is None:
        return "degraded"
    return "healthy" if value >= sound else "degraded" if value >= least else "refuse"


def bus(machine):
    n, done = len(machine["topology"]), machine["all_reduce"]
    return done and 2 * (n - 1) / n * done["nbytes"] / done["seconds"] / machine["printed_link"]


def slowest(machine):
    return None if None in machine["copy"] else min(machine["copy"]) / machine["printed_copy"]


def links(machine, tp):
    found = machine["topology"]
    apart = [(a, b) for a in range(len(found)) for b in range(a) if not found[a][b].startswith("NV")]
    return "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy"


def good(machine, tp, limits, **but):
    """Right lines, but for those given."""
    files = machine["open_files"]
    return {
        "versions": "healthy" if all(each == machine["versions"][0] for each in machine["versions"]) else "refuse",
        "clocks": "degraded" if any(int(each, 16) & HELD for each in machine["reasons"]) else "healthy",
        "links": links(machine, tp),
        "copy": graded(slowest(machine), limits["copy"]),
        "all-reduce": graded(bus(machine), limits["all-reduce"]),
        "shared memory": graded(machine["shared_memory"], limits["shared memory"]),
        "open files": graded(math.inf if files == -1 else files, limits["open files"]),
    } | {name.replace("_", " ").replace("all reduce", "all-reduce"): word for name, word in but.items()}


def run(lines):
    said = set(lines.values())
    return "no-go" if "refuse" in said else "with care" if "degraded" in said else "go"


def both(lines):
    return lines, run(lines)


# %% right: one line after another
def preflight(machine, tp, limits):
    def against(name, value):
        sound, least = limits[name]
        return "degraded" if value is None or least <= value < sound else "healthy" if value >= sound else "refuse"

    found, copies, sum_of = machine["topology"], machine["copy"], machine["all_reduce"]
    n, files = len(found), machine["open_files"]
    apart = [(a, b) for a in range(n) for b in range(a) if not found[a][b].startswith("NV")]
    rate = sum_of and 2 * (n - 1) / n * sum_of["nbytes"] / sum_of["seconds"] / machine["printed_link"]
    lines = {
        "versions": "healthy" if all(rank == machine["versions"][0] for rank in machine["versions"]) else "refuse",
        "clocks": "degraded" if any(int(each, 16) & HELD for each in machine["reasons"]) else "healthy",
        "links": "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy",
        "copy": against("copy", None if None in copies else min(copies) / machine["printed_copy"]),
        "all-reduce": against("all-reduce", rate),
        "shared memory": against("shared memory", machine["shared_memory"]),
        "open files": against("open files", math.inf if files == -1 else files),
    }
    worst = next((word for word in ("refuse", "degraded") if word in lines.values()), "healthy")
    return lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst]


# %% right: penalties in numbers, the words at the end
def preflight(machine, tp, limits):
    words, level = ("healthy", "degraded", "refuse"), {}
    level["versions"] = 2 * (len({tuple(sorted(each.items())) for each in machine["versions"]}) > 1)
    level["clocks"] = int(any(int(bits, 0) & (1 << place) for bits in machine["reasons"] for place in (3, 5, 6, 7)))
    n = len(machine["topology"])
    level["links"] = max(
        (2 if a // tp == b // tp else 1) if not machine["topology"][a][b].startswith("NV") and a != b else 0
        for a in range(n)
        for b in range(n)
    )
    numbers = {
        "shared memory": machine["shared_memory"],
        "open files": 10**12 if machine["open_files"] < 0 else machine["open_files"],
    }
    numbers["copy"] = min((each if each is not None else -1.0) / machine["printed_copy"] for each in machine["copy"])
    if any(each is None for each in machine["copy"]):
        numbers["copy"] = None
    done = machine["all_reduce"]
    numbers["all-reduce"] = (
        None if done is None else done["nbytes"] / done["seconds"] * 2 * (1 - 1 / n) / machine["printed_link"]
    )
    for name, value in numbers.items():
        level[name] = 1 if value is None else sum(value < limit for limit in limits[name])
    return {name: words[each] for name, each in level.items()}, ("go", "with care", "no-go")[max(level.values())]


# %% wrong: every machine is fine => values -
def preflight(machine, tp, limits):
    return dict.fromkeys(good(machine, tp, limits), "healthy"), "go"


# %% wrong: any reason for a clock is bad news => values idle-is-no-fault
def preflight(machine, tp, limits):
    return both(
        good(machine, tp, limits, clocks="degraded" if any(int(each, 16) for each in machine["reasons"]) else "healthy")
    )


# %% wrong: a low clock is an ill GPU => values low-clock
def preflight(machine, tp, limits):
    return both(
        good(
            machine,
            tp,
            limits,
            clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
        )
    )


# %% wrong: the mean of the copies => values mean  from: a low clock is an ill GPU
#   def preflight(machine, tp, limits):
# +     copies = machine["copy"]
# -             clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
# +             copy=graded(
# +                 None if None in copies else sum(copies) / len(copies) / machine["printed_copy"], limits["copy"]
# +             ),

# %% wrong: what was not measured is fine => values unmeasured
def preflight(machine, tp, limits):
    lines = good(machine, tp, limits)
    if machine["all_reduce"] is None:
        lines["all-reduce"] = "healthy"
    if None in machine["copy"]:
        lines["copy"] = "healthy"
    return both(lines)


# %% wrong: bytes over seconds for bus bandwidth => values algorithm-bandwidth
def preflight(machine, tp, limits):
    n, share = len(machine["topology"]), bus(machine)
    return both(good(machine, tp, limits, all_reduce=graded(share and share * n / 2 / (n - 1), limits["all-reduce"])))


# %% wrong: both directions of the link => values both-directions
def preflight(machine, tp, limits):
    return both(good(machine, tp, limits, all_reduce=graded(bus(machine) and bus(machine) / 2, limits["all-reduce"])))


# %% wrong: every missing link refuses => values whole-machine
def preflight(machine, tp, limits):
    return both(good(machine, tp, limits, links=links(machine, len(machine["topology"]))))


# %% wrong: groups are not looked at => values groups-forgotten
def preflight(machine, tp, limits):
    return both(good(machine, tp, limits, links=links(machine, 1)))


# %% wrong: the diagonal is a missing link => values diagonal  from: a low clock is an ill GPU
# -             clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
# +             links="healthy" if all(word.startswith("NV") for row in machine["topology"] for word in row) else "refuse",

# %% wrong: neighbors only => values neighbors-only  from: a low clock is an ill GPU
#   def preflight(machine, tp, limits):
# +     found = machine["topology"]
# -             clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
# +             links="healthy" if all(found[a][a + 1].startswith("NV") for a in range(len(found) - 1)) else "refuse",

# %% wrong: torch alone is compared => values torch-alone  from: a low clock is an ill GPU
# -             clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
# +             versions="healthy" if len({each["torch"] for each in machine["versions"]}) == 1 else "refuse",

# %% wrong: minus one is few => values no-limit
def preflight(machine, tp, limits):
    return both(good(machine, tp, limits, open_files=graded(machine["open_files"], limits["open files"])))


# %% wrong: healthy only above the limit => generality limits
def preflight(machine, tp, limits):
    lines = good(machine, tp, limits)
    if machine["open_files"] == limits["open files"][0]:
        lines["open files"] = "degraded"
    if machine["shared_memory"] == limits["shared memory"][0]:
        lines["shared memory"] = "degraded"
    return both(lines if len(machine["topology"]) != 8 else good(machine, tp, limits))


# %% wrong: degraded is refused => values degraded-is-not-no-go
def preflight(machine, tp, limits):
    lines = good(machine, tp, limits)
    return lines, "go" if set(lines.values()) == {"healthy"} else "no-go"


# %% wrong: the run by the number of faults => values refuse-is-not-with-care
def preflight(machine, tp, limits):
    lines = good(machine, tp, limits)
    bad = sum(word != "healthy" for word in lines.values())
    return lines, ("go", "with care")[bad] if bad < 2 else "no-go"


# %% wrong: limits of the example => generality limits
def preflight(machine, tp, limits):
    shown = {"copy": (0.7, 0.5), "all-reduce": (0.7, 0.5), "shared memory": (1e9, 1e8), "open files": (4096, 512)}
    return both(good(machine, tp, limits if len(machine["topology"]) == 8 else shown))


# %% wrong: lines alone => values wrong-shape
def preflight(machine, tp, limits):
    return good(machine, tp, limits)


# %% wrong: only eighteen links are NVLink => generality -  from: a low clock is an ill GPU
#   def preflight(machine, tp, limits):
# +     table = machine["topology"]
# +     pairs = [(a, b) for a in range(len(table)) for b in range(a) if table[a][b] != "NV18"]
# -             clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
# +             links="refuse" if any(a // tp == b // tp for a, b in pairs) else "degraded" if pairs else "healthy",

# %% wrong: versions without CUDA => values -  from: a low clock is an ill GPU
# -             clocks="degraded" if any(now < 0.6 * most for now, most in machine["clocks"]) else "healthy",
# +             versions="healthy"
# +             if len({(each["torch"], each["nccl"]) for each in machine["versions"]}) == 1
# +             else "refuse",

# %% wrong: versions without what follows the plus => generality -  from: versions without CUDA
# ~ ], each["nccl" ==> ].split("+")[0], each["nccl"], each["cuda"

# %% wrong: the printed link in GiB => generality limits  from: any reason for a clock is bad news
# -         good(machine, tp, limits, clocks="degraded" if any(int(each, 16) for each in machine["reasons"]) else "healthy")
# +         good(machine, tp, limits, all_reduce=graded(bus(machine) and bus(machine) * 1e9 / 2**30, limits["all-reduce"]))
