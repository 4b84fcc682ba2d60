"""Judge of reduce-scatter-half: half of a ring."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.layouts import SECOND
from course_lib.judging import Fault, Judging, Params, first, judged, ranks
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import counted_wrong, moved_early, plain_sum, secret, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes, too_long, too_many_bytes
from course_lib.records import Case, Outcome, Verdict


def _scatter_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, length: int) -> ranks.PerRank:
        return world(n, lambda: secret(coin, length))

    cases = [shown("four ranks", "values:chunk", per_rank=data(4, size))]
    cases += [hidden("three ranks, other data", "values:chunk", per_rank=data(3, size // 3 * 3))]
    for n, length in ((1, size), (2, size), (7, 21), (5, 5 * 7)):
        name = ranks_text(n) if n == 1 else f"{n} ranks, {length} numbers"
        cases.append(hidden(name, "generality:ranks", per_rank=data(n, length)))
    for n, length in ((4, 10), (5, 3), (3, 0)):
        cases.append(hidden(f"{n} ranks, {length} numbers", "generality:sizes", per_rank=data(n, length)))
    for n, dtype in ((1, torch.int64), (rng.choice((9, 11)), torch.bfloat16)):
        given = world(n, lambda dtype=dtype: secret(coin, 103, dtype=dtype))  # type: ignore[misc]
        cases.append(hidden(f"{ranks_text(n)}, 103 numbers, {dtype}", "generality:sizes", per_rank=given))
    whole = world(3, lambda: secret(coin, 8, dtype=torch.int64), SECOND)
    cases += [hidden("three ranks, 64-bit integers with a stride of two", "generality:sizes", per_rank=whole)]
    return cases + under(ranks.UNKIND, "four ranks", "protocol:safe", lambda: data(4, 12))


def _owned(rank: int, params: Params, n: int) -> int:
    return (rank + params["owner"]) % n


def _scatter_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given = tensors(case)
    n = len(given)
    chunks = plain_sum(given).tensor_split(n)
    for rank, got in enumerate(results):
        mine = _owned(rank, params, n)
        want = chunks[mine]
        if same(got, want):
            continue
        if got.dtype == want.dtype and got.shape == given[rank].shape and n > 1:
            return "whole-tensor", f"Rank {rank} returned a tensor of full length; return only chunk {mine}."
        whose = [other for other, chunk in enumerate(chunks) if same(got, chunk) and chunk.numel()]
        if whose and case.adversary is None:
            public = params["owner"] and n > 2 and whose[0] == rank
            name, lead = ("public-form", "This solves the public form. ") if public else ("wrong-owner", "")
            return name, f"{lead}Rank {rank} returned chunk {whose[0]} of the sum; it should return chunk {mine}."
        if fault := not_like(got, want, rank):
            return fault
        if case.adversary is not None:
            return moved_early(case, rank)
        for other in range(n):
            parts = [x.tensor_split(n)[other] for x in given]
            where = f"Rank {rank} returned chunk {other}, which"
            if parts[0].shape == got.shape and (counted := counted_wrong(got, parts, where)):
                return counted
        if got.dtype.is_floating_point and torch.equal(got.double() * n, want.double()):
            return "mean", f"Rank {rank} returned the sum divided by {n}; return the sum, not the mean."
        return "other-numbers", f"Rank {rank} of {n} returned no chunk of the sum. Does each chunk add to its index?"
    return None


def _scatter_bytes(params: Params, case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    n, size, item = len(given), nbytes(given[0]), given[0].element_size()
    chunks = [c.numel() * item for c in given[0].tensor_split(n)]
    own = [chunks[_owned(rank, params, n)] for rank in range(n)]
    over = too_many_bytes(meter, size, size - min(chunks), "half a ring needs") if size else None
    needs = [size - mine if n > 1 else 0 for mine in own]
    return over or too_few_bytes(meter, needs, [mine if n > 1 else 0 for mine in own])


def _scatter_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter, n = _scatter_fault(params, case, outcome.value), outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 3 * (n - 1), f"{n} ranks need {n - 1} if all send at the same time.")
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → 2 → … → 0"))
    spent = first(_scatter_bytes(params, case, meter), late)
    return judged(case, fault, ("cost", "bytes", spent), ("protocol", "neighbors", route))


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:chunk 0.35, cost:bytes 0.2, protocol:neighbors 0.1, protocol:safe 0.1, generality:ranks 0.15, "
    "generality:sizes 0.1",
    cases=_scatter_cases,
    verdicts=_scatter_verdicts,
    why="Follow one chunk. It starts at the rank after its owner and visits every rank; each adds its numbers and passes it on, and "
    "the owner adds last. On every rank the index of the chunk decreases by one per step; its start determines the final owner.",
    pytorch="`torch.distributed.reduce_scatter_tensor`: rank r gets the r-th part. FSDP reduces its gradients this way.",
)

ANSWERS = r"""import torch
from course_lib.cluster import P2POp


