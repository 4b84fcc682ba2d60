"""How chapter 12 calls answers: routers and layers with a backward pass, on one rank and on several, over several
steps."""

from __future__ import annotations

from typing import Any

from course_grader.exercises.probes import NOT_ANSWERED, unless_open

CHANGED = "a given tensor was changed"


def _same(tensors: Any, before: Any) -> bool:
    """Whether tensors are as they were, bit by bit."""
    import torch

    return all(one.dtype == two.dtype and torch.equal(one, two) for one, two in zip(tensors, before, strict=True))


def _backward(tensor: Any, slope: Any) -> None:
    """The backward pass of Σ tensor · slope, where there is a graph and the shapes agree."""
    import torch

    if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.shape == slope.shape:
        (tensor * slope.to(tensor.dtype)).sum().backward()


def _missing() -> Any:
    """What stands for a gradient that there is not: a tensor of no numbers."""
    import torch

    return torch.zeros(0)


def rows_kept(answers: Any, case: Any, comm: Any = None) -> Any:
    """The probe `rows`, where a row whose tensors the answer wrote to gives CHANGED."""
    import copy

    index, table = case.args
    pairs = [(copy.deepcopy(row), row) for row in table]

    def call(given: Any, row: Any) -> Any:
        result = answers[index](*given)
        tensors = [at for at, one in enumerate(row) if hasattr(one, "dtype")]
        return result if _same([given[at] for at in tensors], [row[at] for at in tensors]) else CHANGED

    return unless_open(index, lambda: [call(*pair) for pair in pairs])


def routed(answer: Any, case: Any, comm: Any = None) -> Any:
    """Ids and weights, and the gradient of Σ weights · slope; `case.args = (logits, k, slope)`."""
    given, k, slope = case.args
    logits = given.clone().requires_grad_()
    result = answer(logits, k)
    if type(result) not in (tuple, list) or len(result) != 2:
        return result
    ids, weights = result
    _backward(weights, slope)
    none = logits.grad is None
    return {
        "ids": ids,
        "weights": weights,
        "gradient": _missing() if none else logits.grad,
        "changed": not _same([logits.detach()], [given]),
    }


# --- layers


class Expert:
    """One expert of a case, tanh(rows · matrix + bias), and the rows that it was called with."""

    def __init__(self, matrix: Any, bias: Any) -> None:
        self.matrix, self.bias = matrix.clone().requires_grad_(), bias.clone().requires_grad_()
        self.calls: list[Any] = []

    def __call__(self, rows: Any) -> Any:
        self.calls.append(rows.detach().clone())
        return (rows @ self.matrix + self.bias).tanh()

    def gradients(self) -> list[Any]:
        return [_gradient(self.matrix), _gradient(self.bias)]


def _gradient(tensor: Any) -> Any:
    """The gradient of a tensor, zero where there is none."""
    return tensor.detach() * 0 if tensor.grad is None else tensor.grad


def _layer(call: Any, given: Any, slope: Any) -> Any:
    """Output, gradients, and calls of each expert, for the rows, ids, weights and experts of a layer."""
    import torch

    rows, ids, weights, tables = given
    x, w = rows.detach().requires_grad_(), weights.clone().requires_grad_()  # `detach` keeps the strides
    before = rows.clone(), ids.clone(), weights.clone()
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
        "changed": not _same((x.detach(), ids, w.detach()), before),
    }


def mixed(answer: Any, case: Any, comm: Any = None) -> Any:
    """The layer on one rank; `case.args = (rows, ids, weights, (matrix, bias) of each expert, slope)`."""
    *given, slope = case.args
    return _layer(answer, given, slope)


def parallel(answer: Any, case: Any, comm: Any = None) -> Any:
    """The layer on this rank; `case.args` as for `mixed`, with this rank's tokens and experts."""
    *given, slope = case.args

    def exchange(rows: Any, send: Any, receive: Any) -> Any:
        return _exchange()(comm, rows, [int(one) for one in send], [int(one) for one in receive])

    return _layer(lambda *rest: answer(comm, *rest, exchange), given, slope)


def _exchange() -> Any:
    """An all-to-all of uneven parts with its backward pass; torch is imported when it is needed."""
    import torch

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, comm: Any, rows: Any, send: Any, receive: Any) -> Any:
            ctx.saved = comm, send, receive
            output = rows.new_empty(sum(receive), *rows.shape[1:])
            comm.all_to_all_single(output, rows.detach().contiguous(), receive, send)
            return output

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            comm, send, receive = ctx.saved
            output = gradient.new_empty(sum(send), *gradient.shape[1:])
            comm.all_to_all_single(output, gradient.contiguous(), send, receive)
            return None, output, None, None

    return Exchange.apply


