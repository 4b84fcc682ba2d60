from collections.abc import Sequence
from dataclasses import replace

from course_chapters.ch15.exercises.work import traces
from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, Worked, hidden, shown, verdict
from course_grader.judging.per_row import Breakdown, rows_fault
from course_grader.judging.random_inputs import draw_rows, generality

Kernel = tuple[str, int, float, float]
Row = tuple[Sequence[Kernel], float, float]  # kernels, begin and end of the step
C, T, H = "compute", "communication", "copy"
MADE = ((C, (7, 9), 5), (C, (7, 9), 5), (T, (13, 21), 14), (H, (2,), 5), (T, (13, 21), 14))  # kind, streams, longest


def made(rng: Random, count: int, wall: float = 10.0) -> list[Kernel]:
    """Kernels of a step: short ones that compute on two streams, longer ones that communicate on two others, copies."""
    kernels: list[Kernel] = []
    for place in range(count):
        kind, streams, longest = MADE[place % 5]
        start = rng.uniform(-0.04, 1.0) * wall
        kernels.append((kind, rng.choice(streams), start, start + rng.random() * longest * wall / count))
    rng.shuffle(kernels)
    return kernels


def whole(rng: Random, count: int) -> list[Kernel]:
    """Kernels that begin and end at half seconds, so that many touch, nest and coincide; some without length."""
    rows = draw_rows(rng, count, (C, T, T, H), range(3), [half / 2 for half in range(20)], (0, 0.5, 1, 1, 4))
    return [(kind, stream, start, start + length) for kind, stream, start, length in rows]


HIDDEN_ONCE = [(C, 7, 0.0, 4.0), (C, 9, 1.0, 3.0), (T, 13, 2.0, 6.0), (T, 21, 5.0, 7.0), (H, 2, 7.5, 8.0)]
HIDDEN_ONCE.append((C, 7, 8.0, 9.0))
NESTED = [(C, 7, 0.0, 5.0), (C, 9, 1.0, 2.0), (C, 7, 4.0, 6.0), (T, 13, 1.0, 9.0), (T, 21, 2.0, 3.0), (T, 13, 8.5, 9.5)]
EDGES: list[Row] = [
    ([], 0.0, 3.0),
    ([(C, 300, -2.0, 1.0)], -3.0, 2.0),
    ([(T, 300, 0.0, 2.0)], 0.0, 2.0),
    ([(T, 1, 0.0, 4.0), (T, 1, 0.0, 4.0), (C, 0, 2.0, 3.0)], 0.0, 4.0),
    ([(H, 2, 0.5, 1.5)], 0.0, 2.0),
]


def recorded_steps() -> list[Row]:
    rows: list[Row] = []
    for one in traces().values():
        kernels = [(kind, s, float(a), float(b)) for s, kind in enumerate((C, T)) for a, b in one.get(kind, ())]
        if kernels:
            rows.append((kernels, min(each[2] for each in kernels), max(each[3] for each in kernels)))
    return rows


def _cases(params: Params, rng: Random) -> list[Case]:
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


TIMES = Breakdown(
    "steps",
    "seconds",
    want=Worked("exposed-seconds"),
    words=lambda kernels, begin, end: f"{len(kernels)} kernels between {begin:g} s and {end:g} s",
)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    keys = ("compute", "exposed", "hidden", "idle")
    by_part = {key: replace(TIMES, only=[key]) for key in keys} if case.part == "steps" else {case.part: TIMES}
    faults = {part: rows_fault(case, outcome.value) or by.fault(case, outcome.value) for part, by in by_part.items()}
    return [verdict(case.kind, part, case, fault) for part, fault in faults.items()]


