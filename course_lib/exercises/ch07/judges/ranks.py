"""What chapter 07's judges share: gradients against those of one process, by name where they are wrong, and what moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import Topology
from course_lib.exercises.ch07.models import Net
from course_lib.judging import Fault, Mistake, describe, is_number
from course_lib.judging.tensors import not_like
from course_lib.judging.traffic import Meter
from course_lib.parity import step_bytes, tolerance
from course_lib.records import Case

Tensors = list[Tensor | None]
NEAR = tolerance(torch.float32, 2000)  # a share of the largest number; the slips below are off by far more
ALONE = SimpleNamespace(rank=0, size=1, compute=lambda *_, **__: None)


def alike(got: Any, want: Tensor, beside: float = 0.0) -> bool:
    """Whether this is the wanted tensor, but for rounding; where numbers cancel out, those `beside` set the scale."""
    if not isinstance(got, Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        return False
    if not want.numel():
        return True
    difference = (got.double() - want.double()).abs().max().item()
    return difference <= NEAR * max(want.double().abs().max().item(), 0.05 * beside)


def all_alike(got: Sequence[Any], want: Sequence[Tensor | None]) -> bool:
    """Whether these are the wanted tensors, and None where nothing is wanted."""
    top = largest(want)
    return len(got) == len(want) and all(
        one is None if two is None else alike(one, two, top) for one, two in zip(got, want, strict=True)
    )


def largest(tensors: Sequence[Tensor | None]) -> float:
    """The largest number in any of the tensors, without its sign."""
    return max((each.double().abs().max().item() for each in tensors if each is not None and each.numel()), default=0.0)


def in_flight(case: Case, rank: int) -> Fault:
    """A result that is right on a kind machine and wrong on this one."""
    return "in-flight", (
        f"With {case.adversary}, rank {rank}'s result changes. A tensor is used while it is under way: between the start "
        "of an asynchronous operation and its `wait()` it may be neither read nor written."
    )


def tensors_fault(
    case: Case,
    results: Sequence[Any],
    want: Sequence[Tensor | None],
    slips: Sequence[Mistake] = (),
    what: str = "gradient",
) -> Fault | None:
    """The first rank whose tensors are not the wanted ones, and what they are instead."""
    for rank, got in enumerate(results):
        if type(got) not in (list, tuple) or len(got) != len(want):
            held = f"{len(got)} entries" if type(got) in (list, tuple) else describe(got)
            name = "returned-none" if got is None else "no-list"
            return name, f"Rank {rank} returned {held}; a list of {len(want)} tensors is to come."
        if all_alike(got, want):
            continue
        if case.adversary is not None:
            return in_flight(case, rank)
        return _named(rank, list(got), want, slips, what)
    return None


def _named(rank: int, got: Tensors, want: Sequence[Tensor | None], slips: Sequence[Mistake], what: str) -> Fault:
    for slip in slips:
        if all_alike(got, slip.on(rank)) and any(each is not None for each in got):
            return slip.name, f"Rank {rank}: {slip.message}"
    for place, (one, two) in enumerate(zip(got, want, strict=True)):
        where = f"{what} {place} of {len(want)}"
        if two is None and one is not None:
            return ("frozen-touched", f"Rank {rank}: parameter {place} is frozen and got a {what}; it stays None.")
        if two is None:
            continue
        if one is None:
            return "no-gradient", f"Rank {rank}: there is no {where}; its `.grad` is None."
        if fault := not_like(one, two, rank):
            return fault
        if not torch.isfinite(one).all():
            return (
                "not-finite",
                f"Rank {rank}: {where} holds NaN or infinity. Was something divided by a count of zero, or left empty?",
            )
    top = largest(want)
    place = next(
        i for i, (one, two) in enumerate(zip(got, want, strict=True)) if two is not None and not alike(one, two, top)
    )
    right = sum(two is None or alike(one, two, top) for one, two in zip(got, want, strict=True))
    factor = _factor(got[place], want[place])
    if _close(got[place], want[place]):
        return "rounded", (
            f"Rank {rank}: {what} {place} of {len(want)} is close, but not exact: were numbers sent, or added up, in another "
            "dtype?"
        )
    told = f"it is {factor:.4g} times the right one" if factor is not None else "these are other numbers"
    return (
        "other-numbers",
        f"Rank {rank}: {what} {place} of {len(want)} is wrong, {told}; {right} of {len(want)} are right.",
    )


def _close(got: Any, want: Any) -> bool:
    return bool((got.double() - want.double()).abs().max() <= 0.01 * want.double().abs().max())


def _factor(got: Any, want: Any) -> float | None:
    top = want.abs().argmax()
    if not want.numel() or not want.reshape(-1)[top]:
        return None
    factor = (got.reshape(-1)[top] / want.reshape(-1)[top]).item()
    return (
        factor
        if torch.allclose(got.double(), factor * want.double(), rtol=1e-3, atol=1e-4 * want.abs().max().item())
        else None
    )


def scaled(tensors: Sequence[Tensor | None], factor: float) -> Tensors:
    """Each tensor times a number."""
    return [None if each is None else (each.double() * factor).to(each.dtype) for each in tensors]


def mean_of(lists: Sequence[Sequence[Tensor | None]], weights: Sequence[float] | None = None) -> Tensors:
    """The (weighted) mean of lists of tensors, taken in float64."""
    shares = weights or [1.0] * len(lists)
    whole = sum(shares) or 1.0
    return [
        None
        if row[0] is None
        else (sum(w * each.double() for w, each in zip(shares, row, strict=True)) / whole).to(row[0].dtype)
        for row in zip(*lists, strict=True)
    ]


def net(spec: Mapping[str, Any], rank: int = 0) -> Net:
    """The model of a description, as one process holds it."""
    plain = {**spec, "seconds": 0.0}
    return Net(SimpleNamespace(**{**vars(ALONE), "rank": rank}), plain)  # type: ignore[arg-type]


def gradients(model: Any, loss: Tensor) -> Tensors:
    """Every parameter's gradient of the loss, None where it is frozen; nothing is left in the model."""
    trained = [each for each in model.parameters() if each.requires_grad]
    found = dict(zip(trained, torch.autograd.grad(loss, trained), strict=True))
    return [found.get(each) for each in model.parameters()]


