"""Judge of ring-backward: gradients of keys and values travel home."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.reference import (
    RANKS,
    Shards,
    block_bytes,
    cut,
    scores,
    shards,
    spread,
    touched,
    weighed,
)
from course_lib.exercises.ch11.probes import MEASURED, WEIGHED
from course_lib.judging import Fault, Judging, Params, Weighed, first, judged
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.mistakes import mistakes
from course_lib.judging.ranks import BUFFERS_LATE, LATE, moved_early
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict

FLOOR = 0.05  # the least scale of a gradient that is a difference of larger terms


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def data(
        ranks: int, length: int, how: str, name: str = "causal", *heads: int, size: float = 1.0, **options: Any
    ) -> Any:
        rows = shards(coin, cut(length, ranks, rng, how), (name, options), *heads, size=size)
        right = zip(rows, Shards(Case(name="", per_rank=rows)).whole(), strict=True)
        return tuple((*row, out.float(), log_sum.float(), normal(coin, *out.shape)) for row, (out, log_sum) in right)

    def far(name: str, part: str, *args: Any, **options: Any) -> Case:
        return hidden(name, part, per_rank=data(*args, **options))

    return [
        shown(f"{ranks_text(n)}, zig-zag, causal", "values:kv", per_rank=data(n, 4 * n, "zig-zag")),
        far(f"{ranks_text(n)}, everything visible", "values:kv", n, 4 * n, "zig-zag", "all"),
        far("three ranks, four query heads, two KV heads", "generality:heads", 3, 12, "zig-zag", "causal", 4, 2),
        far("two ranks, three query heads, one KV head", "generality:heads", 2, 8, "contiguous", "all", 3, 1, 6),
        far("three ranks, tokens anywhere", "generality:layouts", 3, 16, "mixed"),
        far("five ranks, three tokens", "generality:layouts", 5, 3, "zig-zag"),
        far("one rank alone", "generality:layouts", 1, 6, "contiguous", "causal", 4, 2),
        far("three ranks, keys before the query alone", "generality:layouts", 3, 11, "mixed", "strict"),
        far("three ranks, a sliding window", "generality:layouts", 3, 15, "zig-zag", "window", window=4),
        far("two ranks, large scores", "generality:layouts", 2, 8, "zig-zag", size=12.0),
        far("ten ranks, memory", "cost:memory", 10, 20, "contiguous", "causal", 2, 2, 64, **{MEASURED: True}),
        *under((LATE, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data(3, 12, "zig-zag")),
    ]


Gradients = list[tuple[Tensor, Tensor, Tensor]]


def gradients(
    case: Case,
    *,
    counts: Callable[[Tensor, Tensor], Tensor] | None = None,
    delta: bool = True,
    scaled: bool = True,
    own_sums: bool = False,
    tiled: bool = False,
) -> Gradients:
    """Each rank's dq, dk and dv in float64.

    `counts(query rank, block)` says whose queries count for a block's gradients; it and the other keywords lead to known mistakes.
    """
    of = Shards(case)
    sizes = [len(own) for own in of.positions]
    q, k, v, out, grad = (torch.cat(each, 1).double() for each in (of.q, of.k, of.v, of.others[0], of.others[2]))
    at, owner = torch.cat(list(of.positions)), torch.arange(of.ranks).repeat_interleave(torch.tensor(sizes))
    seen, factor = of.visible(at, at), 1 / math.sqrt(q.shape[-1]) if scaled else 1.0
    score, base = scores(q, k, seen, tiled=tiled), scores(q, k, seen).logsumexp(-1, keepdim=True)
    if own_sums:
        base = torch.stack([score[..., owner == block].logsumexp(-1) for block in range(of.ranks)], -1)[..., owner]
    p = (score - base).exp().nan_to_num(0.0)
    sums = (grad * out).sum(-1, keepdim=True) if delta else 0.0
    ds = p * (grad @ spread(v, len(q), tiled).mT - sums) * factor
    keep = counts(owner[:, None], owner[None, :]) if counts else torch.ones_like(seen)
    dk, dv = (_grouped((each * keep).mT @ other, len(k), tiled) for each, other in ((ds, q), (p, grad)))
    parts = [each.split(sizes, 1) for each in (ds @ spread(k, len(q), tiled), dk, dv)]
    return list(zip(*parts, strict=True))


def _grouped(per_head: Tensor, kv_heads: int, tiled: bool) -> Tensor:
    """The sum over the query heads that share a KV head."""
    shape = (-1, kv_heads) if tiled else (kv_heads, -1)
    return per_head.unflatten(0, shape).sum(0 if tiled else 1)


MESSAGES = {
    "left-at-next": "the gradients belong to the block of rank + 1; send them home.",
    "left-at-previous": "the gradients belong to the block of rank − 1; send them home.",
    "no-delta": "D, the sum of grad · out, was not taken off.",
    "not-scaled": "the factor 1 / √width is missing.",
    "heads-in-turn": "query head i used KV head i % KV heads; neighbors share a head.",
    "own-queries": "this rank's queries alone; those of the other ranks saw these keys too.",
    "own-missing": "the contribution of this rank's own queries is missing.",
    "own-sums": "P was normalized within each block; use the log-sum over all keys.",
    "last-missing": "the contribution of the last rank on the way is missing.",
}


def _slips(case: Case, rank: int, at: int) -> dict[str, Callable[[], Tensor]]:
    """What each known mistake gives for one gradient of a rank."""
    n = case.ranks or 1
    ways: dict[str, dict[str, Any]] = {
        "no-delta": {"delta": False},
        "not-scaled": {"scaled": False},
        "heads-in-turn": {"tiled": True},
        "own-queries": {"counts": lambda query, block: query == block},
        "own-missing": {"counts": lambda query, block: query != block},
        "own-sums": {"own_sums": True},
        "last-missing": {"counts": lambda query, block: query != (block - 1) % n},
    }
    shifts = {"left-at-next": 1, "left-at-previous": -1} if at else {}
    moved = {name: lambda by=by: gradients(case)[(rank + by) % n][at].float() for name, by in shifts.items()}
    return moved | {name: lambda how=how: gradients(case, **how)[rank][at].float() for name, how in ways.items()}


def _fault(case: Case, results: Sequence[Any]) -> Fault | None:
    wants = gradients(case)
    for rank, got in enumerate(results):
        for at, name in ((1, "dk"), (2, "dv"), (0, "dq")):
            want = wants[rank][at].float()
            where = f"rank {rank}'s {name}"
            if (fault := tensor_fault(where, got[name], want, floor=FLOOR)) is None:
                continue
            named = mistakes(_slips(case, rank, at), MESSAGES)
            fault = tensor_fault(where, got[name], want, named, floor=FLOOR) or fault
            early = case.adversary is not None and fault[0] in ("other-numbers", "not-finite", "rounded")
            return moved_early(case, rank) if early else fault
    return touched(results)


def _bytes(case: Case, outcome: Outcome) -> Fault | None:
    blocks, spent = block_bytes(case), sum(outcome.meter["bytes_sent"])
    most = (2 * len(blocks) - 1) * sum(blocks) if len(blocks) > 1 else 0
    if spent <= most:
        needed = [sum(blocks) - own if case.part == "kv" else 0 for own in blocks]
        return too_few_bytes(outcome.meter, [0] * len(blocks), needed)
    return "too-many-bytes", (
        f"the ranks sent {spent:,} bytes; {most:,} are enough: keys and values N − 1 times, their gradients N times. Does something travel with a copy "
        "for every query head, or padded?"
    )


KEPT = 1.4  # of all blocks of keys and values: nine to eleven of ten are enough, and whoever keeps them all has 18


def _memory(case: Case, outcome: Outcome) -> Fault | None:
    whole = sum(block_bytes(case))
    held = max(got["peak"] or 0 for got in outcome.value)
    if 0 < held <= KEPT * whole:
        return None
    return "whole-sequence", (
        f"at its peak a rank holds {held / whole:.2g} times the keys and values of the whole sequence besides its own; one block of them "
        "and one of gradients under way are enough."
    )


HELD = 16.0  # blocks a rank may come to hold, the given tensors and messages under way included


def _weighed(params: Params, rng: random.Random) -> Weighed:
    coin = coin_of(rng)

    def rows(options: dict[str, Any]) -> Any:
        given = shards(coin, positions, ("causal", options), 2, 2, 64)
        right = zip(given, Shards(Case(name="", per_rank=given)).whole(), strict=True)
        return tuple((*row, out.float(), log_sum.float(), normal(coin, *out.shape)) for row, (out, log_sum) in right)

    def wants(case: Case) -> list[dict[str, Tensor]]:
        times, columns = (case.per_rank or ())[0][1][1][WEIGHED]
        scales = {"dq": times**-0.5, "dk": 1 / times, "dv": 1 / times}
        found = gradients(case)
        return [
            {name: each[..., columns % 64] * scale for (name, scale), each in zip(scales.items(), three, strict=True)}
            for three in found
        ]

    positions = cut(20, RANKS, rng, "contiguous")
    return weighed(rows, HELD, wants)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _fault(case, outcome.value)
    if case.part == "memory":
        return judged(case, first(fault, _memory(case, outcome)), named=True)
    return judged(
        case, fault, *([("cost", "bytes", _bytes(case, outcome))] if case.adversary is None else []), named=True
    )


JUDGING = Judging(
    shares="values:kv 0.35, cost:bytes 0.2, cost:memory 0.1, protocol:safe 0.1, generality:heads 0.1, generality:layouts 0.15",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
    cases=_cases,
    verdicts=_verdicts,
    why="""P follows from the saved log-sum, so no forward pass is repeated and no P is stored. dQ stays at home, because every block of keys comes by. dK and dV are
