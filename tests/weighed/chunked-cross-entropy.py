"""Answers to chunked-cross-entropy that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""

import torch


# %% hungry: all logits at once, in place


class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, chunks):
        logits, counts = hidden @ weight.T, targets != -100
        rows, words = counts.nonzero().squeeze(1), targets[counts]
        logits -= logits.max(1, keepdim=True).values
        picked = logits[rows, words].clone()
        logits.exp_()
        norm = logits.sum(1, keepdim=True)
        loss = norm[rows].log().sum() - picked.sum()
        logits /= norm
        logits[rows, words] -= 1
        logits[~counts] = 0
        ctx.save_for_backward(logits @ weight, logits.T @ hidden)
        return loss

    @staticmethod
    def backward(ctx, grad):
        hidden, weight = ctx.saved_tensors
        return hidden * grad, weight * grad, None, None


def chunked_cross_entropy(hidden, weight, targets, chunks):
    return Whole.apply(hidden, weight, targets, chunks) / (targets != -100).sum()
