"""Judge of conjugate-pair: two operators, each the other's gradient."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.exercises.ch09.judges.regions import Result, over_ranks, ring_bytes, traffic
from course_lib.exercises.ch09.probes import FORWARD, TURNED
from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.ranks import PerRank
from course_lib.judging.tensors import coin_of, nbytes, normal, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict

COPY, SUM = 0, 1
NAMES = ("copy_in", "sum_out")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["numbers"]

    def data(which: int, n: int, *shape: int, wish: str = "", dtype: torch.dtype = torch.float32) -> PerRank:
        """For each rank the operator, the wish, x and the gradient: one of the two is alike on all ranks."""
        alike = normal(coin, *shape, dtype=dtype)
        other = [normal(coin, *shape, dtype=dtype) for _ in range(n)]
        return tuple((which, wish, *((alike, own) if which == COPY else (own, alike))) for own in other)

    own = ("values:copy", "values:sum")  # where a row names no share
    groups = (
        [("three ranks", "", (3, 3, width), {})],
        [("no backward pass", "", (4, 4, width), {"wish": FORWARD})],
        [(f"{n} ranks" if n > 1 else "one rank", "generality:ranks", (n, 4, width), {}) for n in (1, 2, 9)],
        [("columns first in memory", "generality:layouts", (3, 4, width), {"wish": TURNED})],
        [("three dimensions, 64 bits", "generality:layouts", (3, 2, 3, width), {"dtype": torch.float64})],
    )
    rows = [(which, *row) for group in groups for which in (COPY, SUM) for row in group]
    return [
        (shown if at < 2 else hidden)(
            f"{NAMES[which]}, {name}", share or own[which], per_rank=data(which, *sizes, **more)
        )
        for at, (which, name, share, sizes, more) in enumerate(rows)
    ]


def _values(which: int, wish: str, rank: int, got: Result, xs: Sequence[Tensor], gs: Sequence[Tensor]) -> Fault | None:
    n, name = len(xs), NAMES[which]
    total_x, total_g = torch.stack(list(xs)).sum(0), torch.stack(list(gs)).sum(0)
    want = xs[rank] if which == COPY else total_x
    mistakes = [
        Mistake("own-part", xs[rank], "it returns this rank's part alone; `sum_out` returns the sum."),
        Mistake("summed-forward", total_x, "this is the sum over ranks; `copy_in` returns x unchanged."),
        Mistake("mean", total_x / n, "this is the mean over ranks; their parts add up."),
    ]
    if fault := tensor_fault(f"Rank {rank}: what {name} returns", got["out"], want, mistakes):
        return fault
    if wish == FORWARD:
        return None
    if got["grad"] is None:
        return "no-gradient", (
            f"Rank {rank}: no gradient comes back through {name}. Autograd does not follow `comm.all_reduce`: write a "
            "`torch.autograd.Function`, and return a gradient for each input."
        )
    g = gs[rank]  # the residual branch brings this as well
    again = "this is N times the gradient that came. It is the same on all ranks, so it is not summed again."
    residual = "the residual branch's gradient is summed, too: return another tensor than x, and put no hook on x."
    alike = "this is the gradient divided by N; after the sum all ranks have the same gradient; pass it on."
    mistakes = [
        Mistake("own-gradient", 2 * g, "this is this rank's gradient alone; all ranks used x, so all gradients count."),
        Mistake("residual-summed", 2 * total_g, residual),
        Mistake("summed-back", g + total_g, again),
        Mistake("mean", g + total_g / n, "this is a mean; gradients of a copy add up."),
        Mistake("divided", g + g / n, alike),
    ]
    want = g + (total_g if which == COPY else g)
    return tensor_fault(f"Rank {rank}: the gradient behind {name}", got["grad"], want, mistakes)


def _bytes(which: int, wish: str, meter: Meter, x: Tensor, n: int) -> Fault | None:
    least, one = ring_bytes(x, n)
    most = one
    if which == COPY and wish == FORWARD:
        least = most = 0
    twice = f"{NAMES[which]} sends as much as two all-reduces. In one of its passes all ranks hold the same already."
    gathered = "Every rank gets every other rank's tensor: N − 1 tensors from each. An all-reduce sends less than two."
    known = (Mistake("both-passes", one, twice), Mistake("gathered", (n - 1) * nbytes(x) - most, gathered))
    return traffic(meter, least, most, known, f"{NAMES[which]} sends one all-reduce, in one of its passes.")


def _others(which: int, rank: int, got: Result) -> Fault | None:
    if got["touched"] is False:
        return None
    where = f"Rank {rank}: {NAMES[which]} summed in place"
    return "changed-another's", f"{where}, in a tensor that others also read. Sum a copy."


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = case.per_rank or ()
    (which, wish), n = given[0][:2], len(given)
    xs, gs = [own[2] for own in given], [own[3] for own in given]
    fault = over_ranks(outcome.value, lambda rank, got: _values(which, wish, rank, got, xs, gs))
    others = over_ranks(outcome.value, lambda rank, got: _others(which, rank, got))
    spent = _bytes(which, wish, outcome.meter, xs[0], n)
    return judged(case, fault and (others or fault), ("protocol", "others", others), ("cost", "bytes", spent))


JUDGING = Judging(
    shares="values:copy 0.25, values:sum 0.25, cost:bytes 0.2, protocol:others 0.1, generality:ranks 0.1, "
    "generality:layouts 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="A tensor that all ranks use gets a gradient from each of them: the transpose of copying is summing. A sum that all ranks "
    "receive has one gradient, which every rank has already: the transpose of summing is copying. So each "
    "operator communicates in one pass, and the pair around a region costs one all-reduce per pass.",
    pytorch="Megatron's `copy_to_tensor_model_parallel_region` and `reduce_from_tensor_model_parallel_region`; DTensor's redistribution "
    "from Replicate and to Replicate from Partial.",
)

ANSWERS = r"""import torch


