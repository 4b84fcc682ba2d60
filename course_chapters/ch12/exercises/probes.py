"""How chapter 12 calls answers: routers and layers with a backward pass, on one rank and on several, over several
steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from course_grader.exercises.probes import CHANGED, NOT_ANSWERED, watched

if TYPE_CHECKING:
    from torch import Tensor

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


def _backward(tensor: object, slope: Tensor) -> None:
    """The backward pass of Σ tensor · slope, where there is a graph and the shapes agree."""
    import torch

    if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.shape == slope.shape:
        (tensor * slope.to(tensor.dtype)).sum().backward()


def _missing() -> Tensor:
    """What stands for a gradient that there is not: a tensor of no numbers."""
    import torch

    return torch.zeros(0)


@watched
def routed(answer: Answer, case: Case, comm: object = None) -> object:
    """Ids and weights, and the gradient of Σ weights · slope; `case.args = (logits, k, slope)`."""
    given, k, slope = case.args
    logits = given.detach().requires_grad_()
    result = answer(logits, k)
    if type(result) not in (tuple, list) or len(result) != 2:
        return result
    ids, weights = result
    _backward(weights, slope)
    return {"ids": ids, "weights": weights, "gradient": _missing() if logits.grad is None else logits.grad}


# --- layers


class Expert:
    """One expert of a case, tanh(rows · matrix + bias), and the rows that it was called with."""

    def __init__(self, matrix: Tensor, bias: Tensor) -> None:
        self.matrix, self.bias = matrix.clone().requires_grad_(), bias.clone().requires_grad_()
        self.calls: list[Tensor] = []

    def __call__(self, rows: Tensor) -> Tensor:
        self.calls.append(rows.detach().clone())
        return (rows @ self.matrix + self.bias).tanh()

    def gradients(self) -> list[Tensor]:
        return [_gradient(self.matrix), _gradient(self.bias)]


def _gradient(tensor: Tensor) -> Tensor:
    """The gradient of a tensor, zero where there is none."""
    return tensor.detach() * 0 if tensor.grad is None else tensor.grad


def _layer(
    call: Answer, rows: Tensor, ids: Tensor, weights: Tensor, tables: list[tuple[Tensor, Tensor]], slope: Tensor
) -> dict[str, object]:
    """Output, gradients, and calls of each expert, for the rows, ids, weights and experts of a layer."""
    import torch

    x, w = rows.detach().requires_grad_(), weights.detach().requires_grad_()  # `detach` keeps the strides
    experts = [Expert(*table) for table in tables]
    listed = list(experts)
    output = call(x, ids, w, listed)
    if len(listed) != len(experts):
        tables.clear()  # the caller compares, and sees that its list was used up
    _backward(output, slope)
    own = [_missing() if one.grad is None and one.numel() else _gradient(one) for one in (x, w)]
    gradients = [*own, *(one for expert in experts for one in expert.gradients())]
    return {
        "output": output.detach() if isinstance(output, torch.Tensor) else output,
        "gradients": gradients,
        "calls": [expert.calls for expert in experts],
    }


@watched
def mixed(answer: Answer, case: Case, comm: object = None) -> object:
    """The layer on one rank; `case.args = (rows, ids, weights, (matrix, bias) of each expert, slope)`."""
    return _layer(answer, *case.args)


@watched
def parallel(answer: Answer, case: Case, comm: Comm) -> object:
    """The layer on this rank; `case.args` as for `mixed`, with this rank's tokens and experts."""

    def exchange(rows: Tensor, send: Iterable[int], receive: Iterable[int]) -> Tensor:
        return _exchange()(comm, rows, [int(one) for one in send], [int(one) for one in receive])

    return _layer(lambda *rest: answer(comm, *rest, exchange), *case.args)


