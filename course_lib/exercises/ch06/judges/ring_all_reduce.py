"""Judge of ring-all-reduce: ring all-reduce."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.layouts import COLUMNS, MEASURED, WEIGHED
from course_lib.judging import Fault, Judging, Params, Weighed, first, is_number, judged, ranks, verdict
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import layouts, plain_sum, secret, sum_fault, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes, too_long, too_many_bytes
from course_lib.records import Case, Outcome, Verdict


def _ring_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(n: int, size: int) -> ranks.PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("eight ranks", "values:sum", per_rank=data(8, 8 * length))]
    cases += [hidden("four ranks, other data", "values:sum", per_rank=data(4, 4 * length))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n, n * length)) for n in (1, 2, 5)]
    for n, size in ((4, 10), (5, 3), (3, 0)):
        cases.append(hidden(f"{n} ranks, {size} numbers", "generality:sizes", per_rank=data(n, size)))
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 4).items()]
    many = world(rng.choice((9, 11)), lambda: secret(coin, 2, 3, 11, dtype=torch.int64))
    turned = world(1, lambda: secret(coin, 4, 5, dtype=torch.int64), COLUMNS)
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:tensors", per_rank=many)]
    cases += [hidden("one rank alone, a transposed matrix of integers", "generality:tensors", per_rank=turned)]
    measured = world(8, lambda: secret(coin, 800), MEASURED)
    cases += [hidden("eight ranks, memory", "cost:memory", per_rank=measured)]
    return cases + under(ranks.UNKIND, "four ranks", "protocol:safe", lambda: data(4, 12))


def _ring_memory(case: Case, results: Sequence[Any]) -> Fault | None:
    """At most a copy of the tensor and four chunks beyond `x`: two that arrive, one that a sum makes, one that a worker keeps."""
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
        f"At the peak, {beyond / size:.3g}·S bytes are live in addition to `x`; a copy and a chunk or two are enough. Work in "
        "one flat copy, and make the chunks views of it."
    )


def _ring_weighed(params: Params, rng: random.Random) -> Weighed:
    """15 MB on four ranks, created in the worker: right answers use 2 to 4.25 times that, wrong ones at least 5 times."""
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


def _ring_bytes(case: Case, meter: Meter) -> Fault | None:
    """At most 2·(S − smallest chunk) for chunks of at most ⌈S/N⌉; at least S sent and S received."""
    given = tensors(case)
    n, item, elements = len(given), given[0].element_size(), given[0].numel()
    size = elements * item
    most = 2 * min(elements, (n - 1) * -(-elements // n)) * item
    least = [size if n > 1 else 0] * n
    padded = 2 * (n - 1) * -(-elements // n) * item
    if padded > most and all(sent == padded for sent in meter["bytes_sent"]):
        return "padding", f"Ranks also send padding: {padded:,} bytes for a tensor of {size:,}. Cut uneven chunks."
    return (too_many_bytes(meter, size, most, "a ring needs") if size else None) or too_few_bytes(meter, least, least)


def _ring_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.part == "memory":
        return [verdict("cost", "memory", case, _ring_memory(case, outcome.value))]
    given, meter = tensors(case), outcome.meter
    fault, n = sum_fault(case, given, outcome.value), len(given)
    if case.adversary is not None:
        return judged(case, fault)
    think = f"A ring of {n} takes {2 * (n - 1)} if all send and receive at the same time, and twice that if they take turns."
    most = (4 if n % 2 == 0 else 6) * (n - 1)  # with an odd number of ranks, taking turns needs a third round per hop
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    costs = ("cost", "bytes", _ring_bytes(case, meter)), ("cost", "time", too_long(meter, most, think))
    return judged(case, fault, *costs, ("protocol", "neighbors", route))


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:sum 0.25, cost:bytes 0.2, cost:time 0.05, cost:memory 0.05, protocol:neighbors 0.1, "
    "protocol:safe 0.1, generality:ranks 0.1, generality:sizes 0.05, generality:tensors 0.1",
    measured_by_worker=("cost:memory",),
    weighed=_ring_weighed,
    cases=_ring_cases,
    verdicts=_ring_verdicts,
    why="Reduce-scatter leaves one finished chunk on each rank. All-gather passes the finished chunks on along the same route, "
    "without the addition. Each half sends S minus one chunk, so a rank sends almost 2·S bytes for any N, and no algorithm sends "
    "less. Only the 2(N − 1) latencies grow with N.",
    pytorch="`torch.distributed.all_reduce`; NCCL's `Ring` algorithm, in slices so that hops overlap.",
)

ANSWERS = r"""import torch
from course_lib.cluster import P2POp


