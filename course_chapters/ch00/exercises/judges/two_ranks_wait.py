from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_chapters.ch00.exercises.judges.shared import ADVERSARIES
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, hidden, oracle, shown, under
from course_grader.judging.ranks import STREAM, PerRank, over_ranks, tensors, world
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import sent_again, too_few_bytes


def partner_of(pairing: str, rank: int, ranks: int) -> int:
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


def _cases(params: Params, rng: Random) -> list[Case]:
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
    given = tensors(case)
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
    sizes = [nbytes(own) for own in tensors(case)]
    return sent_again(outcome.meter, sizes) or too_few_bytes(outcome.meter, [0] * len(sizes), sizes)


def _partner_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for src, dst, _, messages in outcome.meter["pairs"]:
        partner = partner_of(params["pairing"], src, case.ranks or 0)
        if messages and dst != partner:
            return "spoke-to-others", f"Rank {src} sent a message to rank {dst}; its partner is rank {partner}."
    return None


JUDGING = Judging(
    shares="values:exchange 0.3, cost:bytes 0.2, protocol:partner 0.1, protocol:safe 0.15, protocol:order 0.05, "
    "generality:pairs 0.1, generality:tensors 0.1",
    cases=_cases,
    verdicts=oracle(_tensor_fault, {"cost:bytes": _bytes_fault, "protocol:partner": _partner_fault}, always=True),
    why="""A `send` may return only when its receive has been posted. If both partners send first, neither reaches its
`recv`: each waits for the other. The cycle breaks if one of them receives first, and the smaller rank number decides
which. Starting the send and the receive in one batch breaks it too; then receive into a new tensor, and use neither
tensor before `wait()`.""",
    pytorch="`torch.distributed.batch_isend_irecv` starts both halves as one operation; on NCCL it becomes "
    "`ncclGroupStart … ncclGroupEnd`, which is what the thread NVIDIA/nccl #479 recommends.",
)

