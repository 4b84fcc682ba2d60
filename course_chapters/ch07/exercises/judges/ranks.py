"""Checks of chapter 07's judges: gradients of several steps, and a run's bytes, messages, overlap and live graphs."""

from collections.abc import Sequence

from torch import Tensor

from course_grader.judging import Case, Fault, Wrong, is_number
from course_grader.judging.gradients import Tensors, gradients_fault
from course_grader.judging.traffic import Meter
from course_lib.cluster.parity import step_bytes


def steps_fault(
    case: Case, results: Sequence[Sequence[Tensors]], wants: Sequence[Tensors], later: tuple[str, str]
) -> Fault | None:
    """The first step after which a rank's gradients are not the right ones. Where it is not the first, `later` says so,
    and may give it another name."""
    for step, want in enumerate(wants):
        got = [row[step] if step < len(row) else [] for row in results]
        fault = gradients_fault(case, got, want, where=("gradients", step))
        if fault and step:
            name, told = later[0] if case.adversary is None else "", later[1].format(step, step + 1)
            found = Wrong(*fault)
            return found._replace(
                mistake=name or found.mistake, message=f"{told} {found.message}", lead=f"{told} {found.lead}"
            )
        if fault:
            return fault
    return None


# --- what moved


def bytes_fault(
    meter: Meter, buckets: Sequence[Sequence[Tensor]], steps: int, spare: int, ending: int = 0
) -> Fault | None:
    """Faults of gradients that were sent more than once per step, through one rank, or not at all.

    `spare` bytes are allowed, and so are `ending` more steps, in which ranks learn that training has ended.
    """
    sent, n = meter["bytes_sent"], len(meter["bytes_sent"])
    if n == 1:
        return ("alone", f"One rank alone sent {sent[0]:,} bytes.") if sent[0] else None
    ring = [each * steps for each in step_bytes(buckets, n)]
    size = sum(each.nbytes for bucket in buckets for each in bucket) * steps
    if sum(sent) < 0.99 * 2 * (n - 1) * size:
        least = 2 * (n - 1) * size
        return "too-few-bytes", f"All ranks sent {sum(sent):,} bytes; averaging {size:,} takes at least {least:,}."
    worst = max(range(n), key=lambda rank: sent[rank] - ring[rank])
    if sent[worst] <= 1.02 * ring[worst] * (1 + ending / max(steps, 1)) + spare:
        return None
    if sum(each > 1.3 * own for each, own in zip(sent, ring, strict=True)) == 1 and n > 2:
        return "one-root", f"Rank {worst} sends {sent[worst]:,} bytes for all; in a ring it would send {ring[worst]:,}."
    times = sent[worst] / ring[worst] if ring[worst] else 0.0
    return "too-many-bytes", f"Rank {worst} sent {sent[worst]:,} bytes, {times:.3g} times what one averaging takes."


def messages_fault(meter: Meter, collectives: int, think: str, spare: int, exactly: bool = False) -> Fault | None:
    """Faults of more all-reduces than required or, with `exactly`, fewer; `spare` more are allowed."""
    n = len(meter["messages_sent"])
    if exactly and n > 1 and min(meter["messages_sent"]) < 2 * (n - 1) * collectives:
        told = f"{min(meter['messages_sent']):,} messages per rank: fewer than {collectives} all-reduces need."
        return "too-few-collectives", f"{told} {think}"
    most = 2 * (n - 1) * (collectives + spare)
    worst = max(meter["messages_sent"])
    if n == 1 or worst <= most:
        return None
    about = worst / (2 * (n - 1))
    return "too-many-collectives", f"A rank started about {about:.0f} all-reduces; the limit is {collectives}. {think}"


def overlap_fault(meter: Meter, computing: float, last: float, slack: float) -> Fault | None:
    """Faults of exposed communication above `slack` times that of the last gradients, and of skipped computation."""
    out = meter["seconds"] - computing
    if out < -1e-9:
        return "skipped", "The run took less time than the model computes, so part of the backward pass did not run."
    if out <= slack * last:
        return None
    return "not-hidden", (
        f"{out * 1e6:,.0f} µs of communication are exposed; only the last gradients' {last * 1e6:,.0f} µs have to be. "
        "When does each all-reduce start, and where do you wait for it?"
    )


def graphs_fault(counts: Sequence[object], forwards: Sequence[int], rows: int, least: Sequence[int]) -> Fault | None:
    """Faults of micro-batches that went through the model together or more than once, or whose graphs were kept."""
    for rank, (seen, many) in enumerate(zip(counts, forwards, strict=True)):
        if type(seen) is not dict or not all(is_number(seen.get(name)) for name in ("forwards", "rows", "most alive")):
            return "not-counted", "The forward passes of this run could not be counted."
        calls, alive = seen["forwards"], seen["most alive"]
        if seen["rows"] > rows:
            return "one-big-batch", f"Rank {rank} put {seen['rows']} rows through at once; use at most {rows}."
        if calls < least[rank]:
            return "fewer-forwards", f"Rank {rank} called the model {calls} times for {many} micro-batches."
        if calls > many:
            return "more-forwards", f"Rank {rank} made {calls} forward passes for {many} micro-batches."
        if alive > 1:
            return "graphs-kept", f"Rank {rank} kept {alive} graphs alive; run backward before the next forward pass."
    return None
