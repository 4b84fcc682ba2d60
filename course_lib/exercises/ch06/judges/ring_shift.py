"""Judge of ring-shift: pass it on around the ring."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, first, judged, ranks
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import PerRank, counted_wrong, layouts, secret, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, sent_again, too_few_bytes, too_long
from course_lib.records import Case, Outcome, Verdict

PUBLIC = "This solves the public form of the exercise. "


def _shift_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, *shape: int) -> PerRank:
        return world(n, lambda: secret(coin, *(shape or (size,)), dtype=torch.int64 if shape else torch.float32))

    cases = [shown("six ranks", "values:shift", per_rank=data(6))]
    cases += [hidden("five ranks, other data", "values:shift", per_rank=data(5))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 2, 8)]
    for n in (1, rng.choice((11, 13))):
        cases.append(hidden(f"{ranks_text(n)}, many integers", "generality:ranks", per_rank=data(n, 2, 3, 11)))
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 3).items()]
    return cases + under(ranks.UNKIND, "three ranks", "protocol:safe", lambda: data(3))


def _shift_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given, step = tensors(case), params["direction"]
    n = len(given)

    def wrong(rank: int, got: Tensor) -> Fault | None:
        if same(got, given[rank]):
            return "own-tensor", f"Rank {rank} returned its own tensor. Receive into a second one and return that."
        if n > 2 and same(got, given[(rank + step) % n]):
            name, lead = ("public-form", PUBLIC) if step < 0 else ("wrong-direction", "")
            return name, f"{lead}Rank {rank} returned the next rank's tensor; the route is {params['route']}."
        for other, theirs in enumerate(given):
            if same(got, theirs):
                before = (rank - step) % n
                return "wrong-rank", f"Rank {rank} returned rank {other}'s tensor; its previous rank is {before}."
        counted = counted_wrong(got, given, f"Rank {rank}'s result")
        return counted or ("other-numbers", f"Rank {rank}'s result is not the tensor of any rank.")

    return ranks.over_ranks(case, results, [given[(rank - step) % n] for rank in range(n)], wrong)


def _shift_bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if len(given) > 1 else 0 for x in given]
    return sent_again(meter, least) or too_few_bytes(meter, least, least)


def _shift_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _shift_fault(params, case, outcome.value), outcome.meter
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4, "Which rank waits for a neighbor that itself waits for its neighbor?")
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    costs = ("cost", "bytes", _shift_bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "neighbors", route))


JUDGING = Judging(
    shares="values:shift 0.3, cost:bytes 0.1, cost:time 0.15, protocol:neighbors 0.1, protocol:safe 0.15, "
    "generality:ranks 0.1, generality:tensors 0.1",
    cases=_shift_cases,
    verdicts=_shift_verdicts,
    why="All ranks act at once, so the time does not grow with N. If only rank 0 received first, that would also break the cycle, "
    "but the last rank would have to wait for all the others. Counting modulo N closes the ring.",
    pytorch="The hop of ring attention and of every ring collective; in JAX it is `ppermute`.",
)

ANSWERS = r"""import torch
from course_lib.cluster import P2POp


# %% right: isend, recv, wait
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = torch.empty_like(x)
    work = comm.isend(x, after)
    comm.recv(got, before)
    work.wait()
    return got


# %% right: even ranks send first
def ring_shift(comm, x):
    if comm.size == 1:
        return x.clone()
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = torch.zeros(x.shape, dtype=x.dtype)
    if comm.rank % 2 == 0:
        comm.send(x, after)
        comm.recv(got, before)
    else:
        comm.recv(got, before)
        comm.send(x, after)
    return got


# %% right: any variant  from: isend, recv, wait
# - def ring_shift(comm, x):
# + from course_lib import params
# + VARIANT = params("ring-shift")
# + def ring_shift(comm, x):
# ~ after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size ==> after, before = (comm.rank + VARIANT.direction) % comm.size, (comm.rank - VARIANT.direction) % comm.size

# %% wrong: everyone sends first => protocol deadlock  from: isend, recv, wait
# -     if comm.size == 1:
# -         return x
# ~ work = comm.isend ==> comm.send
# -     work.wait()

# %% wrong: rank 0 alone listens first => cost in-a-row  from: even ranks send first
# ~ comm.rank % 2 == 0 ==> comm.rank

# %% wrong: the other way round => values wrong-direction unless direction=-1  from: isend, recv, wait
# ~ after, before = ==> before, after =

# %% wrong: no modulo => values raised  from: isend, recv, wait
# -     if comm.size == 1:
# -         return x
# ~ (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size ==> comm.rank + 1, comm.rank - 1

# %% wrong: clears what is under way => protocol -  from: isend, recv, wait
#       comm.recv(got, before)
# +     x.zero_()

# %% wrong: reads before wait => values -  from: one batch
# ~ empty_like ==> zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     answer = got.clone()
# +     for work in works:
# ~ return got ==> return answer

# %% wrong: alone, it sends to itself => generality raised  from: isend, recv, wait
# -     if comm.size == 1:
# -         return x


# %% wrong: everyone gets everything and picks one => cost told-everyone
def ring_shift(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return seen[(comm.rank - 1) % comm.size] if seen else x


# %% wrong: all the way round, and one back => cost sent-again
def ring_shift(comm, x):
    for _ in range(comm.size + 1 if comm.size > 1 else 0):
        got = torch.empty_like(x)
        work = comm.isend(x, (comm.rank + 1) % comm.size)
        comm.recv(got, (comm.rank - 1) % comm.size)
        work.wait()
        x = got
    return x


# %% wrong: through the two neighbors => protocol not-a-neighbor  from: isend, recv, wait
#       got = torch.empty_like(x)
# +     if comm.size > 2:  # asks the rank before to send: no bytes, but a message the wrong way
# +         ask = comm.isend(torch.empty(0), before, tag=7)
# +         comm.recv(torch.empty(0), after, tag=7)
# +         ask.wait()

# %% wrong: a row of floats whatever comes => generality raised  from: isend, recv, wait
# ~ empty_like(x) ==> empty(x.numel())


# %% right: one batch
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    got = torch.empty_like(x)
    halves = [P2POp(comm.irecv, got, (comm.rank - 1) % comm.size), P2POp(comm.isend, x, (comm.rank + 1) % comm.size)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return got


# %% wrong: alone, whole numbers become floats => generality another-kind  from: even ranks send first
# ~ return x.clone() ==> return x.float()

# %% wrong: more than eight ranks act in a row => cost in-a-row  from: even ranks send first
# ~ comm.rank % 2 == 0 ==> comm.rank % (2 if comm.size < 9 else comm.size)

# %% half: right, but one after another => 4.25  from: rank 0 alone listens first
"""