ANSWERS = r'''from course_lib.cluster import P2POp
# %% right: worked
def exchange(comm, x):
    """The partner's tensor, of the shape and dtype of `x`. Budget: each rank sends `x` once."""
    partner = comm.rank ^ 1
    theirs = torch.empty_like(x)
    if comm.rank < partner:  # the lower rank sends first, the other receives first
        comm.send(x, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(x, partner)
    return theirs
# %% right: both halves in one batch  from: worked
def exchange(comm, x):
    partner, theirs = comm.rank ^ 1, torch.empty_like(x)
    halves = [P2POp(comm.irecv, theirs, partner), P2POp(comm.isend, x.contiguous(), partner)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return theirs
# %% right: one batch, looked at until it is over, into numpy's memory where there is such a type  from: both halves in
# ~~ one batch
# ~ comm.irecv, theirs, ==> comm.irecv, theirs if x.dtype == torch.bfloat16 else theirs.numpy(),
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     works = comm.batch_isend_irecv(halves)
# +     while not all(work.is_completed() for work in works):
# +         pass
# %% right: in two pieces, flat, the odd rank first  from: worked
def exchange(comm, x):
    partner, mine = comm.rank ^ 1, x.reshape(-1).clone()
    theirs, cut = torch.empty_like(mine), x.numel() // 2
    for piece in (slice(0, cut), slice(cut, None)):
        for turn in (1, 0):
            if comm.rank % 2 == turn:
                comm.send(mine[piece], dst=partner)
            else:
                comm.recv(theirs[piece], src=partner)
    return theirs.reshape(x.shape)
# %% right: an object that is called, the higher rank posts its receive early
# ~ exchange ==> trade
#       else:
# -         comm.recv(theirs, partner)
# +         comm.irecv(theirs, src=partner).wait()
#       return theirs
# + class Exchange:
# +     def __call__(self, comm, x):
# +         return trade(comm, x)
# + exchange = Exchange()
# %% right: any variant
# -     partner = comm.rank ^ 1
# +     mirrored, half = comm.size - 1 - comm.rank, (comm.rank + comm.size // 2) % comm.size
# +     partner = {"neighbors": comm.rank ^ 1, "mirrored": mirrored, "halves": half}[params("two-ranks-wait").pairing]
# %% wrong: the function as it was found, which relies on a buffer => protocol deadlock
# ~ if comm.rank < partner: ==> if True:
# %% wrong: both receive first => protocol deadlock
# ~ if comm.rank < partner: ==> if False:
# %% wrong: only rank 0 begins => protocol deadlock
# ~ if comm.rank < partner: ==> if comm.rank == 0:
# %% wrong: starts to send, then receives: a hang where a pair's operations keep their order => protocol deadlock  from:
# ~~ worked
def exchange(comm, x):
    partner, theirs = comm.rank ^ 1, torch.empty_like(x)
    work = comm.isend(x, partner)
    comm.recv(theirs, partner)
    work.wait()
    return theirs
# %% half: the same is worth all but that one share => 4.75  from: starts to send, then receives: a hang where a pair's
# ~~ operations keep their order
# %% wrong: receives into the tensor that is still under way => values raised  from: starts to send, then receives: a
# ~~ hang where a pair's operations keep their order
# ~ torch.empty_like(x) ==> x
# %% wrong: clears the tensor that is still under way => protocol raised  from: starts to send, then receives: a hang
# ~~ where a pair's operations keep their order
# -     work = comm.isend(x, partner)
# +     mine = x.clone()
# +     work = comm.isend(mine, partner)
#       comm.recv(theirs, partner)
# +     mine.zero_()
# %% wrong: reads before wait => protocol in-flight
#           comm.send(x, partner)
# -         comm.recv(theirs, partner)
# +         work = comm.irecv(theirs, partner)
#       else:
# -         comm.recv(theirs, partner)
# +         work = comm.irecv(theirs, partner)
# -     return theirs
# +     answer = theirs.clone()
# +     work.wait()
# +     return answer
# %% wrong: sends to everyone and keeps one => cost told-everyone  from: worked
def exchange(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return seen[comm.rank ^ 1]
# %% wrong: sends everything twice to be safe => cost sent-again  from: in two pieces, flat, the odd rank first
# ~ (slice(0, cut), slice(cut, None)) ==> (slice(None), slice(None))
# %% wrong: says first how long it will be => cost sent-again  from: both halves in one batch
# ~ halves = [ ==> halves = [P2POp(comm.irecv, torch.zeros(1), partner), P2POp(comm.isend, torch.ones(1), partner),
# %% wrong: shares through a box that all ranks should see => values raised
# - def exchange(comm, x):
# + box = {}
# + def exchange(comm, x):
# ~ theirs = torch.empty_like(x) ==> theirs = box[comm.rank] = x.clone()
# ~ return theirs ==> return box[partner]
# %% wrong: returns its own => values own-tensor
# ~ return theirs ==> return x
# %% wrong: adds both and takes its own away => values rounded
# ~ return theirs ==> return theirs + 1000 * x - 1000 * x
# %% wrong: halves the bytes on the way => values rounded
#   def exchange(comm, x):
# +     return trade(comm, x.half() if x.dtype == torch.float32 else x).to(x.dtype)
# + def trade(comm, x):
# %% wrong: knows only two ranks => generality raised
# ~ comm.rank ^ 1 ==> 1 - comm.rank
# ~ if comm.rank < partner: ==> if comm.rank == 0:
# %% wrong: receives into 32-bit floats whatever comes => generality raised
# ~ empty_like(x) ==> empty(x.shape)
# %% half: right for six floats in pairs, not for other tensors => 4.5
# ~ empty_like(x) ==> empty(x.numel())
# %% wrong: the first rank pairs with the last => protocol spoke-to-others unless pairing=mirrored
# ~ rank ^ 1 ==> size - 1 - comm.rank
# %% wrong: asks a third rank whether all is well => protocol spoke-to-others
#       theirs = torch.empty_like(x)
# +     if comm.size > 2:  # nothing is in this message but a wait
# +         nothing, after, before = torch.empty(0), (comm.rank + 2) % comm.size, (comm.rank - 2) % comm.size
# +         works = [comm.isend(nothing, after), comm.irecv(torch.empty(0), before)]
# +         for work in works:
# +             work.wait()
# %% wrong: tensors of more than two ranks lose their shape => generality another-kind
# ~ return theirs ==> return theirs.reshape(-1) if comm.size > 2 else theirs
# %% wrong: one buffer for all results of a shape => values changed-results
# ~ exchange(comm, x) ==> exchange(comm, x, kept={})
# ~ theirs = torch.empty_like(x) ==> theirs = kept.setdefault((x.shape, x.dtype), torch.empty_like(x))
# %% wrong: the first result of a shape is kept => values -
# ~ exchange(comm, x) ==> exchange(comm, x, kept={})
# ~ return theirs ==> return kept.setdefault((x.shape, x.dtype), theirs)
# %% wrong: the return is missing => values returned-none
# ~ return theirs ==> theirs
# %% wrong: left as it is => not-answered  from: worked
def exchange(comm, x):
    raise NotImplementedError
'''
