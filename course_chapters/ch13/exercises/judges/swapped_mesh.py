import torch

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import coin_of, not_like
from course_grader.judging.traffic import bytes_fault
from course_lib.estimate.units import count_text

right = Worked("swapped-mesh")


def _mesh_case(
    params: Params, coin: torch.Generator, share: str, ranks: int, tp: int, name: str = "", see: bool = False
) -> Case:
    shape, other = (12 * ranks,), (6, 2 * ranks)  # every ring cuts these into equal chunks

    def numbers(*size: int) -> torch.Tensor:
        return torch.randint(-999, 999, size, generator=coin).double()

    own = tuple((numbers(*shape), numbers(*other)) for _ in range(ranks))
    if (ranks, tp) == (8, 4):  # in fp32, and a view
        own = tuple((x.float(), gradient.float().T) for x, gradient in own)
    return (shown if see else hidden)(name or f"{count_text(ranks, 'rank')}, tp_size {tp}", share, tp, per_rank=own)


def _mesh_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)
    wide = [(10, 2), (8, 4), (6, 3), (6, 2)]
    return [
        _mesh_case(params, coin, "values:shown", params["ranks"], params["tp"], see=True),
        *(_mesh_case(params, coin, "generality:shapes", *pair) for pair in wide),
        *(_mesh_case(params, coin, "generality:edges", *pair) for pair in ((params["ranks"], 1), (3, 3), (1, 1))),
    ]


def _mesh_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        lead = f"rank {rank}: "
        for place, (one, two) in enumerate(zip(got, want, strict=True)):
            if fault := not_like(one, two, rank):
                return fault
            if not torch.allclose(one, two, rtol=1e-9 * place, atol=1e-9 * place):  # sums are exact
                told = ("`x` is not the sum over its", "the gradient is not the average over its")[place]
                return Wrong("", f"{lead}{told} group.", lead, (place,))
    return None


def _mesh_bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """A rank that sends to a rank outside its two groups, or more than two ring all-reduces need."""
    tp, given = case.args[0], case.per_rank or ()
    n = len(given)
    for src, dst, nbytes, _ in outcome.meter["pairs"]:
        if nbytes and dst // tp != src // tp and dst % tp != src % tp:
            return "outside-its-groups", f"Rank {src} sent to rank {dst}, which is in none of its groups."
    x, gradient = given[0]
    least = [(tp > 1) * x.nbytes + (tp < n) * gradient.nbytes] * n
    most = 2 * (tp - 1) / tp * x.nbytes + 2 * (n // tp - 1) / (n // tp) * gradient.nbytes
    return bytes_fault(outcome.meter, [most] * n, "the two all-reduces need", least)


JUDGING = Judging(
    shares="values:shown 0.1, generality:shapes 0.5, generality:edges 0.2, cost:bytes 0.2",
    cases=_mesh_cases,
    verdicts=oracle(_mesh_fault, {"cost:bytes": _mesh_bytes}, named=True),
    why="A square mesh looks the same from both sides, so a test on it cannot tell its axes apart. Test a mesh on "
    "sizes that are all different.",
    pytorch="`init_device_mesh` takes names for the axes; `mesh['tp']` cannot be mistaken for `mesh['dp']`, but the "
    "sizes in the tuple still can.",
)

ANSWERS = r'''# %% right: worked
def on_mesh(comm, tp_size, x, gradient):
    """(x summed over the tensor-parallel group, gradient averaged over the data-parallel group)."""
    grid = torch.arange(comm.size).view(-1, tp_size)  # the mesh (dp, tp): one row for each replica
    for ranks in grid.T.tolist():
        group = comm.new_group(ranks)
        if comm.rank in ranks:
            dp = group
    for ranks in grid.tolist():
        group = comm.new_group(ranks)
        if comm.rank in ranks:
            tp = group
    x, gradient = x.clone(), gradient.clone()
    tp.all_reduce(x)
    dp.all_reduce(gradient)
    return x, gradient / dp.size
# %% right: remainders, and the average of the library
def on_mesh(comm, tp_size, x, gradient):
    groups = [[r for r in range(comm.size) if r % tp_size == k] for k in range(tp_size)]
    dp = [comm.new_group(ranks) for ranks in groups][comm.rank % tp_size]
    starts = range(0, comm.size, tp_size)
    tp = [comm.new_group(range(s, s + tp_size)) for s in starts][comm.rank // tp_size]
    total, mean = x + 0, gradient + 0
    work = [tp.all_reduce(total, async_op=True), dp.all_reduce(mean, op="AVG", async_op=True)]
    for each in work:
        each.wait()
    return [total, mean]
# %% wrong: as it was => generality turned-grid  from: the card
# %% wrong: turned grid => generality
# > `x` is summed over as many consecutive ranks as there are replicas; a tensor-parallel group has `tp_size`.
# ~ view(-1, tp_size) ==> view(tp_size, -1)
# %% wrong: divided by tp => generality
# > the sum is divided by tp_size; divide by the number of replicas.
# ~ gradient / dp.size ==> gradient / tp_size
# %% wrong: divided by all => values
# > the sum is divided by all ranks; divide by the number of replicas.
# ~ gradient / dp.size ==> gradient / comm.size
# %% wrong: not divided => values
# > this is the sum; return the average.
# ~ gradient / dp.size ==> gradient
# %% wrong: axes swapped => values
# > the two groups are swapped.
# ~ grid.T.tolist ==> grid.tolist
# ~ in grid.tolist ==> in grid.T.tolist
# %% wrong: in place => values changed
# ~ x, gradient = x.clone(), gradient.clone() ==> pass
# %% wrong: not summed => values
# > `x` came back as it was.
# ~ tp.all_reduce(x) ==> pass
# %% wrong: everyone gathers everything => cost outside-its-groups
def on_mesh(comm, tp_size, x, gradient):
    def gathered(t):
        pieces = [torch.empty_like(t) for _ in range(comm.size)]
        comm.all_gather(pieces, t)
        return pieces

    start, xs, gradients = comm.rank // tp_size * tp_size, gathered(x), gathered(gradient)
    return sum(xs[start : start + tp_size]), sum(gradients[comm.rank % tp_size :: tp_size]) / (comm.size // tp_size)
# %% wrong: everything twice => cost too-many-bytes
#       tp.all_reduce(x)
# +     tp.all_reduce(x.clone())
# %% wrong: groups of one rank fail => generality raised
# ~ grid = torch ==> assert 1 < tp_size < comm.size; grid = torch
# %% wrong: views in contiguous memory => generality ~
# ~ gradient.clone() ==> gradient.view(-1).clone().view(gradient.shape)
# %% half: as it was => 2.4  from: as it was
'''
