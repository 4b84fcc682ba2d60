"""Judge of what communication is not hidden: kernels that overlap, nest and touch, and are cut by the step's ends."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from course_lib.exercises.ch15.judges.steps_rows import Parts, fault_of_parts
from course_lib.exercises.ch15.steps_runs import traces
from course_lib.judging import Judging, Mistake, Params, verdict
from course_lib.judging.optional_columns import results, told
from course_lib.records import Case, Outcome, Verdict

Kernel = tuple[str, int, float, float]
Spans = Sequence[tuple[float, float]]
KEYS = ("compute", "exposed", "hidden", "idle")
TALK = {"neither": ("communication",), "talk": ("communication", "copy")}


def covered(spans: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """Seconds between `begin` and `end` in which at least one span runs."""
    total, reach = 0.0, begin
    for start, stop in sorted(spans):
        start, stop = max(start, reach), min(stop, end)
        if stop > start:
            total, reach = total + stop - start, stop
    return total


def of_kinds(kernels: Iterable[Kernel], kinds: Sequence[str]) -> list[tuple[float, float]]:
    """The spans of these kinds."""
    return [(start, end) for kind, _, start, end in kernels if kind in kinds]


def step_times(kernels: Sequence[Kernel], begin: float, end: float, copies: str = "neither") -> dict[str, float]:
    """Seconds of computing, of exposed and of hidden communication, and of neither."""
    compute, talk = of_kinds(kernels, ("compute",)), of_kinds(kernels, TALK[copies])
    return _by(
        covered(compute, begin, end), covered(talk, begin, end), covered([*compute, *talk], begin, end), end - begin
    )


def _by(compute: float, talk: float, either: float, wall: float) -> dict[str, float]:
    return {"compute": compute, "exposed": either - compute, "hidden": compute + talk - either, "idle": wall - either}


def _cut(kernels: Sequence[Kernel], kinds: Sequence[str], begin: float, end: float) -> list[tuple[float, float]]:
    cut = [(max(start, begin), min(stop, end)) for start, stop in of_kinds(kernels, kinds)]
    return [(start, stop) for start, stop in cut if stop > start]


def _summed(kernels: Sequence[Kernel], begin: float, end: float, talk: Sequence[str]) -> dict[str, float]:
    """Every kernel's own seconds, as if no two ran at once; what was hidden by the smaller sum."""
    one, two = (sum(stop - start for start, stop in _cut(kernels, kinds, begin, end)) for kinds in (("compute",), talk))
    return {"compute": one, "exposed": two, "hidden": min(one, two), "idle": end - begin - one - two}


def _wall_less(kernels: Sequence[Kernel], begin: float, end: float, talk: Sequence[str]) -> dict[str, float]:
    """Everything that is not computing, taken for exposed."""
    compute, both = covered(of_kinds(kernels, ("compute",)), begin, end), covered(of_kinds(kernels, talk), begin, end)
    rest = end - begin - compute
    return {"exposed": rest, "hidden": both - rest, "idle": 0.0}


def _one_by_one(kernels: Sequence[Kernel], begin: float, end: float, talk: Sequence[str]) -> dict[str, float]:
    """Each communication kernel against all computing, and then the sum: two at once count twice."""
    compute = of_kinds(kernels, ("compute",))
    spans = _cut(kernels, talk, begin, end)
    hidden = sum(covered(compute, start, stop) for start, stop in spans)
    return {"exposed": sum(stop - start for start, stop in spans) - hidden, "hidden": hidden}


def _pairs(kernels: Sequence[Kernel], begin: float, end: float, talk: Sequence[str]) -> dict[str, float]:
    """The overlaps of all pairs of kernels, added up: two that compute at once hide twice."""
    compute, spans = _cut(kernels, ("compute",), begin, end), _cut(kernels, talk, begin, end)
    hidden = sum(max(0.0, min(b, d) - max(a, c)) for a, b in spans for c, d in compute)
    return {"exposed": covered(spans, begin, end) - hidden, "hidden": hidden}


