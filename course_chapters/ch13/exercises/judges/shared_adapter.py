from collections.abc import Sequence

from course_grader.judging import Case, Judging, Params, Random, Series, Worked, hidden, shown, table
from course_lib.estimate.units import GB

right = Worked("shared-adapter")
ENDS = Series("", words=lambda transfers, _: f"{len(transfers)} transfers", each="transfer", rel=1e-6)


def _adapter_cases(params: Params, rng: Random) -> list[Case]:
    def row(count: int, starts: Sequence[float]) -> tuple[list[tuple[float, float]], float]:
        return [(rng.choice(starts), rng.randint(1, 40) * GB) for _ in range(count)], rng.choice((12.5, 25, 50)) * GB

    late = [0.0, 0.1, 0.25, 0.4, 0.8, 1.3, 2.0]
    gaps = [([(0.0, 5 * GB), (3.0, 5 * GB), (3.05, 10 * GB)], 50 * GB), ([(9.0, 5 * GB), (1.0, 20 * GB)], 25 * GB)]
    counts = (2, 3, 4, 6, 9, 12)
    three = [(0.0, 10 * GB), (0.1, 20 * GB), (0.37, 5 * GB)]
    gaps += [(three, 50 * GB), (three, 25 * GB), ([(0.4 - at, size) for at, size in three], 50 * GB)]
    none: list[tuple[float, float]] = []
    edges = [(none, 50 * GB), ([(0.0, 500.0), (0.0, 2000.0)], 100.0), ([(0.0, 10 * GB)] * 12, 50 * GB)]
    edges += [([(2.0, 25 * GB)], 50 * GB), ([(0.0, 10 * GB)] * 3, 50 * GB)]
    edges += [([(0.0, 10 * GB), (0.5, 0.0), (0.1, 20 * GB)], 50 * GB), ([(0.0, 50 * GB), (1.0, 50 * GB)], 50 * GB)]
    return [
        shown("two groups at once", "values:together", 0, [([(0.0, 10 * GB), (0.0, 20 * GB)], 50 * GB)]),
        hidden("other groups that start together", "values:together", 0, [row(count, [0.0]) for count in (2, 3, 5)]),
        hidden("groups that start later", "generality:starts", 0, [row(count, late) for count in counts] + gaps),
        hidden("none, one, ties, and no bytes", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:together 0.3, generality:starts 0.45, generality:edges 0.25",
    cases=_adapter_cases,
    verdicts=table(ENDS, right=right),
    why="An adapter moves no more bytes than its bandwidth, however many groups use it. Two equal transfers at once "
    "take twice as long as one. A model that treats every axis as if it were alone on the wire promises a step "
    "that the cluster cannot deliver.",
    pytorch="Each process group has its own NCCL communicator and stream; the adapter below them is the same.",
)

ANSWERS = r'''# %% right: worked
sharing = params("shared-adapter").sharing  # leave as is: "fair" or "in turn"


def finish_times(transfers, bandwidth):
    """The second at which each transfer (start, bytes) ends."""
    left, ends = [size for _, size in transfers], [start for start, _ in transfers]
    free = 0.0
    for at in sorted(range(len(ends)), key=ends.__getitem__) if sharing == "in turn" else ():
        ends[at] = free = max(free, ends[at]) + left[at] / bandwidth
        left[at] = 0
    now = 0.0
    while any(left):
        active = [at for at, (start, _) in enumerate(transfers) if start <= now and left[at]]
        until = min((start for at, (start, _) in enumerate(transfers) if start > now and left[at]), default=math.inf)
        rate = bandwidth / max(1, len(active))
        until = min([until, *(now + left[at] / rate for at in active)])
        for at in active:
            left[at] = 0 if now + left[at] / rate == until else left[at] - (until - now) * rate
            ends[at] = until
        now = until
    return ends
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
# %% wrong: independent => values
# > each transfer has the adapter to itself here.
# ~ return ends ==> return [start + size / bandwidth for start, size in transfers]
# %% wrong: split for good => values
# > a transfer that ends leaves its share to the others.
# ~ return ends ==> return [start + size * len(transfers) / bandwidth for start, size in transfers]
# %% wrong: other sharing => values other-sharing unless sharing=in turn
# > transfers are served in turn here; they share the bandwidth.
# ~ params("shared-adapter").sharing ==> "in turn"
# %% wrong: all at once => generality
# > all transfers are taken to start at 0.
# ~ left, ends ==> transfers = [(0.0, size) for _, size in transfers]; left, ends
# %% wrong: durations => generality
# > return the moment of the end, not the duration.
# ~ return ends ==> return [end - start for end, (start, _) in zip(ends, transfers)]
# %% wrong: sorted => values
# > keep the order of `transfers`.
# ~ params("shared-adapter").sharing ==> "fair"
# ~ return ends ==> return sorted(ends)
# %% wrong: all together => values
# > all transfers end together here; each leaves when its own bytes are sent.
# ~ return ends
# ~~ ==> return [max(start for start, _ in transfers) + sum(size for _, size in transfers) / bandwidth] * len(transfers)
# %% wrong: no transfer is an error => generality raised
#       free = 0.0
# +     free = max(0.0, min(ends))
# %% wrong: the last kilobyte is done at once => generality ~
# ~ params("shared-adapter").sharing ==> "fair"
# ~ while any(left): ==> while any(each > 1000 for each in left):
# ~ if start <= now and left[at]] ==> if start <= now and left[at] > 1000]
'''