sums over the queries of all ranks: their accumulator travels with the block, and a last message takes it home.""",
    pytorch="The backward pass of PyTorch's ring attention rotates dK and dV in the same way.",
)

ANSWERS = r"""import math

import torch


# %% right: an accumulator travels with its block
def ring_backward(comm, q, k, v, out, log_sum, grad, positions, visible):
    n, rank = comm.size, comm.rank
    after, before = (rank + 1) % n, (rank - 1) % n
    heads, kv_heads, width = len(q), len(k), q.shape[-1]
    group = heads // kv_heads
    sums = (grad * out).sum(-1, keepdim=True)
    dq = torch.zeros_like(q)
    held = torch.stack([k, v])
    for step in range(n):
        block = (rank - step) % n
        works = []
        if step < n - 1:
            coming = held.new_empty(2, kv_heads, len(positions[(block - 1) % n]), width)
            works = [comm.isend(held, after), comm.irecv(coming, before)]
        keys, values = held.repeat_interleave(group, 1)
        scores = q @ keys.mT / math.sqrt(width)
        seen = visible(positions[rank], positions[block])
        p = torch.where(seen, (scores - log_sum.unsqueeze(-1)).exp(), 0.0)
        ds = p * (grad @ values.mT - sums) / math.sqrt(width)
        dq += ds @ keys
        own = torch.stack([ds.mT @ q, p.mT @ grad]).unflatten(1, (kv_heads, group)).sum(2)
        if step:
            total = torch.empty_like(own)
            comm.recv(total, before, tag=1)
            for work in sending:
                work.wait()
            own += total
        sending = [comm.isend(own, after, tag=1)] if n > 1 else []
        for work in works:
            work.wait()
        if works:
            held = coming
    if n == 1:
        return dq, own[0], own[1]
    home = torch.empty(2, *k.shape)
    comm.recv(home, before, tag=1)
    for work in sending:
        work.wait()
    return dq, home[0], home[1]


