"""The judge of chapter 09's two conjugate operators, each in both passes, next to a residual branch."""

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


PAIR = {
    "conjugate-pair": Judging(
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
}
