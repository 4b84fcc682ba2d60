"""The vocabulary on several ranks: an embedding with split rows, and a loss that never gathers the logits.

Shoeybi et al., "Megatron-LM" (2019), section 3: of every token three numbers travel, not a row of the vocabulary.
"""

from typing import Self

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from course_lib.cluster import MAX, Comm
from course_lib.parallel.tensor.autograd_collectives import scatter_out, sum_out
from course_lib.parallel.tensor.partition import span

IGNORED = -100  # a target that does not count, as in torch


class VocabParallelEmbedding(nn.Module):
    """Tokens (B, S) to their vectors (B, S, H), from tables of some rows each: a rank gives zeros for other ranks'
    tokens.

    `weight` holds this rank's rows of `vocab`. With `sequence` a rank gets its tokens' vectors only, (B, S / ranks, H).
    """

    def __init__(self, comm: Comm, weight: Tensor, vocab: int, *, sequence: bool = False) -> None:
        super().__init__()
        self.comm, self.vocab, self.sequence = comm, vocab, sequence
        self.start, self.stop = _rows(comm, vocab, len(weight))
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)

    @classmethod
    def of(cls, comm: Comm, embedding: nn.Embedding, *, sequence: bool = False) -> Self:
        """This rank's rows of a whole embedding, copied."""
        start, stop = span(embedding.num_embeddings, comm.size, comm.rank)
        own = nn.Parameter(embedding.weight.detach()[start:stop].clone(), requires_grad=embedding.weight.requires_grad)
        return cls(comm, own, embedding.num_embeddings, sequence=sequence)

    def forward(self, tokens: Tensor) -> Tensor:
        _known("token", tokens, self.vocab)
        others = (tokens < self.start) | (tokens >= self.stop)
        rows = F.embedding((tokens - self.start).masked_fill(others, 0), self.weight).masked_fill(
            others.unsqueeze(-1), 0.0
        )
        return scatter_out(rows, self.comm) if self.sequence else sum_out(rows, self.comm)


def _rows(comm: Comm, vocab: int, held: int) -> tuple[int, int]:
    start, stop = span(vocab, comm.size, comm.rank)
    if held != stop - start or not held:
        raise ValueError(
            f"rank {comm.rank} of {comm.size} holds {held} of {vocab} tokens, and must hold tokens {start} to "
            f"{stop - 1}: the ranks share the vocabulary in order, the longer parts first, and each has one at least."
        )
    return start, stop


def _known(what: str, tokens: Tensor, vocab: int, ignored: int | None = None) -> None:
    """ValueError for a number outside the vocabulary: every rank would treat it as another rank's, and none would look
    it up."""
    strange = (tokens < 0) | (tokens >= vocab)
    if ignored is not None:
        strange &= tokens != ignored
    if strange.any():
        raise ValueError(f"{what} {int(tokens[strange][0])} is not in a vocabulary of {vocab} (0 to {vocab - 1}).")


class _TokenLoss(Function):
    """-log p(target) of each token, from some columns of the logits on each rank. The backward pass sends nothing."""

    @staticmethod
    def forward(ctx, logits: Tensor, targets: Tensor, comm: Comm, start: int) -> Tensor:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        largest = wide.max(-1).values
        comm.all_reduce(largest, op=MAX)  # of all columns: all ranks must subtract the same number
        scores = wide - largest.unsqueeze(-1)
        others = (targets < start) | (targets >= start + logits.shape[-1])
        place = (targets - start).masked_fill(others, 0)
        chosen = scores.gather(-1, place.unsqueeze(-1)).squeeze(-1).masked_fill(others, 0.0)
        exponents = scores.exp_()
        sums = torch.stack([exponents.sum(-1), chosen])
        comm.all_reduce(sums)
        ctx.save_for_backward(exponents.div_(sums[0].unsqueeze(-1)), place, others)
        ctx.kind = logits.dtype
        return sums[0].log() - sums[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None, None]:
        shares, place, others = ctx.saved_tensors
        here = torch.ones_like(place, dtype=shares.dtype).masked_fill(others, 0.0)
        to_logits = shares.scatter_add(-1, place.unsqueeze(-1), -here.unsqueeze(-1)) * grad.unsqueeze(-1)
        return to_logits.to(ctx.kind), None, None, None


def cross_entropy(comm: Comm, logits: Tensor, targets: Tensor, vocab: int) -> Tensor:
    """Mean cross-entropy in nats per token, the same on every rank, from this rank's columns of the logits (B, S, V /
    ranks).

    Targets are whole on every rank; those of -100 do not count. Computed in fp32 at least.
    """
    start, _ = _rows(comm, vocab, logits.shape[-1])
    _known("target", targets, vocab, IGNORED)
    counts = targets != IGNORED
    return (_TokenLoss.apply(logits, targets.where(counts, 0), comm, start) * counts).sum() / counts.sum()


def gather_logits(comm: Comm, logits: Tensor, vocab: int) -> Tensor:
    """All logits (B, S, V) on every rank, without gradient: for inspection only; sending them costs V / ranks times the
    loss."""
    _rows(comm, vocab, logits.shape[-1])
    widths = [stop - start for start, stop in (span(vocab, comm.size, rank) for rank in range(comm.size))]
    padded = F.pad(logits.detach(), (0, widths[0] - logits.shape[-1])).contiguous()
    parts = padded.new_empty((comm.size, *padded.shape))
    comm.all_gather_into_tensor(parts, padded)
    return torch.cat([part[..., :width] for part, width in zip(parts, widths, strict=True)], -1)
