"""What a run moved: bytes, messages and rounds on the meter against what the task needs."""

from collections.abc import Sequence

from course_grader.judging.mistakes import Fault
from course_grader.records import Meter
from course_lib.cluster import Topology


def partners(meter: Meter, rank: int) -> list[int]:
    """The ranks that this one sent a message to."""
    return [dst for src, dst, _, messages in meter["pairs"] if src == rank and messages]


def ready_made(meter: Meter) -> Fault | None:
    """A run in which a collective was called, or messages moved that no call of send or receive accounts for."""
    for rank, calls in enumerate(meter["calls"]):
        if meter["collectives"][rank] or calls != meter["messages_sent"][rank] + meter["messages_received"][rank]:
            return "ready-made", f"Rank {rank} called a collective; build it from send and receive."
    return None


def too_many_bytes(meter: Meter, size: int, most: float, needs: str) -> Fault | None:
    """A rank that sent more than `most` bytes, and the pattern that led there. `size`: bytes of one rank's tensor."""
    sent, n = meter["bytes_sent"], len(meter["bytes_sent"])
    worst = max(range(n), key=sent.__getitem__)
    if sent[worst] <= most:
        return None
    spent, allowed = f"{sent[worst] / size:.3g}·S", f"{most / size:.3g}·S"
    if "." not in spent:
        spent = f"{sent[worst] / size:.1f}·S"
    over = [rank for rank in range(n) if sent[rank] > most]
    told = [partners(meter, rank) for rank in range(n)]
    if n > 2 and len(over) == 1 and len(told[worst]) > 2:
        return (
            "one-root",
            f"All traffic passes through rank {worst}: it sends {spent}, {needs} {allowed}, and the others "
            f"wait for it.",
        )
    if n > 3 and all(len(each) == n - 1 for each in told):
        return "told-everyone", f"Every rank sends to every other: {spent} bytes per rank, {needs} {allowed}."
    if sent[worst] >= 0.99 * size * meter["messages_sent"][worst]:
        return "whole-tensors", f"Whole tensors at every hop: {spent} bytes per rank, {needs} {allowed}."
    return "too-many-bytes", f"Rank {worst} sends {spent} bytes, {needs} {allowed}."


def sent_again(meter: Meter, needed: Sequence[float], neighbors: int = 1) -> Fault | None:
    """A rank that sent more bytes than its `neighbors` need of it: to further ranks, or more than once."""
    for rank, size in enumerate(needed):
        if (sent := meter["bytes_sent"][rank]) <= size:
            continue
        to = partners(meter, rank)
        if len(to) > neighbors:
            return (
                "told-everyone",
                f"Rank {rank} sent to ranks {', '.join(map(str, to))}, but not all of them need its tensor.",
            )
        return "sent-again", f"Rank {rank} sent {sent:,} bytes; the other ranks need only {size:,.0f}, sent once."
    return None


def too_few_bytes(meter: Meter, sent: Sequence[float], received: Sequence[float]) -> Fault | None:
    """A rank that sent or received too few bytes for a right answer; `sent` and `received` are the least bytes by
    rank."""
    for rank, (out, into) in enumerate(zip(sent, received, strict=True)):
        if meter["bytes_received"][rank] < into:
            return "too-few-bytes", (
                f"Rank {rank} received {meter['bytes_received'][rank]:,} bytes, but it needs at least {into:,.0f} to "
                "know the answer."
            )
        if meter["bytes_sent"][rank] < out:
            return "too-few-bytes", (
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes; the other ranks need {out:,.0f} bytes "
                f"of its data."
            )
    return None


def bytes_fault(
    meter: Meter, most: Sequence[float], needs: str, sent: Sequence[float], received: Sequence[float] | None = None
) -> Fault | None:
    """A rank that sent more than `most` bytes, or too few as `too_few_bytes` says; all are by rank.

    `needs` says what the bytes are for: "the counts take". By default, a rank receives at least what it sends.
    """
    for rank, (out, enough) in enumerate(zip(meter["bytes_sent"], most, strict=True)):
        if out > enough:
            return "too-many-bytes", f"rank {rank} sends {out:,} bytes; {needs} {enough:,.0f}."
    return too_few_bytes(meter, sent, sent if received is None else received)


def too_many_rounds(meter: Meter, most: int, think: str) -> Fault | None:
    """A run whose longest chain of messages is longer than `most`."""
    rounds = max(meter["steps"])
    return (
        ("too-many-rounds", f"It takes {rounds} rounds one after another; {most} are enough. {think}")
        if rounds > most
        else None
    )


def too_long(meter: Meter, most: int, think: str) -> Fault | None:
    """A run that takes longer than `most` latencies one after another; messages this short take no other time."""
    flights = meter["seconds"] / Topology().levels[0].latency
    if flights <= most + 0.5:
        return None
    return (
        "in-a-row",
        f"It takes {flights:.0f} latencies one after another; {most} are enough. Ranks wait for each other in a "
        f"chain. {think}",
    )


def off_the_ring(meter: Meter, direction: int, route: str) -> Fault | None:
    """A message to any rank other than the next one on the ring."""
    n = len(meter["bytes_sent"])
    pairs = [(src, dst) for src, dst, _, messages in meter["pairs"] if messages]
    astray = [(src, dst) for src, dst in pairs if dst != (src + direction) % n]
    if not astray:
        return None
    if n > 2 and all(dst == (src - direction) % n for src, dst in pairs):
        name, lead = (
            ("public-form", "This solves the public form of the exercise: ")
            if direction < 0
            else ("wrong-direction", "")
        )
        return name, f"{lead}messages go around the ring in the opposite direction. The route is {route}."
    src, dst = astray[0]
    return (
        "not-a-neighbor",
        f"Rank {src} sent to rank {dst}; on the route {route} it may send only to rank {(src + direction) % n}.",
    )
