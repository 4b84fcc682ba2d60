"""Judge of two-ranks-wait: whose tensor came back, each byte once, only between partners, in the order of any machine."""

import math
import random
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_lib.cluster.kernel import Adversary
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.ranks import STREAM, PerRank, over_ranks, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import partners, too_few_bytes
from course_lib.records import Case, Outcome

# The freedom that the semantics give a machine: buffers or none, bytes that move early or late.
ADVERSARIES = tuple(Adversary(depth=depth, late=late) for depth in (0, 1, math.inf) for late in (False, True))[1:]


def partner_of(pairing: str, rank: int, ranks: int) -> int:
    """The rank that `rank` is paired with."""
    if pairing == "mirrored":
        return ranks - 1 - rank
    return (rank + ranks // 2) % ranks if pairing == "halves" else rank ^ 1


def _tensors(coin: torch.Generator) -> Mapping[str, Callable[[], Tensor]]:
    """Tensors that a repair written for six floats may not handle."""
    return {
        "whole numbers of 64 bits": lambda: torch.randint(-(2**40), 2**40, (5,), generator=coin),
        "a transposed matrix of 64-bit floats": lambda: torch.randn(3, 4, generator=coin, dtype=torch.float64).T,
        "every second element of a vector": lambda: torch.randn(14, generator=coin)[::2],
        "an empty tensor": lambda: torch.randn(0, 3, generator=coin),
        "one number without a dimension": lambda: torch.randn((), generator=coin),
        "bfloat16": lambda: torch.randn(400, 2, generator=coin).to(torch.bfloat16),
        "true and false": lambda: torch.rand(9, generator=coin) < 0.5,
    }


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def floats(ranks: int = 2) -> PerRank:
        return world(ranks, lambda: torch.randn(params["numbers"], generator=coin))

    nccl = "two ranks, each pair's operations in the order of issue, as on NCCL"
    return [
        shown("two ranks", "values:exchange", per_rank=floats()),
        shown("four ranks", "generality:pairs", per_rank=floats(4)),
        hidden("two ranks, other data", "values:exchange", per_rank=floats()),
        *(
            hidden(f"{ranks} ranks", "generality:pairs", per_rank=floats(ranks))
            for ranks in (6, 2 * rng.randrange(9, 14))
        ),
        *(
            hidden(name, "generality:tensors", per_rank=world(2 + at % 2 * 2, make))  # on two ranks or four
            for at, (name, make) in enumerate(_tensors(coin).items())
        ),
        *under(ADVERSARIES, "two ranks", "protocol:safe", floats),
        hidden(nccl, "protocol:order", per_rank=floats(), adversary=STREAM),
    ]


def _tensor_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """The first rank whose tensor is not its partner's, and what it is instead."""
    given = [own for (own,) in case.per_rank or ()]
    partner = [partner_of(params["pairing"], rank, len(given)) for rank in range(len(given))]

    def cause(rank: int, got: Tensor) -> Fault:
        lead, want = f"Rank {rank} returned", given[partner[rank]]
        owners = [other for other, theirs in enumerate(given) if same(got, theirs)]
        if rank in owners:
            return "own-tensor", f"{lead} its own tensor. Receive into a new tensor, and return that."
        if params["pairing"] != "neighbors" and rank ^ 1 in owners:
            told = f"{lead} rank {rank ^ 1}'s tensor. In your variant the pairs are {params['pairs']}."
            return "public-form", f"This solves the public form of the exercise. {told}"
        if owners:
            told = f"{lead} rank {owners[0]}'s tensor; its partner is rank {partner[rank]}"
            return "wrong-partner", f"{told}. The pairs are {params['pairs']}."
        if want.numel() and torch.allclose(got.float(), want.float(), rtol=1e-2, atol=1e-5):
            told = f"{lead} numbers close to rank {partner[rank]}'s, but not equal to them"
            return "rounded", f"{told}. Was something added to them, or was their dtype changed?"
        told = f"{lead} other numbers than rank {partner[rank]}'s"
        return "", f"{told}. Was the tensor received before it was returned?"

    return over_ranks(case, outcome.value, [given[each] for each in partner], cause)


def _bytes_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """The first rank that sent more than its tensor, or received less than its partner's."""
    sizes = [nbytes(own) for (own,) in case.per_rank or ()]
    for rank, size in enumerate(sizes):
        sent, receivers = outcome.meter["bytes_sent"][rank], partners(outcome.meter, rank)
        if sent > size and len(receivers) > 1:
            told = f"Rank {rank} sent to ranks {', '.join(map(str, sorted(receivers)))}"
            return "told-everyone", f"{told}; only its partner needs its tensor."
        if sent > size:
            return "sent-twice", f"Rank {rank} sent {sent:,} bytes; its tensor of {size:,} needs to cross once."
    return too_few_bytes(outcome.meter, [0] * len(sizes), sizes)


def _partner_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for src, dst, _, messages in outcome.meter["pairs"]:
        partner = partner_of(params["pairing"], src, case.ranks or 0)
        if messages and dst != partner:
            return "spoke-to-others", f"Rank {src} sent a message to rank {dst}; its partner is rank {partner}."
    return None


EXCHANGE = Judging(
    shares="values:exchange 0.3, cost:bytes 0.2, protocol:partner 0.1, protocol:safe 0.15, protocol:order 0.05, "
    "generality:pairs 0.1, generality:tensors 0.1",
    cases=_cases,
    verdicts=oracle(_tensor_fault, {"cost:bytes": _bytes_fault, "protocol:partner": _partner_fault}, always=True),
    why="""A `send` may return only when its receive has been posted. If both partners send first, neither reaches its `recv`: each waits
for the other. The circle breaks if one of them receives first, and the smaller rank number decides which. Starting the send and the
receive in one batch breaks it too; then receive into a new tensor, and use neither tensor before `wait()`.""",
    pytorch="`torch.distributed.batch_isend_irecv` starts both halves as one operation; on NCCL it becomes "
    "`ncclGroupStart … ncclGroupEnd`, which is what the thread NVIDIA/nccl #479 recommends.",
)
