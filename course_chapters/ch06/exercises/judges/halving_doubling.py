import torch

from course_chapters.ch06.exercises.judges.shared import ADVERSE
from course_grader.exercises.layouts import COLUMNS
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, judged, traffic
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, layouts, secret, sum_fault, tensors, world
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import Meter, ready_made, too_few_bytes, too_many_bytes
from course_lib.messages import count_text


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(n: int, size: int) -> PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("eight ranks", "values:sum", per_rank=data(8, 8 * length))]
    cases += [hidden("four ranks, other data", "values:sum", per_rank=data(4, 4 * length))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n, n * length)) for n in (1, 2, 3, 6, 7, 16)]
    cases += [hidden("three ranks, one number", "generality:ranks", per_rank=data(3, 1))]
    many = world(rng.choice((13, 14, 15)), lambda: secret(coin, 2, 3, 7, dtype=torch.int64))
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:ranks", per_rank=many)]
    turned = world(1, lambda: secret(coin, 4, 5, dtype=torch.int64), COLUMNS)
    cases += [hidden("one rank alone, a transposed matrix of integers", "generality:tensors", per_rank=turned)]
    for n, size in ((4, 7), (8, 3), (3, 0), (4, 0), (1, 0), (1, 1)):
        cases.append(
            hidden(f"{ranks_text(n)}, {count_text(size, 'number')}", "generality:tensors", per_rank=data(n, size))
        )
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 2).items()]
    return cases + under(ADVERSE, "four ranks", "protocol:safe", lambda: data(4, 12))


