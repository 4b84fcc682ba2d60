"""Judge of blast-radius: which ranks wait for a sleeping one?"""

import math
import random
from collections.abc import Sequence
from functools import partial

from course_lib.exercises.ch13.judges.shared import Sizes, groups, mesh, row_fault
from course_lib.judging import Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Waits = Sequence[tuple[str, str]]


def stalled(direction: str, sizes: Sizes, rank: int, waits: Waits, slip: str = "") -> list[int]:
    """The ranks that are stuck after all operations; `slip` names a mistake to make."""
    stuck = {rank}
    for kind, axis in waits:
        before = {rank} if slip == "not-passed-on" else set(stuck)
        for group in groups(sizes, axis):
            places = [at for at, each in enumerate(group) if each in before]
            if not places:
                continue
            if kind == "all" or slip == "whole-pipeline":
                stuck |= set(group)
            elif slip == "neighbor-alone":
                stuck |= {
                    group[at + (1 if direction == "forward" else -1)]
                    for at in places
                    if 0 <= at + (1 if direction == "forward" else -1) < len(group)
                }
            elif (direction == "forward") != (slip == "other-way"):
                stuck |= set(group[min(places) :])
            else:
                stuck |= set(group[: max(places) + 1])
    return sorted(stuck - {rank} if slip == "without-itself" else stuck)


STUCK = {
    "not-passed-on": "ranks that are stuck themselves make others wait.",
    "whole-pipeline": "a pipeline message keeps only one side of the pipeline waiting.",
    "neighbor-alone": "a stage that waits for its neighbor sends nothing either, so the stages behind it wait too.",
    "other-way": "messages go the other way.",
    "without-itself": "the sleeping rank is on the list as well.",
}


def _stalled_words(sizes: Sizes, rank: int, waits: Waits) -> str:
    shape = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
    return f"{shape}, rank {rank} asleep, {', then '.join(f'{kind} {axis}' for kind, axis in waits) or 'no operation'}"


def _stalled_cases(params: Params, rng: random.Random) -> list[Case]:
    def row(*kinds: str) -> tuple[Sizes, int, Waits]:
        sizes = mesh(rng, rng.choice((2, 3, 4)), 96, (2, 3, 4, 5))
        axes = [rng.choice(list(sizes)) for _ in kinds]
        return sizes, rng.randrange(math.prod(sizes.values())), list(zip(kinds, axes, strict=True))

    def middle(*waits: tuple[str, str]) -> tuple[Sizes, int, Waits]:
        sizes = {"dp": 2, "pp": 5, "tp": 3}
        return sizes, rng.choice((7, 10, 22)), list(waits)

    example = {"dp": 2, "pp": 3, "tp": 4}
    edges: list[tuple[Sizes, int, Waits]] = [
        ({"pp": 4}, 0, [("next", "pp")]),
        ({"pp": 4}, 3, [("next", "pp")]),
        ({"tp": 1, "dp": 6, "pp": 1}, 3, [("all", "tp"), ("next", "pp")]),
        ({"dp": 2, "tp": 2}, 1, []),
        ({"a": 3, "b": 2}, 5, [("all", "b"), ("all", "b")]),
        *((dict(order), 1, [("all", "dp")]) for order in ([("pp", 2), ("dp", 3)], [("dp", 3), ("pp", 2)])),
        ({"a": 3, "b": 2}, 5, [("all", "a"), ("all", "b")]),
        ({"ep": 2, "a": 3, "b": 2, "d": 3, "x": 4}, 122, [("next", "x"), ("all", "d"), ("next", "b"), ("all", "ep")]),
        ({"ep": 2, "a": 2, "b": 2, "d": 2, "x": 2}, 31, [("all", axis) for axis in ("x", "x", "d", "d", "b", "a")]),
    ]
    chains = [row("all", "next", "all"), row("next", "all", "next"), row("all", "all"), row("next", "next", "all")]
    return [
        shown("one collective", "values:one", 0, [(example, 6, [("all", "tp")])]),
        shown("a pipeline", "values:pipeline", 0, [(example, 6, [("next", "pp")])]),
        hidden("other meshes", "values:one", 0, [row("all") for _ in range(6)]),
        hidden("a stage in the middle", "values:pipeline", 0, [middle(("next", "pp")) for _ in range(3)]),
        hidden(
            "several operations",
            "generality:chains",
            0,
            [*chains, middle(("all", "tp"), ("next", "pp"), ("all", "dp"))],
        ),
        hidden("ends, axes of one rank, no operation", "generality:edges", 0, edges),
    ]


