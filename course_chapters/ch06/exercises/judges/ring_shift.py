from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, first, judged, ranks
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, layouts, secret, tensors, world
from course_grader.judging.tensors import coin_of, nbytes
from course_grader.judging.traffic import Meter, off_the_ring, ready_made, sent_again, too_few_bytes, too_long


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, *shape: int) -> PerRank:
        return world(n, lambda: secret(coin, *(shape or (size,)), dtype=torch.int64 if shape else torch.float32))

    cases = [shown("six ranks", "values:shift", per_rank=data(6))]
    cases += [hidden("five ranks, other data", "values:shift", per_rank=data(5))]
    cases += [hidden(f"{ranks_text(n)}, one number", "generality:ranks", per_rank=data(n, 1)) for n in (1, 2)]
    cases += [hidden(ranks_text(8), "generality:ranks", per_rank=data(8))]
    for n in (1, rng.choice((11, 13))):
        cases.append(hidden(f"{ranks_text(n)}, many integers", "generality:ranks", per_rank=data(n, 2, 3, 11)))
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 3).items()]
    return cases + under(ranks.UNKIND, "three ranks", "protocol:safe", lambda: data(3))


def _bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if len(given) > 1 else 0 for x in given]
    return sent_again(meter, least) or too_few_bytes(meter, least, least)


def _wants(params: Params, given: Sequence[Tensor]) -> list[Tensor]:
    return [given[(rank - params["direction"]) % len(given)] for rank in range(len(given))]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = ranks.over_ranks(case, outcome.value, _wants(params, tensors(case))), outcome.meter
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4, "Which rank waits for a neighbor that itself waits for its neighbor?")
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    costs = ("cost", "bytes", _bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "neighbors", route))


JUDGING = Judging(
    shares="values:shift 0.3, cost:bytes 0.1, cost:time 0.15, protocol:neighbors 0.1, protocol:safe 0.15, "
    "generality:ranks 0.1, generality:tensors 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="All ranks act at once, so the time does not grow with N. If only rank 0 received first, that would also "
    "break the cycle, but the last rank would have to wait for all the others. Counting modulo N closes the ring.",
    pytorch="The hop of ring attention and of every ring collective; in JAX it is `ppermute`.",
)

ANSWERS = r'''# %% right: worked
direction = params("ring-shift").direction  # leave as is: 1: rank r sends to r + 1; -1: to r − 1


def ring_shift(comm, x):
    """The `x` of the previous rank. Budget: one tensor sent, all ranks at once."""
    if comm.size == 1:
        return x
    after, before = (comm.rank + direction) % comm.size, (comm.rank - direction) % comm.size
    got = torch.empty_like(x)
    halves = [P2POp(comm.isend, x, after), P2POp(comm.irecv, got, before)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return got
# %% right: isend, recv, wait
# -     halves = [P2POp(comm.isend, x, after), P2POp(comm.irecv, got, before)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     work = comm.isend(x, after)
# +     comm.recv(got, before)
# +     work.wait()
# %% right: even ranks send first
# -     halves = [P2POp(comm.isend, x, after), P2POp(comm.irecv, got, before)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     if comm.rank % 2 == 0:
# +         comm.send(x, after)
# +     comm.recv(got, before)
# +     if comm.rank % 2:
# +         comm.send(x, after)
# %% wrong: everyone sends first => protocol deadlock  from: isend, recv, wait
# ~ work = comm.isend ==> comm.send
# -     work.wait()
# %% wrong: rank 0 alone listens first => cost in-a-row  from: even ranks send first
# ~ if comm.rank % 2 == 0: ==> if comm.rank:
# ~ if comm.rank % 2: ==> if not comm.rank:
# %% wrong: more than eight ranks act in a row => cost in-a-row  from: even ranks send first
# ~ if comm.rank % 2 == 0: ==> if comm.rank % (2 if comm.size < 9 else comm.size) == 0:
# ~ if comm.rank % 2: ==> if comm.rank % (2 if comm.size < 9 else comm.size):
# %% wrong: the other way round => values wrong-direction
# > this is the next rank's tensor, so the tensors went around the ring the other way; the route is {{route}}.
# ~ after, before = ==> before, after =
# %% wrong: returns its own => values own-tensor
# > this is the rank's own tensor. Receive into a second one and return that.
# ~ return got ==> return x
# %% wrong: two places on => values wrong-rank
# > this is the tensor of the rank before the previous one; pass it on once, not twice.
#       after, before = (comm.rank + direction) % comm.size, (comm.rank - direction) % comm.size
# +     after, before = (comm.rank + 2 * direction) % comm.size, (comm.rank - 2 * direction) % comm.size
# %% wrong: no modulo => values raised
# ~ (comm.rank + direction) % comm.size, (comm.rank - direction) % comm.size
# ~~ ==> comm.rank + direction, comm.rank - direction
# %% wrong: clears what is under way => protocol raised  from: isend, recv, wait
#       comm.recv(got, before)
# +     x.zero_()
# %% wrong: reads before wait => values
# > this is what the tensor held before anything arrived; wait for the receive, then read.
# ~ empty_like ==> zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     answer = got.clone()
# +     for work in works:
# ~ return got ==> return answer
# %% wrong: alone, it sends to itself => generality raised
# -     if comm.size == 1:
# -         return x
# %% wrong: everyone gets everything and picks one => cost told-everyone
# -     halves = [P2POp(comm.isend, x, after), P2POp(comm.irecv, got, before)]
# +     seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
# +     halves = [P2POp(comm.isend, x, rank) for rank in seen]
# +     halves += [P2POp(comm.irecv, into, rank) for rank, into in seen.items()]
# ~ return got ==> return seen[before]
# %% wrong: everything twice => cost sent-again  from: isend, recv, wait
# ~ work = comm.isend(x, after) ==> works = [comm.isend(x, after) for _ in range(2)]
#       comm.recv(got, before)
# +     comm.recv(got, before)
# ~ work.wait() ==> [work.wait() for work in works]
# %% wrong: through the two neighbors => protocol not-a-neighbor
#       got = torch.empty_like(x)
# +     if comm.size > 2:  # asks the rank before to send: no bytes, but a message the wrong way
# +         ask = comm.isend(torch.empty(0), before, tag=7)
# +         comm.recv(torch.empty(0), after, tag=7)
# +         ask.wait()
# %% wrong: a row of floats whatever comes => generality raised
# ~ empty_like(x) ==> empty(x.numel())
# %% wrong: alone, whole numbers become floats => generality another-kind
# ~ return x ==> return x.float()
# %% half: right, but one after another => 4.25  from: rank 0 alone listens first
'''
