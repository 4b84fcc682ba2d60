"""Judge of ring-attention: ring attention."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.reference import RANKS, Shards, block_bytes, cut, shards, touched, weighed
from course_lib.exercises.ch11.judges.shared import log_sum_fault
from course_lib.exercises.ch11.probes import MEASURED, WEIGHED
from course_lib.judging import Fault, Judging, Params, Weighed, first, judged
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.mistakes import mistakes
from course_lib.judging.ranks import BUFFER, BUFFERS_LATE, LATE, moved_early
from course_lib.judging.tensors import close, coin_of, tensor_fault
from course_lib.judging.traffic import off_the_ring, too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _ring_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(ranks: int, length: int, how: str, name: str, *heads: int, measured: bool = False, **more: Any) -> Any:
        packed = torch.tensor(sorted(rng.choice((3, 4, 9)) for _ in range(length)))
        options = {"window": {"window": 5}, "documents": {"documents": packed}}.get(name, {}) | (
            {MEASURED: True} if measured else {}
        )
        return shards(coin, cut(length, ranks, rng, how), (name, options), *heads, **more)

    def far(name: str, part: str, *args: Any, **more: Any) -> Case:
        return hidden(name, part, per_rank=data(*args, **more))

    return [
        shown("four ranks, zig-zag, causal", "values:attention", per_rank=data(4, 16, "zig-zag", "causal")),
        far("three ranks, everything visible", "values:attention", 3, 12, "contiguous", "all"),
        far("four ranks, four query heads, two KV heads", "values:attention", 4, 16, "zig-zag", "all", 4, 2),
        far("three ranks, tokens anywhere", "generality:layouts", 3, 17, "mixed", "causal", 4, 2, 6),
        far("four ranks, 13 tokens", "generality:layouts", 4, 13, "zig-zag", "causal", 3, 1),
        far("five ranks, three tokens", "generality:layouts", 5, 3, "zig-zag", "causal"),
        far("two ranks", "generality:layouts", 2, 9, "contiguous", "causal"),
        far("one rank alone", "generality:layouts", 1, 7, "contiguous", "causal", 4, 2),
        far("three ranks, a sliding window", "generality:masks", 3, 18, "zig-zag", "window"),
        far("three ranks, packed documents", "generality:masks", 3, 18, "mixed", "documents", 2, 1),
        far("three ranks, keys before the query alone", "generality:masks", 3, 12, "mixed", "strict"),
        far("three ranks, large scores", "generality:numbers", 3, 12, "zig-zag", "causal", size=60.0),
        far("three ranks, bfloat16", "generality:numbers", 3, 15, "mixed", "causal", 4, 2, dtype=torch.bfloat16),
        far("two ranks, fp16", "generality:numbers", 2, 9, "mixed", "documents", dtype=torch.float16),
        far("ten ranks, memory", "cost:memory", 10, 20, "contiguous", "causal", 2, 2, 64, measured=True),
        *under((LATE, BUFFER, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data(3, 12, "zig-zag", "causal")),
    ]


ATTENDED = {
    "own-block": "this rank's own keys alone; the other blocks are missing.",
    "after-missing": "the block of rank + 1 is missing.",
    "before-missing": "the block of rank − 1 is missing.",
    "seen-mean": "the blocks' outputs have equal weights.",
    "plain-mean": "the blocks' outputs have equal weights, also blocks that are not seen.",
    "not-rescaled": "the blocks' sums are relative to different maxima; rescale them when the maximum grows.",
    "local-positions": "the mask belongs to positions within the block; take those of the whole sequence.",
    "wrong-block": "the mask belongs to another block. Whose keys are here after t steps?",
    "no-mask": "every key was seen; the mask is missing.",
    "not-scaled": "the scores are not divided by √width.",
    "heads-in-turn": "query head i used KV head i % KV heads; neighbors share a head.",
}


def _slips(of: Shards, rank: int) -> dict[str, Callable[[], Tensor]]:
    n = of.ranks

    def local(rank: int, block: int) -> Tensor:
        return of.visible(torch.arange(len(of.positions[rank])), torch.arange(len(of.positions[block])))

    def mirrored(rank: int, block: int) -> Tensor:
        other = (2 * rank - block) % n
        return of.seen(rank, other if len(of.positions[other]) == len(of.positions[block]) else block)

    def without(other: int) -> Tensor:
        return of.attend(rank, [block for block in range(n) if block != other % n])[0]

    return {
        "own-block": lambda: of.attend(rank, [rank])[0],
        "after-missing": lambda: without(rank + 1),
        "before-missing": lambda: without(rank - 1),
        "seen-mean": lambda: of.mixed(rank, lambda log_sum, top: (log_sum > -math.inf).double()),
        "plain-mean": lambda: of.mixed(rank, lambda log_sum, top: torch.ones_like(top)),
        "not-rescaled": lambda: of.mixed(rank, lambda log_sum, top: (log_sum - top).exp()),
        "local-positions": lambda: of.attend(rank, seen=local)[0],
        "wrong-block": lambda: of.attend(rank, seen=mirrored)[0],
        "no-mask": lambda: of.attend(rank, seen=lambda rank, block: torch.ones_like(of.seen(rank, block)))[0],
        "not-scaled": lambda: of.attend(rank, scaled=False)[0],
        "heads-in-turn": lambda: of.attend(rank, tiled=True)[0],
    }


def _ring_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    of = Shards(case)
    for rank, (got, (out, log_sum)) in enumerate(zip(outcome.value, of.whole(), strict=True)):
        want, where = out.to(of.q[rank].dtype), f"rank {rank}'s output"
        fault = None
        if not close(got["out"], want):
            slips = {
                name: lambda value=value, to=want.dtype: value().to(to) for name, value in _slips(of, rank).items()
            }
            fault = tensor_fault(where, got["out"], want, mistakes(slips, ATTENDED))
        if fault and case.adversary is not None and fault[0] in ("other-numbers", "not-finite", "rounded"):
            return moved_early(case, rank)
        if fault := fault or log_sum_fault(f"rank {rank}'s log-sum", got["log_sum"], log_sum):
            return fault
    return touched(outcome.value)


def _ring_bytes(case: Case, outcome: Outcome, direction: int) -> Fault | None:
    blocks = block_bytes(case)
    for rank, spent in enumerate(outcome.meter["bytes_sent"]):
        most = sum(blocks) - blocks[(rank + direction) % len(blocks)]
        if spent > most:
            return "too-many-bytes", (
                f"rank {rank} sent {spent:,} bytes; {most:,} are enough. Are blocks sent once more at the end, padded, in another dtype, "
                "or with a copy for every query head?"
            )
    needed = [sum(blocks) - own for own in blocks] if case.part == "attention" else [0] * len(blocks)
    return too_few_bytes(outcome.meter, [0] * len(blocks), needed)


KEPT = 0.95  # of all blocks: six of ten are needed, with arithmetic in float64 eight; whoever keeps them all has 12


def _ring_memory(case: Case, outcome: Outcome) -> Fault | None:
    blocks = block_bytes(case)
    held = max(got["peak"] or 0 for got in outcome.value)
    if 0 < held <= KEPT * sum(blocks):
        return None
    return "whole-sequence", (
        f"at its peak a rank holds {held / blocks[0]:.1f} blocks of keys and values of {len(blocks)} besides its own; let go of a block once "
        "it has been used and passed on."
    )


HELD = 10.0  # blocks a rank may come to hold, the given tensors and messages under way included


def _ring_weighed(params: Params, rng: random.Random) -> Weighed:
    coin = coin_of(rng)

    def wants(case: Case) -> list[dict[str, Tensor]]:
        columns = (case.per_rank or ())[0][1][1][WEIGHED][1] % 64
        return [{"out": out[..., columns], "log_sum": log_sum} for out, log_sum in Shards(case).whole()]

    positions = cut(20, RANKS, rng, "contiguous")
    return weighed(lambda options: shards(coin, positions, ("causal", options), 2, 2, 64), HELD, wants)


def _ring_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _ring_fault(params, case, outcome)
    direction = 1 if params["direction"] == "next" else -1
    if case.part == "memory":
        return judged(case, first(fault, _ring_memory(case, outcome)), named=True)
    cost = first(
        off_the_ring(outcome.meter, direction, "rank, rank + 1, …" if direction > 0 else "rank, rank − 1, …"),
        _ring_bytes(case, outcome, direction),
    )
    return judged(case, fault, *([("cost", "bytes", cost)] if case.adversary is None else []), named=True)


JUDGING = Judging(
    shares="values:attention 0.3, cost:bytes 0.2, cost:memory 0.1, protocol:safe 0.1, generality:layouts 0.1, generality:masks 0.1, "
    "generality:numbers 0.1",
    measured_by_worker=("cost:memory",),
    weighed=_ring_weighed,
    cases=_ring_cases,
    verdicts=_ring_verdicts,
    why="""Attention is a sum over keys, and log-sums let it be merged block by block. Each block passes every rank once, N − 1 messages in all. The mask depends on
