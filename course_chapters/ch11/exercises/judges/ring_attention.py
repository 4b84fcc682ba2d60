import torch

from course_chapters.ch11.exercises.judges.reference import block_bytes, cut, rank_fault, shards, weighed
from course_chapters.ch11.exercises.judges.shared import log_sum_fault
from course_chapters.ch11.exercises.probes import MEASURED
from course_grader.judging import Case, Judging, Outcome, Params, Random, Worked, oracle
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.mistakes import Fault, placed
from course_grader.judging.ranks import BUFFER, BUFFERS_LATE, LATE, PerRank
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import bytes_fault, off_the_ring

right = Worked("ring-attention")


def _ring_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        ranks: int,
        length: int,
        how: str,
        name: str,
        *heads: int,
        measured: bool = False,
        dtype: torch.dtype = torch.float32,
        size: float = 1.0,
    ) -> PerRank:
        packed = torch.tensor(sorted(rng.choice((3, 4, 9)) for _ in range(length)))
        masks: dict[str, dict[str, object]] = {"window": {"window": 5}, "documents": {"documents": packed}}
        options = masks.get(name, {}) | ({MEASURED: True} if measured else {})
        return shards(coin, cut(length, ranks, rng, how), (name, options), *heads, dtype=dtype, size=size)

    def far(name: str, part: str, rows: PerRank) -> Case:
        return hidden(name, part, per_rank=rows)

    return [
        shown("four ranks, zig-zag, causal", "values:attention", per_rank=data(4, 16, "zig-zag", "causal")),
        far("three ranks, everything visible", "values:attention", data(3, 12, "contiguous", "all")),
        far("four ranks, four query heads, two KV heads", "values:attention", data(4, 16, "zig-zag", "all", 4, 2)),
        far("three ranks, tokens anywhere", "generality:layouts", data(3, 17, "mixed", "causal", 4, 2, 6)),
        far("four ranks, 13 tokens", "generality:layouts", data(4, 13, "zig-zag", "causal", 3, 1)),
        far("five ranks, three tokens", "generality:layouts", data(5, 3, "zig-zag", "causal")),
        far("two ranks", "generality:layouts", data(2, 9, "contiguous", "causal")),
        far("one rank alone", "generality:layouts", data(1, 7, "contiguous", "causal", 4, 2)),
        far("three ranks, a sliding window", "generality:masks", data(3, 18, "zig-zag", "window")),
        far("three ranks, packed documents", "generality:masks", data(3, 18, "mixed", "documents", 2, 1)),
        far("three ranks, keys before the query alone", "generality:masks", data(3, 12, "mixed", "strict")),
        far("three ranks, large scores", "generality:numbers", data(3, 12, "zig-zag", "causal", size=60.0)),
        far("three ranks, bfloat16", "generality:numbers", data(3, 15, "mixed", "causal", 4, 2, dtype=torch.bfloat16)),
        far("two ranks, fp16", "generality:numbers", data(2, 9, "mixed", "documents", dtype=torch.float16)),
        far("ten ranks, memory", "cost:memory", data(10, 20, "contiguous", "causal", 2, 2, 64, measured=True)),
        *under((LATE, BUFFER, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data(3, 12, "zig-zag", "causal")),
    ]


def _ring_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        if fault := rank_fault(case, rank, "out", got, want):
            return fault
        if fault := log_sum_fault(f"rank {rank}'s log-sum", got["log_sum"], want["log_sum"]):
            return placed(fault, "log_sum")
    return _ring_memory(case, outcome) if case.part == "memory" else None


def _ring_bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    direction = 1 if params["direction"] == "next" else -1
    if fault := off_the_ring(outcome.meter, direction, f"rank, rank {'+' if direction > 0 else '−'} 1, …"):
        return fault
    blocks, nothing = block_bytes(case), [0] * (case.ranks or 0)
    most = [sum(blocks) - blocks[(rank + direction) % len(blocks)] for rank in range(len(blocks))]
    needed = [sum(blocks) - own for own in blocks] if case.part == "attention" else nothing
    needs = "are blocks sent once more, padded, wider, or once for every query head? Enough are"
    return bytes_fault(outcome.meter, most, needs, nothing, needed)


KEPT = 0.95  # of all blocks: six of ten are needed, with arithmetic in float64 eight; whoever keeps them all has 12


def _ring_memory(case: Case, outcome: Outcome) -> Fault | None:
    blocks = block_bytes(case)
    held = max(got["peak"] or 0 for got in outcome.value)
    if 0 < held <= KEPT * sum(blocks):
        return None
    return "whole-sequence", (
        f"at its peak a rank holds {held / blocks[0]:.1f} blocks of keys and values of {len(blocks)} besides its own; "
        "let go of a block once it has been used and passed on."
    )


HELD = 10.0  # blocks a rank may come to hold, the given tensors and messages under way included


JUDGING = Judging(
    shares="values:attention 0.3, cost:bytes 0.2, cost:memory 0.1, protocol:safe 0.1, generality:layouts 0.1, "
    "generality:masks 0.1, generality:numbers 0.1",
    measured_by_worker=("cost:memory",),
    weighed=lambda params, rng: weighed(right, rng, HELD),
    cases=_ring_cases,
    verdicts=oracle(_ring_fault, {"cost:bytes": _ring_bytes}, named=True),
    why="""Attention is a sum over keys, and log-sums let it be merged block by block. Each block passes every rank
once, N − 1 messages in all. The mask depends on positions in the whole sequence, so it holds for every layout.""",
    pytorch="`torch.distributed.tensor.experimental.context_parallel` replaces scaled_dot_product_attention with "
    "ring attention.",
)

ANSWERS = r'''# %% right: worked
def ring_forward(comm, q, k, v, positions: list, visible) -> tuple[torch.Tensor, torch.Tensor]:
    """(output, log_sum) of this rank's queries over the keys of all ranks."""
    n, rank, group, width = comm.size, comm.rank, len(q) // len(k), q.shape[-1]
    sign = 1 if params("ring-attention").direction == "next" else -1
    out, log_sum = torch.zeros(q.shape), torch.full(q.shape[:2], -math.inf)
    block = torch.stack([k, v])
    for step in range(n):
        owner, works = (rank - sign * step) % n, []
        if step < n - 1:
            following = block.new_empty(2, len(k), len(positions[(owner - sign) % n]), width)
            works = [comm.isend(block, (rank + sign) % n), comm.irecv(following, (rank - sign) % n)]
        keys, values = block.float().repeat_interleave(group, 1)
        scores = q.float() @ keys.mT / math.sqrt(width)
        scores = scores.masked_fill(~visible(positions[rank], positions[owner]), -math.inf)
        total = torch.logaddexp(log_sum, scores.logsumexp(-1))
        seen = total > -math.inf  # a query that has seen no key yet stays at zero
        old = torch.where(seen, (log_sum - total).exp(), 0.0)
        shares = torch.where(seen.unsqueeze(-1), (scores - total.unsqueeze(-1)).exp(), 0.0)
        out, log_sum = out * old.unsqueeze(-1) + shares @ values, total
        for work in works:
            work.wait()
        if works:
            block = following
    return out.to(q.dtype), log_sum
# %% right: a running maximum and sum
# ~ out, log_sum = torch.zeros(q.shape), torch.full(q.shape[:2], -math.inf)
# ~~ ==> out, top, sums = torch.zeros(q.shape), torch.full((*q.shape[:2], 1), -1e30), 0
# -         total = torch.logaddexp(log_sum, scores.logsumexp(-1))
# -         seen = total > -math.inf  # a query that has seen no key yet stays at zero
# -         old = torch.where(seen, (log_sum - total).exp(), 0.0)
# -         shares = torch.where(seen.unsqueeze(-1), (scores - total.unsqueeze(-1)).exp(), 0.0)
# -         out, log_sum = out * old.unsqueeze(-1) + shares @ values, total
# +         new = torch.cat([top, scores], -1).amax(-1, keepdim=True)
# +         weights, shrink = (scores - new).exp(), (top - new).exp()
# +         out, sums, top = out * shrink + weights @ values, sums * shrink + weights.sum(-1, keepdim=True), new
# ~ return out.to(q.dtype), log_sum ==> return (out / sums.clamp(min=1e-30)).to(q.dtype), (top + sums.log()).squeeze(-1)
# %% wrong: own block => values
# > this rank's own keys alone; the other blocks are missing.
# ~ for step in range(n): ==> for step in range(1):
# %% wrong: after missing => values
# > the block of rank + 1 is missing.
# ~ (positions[rank], positions[owner]) ==> (positions[rank], positions[owner]) | (owner == (rank + 1) % n)
# %% wrong: before missing => values
# > the block of rank − 1 is missing.
# ~ (positions[rank], positions[owner]) ==> (positions[rank], positions[owner]) | (owner == (rank - 1) % n)
# %% wrong: plain mean => values
# > the blocks' outputs have equal weights, also blocks that are not seen.
# ~ * old.unsqueeze(-1) + shares @ values ==> + scores.softmax(-1).nan_to_num(0.0) @ values / n
# %% wrong: seen mean => values
# > the blocks' outputs have equal weights.
# ~ out, log_sum = torch.zeros(q.shape), ==> count, out, log_sum = torch.zeros(q.shape[:2]), torch.zeros(q.shape),
# -         out, log_sum = out * old.unsqueeze(-1) + shares @ values, total
# +         count += (scores > -math.inf).any(-1)
# +         out, log_sum = out + scores.softmax(-1).nan_to_num(0.0) @ values, total
# ~ return out.to(q.dtype), ==> return (out / count.clamp(min=1).unsqueeze(-1)).to(q.dtype),
# %% wrong: not rescaled => values
# > the blocks' sums are relative to different maxima; rescale them when the maximum grows.
# ~ out, log_sum = torch.zeros(q.shape), ==> sums, out, log_sum = torch.zeros(*q.shape[:2], 1), torch.zeros(q.shape),
# -         out, log_sum = out * old.unsqueeze(-1) + shares @ values, total
# +         weights = (scores - scores.max(-1, keepdim=True).values).exp().nan_to_num(0.0) if len(positions[owner]) else
# ~~ scores
# +         sums += weights.sum(-1, keepdim=True)
# +         out, log_sum = out + weights @ values, total
# ~ return out.to(q.dtype), ==> return (out / sums).nan_to_num(0.0).to(q.dtype),
# %% wrong: local positions => values
# > the mask belongs to positions within the block; take those of the whole sequence.
# ~ positions[rank], positions[owner] ==> torch.arange(len(positions[rank])), torch.arange(len(positions[owner]))
# %% wrong: wrong block => values
# > the mask belongs to another block. Whose keys are here after t steps?
# -         scores = scores.masked_fill(~visible(positions[rank], positions[owner]), -math.inf)
# +         other = positions[(rank + sign * step) % n]
# +         other = other if len(other) == len(positions[owner]) else positions[owner]
# +         scores = scores.masked_fill(~visible(positions[rank], other), -math.inf)
# %% wrong: no mask => values
# > every key was seen; the mask is missing.
# ~ scores = scores.masked_fill(~visible(positions[rank], positions[owner]), -math.inf) ==> pass
# %% wrong: not scaled => values
# > the scores are not divided by √width.
# ~ keys.mT / math.sqrt(width) ==> keys.mT
# %% wrong: heads in turn => values
# > query head i used KV head i % KV heads; neighbors share a head.
# ~ .repeat_interleave(group, 1) ==> .repeat(1, group, 1, 1)
# %% wrong: one step too few => values after-missing
# ~ for step in range(n): ==> for step in range(max(1, n - 1)):
# %% wrong: a masked row gives NaN => generality not-finite
# ~ torch.where(seen, (log_sum - total).exp(), 0.0) ==> (log_sum - total).exp()
# ~ torch.where(seen.unsqueeze(-1), (scores - total.unsqueeze(-1)).exp(), 0.0) ==> (scores - total.unsqueeze(-1)).exp()
# %% wrong: a copy for every query head travels => cost too-many-bytes
#       sign = 1 if params("ring-attention").direction == "next" else -1
# +     k, v, group = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0), 1
# %% wrong: fp32 travels => cost too-many-bytes
# ~ block = torch.stack([k, v]) ==> block = torch.stack([k, v]).float()
# %% wrong: scores in bf16 => generality log-sum
# ~ q.float() @ keys.mT ==> (q @ keys.mT.to(q.dtype)).float()
# %% wrong: all blocks are kept => cost whole-sequence
# ~ block = torch.stack([k, v]) ==> block, kept = torch.stack([k, v]), []
#           seen = total > -math.inf  # a query that has seen no key yet stays at zero
# +         kept.append(block)
# %% wrong: one buffer for sending and receiving => protocol raised
# -         for work in works:
# -             work.wait()
#           if works:
# +             works[1].wait()
# +             block.zero_()
# +             works[0].wait()
# %% wrong: blocking sends => protocol deadlock
# ~ works = [comm.isend(block, (rank + sign) % n), comm.irecv(following, (rank - sign) % n)]
# ~~ ==> comm.send(block, (rank + sign) % n)
# +             works = [comm.irecv(following, (rank - sign) % n)]
# %% wrong: the other way around => cost wrong-direction
# ~ sign = 1 if params("ring-attention").direction == "next" else -1
# ~~ ==> sign = -1 if params("ring-attention").direction == "next" else 1
# %% wrong: the list of positions is reversed => values changed
#       sign = 1 if params("ring-attention").direction == "next" else -1
# +     given, positions = positions, list(positions)
# +     given.reverse()
# %% wrong: a later block is not seen => values ~
# ~ (positions[rank], positions[owner]) ==> (positions[rank], positions[owner]) | (max(positions[rank].tolist() or [0])
# ~~ < min(positions[owner].tolist() or [0]))
'''
