"""Judge of token-round-the-ring: a token around the ring."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch00.exercises.judges.shared import ADVERSARIES
from course_grader.judging import Fault, Judging, Params, oracle
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, over_ranks
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import partners
from course_grader.records import Case, Outcome


def _stamps(
    ranks: int, coin: torch.Generator, dtype: torch.dtype = torch.int64, top: int = 10**6, sign: int = 1
) -> PerRank:
    """Each rank's own stamp in its own slot; no rank's memory holds the stamps of others."""
    return tuple((row.clone(),) for row in torch.randint(1, top, (ranks,), generator=coin).to(dtype).mul(sign).diag())


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]
    return [
        shown(f"{n} ranks", "values:token", per_rank=_stamps(n, coin)),
        hidden(f"{n} ranks, other stamps", "values:token", per_rank=_stamps(n, coin)),
        hidden("two ranks in 32 bits", "generality:sizes", per_rank=_stamps(2, coin, torch.int32)),
        hidden("eight ranks in 32 bits", "generality:sizes", per_rank=_stamps(8, coin, torch.int32, sign=-1)),
        *(
            hidden(ranks_text(size), "generality:sizes", per_rank=_stamps(size, coin, top=2**40))
            for size in (1, 3, rng.randrange(14, 20))
        ),
        *under(ADVERSARIES, f"{n} ranks", "protocol:safe", lambda: _stamps(n, coin)),
    ]


def _visited(rank: int, ranks: int, step: int) -> list[int]:
    """The ranks whose stamps are on a token when `rank` has sent it on (rank 0: when it has come back)."""
    hops = ranks - 1 if rank == 0 else (rank * step) % ranks
    return [(hop * step) % ranks for hop in range(hops + 1)]


def token_at(given: Sequence[Tensor], rank: int, step: int) -> Tensor:
    """The token that `rank` returns."""
    return torch.stack([given[each] for each in _visited(rank, len(given), step)]).sum(0).to(given[0].dtype)


def _token_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """The first rank, in the order of the route, whose token is wrong, and how."""
    given, step = [own for (own,) in case.per_rank or ()], params["direction"]
    n = len(given)
    if n > 2 and all(same(got, token_at(given, rank, -step)) for rank, got in enumerate(outcome.value)):
        told = f"The token traveled in the other direction; its route is {params['route']}."
        public = f"This solves the public form of the exercise. {told}"
        return ("wrong-direction", told) if step == 1 else ("public-form", public)
    route = [*_visited(0, n, step)[1:], 0]
    results, wants = [outcome.value[rank] for rank in route], [token_at(given, rank, step) for rank in route]

    def cause(place: int, got: Tensor) -> Fault:
        return _stamp_fault(given, route[place], got, _visited(route[place], n, step))

    return over_ranks(case, results, wants, cause)


def _stamp_fault(given: Sequence[Tensor], rank: int, got: Tensor, visited: list[int]) -> Fault:
    """What is wrong with one rank's token: the stamps that are missing, doubled or in the wrong slot."""
    stamp, held = [int(own[slot]) for slot, own in enumerate(given)], [int(number) for number in got]
    bears, slots = f"Rank {rank}'s token has", range(len(given))
    if rank == 0 and len(given) > 1 and same(got, given[0]):
        return (
            "never-home",
            "Rank 0 returned the token as it sent it. Which rank sends it to rank 0 at the end, and when?",
        )
    if twice := [slot for slot in visited if held[slot] == 2 * stamp[slot]]:
        return "stamped-twice", f"{bears} rank {twice[0]}'s stamp twice. Each rank adds its stamp once."
    if early := [slot for slot in slots if slot not in visited and held[slot] == stamp[slot]]:
        return "knows-too-much", f"{bears} the stamp of rank {early[0]}, which it has not reached yet."
    if held[rank] != stamp[rank]:
        elsewhere = [f"; it is in slot {slot}" for slot in slots if slot != rank and held[slot] == stamp[rank]]
        return (
            "not-stamped",
            f"Rank {rank}'s own stamp is missing from slot {rank} of its token{(elsewhere or [''])[0]}.",
        )
    if missing := [slot for slot in visited if held[slot] != stamp[slot]]:
        told = f"Rank {rank}'s token lacks rank {missing[0]}'s stamp, although it came from there"
        return "lost-stamp", f"{told}. Add your stamp to the token that you received, and send that one."
    return "", f"{bears} numbers that are not any rank's stamp."


