"""Judge of shared-adapter: two groups share an adapter."""

import math
import random
from collections.abc import Mapping, Sequence

from course_lib.judging import Fault, Judging, Mistake, Params, judged, near
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import Series
from course_lib.records import Case
from course_lib.units import GB

Transfers = Sequence[tuple[float, float]]


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


JUDGING = Judging(
    shares="values:together 0.3, generality:starts 0.45, generality:edges 0.25",
    cases=_adapter_cases,
    verdicts=lambda params, case, outcome: judged(case, ADAPTER[params["sharing"]].fault(case, outcome.value)),
    why="An adapter moves no more bytes than its bandwidth, however many groups use it. Two equal transfers at once take twice as long as one. A model "
    "that treats every axis as if it were alone on the wire promises a step that the cluster cannot deliver.",
    pytorch="Each process group has its own NCCL communicator and stream; the adapter below them is the same.",
)

ANSWERS = r"""# %% right: from event to event
def finish_times(transfers, bandwidth):
    left = [size for _, size in transfers]
    ends = [start for start, _ in transfers]
    now = 0.0
    while True:
        under_way = [i for i, (start, _) in enumerate(transfers) if start <= now and left[i] > 0]
        coming = [start for start, size in transfers if start > now and size > 0]
        if not under_way and not coming:
            return ends
        until = min(coming, default=float("inf"))
        if under_way:
            rate = bandwidth / len(under_way)
            quickest = min(left[i] for i in under_way)
            until = min(until, now + quickest / rate)
            for i in under_way:
                if left[i] == quickest and until == now + quickest / rate:
                    left[i], ends[i] = 0, until
                else:
                    left[i] -= (until - now) * rate
        now = until


# %% right: bytes that each share has sent
def finish_times(transfers, bandwidth):
    events = sorted({start for start, _ in transfers})
    active, ends, clock, served = {}, [start for start, _ in transfers], 0.0, 0.0
    for at, nxt in zip(events, [*events[1:], float("inf")]):
        clock = max(clock, at)
        for i, (start, size) in enumerate(transfers):
            if start == at and size:
                active[i] = served + size
        while active:
            goal = min(active.values())
            end = clock + (goal - served) * len(active) / bandwidth
            if end > nxt:
                served += (nxt - clock) * bandwidth / len(active)
                break
            clock, served = end, goal
            for i in [i for i, mark in active.items() if mark == goal]:
                ends[i] = clock
                del active[i]
        clock = max(clock, nxt) if nxt < float("inf") else clock
    return ends


# %% right: any variant  from: from event to event
# - def finish_times(transfers, bandwidth):
# + from course_lib import params
# + SHARING = params("shared-adapter").sharing
# + def finish_times(transfers, bandwidth):
# -     left = [size for _, size in transfers]
# +     if SHARING == "in turn":
# +         free, ends = 0.0, {}
# +         for i, (start, size) in sorted(enumerate(transfers), key=lambda pair: pair[1][0]):
# +             ends[i] = free = max(free, start) + size / bandwidth
# +         return [ends[i] for i in range(len(transfers))]
# +     left = [size for _, size in transfers]


# %% wrong: each alone => values independent
def finish_times(transfers, bandwidth):
    return [start + size / bandwidth for start, size in transfers]


# %% wrong: an equal part for good => values split-for-good
def finish_times(transfers, bandwidth):
    return [start + size * len(transfers) / bandwidth for start, size in transfers]


# %% wrong: one after another => values other-sharing unless sharing=in turn
def finish_times(transfers, bandwidth):
    free, ends = 0.0, {}
    for i, (start, size) in sorted(enumerate(transfers), key=lambda pair: pair[1][0]):
        ends[i] = free = max(free, start) + size / bandwidth
    return [ends[i] for i in range(len(transfers))]


# %% wrong: all start at once => generality -  from: from event to event
#   def finish_times(transfers, bandwidth):
# +     transfers = [(0.0, size) for _, size in transfers]

# %% wrong: durations => generality durations  from: from event to event
# ~ return ends ==> return [end - start for end, (start, _) in zip(ends, transfers)]


# %% wrong: all end together => values -
def finish_times(transfers, bandwidth):
    return [max(start for start, _ in transfers) + sum(size for _, size in transfers) / bandwidth] * len(transfers)


# %% wrong: no transfer is an error => generality raised  from: from event to event
# -     ends = [start for start, _ in transfers]
# +     ends = [start for start, _ in transfers]
# +     first = min(ends)

# %% wrong: the last kilobyte is done at once => generality ~  from: any variant
# ~ left[i] > 0 ==> left[i] > 1000
"""
