from collections.abc import Mapping, Sequence
from typing import TypedDict

from course_chapters.ch18.exercises.diagnose_step import CAUSES
from course_grader.judging import Case, Column, Judging, Params, Random, Worked, hidden, shown, table
from course_grader.judging.diagnoses import Diagnosis
from course_lib.messages import count_text

right = Worked("diagnose-step")
LOOK: Mapping[str, str] = {
    "compiles": "What does the host do before it launches?",
    "late data": "What does the host do at the beginning of the step?",
    "synchronizes": "The device is idle. Did the host wait for it before?",
    "launch-bound": "The device is idle. What does the host do in these gaps?",
    "exposed": "What else runs while the communication does?",
    "small kernels": "Which kernels take most of the step?",
    "sound": "The device is busy with matmuls.",
}


class Trace(TypedDict):
    """A step: its seconds, and what device and host do, each (what, start, end)."""

    seconds: int
    device: list[tuple[str, int, int]]
    host: list[tuple[str, int, int]]


def _queued(
    kernels: Sequence[tuple[str, int]], launch: int, host: Mapping[int, tuple[str, int]] | None = None, sent: int = 0
) -> Trace:
    """A step as a queue runs it: before kernel i, `host[i]` is what the host does first; a wait ends when the device
    has run all, and Python goes on for so long. Then `sent` of communication, half of it under the last kernel."""
    now, free = 0, 0
    seen: list[tuple[str, int, int]] = []
    device: list[tuple[str, int, int]] = []
    for place, (kind, lasts) in enumerate(kernels):
        what, extra = (host or {}).get(place, ("", 0))
        if what:
            until = max(now, free) if what == "wait" else now + extra
            seen.append((what, now, until))
            now = until + (extra if what == "wait" else 0)
        seen.append(("launch", now, now + launch))
        now += launch
        free = max(now, free) + lasts
        device.append((kind, free - lasts, free))
    if sent:
        device.append(("communication", free - sent // 2, free + sent - sent // 2))
    return {"seconds": max(end for _, _, end in [*seen, *device]), "device": device, "host": seen}


def _drawn(rng: Random, cause: str) -> Trace:
    """A step of 30 kernels with one cause."""
    small = cause == "small kernels"
    often = 0.9 if small else 0.25
    kernels = [("small" if rng.random() < often else "matmul", rng.randrange(40, 80)) for _ in range(30)]
    total = sum(lasts for _, lasts in kernels)
    if cause == "launch-bound":
        return _queued(kernels, rng.randrange(110, 150))
    host = {
        "compiles": {0: ("compile", total)},
        "late data": {0: ("data", total)},
        "synchronizes": dict.fromkeys((5, 12, 19, 26), ("wait", total // 8)),
    }.get(cause, {})
    trace = _queued(kernels, 5, host, total if cause == "exposed" else total // 20)
    rng.shuffle(trace["device"])
    return trace


def _flat(*device: tuple[str, int, int], host: Sequence[tuple[str, int, int]] = (), seconds: int = 1000) -> Trace:
    return {"seconds": seconds, "device": list(device), "host": list(host)}


def _cases(params: Params, rng: Random) -> list[Case]:
    limit, words = params["percent"] / 100, list(CAUSES)
    sent = ("communication", 550, 980), ("communication", 760, 980)
    nested = [  # in which no two wrong unions have the same length and the same cause
        _flat(("matmul", 0, 500), ("small", 100, 450), ("small", 470, 600), ("communication", 400, 900), sent[0]),
        _flat(("matmul", 0, 800), ("small", 100, 700), ("small", 750, 900), ("communication", 600, 950), sent[1]),
    ]
    known = [*nested, *(_drawn(rng, word) for word in words), _flat(("matmul", 0, 700), ("small", 700, 1000))]
    other = [_drawn(rng, word) for word in rng.sample(words * 2, 2 * len(words))]
    half, quarter = ("matmul", 0, 500), 0.25
    sent = ("communication", 200, 950), ("communication", 300, 1000)
    two_streams = _flat(("matmul", 0, 800), ("small", 100, 900), *sent)
    edges = [
        _flat(("matmul", 0, 750)),  # idle for exactly the limit
        _flat(("matmul", 0, 749)),
        _flat(("matmul", 0, 749), host=[("wait", 0, 1)]),
        _flat(("matmul", 0, 750), ("communication", 700, 1000)),  # exposed for exactly the limit
        _flat(("matmul", 0, 749), ("communication", 0, 1000)),
        _flat(half, ("small", 500, 1000)),  # small for exactly twice the limit
        _flat(("matmul", 0, 499), ("small", 499, 1000)),
        _flat(half, ("small", 500, 1000), host=[("compile", 0, 250), ("data", 0, 251)]),
        _flat(half, ("small", 400, 1000), host=[("compile", 0, 130), ("compile", 100, 251), ("data", 0, 900)]),
        _flat(("matmul", 0, 1000), ("small", 100, 300), ("small", 150, 400), ("small", 200, 500)),  # summed: 750
        _flat(half, ("communication", 500, 760), ("small", 400, 1000)),  # hidden behind small kernels
        _flat(half, ("small", 200, 1000), host=[("wait", 0, 1000)]),  # a wait, and no gap
        _flat(half, ("small", 500, 1000), host=[("data", 0, 250)]),  # late for exactly the limit
        _flat(("matmul", 0, 400), ("communication", 400, 700)),  # idle and exposed
    ]
    return [
        shown("a step of each kind", "values:idle", 0, [(trace,) for trace in known]),
        shown("a step of each kind", "values:cause", 1, [(trace, limit) for trace in known]),
        hidden("other steps", "generality:idle", 0, [(trace,) for trace in (*other, two_streams, *edges)]),
        hidden("other steps", "generality:cause", 1, [(trace, limit) for trace in (*other, two_streams)]),
        hidden("at the limits", "generality:cause", 1, [(trace, quarter) for trace in edges]),
        hidden("one step, three limits", "generality:cause", 1, [(edges[0], each) for each in (0.2, quarter, 0.3)]),
        hidden("small kernels, another limit", "generality:cause", 1, [(edges[6], each) for each in (quarter, 0.3)]),
    ]


def _words(trace: Trace, *_: object) -> str:
    return f"a step of {count_text(len(trace['device']), 'kernel')} and {trace['seconds']} s"


JUDGING = Judging(
    shares="values:idle 0.1, values:exposed 0.1, values:cause 0.2, generality:idle 0.1, generality:exposed 0.1, "
    "generality:cause 0.4",
    cases=_cases,
    verdicts=table(
        [Column("idle", "of the step", words=_words), Column("exposed", "of the step", words=_words)],
        Diagnosis("cause", tuple(CAUSES), words=_words, fine="sound", look=LOOK),
        right=right,
    ),
    why="Everything is a length of unions over the step. The order matters: a device that waits for a compiler, for "
    "data or for the host has gaps in each case, so the causes that the host names come first, and “launch-bound” is "
    "what is left of idle time. Only a busy device can suffer from small kernels.",
    pytorch="`torch.profiler` and Perfetto show the same lanes; Holistic Trace Analysis computes idle time by cause, "
    "communication overlap and the queue's length.",
)

ANSWERS = r'''# %% right: worked
def union(spans: list[tuple[float, float]]) -> float:
    """Seconds in which at least one of the spans runs."""
    total, last = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def shares(trace: dict) -> tuple[float, float]:
    """Fractions of the step: no kernel runs; communication runs and nothing else does."""
    ### BEGIN SOLUTION
    every = union([(start, end) for _, start, end in trace["device"]])
    work = union([(start, end) for kind, start, end in trace["device"] if kind != "communication"])
    return (trace["seconds"] - every) / trace["seconds"], (every - work) / trace["seconds"]
    ### END SOLUTION


def cause(trace: dict, limit: float) -> str:
    """The first cause that applies, in one word."""
    ### BEGIN SOLUTION
    most = limit * trace["seconds"]

    def takes(lane: str, what: str) -> float:
        return union([(start, end) for name, start, end in trace[lane] if name == what])

    idle, exposed = shares(trace)
    if takes("host", "compile") > most:
        return "compiles"
    if takes("host", "data") > most:
        return "late data"
    if idle > limit:
        return "synchronizes" if any(what == "wait" for what, _, _ in trace["host"]) else "launch-bound"
    if exposed > limit:
        return "exposed"
    return "small kernels" if takes("device", "small") > 2 * most else "sound"
    ### END SOLUTION
# %% right: by the part beyond the last end
# ~ total += max(0.0, end - max(start, last)) ==> total += max(end, last) - max(start, last) if end > last else 0.0
# ~ idle, exposed = shares(trace) ==> idle, exposed = list(shares(trace))
# %% wrong: lengths added up => values
# > lengths of kernels that overlap were added up.
# ~ total += max(0.0, end - max(start, last)) ==> total += end - start
# %% wrong: in the order of their ends => values -
# ~ sorted(spans) ==> sorted(spans, key=lambda span: span[1])
# %% wrong: goes back to the end of a shorter one => values -
# ~ last = max(last, end) ==> last = end
# %% wrong: more than half of the step => generality false-alarm
# ~ > 2 * most ==> > trace["seconds"] / 2
# %% wrong: all communication is exposed => values
# > communication that runs under a matmul or a small kernel is not exposed.
# ~ (every - work) ==> union([(a, b) for kind, a, b in trace["device"] if kind == "communication"])
# %% wrong: waiting for communication is idle => values
# > the device is not idle while communication runs.
# ~ (trace["seconds"] - every) / trace["seconds"] ==> (trace["seconds"] - work) / trace["seconds"]
# %% wrong: seconds instead of fractions => values
# > these are seconds, not fractions of the step.
# ~ (trace["seconds"] - every) / trace["seconds"], (every - work) / trace["seconds"]
# ~~ ==> trace["seconds"] - every, every - work
# %% wrong: launches first => values not-compiles
# ~ if takes("host", "compile") > most: ==> if idle > limit:
# ~ return "compiles" ==> return "launch-bound"
# %% wrong: seconds against the limit => generality
# > `cause` compares seconds with the limit, which is a fraction of the step.
# ~ takes("host", "compile") > most: ==> takes("host", "compile") > limit:
# ~ takes("host", "data") > most: ==> takes("host", "data") > limit:
# %% wrong: data first => generality
# > the host compiles for more than the limit, and that cause comes before late data.
# ~ if takes("host", "compile") > most: ==> if takes("host", "compile") > most >= takes("host", "data"):
# %% wrong: a wait is enough => generality
# > the host waits, but the device is not idle for long enough.
# ~ if idle > limit: ==> if idle > limit or any(what == "wait" for what, _, _ in trace["host"]):
# %% wrong: at the limit => generality false-alarm
# ~ if idle > limit: ==> if idle >= limit:
# %% wrong: small kernels by the single limit => values
# > small kernels must run for more than twice the limit.
# ~ > 2 * most ==> > most
# %% wrong: every gap is a synchronization => values not-launch-bound
# ~ else "launch-bound" ==> else "synchronizes"
# %% wrong: left as it is => not-answered
# ~ every = union ==> raise NotImplementedError; every = union
'''
