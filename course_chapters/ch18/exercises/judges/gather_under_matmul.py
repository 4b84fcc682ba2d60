import random

from course_grader.judging import Fault, Judging, Params, Worked
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.mistakes import Wrong
from course_grader.judging.oracles import oracle
from course_grader.judging.ranks import LATE, STREAM_LATE, PerRank, moved_early
from course_grader.judging.tensors import coin_of, nbytes, normal, tensor_fault
from course_grader.judging.traffic import too_few_bytes
from course_grader.records import Case, Outcome
from course_lib.cluster import Topology

LINK = Topology().levels[0]
right = Worked("gather-under-matmul")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(n: int, seconds: float, rows: int = params["rows"], inner: int = 5, out: int = 3) -> PerRank:
        """For each rank the seconds of a product, its rows and its columns of the weight."""
        return tuple((seconds, normal(coin, rows, inner), normal(coin, inner, out)) for _ in range(n))

    cases = [
        shown("four ranks, long products", "values:product", per_rank=data(4, 40e-6)),
        hidden("five ranks, short products", "values:product", per_rank=data(5, 4e-6)),
        hidden("three ranks, a product as long as a hop", "values:product", per_rank=data(3, 11e-6, 100, 25)),
        hidden("one rank", "generality:ranks", per_rank=data(1, 10e-6)),
        hidden("two ranks, one row each", "generality:ranks", per_rank=data(2, 30e-6, 1)),
        hidden("eleven ranks, one output", "generality:ranks", per_rank=data(11, 20e-6, out=1)),
    ]
    return cases + under((LATE, STREAM_LATE), "four ranks", "protocol:in-flight", lambda: data(4, 30e-6))


def _values(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        fault = tensor_fault(f"rank {rank}'s product", got["out"], want["out"])
        if fault and case.adversary is not None:
            return moved_early(case, rank)
        if fault:
            return Wrong(*fault)._replace(lead=f"Rank {rank} of {len(outcome.value)}: ", where=("out",))
    return None


def _products(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    needed = len(right.value(case)[0]["out"])
    for rank, got in enumerate(outcome.value):
        if got["rows"] != needed:
            counted = f"rank {rank} gave `matmul` {got['rows']} rows in all"
            return "other-rows", f"{counted}; each of the {needed} rows is multiplied once, and by `matmul`."
    return None


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    rows, n = nbytes((case.per_rank or ())[0][1]), case.ranks or 1
    most, sent = (n - 1) * rows, max(outcome.meter["bytes_sent"])
    if sent > most:
        return "too-many-bytes", f"a rank sends {sent:,} bytes; {most:,} are enough: each row once to each other rank."
    return too_few_bytes(outcome.meter, [rows if n > 1 else 0] * n, [most] * n)


def _time(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    product, x, _ = (case.per_rank or ())[0]
    n, hop, took = case.ranks or 1, LINK.latency + nbytes(x) / LINK.bandwidth, outcome.meter["seconds"]
    best = product + (n - 1) * max(product, hop)
    if took <= best + 0.3 * min(product, hop):
        return None
    return "nothing-hidden", (
        f"it takes {took * 1e6:.1f} µs, where {best * 1e6:.1f} are enough: the product of one rank's rows "
        f"takes {product * 1e6:.1f}, a hop {hop * 1e6:.1f}. Which of them wait for the other?"
    )


JUDGING = Judging(
    point=("cost:overlap", "protocol:products"),  # without `matmul` there is no time to hide
    shares="values:product 0.3, cost:overlap 0.3, cost:bytes 0.1, protocol:products 0.1, protocol:in-flight 0.1, "
    "generality:ranks 0.1",
    cases=_cases,
    verdicts=oracle(_values, {"protocol:products": _products, "cost:bytes": _bytes, "cost:overlap": _time}, named=True),
    why="""A matmul treats its rows separately, so it can begin with the rows that are already there. Each hop runs
under the product of the rows that arrived before. Bytes and FLOPs are those of the plain form; only the order
changed.""",
    pytorch="`torch.ops.symm_mem.fused_all_gather_matmul`, which `torch.compile` inserts for async tensor parallelism; "
    "in Megatron-LM it is `--tp-comm-overlap` with Transformer Engine.",
)

ANSWERS = r'''import torch

from course_lib.cluster import P2POp


# %% right: worked
def gather_matmul(comm, matmul, x, weight):
    """All ranks' rows times this rank's weight. Budget: a ring's bytes, and its hops under the products."""
    ### BEGIN SOLUTION
    rows, after, before = len(x), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    out = x.new_empty(comm.size * rows, weight.shape[1])
    here = x
    for step in range(comm.size):
        start, works, coming = (comm.rank - step) % comm.size * rows, [], torch.empty_like(x)
        if step < comm.size - 1:
            works = comm.batch_isend_irecv([P2POp(comm.isend, here, after), P2POp(comm.irecv, coming, before)])
        out[start : start + rows] = matmul(here, weight)
        for work in works:
            work.wait()
        here = coming
    return out
    ### END SOLUTION

# %% right: own rows straight to every rank
def gather_matmul(comm, matmul, x, weight):
    n, rank = comm.size, comm.rank
    parts, works = [x if owner == rank else torch.empty_like(x) for owner in range(n)], []
    for step in range(1, n):
        to, source = (rank + step) % n, (rank - step) % n
        halves = [P2POp(comm.isend, x, to), P2POp(comm.irecv, parts[source], source)]
        works.append(comm.batch_isend_irecv(halves))
    products = {rank: matmul(x, weight)}
    for step, pair in enumerate(works, 1):
        for work in pair:
            work.wait()
        products[(rank - step) % n] = matmul(parts[(rank - step) % n], weight)
    return torch.cat([products[owner] for owner in range(n)])

# %% right: the other way round
# ~ (comm.rank + 1) % comm.size, (comm.rank - 1) ==> (comm.rank - 1) % comm.size, (comm.rank + 1)
# ~ start, works, coming = (comm.rank - step) ==> start, works, coming = (comm.rank + step)
# %% wrong: waits before it multiplies => cost nothing-hidden
# -         out[start : start + rows] = matmul(here, weight)
#           for work in works:
#               work.wait()
# +         out[start : start + rows] = matmul(here, weight)
# %% wrong: gathers everything, then one product => cost nothing-hidden
# ~ here = x ==> here, parts = x, {}
# ~ out[start : start + rows] = matmul(here, weight) ==> parts[start] = here
# ~ return out ==> return matmul(torch.cat([parts[start] for start in sorted(parts)]), weight)
# %% wrong: in the order of arrival => values
# > these are the rows in the order in which they arrived; the result has them in the order of ranks.
# ~ start, works, coming = (comm.rank - step) % comm.size * rows, ==> start, works, coming = step * rows,
# %% wrong: own rows alone => values
# > these are the rank's own rows in every place.
# ~ here = coming ==> here = x
# %% wrong: one buffer for all steps => values ~
# ~ here = x ==> here, coming = x, torch.empty_like(x)
# ~ start, works, coming = (comm.rank - step) % comm.size * rows, [], torch.empty_like(x)
# ~~ ==> start, works = (comm.rank - step) % comm.size * rows, []
# %% wrong: the last rows go on to their owner => cost too-many-bytes
# ~ if step < comm.size - 1: ==> if comm.size > 1:
# %% wrong: multiplies beside the clock => protocol other-rows
# ~ matmul(here, weight) ==> here @ weight
# %% wrong: reads what is still coming => values ~
# -         for work in works:
# -             work.wait()
# %% half: right, one after the other => 4  from: waits before it multiplies
'''
