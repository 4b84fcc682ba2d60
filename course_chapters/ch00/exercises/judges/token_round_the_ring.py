import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch00.exercises.judges.shared import ADVERSARIES
from course_grader.judging import Case, Fault, Judging, Outcome, Params, hidden, oracle, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, over_ranks, tensors
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import off_the_ring, sent_again, too_few_bytes


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
    return torch.stack([given[each] for each in _visited(rank, len(given), step)]).sum(0).to(given[0].dtype)


def _token_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """The first rank, in the order of the route, whose token is wrong, and how."""
    given, step = tensors(case), params["direction"]
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
    given, meter = tensors(case), outcome.meter
    n, most = len(given), nbytes(given[0]) * (len(given) > 1)
    if fault := sent_again(meter, [most] * n):
        return fault
    if (talker := next((rank for rank, count in enumerate(meter["messages_sent"]) if count > 1), None)) is not None:
        return (
            "sent-again",
            f"Rank {talker} sent {meter['messages_sent'][talker]} messages; it sends the token on once.",
        )
    stamps = [len(_visited(rank, n, params["direction"])) - 1 for rank in range(n)]
    return too_few_bytes(meter, [0] * n, [count * given[0].element_size() for count in stamps])


def _route_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    return off_the_ring(outcome.meter, params["direction"], params["route"])


JUDGING = Judging(
    shares="values:token 0.4, cost:bytes 0.2, protocol:route 0.1, protocol:safe 0.1, generality:sizes 0.2",
    cases=_cases,
    verdicts=oracle(_token_fault, {"cost:bytes": _bytes_fault, "protocol:route": _route_fault}, always=True),
    why="""If every rank received first, no rank would ever send, so rank 0 sends first. After that the data keeps
the order, since a rank cannot send on what it has not received. Modulo N closes the ring for any N and either
direction.""",
    pytorch="In NCCL's ring all-reduce every rank starts at once, each with a different part; chapter 06 builds it.",
)

ANSWERS = r'''# %% right: worked
def pass_token(comm, token):
    """The token as this rank sent it on; on rank 0, as it came back."""
    if comm.size == 1:
        return token
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    seen = torch.empty_like(token)
    if comm.rank == 0:  # one rank has to start
        comm.send(token, after)
        comm.recv(seen, before)
        return seen
    comm.recv(seen, before)
    seen += token
    comm.send(seen, after)
    return seen
# %% right: only the stamps so far travel
# ~ comm.send(token, after) ==> comm.send(token[:1].clone(), after)
# -     comm.recv(seen, before)
# -     seen += token
# -     comm.send(seen, after)
# -     return seen
# +     book = token.clone()
# +     comm.recv(book[: comm.rank], before)
# +     comm.send(book[: comm.rank + 1], after)
# +     return book
# %% right: every receive posted at once, then one by one
#       seen = torch.empty_like(token)
# +     coming = comm.irecv(seen, before)
# -         comm.send(token, after)
# -         comm.recv(seen, before)
# +         comm.isend(token, after).wait()
# +         coming.wait()
# -     comm.recv(seen, before)
# +     coming.wait()
# ~ comm.send(seen, after) ==> comm.isend(seen, after).wait()
# %% right: any variant
# - def pass_token(comm, token):
# + step = params("token-round-the-ring").direction
# + def pass_token(comm, token):
# ~ (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# ~~ ==> (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
# %% wrong: everyone receives first => protocol deadlock
# -     if comm.rank == 0:  # one rank has to start
# -         comm.send(token, after)
# -         comm.recv(seen, before)
# -         return seen
# %% wrong: the other way round => values wrong-direction unless direction=-1
# ~ after, before = ==> before, after =
# %% wrong: passes the token on without a stamp => values not-stamped
# -     seen += token
# %% wrong: stamps the next rank's slot => values not-stamped
# ~ seen += token ==> seen += token.roll(1)
# %% wrong: rank 0 stamps it once more at home => values stamped-twice
#           comm.recv(seen, before)
# +         seen += token
# %% wrong: the token never comes home => values never-home
# -         comm.recv(seen, before)
# -         return seen
# +         return token
# -     comm.send(seen, after)
# +     if after:
# +         comm.send(seen, after)
# %% wrong: sends its own token on instead of the one that came => values lost-stamp
# -     seen += token
# -     comm.send(seen, after)
# -     return seen
# +     comm.send(token, after)
# +     return token
# %% wrong: everyone gets every stamp => values knows-too-much  from: worked
def pass_token(comm, token):
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    works = [comm.isend(token, rank) for rank in others]
    seen = {rank: torch.empty_like(token) for rank in others}
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return sum(seen.values(), token.clone())
# %% wrong: a message of its own before each token => cost sent-again
#       if comm.rank == 0:  # one rank has to start
# +         comm.send(torch.ones(1), after)
#           comm.send(token, after)
# +         comm.recv(torch.ones(1), before)
#           return seen
# +     comm.recv(torch.ones(1), before)
#       seen += token
# +     comm.send(torch.ones(1), after)
# %% wrong: the token in two halves => cost sent-again
# -         comm.send(token, after)
# -         comm.recv(seen, before)
# +         for to, tensor in ((comm.send, token), (comm.recv, seen)):
# +             [to(half, after if to == comm.send else before) for half in tensor.tensor_split(2)]
# -     comm.recv(seen, before)
# +     [comm.recv(half, before) for half in seen.tensor_split(2)]
# ~ comm.send(seen, after) ==> [comm.send(half, after) for half in seen.tensor_split(2)]
# %% wrong: stamps after it has begun to send => protocol raised
# -     comm.send(seen, after)
# +     sent = seen.clone()
# +     work = comm.isend(sent, after)
# +     sent.zero_()
# +     work.wait()
# %% wrong: one rank alone sends to itself => generality raised
# -     if comm.size == 1:
# -         return token
# %% half: right but for one rank alone => 4  from: one rank alone sends to itself
# %% wrong: a ring of five and no other => generality raised
# ~ (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# ~~ ==> {0: (1, 4), 1: (2, 0), 2: (3, 1), 3: (4, 2), 4: (0, 3)}[comm.rank]
# %% wrong: stamps in 32 bits, half of what came => cost too-few-bytes
#   def pass_token(comm, token):
# +     return pass_on(comm, token.int()).to(token.dtype)
# + def pass_on(comm, token):
# %% wrong: every rank reports to rank 0 besides => cost told-everyone
#           comm.recv(seen, before)
# +         for rank in range(1, before):
# +             comm.recv(torch.empty_like(token), rank)
#       comm.send(seen, after)
# +     if after:
# +         comm.send(seen, 0)
# %% wrong: stamps go through 32-bit floats => generality not-stamped
# ~ seen += token ==> seen = (seen.float() + token.float()).to(token.dtype)
# %% wrong: left as it is => not-answered  from: worked
def pass_token(comm, token):
    raise NotImplementedError
'''
