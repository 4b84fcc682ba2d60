import torch
from torch import Tensor

from course_grader.exercises.layouts import SECOND
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, first, judged, ranks
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import secret, tensors, world
from course_grader.judging.tensors import coin_of, nbytes
from course_grader.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes, too_long, too_many_bytes
from course_lib.messages import count_text


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, length: int) -> ranks.PerRank:
        return world(n, lambda: secret(coin, length))

    cases = [shown("four ranks", "values:chunk", per_rank=data(4, size))]
    cases += [hidden("three ranks, other data", "values:chunk", per_rank=data(3, size // 3 * 3))]
    for n, length in ((1, size), (2, size), (7, 21), (5, 5 * 7)):
        name = ranks_text(n) if n == 1 else f"{n} ranks, {count_text(length, 'number')}"
        cases.append(hidden(name, "generality:ranks", per_rank=data(n, length)))
    for n, length in ((4, 10), (5, 3), (3, 0), (4, 0), (1, 0), (4, 1), (3, 1), (1, 1)):
        cases.append(
            hidden(f"{ranks_text(n)}, {count_text(length, 'number')}", "generality:sizes", per_rank=data(n, length))
        )
    for n, dtype in ((1, torch.int64), (rng.choice((9, 11)), torch.bfloat16)):
        given = world(n, lambda dtype=dtype: secret(coin, 103, dtype=dtype))  # type: ignore[misc]
        cases.append(hidden(f"{ranks_text(n)}, 103 numbers, {dtype}", "generality:sizes", per_rank=given))
    whole = world(3, lambda: secret(coin, 8, dtype=torch.int64), SECOND)
    cases += [hidden("three ranks, 64-bit integers with a stride of two", "generality:sizes", per_rank=whole)]
    return cases + under(ranks.UNKIND, "four ranks", "protocol:safe", lambda: data(4, 12))


def _wants(params: Params, case: Case) -> list[Tensor]:
    n = len(given := tensors(case))
    chunks = ranks.plain_sum(given).tensor_split(n)
    return [chunks[(rank + params["owner"]) % n] for rank in range(n)]


def _bytes_fault(params: Params, case: Case, meter: Meter) -> Fault | None:
    own, size = [nbytes(chunk) for chunk in _wants(params, case)], nbytes(tensors(case)[0])
    over = too_many_bytes(meter, size, size - min(own), "half a ring needs") if size else None
    if over or len(own) == 1:
        return over
    return too_few_bytes(meter, [size - mine for mine in own], own)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = ranks.over_ranks(case, outcome.value, _wants(params, case))
    meter, n = outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 3 * (n - 1), f"{n} ranks need {n - 1} if all send at the same time.")
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → 2 → … → 0"))
    spent = first(_bytes_fault(params, case, meter), late)
    return judged(case, fault, ("cost", "bytes", spent), ("protocol", "neighbors", route))


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:chunk 0.35, cost:bytes 0.2, protocol:neighbors 0.1, protocol:safe 0.1, generality:ranks 0.15, "
    "generality:sizes 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="Follow one chunk. It starts at the rank after its owner and visits every rank; each adds its numbers and "
    "passes it on, and the owner adds last. On every rank the index of the chunk decreases by one per step; its "
    "start determines the final owner.",
    pytorch="`torch.distributed.reduce_scatter_tensor`: rank r gets the r-th part. FSDP reduces its "
    "gradients this way.",
)

ANSWERS = r'''# %% right: worked
owner = params("reduce-scatter-half").owner  # leave as is: rank r must return chunk r + owner


def ring_reduce_scatter(comm, x):
    """The chunk of the sum that this rank owns. Budget: N − 1 steps of one chunk."""
    n, me = comm.size, comm.rank
    chunks = list(torch.tensor_split(x.clone(), n))  # views of a copy
    after, before = (me + 1) % n, (me - 1) % n
    ### BEGIN SOLUTION
    own = (me + owner) % n
    for step in range(n - 1):
        growing = chunks[(own - step - 2) % n]
        arrived = torch.empty_like(growing)
        work = comm.isend(chunks[(own - step - 1) % n], after)
        comm.recv(arrived, before)
        work.wait()
        growing += arrived
    return chunks[own]
    ### END SOLUTION
# %% right: even ranks send first
# -         work = comm.isend(chunks[(own - step - 1) % n], after)
# +         if me % 2 == 0:
# +             comm.send(chunks[(own - step - 1) % n], after)
# -         work.wait()
# +         if me % 2:
# +             comm.send(chunks[(own - step - 1) % n], after)
# %% wrong: begins with its own chunk, so the next rank owns it => values wrong-owner
# > this is a finished chunk of the sum, but the next one's. Which chunk must leave first, so that yours is finished
# > last?
# ~ own = (me + owner) % n ==> own = (me + owner + 1) % n
# %% wrong: the previous owner => values wrong-owner
# > this is a finished chunk of the sum, but not the one that this rank owns.
# ~ own = (me + owner) % n ==> own = (me + owner - 1) % n
# %% wrong: whole tensors at every hop => cost whole-tensors
# -     for step in range(n - 1):
# -         growing = chunks[(own - step - 2) % n]
# -         arrived = torch.empty_like(growing)
# -         work = comm.isend(chunks[(own - step - 1) % n], after)
# +     total, passing = x.clone(), x.clone()
# +     for _ in range(n - 1):
# +         arrived = torch.empty_like(x)
# +         work = comm.isend(passing, after)
# ~ growing += arrived ==> total, passing = total + arrived, arrived
# ~ return chunks[own] ==> return total.tensor_split(n)[own].clone()
# %% wrong: one step too few => values missing-rank
# > a rank's numbers are missing: N − 1 steps are needed until every rank has added its own.
# ~ range(n - 1) ==> range(1, n - 1)
# %% wrong: replaces instead of adding => values replaced
# > what arrives must be added to the chunk of the same index. Here it takes that chunk's place.
# ~ growing += arrived ==> growing.copy_(arrived)
# %% wrong: adds to another chunk => values another-index
# > these are the rank's own numbers: nothing that arrived was added to this chunk. The chunk to return is the one that
# > arrives in the last step.
# ~ growing += arrived ==> chunks[(own - step - 1) % n] += arrived
# %% wrong: divides, as for a mean => values mean
# > this is the sum divided by the number of ranks; return the sum, not the mean.
# ~ return chunks[own] ==> return chunks[own] / n
# %% wrong: chunks of equal length, and the rest is lost => generality equal-chunks
# > all chunks have the same length, so the rest of a tensor that N does not divide is lost.
# -     chunks = list(torch.tensor_split(x.clone(), n))  # views of a copy
# +     size = len(x) // n
# +     chunks = list(x[: size * n].clone().reshape(n, size))
# %% wrong: everyone sends first => protocol deadlock
# ~ work = comm.isend ==> comm.send
# -         work.wait()
# %% wrong: straight to the owner => protocol not-a-neighbor
# ~ range(n - 1) ==> range(1, n)
# ~ growing = chunks[(own - step - 2) % n] ==> growing = chunks[own]
# ~ comm.isend(chunks[(own - step - 1) % n], after) ==> comm.isend(chunks[(own + step) % n], (me + step) % n)
# ~ recv(arrived, before) ==> recv(arrived, (me - step) % n)
# %% wrong: adds to the chunk that is still under way => protocol raised
#           comm.recv(arrived, before)
# +         chunks[(own - step - 1) % n] += arrived.sum()
# %% wrong: the whole tensor comes back => values whole-tensor
# > this is a tensor of full length; return only the chunk that this rank owns.
# -     chunks = list(torch.tensor_split(x.clone(), n))  # views of a copy
# +     flat = x.clone()
# +     chunks = list(torch.tensor_split(flat, n))  # views of a copy
# ~ return chunks[own] ==> return flat
# %% wrong: N times its own chunk => values own-times-n
# > this is N times the rank's own numbers; the other ranks hold different ones.
# ~ range(n - 1) ==> range(0)
# ~ return chunks[own] ==> return chunks[own] * n
# %% wrong: eight ranks at most => generality other-numbers
# ~ range(n - 1) ==> range(min(n - 1, 7))
# %% half: right where N divides the length => 7.2  from: chunks of equal length, and the rest is lost
'''
