"""Judge of two-ranks-wait: two ranks wait for each other."""

import random
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_chapters.ch00.exercises.judges.shared import ADVERSARIES
from course_grader.judging import Fault, Judging, Params, oracle
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.ranks import STREAM, PerRank, over_ranks, world
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import partners, too_few_bytes
from course_grader.records import Case, Outcome


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


JUDGING = Judging(
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

ANSWERS = r"""import torch


# %% right: the lower rank sends first
def exchange(comm, x):
    partner = comm.rank ^ 1
    theirs = torch.empty_like(x)
    if comm.rank < partner:
        comm.send(x, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(x, partner)
    return theirs


# %% right: both halves in one batch
from course_lib.cluster import P2POp


def exchange(comm, x):
    partner = comm.rank ^ 1
    theirs = torch.empty_like(x)
    halves = [P2POp(comm.irecv, theirs, partner), P2POp(comm.isend, x.contiguous(), partner)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return theirs


# %% right: in two pieces, flat, the odd rank first
def exchange(comm, x):
    partner = comm.rank ^ 1
    mine, theirs = x.reshape(-1).clone(), torch.empty(x.numel(), dtype=x.dtype)
    cut = x.numel() // 2
    for piece in (slice(0, cut), slice(cut, None)):
        if comm.rank % 2:
            comm.send(mine[piece], partner)
            comm.recv(theirs[piece], partner)
        else:
            comm.recv(theirs[piece], partner)
            comm.send(mine[piece], partner)
    return theirs.reshape(x.shape)


# %% right: an object that is called, the odd rank posts its receive early
class Exchange:
    def __call__(self, comm, x):
        lower = comm.rank // 2 * 2
        partner = 2 * lower + 1 - comm.rank
        theirs = x.new_empty(x.shape)
        if comm.rank == lower:
            comm.send(x, dst=partner)
            comm.recv(theirs, src=partner)
            return theirs
        work = comm.irecv(theirs, src=partner)
        work.wait()
        comm.send(x, dst=partner)
        return theirs


exchange = Exchange()


# %% right: one batch, looked at until it is over, into numpy's memory where there is such a type
from course_lib.cluster import P2POp


def exchange(comm, x):
    partner = comm.rank + 1 - 2 * (comm.rank % 2)
    theirs = torch.zeros_like(x)
    into = theirs if x.dtype == torch.bfloat16 else theirs.numpy()
    works = comm.batch_isend_irecv([P2POp(comm.isend, x, partner), P2POp(comm.irecv, into, partner)])
    while not all(work.is_completed() for work in works):
        pass
    return theirs


# %% right: any variant
from course_lib import params

VARIANT = params("two-ranks-wait")


def exchange(comm, x):
    other = {
        "neighbors": comm.rank ^ 1,
        "mirrored": comm.size - 1 - comm.rank,
        "halves": (comm.rank + comm.size // 2) % comm.size,
    }[VARIANT.pairing]
    theirs = torch.empty_like(x)
    for act in ("send", "recv") if comm.rank < other else ("recv", "send"):
        getattr(comm, act)(x if act == "send" else theirs, other)
    return theirs


# %% wrong: the function as it was found, which relies on a buffer => protocol deadlock
def exchange(comm, x):
    partner = comm.rank ^ 1
    theirs = torch.empty_like(x)
    comm.send(x, partner)
    comm.recv(theirs, partner)
    return theirs


# %% wrong: both receive first => protocol deadlock  from: the function as it was found, which relies on a buffer
#       theirs = torch.empty_like(x)
# +     comm.recv(theirs, partner)
# -     comm.recv(theirs, partner)


# %% wrong: sends to everyone and keeps one => cost told-everyone
def exchange(comm, x):
    works = [comm.isend(x, r) for r in range(comm.size) if r != comm.rank]
    seen = {r: torch.empty_like(x) for r in range(comm.size) if r != comm.rank}
    for r, into in seen.items():
        comm.recv(into, r)
    for work in works:
        work.wait()
    return seen[comm.rank ^ 1]


# %% wrong: shares through a box that all ranks should see => values raised
box = {}


def exchange(comm, x):
    box[comm.rank] = x
    token = torch.zeros(1)
    if comm.rank % 2 == 0:
        comm.send(token, comm.rank + 1)
    else:
        comm.recv(token, comm.rank - 1)
    return box[comm.rank ^ 1]


# %% wrong: returns its own => values own-tensor  from: the lower rank sends first
# ~ return theirs ==> return x


# %% wrong: sends everything twice to be safe => cost sent-twice
def exchange(comm, x):
    partner = comm.rank ^ 1
    theirs = torch.empty_like(x)
    for _ in range(2):
        if comm.rank < partner:
            comm.send(x, partner)
            comm.recv(theirs, partner)
        else:
            comm.recv(theirs, partner)
            comm.send(x, partner)
    return theirs


# %% wrong: receives into the tensor that is still under way => values raised
def exchange(comm, x):
    partner = comm.rank ^ 1
    work = comm.isend(x, partner)
    comm.recv(x, partner)
    work.wait()
    return x


# %% wrong: clears the tensor that is still under way => protocol raised  from: the lower rank sends first
# -         comm.send(x, partner)
# -         comm.recv(theirs, partner)
# +         mine = x.clone()
# +         work = comm.isend(mine, partner)
# +         comm.recv(theirs, partner)
# +         mine.zero_()
# +         work.wait()


# %% wrong: reads before wait => protocol in-flight
def exchange(comm, x):
    partner = comm.rank ^ 1
    theirs = torch.empty_like(x)
    if comm.rank < partner:
        comm.send(x, partner)
        work = comm.irecv(theirs, partner)
    else:
        work = comm.irecv(theirs, partner)
        comm.send(x, partner)
    answer = theirs.clone()
    work.wait()
    return answer


# %% wrong: knows only two ranks => generality raised  from: the lower rank sends first
# ~ comm.rank ^ 1 ==> 1 - comm.rank
# ~ if comm.rank < partner: ==> if comm.rank == 0:


# %% wrong: adds both and takes its own away => values rounded
def exchange(comm, x):
    partner = comm.rank ^ 1
    total = torch.empty_like(x)
    if comm.rank < partner:
        comm.send(x, partner)
        comm.recv(total, partner)
    else:
        comm.recv(total, partner)
        comm.send(x, partner)
    total += 1000 * x
    return total - 1000 * x


# %% wrong: receives into 32-bit floats whatever comes => generality raised  from: the lower rank sends first
# ~ empty_like(x) ==> empty(x.shape)

# %% wrong: the first rank pairs with the last => protocol spoke-to-others unless pairing=mirrored  from: the lower rank sends first
# ~ rank ^ 1 ==> size - 1 - comm.rank

# %% wrong: only rank 0 begins => protocol deadlock  from: the lower rank sends first
# ~ if comm.rank < partner: ==> if comm.rank == 0:


# %% wrong: says first how long it will be => cost sent-twice
def exchange(comm, x):
    partner, size = comm.rank ^ 1, torch.tensor([x.numel()])
    theirs, coming = torch.empty_like(x), torch.empty_like(size)
    for mine, into in ((size, coming), (x, theirs)):
        if comm.rank < partner:
            comm.send(mine, partner)
            comm.recv(into, partner)
        else:
            comm.recv(into, partner)
            comm.send(mine, partner)
    return theirs


# %% wrong: halves the bytes on the way => values rounded
def exchange(comm, x):
    partner = comm.rank ^ 1
    mine = x.half() if x.dtype == torch.float32 else x
    theirs = torch.empty_like(mine)
    if comm.rank < partner:
        comm.send(mine, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(mine, partner)
    return theirs.to(x.dtype)


# %% wrong: asks a third rank whether all is well => protocol spoke-to-others  from: the lower rank sends first
#       theirs = torch.empty_like(x)
# +     if comm.size > 2:  # nothing is in this message but a wait
# +         nothing, after, before = torch.empty(0), (comm.rank + 2) % comm.size, (comm.rank - 2) % comm.size
# +         works = [comm.isend(nothing, after), comm.irecv(torch.empty(0), before)]
# +         for work in works:
# +             work.wait()

# %% wrong: the return is missing => values returned-none  from: the lower rank sends first
# -     return theirs


# %% wrong: starts to send, then receives: a hang where a pair's operations keep their order => protocol deadlock
def exchange(comm, x):
    partner = comm.rank + 1 if comm.rank % 2 == 0 else comm.rank - 1
    theirs = torch.zeros(x.shape, dtype=x.dtype)
    work = comm.isend(x, partner)
    comm.recv(theirs, partner)
    work.wait()
    return theirs


# %% wrong: left as it is => not-answered
def exchange(comm, x):
    raise NotImplementedError


# %% half: right for six floats in pairs, not for other tensors => 4.5  from: the lower rank sends first
# ~ empty_like(x) ==> empty(x.numel())

# %% half: the same is worth all but that one share => 4.75  from: starts to send, then receives: a hang where a pair's operations keep their order

# %% wrong: tensors of more than two ranks lose their shape => generality another-kind  from: the lower rank sends first
# ~ return theirs ==> return theirs.reshape(-1) if comm.size > 2 else theirs

# %% wrong: one buffer for all results of a shape => values changed-results  from: the lower rank sends first
# - def exchange(comm, x):
# + def exchange(comm, x, kept={}):
# -     theirs = torch.empty_like(x)
# +     theirs = kept.setdefault((x.shape, x.dtype), torch.empty_like(x))

# %% wrong: the first result of a shape is kept => values -  from: the lower rank sends first
# - def exchange(comm, x):
# + def exchange(comm, x, kept={}):
# ~ return theirs ==> return kept.setdefault((x.shape, x.dtype), theirs)
"""