# %% right: each contribution goes straight home
def ring_backward(comm, q, k, v, out, log_sum, grad, positions, visible):
    n, rank, width = comm.size, comm.rank, q.shape[-1]
    group = len(q) // len(k)

    def contribution(held, block):
        keys, values = held.repeat_interleave(group, 1)
        seen = visible(positions[rank], positions[block])
        p = torch.where(seen, (q @ keys.mT * width**-0.5 - log_sum[..., None]).exp(), 0.0)
        ds = p * (grad @ values.mT - (grad * out).sum(-1, keepdim=True)) * width**-0.5
        parts = torch.stack([ds.mT @ q, p.mT @ grad])
        return ds @ keys, parts.view(2, len(k), group, *parts.shape[2:]).sum(2)

    own = torch.stack([k, v])
    dq, total = contribution(own, rank)
    for step in range(1, n):
        far, near = (rank + step) % n, (rank - step) % n
        held = own.new_empty(2, len(k), len(positions[near]), width)
        works = [comm.isend(own, far), comm.irecv(held, near)]
        for work in works:
            work.wait()
        more, part = contribution(held, near)
        dq, arrived = dq + more, torch.empty_like(own)
        works = [comm.isend(part, near, tag=1), comm.irecv(arrived, far, tag=1)]
        for work in works:
            work.wait()
        total = total + arrived
    return dq, total[0], total[1]