def _not_cut(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> dict[str, float]:
    return {
        **step_times(kernels, -1e9, 1e9, copies),
        "idle": end - begin - covered(of_kinds(kernels, ("compute", *TALK[copies])), -1e9, 1e9),
    }


def _left_out(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> dict[str, float]:
    return step_times([one for one in kernels if begin <= one[2] and one[3] <= end], begin, end, copies)


def _as_sorted(kernels: Sequence[Kernel], begin: float, end: float, talk: Sequence[str]) -> dict[str, float]:
    """Neighbours merged with the end of the later one, though the earlier may last longer."""

    def merged(spans: Spans) -> float:
        total, last = 0.0, begin
        for start, stop in sorted(spans):
            start, stop = max(start, begin), min(stop, end)
            if stop > max(start, last):
                total += stop - max(start, last)
            last = stop
        return total

    compute, both = of_kinds(kernels, ("compute",)), of_kinds(kernels, talk)
    return _by(merged(compute), merged(both), merged([*compute, *both]), end - begin)


def _to_the_last(kernels: Sequence[Kernel], begin: float, end: float, copies: str) -> dict[str, float]:
    """As if the step were over with the last kernel."""
    found, last = step_times(kernels, begin, end, copies), max((min(stop, end) for *_, stop in kernels), default=begin)
    return {"idle": found["idle"] - (end - max(last, begin))}


def asked(copies: str) -> Parts:
    """The four times, under one rule for copies."""
    other = "talk" if copies == "neither" else "neither"
    talk = TALK[copies]
    words = "copies are left out here." if copies == "neither" else "copies count as communication here."
    name = "other-form" if copies == "neither" else "public-form"
    lead = "" if copies == "neither" else "this solves the public form of the exercise: "
    return Parts(
        unit="seconds",
        want=lambda *row: step_times(*row, copies),
        words=lambda k, b, e: f"{len(k)} kernels between {b:g} s and {e:g} s",
        slips=(
            Mistake(name, lambda *row: step_times(*row, other), lead + words),
            Mistake(
                "copies-compute",
                lambda k, b, e: step_times(
                    [("compute" if kind == "copy" else kind, *rest) for kind, *rest in k], b, e, copies
                ),
                words,
            ),
            Mistake(
                "wall-less-computing",
                lambda *row: _wall_less(*row, talk),
                "wall time less computing: when the GPU does nothing at all, it does not communicate.",
            ),
            Mistake(
                "all-communication",
                lambda k, b, e: {
                    "exposed": covered(of_kinds(k, talk), b, e),
                    "hidden": covered(of_kinds(k, talk), b, e),
                },
                "this is all communication, and some of it ran beside computing, some did not.",
            ),
            Mistake(
                "kernels-summed",
                lambda *row: _summed(*row, talk),
                "kernels that run at once were added up: it is one GPU, and each moment counts once.",
            ),
            Mistake(
                "one-by-one",
                lambda *row: _one_by_one(*row, talk),
                "where two kernels communicate at once, that moment counts twice here.",
            ),
            Mistake(
                "pairs-summed",
                lambda *row: _pairs(*row, talk),
                "where several kernels overlap, each pair's overlap was counted: a moment is hidden once.",
            ),
            Mistake(
                "not-cut", lambda *row: _not_cut(*row, copies), "what lies before `begin` or after `end` was counted."
            ),
            Mistake(
                "left-out",
                lambda *row: _left_out(*row, copies),
                "a kernel that begins before `begin` or ends after `end` counts with what lies between.",
            ),
            Mistake(
                "to-the-last-kernel",
                lambda *row: _to_the_last(*row, copies),
                "after its last kernel the GPU idles until `end`.",
            ),
            Mistake(
                "milliseconds",
                lambda *row: {name: 1e3 * value for name, value in step_times(*row, copies).items()},
                "these are milliseconds; give seconds.",
            ),
            Mistake(
                "end-forgotten",
                lambda *row: _as_sorted(*row, talk),
                "a kernel that lies inside an earlier one does not end that one.",
            ),
        ),
    )


# --- the cases


def made(rng: random.Random, count: int, wall: float = 10.0) -> list[Kernel]:
    """Kernels of a step: runs of short ones that compute on two streams, longer ones that communicate on two others, some copies."""
    found: list[Kernel] = []
    for place in range(count):
        kind = ("compute", "compute", "communication", "copy", "communication")[place % 5]
        longest = wall / count * (14 if kind == "communication" else 5)
        start = rng.uniform(-0.04, 1.0) * wall
        stream = {"compute": (7, 9), "communication": (13, 21), "copy": (2,)}[kind]
        found.append((kind, rng.choice(stream), start, start + rng.random() * longest))
    rng.shuffle(found)
    return found


def whole(rng: random.Random, count: int) -> list[Kernel]:
    """Kernels that begin and end at whole and half seconds, so that many touch, nest and coincide; some without length."""
    return [
        (
            rng.choice(("compute", "communication", "communication", "copy")),
            rng.randrange(3),
            start := rng.randrange(0, 20) / 2,
            start + rng.choice((0, 0.5, 1, 1, 4)),
        )
        for _ in range(count)
    ]


C, T, H = "compute", "communication", "copy"
HIDDEN_ONCE = [
    (C, 7, 0.0, 4.0),
    (C, 9, 1.0, 3.0),
    (T, 13, 2.0, 6.0),
    (T, 21, 5.0, 7.0),
    (H, 2, 7.5, 8.0),
    (C, 7, 8.0, 9.0),
]
NESTED = [(C, 7, 0.0, 5.0), (C, 9, 1.0, 2.0), (C, 7, 4.0, 6.0), (T, 13, 1.0, 9.0), (T, 21, 2.0, 3.0), (T, 13, 8.5, 9.5)]
EDGES: list[tuple[list[Kernel], float, float]] = [
    ([], 0.0, 3.0),
    ([(C, 0, 1.0, 1.0)], 0.0, 2.0),
    ([(T, 0, 0.0, 2.0)], 0.0, 2.0),
    ([(C, 0, 0.0, 1.0), (T, 1, 1.0, 2.0)], 0.0, 3.0),
    ([(T, 1, 0.0, 4.0), (T, 1, 0.0, 4.0), (C, 0, 1.0, 2.0)], 0.0, 4.0),
    ([(H, 2, 0.5, 1.5)], 0.0, 2.0),
]


def recorded_step() -> list[tuple[list[Kernel], float, float]]:
    """The steps of recorded runs that were traced."""
    found = []
    for one in traces().values():
        kernels = [
            (kind, stream, *map(float, span))
            for stream, kind in enumerate(("compute", "communication"))
            for span in one.get(kind, ())
        ]
        if kernels:
            found.append((kernels, min(each[2] for each in kernels), max(each[3] for each in kernels)))
    return found


def _cases(params: Params, rng: random.Random) -> list[Case]:
    shown = [(HIDDEN_ONCE, 0.0, 10.0), (NESTED, 0.0, 10.0), *recorded_step()]
    return [
        Case(name="two steps by hand, and what was recorded", args=(0, shown), part="steps"),
        Case(
            name="cut by the ends of the step",
            args=(0, [(HIDDEN_ONCE, params["begin"], params["end"]), (NESTED, 4.5, 8.75)]),
            part="ends",
        ),
        Case(
            name="two other steps",
            args=(0, [(made(rng, 20), 0.0, 10.0), (whole(rng, 12), 0.0, 12.0)]),
            part="steps",
            visible=False,
        ),
        Case(name="another step, cut by its ends", args=(0, [(made(rng, 30), 3.0, 7.5)]), part="ends", visible=False),
        Case(
            name="other steps",
            args=(0, [(made(rng, rng.randrange(10, 120)), 0.0, 10.0) for _ in range(12)]),
            kind="generality",
            part="overlaps",
            visible=False,
        ),
        Case(
            name="kernels that touch, nest, coincide",
            args=(0, [(whole(rng, rng.randrange(2, 15)), 0.0, 12.0) for _ in range(20)]),
            kind="generality",
            part="overlaps",
            visible=False,
        ),
        Case(name="nothing, no length, one kind", args=(0, EDGES), kind="generality", part="edges", visible=False),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    keys = KEYS if case.part == "steps" else ()
    found = results(case, outcome.value, keys)
    if told(found):
        return found
    parts = asked(params["copies"])
    if keys:
        return [verdict("values", key, case, fault_of_parts(parts, case, found, [key])) for key in keys]
    return [verdict(case.kind, case.part, case, fault_of_parts(parts, case, found))]


TRACES = {
    "exposed-seconds": Judging(
        shares={
            "values:compute": 0.1,
            "values:exposed": 0.2,
            "values:hidden": 0.1,
            "values:idle": 0.1,
            "values:ends": 0.1,
            "generality:overlaps": 0.3,
            "generality:edges": 0.1,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="A GPU is busy or it is not: kernels are intervals, and what counts is the length of a union. Exposed communication is union(both) − union(computing), so no overlap "
        "has to be found at all. Sums of kernel times count moments twice; wall time less computing takes idling, a slow data loader for instance, for communication.",
        pytorch="`torch.profiler`, events of device type CUDA with `time_range`; NCCL's kernels have `nccl` in their names. `course_lib.runs.tracing` reads them so, `course_lib.runs.intervals` adds them up.",
    )
}