# %% right: reduce-scatter, then all-gather, with isend and recv
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    after, before = (me + 1) % n, (me - 1) % n
    flat = x.reshape(-1).clone()
    chunks = list(flat.tensor_split(n))
    for step in range(n - 1):
        arrived = torch.empty_like(chunks[(me - step - 2) % n])
        work = comm.isend(chunks[(me - step - 1) % n], after)
        comm.recv(arrived, before)
        work.wait()
        chunks[(me - step - 2) % n] += arrived
    for step in range(n - 1):
        work = comm.isend(chunks[(me - step) % n], after)
        comm.recv(chunks[(me - step - 1) % n], before)
        work.wait()
    return flat.reshape(x.shape)


# %% right: even ranks send first, odd ranks receive first
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    flat = x.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = torch.empty_like(chunks[into])
        if me % 2 == 0:
            comm.send(chunks[out], (me + 1) % n)
            comm.recv(arrived, (me - 1) % n)
        else:
            comm.recv(arrived, (me - 1) % n)
            comm.send(chunks[out], (me + 1) % n)
        chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived)
    return flat.reshape(x.shape)


# %% right: in pieces that follow each other
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    flat = x.flatten().clone()
    chunks = [chunk.tensor_split(2) for chunk in flat.tensor_split(n)]
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = [torch.empty_like(piece) for piece in chunks[into]]
        works = [comm.irecv(piece, (me - 1) % n) for piece in arrived] + [
            comm.isend(piece, (me + 1) % n) for piece in chunks[out]
        ]
        for work in works:
            work.wait()
        for piece, new in zip(chunks[into], arrived):
            piece.copy_(piece + new if step < n - 1 else new)
    return flat.view(x.shape)


# %% right: any variant  from: reduce-scatter, then all-gather, with isend and recv
# - def ring_all_reduce(comm, x):
# + from course_lib import params
# + VARIANT = params("ring-all-reduce")
# + def ring_all_reduce(comm, x):
# ~ after, before = (me + 1) % n, (me - 1) % n ==> after, before = (me + VARIANT.direction) % n, (me - VARIANT.direction) % n
#       flat = x.reshape(-1).clone()
# +     me = me * VARIANT.direction % n  # the ring's other direction is the ring, counted backwards


