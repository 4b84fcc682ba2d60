import math

HELD = 0x8 | 0x20 | 0x40 | 0x80


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
    links, copies, files, done = (machine[name] for name in ("topology", "copy", "open_files", "all_reduce"))
    apart = [(a, b) for a, row in enumerate(links) for b, link in enumerate(row) if a != b and link[:2] != "NV"]
    numbers = {
        "shared memory": machine["shared_memory"],
        "open files": 10**12 if files < 0 else files,
        "copy": None if None in copies else min(copy / machine["printed_copy"] for copy in copies),
        "all-reduce": done and done["nbytes"] / done["seconds"] * 2 * (1 - 1 / len(links)) / machine["printed_link"],
    }
    level = {name: 1 if each is None else sum(each < limit for limit in limits[name]) for name, each in numbers.items()}
    level["versions"] = 2 * (len({tuple(sorted(each.items())) for each in machine["versions"]}) > 1)
    level["clocks"] = int(any(int(bits, 0) & 1 << place for bits in machine["reasons"] for place in (3, 5, 6, 7)))
    level["links"] = max((2 - (a // tp != b // tp) for a, b in apart), default=0)
    words = {name: ("healthy", "degraded", "refuse")[each] for name, each in level.items()}
    return words, ("go", "with care", "no-go")[max(level.values())]


# %% wrong: every machine is fine => values -  from: one line after another
# ~ lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst] ==> dict.fromkeys(lines, "healthy"), "go"

# %% wrong: any reason for a clock is bad news => values idle-is-no-fault  from: one line after another
# ~ int(each, 16) & HELD ==> int(each, 16)

# %% wrong: a low clock is an ill GPU => values low-clock  from: one line after another
# ~ int(each, 16) & HELD for each in machine["reasons"] ==> now < 0.6 * most for now, most in machine["clocks"]

# %% wrong: the mean of the copies => values mean  from: one line after another
# ~ min(copies) ==> sum(copies) / len(copies)

# %% wrong: what was not measured is fine => values unmeasured  from: one line after another
# ~ "degraded" if value is None or least ==> "healthy" if value is None else "degraded" if least

# %% wrong: bytes over seconds for bus bandwidth => values algorithm-bandwidth  from: one line after another
# ~ 2 * (n - 1) / n * sum_of["nbytes"] ==> sum_of["nbytes"]

# %% wrong: both directions of the link => values both-directions  from: one line after another
# ~ 2 * (n - 1) / n * sum_of["nbytes"] ==> (n - 1) / n * sum_of["nbytes"]

# %% wrong: every missing link refuses => values whole-machine  from: one line after another
# ~ any(a // tp == b // tp for a, b in apart) ==> apart

# %% wrong: groups are not looked at => values groups-forgotten  from: one line after another
# ~ any(a // tp == b // tp for a, b in apart) ==> False

# %% wrong: the diagonal is a missing link => values diagonal  from: one line after another
# ~ for b in range(a) ==> for b in range(n)

# %% wrong: neighbors only => values neighbors-only  from: one line after another
# ~ for b in range(a) ==> for b in range(max(a - 1, 0), a)

# %% wrong: torch alone is compared => values torch-alone  from: one line after another
# ~ rank == machine["versions"][0] ==> rank["torch"] == machine["versions"][0]["torch"]

# %% wrong: minus one is few => values no-limit  from: one line after another
# ~ math.inf if files == -1 else files ==> files

# %% wrong: healthy only above the limit => generality limits  from: one line after another
# ~ least <= value < sound ==> least <= value < sound or (value == sound and n != 8)

# %% wrong: degraded is refused => values degraded-is-not-no-go  from: one line after another
# ~ "degraded": "with care" ==> "degraded": "no-go"

# %% wrong: the run by the number of faults => values refuse-is-not-with-care  from: one line after another
# -     return lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst]
# +     bad = sum(word != "healthy" for word in lines.values())
# +     return lines, ("go", "with care", "no-go")[min(bad, 2)]

# %% wrong: lines alone => values wrong-shape  from: one line after another
# ~ return lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst] ==> return lines

# %% wrong: only eighteen links are NVLink => generality -  from: one line after another
# ~ if not found[a][b].startswith("NV") ==> if found[a][b] != "NV18"

# %% wrong: versions without CUDA => values -  from: one line after another
# ~ rank == machine["versions"][0] ==> rank | {"cuda": 0} == machine["versions"][0] | {"cuda": 0}

# %% wrong: versions without what follows the plus => generality -  from: one line after another
#       n, files = len(found), machine["open_files"]
# +     machine = machine | {"versions": [each | {"torch": each["torch"].split("+")[0]} for each in machine["versions"]]}

# %% wrong: the printed link in GiB => generality limits  from: one line after another
# ~ sum_of["seconds"] / machine["printed_link"] ==> sum_of["seconds"] / machine["printed_link"] * 1e9 / 2**30

# %% wrong: the second limit guessed from the first => generality limits  from: one line after another
#           sound, least = limits[name]
# +         least = sound / {"copy": 2, "all-reduce": 2, "shared memory": 8, "open files": 4}[name]