# --- what moved


def collective_seconds(nbytes: int, ranks: int) -> float:
    """Time of one ring all-reduce on the teaching link, by itself."""
    link = Topology().levels[0]
    return 2 * (ranks - 1) * (link.latency + nbytes / ranks / link.bandwidth) if ranks > 1 else 0.0


def bytes_fault(
    meter: Meter, buckets: Sequence[Sequence[Tensor]], steps: int, spare: int, ending: int = 0
) -> Fault | None:
    """Gradients that went over the wire more than once a step, by way of one rank, or not at all.

    `spare` bytes are free, and so are `ending` steps more, in which ranks learn that the end has come.
    """
    sent, n = meter["bytes_sent"], len(meter["bytes_sent"])
    if n == 1:
        return ("alone", f"One rank alone sent {sent[0]:,} bytes.") if sent[0] else None
    ring = [each * steps for each in step_bytes(buckets, n)]
    size = sum(each.nbytes for bucket in buckets for each in bucket) * steps
    if sum(sent) < 0.99 * 2 * (n - 1) * size:
        return "too-few-bytes", (
            f"The {n} ranks sent {sum(sent):,} bytes in all; to average {size:,} bytes over them takes "
            f"{2 * (n - 1) * size:,}: every rank's part must reach the mean, and the mean every rank."
        )
    worst = max(range(n), key=lambda rank: sent[rank] - ring[rank])
    if sent[worst] <= 1.02 * ring[worst] * (1 + ending / max(steps, 1)) + spare:
        return None
    if sum(each > 1.3 * own for each, own in zip(sent, ring, strict=True)) == 1 and n > 2:
        return (
            "one-root",
            f"Everything goes through rank {worst}: it sends {sent[worst]:,} bytes, a ring needs {ring[worst]:,} per rank.",
        )
    times = sent[worst] / ring[worst] if ring[worst] else 0.0
    return "too-many-bytes", (
        f"Rank {worst} sent {sent[worst]:,} bytes, {times:.3g} times what averaging the gradients once a step takes "
        f"({ring[worst]:,}). What goes over the wire more than once, or need not go at all?"
    )


def messages_fault(meter: Meter, collectives: int, think: str, spare: int, exactly: bool = False) -> Fault | None:
    """More all-reduces than asked for, or, with `exactly`, fewer; `spare` more are free."""
    n = len(meter["messages_sent"])
    if exactly and n > 1 and min(meter["messages_sent"]) < 2 * (n - 1) * collectives:
        return "too-few-collectives", (
            f"{min(meter['messages_sent']):,} messages per rank are fewer than {collectives} all-reduces make: "
            f"were buckets filled beyond their size? {think}"
        )
    most = 2 * (n - 1) * (collectives + spare)
    worst = max(meter["messages_sent"])
    if n == 1 or worst <= most:
        return None
    return "too-many-collectives", (
        f"{worst:,} messages per rank are about {worst / (2 * (n - 1)):.0f} all-reduces; {collectives} are "
        f"enough. {think}"
    )


def overlap_fault(meter: Meter, computing: float, last: float, slack: float) -> Fault | None:
    """Communication that sticks out by more than `slack` times that of the last gradients, or computing that was skipped."""
    out = meter["seconds"] - computing
    if out < -1e-9:
        return (
            "skipped",
            "The run took less time than the model computes: the backward pass did not run as it should.",
        )
    if out <= slack * last:
        return None
    return "not-hidden", (
        f"{out * 1e6:,.0f} µs of communication stick out of the backward pass, where those of the last gradients, "
        f"{last * 1e6:,.0f} µs, are all that must. When does each all-reduce start, and who waits for it, and when?"
    )


def graphs_fault(counts: Sequence[Any], forwards: Sequence[int], rows: int, least: Sequence[int]) -> Fault | None:
    """Micro-batches that went through the model together, more than once, or whose graphs were kept."""
    for rank, (seen, many) in enumerate(zip(counts, forwards, strict=True)):
        if type(seen) is not dict or not all(is_number(seen.get(name)) for name in ("forwards", "rows", "most alive")):
            return "not-counted", "The forward passes of this run could not be counted."
        if seen["rows"] > rows:
            return "one-big-batch", (
                f"Rank {rank} put {seen['rows']} rows through the model at once, where a micro-batch has {rows}: the "
                "memory of all of them is what micro-batches are there to avoid."
            )
        if seen["forwards"] < least[rank]:
            return (
                "fewer-forwards",
                f"Rank {rank} called the model {seen['forwards']} times for {many} micro-batches: call the model itself, not its parts.",
            )
        if seen["forwards"] > many:
            return ("more-forwards", f"Rank {rank} made {seen['forwards']} forward passes for {many} micro-batches.")
        if seen["most alive"] > 1:
            return "graphs-kept", (
                f"Rank {rank} kept the graphs of {seen['most alive']} micro-batches alive at once; send each one "
                "backwards before the next goes forwards."
            )
    return None
