"""A backward in two halves: the input gradient now, the weight gradients of linear layers later."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from course_lib.model.modules import set_methods


class OwingLinear(torch.autograd.Function):
    """A linear layer whose backward returns the input gradient and stores what the weight gradient will need."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, owed: list) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.owed = (
            weight,
            bias,
            owed,
        )  # the parameters themselves: a copy would have its own .grad
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple:
        (x,) = ctx.saved_tensors
        ctx.owed.append((ctx.weight, ctx.bias, x.detach(), grad))  # detached, so that the graph can be freed
        return grad @ ctx.weight, None, None, None


@contextmanager
def linears_owe(module: nn.Module, owed: list | None) -> Iterator[None]:
    """Inside, linear layers delay their weight gradients; None changes nothing.

    Gains and embeddings compute theirs together with the input gradient, because they are cheap.
    """
    if owed is None:
        yield
        return
    linears = [each for each in module.modules() if type(each) is nn.Linear]
    for linear in linears:
        set_methods(linear, forward=partial(_owe, linear, owed))
    try:
        yield
    finally:
        for linear in linears:
            del linear.forward  # the class's own again


def _owe(linear: nn.Linear, owed: list, x: Tensor) -> Tensor:
    return OwingLinear.apply(x, linear.weight, linear.bias, owed)


def add_grad(parameter: Tensor, grad: Tensor) -> None:
    if parameter.requires_grad:
        parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
