"""Judge of exposed communication: kernels that overlap, nest and touch, or cross the ends of the step."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from course_lib.exercises.ch15.steps_runs import traces
from course_lib.judging import Judging, Mistake, Params, prediction, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import Breakdown, rows_fault
from course_lib.judging.draws import generality
from course_lib.records import Case, Outcome, Verdict
from course_lib.runs.intervals import Interval, length, union
from course_lib.runs.reading import recorded
from course_lib.units import duration_text


def measured_seconds(params: Params) -> float:
    """Seconds of a step of the recorded run, the median of its timed steps."""
    return float(recorded(params["run"])["measured"]["step_seconds"])


def _reveal(params: Params) -> str:
    predicted, took = recorded(params["run"])["predicted"], measured_seconds(params)
    parts = ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in predicted["seconds"].items() if seconds)
    return (
        f"{duration_text(took)} at the median. The course's own tools predicted "
        f"{duration_text(predicted['step_seconds'])} ({parts}) from the same rates: measured over predicted is "
        f"{took / predicted['step_seconds']:.2f}."
    )


PREDICTION = prediction(
    unit="seconds",
    why="A roofline is not a forecast. Large matmuls alone give a floor. Everything that is not a matmul, waiting for "
    "the slowest process, library calls and shared cores come on top, and on a small model they dominate. The ratio of "
    "measured to predicted says how much remains to be explained.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs; `torch.utils.benchmark.Timer` times it.",
    reveal=_reveal,
    truth=measured_seconds,
)
PREDICTED = {"predict-real-step": PREDICTION}


Kernel = tuple[str, int, float, float]
Spans = Sequence[Interval]
Row = tuple[Sequence[Kernel], float, float]  # kernels, begin and end of the step
Seconds = dict[str, float]
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
    """The spans of these kinds."""
    return [(start, end) for kind, _, start, end in kernels if kind in kinds]


def step_times(
    kernels: Sequence[Kernel],
    begin: float,
    end: float,
    copies: str = "neither",
    busy: Callable[[Spans, float, float], float] = covered,
) -> Seconds:
    """Seconds of computing, of exposed and of hidden communication, and of neither; `busy` measures a set of spans."""
    compute, talk = of_kinds(kernels, ("compute",)), of_kinds(kernels, TALK[copies])
    computing, talking, either = (busy(spans, begin, end) for spans in (compute, talk, [*compute, *talk]))
    hidden = computing + talking - either
    return {"compute": computing, "exposed": either - computing, "hidden": hidden, "idle": end - begin - either}


# --- mistakes


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


def _summed(compute: Spans, talk: Spans, wall: float) -> Seconds:
    one, two = length(compute), length(talk)
    return {"compute": one, "exposed": two, "hidden": min(one, two), "idle": wall - one - two}


def _one_by_one(compute: Spans, talk: Spans, wall: float) -> Seconds:
    hidden = sum(covered(compute, start, stop) for start, stop in talk)
    return {"exposed": length(talk) - hidden, "hidden": hidden}


def _pairs_summed(compute: Spans, talk: Spans, wall: float) -> Seconds:
    hidden = sum(length(clipped(compute, start, stop)) for start, stop in talk)
    return {"exposed": covered(talk) - hidden, "hidden": hidden}


def _copies_compute(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> Seconds:
    kinds = [("compute" if kind == "copy" else kind, *rest) for kind, *rest in kernels]
    return step_times(kinds, begin, end, copies)


def _not_cut(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> Seconds:
    whole = step_times(kernels, -1e9, 1e9, copies)
    return {**whole, "idle": end - begin - covered(of_kinds(kernels, ("compute", *TALK[copies])))}


def _left_out(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> Seconds:
    return step_times([one for one in kernels if begin <= one[2] and one[3] <= end], begin, end, copies)


def _to_the_last(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> Seconds:
    last = max((min(stop, end) for *_, stop in kernels), default=begin)
    return {"idle": step_times(kernels, begin, end, copies)["idle"] - (end - max(last, begin))}


def _milliseconds(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> Seconds:
    return {name: 1e3 * value for name, value in step_times(kernels, begin, end, copies).items()}


RULES = {"neither": "leave copies out here.", "talk": "copies count as communication here."}


def asked(copies: str) -> Breakdown:
    """The four times, under one rule for copies."""
    other, public = ("talk", "other-form") if copies == "neither" else ("neither", "public-form")
    lead = "" if copies == "neither" else "this solves the public form of the exercise: "

    def times(name: str, way: Callable[..., Seconds], message: str, **more: Any) -> Mistake:
        """A mistake that is a way to work on the kernels."""
        return Mistake(name, lambda *row: way(*row, copies, **more), message)

    def spans(name: str, way: Callable[[Spans, Spans, float], Seconds], message: str) -> Mistake:
        """A mistake that is a way to work on the clipped spans of computing and communicating."""

        def value(kernels: Sequence[Kernel], begin: float, end: float) -> Seconds:
            compute, talk = (clipped(of_kinds(kernels, kinds), begin, end) for kinds in (("compute",), TALK[copies]))
            return way(compute, talk, end - begin)

        return Mistake(name, value, message)

    return Breakdown(
        part="steps",
        unit="seconds",
        want=lambda *row: step_times(*row, copies),
        words=lambda kernels, begin, end: f"{len(kernels)} kernels between {begin:g} s and {end:g} s",
        mistakes=(
            Mistake(public, lambda *row: step_times(*row, other), lead + RULES[copies]),
            times("copies-compute", _copies_compute, RULES[copies]),
            spans("wall-less-computing", _wall_less_computing, "an idle GPU does not communicate."),
            spans(
                "all-communication",
                lambda compute, talk, wall: dict.fromkeys(("exposed", "hidden"), covered(talk)),
                "this is all communication; some of it overlaps with computing and some does not.",
            ),
            spans("kernels-summed", _summed, "kernels that run at once were added up; each moment counts once."),
            spans("one-by-one", _one_by_one, "a moment in which two kernels communicate is counted twice here."),
            spans("pairs-summed", _pairs_summed, "the overlaps of all pairs were added up; a moment is hidden once."),
            times("not-cut", _not_cut, "time before `begin` or after `end` was counted."),
            times("left-out", _left_out, "a kernel that crosses `begin` or `end` counts with its part inside."),
            times("to-the-last-kernel", _to_the_last, "after its last kernel the GPU is idle until `end`."),
            times("milliseconds", _milliseconds, "return seconds."),
            times("end-forgotten", step_times, "a kernel inside an earlier one does not end that one.", busy=_merged),
        ),
    )


# --- the cases


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
    ([(T, 0, 0.0, 2.0)], 0.0, 2.0),
    ([(C, 0, 0.0, 1.0), (T, 1, 1.0, 2.0)], 0.0, 3.0),
    ([(T, 1, 0.0, 4.0), (T, 1, 0.0, 4.0), (C, 0, 1.0, 2.0)], 0.0, 4.0),
    ([(H, 2, 0.5, 1.5)], 0.0, 2.0),
]


def recorded_steps() -> list[Row]:
    """The steps of recorded runs that were traced."""
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


TRACES = {
    "exposed-seconds": Judging(
        shares="values:compute 0.1, values:exposed 0.2, values:hidden 0.1, values:idle 0.1, values:ends 0.1, "
        "generality:overlaps 0.3, generality:edges 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="Kernels are intervals, and what counts is the length of a union. Exposed communication is union(both) − "
        "union(computing), so you need not find any overlap. Sums of kernel times count moments twice; wall time less "
        "computing mistakes idle time, for instance behind a slow data loader, for communication.",
        pytorch="`torch.profiler` gives events of device type CUDA with a `time_range`; the names of NCCL's kernels "
        "contain `nccl`. `course_lib.runs.tracing` reads them, and `course_lib.runs.intervals` adds them up.",
    )
}
