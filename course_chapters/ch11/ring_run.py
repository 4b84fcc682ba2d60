"""A ring attention on the metered cluster, step by step: which rank has which block, what it computes, and whose
gradients travel.

A communicator that notes every message passes through the library's ring. Which block a message carries, and which
ranks added to a gradient, is read from its numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from course_chapters.ch11 import runs
from course_lib.cluster import Comm, P2POp, Run, Work, simulate
from course_lib.model.modules import gradient
from course_lib.parallel.context import CAUSAL, FULL, contiguous, cut, ring_attention, striped, zig_zag
from course_lib.parallel.context.attention_blocks import saved_for_backward
from course_lib.parallel.context.costs import attention_flops
from course_lib.parallel.context.log_sum_exp_merge import attend_backward, grouped

LAYOUTS = {"contiguous": contiguous, "zig-zag": zig_zag, "striped": striped}
TOKENS, HEADS, KV_HEADS, DIM = 24, 2, 1, 4  # of the sequence that the ring divides


@dataclass(frozen=True, slots=True)
class Held:
    """What one rank has after one step of a pass."""

    block: int  # whose keys and values
    pairs: int  # query-key pairs that it computed with them, masked ones inside a tile included
    keys: int  # that the last query of the rank has met so far, with their largest score and the sum over it
    top: float
    total: float
    share: float  # of that query's final sum
    gradient: tuple[int, ...]  # the ranks whose shares the block's traveling gradient contains
    home: tuple[int, ...]  # the ranks whose shares of the gradient of its own block are back
    sent: int  # bytes of this pass


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run in both passes: `steps[pass][step][rank]`, where "backward" has one step more, in which gradients come
    home."""

    run: Run
    positions: Sequence[Tensor]
    visible: Tensor  # (tokens, tokens), bool
    steps: dict[str, list[list[Held]]]


# Of a rank, in order: "sends" or "receives" with a tensor, a pass with its FLOPs.
Notes = Sequence[tuple[str, Tensor | float]]


class _Watched(Comm):
    """A communicator that notes what its rank sends, receives and computes, in order."""

    def __init__(self, comm: Comm) -> None:
        super().__init__(range(comm.size))
        self.log: list[tuple[str, Tensor | float]] = []

    def batch_isend_irecv(self, p2p_op_list: Sequence[P2POp]) -> list[Work]:
        for half in p2p_op_list:
            assert isinstance(half.tensor, Tensor)
            sends = half.op.__name__ == "isend"
            self.log.append(("sends", half.tensor.clone()) if sends else ("receives", half.tensor))
        return super().batch_isend_irecv(p2p_op_list)

    def compute(self, seconds: float = 0.0, *, flops: float = 0.0, kind: str = "compute", label: str = "") -> None:
        self.log.append((kind, flops))
        super().compute(seconds, flops=flops, kind=kind, label=label)


def _watch(
    comm: Comm, parts: Sequence[Tensor], positions: Sequence[Tensor], causal: bool
) -> tuple[Tensor, Tensor, Tensor, Notes]:
    watched = _Watched(comm)
    q, k, v = (x.clone().requires_grad_() for x in parts[:3])
    out, log_sum = ring_attention(watched, q, k, v, positions, CAUSAL if causal else FULL)
    out.backward(parts[3])
    return out.detach(), log_sum, torch.stack([gradient(k), gradient(v)]), watched.log


@lru_cache(maxsize=64)
def record(ranks: int = 4, layout: str = "contiguous", causal: bool = True) -> Recorded:
    """Both passes of the library's ring over 24 tokens: keys and values in bf16, their gradients in fp32."""
    positions = LAYOUTS[layout](TOKENS, ranks)
    given = [x.bfloat16() for x in runs.tensors(TOKENS, HEADS, KV_HEADS, DIM)]
    parts = [[cut(x, own) for x in given] for own in positions]
    run = simulate(_watch, ranks, per_rank=[(each, positions, causal) for each in parts])
    everyone = torch.arange(TOKENS)
    visible = (CAUSAL if causal else FULL).visible(everyone, everyone)
    found = Recorded(run, positions, visible, {"forward": [], "backward": []})
    reader = _Reader(found, parts)
    columns = [list(reader.steps_of(rank)) for rank in range(ranks)]
    for kind, first, last in (("forward", 0, ranks), ("backward", ranks, 2 * ranks + 1)):
        found.steps[kind] += [[column[step] for column in columns] for step in range(first, last)]
    return found


