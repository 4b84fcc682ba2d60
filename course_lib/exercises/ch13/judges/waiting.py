"""Judges of chapter 13 on waiting: who is stuck behind a sleeping rank, and when transfers over one adapter end."""

import math
import random
from collections.abc import Mapping, Sequence
from functools import partial

from course_lib.exercises.ch13.judges.meshes import Sizes, groups, mesh, row_fault
from course_lib.judging import Fault, Judging, Mistake, Params, judged, near
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import Series
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB

Waits = Sequence[tuple[str, str]]
Transfers = Sequence[tuple[float, float]]

# --- a sleeping rank


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


# --- an adapter


def fair(transfers: Transfers, bandwidth: float) -> list[float]:
    """When each transfer ends if those under way share the bandwidth equally."""
    left, ends, now = [nbytes for _, nbytes in transfers], [start for start, _ in transfers], -math.inf
    while any(left):
        active = [at for at, (start, _) in enumerate(transfers) if left[at] and start <= now]
        later = min((start for at, (start, _) in enumerate(transfers) if left[at] and start > now), default=math.inf)
        if not active:
            now = later
            continue
        first = min(active, key=lambda at: left[at])
        done = now + left[first] * len(active) / bandwidth
        until = min(done, later)
        for at in active:
            left[at] = (
                0.0 if at == first and done <= later else max(0.0, left[at] - (until - now) * bandwidth / len(active))
            )
            if left[at] <= 1e-9 * transfers[at][1]:
                left[at], ends[at] = 0.0, until
        now = until
    return ends


def in_turn(transfers: Transfers, bandwidth: float) -> list[float]:
    """When each transfer ends if one is served after another, by start."""
    ends, free = [0.0] * len(transfers), -math.inf
    for at in sorted(range(len(transfers)), key=lambda at: transfers[at][0]):
        free = max(free, transfers[at][0]) + transfers[at][1] / bandwidth
        ends[at] = free
    return ends


def _apart(got: Sequence[float], want: Sequence[float]) -> Fault:
    if len(got) != len(want):
        return "wrong-shape", f"return one number for each of {len(want)} transfers; got {len(got)}."
    wrong = next(at for at, (one, two) in enumerate(zip(got, want, strict=True)) if not near(one, two, 1e-6))
    return "", f"transfer {wrong} does not end at {got[wrong]:.6g} s."


RIGHT = {"fair": fair, "in turn": in_turn}
ADAPTER: Mapping[str, Series] = {
    sharing: Series(
        part="ends",
        want=RIGHT[sharing],
        words=lambda transfers, bandwidth: f"{len(transfers)} transfers",
        apart=_apart,
        rel=1e-6,
        mistakes=(
            Mistake(
                "independent",
                lambda ts, b: [start + size / b for start, size in ts],
                "each transfer has the adapter to itself here.",
            ),
            Mistake(
                "other-sharing",
                RIGHT["in turn" if sharing == "fair" else "fair"],
                f"transfers are served {'with equal shares' if sharing == 'fair' else 'in turn'}.",
            ),
            Mistake(
                "split-for-good",
                lambda ts, b: [start + size * len(ts) / b for start, size in ts],
                "a transfer that ends leaves its share to the others.",
            ),
            Mistake(
                "durations",
                lambda ts, b, right=RIGHT[sharing]: [
                    end - start for end, (start, _) in zip(right(ts, b), ts, strict=True)
                ],
                "return the moment of the end, not the duration.",
            ),
            Mistake(
                "sorted", lambda ts, b, right=RIGHT[sharing]: sorted(right(ts, b)), "keep the order of `transfers`."
            ),
        ),
    )
    for sharing in RIGHT
}


def _adapter_cases(params: Params, rng: random.Random) -> list[Case]:
    def row(count: int, starts: Sequence[float]) -> tuple[list[tuple[float, float]], float]:
        return [(rng.choice(starts), rng.randint(1, 40) * GB) for _ in range(count)], rng.choice((12.5, 25, 50)) * GB

    late = [0.0, 0.1, 0.25, 0.4, 0.8, 1.3, 2.0]
    gaps = [([(0.0, 5 * GB), (3.0, 5 * GB), (3.05, 10 * GB)], 50 * GB), ([(9.0, 5 * GB), (1.0, 20 * GB)], 25 * GB)]
    three = [(0.0, 10 * GB), (0.1, 20 * GB), (0.37, 5 * GB)]
    gaps += [(three, 50 * GB), (three, 25 * GB), ([(0.4 - at, size) for at, size in three], 50 * GB)]
    edges = [
        ([], 50 * GB),
        ([(0.0, 500.0), (0.0, 2000.0)], 100.0),
        ([(0.0, 10 * GB)] * 12, 50 * GB),
        ([(2.0, 25 * GB)], 50 * GB),
        ([(0.0, 10 * GB)] * 3, 50 * GB),
        ([(0.0, 10 * GB), (0.5, 0.0), (0.1, 20 * GB)], 50 * GB),
        ([(0.0, 50 * GB), (1.0, 50 * GB)], 50 * GB),
    ]
    return [
        shown("two groups at once", "values:together", 0, [([(0.0, 10 * GB), (0.0, 20 * GB)], 50 * GB)]),
        hidden("other groups that start together", "values:together", 0, [row(count, [0.0]) for count in (2, 3, 5)]),
        hidden(
            "groups that start later",
            "generality:starts",
            0,
            [row(count, late) for count in (2, 3, 4, 6, 9, 12)] + gaps,
        ),
        hidden("none, one, ties, and no bytes", "generality:edges", 0, edges),
    ]


WAITING = {
    "blast-radius": Judging(
        shares="values:one 0.15, values:pipeline 0.2, generality:chains 0.5, generality:edges 0.15",
        cases=_stalled_cases,
        verdicts=_stalled_verdicts,
        why="Each operation passes the wait on along its axis, to ranks that then keep others waiting. After a step with collectives on every axis, one "
        "sleeping rank has stopped them all, and the first operation that it missed says where to look.",
        pytorch="NCCL's flight recorder (`TORCH_NCCL_TRACE_BUFFER_SIZE`) lists the last collective of every rank; the culprit is the one that never joined.",
    ),
    "shared-adapter": Judging(
        shares="values:together 0.3, generality:starts 0.45, generality:edges 0.25",
        cases=_adapter_cases,
        verdicts=lambda params, case, outcome: judged(case, ADAPTER[params["sharing"]].fault(case, outcome.value)),
        why="An adapter moves no more bytes than its bandwidth, however many groups use it. Two equal transfers at once take twice as long as one. A model "
        "that treats every axis as if it were alone on the wire promises a step that the cluster cannot deliver.",
        pytorch="Each process group has its own NCCL communicator and stream; the adapter below them is the same.",
    ),
}
