from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, judged, ranks
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, layouts, secret, tensors, world
from course_grader.judging.tensors import coin_of, nbytes
from course_grader.judging.traffic import Meter, ready_made, sent_again, too_few_bytes


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, numbers: int = size) -> PerRank:
        return world(n, lambda: secret(coin, numbers))

    cases = [shown("four ranks", "values:pair", per_rank=data(4))]
    cases += [hidden("two ranks, other data", "values:pair", per_rank=data(2))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 7)]
    cases += [hidden("three ranks, one number", "generality:ranks", per_rank=data(3, 1))]
    many = world(rng.choice((11, 13)), lambda: secret(coin, 2, 3, 11, dtype=torch.int64))
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:ranks", per_rank=many)]
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 2).items()]
    return cases + under(ranks.UNKIND[:3], "two ranks", "protocol:safe", lambda: data(2))


def _wants(op: str, given: Sequence[Tensor]) -> list[Tensor]:
    pairs = [given[rank - rank % 2 : rank - rank % 2 + 2] for rank in range(len(given))]
    return [x[0] if len(x) == 1 else x[0] + x[1] if op == "sum" else torch.maximum(x[0], x[1]) for x in pairs]


def _cost(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if rank ^ 1 < len(given) else 0 for rank, x in enumerate(given)]
    return sent_again(meter, least) or too_few_bytes(meter, least, least)


def _partners(case: Case, meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    for src, dst, _, messages in meter["pairs"]:
        if messages and dst != src ^ 1:
            return "spoke-to-others", f"Rank {src} sent a message to rank {dst}; its partner is rank {src ^ 1}."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = ranks.over_ranks(case, outcome.value, _wants(params["op"], tensors(case)))
    if case.adversary is not None:
        return judged(case, fault)
    spent, partner = _cost(case, outcome.meter), _partners(case, outcome.meter)
    return judged(case, fault, ("cost", "bytes", spent), ("protocol", "partner", partner))


JUDGING = Judging(
    shares="values:pair 0.35, cost:bytes 0.15, protocol:partner 0.1, protocol:safe 0.15, generality:ranks 0.15, "
    "generality:tensors 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="The partner's number differs in the last bit: `rank ^ 1`. Both halves start as one operation, so neither "
    "rank waits for a receive that is queued behind the other's send. The received data has its own tensor, so "
    "the one being sent stays intact.",
    pytorch="`torch.distributed.batch_isend_irecv`; an all-reduce in a group of two.",
)

ANSWERS = r'''# %% right: worked
op = params("pair-exchange").op  # leave as is: "sum" or "max": the operation of your variant


def pair_reduce(comm, x):
    """Sum (or maximum) of this rank's `x` and its partner's. Budget: one tensor sent."""
    partner = comm.rank ^ 1  # 0 with 1, 2 with 3, ...
    if partner >= comm.size:
        return x
    theirs = torch.empty_like(x)
    halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return x + theirs if op == "sum" else torch.maximum(x, theirs)
# %% right: the even rank sends first
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     halves = [(comm.send, x), (comm.recv, theirs)]
# +     for half, tensor in halves if comm.rank < partner else reversed(halves):
# +         half(tensor, partner)
# %% wrong: both send first => protocol deadlock
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     comm.send(x, partner)
# +     comm.recv(theirs, partner)
# %% wrong: the last of an odd number looks for a partner => generality raised
# -     if partner >= comm.size:
# -         return x
# %% wrong: another name for x is no copy of it => values overwritten
# > this holds the partner's numbers twice, and not the rank's own. Did what arrived overwrite `x`?
#           work.wait()
# +     mine = x
# +     x.copy_(theirs)
# ~ x + theirs if op == "sum" else torch.maximum(x, theirs) ==> mine + theirs
# %% wrong: adds before the send is over => protocol raised  from: both send first
# ~ comm.send ==> work = comm.isend
# -     return x + theirs if op == "sum" else torch.maximum(x, theirs)
# +     x.copy_(x + theirs if op == "sum" else torch.maximum(x, theirs))
# +     work.wait()
# +     return x
# %% wrong: reads before wait => values
# > this was computed before the partner's numbers arrived; wait for the receive, then read.
# ~ empty_like ==> zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     seen = theirs.clone()
# +     for work in works:
# ~ x + theirs if op == "sum" else torch.maximum(x, theirs) ==> x + seen if op == "sum" else torch.maximum(x, seen)
# %% wrong: returns its own => values returned-input
# > these are the rank's own numbers, without its partner's.
# ~ x + theirs if op == "sum" else torch.maximum(x, theirs) ==> x
# %% wrong: doubles what it has => values counted-twice
# > this is twice the rank's own numbers; its partner holds different ones.
# ~ x + theirs if op == "sum" else torch.maximum(x, theirs) ==> 2 * x
# %% wrong: returns what came => values only-theirs
# > these are the partner's numbers, without the rank's own.
# ~ x + theirs if op == "sum" else torch.maximum(x, theirs) ==> theirs
# %% wrong: sends to everyone => cost told-everyone
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# +     seen = {rank: torch.empty_like(x) if rank != partner else theirs for rank in range(comm.size) if rank !=
# ~~ comm.rank}
# +     halves = [P2POp(comm.isend, x, rank) for rank in seen if rank | 1 < comm.size]
# +     halves += [P2POp(comm.irecv, into, rank) for rank, into in seen.items() if rank | 1 < comm.size]
# %% wrong: a box that all ranks should see => values raised
# - def pair_reduce(comm, x):
# + box = {}
# + def pair_reduce(comm, x):
# +     box[comm.rank] = x
# ~ theirs = torch.empty_like(x) ==> theirs = box[partner].clone()
# %% wrong: floats whatever comes => generality raised
# ~ empty_like(x) ==> empty(x.shape)
# %% wrong: eight ranks at most => generality returned-input
# ~ if partner >= comm.size: ==> if partner >= comm.size or comm.rank > 7:
# %% half: right for pairs of floats, not for an odd number of ranks => 3.4  from: the last of an odd number looks for a
# ~~ partner
'''