class _Reader:
    """Reads the notes of a run: which block and which shares a tensor contains."""

    def __init__(self, found: Recorded, parts: Sequence[Sequence[Tensor]]) -> None:
        self.run, self.positions, self.visible = found.run, found.positions, found.visible
        self.blocks, self.queries = [torch.stack(list(part[1:3])) for part in parts], [part[0] for part in parts]
        self.shares: dict[tuple[int, int], Tensor] = {}
        for rank, (q, _, _, grad_out) in enumerate(parts):
            out, log_sum = self.run.results[rank][:2]
            log_sum, grad, delta = saved_for_backward(out, log_sum, grad_out)
            for owner, (k, v) in enumerate(self.blocks):
                seen = self.visible[self.positions[rank]][:, self.positions[owner]]
                self.shares[rank, owner] = torch.stack(attend_backward(q, k, v, log_sum, grad, delta, seen)[1:])

    def owner_of(self, block: Tensor) -> int:
        """Whose keys and values these are."""
        return next(owner for owner, own in enumerate(self.blocks) if torch.equal(own, block))

    def shares_in(self, total: Tensor, owner: int) -> tuple[int, ...]:
        """The ranks whose shares add up to this gradient of a rank's block; a rank that sees nothing of the block has
        none."""
        giving = [rank for rank in range(len(self.blocks)) if self.shares[rank, owner].any()]
        terms = torch.stack([self.shares[rank, owner].flatten() for rank in giving], 1)
        times = torch.linalg.lstsq(terms, total.flatten()[:, None]).solution.round().flatten().tolist()
        return tuple(rank for rank, count in zip(giving, times, strict=True) if count)

    def steps_of(self, rank: int) -> Iterator[Held]:
        """The rank after each forward step, each backward step, and when gradients are home."""
        log, ranks, met = self.run.results[rank][3], len(self.blocks), [rank]
        computed = [at for at, (what, _) in enumerate(log) if what in ("forward", "backward")]
        whole, border = self.run.results[rank][2].float(), computed[ranks - 1] + 1
        for kind, notes in (("forward", log[:border]), ("backward", log[border:])):
            blocks = [rank, *map(self.owner_of, _tensors(notes, "receives", torch.bfloat16))]
            met = blocks[:ranks] if kind == "forward" else met
            traveling, arrived = (_tensors(notes, what, torch.float32) for what in ("sends", "receives"))
            kept = self.shares_in(whole - arrived[-1], rank) if arrived else ()  # by the rank itself until the end
            for step, at in enumerate(at for at, (what, _) in enumerate(notes) if what == kind):
                pairs = round(notes[at][1] / float(attention_flops(1, HEADS, DIM, kind == "backward")))
                softmax = self._softmax(rank, met if kind == "backward" else met[: step + 1])
                shares = self.shares_in(traveling[step - 1], blocks[step]) if traveling and step else ()
                yield Held(blocks[step], pairs, *softmax, shares, kept, _nbytes(notes[:at]))
        yield Held(rank, 0, *self._softmax(rank, met), (), self.shares_in(whole, rank), _nbytes(log[border:]))

    def _softmax(self, rank: int, met: Sequence[int]) -> tuple[int, float, float, float]:
        """For the first head's last query after these blocks: keys seen, largest score, sum over it, share of the final
        sum."""
        query = self.queries[rank][:, -1:].float()
        keys = torch.cat([self.blocks[owner][0] for owner in met], 1).float()
        seen = self.visible[self.positions[rank][-1]][torch.cat([self.positions[owner] for owner in met])]
        scores = (grouped(query, KV_HEADS) @ keys.unsqueeze(1).transpose(-2, -1)).flatten() * DIM**-0.5
        scores = scores.view(HEADS, -1)[0][seen]
        if not len(scores):  # the blocks so far brought no visible key
            return 0, float("-inf"), 0.0, 0.0
        top, log_sum = scores.max(), self.run.results[rank][1][0, -1]
        total = (scores - top).exp().sum()
        return len(scores), float(top), float(total), float((top + total.log() - log_sum).exp())


def _tensors(notes: Notes, what: str, dtype: torch.dtype) -> list[Tensor]:
    """What a rank sent or received in this format, in order."""
    return [it for done, it in notes if done == what and isinstance(it, Tensor) and it.dtype == dtype]


def _nbytes(notes: Notes) -> int:
    """Bytes that a rank sent."""
    return sum(it.nbytes for done, it in notes if done == "sends" and isinstance(it, Tensor))