JUDGING = Judging(
    shares="values:compute 0.1, values:exposed 0.2, values:hidden 0.1, values:idle 0.1, values:ends 0.1, "
    "generality:overlaps 0.3, generality:edges 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""Kernels are intervals, and what counts is the length of a union. Exposed communication is union(both) −
union(computing), so you need not find any overlap. Sums of kernel times count moments twice; wall time less computing
mistakes idle time, for instance behind a slow data loader, for communication.""",
    pytorch="""`torch.profiler` gives events of device type CUDA with a `time_range`; the names of NCCL's kernels
contain `nccl`. `course_runs.tracing` reads them, and `course_lib.cluster.intervals` adds them up.""",
)

ANSWERS = r'''# %% right: worked
talks = {"communication", "copy"} if params("exposed-seconds").copies == "talk" else {"communication"}  # leave as is


def step_times(kernels: list[tuple], begin: float, end: float) -> dict[str, float]:
    """Seconds of a step from `begin` to `end`: {"compute", "exposed", "hidden", "idle"}."""

    def busy(kinds: set[str]) -> float:
        """Seconds in which at least one kernel of these kinds runs."""
        total, done = 0.0, begin
        for start, stop in sorted((s, e) for kind, _, s, e in kernels if kind in kinds):
            start, stop = max(start, done), min(stop, end)
            if stop > start:
                total, done = total + stop - start, stop
        return total

    compute, talk, either = busy({"compute"}), busy(talks), busy({"compute", *talks})
    return {
        "compute": compute,
        "exposed": either - compute,
        "hidden": compute + talk - either,
        "idle": end - begin - either,
    }
# %% right: every moment against every kernel  from: worked
def step_times(kernels, begin, end):
    edges = sorted({begin, end, *[min(max(t, begin), end) for one in kernels for t in one[2:]]})
    found = {"compute": 0.0, "exposed": 0.0, "hidden": 0.0, "idle": 0.0}
    for s, e in zip(edges, edges[1:]):
        kinds = {kind for kind, _, a, b in kernels if a <= s and e <= b}
        found["compute"] += (e - s) * ("compute" in kinds)
        talking = "hidden" if "compute" in kinds else "exposed"
        found[talking if kinds & talks else "idle"] += (e - s) * bool(kinds & talks or "compute" not in kinds)
    return found
# %% wrong: the public form => values public-form unless copies=neither
# > this solves the public form of the exercise: copies count as communication here.
# ~ , "copy"} if params("exposed-seconds").copies == "talk" else {"communication" ==>
# %% wrong: copies count as communication => values other-form unless copies=talk
# > leave copies out here.
# ~ } if params("exposed-seconds").copies == "talk" else {"communication"} ==> }
# %% wrong: copies compute => values
# > a copy does not compute.
# ~ }), busy(talks), busy({"compute" ==> , "copy"}), busy(talks - {"copy"}), busy({"compute", "copy"
# %% wrong: wall time less computing => values
# > an idle GPU does not communicate.
#       compute, talk, either = busy({"compute"}), busy(talks), busy({"compute", *talks})
# +     either = end - begin
# %% wrong: computing alone => values
# > this leaves out the computing that hides communication.
# ~ "compute": compute ==> "compute": either - talk
# %% wrong: all communication => values
# > this is all communication, hidden or not.
# ~ either - compute ==> talk
# ~ compute + talk - either ==> talk
# %% wrong: kernels summed => values
# > kernels that run at once were added up; each moment counts once.
# ~ total, done = total + stop - start, stop ==> total += stop - start
# ~ compute + talk - either ==> min(compute, talk)
# %% wrong: one by one => values
# > a moment in which two kernels communicate is counted twice here.
# ~ (kinds: set[str]) ==> (kinds, begin=begin, end=end)
#       compute, talk, either = busy({"compute"}), busy(talks), busy({"compute", *talks})
# +     cut = [(max(s, begin), min(e, end)) for kind, _, s, e in kernels if kind in talks and s < end and e > begin]
# +     hidden = sum(busy({"compute"}, *span) for span in cut)
# ~ either - compute ==> sum(e - s for s, e in cut) - hidden
# ~ compute + talk - either ==> hidden
# %% wrong: pairs summed => values  from: one by one
# > the overlaps of all pairs were added up; a moment is hidden once.
# ~ sum(busy({"compute"}, *span) for span in cut)
# ~~ ==> sum(max(0, min(e, d) - max(s, c)) for s, e in cut for kind, _, c, d in kernels if kind == "compute")
# ~ sum(e - s for s, e in cut) ==> talk
# %% wrong: streams added up => values
# > each stream was measured by itself; streams run side by side.
# ~ (kinds: set[str]) ==> (kinds, kernels=kernels)
#       compute, talk, either = busy({"compute"}), busy(talks), busy({"compute", *talks})
# +     streams = [[one for one in kernels if one[1] == stream] for stream in {one[1] for one in kernels}]
# +     compute, talk = (sum(busy(kinds, stream) for stream in streams) for kinds in ({"compute"}, talks))
# %% wrong: not cut => values
# > time outside `begin` to `end` was counted.
# ~ (kinds: set[str]) ==> (kinds, begin=-1e9, end=1e9)
# %% wrong: left out => values
# > a kernel that crosses `begin` or `end` counts with its part inside.
# ~ if kind in kinds) ==> if kind in kinds and begin <= s and e <= end)
# %% wrong: to the last kernel => values
# > after its last kernel the GPU is idle until `end`.
# ~ end - begin - either ==> max(begin, min(end, max((one[3] for one in kernels), default=begin))) - begin - either
# %% wrong: end forgotten => values
# > a kernel inside an earlier one does not end that one.
# -             if stop > start:
# -                 total, done = total + stop - start, stop
# +             total, done = total + max(stop - start, 0.0), max(stop, begin)
# %% wrong: a merged span cut short => values end-forgotten
# ~ if stop > start: ==> if stop > begin and start < end:
# %% wrong: unsorted => values
# > kernels were taken in the order of the list; they come in any order.
# ~ sorted ==>
# %% wrong: hidden twice => values
# > hidden communication was subtracted twice from the whole.
# ~ "idle": end - begin - either ==> "idle": end - begin - compute - talk
# %% wrong: negative lengths => values
# > a kernel wholly before `begin` or after `end` was counted with a negative length.
#                   total, done = total + stop - start, stop
# +             elif stop < begin or start > end:
# +                 total += stop - begin if stop < begin else end - start
# %% wrong: milliseconds => values
# > return seconds.
#       compute, talk, either = busy({"compute"}), busy(talks), busy({"compute", *talks})
# +     begin, end, compute, talk, either = (1e3 * each for each in (begin, end, compute, talk, either))
# %% wrong: nothing to cover => generality raised
# ~ ), busy(talks ==> ) + 0 * min(s for kind, _, s, _ in kernels if kind == "compute"), busy(talks
# %% wrong: the dictionary lacks a part => values missing-part
# -         "idle": end - begin - either,
'''
