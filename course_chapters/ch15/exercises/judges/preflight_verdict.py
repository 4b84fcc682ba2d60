"""Judge of preflight-verdict: would you start a run on this machine?"""

import copy
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_chapters.ch15.exercises.preflight_verdict import CARD, LIMITED, LINES, RUNS, WORDS, limits_of
from course_grader.judging import Fault, Judging, Mistake, Params, describe, first, verdict
from course_grader.judging.diagnoses import plain_word
from course_grader.judging.per_row import Word, rows_fault
from course_grader.judging.random_inputs import generality
from course_grader.records import Case, Outcome, Verdict
from course_lib.cluster.collectives import bus_bandwidth
from course_lib.estimate import facts

HELD = 0x8 | 0x20 | 0x40 | 0x80
# reasons of a GPU at work: none, a set clock, the requested power, a group's common clock, a display's
HARMLESS = (0x0, 0x2, 0x4, 0x10, 0x100)
Machine = dict[str, Any]
Limits = Mapping[str, tuple[float, float]]
Row = tuple[Machine, int, Limits]  # the machine, GPUs of a tensor-parallel group, limits by line


def against(value: float | None, limits: tuple[float, float]) -> str:
    sound, least = limits
    if value is None:
        return "degraded"
    return "healthy" if value >= sound else "degraded" if value >= least else "refuse"


def bus_share(machine: Machine) -> float | None:
    """Bus bandwidth of the all-reduce over one direction of a link."""
    done, ranks = machine["all_reduce"], len(machine["topology"])
    return done and bus_bandwidth("all_reduce", done["nbytes"], done["seconds"], ranks) / machine["printed_link"]


def values(machine: Machine) -> dict[str, float | None]:
    copies = machine["copy"]
    return {
        "copy": None if None in copies else min(copies) / machine["printed_copy"],
        "all-reduce": bus_share(machine),
        "shared memory": machine["shared_memory"],
        "open files": math.inf if machine["open_files"] == -1 else machine["open_files"],
    }


def without_nvlink(machine: Machine) -> list[tuple[int, int]]:
    """Pairs of GPUs that are not joined by NVLink, the larger number first."""
    links = machine["topology"]
    return [(a, b) for a in range(len(links)) for b in range(a) if not links[a][b].startswith("NV")]


def reasons_of(machine: Machine) -> list[int]:
    return [int(bits, 16) for bits in machine["reasons"]]


def lines_of(machine: Machine, tp: int, limits: Limits, held: int = HELD) -> dict[str, str]:
    """The right verdict on each line; `held` are the reasons that slow a GPU."""
    first, *others = machine["versions"]
    apart = without_nvlink(machine)
    return {
        "versions": "refuse" if any(each != first for each in others) else "healthy",
        "clocks": "degraded" if any(bits & held for bits in reasons_of(machine)) else "healthy",
        "links": "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy",
        **{name: against(value, limits[name]) for name, value in values(machine).items()},
    }


def run_of(lines: Mapping[str, str]) -> str:
    return RUNS[max(lines.values(), key=WORDS.index)]


# --- machines

SAME = {"torch": "2.9.1+cu128", "nccl": "2.27.7", "cuda": "12.8"}
OTHER_VERSIONS = (("nccl", "2.27.5"), ("cuda", "12.6"), ("torch", "2.9.0+cu128"), ("torch", "2.9.1+cu126"))
SYSTEM = {"shared memory": "shared_memory", "open files": "open_files"}


def sound(rng: random.Random, limits: Limits, ranks: int = 8, links: str = "NV18") -> Machine:
    """A machine without a fault: its GPUs are idle or busy, and as fast as such GPUs are."""
    sheet = facts.device("H100 SXM")
    link, printed = float(sheet.link_one_way or 0), float(sheet.bandwidth)
    busy = rng.random() < 0.5
    nbytes = rng.choice((2**28, 2**30, 2**32))
    bus = link * limits["all-reduce"][0] * rng.uniform(1.2, 1.5)
    return {
        "versions": [dict(SAME) for _ in range(ranks)],
        "clocks": [(rng.choice((1755, 1830, 1980)) if busy else 345, 1980) for _ in range(ranks)],
        "reasons": [f"0x{rng.choice(HARMLESS if busy else (0x1,)):016x}" for _ in range(ranks)],
        "topology": [["X" if a == b else links for b in range(ranks)] for a in range(ranks)],
        "copy": [printed * limits["copy"][0] * rng.uniform(1.25, 1.6) for _ in range(ranks)],
        "printed_copy": printed,
        "all_reduce": {"nbytes": nbytes, "seconds": 2 * (ranks - 1) / ranks * nbytes / bus},
        "printed_link": link,
        "shared_memory": limits["shared memory"][0] * rng.choice((1, 2, 16)),
        "open_files": rng.choice((limits["open files"][0], 65536, 1_048_576, -1)),
    }


