"""Intervals of time: each moment counted once. No torch: evidence is checked and drawn without it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from course_lib.cluster.records import Message, Span

BLOCKED = frozenset(("send", "recv", "wait", "collective"))  # kinds of spans during which a rank waits
Interval = tuple[float, float]  # start and end, seconds
STARTING = 20e-6  # s: on a CPU, a shorter gap between two operations is the start of the second
DIGITS = 6  # of a time kept, after the point: the profiler's own clock is no finer
SIMULATED_DIGITS = 12  # of a simulated time, after the point: smaller differences come from the order of sums


class Recorded(Protocol):
    """What a run recorded, such as a `Run`."""

    @property
    def ranks(self) -> int: ...

    @property
    def truncated(self) -> bool: ...

    @property
    def spans(self) -> Sequence[Span]: ...

    @property
    def messages(self) -> Sequence[Message]: ...


def union(parts: Iterable[Interval], join: float = 0.0) -> list[Interval]:
    """The same time, each moment once: overlapping kernels must not be added up. Gaps of up to `join` seconds are
    closed."""
    merged: list[Interval] = []
    for start, end in sorted(parts):
        if merged and start <= merged[-1][1] + join:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def outside(parts: Iterable[Interval], busy: Sequence[Interval]) -> list[Interval]:
    """What of sorted, disjoint `parts` lies outside of sorted, disjoint `busy`."""
    found, place = list[Interval](), 0
    for start, stop in parts:
        while place < len(busy) and busy[place][1] <= start:
            place += 1
        at, here = start, place
        while here < len(busy) and busy[here][0] < stop:
            if busy[here][0] > at:
                found.append((at, busy[here][0]))
            at, here = max(at, busy[here][1]), here + 1
        if at < stop:
            found.append((at, stop))
    return found


def length(parts: Iterable[Interval]) -> float:
    """Seconds of a union."""
    return sum(end - start for start, end in parts)


def exposed(found: dict[str, list[Interval]]) -> float:
    """Seconds in which a rank communicated and did not compute."""
    both = length(union([*found["compute"], *found["communication"]]))
    return both - length(union(found["compute"]))


def sorted_out(kernels: Iterable[tuple[str, float, float]], join: float = 0.0) -> dict[str, list[Interval]]:
    """Kernels or operations (name, start, end) by what they do; NCCL's and gloo's communicate. Times count from the
    first."""
    known = sorted(kernels, key=lambda kernel: kernel[1])
    begin = known[0][1] if known else 0.0
    found: dict[str, list[Interval]] = {"compute": [], "communication": []}
    for name, start, end in known:
        found["communication" if "nccl" in name.lower() or name.startswith("gloo:") else "compute"].append(
            (start - begin, end - begin)
        )
    merged = {"compute": union(found["compute"], join), "communication": union(found["communication"])}
    return {
        kind: [pair for start, end in each if (pair := (round(start, DIGITS), round(end, DIGITS)))[0] < pair[1]]
        for kind, each in merged.items()
    }


def overlap(one: Iterable[Interval], two: Iterable[Interval]) -> float:
    """Seconds that two sets of intervals share."""
    one, two = union(one), union(two)
    return length(one) + length(two) - length(union([*one, *two]))


def exposed_seconds(run: Recorded) -> list[float]:
    """Seconds during which each rank waited for communication."""
    return [length(union(waits)) for waits in _waits(run)]


def hidden_seconds(run: Recorded) -> list[float]:
    """Seconds during which messages of each rank were in transit while it did not wait for them."""
    travelled: list[list[Interval]] = [[] for _ in range(run.ranks)]
    for message in run.messages:
        for rank in (message.src, message.dst):
            travelled[rank].append((message.sent, message.arrived))
    pairs = zip(travelled, _waits(run), strict=True)
    return [max(round(length(union(spans)) - overlap(spans, waits), SIMULATED_DIGITS), 0.0) for spans, waits in pairs]


def _waits(run: Recorded) -> list[list[Interval]]:
    if run.truncated:
        raise ValueError("The run made more spans or messages than are kept; take fewer steps or ranks.")
    found: list[list[Interval]] = [[] for _ in range(run.ranks)]
    for span in run.spans:
        if span.kind in BLOCKED:
            found[span.rank].append((span.start, span.end))
    return found
