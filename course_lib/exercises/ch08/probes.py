"""How chapter 08 calls answers: with parts that differ on every rank, and what came of them as plain data."""

from __future__ import annotations

from typing import Any

__all__ = ["by_hand", "clipped", "moved", "owned", "trained"]

MEASURED = "measured"  # a wish, in a case's description: bytes alive are to come, too
WEIGHED = "weighed"  # another: the places of which numbers are to come; what is large is made here, of small tables


def owned(answer: Any, case: Any, comm: Any = None) -> Any:
    """The weights after some steps of a sharded optimizer, and its bytes of state; `case.args = (description, gradients by step)`."""
    from course_lib.exercises.ch08.work import Weights, glimpses, repeated

    spec, steps = case.args
    weights = Weights(spec)
    optimizer = answer(comm, weights.given(), weights.make)
    if not callable(getattr(optimizer, "step", None)):
        return {"weights": None, "kept": 0}
    for gradients in steps:
        if WEIGHED in spec:  # a table, of which they are made
            rows = zip(
                weights.tensors, repeated(gradients, weights.tensors[0].numel(), len(weights.tensors)), strict=True
            )
            gradients = [row.view(tensor.shape) for tensor, row in rows]
        for tensor, gradient in zip(weights.tensors, gradients, strict=True):
            tensor.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        for tensor in weights.tensors:
            tensor.grad = None
    if WEIGHED in spec:
        return glimpses(weights.tensors, spec[WEIGHED])
    return {"weights": [each.detach().clone() for each in weights.tensors], "kept": weights.state_bytes()}


def by_hand(answer: Any, case: Any, comm: Any = None) -> Any:
    """This rank's parts of the gradients, and what lay around; `case.args = (description, this rank's shards, x, target)`."""
    from course_lib.accounting import Accounting, unseen
    from course_lib.exercises.ch08.work import Stack, glimpses, repeated

    spec, shards, x, target = case.args
    if WEIGHED in spec:  # `shards` is a table, of which each unit's part is made
        shards = repeated(shards, spec["counts"][0] // comm.size, len(spec["counts"]))
    stack = Stack(comm, spec, shards, target, watch=WEIGHED not in spec)

    def call() -> Any:
        parts = answer(
            comm, list(shards), list(spec["counts"]), stack.forward, stack.backward, stack.loss, x, *spec["wish"]
        )
        return list(parts) if isinstance(parts, tuple) else parts

    if WEIGHED in spec:
        return glimpses(call(), spec[WEIGHED])
    if spec.get(MEASURED) is None:
        return {"parts": call(), **stack.told()}
    with Accounting() as books:
        stack.around, stack.alive = unseen, books.storages
        return {"parts": call(), **stack.told()}


def clipped(answer: Any, case: Any, comm: Any = None) -> Any:
    """The norm and the parts as they were left; `case.args = (ranks that share a model, counts, limit, this rank's parts)`."""
    from course_lib.sharding import two_levels

    group, counts, most, parts = case.args
    inside, across = two_levels(comm, group)
    norm = answer(inside, across, list(parts), list(counts), most)
    return {
        "norm": norm.item() if hasattr(norm, "item") and getattr(norm, "numel", lambda: 0)() == 1 else norm,
        "parts": parts,
    }


def moved(answer: Any, case: Any, comm: Any = None) -> Any:
    """This rank's new part, and the most bytes alive meanwhile; `case.args = (elements, old, new, this rank's part)`."""
    from course_lib.accounting import Accounting
    from course_lib.exercises.ch08.work import repeated

    elements, old, new, part = case.args
    if type(part) is dict:  # a table, of which this rank's part is made, and places
        part, places = repeated(part["table"], elements // old if comm.rank < old else 0, 1)[0], part[WEIGHED]
        got = answer(comm, part, elements, old, new)
        return {"part": got[places] if comm.rank < new else got, "length": len(got)}
    with Accounting() as books:
        books.adopt(part)
        before = books.live_bytes
        got = answer(comm, part, elements, old, new)
        return {"part": got, "peak": books.peak_bytes - before}


def trained(answer: Any, case: Any, comm: Any = None) -> Any:
    """The weights and losses that a training left; `case.args = (description, this rank's batches)`."""
    from course_lib.exercises.ch08.work import Stepper, glimpses, tied_model
    from course_lib.sharding import FullySharded, full_state

    spec, batches = case.args
    made = []

    def make(tensors: Any) -> Any:
        made.append(Stepper(tensors, spec.get("optimizer", "adamw"), spec["rate"]))
        return made[-1]

    got = answer(comm, lambda: tied_model(spec), make, list(batches), spec["most"])
    if not (isinstance(got, tuple | list) and len(got) == 2 and isinstance(got[1], FullySharded)):
        return {"losses": [], "weights": None, "state": 0}
    losses, model = got
    if WEIGHED in spec:
        weights = full_state(model)
        return glimpses([weights[name] for name in sorted(weights)], spec[WEIGHED])
    return {"losses": list(losses), "weights": full_state(model), "state": sum(each.nbytes() for each in made)}
