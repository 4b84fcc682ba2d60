from collections.abc import Sequence

import torch

from course_grader.exercises.layouts import COLUMNS, MEASURED, WEIGHED
from course_grader.judging import Fault, Judging, Params, Random, Weighed, first, is_number, judged, ranks, verdict
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import layouts, plain_sum, secret, sum_fault, tensors, world
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes, too_long, too_many_bytes
from course_grader.records import Case, Outcome, Verdict
from course_lib.messages import count_text


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(n: int, size: int) -> ranks.PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("eight ranks", "values:sum", per_rank=data(8, 8 * length))]
    cases += [hidden("four ranks, other data", "values:sum", per_rank=data(4, 4 * length))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n, n * length)) for n in (1, 2, 5)]
    for n, size in ((4, 10), (5, 3), (3, 0), (4, 0), (1, 0), (3, 1), (1, 1)):
        cases.append(
            hidden(f"{ranks_text(n)}, {count_text(size, 'number')}", "generality:sizes", per_rank=data(n, size))
        )
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 4).items()]
    many = world(rng.choice((9, 11)), lambda: secret(coin, 2, 3, 11, dtype=torch.int64))
    turned = world(1, lambda: secret(coin, 4, 5, dtype=torch.int64), COLUMNS)
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:tensors", per_rank=many)]
    cases += [hidden("one rank alone, a transposed matrix of integers", "generality:tensors", per_rank=turned)]
    measured = world(8, lambda: secret(coin, 800), MEASURED)
    cases += [hidden("eight ranks, memory", "cost:memory", per_rank=measured)]
    return cases + under(ranks.UNKIND, "four ranks", "protocol:safe", lambda: data(4, 12))


