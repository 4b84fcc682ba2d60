from collections.abc import Sequence

import torch

from course_chapters.ch15.exercises.probes import VISIT, Visited
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Worked, Wrong, first, judged
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import STREAM, UNKIND, PerRank, moved_early, secret, tensors, world
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import Meter, off_the_ring, ready_made, sent_again, too_few_bytes
from course_lib.cluster import Topology

right = Worked("ring-that-hangs")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, size, in_order = coin_of(rng), params["numbers"], "four ranks, each pair's operations in the order of issue"

    def blocks(n: int, *shape: int, dtype: torch.dtype = torch.float32) -> PerRank:
        return world(n, lambda: secret(coin, *(shape or (size,)), dtype=dtype))

    return [
        shown(in_order, "values:pass", per_rank=blocks(4), adversary=STREAM),
        hidden("nine ranks", "values:pass", per_rank=blocks(9)),
        *(hidden(ranks_text(n), "generality:ranks", per_rank=blocks(n)) for n in (1, 2, 3)),
        hidden("three ranks, blocks of three dimensions", "generality:tensors", per_rank=blocks(3, size, 3, 2)),
        hidden("three ranks, whole numbers", "generality:tensors", per_rank=blocks(3, dtype=torch.int64)),
        hidden("three ranks, bfloat16", "generality:tensors", per_rank=blocks(3, 2, size, dtype=torch.bfloat16)),
        hidden("two ranks, order of issue", "protocol:safe", per_rank=blocks(2), adversary=STREAM),
        *under(UNKIND, "three ranks", "protocol:safe", lambda: blocks(3)),
    ]


def _fault(case: Case, results: Sequence[Visited]) -> Fault | None:
    given, wants = tensors(case), right.value(case)
    n = len(given)
    for rank, (got, want) in enumerate(zip(results, wants, strict=True)):
        owners, summed = got["owners"], same(got["total"], want["total"])
        if summed and same(got["block"], given[rank]):
            continue
        if sorted(owners) != list(range(n)):
            visited = ", ".join(map(str, owners)) or "none"
            return "not-visited", f"Rank {rank} visited the blocks of {visited}; visit each of the {n} blocks once."
        if summed:
            whose = (f"rank {other}'s block" for other in range(n) if same(got["block"], given[other]))
            told = f"Rank {rank}'s own block, which the caller needs, holds {next(whose, 'other data')} afterwards."
            return "overwritten", f"{told} Into which tensor does each hop receive?"
        if case.adversary not in (None, STREAM):
            return moved_early(case, rank)
        lead = f"Rank {rank} of {n}: "
        return Wrong("wrong-sum", f"{lead}the sum is wrong. Had each block arrived, and was its owner right?", lead)
    return None


def _hidden(case: Case, meter: Meter) -> Fault | None:
    n = case.ranks or 1
    extra, latency = meter["seconds"] - n * VISIT, Topology().levels[0].latency
    if extra <= 0.5 * latency * max(n - 1, 1):
        return None
    return "not-hidden", f"The run takes {extra * 1e6:.0f} µs more than its {n} visits. Start a hop, visit, then wait."


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _fault(case, outcome.value), outcome.meter
    if case.kind == "protocol":
        return judged(case, fault)
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → … → N − 1 → 0"))
    least = [((case.ranks or 1) - 1) * nbytes(block) for block in tensors(case)]
    sent = sent_again(meter, least) or too_few_bytes(meter, least, least)
    cost = ("cost", "bytes", sent), ("cost", "hidden", _hidden(case, meter))
    return judged(case, fault, *cost, ("protocol", "neighbors", route))


JUDGING = Judging(
    shares="values:pass 0.35, cost:bytes 0.1, cost:hidden 0.15, protocol:neighbors 0.05, protocol:safe 0.15, "
    "generality:ranks 0.1, generality:tensors 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""On one stream, operations progress in the order of issue, so each receive waited behind a send that needed
the neighbor's receive; a buffering transport hides this. One batch has no inner order. Two buffers that swap roles are
too few: the second hop receives into the caller's own block.""",
    pytorch="""`torch.distributed.batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`;
`torch.distributed.tensor.experimental.context_parallel` rotates keys and values in this way.""",
)

