"""How chapter 11 calls answers: attention on every rank with its part of a sequence, and results as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from course_grader.exercises.probes import or_refusal, unless_open, watched

if TYPE_CHECKING:
    from torch import Tensor

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

Mask = tuple[str, Mapping[str, Any]]  # its name and options
MEASURED = "measured"  # a mask's options may hold it: the most bytes alive come back as well
# they may hold (times, columns): tables so many times as wide, made here, of whose results some columns come back
WEIGHED = "weighed"


def mask(masked: Mask) -> Callable[[Tensor, Tensor], Tensor]:
    """The function `visible(query_positions, key_positions)` of a mask: a bool for every pair.

    Its options hold the "window" in tokens, or the "documents", an id for each position of the whole sequence.
    """
    name, options = masked

    def visible(queries: Tensor, keys: Tensor) -> Tensor:
        behind = queries[:, None] - keys[None, :]
        if name == "window":
            return (behind >= 0) & (behind < options["window"])
        if name == "documents":
            ids = options["documents"]
            return (behind >= 0) & (ids[queries][:, None] == ids[keys][None, :])
        return {"causal": behind >= 0, "strict": behind > 0, "all": behind == behind}[name]

    return visible


def shared(results: Iterable[object], given: Iterable[Tensor]) -> bool:
    """Whether a tensor that came back uses the memory of a given one."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in given if tensor.numel()}
    return any(hasattr(one, "untyped_storage") and one.untyped_storage().data_ptr() in taken for one in results)


def _ring(
    answer: Answer, comm: Comm, names: tuple[str, ...], given: list[Tensor], positions: list[Tensor], masked: Mask
) -> object:
    from course_grader.exercises.point_to_point import PointToPoint
    from course_lib.model.accounting import Accounting

    if WEIGHED in masked[1]:
        return _weighed(answer, comm, names, given, positions, masked)
    arguments = PointToPoint(comm), *given, positions, mask(masked)
    peak = None
    if MEASURED in masked[1]:
        with Accounting() as books:
            got = answer(*arguments)
            peak = books.peak_bytes
    else:
        got = answer(*arguments)
    if type(got) not in (tuple, list) or len(got) != len(names):
        return {**dict.fromkeys(names, got), "peak": None}
    return {**dict(zip(names, got, strict=True)), "peak": peak}


def _weighed(
    answer: Answer, comm: Comm, names: tuple[str, ...], given: list[Tensor], positions: list[Tensor], masked: Mask
) -> object:
    """Some columns of each result on wide tables: q is scaled so that the scores stay, and so is the gradient of
    out."""
    from course_grader.exercises.point_to_point import PointToPoint

    times, columns = masked[1][WEIGHED]
    scales = (times**-0.5, 1.0, 1.0, 1.0, 1.0, 1 / times)  # of q, k, v, out, log_sum and the gradient
    wide = [
        each.repeat(1, 1, times).mul_(scale) if each.ndim == 3 else each.clone()
        for each, scale in zip(given, scales, strict=False)
    ]
    got = answer(PointToPoint(comm), *wide, list(positions), mask(masked))
    if type(got) not in (tuple, list) or len(got) != len(names):
        return got
    return {name: each[..., columns] if each.ndim == 3 else each for name, each in zip(names, got, strict=True)}


@watched
def ring(answer: Answer, case: Case, comm: Comm) -> object:
    """A rank's output and log-sums; `case.args = (positions of all ranks, (mask, options), q, k, v)`."""
    positions, masked, *given = case.args
    return _ring(answer, comm, ("out", "log_sum"), given, positions, masked)


@watched
def ring_backward(answer: Answer, case: Case, comm: Comm) -> object:
    """A rank's three gradients; `case.args = (positions of all ranks, (mask, options), q, k, v, out, log_sum, gradient
    of out)`."""
    positions, masked, *given = case.args
    return _ring(answer, comm, ("dq", "dk", "dv"), given, positions, masked)


@watched
def exchanged(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """What one of the functions returns, or the text of its ValueError;
    `case.args = (which function, lengths, further arguments, x)`."""
    which, lengths, more, x = case.args
    return or_refusal(lambda: unless_open(which, lambda: answers[which](comm, x, lengths, *more)))


@watched
def averaged(answer: Answer, case: Case, comm: Comm) -> object:
    """A rank's mean gradients; `case.args = (groups of dp, groups of cp, tokens of this rank, its gradients)`."""
    dp_groups, cp_groups, tokens, gradients = case.args
    dp, cp = (
        [comm.new_group(list(group)) for group in groups][[comm.rank in group for group in groups].index(True)]
        for groups in (dp_groups, cp_groups)
    )
    got = answer(dp, cp, gradients, tokens)
    if type(got) not in (tuple, list):
        return {"gradients": got, "shared": False}
    return {"gradients": list(got), "shared": shared(got, gradients)}


def synced(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """A rank's weights after some steps; `case.args = (kinds by name, rate, weights by name, gradients by step)`."""
    kinds, rate, weights, steps = case.args
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    for gradients in steps:
        got = answer(comm, {name: tensor.clone() for name, tensor in gradients.items()}, kinds)
        if type(got) is not dict or set(got) != set(weights):
            return got
        weights = {name: tensor - rate * got[name] for name, tensor in weights.items()}
    return weights


@watched
def halo(answer: Answer, case: Case, comm: Comm) -> object:
    """The keys and values that a rank's queries see; `case.args = (lengths, window, k, v)`."""
    from course_grader.exercises.point_to_point import PointToPoint

    lengths, window, k, v = case.args
    return answer(PointToPoint(comm), k, v, lengths, window)