# %% wrong: whole tensors at every hop => cost whole-tensors
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    total, passing = x.clone(), x.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(passing)
        work = comm.isend(passing, (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        total += arrived
        passing = arrived
    return total


# %% wrong: all-gathers as if it owned its own chunk, but owns the next => values wrong-owner  from: reduce-scatter, then all-gather, with isend and recv
# ~ (chunks[(me - step - 2) % n]) ==> (chunks[(me - step - 1) % n])
# ~ chunks[(me - step - 1) % n], after ==> chunks[(me - step) % n], after
# ~ chunks[(me - step - 2) % n] += arrived ==> chunks[(me - step - 1) % n] += arrived

# %% wrong: clears the chunk that is under way => protocol -  from: reduce-scatter, then all-gather, with isend and recv
#           comm.recv(arrived, before)
# +         chunks[(me - step - 1) % n].zero_()  # its sum is the neighbor's business now

# %% wrong: the mean, divided twice => values mean-twice  from: reduce-scatter, then all-gather, with isend and recv
#           chunks[(me - step - 2) % n] += arrived
# +     chunks[me] /= n
# ~ (x.shape) ==> (x.shape) / n

# %% wrong: only a power of two => generality -  from: reduce-scatter, then all-gather, with isend and recv
# ~ n, me = comm.size, comm.rank ==> n, me = 1 << (comm.size - 1).bit_length(), comm.rank

# %% wrong: needs a buffer => protocol deadlock  from: even ranks send first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me >= 0:


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


# %% wrong: returns its input where that is not contiguous => generality returned-input  from: reduce-scatter, then all-gather, with isend and recv
# -     flat = x.reshape(-1).clone()
# -     chunks = list(flat.tensor_split(n))
# +     chunks = list(x.reshape(-1).tensor_split(n))
# ~ flat.reshape(x.shape) ==> x


# %% wrong: shares through a global, with a token for show => values returned-input
box = {}


def ring_all_reduce(comm, x):
    box[comm.rank] = x
    token = torch.zeros(1)
    if comm.size > 1:
        work = comm.isend(token, (comm.rank + 1) % comm.size)
        comm.recv(torch.empty(1), (comm.rank - 1) % comm.size)
        work.wait()
    return sum(box.values())


# %% wrong: multiplies its own by N => values own-times-n
def ring_all_reduce(comm, x):
    return comm.size * x


# %% wrong: hangs with two ranks => protocol deadlock  from: even ranks send first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me % 2 == 0 or n < 3:  # with two or fewer "there is no seam to mind"

# %% wrong: by way of the mean, so whole numbers break => generality -  from: reduce-scatter, then all-gather, with isend and recv
#           chunks[(me - step - 2) % n] += arrived
# +     chunks[me] /= 2**n
# ~ return flat.reshape(x.shape) ==> return flat.mul_(2**n).reshape(x.shape)

# %% wrong: chunks of equal length, the rest stays as it was => generality -  from: reduce-scatter, then all-gather, with isend and recv
# -     chunks = list(flat.tensor_split(n))
# +     size = flat.numel() // n
# +     chunks = [flat[c * size : (c + 1) * size] for c in range(n)]

# %% wrong: rank 0 alone listens first, so every hop goes round rank by rank => cost in-a-row  from: copies of all chunks, joined at the end
# ~ me % 2 == 0 ==> me

# %% wrong: two dimensions at most => generality raised  from: in pieces that follow each other
# ~ (x.shape) ==> (x.shape[:2])

# %% wrong: expects a number => generality raised  from: in pieces that follow each other
# ~ n, me = comm.size, comm.rank ==> n, me = comm.size * x.numel() // x.numel(), comm.rank

# %% half: right values, whole tensors => 6  from: whole tensors at every hop

# %% wrong: padded to chunks of equal length => cost padding  from: reduce-scatter, then all-gather, with isend and recv
# ~ flat = x.reshape(-1).clone() ==> flat = torch.cat([x.reshape(-1), x.new_zeros(-x.numel() % n)])
# ~ flat.reshape(x.shape) ==> flat[: x.numel()].reshape(x.shape)

# %% wrong: copies of all chunks, joined at the end => cost too-much-memory  from: even ranks send first, odd ranks receive first
# -     flat = x.reshape(-1).clone()
# -     chunks = flat.tensor_split(n)
# +     chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(n)]
# ~ chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived) ==> chunks[into] = chunks[into] + arrived if step < n - 1 else arrived
# ~ flat.reshape(x.shape) ==> torch.cat(chunks).reshape(x.shape)

# %% half: right, with padding => 6  from: padded to chunks of equal length

# %% half: right, with copies of all chunks => 11.4  from: copies of all chunks, joined at the end
"""