ANSWERS = r'''from course_lib.cluster import P2POp
# %% right: worked
def ring_pass(comm, block, visit):
    """The sum of visit(block, owner) over all ranks' blocks. Budget: N − 1 blocks sent, hidden behind the visits."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    total = 0
    for hop in range(comm.size):
        works, coming = [], None
        if hop < comm.size - 1:
            coming = torch.empty_like(block)  # never the caller's own tensor
            works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
        total = total + visit(block, (comm.rank - hop) % comm.size)
        for work in works:
            work.wait()
        block = coming
    return total
# %% right: even ranks issue their send first, odd ones their receive
# -             works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
# +             halves = [(comm.isend, block, after), (comm.irecv, coming, before)]
# +             works = [start(tensor, peer) for start, tensor, peer in halves[:: -1 if comm.rank % 2 else 1]]
# %% right: two spare tensors that swap roles
# ~ total = 0 ==> spare, total = [torch.empty_like(block), torch.empty_like(block)], 0
# ~ coming = torch.empty_like(block)  # never the caller's own tensor ==> coming = spare[hop % 2]
# %% wrong: as it was found => protocol deadlock  from: the card
# %% wrong: the receive is posted in time, but the two are issued one by one => protocol deadlock
# ~ comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
# ~~ ==> [comm.isend(block, after), comm.irecv(coming, before)]
# %% wrong: no hang any more, and the caller loses its block => values overwritten
# ~ total = 0 ==> coming, total = torch.empty_like(block), 0
# ~ works, coming = [], None ==> works = []
# -             coming = torch.empty_like(block)  # never the caller's own tensor
# ~ block = coming ==> block, coming = coming, block
# %% wrong: waits before it visits => cost not-hidden
# -         total = total + visit(block, (comm.rank - hop) % comm.size)
#               work.wait()
# +         total = total + visit(block, (comm.rank - hop) % comm.size)
# %% wrong: one hop too many => cost sent-again
# ~ hop < comm.size - 1 ==> comm.size > 1
# %% wrong: owners are counted the other way round => values wrong-owners
# > a block is taken for the one of another rank: the owners are counted the other way round.
# ~ rank - hop ==> rank + hop
# %% wrong: the other way round the ring => protocol wrong-direction  from: owners are counted the other way round
# ~ block, after), P2POp(comm.irecv, coming, before) ==> block, before), P2POp(comm.irecv, coming, after)
# %% wrong: its own block straight to everybody => protocol not-a-neighbor
# ~ total = 0 ==> own, total = block, 0
# -             works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
# +             to, source = (comm.rank + hop + 1) % comm.size, (comm.rank - hop - 1) % comm.size
# +             works = comm.batch_isend_irecv([P2POp(comm.isend, own, to), P2POp(comm.irecv, coming, source)])
# %% wrong: visits what is still coming => values ~
# ~ total = 0 ==> total = visit(block, comm.rank)
# ~ in range(comm.size) ==> in range(comm.size - 1)
# ~ empty_like ==> zeros_like
# ~ visit(block, (comm.rank - hop) % comm.size) ==> visit(coming, (comm.rank - hop - 1) % comm.size)
# %% wrong: its own block is forgotten => values not-visited
# ~ visit(block, (comm.rank - hop) % comm.size) ==> (visit(block, (comm.rank - hop) % comm.size) if hop else 0)
# %% wrong: alone, it sends to itself => generality raised
# ~ comm.size - 1 ==> max(comm.size - 1, 1)
# %% wrong: tensors to receive into are always rows of floats => generality raised
# ~ None ==> torch.empty(len(block))
# -             coming = torch.empty_like(block)  # never the caller's own tensor
# %% wrong: all that an all-gather would do => values raised  from: worked
def ring_pass(comm, block, visit):
    rows = [torch.empty_like(block) for _ in range(comm.size)]
    comm.all_gather(rows, block)
    return sum(visit(row, owner) for owner, row in enumerate(rows))
# %% wrong: blocks sent in float64 => cost wider
# > does each hop send one block, in its own dtype?
# ~ coming = torch.empty_like(block) ==> coming, wide = torch.empty_like(block, dtype=torch.float64), block.double()
# ~ isend, block, after ==> isend, wide, after
# ~ block = coming ==> block = block if coming is None else coming.to(block.dtype)
# %% half: right, and one hop too many => 7.2  from: one hop too many
'''
