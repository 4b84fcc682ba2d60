"""Attention in float64: the oracle of chapter 11's judges, over all keys."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course_chapters.ch11.exercises.probes import WEIGHED, Mask, mask
from course_grader.judging import Case, Fault, Outcome, Random, Weighed, Worked, hidden, placed
from course_grader.judging.ranks import moved_early, on_ranks
from course_grader.judging.tensors import close, coin_of, normal, tensor_fault
from course_lib.parallel.context.log_sum_exp_merge import attend

# positions of all ranks, mask, and a rank's queries, keys, values and more
PerRank = tuple[tuple[Sequence[Tensor], Mask, *tuple[Tensor, ...]], ...]


def whole(rows: PerRank) -> list[tuple[Tensor, Tensor]]:
    """Output and log-sum of every rank's queries over all keys, in float64."""
    positions, masked, *_ = rows[0]
    at = torch.cat(list(positions))
    q, k, v = (torch.cat(each, 1).double() for each in zip(*(own[:3] for _, _, *own in rows), strict=True))
    out, log_sum = attend(q, k, v, mask(masked)(at, at))
    sizes = [len(own) for own in positions]
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
    masked: Mask,
    heads: int = 2,
    kv_heads: int = 2,
    width: int = 4,
    *,
    dtype: torch.dtype = torch.float32,
    size: float = 1.0,
) -> PerRank:
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


def rank_fault(
    case: Case, rank: int, name: str, got: Mapping[str, object], want: Mapping[str, Tensor], floor: float = 0.0
) -> Fault | None:
    """What is wrong with the tensor `name` of a rank's result; a right one that moved too early is told as such."""
    fault = tensor_fault(f"rank {rank}'s {name}", got[name], want[name], floor=floor)
    if fault and case.adversary is not None and fault[0] in ("other-numbers", "not-finite", "rounded"):
        return moved_early(case, rank)
    return placed(fault, name)


WIDE = 2048  # times the width of a weighed case's small tables
RANKS = 10


def _alike(got: object, want: dict[str, object]) -> bool:
    tensors = ((name, each) for name, each in want.items() if isinstance(each, Tensor))
    return type(got) is dict and all(close(got.get(name), each, 1e-3) for name, each in tensors)


def weighed(
    right: Worked,
    rng: Random,
    blocks: float,
    more: Callable[[torch.Generator, PerRank], PerRank] = lambda coin, rows: rows,
) -> Weighed:
    """A case on ten ranks with 4 MB of keys and values each, made there, and a small one before it.

    `more` adds to the ranks' arguments, and `blocks` says how many times a rank's keys and values all of its memory may
    come to, the given tensors and what is under way included.
    """
    coin, positions = coin_of(rng), cut(20, RANKS, rng, "contiguous")
    columns = torch.tensor([3, 64 * 7 + 5, 64 * 1999 + 40])

    def case(name: str, times: int) -> Case:
        rows = shards(coin, positions, ("causal", {WEIGHED: (times, columns % (64 * times))}), 2, 2, 64)
        return hidden(name, "cost:memory", per_rank=more(coin, rows), seconds=30.0)

    def done(outcome: Outcome) -> bool:
        sent = min(outcome.meter.get("bytes_sent", [0])) >= 8 * block
        return sent and on_ranks(outcome, right.value(large), _alike)

    large, warm = case("ten ranks with 4 MB of keys and values each", WIDE), case("ten ranks, small tables", 1)
    block = WIDE * block_bytes(large)[0]
    return Weighed(case=large, warm=warm, most=RANKS * blocks * block, done=done)