def _bytes_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    given, meter = [own for (own,) in case.per_rank or ()], outcome.meter
    n, most = len(given), nbytes(given[0]) * (len(given) > 1)
    for rank in range(n):
        sent, received, messages = (meter[name][rank] for name in ("bytes_sent", "bytes_received", "messages_sent"))
        if sent > most or messages > bool(most):
            if len(partners(meter, rank)) > 1:
                return "told-everyone", f"Rank {rank} sent to several ranks; it sends the token on once."
            told = f"Rank {rank} sent {messages} messages of {sent:,} bytes together"
            return "sent-again", f"{told}; it sends the token of {most:,} bytes on once."
        stamps = len(_visited(rank, n, params["direction"])) - 1
        if received < stamps * given[0].element_size():
            told = f"Rank {rank} returned {stamps} stamps of other ranks"
            return "too-few-bytes", f"{told} and received {received:,} bytes: too few to know them."
    return None


def _route_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for src, dst, _, messages in outcome.meter["pairs"]:
        after = (src + params["direction"]) % (case.ranks or 1)
        if messages and dst != after:
            told = f"Rank {src} sent to rank {dst}; on the route {params['route']} it sends to rank {after} only."
            return "not-a-neighbor", told
    return None


JUDGING = Judging(
    shares="values:token 0.4, cost:bytes 0.2, protocol:route 0.1, protocol:safe 0.1, generality:sizes 0.2",
    cases=_cases,
    verdicts=oracle(_token_fault, {"cost:bytes": _bytes_fault, "protocol:route": _route_fault}, always=True),
    why="""If every rank received first, no rank would ever send, so rank 0 sends first. After that the data keeps the order, since a rank
cannot send on what it has not received. Modulo N closes the ring for any N and either direction.""",
    pytorch="In NCCL's ring all-reduce every rank starts at once, each with a different part; chapter 06 builds it.",
)

