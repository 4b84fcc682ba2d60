"""How chapter 11 calls answers: attention on every rank with its part of a sequence, and results as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course_grader.exercises.probes import unless_open

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

MEASURED = "measured"  # a mask's options may hold it: the most bytes alive come back as well
# they may hold (times, columns): tables so many times as wide, made here, of whose results some columns come back
WEIGHED = "weighed"
REFUSED = "ValueError: "


def mask(name: str, options: Any) -> Callable[[object, object], Any]:
    """The function `visible(query_positions, key_positions)` of a mask: a bool for every pair.

    `options` holds the "window" in tokens, or the "documents", an id for each position of the whole sequence.
    """

    def visible(queries: Any, keys: Any) -> object:
        behind = queries[:, None] - keys[None, :]
        if name == "window":
            return (behind >= 0) & (behind < options["window"])
        if name == "documents":
            ids = options["documents"]
            return (behind >= 0) & (ids[queries][:, None] == ids[keys][None, :])
        return {"causal": behind >= 0, "strict": behind > 0, "all": behind == behind}[name]

    return visible


def changed(tensors: Any, before: Any) -> bool:
    """Whether one of the tensors is no longer bit for bit as it was; NaN equals NaN."""
    import torch

    return not all(
        torch.equal(one.nan_to_num(7.5) if one.is_floating_point() else one, two)
        for one, two in zip(tensors, before, strict=True)
    )


def relisted(now: Any, given: Any) -> bool:
    """Whether a list that an answer got no longer holds the same objects as the case's."""
    return len(now) != len(given) or any(one is not two for one, two in zip(now, given, strict=True))


def shared(results: Any, given: Any) -> bool:
    """Whether a tensor that came back uses the memory of a given one."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in given if tensor.numel()}
    return any(hasattr(one, "untyped_storage") and one.untyped_storage().data_ptr() in taken for one in results)


def copies(tensors: Any) -> list[object]:
    return [one.nan_to_num(7.5).clone() if one.is_floating_point() else one.clone() for one in tensors]


def _ring(answer: Answer, comm: Comm, names: tuple[str, ...], given: Any, positions: Any, masked: Any) -> object:
    from course_grader.exercises.point_to_point import PointToPoint
    from course_lib.model.accounting import Accounting

    if WEIGHED in masked[1]:
        return _weighed(answer, comm, names, given, positions, masked)
    visible, before, layout = mask(*masked), copies([*given, *positions]), list(positions)
    arguments = PointToPoint(comm), *given, layout, visible
    peak = None
    if MEASURED in masked[1]:
        with Accounting() as books:
            got = answer(*arguments)
            peak = books.peak_bytes
    else:
        got = answer(*arguments)
    if type(got) not in (tuple, list) or len(got) != len(names):
        return {**dict.fromkeys(names, got), "peak": None, "touched": False}
    touched = relisted(layout, positions) or changed([*given, *positions], before)
    return {**dict(zip(names, got, strict=True)), "peak": peak, "touched": touched}


def _weighed(answer: Answer, comm: Comm, names: tuple[str, ...], given: Any, positions: Any, masked: Any) -> object:
    """Some columns of each result on wide tables: q is scaled so that the scores stay, and so is the gradient of
    out."""
    from course_grader.exercises.point_to_point import PointToPoint

    times, columns = masked[1][WEIGHED]
    scales = (times**-0.5, 1.0, 1.0, 1.0, 1.0, 1 / times)  # of q, k, v, out, log_sum and the gradient
    wide = [
        each.repeat(1, 1, times).mul_(scale) if each.ndim == 3 else each.clone()
        for each, scale in zip(given, scales, strict=False)
    ]
    got = answer(PointToPoint(comm), *wide, list(positions), mask(*masked))
    if type(got) not in (tuple, list) or len(got) != len(names):
        return got
    return {name: each[..., columns] if each.ndim == 3 else each for name, each in zip(names, got, strict=True)}


def ring(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """A rank's output and log-sums; `case.args = (positions of all ranks, (mask, options), q, k, v)`."""
    positions, masked, *given = case.args
    return _ring(answer, comm, ("out", "log_sum"), given, positions, masked)


def ring_backward(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """A rank's three gradients; `case.args = (positions of all ranks, (mask, options), q, k, v, out, log_sum, gradient
    of out)`."""
    positions, masked, *given = case.args
    return _ring(answer, comm, ("dq", "dk", "dv"), given, positions, masked)


def merged(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The merged pair, and whether a part was changed; `case.args = (parts,)`."""
    (parts,) = case.args
    flat = [tensor for part in parts for tensor in part]
    before = copies(flat)
    result = answer([tuple(part) for part in parts])
    return {"merged": result, "touched": changed(flat, before)}


def exchanged(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """What one of the functions returns, or the text of its ValueError;
    `case.args = (which function, lengths, further arguments, x)`."""
    which, lengths, more, x = case.args
    before, counts = copies([x]), list(lengths)
    try:
        got = unless_open(which, lambda: answers[which](comm, x, counts, *more))
    except ValueError as error:
        return {"x": REFUSED + str(error), "touched": False}
    return {"x": got, "touched": counts != list(lengths) or changed([x], before)}


def batch(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """A rank's inputs, targets and positions, and whether an argument was changed;
    `case.args = (tokens, documents, indices)`."""
    before = copies(case.args)
    result = answer(*case.args)
    return {"batch": result, "touched": changed(case.args, before)}


def averaged(answer: Answer, case: Case, comm: Comm) -> object:
    """A rank's mean gradients; `case.args = (groups of dp, groups of cp, tokens of this rank, its gradients)`."""
    dp_groups, cp_groups, tokens, gradients = case.args
    dp, cp = (
        [comm.new_group(list(group)) for group in groups][[comm.rank in group for group in groups].index(True)]
        for groups in (dp_groups, cp_groups)
    )
    before, listed = copies(gradients), list(gradients)
    got = answer(dp, cp, listed, tokens)
    if type(got) not in (tuple, list):
        return {"gradients": got, "touched": False, "shared": False}
    touched = relisted(listed, gradients) or changed(gradients, before)
    return {"gradients": list(got), "touched": touched, "shared": shared(got, gradients)}


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


def halo(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The keys and values that a rank's queries see; `case.args = (lengths, window, k, v)`."""
    from course_grader.exercises.point_to_point import PointToPoint

    lengths, window, k, v = case.args
    before, counts = copies((k, v)), list(lengths)
    got = answer(PointToPoint(comm), k, v, counts, window)
    if type(got) not in (tuple, list) or len(got) != 2:
        return {"k": got, "v": got, "touched": False}
    return {"k": got[0], "v": got[1], "touched": counts != list(lengths) or changed((k, v), before)}
