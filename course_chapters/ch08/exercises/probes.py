"""How chapter 08 calls answers: with different parts on every rank; results are returned as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm
    from course_lib.model.optimizer import Optimizer

__all__ = ["by_hand", "clipped", "moved", "owned", "trained"]

MEASURED = "measured"  # a key of a case's description: count live bytes as well
WEIGHED = "weighed"  # another, with positions: return only these numbers, and create large data here from small tables


def owned(answer: Answer, case: Case, comm: Comm) -> object:
    """The weights after some steps of a sharded optimizer, and its bytes of state;
    `case.args = (description, gradients by step)`."""
    from course_chapters.ch08.exercises.work import Weights, glimpses, repeated

    spec, steps = case.args
    weights = Weights(**spec)
    optimizer = answer(comm, weights.given(), weights.make)
    if not callable(getattr(optimizer, "step", None)):
        return {"weights": None, "kept": 0}
    for gradients in steps:
        if WEIGHED in spec:  # a table from which they are created
            rows = repeated(gradients, weights.tensors[0].numel(), len(weights.tensors))
            gradients = [row.view(tensor.shape) for tensor, row in zip(weights.tensors, rows, strict=True)]
        for tensor, gradient in zip(weights.tensors, gradients, strict=True):
            tensor.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        for tensor in weights.tensors:
            tensor.grad = None
    if WEIGHED in spec:
        return glimpses(weights.tensors, spec[WEIGHED])
    return {"weights": [tensor.detach().clone() for tensor in weights.tensors], "kept": weights.state_bytes()}


def by_hand(answer: Answer, case: Case, comm: Comm) -> object:
    """This rank's parts of the gradients, and its record of the run;
    `case.args = (description, this rank's shards, x, target)`."""
    from course_chapters.ch08.exercises.work import Stack, glimpses, repeated
    from course_lib.model.accounting import Accounting, unseen

    spec, shards, x, target = case.args
    if WEIGHED in spec:  # `shards` is a table from which each unit's part is created
        shards = repeated(shards, spec["counts"][0] // comm.size, len(spec["counts"]))
    stack = Stack(comm, spec["widths"], spec["wish"], shards, target, watch=WEIGHED not in spec)

    def call() -> list[Tensor]:
        functions = stack.forward, stack.backward, stack.loss
        parts = answer(comm, shards, spec["counts"], *functions, x, *spec["wish"])
        return list(parts) if isinstance(parts, tuple) else parts

    if WEIGHED in spec:
        return glimpses(call(), spec[WEIGHED])
    if spec.get(MEASURED) is None:
        return {"parts": call(), **stack.told()}
    with Accounting() as books:
        stack.around, stack.alive = unseen, books.storages
        return {"parts": call(), **stack.told()}


def clipped(answer: Answer, case: Case, comm: Comm) -> object:
    """The norm, and the parts afterwards; `case.args = (ranks that share a model, counts, limit, this rank's
    parts)`."""
    from course_lib.parallel.sharding import two_levels

    group, counts, most, parts = case.args
    inside, across = two_levels(comm, group)
    norm = answer(inside, across, list(parts), list(counts), most)
    one = hasattr(norm, "item") and getattr(norm, "numel", lambda: 0)() == 1
    return {"norm": norm.item() if one else norm, "parts": parts}


def moved(answer: Answer, case: Case, comm: Comm) -> object:
    """This rank's new part, and its peak of live bytes; `case.args = (elements, old, new, this rank's part)`."""
    from course_chapters.ch08.exercises.work import Unwritten, repeated
    from course_lib.model.accounting import Accounting

    elements, old, new, part = case.args
    if type(part) is dict:  # a table from which this rank's part is created, and positions
        own, places = repeated(part["table"], elements // old if comm.rank < old else 0, 1)[0], part[WEIGHED]
        got = answer(comm, own, elements, old, new)
        return {"part": got[places] if comm.rank < new else got, "length": len(got)}
    with Accounting() as books:
        books.adopt(part)
        before = books.live_bytes
        with Unwritten():
            got = answer(comm, part, elements, old, new)
        return {"part": got, "peak": books.peak_bytes - before}


def trained(answer: Answer, case: Case, comm: Comm) -> object:
    """The weights and losses of a training run; `case.args = (description, this rank's batches)`."""
    from course_chapters.ch08.exercises.work import RULES, glimpses, tied_model
    from course_lib.parallel.sharding import FullySharded, full_state

    spec, batches = case.args
    optimizers = []

    def make(tensors: Sequence[nn.Parameter]) -> Optimizer:
        optimizers.append(RULES[spec["optimizer"]](tensors, lr=spec["rate"]))
        return optimizers[-1]

    got = answer(comm, lambda: tied_model(**spec), make, batches, spec["most"])
    if not (isinstance(got, tuple | list) and len(got) == 2 and isinstance(got[1], FullySharded)):
        return {"losses": [], "weights": None, "state": 0}
    losses, model = got
    if WEIGHED in spec:
        weights = full_state(model)
        return glimpses([weights[name] for name in sorted(weights)], spec[WEIGHED])
    return {
        "losses": list(losses),
        "weights": full_state(model),
        "state": sum(optimizer.state_bytes() for optimizer in optimizers),
    }
