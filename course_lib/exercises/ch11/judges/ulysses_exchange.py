"""Judge of ulysses-exchange: from tokens to heads and back."""

import random
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.reference import touched
from course_lib.exercises.ch11.probes import REFUSED
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.judging.tensors import coin_of, normal, not_like, same
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _exchange_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n, width = coin_of(rng), params["ranks"], params["width"]

    def data(
        which: int, heads: int, lengths: Sequence[int], dtype: torch.dtype = torch.float32, view: bool = False
    ) -> Any:
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
    """The largest smaller number of ranks over which the heads can be spread."""
    return next(n for n in range(ranks - 1, 0, -1) if heads % n == 0 or n % heads == 0)


def _own_heads(heads: int, ranks: int, rank: int) -> slice:
    """The heads of a rank; neighbors share one where there are fewer heads than ranks."""
    if heads >= ranks:
        return slice(rank * heads // ranks, (rank + 1) * heads // ranks)
    return slice(rank // (ranks // heads), rank // (ranks // heads) + 1)


def _refused_fault(heads: int, results: Sequence[Any]) -> Fault | None:
    n = len(results)
    for rank, got in enumerate(results):
        if type(got["x"]) is not str or not got["x"].startswith(REFUSED):
            return (
                "not-refused",
                f"rank {rank} returned {describe(got['x'])}; {heads} heads on {n} ranks must raise ValueError.",
            )
        numbers = re.findall(r"\d+", got["x"])
        if not numbers or int(numbers[-1]) != largest_fit(heads, n) or not re.search(r"\d\W*$", got["x"]):
            return "other-number", (
                f"rank {rank}: the message must end with the largest number of ranks below {n} that fits {heads} heads: as a divisor, or as a multiple."
            )
    return None


def _exchange_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    rows = case.per_rank or ()
    which, lengths, _, x = rows[0]
    n, given = len(rows), [row[3] for row in rows]
    if case.part == "refused":
        return _refused_fault(len(x), results)
    for rank, got in enumerate(results):
        if type(got["x"]) is str and got["x"] == NOT_ANSWERED:
            return "not-answered", "this function is not answered yet."
        if type(got["x"]) is str:
            return "refused", f"rank {rank} raised {got['x']}."
        if which:
            ends = list(accumulate(lengths))
            want = torch.cat([one[:, ends[rank] - lengths[rank] : ends[rank]] for one in given])
        else:
            want = torch.cat([one[_own_heads(len(one), n, rank)] for one in given], 1)
        if same(got["x"], want):
            continue
        if fault := not_like(got["x"], want, rank):
            return fault
        return _misplaced(rank, got["x"], want, given, which)
    return touched(results)


def _misplaced(rank: int, got: Tensor, want: Tensor, given: Sequence[Tensor], which: int) -> Fault:
    rows, wanted = got.flatten(0, 1).tolist(), want.flatten(0, 1).tolist()
    if sorted(rows) == sorted(wanted):
        what = "heads" if which else "tokens"
        return (
            "other-order",
            f"rank {rank} has the right numbers in another order: join the parts along the {what}, in the order of the ranks.",
        )
    n, heads = len(given), len(given[0])
    if not which and heads >= n:
        strided = torch.cat([one[rank::n] for one in given], 1)
        if strided.shape == got.shape and torch.equal(strided, got):
            return "strided-heads", f"rank {rank} has every {n}-th head; give it neighboring heads."
    if not which and heads < n:
        turned = torch.cat([one[rank % heads : rank % heads + 1] for one in given], 1)
        if torch.equal(turned, got):
            return "heads-in-turn", f"rank {rank} has head {rank % heads}; neighboring ranks share a head."
    return "other-numbers", f"rank {rank} has other numbers than asked for. Which part goes to which rank?"


def _exchange_bytes(case: Case, outcome: Outcome) -> Fault | None:
    rows = case.per_rank or ()
    which, lengths = rows[0][:2]
    n, needed = len(rows), list[int]()
    for rank, (*_, x) in enumerate(rows):
        row = x.shape[-1] * x.element_size()
        if which:
            most = len(x) * (sum(lengths) - lengths[rank]) * row
        else:
            most = (max(len(x), n) * (n - 1) // n) * lengths[rank] * row
        needed.append(most)
        if outcome.meter["bytes_sent"][rank] > most:
            return (
                "too-many-bytes",
                f"rank {rank} sent {outcome.meter['bytes_sent'][rank]:,} bytes; the other ranks need {most:,} of it.",
            )
    return too_few_bytes(outcome.meter, needed, [0] * n)


def _exchange_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _exchange_fault(case, outcome.value)
    cost = None if case.part == "refused" else _exchange_bytes(case, outcome)
    return judged(case, fault, ("cost", "bytes", cost), named=True)


JUDGING = Judging(
    shares="values:heads 0.2, values:tokens 0.2, cost:bytes 0.2, generality:heads 0.15, generality:refused 0.1, generality:layouts 0.15",
    cases=_exchange_cases,
    verdicts=_exchange_verdicts,
    why="""Attention treats heads apart, so a rank with all tokens of some heads needs no other rank. The all-to-all moves (N − 1)/N of what a rank has, whatever N is. The number of heads limits the
number of ranks; KV heads can be sent to several ranks, at the cost of bytes.""",
    pytorch="`all_to_all_single` does the exchange; `torch.distributed.tensor` writes it as a redistribution from Shard(tokens) to Shard(heads).",
)

ANSWERS = r"""import torch


# %% right: one all-to-all of flat parts
def tokens_to_heads(comm, x, lengths):
    n, rank, heads, width = comm.size, comm.rank, len(x), x.shape[-1]
    if heads % n and n % heads:
        fits = max(m for m in range(1, n) if heads % m == 0 or m % heads == 0)
        raise ValueError(f"{heads} heads do not fit {n} ranks; use {fits}")
    share = max(1, heads // n)
    parts = [x[j * heads // n : j * heads // n + share].reshape(-1) for j in range(n)]
    got = x.new_empty(sum(lengths) * share * width)
    into = [length * share * width for length in lengths]
    comm.all_to_all_single(got, torch.cat(parts), into, [len(part) for part in parts])
    pieces = zip(got.split(into), lengths)
    return torch.cat([piece.view(share, length, width) for piece, length in pieces], 1)


def heads_to_tokens(comm, x, lengths):
    share, width, mine = len(x), x.shape[-1], lengths[comm.rank]
    parts = [part.reshape(-1) for part in x.split(lengths, 1)]
    got = x.new_empty(comm.size * share * mine * width)
    comm.all_to_all_single(got, torch.cat(parts), [share * mine * width] * comm.size, [len(part) for part in parts])
    return got.view(comm.size * share, mine, width)


# %% right: message by message
def tokens_to_heads(comm, x, lengths):
    n, rank, heads = comm.size, comm.rank, len(x)
    if heads >= n and heads % n == 0:
        own = [range(r * heads // n, (r + 1) * heads // n) for r in range(n)]
    elif n % heads == 0:
        own = [range(r // (n // heads), r // (n // heads) + 1) for r in range(n)]
    else:
        fits = n - 1
        while heads % fits and fits % heads:
            fits -= 1
        raise ValueError(f"{heads} heads cannot be spread over {n} ranks: use {fits}.")
    shapes = [(len(own[rank]), length) for length in lengths]
    return torch.cat(_swap(comm, [x[list(each)] for each in own], shapes, rank), 1)


def heads_to_tokens(comm, x, lengths):
    parts = list(x.split(list(lengths), 1))
    return torch.cat(_swap(comm, parts, [(len(x), lengths[comm.rank])] * comm.size, comm.rank), 0)


def _swap(comm, parts, shapes, rank):
    got = [parts[rank].new_empty(*shape, parts[rank].shape[-1]) for shape in shapes]
    got[rank] = parts[rank].clone()
    works = []
    for other in range(comm.size):
        if other != rank:
            works += [comm.isend(parts[other].contiguous(), other), comm.irecv(got[other], other)]
    for work in works:
        work.wait()
    return got


# %% wrong: everything is gathered => cost too-many-bytes  from: one all-to-all of flat parts
def tokens_to_heads(comm, x, lengths):
    n, rank, heads, width = comm.size, comm.rank, len(x), x.shape[-1]
    if heads % n and n % heads:
        fits = max(m for m in range(1, n) if heads % m == 0 or m % heads == 0)
        raise ValueError(f"{heads} heads do not fit {n} ranks; use {fits}")
    share, most = max(1, heads // n), max(lengths)
    padded = x.new_zeros(heads, most, width)
    padded[:, : lengths[rank]] = x
    held = [torch.empty_like(padded) for _ in range(n)]
    comm.all_gather(held, padded)
    whole = torch.cat([one[:, :length] for one, length in zip(held, lengths, strict=True)], 1)
    return whole[rank * heads // n : rank * heads // n + share].clone()


# %% wrong: every N-th head => values strided-heads  from: message by message
# ~ r * heads // n, (r + 1) * heads // n ==> r, heads, n

# %% wrong: KV heads in turn => generality heads-in-turn  from: message by message
# ~ range(r // (n // heads), r // (n // heads) + 1) ==> range(r % heads, r % heads + 1)

# %% wrong: fewer heads than ranks are refused => generality refused  from: one all-to-all of flat parts
# ~ if heads % n and n % heads: ==> if heads % n:

# %% wrong: only divisors are suggested => generality other-number  from: one all-to-all of flat parts
# ~ (m for m in range(1, n) if heads % m == 0 or m % heads == 0) ==> (m for m in range(1, n) if heads % m == 0)

# %% wrong: equal lengths => values -  from: one all-to-all of flat parts
# -     into = [length * share * width for length in lengths]
# -     comm.all_to_all_single(got, torch.cat(parts), into, [len(part) for part in parts])
# -     pieces = zip(got.split(into), lengths)
# -     return torch.cat([piece.view(share, length, width) for piece, length in pieces], 1)
# +     got = torch.empty_like(torch.cat(parts))
# +     comm.all_to_all_single(got, torch.cat(parts))
# +     return torch.cat([part.view(share, -1, width) for part in got.chunk(n)], 1)

# %% wrong: heads of a rank side by side => values other-order  from: message by message
# ~ torch.cat(_swap(comm, parts, [(len(x), lengths[comm.rank])] * comm.size, comm.rank), 0) ==> torch.stack(_swap(comm, parts, [(len(x), lengths[comm.rank])] * comm.size, comm.rank), 1).flatten(0, 1)

# %% wrong: contiguous memory => generality -  from: one all-to-all of flat parts
# ~ reshape(-1) for j ==> view(-1) for j

# %% wrong: fp32 on the way => cost too-many-bytes  from: message by message
# ~ (comm, [x[list(each)] for each in own], shapes, rank), 1 ==> (comm, [x[list(each)].float() for each in own], shapes, rank), 1).to(x.dtype

# %% wrong: two heads on every rank => values -  from: one all-to-all of flat parts
# ~ mine = len(x) ==> mine = 2 if comm.size > 1 else len(x)

# %% wrong: the list of lengths is changed => values changed  from: one all-to-all of flat parts
#   def heads_to_tokens(comm, x, lengths):
# +     given, lengths = lengths, list(lengths)
# +     given.clear()

# %% wrong: two ranks are suggested at least => generality other-number  from: message by message
# ~ while heads % fits and fits % heads: ==> while fits > 2 and heads % fits and fits % heads:

# %% wrong: few heads in contiguous memory => generality ~  from: one all-to-all of flat parts
# ~ j * heads // n + share].reshape(-1) ==> j * heads // n + share].view(-1) if heads < n else x.tensor_split(n)[j].reshape(-1)
"""