# %% right: the half-written function, finished
def ring_reduce_scatter(comm, x):
    n, me = comm.size, comm.rank
    chunks = list(torch.tensor_split(x.clone(), n))
    after, before = (me + 1) % n, (me - 1) % n
    for step in range(n - 1):
        outgoing = chunks[(me - step - 1) % n]
        arrived = torch.empty_like(chunks[(me - step - 2) % n])
        work = comm.isend(outgoing, after)
        comm.recv(arrived, before)
        work.wait()
        chunks[(me - step - 2) % n] += arrived
    return chunks[me]


# %% right: even ranks send first  from: the half-written function, finished
# -         work = comm.isend(outgoing, after)
# +         if me % 2 == 0:
# +             comm.send(outgoing, after)
#           comm.recv(arrived, before)
# -         work.wait()
# +         if me % 2:
# +             comm.send(outgoing, after)

# %% right: any variant  from: the half-written function, finished
# - def ring_reduce_scatter(comm, x):
# + from course_lib import params
# + VARIANT = params("reduce-scatter-half")
# + def ring_reduce_scatter(comm, x):
#       after, before = (me + 1) % n, (me - 1) % n
# +     me = (me + VARIANT.owner) % n

# %% wrong: begins with its own chunk, so the next rank owns it => values wrong-owner unless owner=1  from: the half-written function, finished
# ~ outgoing = chunks[(me - step - 1) % n] ==> outgoing = chunks[(me - step) % n]
# ~ empty_like(chunks[(me - step - 2) % n]) ==> empty_like(chunks[(me - step - 1) % n])
# ~ chunks[(me - step - 2) % n] += ==> chunks[(me - step - 1) % n] +=
# ~ return chunks[me] ==> return chunks[(me + 1) % n]


# %% wrong: whole tensors at every hop => cost whole-tensors
def ring_reduce_scatter(comm, x):
    n, me = comm.size, comm.rank
    total, passing = x.clone(), x.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(x)
        work = comm.isend(passing, (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        total += arrived
        passing = arrived
    return total.tensor_split(n)[me].clone()


# %% wrong: one step too few => values missing-rank  from: the half-written function, finished
# ~ range(n - 1) ==> range(1, n - 1)

# %% wrong: replaces instead of adding => values missing-rank  from: the half-written function, finished
# ~ += arrived ==> = arrived

# %% wrong: divides, as for a mean => values mean  from: the half-written function, finished
# ~ return chunks[me] ==> return chunks[me] / n

# %% wrong: chunks of equal length, and the rest is lost => generality another-kind  from: the half-written function, finished
# -     chunks = list(torch.tensor_split(x.clone(), n))
# +     size = len(x) // n
# +     chunks = list(x[: size * n].clone().reshape(n, size))

# %% wrong: everyone sends first => protocol deadlock  from: the half-written function, finished
# ~ work = comm.isend ==> comm.send
# -         work.wait()

# %% wrong: straight to the owner => protocol not-a-neighbor  from: the half-written function, finished
# ~ range(n - 1) ==> range(1, n)
# ~ outgoing = chunks[(me - step - 1) % n] ==> outgoing = chunks[(me + step) % n]
# ~ empty_like(chunks[(me - step - 2) % n]) ==> empty_like(chunks[me])
# ~ isend(outgoing, after) ==> isend(outgoing, (me + step) % n)
# ~ recv(arrived, before) ==> recv(arrived, (me - step) % n)
# ~ chunks[(me - step - 2) % n] += ==> chunks[me] +=

# %% wrong: adds to the chunk that is still under way => protocol -  from: the half-written function, finished
#           comm.recv(arrived, before)
# +         outgoing += arrived.sum()

# %% wrong: the whole tensor comes back => values whole-tensor  from: the half-written function, finished
# -     chunks = list(torch.tensor_split(x.clone(), n))
# +     flat = x.clone()
# +     chunks = list(torch.tensor_split(flat, n))
# ~ return chunks[me] ==> return flat


# %% wrong: N times its own chunk => values counted-twice
def ring_reduce_scatter(comm, x):
    return comm.size * x.tensor_split(comm.size)[comm.rank]


# %% wrong: eight ranks at most => generality -  from: the half-written function, finished
# ~ range(n - 1) ==> range(min(n - 1, 7))

# %% half: right where N divides the length => 7.2  from: chunks of equal length, and the rest is lost
"""