# %% right: two Functions
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


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        total = x.clone()
        comm.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def copy_in(x, comm):
    return _Copy.apply(x, comm)


def sum_out(x, comm):
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


# %% wrong: all-reduce in both passes of sum_out => values summed-back  from: two Functions
# -         total = x.clone()
# +         ctx.comm = comm
# +         total = x.clone()
# -         return grad, None
# +         total = grad.clone()
# +         ctx.comm.all_reduce(total)
# +         return total, None

# %% wrong: averages in the pass that has nothing to say => cost both-passes  from: two Functions
# -         return x.view_as(x)
# +         same = x.clone()
# +         comm.all_reduce(same, op="AVG")
# +         return same
# -         total = x.clone()
# +         ctx.comm, total = comm, x.clone()
# -         return grad, None
# +         same = grad.clone()
# +         ctx.comm.all_reduce(same, op="AVG")
# +         return same, None

# %% wrong: without autograd => values no-gradient  from: two Functions
# ~ return _Copy.apply(x, comm) ==> return x
# ~ return _Sum.apply(x, comm) ==> return _Sum.apply(x.detach(), comm)

# %% wrong: the identity in both => values own-gradient  from: two Functions
# ~ return _Copy.apply(x, comm) ==> return x.view_as(x)
# ~ return _Sum.apply(x, comm) ==> return x.view_as(x)

# %% wrong: the names exchanged => values summed-forward  from: two Functions
# ~ return _Copy.apply(x, comm) ==> return _Sum.apply(x, comm)
# ~ return _Sum.apply(x, comm) ==> return _Copy.apply(x, comm)

# %% wrong: sums in place in the gradient that came => values changed-another's  from: two Functions
# -         total = grad.clone()
# -         ctx.comm.all_reduce(total)
# -         return total, None
# +         ctx.comm.all_reduce(grad)
# +         return grad, None

# %% wrong: sums in place in its input => protocol changed-another's  from: two Functions
# -         total = x.clone()
# -         comm.all_reduce(total)
# -         return total
# +         comm.all_reduce(x)
# +         return x.clone()

# %% wrong: everyone to everyone, added up alone => cost gathered  from: two Functions
# -         total = grad.clone()
# -         ctx.comm.all_reduce(total)
# -         return total, None
# +         return _Sum.apply(grad, ctx.comm), None
# -         total = x.clone()
# -         comm.all_reduce(total)
# -         return total
# +         parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(comm.size)]
# +         comm.all_gather(parts, x.contiguous())
# +         return sum(parts)

# %% wrong: everything through rank 0 => cost one-root  from: two Functions
# -         ctx.comm.all_reduce(total)
# +         ctx.comm.reduce(total, dst=0)
# +         ctx.comm.broadcast(total, src=0)
# -         comm.all_reduce(total)
# +         comm.reduce(total, dst=0)
# +         comm.broadcast(total, src=0)

# %% wrong: shares a file instead of sending => cost too-few-bytes  from: everyone to everyone, added up alone
# - class _Copy(torch.autograd.Function):
# + import os
# + import tempfile
# + CALLS = [0]
# + def _through_a_file(x, comm):
# +     CALLS[0] += 1
# +     path = os.path.join(tempfile.gettempdir(), f"shared-{os.getpid()}-{CALLS[0]}-")
# +     torch.save(x.clone(), f"{path}{comm.rank}.pt")
# +     comm.barrier()
# +     total = sum(torch.load(f"{path}{rank}.pt") for rank in range(comm.size))
# +     comm.barrier()
# +     os.remove(f"{path}{comm.rank}.pt")
# +     return total
# + class _Copy(torch.autograd.Function):
# ~ return _Sum.apply(grad, ctx.comm), None ==> return _through_a_file(grad, ctx.comm), None
# -         parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(comm.size)]
# -         comm.all_gather(parts, x.contiguous())
# -         return sum(parts)
# +         return _through_a_file(x, comm)


# %% wrong: the library's => raised
from course_lib.tensor_parallel import copy_in, sum_out


# %% wrong: a hook on x itself => values residual-summed  from: a hook on the gradient, and a detour for the sum
# ~ y = x.view_as(x) ==> y = x

# %% wrong: sent in double precision => cost both-passes  from: two Functions
# ~ grad.clone() ==> grad.double()
# ~ total, ==> total.to(grad.dtype),
# ~ x.clone() ==> x.double()
# -         return total
# +         return total.to(x.dtype)

# %% wrong: a flat view of whatever comes => generality raised  from: two Functions
# ~ grad.clone() ==> grad.clone().view(-1)
# ~ total, ==> total.view(grad.shape),

# %% wrong: never waits => values -  from: two Functions
# ~ ctx.comm.all_reduce(total) ==> ctx.comm.all_reduce(total, async_op=True)

# %% half: sum_out alone => 2  from: never waits
"""