ANSWERS = r"""import torch


# %% right: rank 0 sends first, all others receive first
def pass_token(comm, token):
    if comm.size == 1:
        return token
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    seen = torch.empty_like(token)
    if comm.rank == 0:
        comm.send(token, after)
        comm.recv(seen, before)
        return seen
    comm.recv(seen, before)
    seen += token
    comm.send(seen, after)
    return seen


# %% right: only the stamps so far travel
def pass_token(comm, token):
    n, me = comm.size, comm.rank
    if n == 1:
        return token
    if me == 0:
        comm.send(token[:1].clone(), 1)
        home = torch.empty_like(token)
        comm.recv(home, n - 1)
        return home
    book = token.clone()
    comm.recv(book[:me], me - 1)
    comm.send(book[: me + 1], (me + 1) % n)
    return book


# %% right: every receive posted at once, then one by one
def pass_token(comm, token):
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if after == comm.rank:
        return token.clone()
    seen = torch.zeros_like(token)
    coming = comm.irecv(seen, before)
    if comm.rank == 0:
        comm.isend(token, after).wait()
        coming.wait()
        return seen
    coming.wait()
    mine = torch.where(token != 0, token, seen)
    comm.isend(mine, after).wait()
    return mine


# %% right: any variant
from course_lib import params

VARIANT = params("token-round-the-ring")


def pass_token(comm, token):
    if comm.size == 1:
        return token
    after, before = (comm.rank + VARIANT.direction) % comm.size, (comm.rank - VARIANT.direction) % comm.size
    seen = torch.empty_like(token)
    if comm.rank:
        comm.recv(seen, before)
        seen += token
        comm.send(seen, after)
    else:
        comm.send(token, after)
        comm.recv(seen, before)
    return seen


# %% wrong: everyone receives first => protocol deadlock
def pass_token(comm, token):
    seen = torch.empty_like(token)
    comm.recv(seen, (comm.rank - 1) % comm.size)
    seen += token
    comm.send(seen, (comm.rank + 1) % comm.size)
    return seen


# %% wrong: the other way round => values wrong-direction unless direction=-1  from: rank 0 sends first, all others receive first
# -     after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# +     after, before = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size

# %% wrong: passes the token on without a stamp => values not-stamped  from: rank 0 sends first, all others receive first
# -     seen += token

# %% wrong: stamps the next rank's slot => values not-stamped  from: rank 0 sends first, all others receive first
# ~ seen += token ==> seen += token.roll(1)

# %% wrong: rank 0 stamps it once more at home => values stamped-twice  from: rank 0 sends first, all others receive first
# -         return seen
# -     comm.recv(seen, before)
# +     else:
# +         comm.recv(seen, before)
# -     comm.send(seen, after)
# +     if comm.rank:
# +         comm.send(seen, after)


# %% wrong: the token never comes home => values never-home
def pass_token(comm, token):
    seen = token.clone()
    if comm.rank > 0:
        comm.recv(seen, comm.rank - 1)
        seen += token
    if comm.rank < comm.size - 1:
        comm.send(seen, comm.rank + 1)
    return seen


# %% wrong: sends its own token on instead of the one that came => values lost-stamp  from: rank 0 sends first, all others receive first
# -     seen += token
# -     comm.send(seen, after)
# -     return seen
# +     comm.send(token, after)
# +     return token


# %% wrong: everyone gets every stamp => values knows-too-much
def pass_token(comm, token):
    works = [comm.isend(token, r) for r in range(comm.size) if r != comm.rank]
    total = token.clone()
    for r in range(comm.size):
        if r != comm.rank:
            other = torch.empty_like(token)
            comm.recv(other, r)
            total += other
    for work in works:
        work.wait()
    return total


# %% wrong: counts the stamps before it passes the token on, in a message of its own => cost sent-again  from: passes the token on without a stamp
# -     seen = torch.empty_like(token)
# +     seen, count = torch.empty_like(token), torch.zeros(1)
#       if comm.rank == 0:
# +         comm.send(count, after)
# -         comm.recv(seen, before)
# +     comm.recv(count, before)
# +     comm.recv(seen, before)
# +     if comm.rank == 0:
# -     comm.recv(seen, before)
# +     seen += token
# +     comm.send(count + 1, after)

# %% wrong: stamps after it has begun to send => protocol raised  from: rank 0 sends first, all others receive first
# -     comm.send(seen, after)
# +     sent = seen.clone()
# +     work = comm.isend(sent, after)
# +     sent.zero_()
# +     work.wait()

# %% wrong: one rank alone sends to itself => generality raised  from: rank 0 sends first, all others receive first
# -     if comm.size == 1:
# -         return token

# %% wrong: a ring of five and no other => generality raised  from: one rank alone sends to itself
# -     after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# +     after, before = {0: (1, 4), 1: (2, 0), 2: (3, 1), 3: (4, 2), 4: (0, 3)}[comm.rank]


# %% wrong: stamps in 32 bits, half of what came => cost too-few-bytes
def pass_token(comm, token):
    n, rank, mine = comm.size, comm.rank, token.int()
    if n == 1:
        return token
    seen = torch.empty_like(mine)
    if rank == 0:
        comm.send(mine, 1)
        comm.recv(seen, n - 1)
        return seen.to(token.dtype)
    comm.recv(seen, rank - 1)
    seen += mine
    comm.send(seen, (rank + 1) % n)
    return seen.to(token.dtype)


# %% wrong: every rank reports to rank 0 besides => cost told-everyone
def pass_token(comm, token):
    n, rank = comm.size, comm.rank
    if n == 1:
        return token
    if rank == 0:
        comm.send(token, 1)
        for source in range(1, n):
            comm.recv(token, source)
        return token
    seen = torch.empty_like(token)
    comm.recv(seen, rank - 1)
    seen += token
    if rank < n - 1:
        comm.send(seen, rank + 1)
    comm.send(seen, 0)
    return seen


# %% wrong: left as it is => not-answered
def pass_token(comm, token):
    raise NotImplementedError


# %% half: right but for one rank alone => 4  from: one rank alone sends to itself

# %% wrong: stamps go through 32-bit floats => generality -  from: rank 0 sends first, all others receive first
# ~ seen += token ==> seen = (seen.float() + token.float()).to(token.dtype)
"""
