"""Judge of exposed-seconds: exposed communication."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from course_chapters.ch15.exercises.judges.shared import Seconds
from course_chapters.ch15.exercises.work import traces
from course_grader.judging import Judging, Mistake, Params, verdict
from course_grader.judging.cases import hidden, shown
from course_grader.judging.per_row import Breakdown, rows_fault
from course_grader.judging.random_inputs import generality
from course_grader.records import Case, Outcome, Verdict
from course_lib.cluster.intervals import Interval, length, union

Kernel = tuple[str, int, float, float]
Spans = Sequence[Interval]
Row = tuple[Sequence[Kernel], float, float]  # kernels, begin and end of the step

KEYS = ("compute", "exposed", "hidden", "idle")
TALK = {"neither": ("communication",), "talk": ("communication", "copy")}


def clipped(spans: Iterable[Interval], begin: float, end: float) -> list[Interval]:
    """What of the spans lies between `begin` and `end`."""
    inside = ((max(start, begin), min(stop, end)) for start, stop in spans)
    return [(start, stop) for start, stop in inside if stop > start]


def covered(spans: Iterable[Interval], begin: float = -math.inf, end: float = math.inf) -> float:
    """Seconds between `begin` and `end` in which at least one span runs."""
    return length(union(clipped(spans, begin, end)))


def of_kinds(kernels: Iterable[Kernel], kinds: Sequence[str]) -> list[Interval]:
    return [(start, end) for kind, _, start, end in kernels if kind in kinds]


def step_times(
    kernels: Sequence[Kernel], begin: float, end: float, copies: str = "neither", busy: Callable[..., float] = covered
) -> Seconds:
    """Seconds of computing, of exposed and of hidden communication, and of neither; `busy` measures a set of spans."""
    compute, talk = of_kinds(kernels, ("compute",)), of_kinds(kernels, TALK[copies])
    computing, talking, either = (busy(spans, begin, end) for spans in (compute, talk, [*compute, *talk]))
    hidden = computing + talking - either
    return {"compute": computing, "exposed": either - computing, "hidden": hidden, "idle": end - begin - either}


def _merged(spans: Spans, begin: float, end: float) -> float:
    """Neighbors merged with the end of the later one, even if the earlier one lasts longer."""
    total, last = 0.0, begin
    for start, stop in sorted(spans):
        start, stop = max(start, begin), min(stop, end)
        total += max(0.0, stop - max(start, last))
        last = stop
    return total


def _wall_less_computing(compute: Spans, talk: Spans, wall: float) -> Seconds:
    return {"exposed": wall - covered(compute), "hidden": covered(talk) + covered(compute) - wall, "idle": 0.0}


def _all(compute: Spans, talk: Spans, wall: float) -> Seconds:
    return dict.fromkeys(("exposed", "hidden"), covered(talk))


def _summed(compute: Spans, talk: Spans, wall: float) -> Seconds:
    one, two = length(compute), length(talk)
    return {"compute": one, "exposed": two, "hidden": min(one, two), "idle": wall - one - two}


def _one_by_one(compute: Spans, talk: Spans, wall: float) -> Seconds:
    hidden = sum(covered(compute, start, stop) for start, stop in talk)
    return {"exposed": length(talk) - hidden, "hidden": hidden}


def _pairs_summed(compute: Spans, talk: Spans, wall: float) -> Seconds:
    hidden = sum(length(clipped(compute, start, stop)) for start, stop in talk)
    return {"exposed": covered(talk) - hidden, "hidden": hidden}


def _copies_compute(kernels: Sequence[Kernel], *ends: float) -> Row:
    return [("compute" if kind == "copy" else kind, *rest) for kind, *rest in kernels], *ends


def _left_out(kernels: Sequence[Kernel], begin: float, end: float) -> Row:
    return [one for one in kernels if begin <= one[2] and one[3] <= end], begin, end


def _to_the_last(kernels: Sequence[Kernel], begin: float, end: float) -> Row:
    return kernels, begin, max([begin, *(min(stop, end) for *_, stop in kernels)])


RULES = {"neither": "leave copies out here.", "talk": "copies count as communication here."}


def asked(copies: str) -> Breakdown:
    """The four times, under one rule for copies."""
    other, public = ("talk", "other-form") if copies == "neither" else ("neither", "public-form")
    lead = "" if copies == "neither" else "this solves the public form of the exercise: "
    right = partial(step_times, copies=copies)

    def times(name: str, message: str, row: Callable[..., Row] = lambda *row: row, **how: Any) -> Mistake:
        """The times of another row, or with another rule or measure."""
        return Mistake(name, lambda *given: step_times(*row(*given), **{"copies": copies, **how}), message)

    def spans(name: str, way: Callable[[Spans, Spans, float], Seconds], message: str) -> Mistake:
        """A mistake that is a way to work on the clipped spans of computing and communicating."""

        def value(kernels: Sequence[Kernel], begin: float, end: float) -> Seconds:
            compute, talk = (clipped(of_kinds(kernels, kinds), begin, end) for kinds in (("compute",), TALK[copies]))
            return way(compute, talk, end - begin)

        return Mistake(name, value, message)

    return Breakdown(
        part="steps",
        unit="seconds",
        want=right,
        words=lambda kernels, begin, end: f"{len(kernels)} kernels between {begin:g} s and {end:g} s",
    ).knowing(
        times(public, lead + RULES[copies], copies=other),
        times("copies-compute", RULES[copies], _copies_compute),
        spans("wall-less-computing", _wall_less_computing, "an idle GPU does not communicate."),
        spans("all-communication", _all, "this is all communication, hidden or not."),
        spans("kernels-summed", _summed, "kernels that run at once were added up; each moment counts once."),
        spans("one-by-one", _one_by_one, "a moment in which two kernels communicate is counted twice here."),
        spans("pairs-summed", _pairs_summed, "the overlaps of all pairs were added up; a moment is hidden once."),
        times("not-cut", "time outside `begin` to `end` was counted.", busy=lambda spans, *ends: covered(spans)),
        times("left-out", "a kernel that crosses `begin` or `end` counts with its part inside.", _left_out),
        times("to-the-last-kernel", "after its last kernel the GPU is idle until `end`.", _to_the_last),
        Mistake("milliseconds", lambda *row: {of: 1e3 * s for of, s in right(*row).items()}, "return seconds."),
        times("end-forgotten", "a kernel inside an earlier one does not end that one.", busy=_merged),
    )


def made(rng: random.Random, count: int, wall: float = 10.0) -> list[Kernel]:
    """Kernels of a step: short ones that compute on two streams, longer ones that communicate on two others, copies."""
    kernels: list[Kernel] = []
    for place in range(count):
        kind = ("compute", "compute", "communication", "copy", "communication")[place % 5]
        longest = wall / count * (14 if kind == "communication" else 5)
        start = rng.uniform(-0.04, 1.0) * wall
        stream = {"compute": (7, 9), "communication": (13, 21), "copy": (2,)}[kind]
        kernels.append((kind, rng.choice(stream), start, start + rng.random() * longest))
    rng.shuffle(kernels)
    return kernels


def whole(rng: random.Random, count: int) -> list[Kernel]:
    """Kernels that begin and end at half seconds, so that many touch, nest and coincide; some without length."""
    kinds, lengths = ("compute", "communication", "communication", "copy"), (0, 0.5, 1, 1, 4)
    return [
        (rng.choice(kinds), rng.randrange(3), start := rng.randrange(0, 20) / 2, start + rng.choice(lengths))
        for _ in range(count)
    ]


C, T, H = "compute", "communication", "copy"
HIDDEN_ONCE = [(C, 7, 0.0, 4.0), (C, 9, 1.0, 3.0), (T, 13, 2.0, 6.0), (T, 21, 5.0, 7.0), (H, 2, 7.5, 8.0)]
HIDDEN_ONCE.append((C, 7, 8.0, 9.0))
NESTED = [(C, 7, 0.0, 5.0), (C, 9, 1.0, 2.0), (C, 7, 4.0, 6.0), (T, 13, 1.0, 9.0), (T, 21, 2.0, 3.0), (T, 13, 8.5, 9.5)]
EDGES: list[Row] = [
    ([], 0.0, 3.0),
    ([(C, 0, 1.0, 1.0)], 0.0, 2.0),
    ([(C, 300, -2.0, 1.0)], -3.0, 2.0),
    ([(T, 300, 0.0, 2.0)], 0.0, 2.0),
    ([(C, 0, 0.0, 1.0), (T, 1, 1.0, 2.0)], 0.0, 3.0),
    ([(T, 1, 0.0, 4.0), (T, 1, 0.0, 4.0), (C, 0, 1.0, 2.0)], 0.0, 4.0),
    ([(H, 2, 0.5, 1.5)], 0.0, 2.0),
]


def recorded_steps() -> list[Row]:
    rows: list[Row] = []
    for one in traces().values():
        kernels = [(kind, s, *map(float, span)) for s, kind in enumerate((C, T)) for span in one.get(kind, ())]
        if kernels:
            rows.append((kernels, min(each[2] for each in kernels), max(each[3] for each in kernels)))
    return rows


def _cases(params: Params, rng: random.Random) -> list[Case]:
    example = [(HIDDEN_ONCE, 0.0, 10.0), (NESTED, 0.0, 10.0), *recorded_steps()]
    ends = [(HIDDEN_ONCE, params["begin"], params["end"]), (NESTED, 4.5, 8.75)]
    other = [(made(rng, 20), 0.0, 10.0), (whole(rng, 12), 0.0, 12.0)]
    touching = "kernels that touch, nest, coincide"
    return [
        shown("two steps by hand, and what was recorded", "values:steps", 0, example),
        shown("cut by the ends of the step", "values:ends", 0, ends),
        hidden("two other steps", "values:steps", 0, other),
        hidden("another step, cut by its ends", "values:ends", 0, [(made(rng, 30), 3.0, 7.5)]),
        generality("overlaps", 0, "other steps", [(made(rng, rng.randrange(10, 120)), 0.0, 10.0) for _ in range(12)]),
        generality("overlaps", 0, touching, [(whole(rng, rng.randrange(2, 15)), 0.0, 12.0) for _ in range(20)]),
        generality("edges", 0, "nothing, no length, one kind", EDGES),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, times = rows_fault(case, outcome.value), asked(params["copies"])
    by_part = {key: replace(times, only=[key]) for key in KEYS} if case.part == "steps" else {case.part: times}
    faults = {part: fault or column.fault(case, outcome.value) for part, column in by_part.items()}
    return [verdict(case.kind, part, case, fault) for part, fault in faults.items()]


JUDGING = Judging(
    shares="values:compute 0.1, values:exposed 0.2, values:hidden 0.1, values:idle 0.1, values:ends 0.1, "
    "generality:overlaps 0.3, generality:edges 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""Kernels are intervals, and what counts is the length of a union. Exposed communication is union(both) − union(computing), so you need not find any
overlap. Sums of kernel times count moments twice; wall time less computing mistakes idle time, for instance behind a slow data loader, for communication.""",
    pytorch="""`torch.profiler` gives events of device type CUDA with a `time_range`; the names of NCCL's kernels contain `nccl`. `course_runs.tracing`
reads them, and `course_lib.cluster.intervals` adds them up.""",
)

