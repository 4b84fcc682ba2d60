import re
from collections.abc import Sequence

import torch

from course_grader.exercises.probes import NOT_ANSWERED, refusal
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, describe, oracle
from course_grader.judging.cases import hidden, ranks_text, shown
from course_grader.judging.ranks import PerRank, over_ranks
from course_grader.judging.tensors import coin_of, normal
from course_grader.judging.traffic import bytes_fault

right = Worked("ulysses-exchange")


def _exchange_cases(params: Params, rng: Random) -> list[Case]:
    coin, n, width = coin_of(rng), params["ranks"], params["width"]

    def data(
        which: int, heads: int, lengths: Sequence[int], dtype: torch.dtype = torch.float32, view: bool = False
    ) -> PerRank:
        ranks, total, rows = len(lengths), sum(lengths), []
        for length in lengths:
            shape = (heads // ranks, total, width) if which else (heads, length, width)
            x = normal(coin, shape[1], shape[0], shape[2]).transpose(0, 1) if view else normal(coin, *shape)
            rows.append((which, list(lengths), (), x.to(dtype)))
        return tuple(rows)

    def some(ranks: int) -> list[int]:
        return [rng.randrange(1, 6) for _ in range(ranks)]

    return [
        shown(f"{ranks_text(n)} to heads", "values:heads", per_rank=data(0, 2 * n, [4] * n)),
        shown(f"{ranks_text(n)} to tokens", "values:tokens", per_rank=data(1, 2 * n, [4] * n)),
        hidden("three ranks to heads, uneven lengths", "values:heads", per_rank=data(0, 6, [2, 5, 1])),
        hidden("three ranks to tokens, uneven lengths", "values:tokens", per_rank=data(1, 9, [2, 5, 1])),
        hidden("four ranks, two KV heads", "generality:heads", per_rank=data(0, 2, some(4))),
        hidden("six ranks, three KV heads", "generality:heads", per_rank=data(0, 3, [2, 1, 3, 0, 1, 2], view=True)),
        hidden("five ranks, one KV head", "generality:heads", per_rank=data(0, 1, some(5))),
        hidden("as many heads as ranks", "generality:heads", per_rank=data(0, 3, some(3))),
        hidden("three ranks, another is the longest", "generality:heads", per_rank=data(0, 6, [5, 1, 2])),
        hidden("four ranks, six heads", "generality:refused", per_rank=data(0, 6, some(4))),
        hidden("five ranks, two heads", "generality:refused", per_rank=data(0, 2, some(5))),
        hidden("five ranks, twelve heads", "generality:refused", per_rank=data(0, 12, some(5))),
        hidden("four ranks, one without tokens, seven heads", "generality:refused", per_rank=data(0, 7, [2, 0, 1, 3])),
        hidden("seven ranks, two heads", "generality:refused", per_rank=data(0, 2, [1] * 7)),
        hidden("six ranks, four heads", "generality:refused", per_rank=data(0, 4, [1] * 6)),
        hidden("one rank, to heads", "generality:layouts", per_rank=data(0, 3, [4])),
        hidden("one rank, to tokens", "generality:layouts", per_rank=data(1, 3, [4])),
        hidden("a rank without tokens, to heads", "generality:layouts", per_rank=data(0, 6, [3, 0, 2])),
        hidden("a rank without tokens, to tokens", "generality:layouts", per_rank=data(1, 3, [3, 0, 2])),
        hidden("a view in bf16, to heads", "generality:layouts", per_rank=data(0, 10, [3, 2], torch.bfloat16, True)),
        hidden("a view in fp64, to tokens", "generality:layouts", per_rank=data(1, 10, [3, 2], torch.float64, True)),
    ]


def largest_fit(heads: int, ranks: int) -> int:
    return next(n for n in range(ranks - 1, 0, -1) if heads % n == 0 or n % heads == 0)


def _refused_fault(heads: int, results: Sequence[object]) -> Fault | None:
    n = len(results)
    for rank, got in enumerate(results):
        said = refusal(got)
        if said is None:
            told = f"rank {rank} returned {describe(got)}; {heads} heads on {n} ranks must raise ValueError."
            return "not-refused", told
        numbers = re.findall(r"\d+", said)
        if not numbers or int(numbers[-1]) != largest_fit(heads, n) or not re.search(r"\d\W*$", said):
            return "other-number", (
                f"rank {rank}: the message must end with the largest number of ranks below {n} that fits {heads} "
                f"heads: as a divisor, or as a multiple."
            )
    return None


def _exchange_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    rows, results = case.per_rank or (), outcome.value
    if case.part == "refused":
        return _refused_fault(len(rows[0][-1]), results)
    for rank, got in enumerate(results):
        if type(got) is str and got == NOT_ANSWERED:
            return "not-answered", "this function is not answered yet."
        if (said := refusal(got)) is not None:
            return "refused", f"rank {rank} raised ValueError: {said[:200]}."
    return over_ranks(case, results, right.value(case))


def _exchange_bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    rows = case.per_rank or ()
    if case.part == "refused":
        return None
    which, lengths = rows[0][:2]
    n, needed = len(rows), list[int]()
    for rank, (*_, x) in enumerate(rows):
        row = x.shape[-1] * x.element_size()
        if which:
            needed.append(len(x) * (sum(lengths) - lengths[rank]) * row)
        else:
            needed.append((max(len(x), n) * (n - 1) // n) * lengths[rank] * row)
    return bytes_fault(outcome.meter, needed, "of its `x`, the other ranks need", needed, [0] * n)


JUDGING = Judging(
    shares="values:heads 0.2, values:tokens 0.2, cost:bytes 0.2, generality:heads 0.15, generality:refused 0.1, "
    "generality:layouts 0.15",
    cases=_exchange_cases,
    verdicts=oracle(_exchange_fault, {"cost:bytes": _exchange_bytes}, named=True),
    why="""Attention treats heads apart, so a rank with all tokens of some heads needs no other rank. The all-to-all
moves (N − 1)/N of what a rank has, whatever N is. The number of heads limits the number of ranks; KV heads can be sent
to several ranks, at the cost of bytes.""",
    pytorch="`all_to_all_single` does the exchange; `torch.distributed.tensor` writes it as a redistribution from "
    "Shard(tokens) to Shard(heads).",
)

ANSWERS = r'''# %% right: worked
def tokens_to_heads(comm, x, lengths: list[int]) -> torch.Tensor:
    """All tokens of this rank's heads: (heads / N, all tokens, width)."""
    n, heads, width = comm.size, len(x), x.shape[-1]
    if heads % n and n % heads:
        fits = max(m for m in range(1, n) if heads % m == 0 or m % heads == 0)
        raise ValueError(f"{heads} heads cannot be spread over {n} ranks; use {fits}")
    share = max(1, heads // n)
    parts = [x[j * heads // n : j * heads // n + share].reshape(-1) for j in range(n)]
    got = x.new_empty(sum(lengths) * share * width)
    into = [length * share * width for length in lengths]
    comm.all_to_all_single(got, torch.cat(parts), into, [len(part) for part in parts])
    pieces = zip(got.split(into), lengths, strict=True)
    return torch.cat([piece.view(share, length, width) for piece, length in pieces], 1)


def heads_to_tokens(comm, x, lengths: list[int]) -> torch.Tensor:
    """All heads of this rank's tokens: (heads, this rank's tokens, width)."""
    n, share, width, mine = comm.size, len(x), x.shape[-1], lengths[comm.rank]
    parts = [part.reshape(-1) for part in x.split(lengths, 1)]
    got = x.new_empty(n * share * mine * width)
    comm.all_to_all_single(got, torch.cat(parts), [share * mine * width] * n, [len(part) for part in parts])
    return got.view(n * share, mine, width)
# %% right: contiguous copies
# ~ j * heads // n + share].reshape(-1) for ==> j * heads // n + share].contiguous().flatten() for
# ~ [part.reshape(-1) for ==> [part.contiguous().flatten() for
# %% wrong: everything is gathered => cost too-many-bytes
#       share = max(1, heads // n)
# +     padded = x.new_zeros(heads, max(lengths), width)
# +     padded[:, : lengths[comm.rank]] = x
# +     held = [torch.empty_like(padded) for _ in range(n)]
# +     comm.all_gather(held, padded)
# +     whole = torch.cat([one[:, :length] for one, length in zip(held, lengths, strict=True)], 1)
# +     return whole[comm.rank * heads // n : comm.rank * heads // n + share].clone()
# %% wrong: the received buffer viewed as it is => values one-view
# > what one rank sent is one stretch of the received numbers: view each stretch alone, then join them along the tokens.
# -     pieces = zip(got.split(into), lengths, strict=True)
# -     return torch.cat([piece.view(share, length, width) for piece, length in pieces], 1)
# +     return got.view(share, sum(lengths), width)
# %% wrong: strided heads => values
# > a rank has every N-th head here; give it neighboring heads.
# ~ x[j * heads // n : j * heads // n + share] ==> (x[j::n] if heads >= n else x[j * heads // n : j * heads // n + 1])
# %% wrong: heads in turn => generality
# > the heads were dealt in turn; neighboring ranks share a head.
# ~ x[j * heads // n : j * heads // n + share]
# ~~ ==> (x[j * heads // n : j * heads // n + share] if heads >= n else x[j % heads : j % heads + 1])
# %% wrong: fewer heads than ranks are refused => generality refused
# ~ if heads % n and n % heads: ==> if heads % n:
# %% wrong: only divisors are suggested => generality other-number
# ~ if heads % m == 0 or m % heads == 0) ==> if heads % m == 0)
# %% wrong: two ranks are suggested at least => generality other-number
# ~ use {fits} ==> use {max(fits, 2)}
# %% wrong: returns a refusal instead of raising it => generality not-refused
# ~ raise ValueError(f"{heads} heads cannot be spread over {n} ranks; use {fits}") ==> return {"refused": f"use {fits}"}
# %% wrong: equal lengths => values raised
# ~ got = x.new_empty(sum(lengths) * share * width) ==> got = torch.empty_like(torch.cat(parts))
# ~ into = [length * share * width for length in lengths] ==> into = [len(part) for part in parts]
# %% wrong: heads of a rank side by side => values other-order
# > the numbers are right, in another order: join the parts along the heads, in the order of the ranks.
# ~ got.view(n * share, mine, width) ==> got.view(n, share, mine, width).transpose(0, 1).reshape(n * share, mine, width)
# %% wrong: two heads on every rank => values raised
# ~ mine = comm.size, len ==> mine = comm.size, 2 if comm.size > 1 else len
# %% wrong: contiguous memory => generality raised
# ~ .reshape(-1) for j ==> .view(-1) for j
# %% wrong: few heads in contiguous memory => generality ~
# ~ reshape(-1) for j ==> view(-1) if heads < n else x.tensor_split(n)[j].reshape(-1) for j
# %% wrong: fp32 on the way => cost too-many-bytes
# ~ parts = [x[j ==> parts = [x.float()[j
# ~ got = x.new_empty(sum(lengths) ==> got = x.float().new_empty(sum(lengths)
# ~ for piece, length in pieces], 1) ==> for piece, length in pieces], 1).to(x.dtype)
# %% wrong: the list of lengths is changed => values changed
# ~ return got.view(n * share, mine, width) ==> lengths.clear()
# +     return got.view(n * share, mine, width)
'''
