"""Attention in float64: the oracle of chapter 11's judges, over all keys."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_chapters.ch11.exercises.probes import WEIGHED, mask
from course_grader.judging import Case, Fault, Outcome, Random, Weighed, Worked, hidden
from course_grader.judging.ranks import on_ranks
from course_grader.judging.tensors import close, normal

Visible = Callable[[Tensor, Tensor], Tensor]


def spread(kv: Tensor, heads: int) -> Tensor:
    """Keys or values in float64, one for each query head."""
    return kv.repeat_interleave(heads // len(kv), 0).double()


def scores(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    """Scores in shape (heads, queries, keys), −∞ where a key is not seen."""
    return (q.double() @ spread(k, len(q)).mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)


def softmax_of(found: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Output and log-sum of scores; a row without a key gives zero and −∞."""
    log_sum = found.logsumexp(-1)
    return (found - log_sum.unsqueeze(-1)).exp().nan_to_num(0.0) @ spread(v, len(found)), log_sum


class Shards:
    """The ranks' queries, keys, values and positions of a case of ring attention."""

    def __init__(self, case: Case) -> None:
        rows = case.per_rank or ()
        self.positions, masked = rows[0][:2]
        self.visible: Visible = mask(*masked)
        self.q, self.k, self.v, *self.others = (list(each) for each in zip(*(row[2:] for row in rows), strict=True))
        self.ranks = len(rows)

    def whole(self) -> list[tuple[Tensor, Tensor]]:
        """Output and log-sum of every rank's queries over all keys."""
        q, k, v = (torch.cat(each, 1) for each in (self.q, self.k, self.v))
        at = torch.cat(list(self.positions))
        out, log_sum = softmax_of(scores(q, k, self.visible(at, at)), v)
        sizes = [len(own) for own in self.positions]
        return list(zip(out.split(sizes, 1), log_sum.split(sizes, 1), strict=True))


def cut(length: int, ranks: int, rng: Random, how: str) -> list[Tensor]:
    """The positions of each rank: "contiguous", "zig-zag", or "mixed": any number of tokens a rank, in any order."""
    blocks = torch.arange(length).tensor_split(2 * ranks)
    if how == "zig-zag":
        return [torch.cat([blocks[rank], blocks[-1 - rank]]) for rank in range(ranks)]
    if how == "contiguous":
        return [torch.cat([blocks[2 * rank], blocks[2 * rank + 1]]) for rank in range(ranks)]
    order, at = torch.tensor(rng.sample(range(length), length)), sorted(rng.randrange(length) for _ in range(ranks - 1))
    return list(order.tensor_split(at))


def shards(
    coin: torch.Generator,
    positions: Sequence[Tensor],
    masked: tuple[str, dict[str, Any]],
    heads: int = 2,
    kv_heads: int = 2,
    width: int = 4,
    *,
    dtype: torch.dtype = torch.float32,
    size: float = 1.0,
) -> tuple[tuple[object, ...], ...]:
    """The arguments of every rank: positions, mask, and secret queries, keys and values in shape (heads, tokens,
    width)."""
    return tuple(
        (
            list(positions),
            masked,
            *(
                (normal(coin, count, len(own), width) * by).to(dtype)
                for count, by in ((heads, size), (kv_heads, size), (kv_heads, 1.0))
            ),
        )
        for own in positions
    )


def block_bytes(case: Case) -> list[int]:
    """Bytes of the keys and values of each rank."""
    return [row[3].nbytes + row[4].nbytes for row in case.per_rank or ()]


WIDE = 2048  # times the width of a weighed case's small tables
RANKS = 10


def _alike(got: Any, want: dict[str, Any]) -> bool:
    tensors = ((name, each) for name, each in want.items() if isinstance(each, Tensor))
    return type(got) is dict and all(close(got.get(name), each, 1e-3) for name, each in tensors)


def weighed(right: Worked, rows: Callable[[dict[str, Any]], Any], blocks: float) -> Weighed:
    """A case on ten ranks with 4 MB of keys and values each, made there, and a small one before it.

    `rows(options)` gives the ranks' arguments, and `blocks` how many times a rank's keys and values all of its memory
    may come to, the given tensors and what is under way included.
    """
    columns = torch.tensor([3, 64 * 7 + 5, 64 * 1999 + 40])

    def case(name: str, times: int) -> Case:
        at = columns % (64 * times)
        return hidden(name, "cost:memory", per_rank=rows({WEIGHED: (times, at)}), seconds=30.0)

    def done(outcome: Outcome) -> bool:
        sent = min(outcome.meter.get("bytes_sent", [0])) >= 8 * block
        return sent and on_ranks(outcome, right.value(large), _alike)

    large, warm = case("ten ranks with 4 MB of keys and values each", WIDE), case("ten ranks, small tables", 1)
    block = WIDE * block_bytes(large)[0]
    return Weighed(case=large, warm=warm, most=RANKS * blocks * block, done=done)


def touched(results: Sequence[Any]) -> Fault | None:
    """The first rank on which an argument was changed."""
    rank = next((rank for rank, got in enumerate(results) if got["touched"] is not False), None)
    return None if rank is None else ("changed", f"rank {rank}: an argument was changed; return new tensors.")