# --- gradients


def averaged(answer: Any, case: Any, comm: Any = None) -> Any:
    """The gradients afterwards; `case.args = (size of a group that shares one set, dense gradients, expert gradients)`.

    A gradient is a tensor, or a shape where it is None.
    """
    import torch

    group, *lists = case.args
    teams = [comm.new_group(range(first, comm.size, group)) for first in range(group)]

    def parameter(given: Any) -> Any:
        tensor = torch.nn.Parameter(torch.ones(given if type(given) is tuple else given.shape))
        tensor.grad = None if type(given) is tuple else given.clone()
        return tensor

    dense, experts = ([parameter(one) for one in given] for given in lists)
    given = list(dense), list(experts)
    answer(comm, teams[comm.rank % group], *given)
    return {
        "dense": [_missing() if one.grad is None else one.grad for one in dense],
        "experts": [_missing() if one.grad is None else one.grad for one in experts],
        "changed": [*map(len, given)] != [len(dense), len(experts)]
        or any((one.detach() != 1).any().item() for one in (*dense, *experts)),
    }


def normed(answer: Any, case: Any, comm: Any = None) -> Any:
    """The norm; `case.args = (dense gradients, expert gradients, copies)`."""
    dense, experts, copies = case.args
    before = [one.clone() for one in (*dense, *experts)]
    lists = list(dense), list(experts)
    norm = answer(comm, *lists, copies)
    same = list(map(len, lists)) == [len(dense), len(experts)] and _same([*lists[0], *lists[1]], before)
    return {"norm": norm, "changed": not same}


# --- balance


def balanced(answer: Any, case: Any, comm: Any = None) -> Any:
    """A rank's loss and its gradient; `case.args = (logits, k)`."""
    import torch

    given, k = case.args
    logits = given.clone().requires_grad_()
    loss = answer(comm, logits, k)
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1:
        loss.backward()
    return {
        "loss": loss.detach() if isinstance(loss, torch.Tensor) else loss,
        "gradient": _missing() if logits.grad is None else logits.grad,
        "changed": not _same([logits.detach()], [given]),
    }


def steered(answers: Any, case: Any, comm: Any = None) -> Any:
    """Ids, weights, gradient and new bias of each step; `case.args = (what, scores of each step, bias, k, rate)`.

    With `what` "choose" the bias stays as it is; with "update" the counts are given in place of scores.
    """
    import torch

    choose, update = answers
    what, tables, bias, k, rate = case.args
    steps: list[dict[str, object]] = []
    for table in tables:
        step: dict[str, Any] = {"ids": "", "weights": "", "gradient": "", "bias": "", "changed": False}
        counts, before = table, bias.clone()
        if what != "update":
            scores, steer = table.clone().requires_grad_(), bias.clone().requires_grad_()
            result = choose(scores, steer, k)
            if type(result) not in (tuple, list) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
                return [*steps, step | {"ids": result}]
            ids, weights = result
            _backward(weights, torch.arange(1.0, 1 + table.shape[0] * k).view(-1, k))
            gradient = "none" if scores.grad is None else scores.grad
            if steer.grad is not None and steer.grad.any():
                gradient = "bias"
            step |= {"ids": ids, "weights": weights, "gradient": gradient}
            step["changed"] = not _same((scores.detach(), steer.detach()), (table, bias))
            if not ids.dtype.is_floating_point and ids.numel() and int(ids.min()) >= 0 and int(ids.max()) < len(bias):
                counts = torch.bincount(ids.flatten(), minlength=len(bias))
            else:
                counts = torch.zeros(len(bias), dtype=torch.int64)
        if what != "choose":
            given = counts.clone()
            try:
                new = update(bias, given, rate)
            except NotImplementedError:
                return [*steps, step | {"bias": NOT_ANSWERED}]
            step["changed"] = step["changed"] or not _same((bias, given), (before, counts))
            step["bias"] = new
            if not isinstance(new, torch.Tensor) or new.shape != bias.shape or new.dtype != bias.dtype:
                return [*steps, step]
            bias = new.detach()
        steps.append(step)
    return steps