# %% wrong: left at the neighbor => values left-at-next  from: an accumulator travels with its block
# ~ home[0], home ==> own[0], own

# %% wrong: own queries alone => values own-queries  from: each contribution goes straight home
# ~ + arrived ==> + 0 * arrived

# %% wrong: the own part is forgotten => values own-missing  from: each contribution goes straight home
#       dq, total = contribution(own, rank)
# +     total = 0 * total

# %% wrong: nothing is taken off => values no-delta  from: an accumulator travels with its block
# ~ grad @ values.mT - sums) / math.sqrt( ==> grad @ values.mT) / math.sqrt(

# %% wrong: the scale is missing => values not-scaled  from: an accumulator travels with its block
# ~ (grad @ values.mT - sums) / math.sqrt(width) ==> (grad @ values.mT - sums)

# %% wrong: softmax within the block => values own-sums  from: an accumulator travels with its block
# -         p = torch.where(seen, (scores - log_sum.unsqueeze(-1)).exp(), 0.0)
# +         here = torch.where(seen, scores, -math.inf).logsumexp(-1, keepdim=True)
# +         p = torch.where(seen, (scores - here).exp(), 0.0)

# %% wrong: a query that sees nothing => generality not-finite  from: an accumulator travels with its block
# ~ torch.where(seen, (scores - log_sum.unsqueeze(-1)).exp(), 0.0) ==> (torch.where(seen, scores, -math.inf) - log_sum.unsqueeze(-1)).exp()

# %% wrong: heads in turn => generality heads-in-turn  from: an accumulator travels with its block
# ~ values = held.repeat_interleave(group, 1) ==> values = held.repeat(1, group, 1, 1)
# ~ (1, (kv_heads, group)).sum(2) ==> (1, (group, kv_heads)).sum(1)

# %% wrong: gradients of every query head travel => cost too-many-bytes  from: each contribution goes straight home
# -         return ds @ keys, parts.view(2, len(k), group, *parts.shape[2:]).sum(2)
# +         parts = parts.view(2, len(k), group, *parts.shape[2:])
# +         return ds @ keys, parts if block != rank else parts.sum(2)
# ~ torch.empty_like(own) ==> own.new_empty(2, len(k), group, *k.shape[1:])
# ~ + arrived ==> + arrived.sum(2)

# %% wrong: the accumulator is read too early => protocol in-flight  from: an accumulator travels with its block
# ~ empty_like ==> zeros_like
# ~ comm.recv(total, before, tag=1) ==> receiving = comm.irecv(total, before, tag=1)
#               own += total
# +             receiving.wait()

# %% wrong: the gradient is scaled in place => values changed  from: an accumulator travels with its block
# ~ (grad * out) ==> out.mul_(grad)

# %% wrong: all blocks are kept => cost whole-sequence  from: an accumulator travels with its block
# ~ dq = torch.zeros_like(q) ==> dq, kept = torch.zeros_like(q), []
#           keys, values = held.repeat_interleave(group, 1)
# +         kept.append(held)

# %% wrong: a quotient of exponentials => generality ~  from: an accumulator travels with its block
# ~ (scores - log_sum.unsqueeze(-1)).exp() ==> scores.exp() / log_sum.unsqueeze(-1).exp()
"""
