"""Judging of token-round-the-ring: whose stamps a token bears where, what travelled, and which way."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch00.judges.ranks import ADVERSARIES, RECEIVE
from course_lib.judging import Fault, Params, verdict
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.records import Case, Outcome, Verdict


def _stamps(ranks: int, coin: torch.Generator, dtype: torch.dtype = torch.int64) -> tuple[tuple[Tensor], ...]:
    """Each rank's own stamp in its own slot."""
    secret = torch.randint(1, 10**6, (ranks,), generator=coin).to(dtype)
    return tuple((torch.where(torch.arange(ranks) == rank, secret, torch.zeros_like(secret)),) for rank in range(ranks))


def token_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)
    n = params["ranks"]
    cases = [
        Case(name=f"{n} ranks", ranks=n, per_rank=_stamps(n, coin), part="token"),
        Case(name=f"{n} ranks, other stamps", ranks=n, per_rank=_stamps(n, coin), part="token", visible=False),
        Case(
            name="two ranks in 32 bits",
            ranks=2,
            per_rank=_stamps(2, coin, torch.int32),
            kind="generality",
            part="sizes",
            visible=False,
        ),
    ]
    cases += [
        Case(
            name="one rank alone" if size == 1 else f"{size} ranks",
            ranks=size,
            per_rank=_stamps(size, coin),
            kind="generality",
            part="sizes",
            visible=False,
        )
        for size in (1, 3, 8, 13)
    ]
    return cases + [
        Case(
            name=f"{n} ranks, {adversary}",
            ranks=n,
            per_rank=_stamps(n, coin),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=adversary,
        )
        for adversary in ADVERSARIES
    ]


def _visited(rank: int, ranks: int, step: int) -> list[int]:
    """The ranks whose stamps a token bears when it leaves `rank`'s hands (rank 0's: when it is home)."""
    hops = ranks - 1 if rank == 0 else (rank * step) % ranks
    return [(hop * step) % ranks for hop in range(hops + 1)]


def token_at(given: Sequence[Tensor], rank: int, step: int) -> Tensor:
    return torch.stack([given[each] for each in _visited(rank, len(given), step)]).sum(0).to(given[0].dtype)


def _token_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    """The first rank, in the order of the route, whose token is not what it should be, and how."""
    given = [one for (one,) in case.per_rank]
    ranks, step = len(given), params["direction"]
    if ranks > 2 and all(same(got, token_at(given, rank, -step)) for rank, got in enumerate(results)):
        name = "wrong-direction" if step == 1 else "public-form"
        lead = "" if step == 1 else "This solves the public form of the exercise. "
        return name, f"{lead}The token went round, but the other way: it shall travel {params['route']}."
    for rank in [*_visited(0, ranks, step)[1:], 0]:
        want, got = token_at(given, rank, step), results[rank]
        if same(got, want):
            continue
        if fault := not_like(got, want, rank, RECEIVE):
            return fault
        return _token_slip(case, given, rank, got, _visited(rank, ranks, step))
    return None


def _token_slip(case: Case, given: Sequence[Tensor], rank: int, got: Tensor, visited: list[int]) -> Fault:
    """What is wrong with one rank's token: which stamps it has too many, too few or twice."""
    if case.adversary is not None:
        return "reads-early", (
            f"With {case.adversary}, rank {rank}'s token is not the one that was sent. Between `isend` or `irecv` "
            "and its `wait()`, leave the tensor alone."
        )
    stamp = [int(one[slot]) for slot, one in enumerate(given)]
    held = [int(each) for each in got]
    if rank == 0 and held == [int(each) for each in given[0]] and len(given) > 1:
        return (
            "never-home",
            "Rank 0 returned the token as it sent it off. It has to come home: who sends to rank 0, and when?",
        )
    if twice := [r for r in visited if held[r] == 2 * stamp[r]]:
        return (
            "stamped-twice",
            f"Rank {rank}'s token bears rank {twice[0]}'s stamp twice. Each rank adds its stamp once.",
        )
    if early := [r for r in range(len(given)) if r not in visited and held[r] == stamp[r]]:
        return "knows-too-much", (
            f"Rank {rank}'s token bears the stamp of rank {early[0]}, which the token has not visited yet. Return "
            "it as it left the rank's hands."
        )
    if held[rank] != stamp[rank]:
        where = [slot for slot in range(len(given)) if slot != rank and held[slot] == stamp[rank]]
        note = f"; it is in slot {where[0]}" if where else ""
        return "not-stamped", f"Rank {rank}'s own stamp is missing from slot {rank} of the token it returned{note}."
    if missing := [r for r in visited if held[r] != stamp[r]]:
        return "lost-stamp", (
            f"Rank {rank}'s token lacks rank {missing[0]}'s stamp, though it passed there before. Add to the token "
            "that came, and pass that one on."
        )
    return "", f"Rank {rank}'s token bears marks that are nobody's stamp."


def _token_cost(params: Params, case: Case, meter: Mapping[str, Any]) -> Fault | None:
    given = [one for (one,) in case.per_rank]
    ranks, size, item = len(given), nbytes(given[0]), given[0].element_size()
    most = size if ranks > 1 else 0
    for rank in range(ranks):
        sent, received, messages = (meter[name][rank] for name in ("bytes_sent", "bytes_received", "messages_sent"))
        if sent > most or messages > bool(most):
            told = len({dst for src, dst, _, count in meter["pairs"] if src == rank and count})
            if told > 1:
                return "told-everyone", (
                    f"Rank {rank} sent to {told} ranks. The token is one thing in one place: each rank sends it "
                    "on once."
                )
            return "sent-again", (
                f"Rank {rank} sent {messages} messages, {sent:,} bytes; the token of {most:,} bytes leaves each rank "
                "once."
            )
        known = len(_visited(rank, ranks, params["direction"])) - 1
        if received < known * item:
            return (
                "too-few-bytes",
                f"Rank {rank} bears {known} stamps of others and received {received:,} bytes: too few to know them.",
            )
    return None


def _token_route(params: Params, case: Case, meter: Mapping[str, Any]) -> Fault | None:
    for src, dst, _, messages in meter["pairs"]:
        after = (src + params["direction"]) % (case.ranks or 1)
        if messages and dst != after:
            return (
                "not-a-neighbour",
                f"Rank {src} sent to rank {dst}; on the route {params['route']} it speaks to rank {after} only.",
            )
    return None


def token_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    verdicts = [verdict(case.kind, case.part, case, _token_fault(params, case, outcome.value))]
    if case.adversary is None:
        verdicts.append(verdict("cost", "bytes", case, _token_cost(params, case, outcome.meter)))
        verdicts.append(verdict("protocol", "route", case, _token_route(params, case, outcome.meter)))
    return verdicts
