"""Judge of hang-repair: it runs here and hangs there."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.layouts import COLUMNS
from course_lib.judging import Fault, Judging, Params, judged, ranks
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import PerRank, moved_early, secret
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.judging.traffic import Meter, ready_made, sent_again, too_few_bytes, too_long
from course_lib.records import Case, Outcome, Verdict

Shape = tuple[int, ...]


def _edge_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, ahead: Shape = (size,), behind: Shape = (size,), *kinds: torch.dtype) -> PerRank:
        one, two = kinds or (torch.float32, torch.float32)
        return tuple((secret(coin, *ahead, dtype=one), secret(coin, *behind, dtype=two)) for _ in range(n))

    in_order = "four ranks, each pair's operations in the order of issue"
    cases = [shown(in_order, "values:edges", per_rank=data(4), adversary=ranks.STREAM)]
    cases += [hidden("eight ranks", "values:edges", per_rank=data(8))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n)) for n in (1, 2, 3)]
    columns = data(5, (size, 1), (3, 2), torch.float32, torch.int64)
    cases += [hidden("five ranks, a column ahead and integers behind", "generality:tensors", per_rank=columns)]
    cases += [hidden("two ranks, different shapes", "generality:tensors", per_rank=data(2, (2, size), (3,)))]
    for n in (1, 2, rng.choice((11, 13))):
        given = data(n, (2, 3, 11), (5,), torch.bfloat16, torch.int64)
        cases.append(hidden(f"{ranks_text(n)}, neither of them float32", "generality:tensors", per_rank=given))
    turned = tuple((*edges, COLUMNS) for edges in data(3, (3, 4), (5, 2)))
    cases += [hidden("three ranks, transposed", "generality:tensors", per_rank=turned)]
    cases += [hidden("two ranks, order of issue", "protocol:order", per_rank=data(2), adversary=ranks.STREAM_LATE)]
    return cases + under(ranks.UNKIND, "three ranks", "protocol:safe", lambda: data(3))


def _edge_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given, n = case.per_rank or (), len(case.per_rank or ())
    for rank, got in enumerate(results):
        before, after = (rank - 1) % n, (rank + 1) % n
        wants = (given[before][0], f"what rank {before} sent on"), (given[after][1], f"what rank {after} sent back")
        for one, (want, words) in zip(got, wants, strict=True):
            if same(one, want):
                continue
            others = (given[before][1], given[after][0], given[before][0], given[after][1])
            if n > 1 and any(same(one, other) for other in others):
                return "crossed", (
                    f"Rank {rank} of {n} has its two messages swapped. Messages of one pair are matched in the order in which they "
                    "were sent, or by tag; `from_before` comes first in the result."
                )
            if fault := not_like(one, want, rank):
                return fault
            if case.adversary is not None and case.adversary != ranks.STREAM:
                return moved_early(case, rank)
            if any(same(one, mine) for mine in given[rank][:2]):
                return "own-tensor", f"Rank {rank} returned one of its own tensors instead of {words}."
            return "other-numbers", f"Rank {rank} of {n} did not return {words}."
    return None


def _edge_bytes(case: Case, meter: Meter) -> Fault | None:
    n = len(case.per_rank or ())
    least = [nbytes(ahead) + nbytes(behind) if n > 1 else 0 for ahead, behind, *_ in case.per_rank or ()]
    return sent_again(meter, least, neighbors=2) or too_few_bytes(meter, least, least)


def _edge_partners(meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    n = len(meter["bytes_sent"])
    for src, dst, _, messages in meter["pairs"]:
        if messages and (dst - src) % n not in (1, n - 1):
            return "not-a-neighbor", f"Rank {src} sent to rank {dst}, which is not its neighbor on a ring of {n}."
    return None


def _edge_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _edge_fault(case, outcome.value), outcome.meter
    if case.part == "order" and fault is not None and fault[0] == "crossed":
        fault = None  # it did not hang, which is the question here; swapped messages cost another share
    if case.adversary not in (None, ranks.STREAM):
        return judged(case, fault)
    late = too_long(meter, 6, "It no longer hangs. Now let all ranks act at the same time.")
    costs = ("cost", "bytes", _edge_bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "neighbors", _edge_partners(meter)))


JUDGING = Judging(
    shares="values:edges 0.3, cost:bytes 0.1, cost:time 0.1, protocol:neighbors 0.05, protocol:order 0.1, "
    "protocol:safe 0.1, generality:ranks 0.15, generality:tensors 0.1",
    cases=_edge_cases,
    verdicts=_edge_verdicts,
    why="On one stream, a pair's operations run in the order of issue. Both neighbors issued their send first, so each receive "
    "was queued behind a send that waited for the other's receive. One batch has no order inside; alternatively, even ranks send "
    "while odd ranks receive. With two ranks, both messages come from the same peer, and only order or a tag distinguishes them.",
    pytorch="`batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`; Megatron-LM's pipeline uses it, or even ranks first.",
)

ANSWERS = r"""import torch
from course_lib.cluster import P2POp