def _exchange() -> Callable[..., Tensor]:
    """An all-to-all of uneven parts with its backward pass; torch is imported when it is needed."""
    import torch

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, comm: Comm, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
            ctx.saved = comm, send, receive
            output = rows.new_empty(sum(receive), *rows.shape[1:])
            comm.all_to_all_single(output, rows.detach().contiguous(), receive, send)
            return output

        @staticmethod
        def backward(ctx, gradient: Tensor) -> tuple[None, Tensor, None, None]:
            comm, send, receive = ctx.saved
            output = gradient.new_empty(sum(send), *gradient.shape[1:])
            comm.all_to_all_single(output, gradient.contiguous(), send, receive)
            return None, output, None, None

    return Exchange.apply


# --- gradients


def averaged(answer: Answer, case: Case, comm: Comm) -> object:
    """The gradients afterwards; `case.args = (size of a group that shares one set, dense gradients, expert gradients)`.

    A gradient is a tensor, or a shape where it is None.
    """
    import torch

    group, *lists = case.args
    teams = [comm.new_group(range(first, comm.size, group)) for first in range(group)]

    def parameter(given: Tensor | tuple[int, ...]) -> Tensor:
        tensor = torch.nn.Parameter(torch.ones(given if isinstance(given, tuple) else given.shape))
        tensor.grad = None if isinstance(given, tuple) else given.clone()
        return tensor

    dense, experts = ([parameter(one) for one in given] for given in lists)
    given = list(dense), list(experts)
    answer(comm, teams[comm.rank % group], *given)
    if [*map(len, given)] != [len(dense), len(experts)] or any((one != 1).any() for one in (*dense, *experts)):
        return CHANGED
    return {
        "dense": [_missing() if one.grad is None else one.grad for one in dense],
        "experts": [_missing() if one.grad is None else one.grad for one in experts],
    }


@watched
def normed(answer: Answer, case: Case, comm: Comm) -> object:
    """The norm; `case.args = (dense gradients, expert gradients, copies)`."""
    return answer(comm, *case.args)


# --- balance


@watched
def balanced(answer: Answer, case: Case, comm: Comm) -> object:
    """A rank's loss and its gradient; `case.args = (logits, k)`."""
    import torch

    given, k = case.args
    logits = given.detach().requires_grad_()
    loss = answer(comm, logits, k)
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1:
        loss.backward()
    return {
        "loss": loss.detach() if isinstance(loss, torch.Tensor) else loss,
        "gradient": _missing() if logits.grad is None else logits.grad,
    }


@watched
def steered(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """Ids, weights, gradient and new bias of each step; `case.args = (what, scores of each step, bias, k, rate)`.

    With `what` "choose" the bias stays as it is; with "update" the counts are given in place of scores.
    """
    import torch

    choose, update = answers
    what, tables, bias, k, rate = case.args
    steps: list[dict[str, object]] = []
    for table in tables:
        step: dict[str, object] = {"ids": "", "weights": "", "gradient": "", "bias": ""}
        counts = table
        if what != "update":
            scores, steer = table.detach().requires_grad_(), bias.detach().requires_grad_()
            result = choose(scores, steer, k)
            if type(result) not in (tuple, list) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
                return [*steps, step | {"ids": result}]
            ids, weights = result
            _backward(weights, torch.arange(1.0, 1 + table.shape[0] * k).view(-1, k))
            gradient = "none" if scores.grad is None else scores.grad
            if steer.grad is not None and steer.grad.any():
                gradient = "bias"
            step |= {"ids": ids, "weights": weights, "gradient": gradient}
            if not ids.dtype.is_floating_point and ids.numel() and int(ids.min()) >= 0 and int(ids.max()) < len(bias):
                counts = torch.bincount(ids.flatten(), minlength=len(bias))
            else:
                counts = torch.zeros(len(bias), dtype=torch.int64)
        if what != "choose":
            try:
                new = update(bias, counts, rate)
            except NotImplementedError:
                return [*steps, step | {"bias": NOT_ANSWERED}]
            step["bias"] = new
            if not isinstance(new, torch.Tensor) or new.shape != bias.shape or new.dtype != bias.dtype:
                return [*steps, step]
            bias = new.detach()
        steps.append(step)
    return steps
