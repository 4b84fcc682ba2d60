import random
from collections.abc import Sequence

import torch

from course_chapters.ch09.exercises.judges import regions
from course_chapters.ch09.exercises.judges.regions import Result, over_ranks, traffic, within
from course_chapters.ch09.exercises.probes import FORWARD, TURNED
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, Wrong, hidden, judged, shown
from course_grader.judging.cases import Maker
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, normal, tensor_fault

COPY = 0
NAMES = ("copy_in", "sum_out")
right = Worked("conjugate-pair")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["numbers"]

    def data(which: int, n: int, *shape: int, wish: str = "", dtype: torch.dtype = torch.float32) -> PerRank:
        """For each rank the operator, the wish, x and the gradient: one of the two is alike on all ranks."""
        alike = normal(coin, *shape, dtype=dtype)
        other = [normal(coin, *shape, dtype=dtype) for _ in range(n)]
        return tuple((which, wish, *((alike, own) if which == COPY else (own, alike))) for own in other)

    def both(
        name: str, share: str, *sizes: int, make: Maker = hidden, wish: str = "", dtype: torch.dtype = torch.float32
    ) -> list[Case]:
        """A case for each operator; `sizes` are the ranks and a shape."""
        kinds = enumerate(("values:copy", "values:sum"))
        return [
            make(f"{NAMES[at]}, {name}", share or own, per_rank=data(at, *sizes, wish=wish, dtype=dtype))
            for at, own in kinds
        ]

    return [
        *both("three ranks", "", 3, 3, width, make=shown),
        *both("no backward pass", "", 4, 4, width, wish=FORWARD),
        *both("one rank", "generality:ranks", 1, 4, width),
        *both("two ranks", "generality:ranks", 2, 4, width),
        *both("nine ranks", "generality:ranks", 9, 4, width),
        *both("columns first in memory", "generality:layouts", 3, 4, width, wish=TURNED),
        *both("three dimensions, 64 bits", "generality:layouts", 3, 2, 3, width, dtype=torch.float64),
    ]


def _values(case: Case, results: Sequence[Result], name: str) -> Fault | None:
    def check(rank: int, got: Result, want: Result) -> Fault | None:
        if fault := tensor_fault(f"Rank {rank}: what {name} returns", got["out"], want["out"]):
            return within(fault, "out")
        if want["grad"] is None:  # no backward pass was asked for
            return None
        return within(regions.gradient_fault(rank, f"{name}(x)", got["grad"], want["grad"]), "grad")

    return over_ranks(check, results, right.value(case))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (which, wish, x, _), n = (case.per_rank or ())[0], case.ranks or 1
    name = NAMES[which]

    def other(rank: int, got: Result, want: Result) -> Fault | None:
        told = f"Rank {rank}: {name} changed a tensor that others also read."
        return None if got["touched"] is False else Wrong("changed-another's", told, f"Rank {rank}: {name}: ")

    fault = _values(case, outcome.value, name)
    others = over_ranks(other, outcome.value, outcome.value)
    least, most = (0, 0) if which == COPY and wish == FORWARD else regions.ring_bytes(x, n)
    spent = traffic(outcome.meter, least, most, f"{name} sends one all-reduce, in one of its passes.")
    return judged(case, fault and (others or fault), ("protocol", "others", others), ("cost", "bytes", spent))


JUDGING = Judging(
    shares="values:copy 0.25, values:sum 0.25, cost:bytes 0.2, protocol:others 0.1, generality:ranks 0.1, "
    "generality:layouts 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="A tensor that all ranks use gets a gradient from each of them: the transpose of copying is summing. A sum "
    "that all ranks receive has one gradient, which every rank has already: the transpose of summing is copying. "
    "So each operator communicates in one pass, and the pair around a region costs one all-reduce per pass.",
    pytorch="Megatron's `copy_to_tensor_model_parallel_region` and `reduce_from_tensor_model_parallel_region`; "
    "DTensor's redistribution from Replicate and to Replicate from Partial.",
)