positions in the whole sequence, so it holds for every layout.""",
    pytorch="`torch.distributed.tensor.experimental.context_parallel` replaces scaled_dot_product_attention with ring attention.",
)

ANSWERS = r"""import math

import torch

from course_lib import params


# %% right: a running output and log-sum
def ring_forward(comm, q, k, v, positions, visible):
    n, rank = comm.size, comm.rank
    step_to = 1 if params("ring-attention").direction == "next" else -1
    group, width = len(q) // len(k), q.shape[-1]
    wide = q.float()
    out, log_sum = torch.zeros_like(wide), torch.full(q.shape[:2], -math.inf)
    keys, values = k, v
    for step in range(n):
        block = (rank - step_to * step) % n
        works = []
        if step < n - 1:
            coming = len(positions[(block - step_to) % n])
            next_keys = keys.new_empty(len(k), coming, width)
            next_values = values.new_empty(len(v), coming, width)
            works = [
                comm.isend(keys, (rank + step_to) % n),
                comm.irecv(next_keys, (rank - step_to) % n),
                comm.isend(values, (rank + step_to) % n, tag=1),
                comm.irecv(next_values, (rank - step_to) % n, tag=1),
            ]
        scores = wide @ keys.float().repeat_interleave(group, 0).mT / math.sqrt(width)
        scores = scores.masked_fill(~visible(positions[rank], positions[block]), -math.inf)
        here = torch.logsumexp(scores, -1)
        total = torch.logaddexp(log_sum, here)
        shares = torch.where(total.unsqueeze(-1) == -math.inf, 0.0, (scores - total.unsqueeze(-1)).exp())
        old = torch.where(total == -math.inf, 0.0, (log_sum - total).exp())
        out = out * old.unsqueeze(-1) + shares @ values.float().repeat_interleave(group, 0)
        log_sum = total
        for work in works:
            work.wait()
        if works:
            keys, values = next_keys, next_values
    return out.to(q.dtype), log_sum


