import math
from collections.abc import Sequence

from course_chapters.ch13.exercises.judges.shared import Sizes, mesh, plain_fault
from course_grader.judging import Case, Checked, Fault, Judging, Params, Random, Worked, hidden, shown, table

Waits = Sequence[tuple[str, str]]
right = Worked("blast-radius")


def _stalled_words(sizes: Sizes, rank: int, waits: Waits) -> str:
    shape = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
    return f"{shape}, rank {rank} hung, {', then '.join(f'{kind} {axis}' for kind, axis in waits) or 'no operation'}"


def _stalled_cases(params: Params, rng: Random) -> list[Case]:
    def row(*kinds: str) -> tuple[Sizes, int, Waits]:
        sizes = mesh(rng, rng.choice((2, 3, 4)), 96, (2, 3, 4, 5))
        axes = [rng.choice(list(sizes)) for _ in kinds]
        return sizes, rng.randrange(math.prod(sizes.values())), list(zip(kinds, axes, strict=True))

    def middle(*waits: tuple[str, str]) -> tuple[Sizes, int, Waits]:
        return {"dp": 2, "pp": 5, "tp": 3}, rng.choice((7, 10, 22)), list(waits)

    example = {"dp": 2, "pp": 3, "tp": 4}
    edges: list[tuple[Sizes, int, Waits]] = [
        ({"pp": 4}, 0, [("next", "pp")]),
        ({"pp": 4}, 3, [("next", "pp"), ("all", "pp")]),
        ({"pp": 4}, 2, []),
        ({"tp": 1, "dp": 6, "pp": 1}, 3, [("all", "tp"), ("next", "pp")]),
        ({"dp": 2, "tp": 2}, 1, []),
        ({"a": 3, "b": 2}, 5, [("all", "b"), ("all", "b")]),
        *((dict(order), 1, [("all", "dp")]) for order in ([("pp", 2), ("dp", 3)], [("dp", 3), ("pp", 2)])),
        ({"a": 3, "b": 2}, 5, [("all", "a"), ("all", "b")]),
        ({"ep": 2, "a": 3, "b": 2, "d": 3, "x": 4}, 122, [("next", "x"), ("all", "d"), ("next", "b"), ("all", "ep")]),
        ({"ep": 2, "a": 2, "b": 2, "d": 2, "x": 2}, 31, [("all", axis) for axis in ("x", "x", "d", "d", "b", "a")]),
    ]
    each_axis = ("all", "tp"), ("next", "pp"), ("all", "dp")
    chains = [row("all", "next", "all"), row("next", "all", "next"), row("all", "all"), row("next", "next", "all")]
    return [
        shown("one collective", "values:one", 0, [(example, 6, [("all", "tp")])]),
        shown("a pipeline", "values:pipeline", 0, [(example, 6, [("next", "pp")])]),
        hidden("other meshes", "values:one", 0, [row("all") for _ in range(6)]),
        hidden("a stage in the middle", "values:pipeline", 0, [middle(("next", "pp")) for _ in range(3)]),
        hidden("several operations", "generality:chains", 0, [*chains, middle(*each_axis)]),
        hidden("ends, axes of one rank, no operation", "generality:edges", 0, edges),
    ]


def _stalled_fault(row: Sequence[object], got: Sequence[int], want: Sequence[int]) -> Fault | None:
    return ("not-sorted", "sort the ranks.") if list(got) != sorted(got) else plain_fault(row, list(got), want)


JUDGING = Judging(
    shares="values:one 0.15, values:pipeline 0.2, generality:chains 0.5, generality:edges 0.15",
    cases=_stalled_cases,
    verdicts=table(Checked("", _stalled_fault, words=_stalled_words), right=right),
    why="Each operation passes the wait on along its axis, to ranks that then keep others waiting. After a step with "
    "collectives on every axis, one hung rank has stopped them all, and the first operation that it missed "
    "says where to look.",
    pytorch="NCCL's flight recorder (`TORCH_NCCL_TRACE_BUFFER_SIZE`) lists the last collective of every rank; the "
    "culprit is the one that never joined.",
)

ANSWERS = r'''# %% right: worked
direction = params("blast-radius").direction  # leave as is: of pipeline messages: "forward" or "backward"


def stalled(sizes, rank, waits):
    """The sorted list of all ranks that are stuck in the end."""
    stuck, strides = {rank}, {}
    for axis in reversed(sizes):
        strides[axis] = math.prod(sizes[name] for name in strides)
    for kind, axis in waits:
        size, stride = sizes[axis], strides[axis]
        for each in range(math.prod(sizes.values())):
            at = each // stride % size
            before = range(at) if direction == "forward" else range(at + 1, size)
            if any(each + (k - at) * stride in stuck for k in (range(size) if kind == "all" else before)):
                stuck.add(each)
    return sorted(stuck)
# %% right: a box
def stalled(sizes, rank, waits):
    low, high, rest = {}, {}, rank
    for axis in reversed(sizes):
        rest, place = divmod(rest, sizes[axis])
        low[axis], high[axis] = place, place
    for kind, axis in waits:
        high[axis] = sizes[axis] - 1
        if kind == "all":
            low[axis] = 0
    box = [0]
    for axis, size in sizes.items():
        box = [size * each + place for each in box for place in range(low[axis], high[axis] + 1)]
    return box
# %% wrong: collectives as messages => values
# > a collective keeps its whole group waiting, not only one side of the stuck rank.
# ~ (range(size) if kind == "all" else before) ==> before
# %% wrong: not passed on => generality
# > ranks that are stuck themselves make others wait.
# ~ in stuck for k ==> == rank for k
# %% wrong: whole pipeline => values
# > a pipeline message keeps only one side of the pipeline waiting.
# ~ (range(size) if kind == "all" else before) ==> range(size)
# %% wrong: neighbor alone => values
# > a stage that waits for its neighbor sends nothing either, so the stages behind it wait too.
# ~ size, stride = sizes[axis], strides[axis] ==> size, stride, held = sizes[axis], strides[axis], set(stuck)
# ~ range(at) if direction == "forward" else range(at + 1, size)
# ~~ ==> range(max(0, at - 1), at) if direction == "forward" else range(at + 1, min(size, at + 2))
# ~ in stuck for k ==> in held for k
# %% wrong: other way => values
# > messages go the other way.
# ~ direction == "forward" ==> direction != "forward"
# %% wrong: without itself => values
# > the hung rank is on the list as well.
# ~ sorted(stuck) ==> sorted(stuck - {rank})
# %% wrong: everyone => values
# > these are all ranks; some of them wait for nobody that is stuck.
# ~ sorted(stuck) ==> list(range(math.prod(sizes.values())))
# %% wrong: turned round => values
# > the last axis changes fastest.
# ~ reversed(sizes) ==> sizes
# %% wrong: the highest rank first => values not-sorted
# ~ sorted(stuck) ==> sorted(stuck, reverse=True)
# %% wrong: four operations at most => generality -
# ~ for kind, axis in waits: ==> for kind, axis in waits[:4]:
'''
