from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.exercises.layouts import COLUMNS
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Wrong, judged, ranks
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, moved_early, secret
from course_grader.judging.tensors import coin_of, nbytes, not_like, same
from course_grader.judging.traffic import Meter, ready_made, sent_again, too_few_bytes, too_long

Shape = tuple[int, ...]


def _cases(params: Params, rng: Random) -> list[Case]:
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


def _wants(case: Case) -> list[tuple[Tensor, Tensor]]:
    """What the rank before sent on, and what the rank after sent back, for each rank."""
    given = case.per_rank or ()
    return [(given[rank - 1][0], given[(rank + 1) % len(given)][1]) for rank in range(len(given))]


def _fault(case: Case, results: Sequence[Sequence[object]]) -> Fault | None:
    n = len(results)
    for rank, (got, want) in enumerate(zip(results, _wants(case), strict=True)):
        words = f"what rank {(rank - 1) % n} sent on", f"what rank {(rank + 1) % n} sent back"
        for one, wanted, text in zip(got, want, words, strict=True):
            if same(one, wanted):
                continue
            fault = not_like(one, wanted, rank)
            if fault is None and case.adversary not in (None, ranks.STREAM):
                return moved_early(case, rank)
            fault = fault or ("other-numbers", f"Rank {rank} of {n} did not return {text}.")
            return Wrong(*fault[:2], lead=f"Rank {rank} of {n}: ")
    return None


def _crossed(case: Case, results: Sequence[Sequence[object]]) -> bool:
    """Whether every rank has its two messages the wrong way round."""
    pairs = zip(results, _wants(case), strict=True)
    return all(same(got[0], want[1]) and same(got[1], want[0]) for got, want in pairs)


def _bytes(case: Case, meter: Meter) -> Fault | None:
    n = len(case.per_rank or ())
    least = [nbytes(ahead) + nbytes(behind) if n > 1 else 0 for ahead, behind, *_ in case.per_rank or ()]
    return sent_again(meter, least, neighbors=2) or too_few_bytes(meter, least, least)


def _partners(meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    n = len(meter["bytes_sent"])
    for src, dst, _, messages in meter["pairs"]:
        if messages and (dst - src) % n not in (1, n - 1):
            return "not-a-neighbor", f"Rank {src} sent to rank {dst}, which is not its neighbor on a ring of {n}."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _fault(case, outcome.value), outcome.meter
    if case.part == "order" and _crossed(case, outcome.value):
        fault = None  # it did not hang, which is the question here; swapped messages cost another share
    if case.adversary not in (None, ranks.STREAM):
        return judged(case, fault)
    late = too_long(meter, 6, "It no longer hangs. Now let all ranks act at the same time.")
    costs = ("cost", "bytes", _bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "neighbors", _partners(meter)))


JUDGING = Judging(
    shares="values:edges 0.3, cost:bytes 0.1, cost:time 0.1, protocol:neighbors 0.05, protocol:order 0.1, "
    "protocol:safe 0.1, generality:ranks 0.15, generality:tensors 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="On one stream, a pair's operations run in the order of issue. Both neighbors issued their send first, so "
    "each receive was queued behind a send that waited for the other's receive. One batch has no order inside; "
    "alternatively, even ranks send while odd ranks receive. With two ranks, both messages come from the same "
    "peer, and only order or a tag distinguishes them.",
    pytorch="`batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`; Megatron-LM's pipeline uses it, or even "
    "ranks first.",
)

ANSWERS = r'''# %% right: worked
def swap_edges(comm, ahead, behind):
    """(What the previous rank sent ahead, what the next one sent behind). Budget: each tensor once."""
    if comm.size == 1:
        return ahead, behind
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    from_before, from_after = torch.empty_like(ahead), torch.empty_like(behind)
    sends = [P2POp(comm.isend, ahead, after), P2POp(comm.isend, behind, before)]
    receives = [P2POp(comm.irecv, from_before, before), P2POp(comm.irecv, from_after, after)]
    for work in comm.batch_isend_irecv(sends + receives):
        work.wait()
    return from_before, from_after
# %% right: even ranks send while odd ones receive
# -     sends = [P2POp(comm.isend, ahead, after), P2POp(comm.isend, behind, before)]
# -     receives = [P2POp(comm.irecv, from_before, before), P2POp(comm.irecv, from_after, after)]
# -     for work in comm.batch_isend_irecv(sends + receives):
# -         work.wait()
# +     steps = [(comm.send, ahead, after), (comm.recv, from_before, before)]
# +     steps += [(comm.send, behind, before), (comm.recv, from_after, after)]
# +     for step in (0, 1, 2, 3) if comm.rank % 2 == 0 else (1, 0, 3, 2):
# +         act, tensor, peer = steps[step]
# +         act(tensor, peer)
# %% wrong: as it was found => protocol deadlock  from: the card
# %% wrong: rank 0 alone turns its order round => cost in-a-row  from: even ranks send while odd ones receive
# ~ comm.rank % 2 == 0 ==> comm.rank
# %% wrong: with two ranks the messages cross => generality crossed
# > with two ranks, both messages come from the same peer, and they are swapped. They are matched in the order in which
# > the other side sends, or by tag.
# ~ sends + receives ==> sends + receives[::-1]
# %% wrong: posts in an order that neighbors share, but with two ranks it hangs in order of issue => protocol
# ~~ deadlock  from: as it was found
#   def swap_edges(comm, ahead, behind):
# +     if comm.size == 1:
# +         return ahead, behind
# ~ ), comm.isend(behind ==> ), comm.irecv(from_before
# ~ irecv(from_before, before) ==> isend(behind, before)
# %% wrong: alone, it sends to itself => generality raised
# -     if comm.size == 1:
# -         return ahead, behind
# %% wrong: the pair the wrong way round => values wrong-way-round
# > the pair is the wrong way round: `from_before` comes first in the result.
# ~ return from_before, from_after ==> return from_after, from_before
# %% wrong: its own tensors => values own-tensor
# > these are the rank's own tensors; return the two that arrived.
# ~ return from_before, from_after ==> return ahead, behind
# %% wrong: takes buffers of one kind for both => generality raised
# ~ (behind) ==> (ahead)
# %% wrong: reads before it has waited => values reads-early
# > this is what the tensors held before anything arrived; wait for the receives, then read.
# ~ empty_like(ahead), torch.empty_like ==> zeros_like(ahead), torch.zeros_like
# -     for work in comm.batch_isend_irecv(sends + receives):
# +     works = comm.batch_isend_irecv(sends + receives)
# +     answer = from_before.clone(), from_after.clone()
# +     for work in works:
# ~ return from_before, from_after ==> return answer
# %% wrong: both tensors to both sides => cost sent-again
# -     sends = [P2POp(comm.isend, ahead, after), P2POp(comm.isend, behind, before)]
# -     receives = [P2POp(comm.irecv, from_before, before), P2POp(comm.irecv, from_after, after)]
# +     more = torch.empty_like(behind), torch.empty_like(ahead)
# +     sends = [P2POp(comm.isend, each, to, tag) for to in (after, before) for tag, each in enumerate((ahead, behind))]
# +     receives = [P2POp(comm.irecv, each, before, tag) for tag, each in enumerate((from_before, more[0]))]
# +     receives += [P2POp(comm.irecv, each, after, tag) for tag, each in enumerate((more[1], from_after))]
# %% wrong: what goes ahead is float32 => generality raised
# ~ empty_like(ahead) ==> empty(ahead.shape)
# %% half: right for three ranks and more => 4.5  from: with two ranks the messages cross
'''