# %% right: one batch, receives in the order in which the other side sends
def swap_edges(comm, ahead, behind):
    if comm.size == 1:
        return ahead, behind
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    from_before, from_after = torch.empty_like(ahead), torch.empty_like(behind)
    halves = [
        P2POp(comm.isend, ahead, after),
        P2POp(comm.isend, behind, before),
        P2POp(comm.irecv, from_before, before),
        P2POp(comm.irecv, from_after, after),
    ]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return from_before, from_after


# %% right: even ranks send while odd ones receive
def swap_edges(comm, ahead, behind):
    if comm.size == 1:
        return ahead, behind
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    from_before, from_after = torch.empty_like(ahead), torch.empty_like(behind)
    if comm.rank % 2 == 0:
        comm.send(ahead, after)
        comm.recv(from_before, before)
        comm.send(behind, before)
        comm.recv(from_after, after)
    else:
        comm.recv(from_before, before)
        comm.send(ahead, after)
        comm.recv(from_after, after)
        comm.send(behind, before)
    return from_before, from_after


# %% wrong: as it was found => protocol deadlock  from: the card


# %% wrong: rank 0 alone turns its order round => cost in-a-row  from: even ranks send while odd ones receive
# ~ comm.rank % 2 == 0 ==> comm.rank

# %% wrong: with two ranks the messages cross => generality crossed  from: one batch, receives in the order in which the other side sends
#           P2POp(comm.isend, ahead, after),
# +         P2POp(comm.irecv, from_after, after),
# -         P2POp(comm.irecv, from_after, after),

# %% wrong: posts in an order that neighbors share, but with two ranks it hangs in order of issue => protocol deadlock  from: as it was found
#   def swap_edges(comm, ahead, behind):
# +     if comm.size == 1:
# +         return ahead, behind
# ~ ), comm.isend(behind ==> ), comm.irecv(from_before
# ~ irecv(from_before, before) ==> isend(behind, before)

# %% wrong: alone, it sends to itself => generality raised  from: one batch, receives in the order in which the other side sends
# -     if comm.size == 1:
# -         return ahead, behind

# %% wrong: the pair the wrong way round => values crossed  from: one batch, receives in the order in which the other side sends
# ~ return from_before, from_after ==> return from_after, from_before

# %% wrong: takes buffers of one kind for both => generality raised  from: one batch, receives in the order in which the other side sends
# ~ (behind) ==> (ahead)

# %% wrong: reads before it has waited => values -  from: one batch, receives in the order in which the other side sends
# ~ empty_like(ahead), torch.empty_like ==> zeros_like(ahead), torch.zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     answer = from_before.clone(), from_after.clone()
# +     for work in works:
# ~ return from_before, from_after ==> return answer


# %% wrong: both tensors to both sides => cost sent-again
def swap_edges(comm, ahead, behind):
    if comm.size == 1:
        return ahead, behind
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = {}
    for side, source in ((after, before), (before, after)):
        for tag, tensor in enumerate((ahead, behind)):
            got[source, tag] = torch.empty_like(tensor)
            halves = [P2POp(comm.isend, tensor, side, tag), P2POp(comm.irecv, got[source, tag], source, tag)]
            for work in comm.batch_isend_irecv(halves):
                work.wait()
    return got[before, 0], got[after, 1]


# %% wrong: what goes ahead is float32 => generality raised  from: even ranks send while odd ones receive
# ~ empty_like(ahead) ==> empty(ahead.shape)

# %% half: right for three ranks and more => 4.5  from: with two ranks the messages cross
"""
