"""Judge of token-round-the-ring: which stamps a token has at each rank, the bytes sent, and the direction."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.exercises.ch00.judges.exchange import ADVERSARIES
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import PerRank, over_ranks
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import partners
from course_lib.records import Case, Outcome


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


TOKEN = Judging(
    shares="values:token 0.4, cost:bytes 0.2, protocol:route 0.1, protocol:safe 0.1, generality:sizes 0.2",
    cases=_cases,
    verdicts=oracle(_token_fault, {"cost:bytes": _bytes_fault, "protocol:route": _route_fault}, always=True),
    why="""If every rank received first, no rank would ever send, so rank 0 sends first. After that the data keeps the order, since a rank
cannot send on what it has not received. Modulo N closes the ring for any N and either direction.""",
    pytorch="In NCCL's ring all-reduce every rank starts at once, each with a different part; chapter 06 builds it.",
)
