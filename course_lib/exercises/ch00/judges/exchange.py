"""Judging of two-ranks-wait: whose tensor came back, each byte once, only between partners, in any machine's order."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch00.judges.ranks import ADVERSARIES, RECEIVE, STRICT
from course_lib.judging import Fault, Params, verdict
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.records import Case, Outcome, Verdict


def partner_of(pairing: str, rank: int, ranks: int) -> int:
    """The rank that `rank` is paired with."""
    if pairing == "mirrored":
        return ranks - 1 - rank
    return (rank + ranks // 2) % ranks if pairing == "halves" else rank ^ 1


def _kinds(coin: torch.Generator) -> Mapping[str, Callable[[], Tensor]]:
    """Tensors that a repair for six floats may not expect."""

    def whole(*shape: int) -> Tensor:
        return torch.randint(-(2**40), 2**40, shape, generator=coin)

    return {
        "whole numbers of 64 bits": lambda: whole(5),
        "a transposed matrix": lambda: torch.randn(3, 4, generator=coin).T,
        "every second element of a vector": lambda: torch.randn(14, generator=coin)[::2],
        "an empty tensor": lambda: torch.randn(0, 3, generator=coin),
        "one number without a dimension": lambda: torch.randn((), generator=coin),
        "bfloat16": lambda: torch.randn(4, 2, generator=coin).to(torch.bfloat16),
        "true and false": lambda: torch.rand(9, generator=coin) < 0.5,
    }


def exchange_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def ranks_with(count: int) -> tuple[tuple[Tensor], ...]:
        return tuple((torch.randn(params["numbers"], generator=coin),) for _ in range(count))

    plain = [
        Case(name="two ranks", ranks=2, per_rank=ranks_with(2), part="exchange"),
        Case(name="four ranks", ranks=4, per_rank=ranks_with(4), kind="generality", part="pairs"),
        Case(name="two ranks, other data", ranks=2, per_rank=ranks_with(2), part="exchange", visible=False),
    ]
    plain += [
        Case(name=f"{n} ranks", ranks=n, per_rank=ranks_with(n), kind="generality", part="pairs", visible=False)
        for n in (6, 10)
    ]
    plain += [
        Case(name=name, ranks=2, per_rank=((make(),), (make(),)), kind="generality", part="tensors", visible=False)
        for name, make in _kinds(coin).items()
    ]
    unkind = [
        Case(
            name=f"two ranks, {adversary}",
            ranks=2,
            per_rank=ranks_with(2),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=adversary,
        )
        for adversary in ADVERSARIES
    ]
    return [
        *plain,
        *unkind,
        Case(
            name="two ranks, each pair's operations in the order of issue, as on NCCL",
            ranks=2,
            per_rank=ranks_with(2),
            kind="protocol",
            part="order",
            visible=False,
            adversary=STRICT,
        ),
    ]


def _exchange_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    """The first rank whose tensor is not its partner's, and what it is instead."""
    given = [one for (one,) in case.per_rank]
    for rank, got in enumerate(results):
        partner = partner_of(params["pairing"], rank, len(given))
        want = given[partner]
        if same(got, want):
            continue
        if fault := not_like(got, want, rank, RECEIVE):
            return fault
        if case.adversary is not None:
            return "reads-early", (
                f"With {case.adversary}, rank {rank} held something else than rank {partner} had sent. Before "
                "`wait()` returns, a tensor under way may be neither read nor written."
            )
        if same(got, given[rank]):
            return "own-tensor", (
                f"Rank {rank} returned what it was given, not rank {partner}'s tensor. Receive into a tensor "
                "of its own, never into one that is still under way, and return it."
            )
        if params["pairing"] != "neighbours" and same(got, given[rank ^ 1]):
            return "public-form", (
                f"This solves the public form of the exercise: rank {rank} has rank {rank ^ 1}'s tensor. "
                f"In yours the pairs are {params['pairs']}."
            )
        for other, theirs in enumerate(given):
            if other != rank and same(got, theirs):
                return "wrong-partner", (
                    f"Rank {rank} returned rank {other}'s tensor; with {len(given)} ranks its partner is "
                    f"rank {partner}. The pairs are {params['pairs']}."
                )
        if want.numel() and torch.allclose(got.float(), want.float(), rtol=1e-2, atol=1e-5):
            return "rounded", (
                f"Rank {rank}'s result is close to rank {partner}'s tensor but not equal to it: it was added to "
                "something, or its dtype was changed, on the way. What is sent must arrive bit for bit."
            )
        return "", (
            f"Rank {rank} should hold rank {partner}'s tensor and holds other numbers. Was anything received into the "
            "tensor that is returned, before it is returned?"
        )
    return None


def _exchange_cost(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    """The first rank that sent more than its tensor, or received less than its partner's."""
    for rank, (mine,) in enumerate(case.per_rank):
        size, sent, received = nbytes(mine), meter["bytes_sent"][rank], meter["bytes_received"][rank]
        if sent > size:
            times = sent / size if size else math.inf
            told = sorted({dst for src, dst, nbytes, _ in meter["pairs"] if src == rank and nbytes})
            if len(told) > 1:
                return "told-everyone", (
                    f"Rank {rank} sent to ranks {', '.join(map(str, told))}: {times:.3g} times its tensor. "
                    "One rank asked for it; the bytes to the others are waste."
                )
            return "sent-twice", (
                f"Rank {rank} sent {sent:,} bytes: {times:.3g} times its tensor of {size:,}. Each byte needs to "
                "cross once."
            )
        if received < size:
            return "too-few-bytes", (
                f"Rank {rank} received {received:,} bytes and returned a tensor of {size:,}. What a rank has "
                "not received it cannot know."
            )
    return None


def _exchange_partners(params: Params, case: Case, meter: Mapping[str, Any]) -> Fault | None:
    for src, dst, _, messages in meter["pairs"]:
        partner = partner_of(params["pairing"], src, case.ranks or 0)
        if messages and dst != partner:
            return "spoke-to-others", (
                f"Rank {src} sent a message to rank {dst}, though its partner is rank {partner}. A third rank "
                "that must answer is one more that can be late."
            )
    return None


def exchange_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    verdicts = [verdict(case.kind, case.part, case, _exchange_fault(params, case, outcome.value))]
    if case.adversary is None:
        verdicts.append(verdict("cost", "bytes", case, _exchange_cost(case, outcome.meter)))
        verdicts.append(verdict("protocol", "partner", case, _exchange_partners(params, case, outcome.meter)))
    return verdicts