# %% right: a running maximum and sum, keys and values in one tensor
def ring_forward(comm, q, k, v, positions, visible):
    n, rank = comm.size, comm.rank
    sign = 1 if params("ring-attention").direction == "next" else -1
    after, before = (rank + sign) % n, (rank - sign) % n
    heads, kv_heads, width = len(q), len(k), q.shape[-1]
    queries = q.float().reshape(kv_heads, heads // kv_heads, q.shape[1], width)
    top = torch.full(queries.shape[:-1], -1e30)
    total, out = torch.zeros_like(top), torch.zeros_like(queries)
    held = torch.stack([k, v])
    owner = rank
    while True:
        following = (owner - sign) % n
        works = []
        if following != rank:
            arriving = held.new_empty(2, kv_heads, len(positions[following]), width)
            works = [comm.isend(held, after), comm.irecv(arriving, before)]
        if len(positions[owner]):
            scores = torch.einsum("kgqd,ktd->kgqt", queries, held[0].float()) * width**-0.5
            seen = visible(positions[rank], positions[owner])
            new = torch.maximum(top, scores.masked_fill(~seen, -1e30).amax(-1))
            weights = (scores - new.unsqueeze(-1)).exp().masked_fill(~seen, 0.0)
            shrink = (top - new).exp()
            total = total * shrink + weights.sum(-1)
            out = out * shrink.unsqueeze(-1) + weights @ held[1].float().unsqueeze(1)
            top = new
        for work in works:
            work.wait()
        if following == rank:
            break
        held, owner = arriving, following
    out = torch.where(total.unsqueeze(-1) > 0, out / total.unsqueeze(-1), 0.0).view(q.shape)
    log_sum = torch.where(total > 0, top + total.log(), -math.inf).view(q.shape[:2])
    return out.to(q.dtype), log_sum


# %% wrong: one step too few => values -  from: a running output and log-sum
# ~ (n) ==> (max(1, n - 1))

# %% wrong: the outputs are averaged => values plain-mean  from: a running output and log-sum
# -         out = out * old.unsqueeze(-1) + shares @ values.float().repeat_interleave(group, 0)
# +         own = torch.where(here.unsqueeze(-1) == -math.inf, 0.0, (scores - here.unsqueeze(-1)).exp())
# +         out = out + own @ values.float().repeat_interleave(group, 0) / n

# %% wrong: sums are not rescaled => values not-rescaled  from: a running maximum and sum, keys and values in one tensor
# -             shrink = (top - new).exp()
# +             new = scores.masked_fill(~seen, -1e30).amax(-1)
# +             weights = (scores - new.unsqueeze(-1)).exp().masked_fill(~seen, 0.0)
# +             shrink = torch.ones_like(new)

# %% wrong: positions start at zero on every rank => values local-positions  from: a running output and log-sum
# -         scores = scores.masked_fill(~visible(positions[rank], positions[block]), -math.inf)
# +         seen = visible(torch.arange(len(positions[rank])), torch.arange(len(positions[block])))
# +         scores = scores.masked_fill(~seen, -math.inf)

# %% wrong: the mask of another block => values wrong-block  from: a running output and log-sum
# -         scores = scores.masked_fill(~visible(positions[rank], positions[block]), -math.inf)
# +         other = positions[(rank + step_to * step) % n]
# +         if len(other) != len(positions[block]):
# +             other = positions[block]
# +         scores = scores.masked_fill(~visible(positions[rank], other), -math.inf)

# %% wrong: a masked row gives NaN => generality not-finite  from: a running output and log-sum
# -         shares = torch.where(total.unsqueeze(-1) == -math.inf, 0.0, (scores - total.unsqueeze(-1)).exp())
# -         old = torch.where(total == -math.inf, 0.0, (log_sum - total).exp())
# +         shares = (scores - total.unsqueeze(-1)).exp()
# +         old = (log_sum - total).exp()

# %% wrong: KV heads in turn => values heads-in-turn  from: a running output and log-sum
# ~ ().repeat_interleave(group, 0).mT ==> ().repeat(group, 1, 1).mT
# ~ values.float().repeat_interleave(group, 0) ==> values.float().repeat(group, 1, 1)

# %% wrong: a copy for every query head travels => cost too-many-bytes  from: a running output and log-sum
#       group, width = len(q) // len(k), q.shape[-1]
# +     k, v, group = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0), 1

# %% wrong: fp32 travels => cost too-many-bytes  from: a running output and log-sum
# ~ keys, values = k, v ==> keys, values = k.float(), v.float()

# %% wrong: scores in bf16 => generality -  from: a running output and log-sum
# ~ wide @ keys.float().repeat_interleave(group, 0).mT ==> (q @ keys.repeat_interleave(group, 0).mT).float()

# %% wrong: all blocks are kept => cost whole-sequence  from: a running output and log-sum
# ~ keys, values = k, v ==> keys, values, kept = k, v, []
#           log_sum = total
# +         kept.append((keys, values))

# %% wrong: one buffer for sending and receiving => protocol raised  from: a running maximum and sum, keys and values in one tensor
# -             works = [comm.isend(held, after), comm.irecv(arriving, before)]
# +             going = held
# +             works = [comm.isend(going, after), comm.irecv(arriving, before)]
# -         for work in works:
# -             work.wait()
# +         if works:
# +             works[1].wait()
# +             going.zero_()
# +             works[0].wait()

# %% wrong: blocking sends => protocol -  from: a running maximum and sum, keys and values in one tensor
# -             works = [comm.isend(held, after), comm.irecv(arriving, before)]
# +             comm.send(held, after)
# +             works = [comm.irecv(arriving, before)]

# %% wrong: the other way around => cost -  from: a running output and log-sum
# ~ 1 if params("ring-attention").direction == "next" else -1 ==> -1 if params("ring-attention").direction == "next" else 1

# %% wrong: the list of positions is reversed => values changed  from: a running output and log-sum
#       n, rank = comm.size, comm.rank
# +     given, positions = positions, list(positions)
# +     given.reverse()

# %% wrong: a later block is not seen => values ~  from: a running output and log-sum
# ~ (positions[rank], positions[block]) ==> (positions[rank], positions[block]) | (max(positions[rank].tolist() or [0]) < min(positions[block].tolist() or [0]))
"""