def _stalled_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    oracle = partial(stalled, params["direction"])
    known = {name: (partial(oracle, slip=name), text) for name, text in STUCK.items()}
    values = [list(map(int, value)) for value in outcome.value]
    if any(value != sorted(value) for value in values):
        return judged(case, ("not-sorted", f"{case.name}: sort the ranks, the lowest one first."))
    return judged(case, row_fault(case, values, oracle, _stalled_words, known))


JUDGING = Judging(
    shares="values:one 0.15, values:pipeline 0.2, generality:chains 0.5, generality:edges 0.15",
    cases=_stalled_cases,
    verdicts=_stalled_verdicts,
    why="Each operation passes the wait on along its axis, to ranks that then keep others waiting. After a step with collectives on every axis, one "
    "sleeping rank has stopped them all, and the first operation that it missed says where to look.",
    pytorch="NCCL's flight recorder (`TORCH_NCCL_TRACE_BUFFER_SIZE`) lists the last collective of every rank; the culprit is the one that never joined.",
)

ANSWERS = r"""import math


# %% right: a set that grows
def stalled(sizes, rank, waits):
    stuck = {rank}
    for kind, axis in waits:
        names = list(sizes)
        stride = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
        for each in range(math.prod(sizes.values())):
            at = each // stride % sizes[axis]
            behind = range(sizes[axis]) if kind == "all" else range(at)
            if any(each + (k - at) * stride in stuck for k in behind):
                stuck = stuck | {each}
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


# %% right: any variant  from: a box
# - def stalled(sizes, rank, waits):
# + from course_lib import params
# + DIRECTION = params("blast-radius").direction
# + def stalled(sizes, rank, waits):
# -         high[axis] = sizes[axis] - 1
# -         if kind == "all":
# +         if kind == "all" or DIRECTION == "forward":
# +             high[axis] = sizes[axis] - 1
# +         if kind == "all" or DIRECTION == "backward":

# %% wrong: a set that grows while it is read => values -  from: a set that grows
# ~ sizes[axis]) if kind == "all" else range(at ==> at


# %% wrong: only the sleeper keeps others waiting => generality not-passed-on  from: a set that grows
# ~ in stuck for k ==> == rank for k


# %% wrong: the whole pipeline => values whole-pipeline  from: a box
# -         if kind == "all":
# -             low[axis] = 0
# +         low[axis] = 0

# %% wrong: the next stage alone => values neighbor-alone  from: a box
# ~ - 1 ==> - 1 if kind == "all" else min(high[axis] + 1, sizes[axis] - 1)

# %% wrong: the other way => values other-way unless direction=backward  from: a box
# ~ high[axis] = sizes[axis] - 1 ==> low[axis] = 0
# ~ low[axis] = 0 ==> high[axis] = sizes[axis] - 1

# %% wrong: without the sleeper => values without-itself  from: a box
# ~ return box ==> return [each for each in box if each != rank]

# %% wrong: everyone => values -  from: a box
# ~ return box ==> return list(range(math.prod(sizes.values())))

# %% wrong: the first axis changes fastest => values -  from: a box
#       low, high, rest = {}, {}, rank
# +     sizes = dict(reversed(sizes.items()))

# %% wrong: the highest rank first => values not-sorted  from: a set that grows
# ~ (stuck) ==> (stuck, reverse=True)

# %% wrong: four operations at most => generality -  from: a set that grows
# ~ for kind, axis in waits: ==> for kind, axis in waits[:4]:
"""