ANSWERS = r"""# %% right: three unions
def busy(spans, begin, end):
    total, reach = 0.0, begin
    for s, e in sorted(spans):
        s, e = max(s, reach), min(e, end)
        if e > s:
            total, reach = total + e - s, e
    return total


def spans_of(kernels, *kinds):
    return [(s, e) for kind, _, s, e in kernels if kind in kinds]


def step_times(kernels, begin, end):
    compute, talk = spans_of(kernels, "compute"), spans_of(kernels, "communication")
    one, two, both = (busy(spans, begin, end) for spans in (compute, talk, compute + talk))
    return {"compute": one, "exposed": both - one, "hidden": one + two - both, "idle": end - begin - both}


# %% right: three unions of what the variant calls communication  from: three unions
from course_app.notebook import params

also = {"communication": ["copy"]} if params("exposed-seconds").copies == "talk" else {}


def spans_of(kernels, asked):
    return [(s, e) for kind, _, s, e in kernels if kind in [asked, *also.get(asked, [])]]


# %% right: every moment against every kernel
def step_times(kernels, begin, end):
    edges = sorted({begin, end, *[min(max(t, begin), end) for one in kernels for t in one[2:]]})
    found = {"compute": 0.0, "exposed": 0.0, "hidden": 0.0, "idle": 0.0}
    for s, e in zip(edges, edges[1:]):
        kinds = {kind for kind, _, a, b in kernels if a <= s and e <= b}
        found["compute"] += (e - s) * ("compute" in kinds)
        found["hidden"] += (e - s) * ({"compute", "communication"} <= kinds)
        found["exposed"] += (e - s) * ("communication" in kinds and "compute" not in kinds)
        found["idle"] += (e - s) * (not kinds & {"compute", "communication"})
    return found


# %% right: a sweep over starts and ends
def step_times(kernels, begin, end):
    found = {"compute": 0.0, "exposed": 0.0, "hidden": 0.0, "idle": 0.0}
    events = [(begin, None, 0), (end, None, 0)]
    for kind, _, s, e in kernels:
        if kind != "copy" and e > s:
            events += [(min(max(s, begin), end), kind, 1), (min(max(e, begin), end), kind, -1)]
    running = {"compute": 0, "communication": 0}
    last = begin
    for moment, kind, change in sorted(events, key=lambda event: event[0]):
        width = moment - last
        if running["compute"] > 0:
            found["compute"] += width
            if running["communication"] > 0:
                found["hidden"] += width
        elif running["communication"] > 0:
            found["exposed"] += width
        else:
            found["idle"] += width
        last = moment
        if kind:
            running[kind] += change
    return found


# %% wrong: wall time less computing => values wall-less-computing  from: three unions
# -     return {"compute": one, "exposed": both - one, "hidden": one + two - both, "idle": end - begin - both}
# +     exposed = end - begin - one
# +     return {"compute": one, "exposed": exposed, "hidden": two - exposed, "idle": 0.0}

# %% wrong: all communication is exposed => values all-communication  from: three unions
# ~ both - one ==> two

# %% wrong: each kernel that communicates by itself => values one-by-one  from: three unions
# -     return {"compute": one, "exposed": both - one, "hidden": one + two - both, "idle": end - begin - both}
# +     cut = [(max(s, begin), min(e, end)) for s, e in talk if min(e, end) > max(s, begin)]
# +     hidden = sum(busy(compute, s, e) for s, e in cut)
# +     exposed = sum(e - s for s, e in cut) - hidden
# +     return {"compute": one, "exposed": exposed, "hidden": hidden, "idle": end - begin - both}

# %% wrong: overlaps of pairs => values pairs-summed  from: each kernel that communicates by itself
# ~ sum(busy(compute, s, e) for s, e in cut) ==> sum(max(0.0, min(e, d) - max(s, c)) for s, e in cut for c, d in compute)
# ~ sum(e - s for s, e in cut) ==> two

# %% wrong: streams added up => values -  from: three unions
#       one, two, both = (busy(spans, begin, end) for spans in (compute, talk, compute + talk))
# +     streams = [[one for one in kernels if one[1] == stream] for stream in {one[1] for one in kernels}]
# +     kinds = ("compute", "communication")
# +     one, two = (sum(busy(spans_of(stream, kind), begin, end) for stream in streams) for kind in kinds)

# %% wrong: ends of the step ignored => values not-cut  from: three unions
# ~ (spans, begin, end) for ==> (spans, -1e9, 1e9) for

# %% wrong: only kernels that lie inside whole => values left-out  from: three unions
#   def step_times(kernels, begin, end):
# +     kernels = [one for one in kernels if begin <= one[2] and one[3] <= end]

# %% wrong: copies count as communication => values other-form unless copies=talk  from: three unions
# ~ (kernels, "communication") ==> (kernels, "communication", "copy")

# %% wrong: the last end instead of the latest => values end-forgotten  from: three unions
# -         if e > s:
# -             total, reach = total + e - s, e
# +         total, reach = total + max(e - s, 0.0), max(e, begin)

# %% wrong: nothing to cover => generality raised  from: three unions
#       compute, talk = spans_of(kernels, "compute"), spans_of(kernels, "communication")
# +     first = min(s for s, _ in compute)
# +     assert first is not None

# %% wrong: the dictionary lacks a part => values missing-part  from: three unions
# ~ both, "idle": end - begin - both ==> both

# %% wrong: the step ends with its last kernel => values to-the-last-kernel  from: three unions
#       one, two, both = (busy(spans, begin, end) for spans in (compute, talk, compute + talk))
# +     last = max((min(e, end) for *_, e in kernels), default=begin)
# ~ end - begin - both ==> max(last, begin) - begin - both

# %% wrong: kernels of a kind added up => values kernels-summed  from: three unions
# ~ total, reach = total + e - s, e ==> total += e - s
# ~ one + two - both ==> min(one, two)
"""