def _bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    n, elements, item = len(given), given[0].numel(), given[0].element_size()
    if not elements:
        return None
    core = 1 << (n.bit_length() - 1)
    rounds = 2 * (core.bit_length() - 1)
    most = 2 * (elements - elements // core) + (rounds if elements % core else 0) + (elements if core != n else 0)
    least = [elements * item if n > 1 else 0] * n
    over = too_many_bytes(meter, elements * item, most * item, "halving and doubling needs")
    return over or too_few_bytes(meter, least, least)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given, meter = tensors(case), outcome.meter
    fault, n = sum_fault(case, given, outcome.value), len(given)
    if case.adversary is not None:
        return judged(case, fault)
    think = "Do both partners send at the same time, and does their distance halve or double each round?"
    rounds = traffic.too_many_rounds(meter, 2 * (n - 1).bit_length() + 2, think)
    costs = ("cost", "bytes", _bytes(case, meter)), ("cost", "rounds", rounds)
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


JUDGING = Judging(
    shares="values:sum 0.25, cost:bytes 0.15, cost:rounds 0.2, protocol:by-hand 0.05, protocol:safe 0.1, "
    "generality:ranks 0.15, generality:tensors 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="Each exchange halves what a rank is responsible for, so the bytes are S/2 + S/4 + … on the way down and the "
    "same on the way back: a ring's bytes in 2·log₂ N rounds instead of 2(N − 1). The price: partners are far "
    "apart, and if N is not a power of two, it costs two whole messages more.",
    pytorch="MPICH and gloo implement it. For the same reason, NCCL offers `Tree` and, for the two halves in "
    "power-of-two groups, `PAT`.",
)

ANSWERS = r'''# %% right: worked
def halving_doubling(comm, x):
    """The sum of all ranks' `x`. Budget: 2·ceil(log2 N) + 2 rounds; a ring's bytes if N is 2**k."""
    n, me, flat = comm.size, comm.rank, x.reshape(-1).clone()
    core = 1 << (n.bit_length() - 1)  # the largest power of two that fits

    def swap(outgoing, incoming, partner):
        ops = [P2POp(comm.isend, outgoing, partner), P2POp(comm.irecv, incoming, partner)]
        for work in comm.batch_isend_irecv(ops):
            work.wait()

    if me >= core:  # send the tensor first, and get the result last
        comm.send(flat, me - core)
        comm.recv(flat, me - core)
        return flat.reshape(x.shape)
    if me + core < n:
        extra = torch.empty_like(flat)
        comm.recv(extra, me + core)
        flat += extra
    low, high, distance, taken = 0, flat.numel(), core // 2, []
    while distance:
        middle, partner = (low + high) // 2, me ^ distance
        lower, upper = slice(low, middle), slice(middle, high)
        keep, give = (lower, upper) if me < partner else (upper, lower)
        arrived = torch.empty_like(flat[keep])
        swap(flat[give], arrived, partner)
        flat[keep] += arrived
        taken.append((partner, keep, give))
        low, high, distance = keep.start, keep.stop, distance // 2
    for partner, keep, give in reversed(taken):
        swap(flat[keep], flat[give], partner)
    if me + core < n:
        comm.send(flat, me + core)
    return flat.reshape(x.shape)
# %% right: ranks counted from the other end, isend and recv
# ~ .rank, ==> .size - 1 - comm.rank,
# -         ops = [P2POp(comm.isend, outgoing, partner), P2POp(comm.irecv, incoming, partner)]
# -         for work in comm.batch_isend_irecv(ops):
# -             work.wait()
# +         work = comm.isend(outgoing, n - 1 - partner)
# +         comm.recv(incoming, n - 1 - partner)
# +         work.wait()
# ~ send(flat, me - core) ==> send(flat, n - 1 - me + core)
# ~ recv(flat, me - core) ==> recv(flat, n - 1 - me + core)
# ~ extra, me + ==> extra, n - 1 - me -
# ~ flat, me + ==> flat, n - 1 - me -
# %% wrong: power of two only => generality raised
# ~ core = 1 << (n.bit_length() - 1) ==> core = n
# %% wrong: recursive doubling with whole tensors => cost whole-tensors
# ~ keep, give = (lower, upper) if me < partner else (upper, lower) ==> keep = give = slice(None)
# -         taken.append((partner, keep, give))
# -         low, high, distance = keep.start, keep.stop, distance // 2
# +         distance //= 2
# %% wrong: a ring, right but in 2(N - 1) rounds => cost too-many-rounds
def halving_doubling(comm, x):
    n, me = comm.size, comm.rank
    flat = x.reshape(-1).clone()
    chunks = list(flat.tensor_split(n))
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = torch.empty_like(chunks[into])
        work = comm.isend(chunks[out], (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived)
    return flat.reshape(x.shape)
# %% wrong: halves but does not double => values one-chunk-only
# > the parts have been summed, but not gathered: go back along the same partners, and send the finished parts.
# -     for partner, keep, give in reversed(taken):
# -         swap(flat[keep], flat[give], partner)
# %% wrong: gathers in the order in which it scattered => values not-reversed
# > the parts are gathered in the order in which they were halved; the way back begins with the last partner.
# ~ in reversed(taken) ==> in taken
# %% wrong: both partners send first => protocol deadlock
# -         ops = [P2POp(comm.isend, outgoing, partner), P2POp(comm.irecv, incoming, partner)]
# -         for work in comm.batch_isend_irecv(ops):
# -             work.wait()
# +         comm.send(outgoing, partner)
# +         comm.recv(incoming, partner)
# %% wrong: keeps and gives the same half on both sides => values same-half
# > both partners keep the same half and send the other one, so halves are added that do not belong together.
# ~ (lower, upper) if me < partner else (upper, lower) ==> (lower, upper)
# %% wrong: surplus ranks are summed but never told => generality never-told
# > the ranks beyond the largest power of two still hold what they held; they receive the result at the end.
# -         comm.recv(flat, me - core)
#           swap(flat[keep], flat[give], partner)
# -     if me + core < n:
# -         comm.send(flat, me + core)
# %% wrong: at most eight ranks in the core => cost too-many-bytes
# ~ 1 << (n.bit_length() - 1) ==> min(8, 1 << (n.bit_length() - 1))
# %% half: right for powers of two => 10.2  from: surplus ranks are summed but never told
'''
