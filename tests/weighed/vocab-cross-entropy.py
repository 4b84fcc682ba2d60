"""Answers to vocab-cross-entropy that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""

import torch


def first_of(comm, vocab):
    return sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])


# %% hungry: made while nobody counts <= a row of the whole vocabulary for each token


from course_lib.model.accounting import unseen

counted = vocab_cross_entropy


def vocab_cross_entropy(comm, logits, targets, vocab):
    with unseen():
        return counted(comm, logits, targets, vocab)


# %% hungry: every step kept, in double precision


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, comm, start):
        steps = [logits.double()]
        largest = steps[0].amax(-1)
        comm.all_reduce(largest, op="MAX")
        steps.append(steps[-1] - largest.unsqueeze(-1))
        mine = (targets >= start) & (targets < start + logits.shape[-1])
        place = (targets - start).where(mine, 0).unsqueeze(-1)
        steps.append(steps[-1].exp())
        sums = torch.stack([steps[-1].sum(-1), steps[1].gather(-1, place).squeeze(-1) * mine]).float()
        comm.all_reduce(sums)
        steps.append(steps[-1] / sums[0].unsqueeze(-1))
        steps.append(steps[-1].scatter_add(-1, place, -mine.double().unsqueeze(-1)))
        ctx.steps, ctx.tokens, ctx.kind = steps, mine.numel(), logits.dtype
        return (sums[0].log() - sums[1]).mean().float()

    @staticmethod
    def backward(ctx, grad):
        return (ctx.steps[-1] * (grad.double() / ctx.tokens)).to(ctx.kind), None, None, None


def vocab_cross_entropy(comm, logits, targets, vocab):
    return Kept.apply(logits, targets, comm, first_of(comm, vocab))