def _cut(machine: Machine, tp: int, rng: random.Random, inside: bool) -> Machine:
    """One pair of a group, or all pairs across groups, without NVLink; not neighbors where others exist."""
    word, links = rng.choice(("SYS", "NODE", "PHB", "PXB", "PIX")), copy.deepcopy(machine["topology"])
    pairs = [(a, b) for a in range(len(links)) for b in range(a) if (a // tp == b // tp) == inside]
    pairs = [(a, b) for a, b in pairs if a - b > 1 or (inside and tp == 2)]
    for a, b in [rng.choice(pairs)] if inside and pairs else pairs:
        links[a][b] = links[b][a] = word
    return {"topology": links}


def faults(machine: Machine, tp: int, limits: Limits, rng: random.Random) -> dict[str, Machine]:
    place = rng.randrange(len(machine["topology"]))

    def one(key: str, value: Any) -> Machine:
        return {key: [*machine[key][:place], value, *machine[key][place + 1 :]]}

    def copies(low: float, high: float) -> Machine:
        return one("copy", machine["printed_copy"] * limits["copy"][0] * rng.uniform(low, high))

    def little(line: str, limit: int) -> Machine:
        return {SYSTEM[line]: int(limits[line][limit] * rng.choice((0.3, 0.9)))}

    bits = rng.choice((0x8, 0x20, 0x40, 0x80, 0x48)) | rng.choice((0x0, 0x1, 0x4))
    clock = one("clocks", (rng.choice((1200, 1755, 1980)), 1980))
    return {
        "a rank with another NCCL or CUDA": one("versions", SAME | dict([rng.choice(OTHER_VERSIONS[:2])])),
        "a rank with another torch": one("versions", SAME | dict([OTHER_VERSIONS[2]])),
        "a GPU held down": {**one("reasons", f"0x{bits:016x}"), **clock},
        "a pair of one group without NVLink": _cut(machine, tp, rng, inside=True),
        "groups without NVLink between them": _cut(machine, tp, rng, inside=False),
        "one GPU that copies slowly": copies(0.7, 0.9),
        "one GPU that hardly copies": copies(0.2, 0.4),
        "a slow all-reduce": at_share(machine, limits, rng.uniform(0.9, 0.97)),  # a half of it is refused, 4/7 are not
        "an all-reduce that crawls": at_share(machine, limits, rng.uniform(0.1, 0.4)),
        "something not measured": rng.choice(({"all_reduce": None}, one("copy", None))),
        "little shared memory": little("shared memory", 0),
        "hardly any shared memory": little("shared memory", 1),
        "few open files": little("open files", 0),
        "hardly any open files": little("open files", 1),
    }


def at_share(machine: Machine, limits: Limits, share: float) -> Machine:
    """An all-reduce, if there is one, at this share of the bandwidth that is just healthy."""
    done, has = machine["all_reduce"], bus_share(machine)
    return {"all_reduce": done and done | {"seconds": done["seconds"] * has / limits["all-reduce"][0] / share}}


SHOWN: Limits = CARD.params["limits"]
FAULTS = tuple(faults(sound(random.Random(0), SHOWN), 2, SHOWN, random.Random(0)))


def machine(names: Sequence[str], rng: random.Random, tp: int, limits: Limits, ranks: int = 8) -> Row:
    made = sound(rng, limits, ranks)
    for name in names:
        made |= faults(made, tp, limits, rng)[name]
    return made, tp, limits


def one_by_one(limits: Limits, rng: random.Random) -> list[Row]:
    """Every version that may differ, every reason of a clock, other NVLinks, values on both sides of their limits and at them."""
    changes: list[Machine] = []
    for other in OTHER_VERSIONS:
        place = rng.randrange(2, 8)
        changes.append({"versions": [SAME | dict([other] if rank == place else []) for rank in range(8)]})
    for bits in (*HARMLESS, 0x8, 0x20, 0x40, 0x80):
        changes.append({"reasons": ["0x0000000000000000"] * 7 + [f"0x{bits:016x}"]})
    changes += [{key: value} for line, key in SYSTEM.items() for value in limits[line]]
    changes += [at_share(sound(rng, limits), limits, share) for share in (1.02, 0.98, 0.52, 0.48)]
    made = [sound(rng, limits) | change for change in changes]
    return [(each, 2, limits) for each in (*made, sound(rng, limits, links="NV12"), sound(rng, limits, links="NV6"))]


def drawn_limits(rng: random.Random) -> Limits:
    limits = limits_of(rng.choice((0.5, 0.55, 0.6)), rng.choice((0.45, 0.5, 0.6)), 2e9, 8192)
    return limits | {"shared memory": (2e9, 1e8), "open files": (8192, 1024)}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    tp, limits = params["tp"], params["limits"]
    shown = [machine(names, rng, tp, limits) for names in ((), *[(name,) for name in FAULTS])]
    unseen = []
    for _ in range(80):
        names = rng.sample(FAULTS, rng.choice((0, 1, 1, 1, 2, 3)))
        unseen.append(machine(names, rng, rng.choice((1, 2, 3, 4, 8)), drawn_limits(rng), rng.choice((2, 4, 8, 16))))
    unseen += one_by_one(drawn_limits(rng), rng)
    same, other = sound(rng, limits, 16) | {"open_files": 0}, drawn_limits(rng) | {"open files": (1, 0)}
    same["topology"][14][15] = same["topology"][15][14] = "SYS"
    same["copy"][:2] = None, 1.0
    far = sound(rng, limits, 16)
    far["topology"][15][8] = far["topology"][8][15] = "SYS"
    unseen += [(same, 4, limits), (same, 1, limits), (same, 4, other), (far, 8, limits), (far, 4, limits)]
    unseen += [machine([name], rng, 2, limits, 2) for name in ("a slow all-reduce", "a GPU held down")]
    return [Case(name="eight GPUs", args=(0, shown)), generality("lines", 0, "other machines", unseen)]


# --- the lines

Named = tuple[str, Mistake]  # a line, and a mistake on it


def _of(line: str, name: str, change: Callable[[Machine], Machine], message: str, **how: Any) -> Named:
    """A mistake that gives the line the verdict of a changed machine."""

    def word(machine: Machine, tp: int, limits: Limits) -> str:
        return lines_of(machine | change(machine), tp, limits, **how)[line]

    return line, Mistake(name, word, message)


def _unmeasured(line: str, word: str) -> Named:
    def found(*row: Any) -> str:
        return word if values(row[0])[line] is None else lines_of(*row)[line]

    return line, Mistake("unmeasured", found, f"what was not measured is not {word!r}.")


def _grouped(name: str, size: Callable[[Machine], int], message: str) -> Named:
    return "links", Mistake(name, lambda one, tp, limits: lines_of(one, size(one), limits)["links"], message)


def _mean_copy(machine: Machine) -> Machine:
    copies = machine["copy"]
    return {} if None in copies else {"copy": [sum(copies) / len(copies)]}


def _low_clocks(machine: Machine) -> Machine:
    return {"reasons": ["0x8" if now < 0.6 * most else "0x0" for now, most in machine["clocks"]]}


def _by_algorithm(machine: Machine) -> Machine:
    return {"printed_link": machine["printed_link"] * 2 * (1 - 1 / len(machine["topology"]))}


def _neighbors(machine: Machine, tp: int, limits: Limits) -> str:
    return "refuse" if any(a - b == 1 for a, b in without_nvlink(machine)) else "healthy"


def _torch(machine: Machine) -> Machine:
    return {"versions": [{"torch": each["torch"]} for each in machine["versions"]]}


ALGORITHM = "this is the algorithm bandwidth: how much does a ring send over each link?"
MISTAKES: Sequence[Named] = (
    _of("versions", "torch-alone", _torch, "is torch all that two ranks must have in common?"),
    _of("versions", "first-two", lambda m: {"versions": m["versions"][:2]}, "compare all ranks."),
    _of("clocks", "idle-is-no-fault", lambda m: {}, "which reasons are harmless?", held=0x1FF),
    _of("clocks", "low-clock", _low_clocks, "an idle GPU has a low clock too: ask for the reason of the clock."),
    _of("clocks", "first-gpu", lambda m: {"reasons": m["reasons"][:1]}, "look at all GPUs."),
    _grouped("whole-machine", lambda m: len(m["topology"]), "is the pair in one group?"),
    _grouped("groups-forgotten", lambda m: 1, "two GPUs of one group lack NVLink."),
    ("links", Mistake("neighbors-only", _neighbors, "look at all pairs, not only at neighbors.")),
    ("links", Mistake("diagonal", lambda *row: "refuse", "the diagonal of the matrix says X: a GPU and itself.")),
    _of("copy", "mean", _mean_copy, "the mean hides the GPU that all others wait for."),
    _of("all-reduce", "algorithm-bandwidth", _by_algorithm, ALGORITHM),
    _of("all-reduce", "both-directions", lambda m: {"printed_link": 2 * m["printed_link"]}, "the link is one way."),
    *(_unmeasured(line, word) for line in ("copy", "all-reduce") for word in ("healthy", "refuse")),
    _of("open files", "no-limit", lambda m: {"open_files": max(m["open_files"], 0)}, "−1 means that no limit is set."),
)


def _shown(line: str, machine: Machine, tp: int, limits: Limits) -> str:
    if line in LIMITED:
        value = values(machine)[line]
        return f"{'not measured' if value is None else f'{value:.4g}'}, with the limits {limits[line]}"
    if line == "versions":
        return " and ".join(sorted({" ".join(map(" ".join, each.items())) for each in machine["versions"]}))
    if line == "clocks":
        return f"reasons {', '.join(sorted({hex(bits) for bits in reasons_of(machine)}))}"
    pairs, links = without_nvlink(machine), machine["topology"]
    if not pairs:
        return f"{links[0][-1]} between all GPUs"
    (a, b), more = pairs[0], f" and {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
    return f"{links[a][b]} between GPUs {b} and {a}{more}, groups of {tp}"


def _line_fault(case: Case, line: str, said: Sequence[Any]) -> Fault | None:
    """What is wrong with the verdicts on a line; a known mistake that explains all rows comes first."""
    words = [plain_word(each.get(line)) if type(each) is dict else None for each in said]
    column = Word(part=line, choices=WORDS, want=lambda *row: lines_of(*row)[line], words=partial(_shown, line))
    if (fault := column.fault(case, words)) is None:
        return None
    for named, mistake in MISTAKES:
        if named == line and words == [mistake.on(*row) for row in case.args[1]]:
            return mistake.name, f"{line}: {mistake.message}"
    return fault[0] or ("limits" if line in LIMITED else ""), f"{line}: {fault[1]}"


def _run_fault(case: Case, lines: Any, run: Any, want: Mapping[str, str]) -> Fault | None:
    """What is wrong with the verdict on a run whose right lines are `want`."""
    said, worst = plain_word(run), max(want.values(), key=WORDS.index)
    if said == RUNS[worst]:
        return None
    if type(said) is not str or said not in RUNS.values():
        choices = ", ".join(map(repr, RUNS.values()))
        return "no-such-word", f"{case.name}: the second value is one of {choices}; got {describe(run)}."
    own = {name: plain_word(word) for name, word in lines.items()} if type(lines) is dict else {}
    if own and all(word in WORDS for word in own.values()) and run_of(own) == said:
        return "from-wrong-lines", f"{case.name}: {run!r} follows from your lines, but a line is not right yet."
    name = f"{worst}-is-not-{said.replace(' ', '-')}"
    return name, f"{case.name}: you say {run!r} where the worst line is {worst!r}."


GROUPS: dict[str, Sequence[str]] = {name: (name,) for name in ("versions", "clocks", "links")}
GROUPS |= {"rates": ("copy", "all-reduce"), "system": ("shared memory", "open files")}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    groups = {"lines": tuple(LINES)} if case.kind == "generality" else GROUPS
    if fault := rows_fault(case, outcome.value, 2):
        return [verdict(case.kind, part, case, fault) for part in (*groups, "run")]
    said = [lines for lines, _ in outcome.value]
    faults = {part: first(*(_line_fault(case, line, said) for line in lines)) for part, lines in groups.items()}
    pairs = zip(outcome.value, case.args[1], strict=True)
    faults["run"] = first(*(_run_fault(case, *pair, lines_of(*row)) for pair, row in pairs))
    return [verdict(case.kind, part, case, fault) for part, fault in faults.items()]


JUDGING = Judging(
    shares="values:versions 0.08, values:clocks 0.1, values:links 0.12, values:rates 0.14, values:system 0.08, "
    "values:run 0.08, generality:lines 0.3, generality:run 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""A step ends when the slowest rank has finished, so the worst GPU decides, never the mean. A low clock is not a fault by itself; ask for its reason.
The placement of groups decides what a missing link costs. And what was not measured is not good news: it is degraded until somebody measures it.""",
    pytorch="""`nvidia-smi topo -m`, `nvidia-smi --query-gpu=clocks_event_reasons.active`, nccl-tests' `all_reduce_perf`, and DCGM's `dcgmi diag -r 2`.
`./course run tour` begins with the same questions.""",
)

ANSWERS = r"""import math

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
"""
