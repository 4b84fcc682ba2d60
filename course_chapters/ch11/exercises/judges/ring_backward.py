import torch

from course_chapters.ch11.exercises.judges.reference import (
    PerRank,
    block_bytes,
    cut,
    rank_fault,
    shards,
    weighed,
    whole,
)
from course_chapters.ch11.exercises.probes import MEASURED
from course_grader.judging import Case, Judging, Outcome, Params, Random, Worked, oracle
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.mistakes import Fault
from course_grader.judging.ranks import BUFFERS_LATE, LATE
from course_grader.judging.tensors import coin_of, normal
from course_grader.judging.traffic import too_few_bytes

right = Worked("ring-backward")
FLOOR = 0.05  # the least scale of a gradient that is a difference of larger terms


def _with_output(coin: torch.Generator, rows: PerRank) -> PerRank:
    """The ranks' arguments, with the output, its log-sum and a gradient of it."""
    pairs = zip(rows, whole(rows), strict=True)
    return tuple((*row, out.float(), log_sum.float(), normal(coin, *out.shape)) for row, (out, log_sum) in pairs)


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def data(
        ranks: int, length: int, how: str, name: str = "causal", *heads: int, size: float = 1.0, **options: object
    ) -> PerRank:
        return _with_output(coin, shards(coin, cut(length, ranks, rng, how), (name, options), *heads, size=size))

    def far(name: str, part: str, rows: PerRank) -> Case:
        return hidden(name, part, per_rank=rows)

    return [
        shown(f"{ranks_text(n)}, zig-zag, causal", "values:kv", per_rank=data(n, 4 * n, "zig-zag")),
        far(f"{ranks_text(n)}, everything visible", "values:kv", data(n, 4 * n, "zig-zag", "all")),
        far("three ranks, four query heads, two KV heads", "generality:heads", data(3, 12, "zig-zag", "causal", 4, 2)),
        far("two ranks, three query heads, one KV head", "generality:heads", data(2, 8, "contiguous", "all", 3, 1, 6)),
        far("three ranks, tokens anywhere", "generality:layouts", data(3, 16, "mixed")),
        far("five ranks, three tokens", "generality:layouts", data(5, 3, "zig-zag")),
        far("one rank alone", "generality:layouts", data(1, 6, "contiguous", "causal", 4, 2)),
        far("three ranks, keys before the query alone", "generality:layouts", data(3, 11, "mixed", "strict")),
        far("three ranks, a sliding window", "generality:layouts", data(3, 15, "zig-zag", "window", window=4)),
        far("two ranks, large scores", "generality:layouts", data(2, 8, "zig-zag", size=12.0)),
        far("ten ranks, memory", "cost:memory", data(10, 20, "contiguous", "causal", 2, 2, 64, **{MEASURED: True})),
        *under((LATE, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data(3, 12, "zig-zag")),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        for name in ("dk", "dv", "dq"):
            if fault := rank_fault(case, rank, name, got, want, FLOOR):
                return fault
    return _memory(case, outcome) if case.part == "memory" else None


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    blocks, spent = block_bytes(case), sum(outcome.meter["bytes_sent"])
    most = (2 * len(blocks) - 1) * sum(blocks) if len(blocks) > 1 else 0
    if spent <= most:
        needed = [sum(blocks) - own if case.part == "kv" else 0 for own in blocks]
        return too_few_bytes(outcome.meter, [0] * len(blocks), needed)
    return "too-many-bytes", (
        f"the ranks sent {spent:,} bytes; {most:,} are enough: keys and values N − 1 times, their gradients N times. "
        "Does something travel with a copy for every query head, or padded?"
    )


KEPT = 1.4  # of all blocks of keys and values: nine to eleven of ten are enough, and whoever keeps them all has 18


def _memory(case: Case, outcome: Outcome) -> Fault | None:
    whole = sum(block_bytes(case))
    held = max(got["peak"] or 0 for got in outcome.value)
    if 0 < held <= KEPT * whole:
        return None
    return "whole-sequence", (
        f"at its peak a rank holds {held / whole:.2g} times the keys and values of the whole sequence besides its "
        "own; one block of them and one of gradients under way are enough."
    )


HELD = 16.0  # blocks a rank may come to hold, the given tensors and messages under way included


JUDGING = Judging(
    shares="values:kv 0.35, cost:bytes 0.2, cost:memory 0.1, protocol:safe 0.1, generality:heads 0.1, "
    "generality:layouts 0.15",
    measured_by_worker=("cost:memory",),
    weighed=lambda params, rng: weighed(right, rng, HELD, _with_output),
    cases=_cases,
    verdicts=oracle(_fault, {"cost:bytes": _bytes}, named=True),
    why="""P follows from the saved log-sum, so no forward pass is repeated and no P is stored. dQ stays at home,
because every block of keys comes by. dK and dV are sums over the queries of all ranks: their accumulator travels with
the block, and a last message takes it home.""",
    pytorch="The backward pass of PyTorch's ring attention rotates dK and dV in the same way.",
)

ANSWERS = r'''# %% right: worked
def ring_backward(comm, q, k, v, out, log_sum, grad, positions: list, visible) -> tuple:
    """(dq, dk, dv) of this rank's tensors."""
    n, rank, group, scale = comm.size, comm.rank, len(q) // len(k), q.shape[-1] ** -0.5
    after, before = (rank + 1) % n, (rank - 1) % n
    delta = (grad * out).sum(-1, keepdim=True)
    dq, block, sends = torch.zeros_like(q), torch.stack([k, v]), []
    for step in range(n):
        owner, works = (rank - step) % n, []
        if step < n - 1:
            following = block.new_empty(2, len(k), len(positions[(owner - 1) % n]), k.shape[-1])
            works = [comm.isend(block, after), comm.irecv(following, before)]
        keys, values = block.repeat_interleave(group, 1)
        seen = visible(positions[rank], positions[owner])
        p = torch.where(seen, (q @ keys.mT * scale - log_sum.unsqueeze(-1)).exp(), 0.0)
        ds = p * (grad @ values.mT - delta) * scale
        dq += ds @ keys
        mine = torch.stack([ds.mT @ q, p.mT @ grad]).unflatten(1, (len(k), group)).sum(2)
        if step:  # what the ranks before have added for this block
            earlier = torch.empty_like(mine)
            comm.recv(earlier, before, tag=1)
            mine += earlier
        for work in [*works, *sends]:
            work.wait()
        sends = [comm.isend(mine, after, tag=1)] if n > 1 else []
        block = following if works else block
    if n > 1:
        mine = torch.empty(2, *k.shape)
        comm.recv(mine, before, tag=1)  # home
        sends[0].wait()
    return dq, mine[0], mine[1]
# %% right: minus infinity where a key is not seen
# ~ p = torch.where(seen, (q @ keys.mT * scale - log_sum.unsqueeze(-1)).exp(), 0.0)
# ~~ ==> p = (q @ keys.mT * scale - log_sum.unsqueeze(-1)).masked_fill(~seen, -math.inf).exp()
# %% wrong: left at next => values
# > the gradients belong to the block of rank + 1; send them home.
# ~ mine = torch.empty(2, *k.shape) ==> home = torch.empty(2, *k.shape)
# ~ comm.recv(mine, before, tag=1)  # home ==> comm.recv(home, before, tag=1)
# %% wrong: left at previous => values
# > the gradients belong to the block of rank − 1; send them home.
#           sends[0].wait()
# +         on = comm.isend(mine, after, tag=2)
# +         arrived = torch.empty(2, len(k), len(positions[before]), k.shape[-1])
# +         comm.recv(arrived, before, tag=2)
# +         on.wait()
# +         mine = arrived
# %% wrong: own queries => values
# > this rank's queries alone; those of the other ranks saw these keys too.
#           mine = torch.stack([ds.mT @ q, p.mT @ grad]).unflatten(1, (len(k), group)).sum(2)
# +         own = own if step else mine.clone()
# ~ return dq, mine[0], mine[1] ==> return dq, own[0], own[1]
# %% wrong: own missing => values
# > the contribution of this rank's own queries is missing.
#           mine = torch.stack([ds.mT @ q, p.mT @ grad]).unflatten(1, (len(k), group)).sum(2)
# +         mine = mine * min(step, 1)
# %% wrong: last missing => values
# > the contribution of the last rank on the way is missing.
#           mine = torch.stack([ds.mT @ q, p.mT @ grad]).unflatten(1, (len(k), group)).sum(2)
# +         mine = mine * (step < n - 1)
# %% wrong: no delta => values
# > δ, the sum of grad · out, was not subtracted.
# ~ (grad @ values.mT - delta) ==> (grad @ values.mT)
# %% wrong: not scaled => values
# > the factor 1 / √width is missing.
# ~ (grad @ values.mT - delta) * scale ==> (grad @ values.mT - delta)
# %% wrong: own sums => values
# > P was normalized within each block; use the log-sum over all keys.
# ~ p = torch.where(seen, (q @ keys.mT * scale - log_sum.unsqueeze(-1)).exp(), 0.0)
# ~~ ==> p = (q @ keys.mT * scale).masked_fill(~seen, -math.inf).softmax(-1).nan_to_num(0.0)
# %% wrong: heads in turn => generality
# > query head i used KV head i % KV heads; neighbors share a head.
# ~ block.repeat_interleave(group, 1) ==> block.repeat(1, group, 1, 1)
# ~ .unflatten(1, (len(k), group)).sum(2) ==> .unflatten(1, (group, len(k))).sum(1)
# %% wrong: a query that sees nothing => generality not-finite
# ~ torch.where(seen, (q @ keys.mT * scale - log_sum.unsqueeze(-1)).exp(), 0.0)
# ~~ ==> ((q @ keys.mT * scale).masked_fill(~seen, -math.inf) - log_sum.unsqueeze(-1)).exp()
# %% wrong: a quotient of exponentials => generality ~
# ~ (q @ keys.mT * scale - log_sum.unsqueeze(-1)).exp() ==> (q @ keys.mT * scale).exp() / log_sum.unsqueeze(-1).exp()
# %% wrong: gradients of every query head travel => cost too-many-bytes
# ~ .unflatten(1, (len(k), group)).sum(2) ==> .unflatten(1, (len(k), group))
# ~ mine = torch.empty(2, *k.shape) ==> mine = torch.empty(2, len(k), group, *k.shape[1:])
# ~ return dq, mine[0], mine[1] ==> return dq, *mine.sum(2)
# %% wrong: the accumulator is read too early => protocol in-flight
# ~ empty_like ==> zeros_like
# ~ comm.recv(earlier, before, tag=1) ==> receiving = comm.irecv(earlier, before, tag=1)
# +             while sends:
# +                 sends.pop().wait()
#               mine += earlier
# +             receiving.wait()
# %% wrong: the gradient is scaled in place => values changed
# ~ (grad * out) ==> out.mul_(grad)
# %% wrong: all blocks are kept => cost whole-sequence
# ~ torch.stack([k, v]), [] ==> torch.stack([k, v]), (kept := [])[:]
#           seen = visible(positions[rank], positions[owner])
# +         kept.append(block)
'''