ANSWERS = r'''# %% right: worked
def copy_in(x, comm):
    """`x` unchanged; its gradient is summed over ranks. Budget: one all-reduce, backward."""

    class _Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, comm):
            ctx.comm = comm
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            total = grad.clone()
            ctx.comm.all_reduce(total)
            return total, None

    return _Copy.apply(x, comm)


def sum_out(x, comm):
    """The sum of `x` over ranks; its gradient passes unchanged. Budget: one all-reduce, forward."""

    class _Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, comm):
            total = x.clone()
            comm.all_reduce(total)
            return total

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    return _Sum.apply(x, comm)
# %% right: a hook on the gradient, and a detour for the sum
def copy_in(x, comm):
    y = x.view_as(x)
    if y.requires_grad:

        def summed(grad):
            total = grad.clone(memory_format=torch.contiguous_format)
            comm.all_reduce(total)
            return total

        y.register_hook(summed)
    return y


def sum_out(x, comm):
    total = x.detach().clone(memory_format=torch.contiguous_format)
    comm.all_reduce(total)
    return x + (total - x.detach())
# %% wrong: all-reduce in both passes of sum_out => values summed-back
# > this is N times too large, as if summed over ranks again: it is the same on all ranks, so it passes as it is.
# -             total = x.clone()
# +             ctx.comm = comm
# +             total = x.clone()
# -             return grad, None
# +             total = grad.clone()
# +             ctx.comm.all_reduce(total)
# +             return total, None
# %% wrong: averages in the pass that has nothing to say => cost both-passes
# > An all-reduce in both passes: in one of them all ranks hold the same already.
# -             return x.view_as(x)
# +             same = x.clone()
# +             comm.all_reduce(same, op="AVG")
# +             return same
# ~ total = x ==> ctx.comm, total = comm, x
# -             return grad, None
# +             same = grad.clone()
# +             ctx.comm.all_reduce(same, op="AVG")
# +             return same, None
# %% wrong: without autograd => values no-gradient
# ~ return _Copy.apply(x, comm) ==> return x
# ~ return _Sum.apply(x, comm) ==> return _Sum.apply(x.detach(), comm)
# %% wrong: both are the identity => values own-gradient
# > this is this rank's own alone; all ranks used x, so all gradients count, and `sum_out` returns the sum.
# ~ return _Copy.apply(x, comm) ==> return x.view_as(x)
# ~ return _Sum.apply(x, comm) ==> return x.view_as(x)
# %% wrong: averages => values mean
# > this is a mean over ranks; their parts add up, and so do the gradients of a copy.
# ~ total = grad.clone() ==> total = grad / ctx.comm.size
# ~ total = x.clone() ==> total = x / comm.size
# %% wrong: the gradient of the sum divided => values divided
# > this is the gradient divided by N; after the sum all ranks have the same gradient, and it passes as it is.
# ~ total = x.clone() ==> ctx.size, total = comm.size, x.clone()
# ~ return grad, None ==> return grad / ctx.size, None
# %% wrong: copy_in sums in the forward pass => values summed-forward
# > this is the sum over ranks; `copy_in` returns x unchanged.
# ~ x.view_as(x) ==> sum_out(x, comm)
# %% wrong: sums in place in the gradient that came => values changed-another's
# > it sums in place, in a tensor that others also read. Sum a copy.
# -             total = grad.clone()
# -             ctx.comm.all_reduce(total)
# -             return total, None
# +             ctx.comm.all_reduce(grad)
# +             return grad, None
# %% wrong: sums in place in its input => protocol changed-another's
# -             total = x.clone()
# -             comm.all_reduce(total)
# -             return total
# +             comm.all_reduce(x)
# +             return x.clone()
# %% wrong: everyone to everyone, added up alone => cost gathered
# > Every rank gets every other rank's tensor: N − 1 tensors from each. An all-reduce sends less than two.
# -             total = grad.clone()
# -             ctx.comm.all_reduce(total)
# -             return total, None
# +             return sum_out(grad, ctx.comm), None
# -             total = x.clone()
# -             comm.all_reduce(total)
# -             return total
# +             parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(comm.size)]
# +             comm.all_gather(parts, x.contiguous())
# +             return sum(parts)
# %% wrong: everything through rank 0 => cost one-root
# -             ctx.comm.all_reduce(total)
# +             ctx.comm.reduce(total, dst=0)
# +             ctx.comm.broadcast(total, src=0)
# -             comm.all_reduce(total)
# +             comm.reduce(total, dst=0)
# +             comm.broadcast(total, src=0)
# %% wrong: shares a file instead of sending => cost too-few-bytes
# - def copy_in(x, comm):
# + import os
# + import tempfile
# + def copy_in(x, comm):
# -             comm.all_reduce(total)
# +             path = f"{tempfile.gettempdir()}/shared-{os.getpid()}-"
# +             torch.save(total, f"{path}{comm.rank}.pt")
# +             comm.barrier()
# +             total = sum(torch.load(f"{path}{rank}.pt") for rank in range(comm.size))
# +             comm.barrier()
# +             os.remove(f"{path}{comm.rank}.pt")
# %% wrong: a hook on x itself => values residual-summed  from: a hook on the gradient, and a detour for the sum
# > the residual branch's gradient is summed, too: return another tensor than x, and put no hook on x.
# ~ y = x.view_as(x) ==> y = x
# %% wrong: sent in double precision => cost double-precision
# > Numbers are sent in another dtype than the tensor's, with twice its bytes.
# ~ grad.clone() ==> grad.double()
# ~ total, ==> total.to(grad.dtype),
# ~ x.clone() ==> x.double()
# -             return total
# +             return total.to(x.dtype)
# %% wrong: a flat view of whatever comes => generality raised
# ~ grad.clone() ==> grad.clone().view(-1)
# ~ total, ==> total.view(grad.shape),
# %% wrong: never waits => values own-gradient
# ~ ctx.comm.all_reduce(total) ==> ctx.comm.all_reduce(total, async_op=True)
# %% half: sum_out alone => 2  from: never waits
'''
