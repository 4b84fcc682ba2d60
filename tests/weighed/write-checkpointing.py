"""Answers to write-checkpointing that hold more than they need; a count inside the notebook may be doctored."""

import torch


# %% hungry: a plain call


def checkpoint(function, x):
    return function(x)


# %% hungry: the graph is kept inside


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, anchor, x):
        ctx.x = x.detach().requires_grad_(x.is_floating_point() and x.requires_grad)
        with torch.enable_grad():
            ctx.out = function(ctx.x)
        return ctx.out.detach()

    @staticmethod
    def backward(ctx, grad):
        torch.autograd.backward(ctx.out, grad)
        return None, None, ctx.x.grad

def checkpoint(function, x):
    return Kept.apply(function, torch.empty(0, requires_grad=True), x)
