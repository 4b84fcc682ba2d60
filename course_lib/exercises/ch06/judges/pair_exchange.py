"""Judge of pair-exchange: two ranks agree."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, judged, ranks
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import PerRank, counted_wrong, layouts, plain_sum, secret, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, ready_made, sent_again, too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _pair_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int) -> PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("four ranks", "values:pair", per_rank=data(4))]
    cases += [hidden("two ranks, other data", "values:pair", per_rank=data(2))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 3, 7)]
    many = world(rng.choice((11, 13)), lambda: secret(coin, 2, 3, 11, dtype=torch.int64))
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:ranks", per_rank=many)]
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 2).items()]
    return cases + under(ranks.UNKIND[:3], "two ranks", "protocol:safe", lambda: data(2))


def _combined(op: str, pair: Sequence[Tensor]) -> Tensor:
    return pair[0].clone() if len(pair) == 1 else plain_sum(pair) if op == "sum" else torch.maximum(*pair)


def _pair_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given, result = tensors(case), params["result"]

    def wrong(rank: int, got: Tensor) -> Fault | None:
        pair = given[rank - rank % 2 : rank - rank % 2 + 2]
        if params["op"] == "max" and same(got, plain_sum(pair)):
            return "public-form", f"This solves the public form: rank {rank} returned the sum, not {result}."
        if same(got, given[rank]):
            return "returned-input", f"Rank {rank} returned its own numbers, without its partner's."
        if len(pair) == 2 and same(got, theirs := pair[1 - rank % 2]):
            return "only-theirs", f"Rank {rank} returned its partner's numbers, without its own."
        if len(pair) == 2 and torch.equal(got, (2 * theirs).to(got.dtype)):
            return "overwritten", f"Rank {rank} returned twice its partner's numbers. Did the receive overwrite `x`?"
        counted = counted_wrong(got, given, f"Rank {rank}'s result")
        return counted or ("other-numbers", f"Rank {rank}'s result is not {result} of the pair's tensors.")

    wants = [_combined(params["op"], given[rank - rank % 2 : rank - rank % 2 + 2]) for rank in range(len(given))]
    return ranks.over_ranks(case, results, wants, wrong)


def _pair_cost(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if rank ^ 1 < len(given) else 0 for rank, x in enumerate(given)]
    return sent_again(meter, least) or too_few_bytes(meter, least, least)


def _pair_partners(case: Case, meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    for src, dst, _, messages in meter["pairs"]:
        if messages and dst != src ^ 1:
            return "spoke-to-others", f"Rank {src} sent a message to rank {dst}; its partner is rank {src ^ 1}."
    return None


def _pair_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _pair_fault(params, case, outcome.value)
    if case.adversary is not None:
        return judged(case, fault)
    spent, partner = _pair_cost(case, outcome.meter), _pair_partners(case, outcome.meter)
    return judged(case, fault, ("cost", "bytes", spent), ("protocol", "partner", partner))


JUDGING = Judging(
    shares="values:pair 0.35, cost:bytes 0.15, protocol:partner 0.1, protocol:safe 0.15, generality:ranks 0.15, "
    "generality:tensors 0.1",
    cases=_pair_cases,
    verdicts=_pair_verdicts,
    why="The partner's number differs in the last bit: `rank ^ 1`. Both halves start as one operation, so neither rank waits for a "
    "receive that is queued behind the other's send. The received data has its own tensor, so the one being sent stays intact.",
    pytorch="`torch.distributed.batch_isend_irecv`; an all-reduce in a group of two.",
)

ANSWERS = r"""import torch
from course_lib.cluster import P2POp


# %% right: both halves in one batch
def pair_reduce(comm, x):
    partner = comm.rank ^ 1
    if partner >= comm.size:
        return x
    theirs = torch.empty_like(x)
    halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return x + theirs


# %% right: the even rank sends first
def pair_reduce(comm, x):
    partner, theirs = comm.rank ^ 1, torch.empty_like(x)
    if partner >= comm.size:
        return x.clone()
    halves = [(comm.send, x), (comm.recv, theirs)]
    for half, tensor in halves if comm.rank < partner else reversed(halves):
        half(tensor, partner)
    return theirs + x


# %% right: any variant  from: both halves in one batch
# - def pair_reduce(comm, x):
# + from course_lib import params
# + COMBINED = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}[params("pair-exchange").op]
# + def pair_reduce(comm, x):
# ~ x + theirs ==> COMBINED(x, theirs)

# %% wrong: both send first => protocol deadlock  from: both halves in one batch
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     comm.send(x, partner)
# +     comm.recv(theirs, partner)

# %% wrong: the last of an odd number looks for a partner => generality raised  from: both halves in one batch
# -     if partner >= comm.size:
# -         return x

# %% wrong: another name for x is no copy of it => values overwritten  from: both halves in one batch
#           work.wait()
# +     mine = x
# +     x.copy_(theirs)
# ~ return x + theirs ==> return x + mine

# %% wrong: adds before the send is over => protocol raised  from: both halves in one batch
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# -     return x + theirs
# +     work = comm.isend(x, partner)
# +     comm.recv(theirs, partner)
# +     x += theirs
# +     work.wait()
# +     return x

# %% wrong: reads before wait => values -  from: both halves in one batch
# ~ empty_like ==> zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     total = x + theirs
# +     for work in works:
# ~ return x + theirs ==> return total

# %% wrong: returns its own => values returned-input  from: doubles what it has
# ~ 2 * x ==> x


# %% wrong: doubles what it has => values counted-twice
def pair_reduce(comm, x):
    return 2 * x


# %% wrong: returns what came => values only-theirs  from: both halves in one batch
# ~ return x + theirs ==> return theirs


# %% wrong: sends to everyone => cost told-everyone
def pair_reduce(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return x + seen[comm.rank ^ 1] if comm.rank ^ 1 in seen else x


# %% wrong: a box that all ranks should see => values raised
box = {}


def pair_reduce(comm, x):
    box[comm.rank] = x
    token, partner = torch.zeros(1), comm.rank ^ 1
    if comm.rank % 2:
        comm.recv(token, partner)
    else:
        comm.send(token, partner)
    return box[partner] + x


# %% wrong: floats whatever comes => generality raised  from: both halves in one batch
# ~ empty_like(x) ==> empty(x.shape)

# %% wrong: eight ranks at most => generality returned-input  from: both halves in one batch
# ~ if partner >= comm.size: ==> if partner >= comm.size or comm.rank > 7:

# %% half: right for pairs of floats, not for an odd number of ranks => 3.4  from: the last of an odd number looks for a partner
"""