def _memory(case: Case, results: Sequence[tuple[torch.Tensor, float]]) -> Fault | None:
    """At most a copy of the tensor and four chunks beyond `x`: two that arrive, one that a sum makes, one that a worker
    keeps."""
    given, n = tensors(case), len(case.per_rank or ())
    if not all(type(row) in (tuple, list) and len(row) == 2 and is_number(row[1]) for row in results):
        return "not-measured", "The memory of this run could not be measured."
    if fault := sum_fault(case, given, [row[0] for row in results]):
        return fault
    size, chunk = nbytes(given[0]), nbytes(given[0]) / n
    beyond = sorted(row[1] for row in results)[n // 2] - size  # the median: one rank may hold what the machine copies
    if beyond <= size + 4 * chunk:
        return None
    return "too-much-memory", (
        f"At the peak, {beyond / size:.3g}·S bytes are live in addition to `x`; a copy and a chunk or two are enough. "
        "Work in one flat copy, and make the chunks views of it."
    )


def _weighed(params: Params, rng: Random) -> Weighed:
    """15 MB on four ranks, created in the worker: right answers use 2 to 4.25 times that, wrong ones at least 5
    times."""
    coin, ranks, length = coin_of(rng), 4, 4096

    def case(name: str, times: int) -> Case:
        places = torch.randint(times * length, (64,), generator=coin)
        per_rank = tuple((secret(coin, length), times, places, WEIGHED) for _ in range(ranks))
        return hidden(name, "cost:memory", per_rank=per_rank, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        tables, places = [row[0] for row in large.per_rank or ()], (large.per_rank or ())[0][2]
        want = plain_sum(tables)[places % length]
        sent, got = outcome.meter.get("bytes_sent", [0]), outcome.value if type(outcome.value) is list else []
        return min(sent) >= size and len(got) == ranks and all(same(each, want) for each in got)

    size = 4 * length * 231
    large = case("four ranks with 3.8 MB each", 231)
    return Weighed(case=large, warm=case("four ranks, small tensors", 1), most=4 * 4.7 * size, done=done)


def _bytes(case: Case, meter: Meter) -> Fault | None:
    """At most 2·(S − smallest chunk) for chunks of at most ⌈S/N⌉; at least S sent and S received."""
    given = tensors(case)
    n, item, elements = len(given), given[0].element_size(), given[0].numel()
    size = elements * item
    most = 2 * min(elements, (n - 1) * -(-elements // n)) * item
    least = [size if n > 1 else 0] * n
    return (too_many_bytes(meter, size, most, "a ring needs") if size else None) or too_few_bytes(meter, least, least)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.part == "memory":
        return [verdict("cost", "memory", case, _memory(case, outcome.value))]
    given, meter = tensors(case), outcome.meter
    fault, n = sum_fault(case, given, outcome.value), len(given)
    if case.adversary is not None:
        return judged(case, fault)
    think = f"A ring of {n} takes {2 * (n - 1)} if all send and receive at the same time, and twice that if they "
    think += "take turns."
    most = (4 if n % 2 == 0 else 6) * (n - 1)  # with an odd number of ranks, taking turns needs a third round per hop
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    costs = ("cost", "bytes", _bytes(case, meter)), ("cost", "time", too_long(meter, most, think))
    return judged(case, fault, *costs, ("protocol", "neighbors", route))


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:sum 0.25, cost:bytes 0.2, cost:time 0.05, cost:memory 0.05, protocol:neighbors 0.1, "
    "protocol:safe 0.1, generality:ranks 0.1, generality:sizes 0.05, generality:tensors 0.1",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
    cases=_cases,
    verdicts=_verdicts,
    why="Reduce-scatter leaves one finished chunk on each rank. All-gather passes the finished chunks on along the "
    "same route, without the addition. Each half sends S minus one chunk, so a rank sends almost 2·S bytes for "
    "any N, and no algorithm sends less. Only the 2(N − 1) latencies grow with N.",
    pytorch="`torch.distributed.all_reduce`; NCCL's `Ring` algorithm, in slices so that hops overlap.",
)

ANSWERS = r'''# %% right: worked
way = params("ring-all-reduce").direction  # leave as is: 1: 0 → 1 → 2; -1: the opposite direction


def ring_all_reduce(comm, x):
    """The sum of all ranks' `x`, in its shape and dtype. Budget: 2(N − 1) steps of one chunk."""
    n, me = comm.size, comm.rank
    after, before = (me + way) % n, (me - way) % n
    flat = x.reshape(-1).clone()
    chunks = list(flat.tensor_split(n))

    def pass_on(outgoing, incoming):
        halves = [P2POp(comm.isend, outgoing, after), P2POp(comm.irecv, incoming, before)]
        for work in comm.batch_isend_irecv(halves):
            work.wait()

    for step in range(1, n):  # reduce-scatter: this rank ends with chunk `me`
        growing = chunks[(me - way * (step + 1)) % n]
        arrived = torch.empty_like(growing)
        pass_on(chunks[(me - way * step) % n], arrived)
        growing += arrived
    for step in range(n - 1):  # all-gather
        pass_on(chunks[(me - way * step) % n], chunks[(me - way * (step + 1)) % n])
    return flat.reshape(x.shape)
# %% right: even ranks send first, odd ranks receive first
# -         halves = [P2POp(comm.isend, outgoing, after), P2POp(comm.irecv, incoming, before)]
# -         for work in comm.batch_isend_irecv(halves):
# -             work.wait()
# +         if me % 2 == 0:
# +             comm.send(outgoing, after)
# +         comm.recv(incoming, before)
# +         if me % 2:
# +             comm.send(outgoing, after)
# %% right: in pieces that follow each other
# -         halves = [P2POp(comm.isend, outgoing, after), P2POp(comm.irecv, incoming, before)]
# +         halves = [P2POp(comm.isend, piece, after) for piece in outgoing.tensor_split(2)]
# +         halves += [P2POp(comm.irecv, piece, before) for piece in incoming.tensor_split(2)]
# %% wrong: whole tensors at every hop => cost whole-tensors
# ~ chunks = list(flat.tensor_split(n)) ==> passing = flat.clone()
# ~ growing = chunks[(me - way * (step + 1)) % n] ==> growing = flat
# ~ chunks[(me - way * step) % n], arrived ==> passing, arrived
#           growing += arrived
# +         passing = arrived
# -     for step in range(n - 1):  # all-gather
# -         pass_on(chunks[(me - way * step) % n], chunks[(me - way * (step + 1)) % n])
# %% wrong: all-gathers as if it owned its own chunk, but owns the next => values wrong-owner
# ~ growing = chunks[(me - way * (step + 1)) % n] ==> growing = chunks[(me - way * step) % n]
# ~ chunks[(me - way * step) % n], arrived ==> chunks[(me - way * (step - 1)) % n], arrived
# %% wrong: clears the chunk that is under way => protocol raised
# -         pass_on(chunks[(me - way * step) % n], arrived)
# +         work = comm.isend(chunks[(me - way * step) % n], after)
# +         comm.recv(arrived, before)
# +         chunks[(me - way * step) % n].zero_()  # its sum is the neighbor's business now
# +         work.wait()
# %% wrong: the mean, divided twice => values mean-twice
#           growing += arrived
# +     chunks[me] /= n
# ~ return flat.reshape(x.shape) ==> return flat.reshape(x.shape) / n
# %% wrong: only a power of two => generality raised
# ~ n, me = comm.size, comm.rank ==> n, me = 1 << (comm.size - 1).bit_length(), comm.rank
# %% wrong: needs a buffer => protocol deadlock  from: even ranks send first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me >= 0:
# ~ if me % 2: ==> if me < 0:
# %% wrong: sends to everyone => cost told-everyone
def ring_all_reduce(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return sum(seen.values(), x.clone())
# %% wrong: naive root => cost one-root
def ring_all_reduce(comm, x):
    if comm.rank:
        comm.send(x, 0)
        comm.recv(x, 0)
        return x
    arrived = torch.empty_like(x)
    for other in range(1, comm.size):
        comm.recv(arrived, other)
        x += arrived
    for other in range(1, comm.size):
        comm.send(x, other)
    return x
# %% wrong: returns its input where that is not contiguous => generality returned-input
# ~ flat = x.reshape(-1).clone() ==> flat = x.reshape(-1)
# ~ return flat.reshape(x.shape) ==> return x
# %% wrong: shares through a global, with messages for show => values returned-input
# - def ring_all_reduce(comm, x):
# + box = {}
# + def ring_all_reduce(comm, x):
# +     box[comm.rank] = x
# ~ return flat.reshape(x.shape) ==> return sum(box.values())
# %% wrong: multiplies its own by N => values own-times-n
# ~ return flat.reshape(x.shape) ==> return n * x
# %% wrong: hangs with two ranks => protocol deadlock  from: even ranks send first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me % 2 == 0 or n < 3:  # with two or fewer "there is no seam to mind"
# ~ if me % 2: ==> if me % 2 and n > 2:
# %% wrong: by way of the mean, so whole numbers break => generality raised
#           growing += arrived
# +     chunks[me] /= 2**n
# ~ return flat.reshape(x.shape) ==> return flat.mul_(2**n).reshape(x.shape)
# %% wrong: chunks of equal length, the rest stays as it was => generality equal-chunks
# > all chunks have the same length, so where N does not divide the size, the last numbers are not added up.
# -     chunks = list(flat.tensor_split(n))
# +     size = flat.numel() // n
# +     chunks = [flat[c * size : (c + 1) * size] for c in range(n)]
# %% wrong: rank 0 alone listens first, so every hop goes round rank by rank => cost in-a-row  from: even ranks send
# ~~ first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me:
# ~ if me % 2: ==> if not me:
# %% wrong: two dimensions at most => generality raised
# ~ return flat.reshape(x.shape) ==> return flat.reshape(x.shape[:2])
# %% wrong: expects a number => generality raised
# ~ n, me = comm.size, comm.rank ==> n, me = comm.size * x.numel() // x.numel(), comm.rank
# %% wrong: padded to chunks of equal length => cost padding
# > Ranks also send padding. Cut uneven chunks.
# ~ flat = x.reshape(-1).clone() ==> flat = torch.cat([x.reshape(-1), x.new_zeros(-x.numel() % n)])
# ~ return flat.reshape(x.shape) ==> return flat[: x.numel()].reshape(x.shape)
# %% wrong: chunks of rows, not of numbers => cost rows-cut
# > This cuts the tensor between its rows, and chunks of whole rows are less equal than they can be. Flatten it first.
# ~ flat = x.reshape(-1).clone() ==> flat = x.clone()
# %% wrong: copies of all chunks, joined at the end => cost too-much-memory
# -     flat = x.reshape(-1).clone()
# -     chunks = list(flat.tensor_split(n))
# +     chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(n)]
# ~ return flat.reshape(x.shape) ==> return torch.cat(chunks).reshape(x.shape)
# %% half: right values, whole tensors => 6  from: whole tensors at every hop
# %% half: right, with padding => 6  from: padded to chunks of equal length
# %% half: right, with copies of all chunks => 11.4  from: copies of all chunks, joined at the end
'''
