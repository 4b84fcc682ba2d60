"""The judge of chapter 09's two conjugate operators, each in both passes, beside a residual branch."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch09.judges.regions import case_of, results, ring_most, traffic
from course_lib.exercises.ch09.probes import FORWARD, TURNED
from course_lib.judging import Fault, Judging, Mistake, Params, judged, verdict
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict

COPY, SUM = 0, 1
NAMES = ("copy_in", "sum_out")


def _ranks(coin: torch.Generator, which: int, wish: str, n: int, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    alike = normal(coin, *shape, dtype=dtype)
    other = [normal(coin, *shape, dtype=dtype) for _ in range(n)]
    if which == COPY:  # what enters is alike, what comes back differs
        return tuple((which, wish, alike, each) for each in other)
    return tuple((which, wish, each, alike) for each in other)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, each = coin_of(rng), params["numbers"]

    def make(
        name: str,
        which: int,
        n: int,
        *,
        wish: str = "",
        shape: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float32,
        **more: Any,
    ) -> Case:
        return case_of(f"{NAMES[which]}, {name}", n, _ranks(coin, which, wish, n, shape or (4, each), dtype), **more)

    cases = [make("three ranks", which, 3, shape=(3, each), part=("copy", "sum")[which]) for which in (COPY, SUM)]
    cases += [
        make("no backward pass", which, 4, wish=FORWARD, part=("copy", "sum")[which], visible=False)
        for which in (COPY, SUM)
    ]
    cases += [
        make("one rank" if n == 1 else f"{n} ranks", which, n, kind="generality", part="ranks", visible=False)
        for which in (COPY, SUM)
        for n in (1, 2, 5)
    ]
    cases += [
        make("columns first in memory", which, 3, wish=TURNED, kind="generality", part="layouts", visible=False)
        for which in (COPY, SUM)
    ]
    cases += [
        make(
            "three dimensions, 64 bits",
            which,
            3,
            shape=(2, 3, each),
            dtype=torch.float64,
            kind="generality",
            part="layouts",
            visible=False,
        )
        for which in (COPY, SUM)
    ]
    return cases


def _values(
    which: int, wish: str, rank: int, got: Mapping[str, Any], xs: Sequence[Tensor], gs: Sequence[Tensor]
) -> Fault | None:
    n, name = len(xs), NAMES[which]
    total_x, total_g = torch.stack(list(xs)).sum(0), torch.stack(list(gs)).sum(0)
    want = xs[rank] if which == COPY else total_x
    slips = (
        Mistake("own-part", xs[rank], "it returns this rank's part alone; what leaves the region is the sum."),
        Mistake("summed-forward", total_x, "this is the sum over ranks; what enters the region enters as it is."),
        Mistake("mean", total_x / n, "this is the mean; all ranks' parts add up, none is counted for less."),
    )
    if fault := tensor_fault(f"Rank {rank}: what {name} returns", got["out"], want, slips):
        return fault
    if wish == FORWARD:
        return None
    if got["grad"] is None:
        return "no-gradient", (
            f"Rank {rank}: no gradient comes back through {name}. `comm.all_reduce` is nothing that autograd knows: write "
            "a `torch.autograd.Function`, and return a gradient for each input."
        )
    g = gs[rank]  # the residual branch brings this, too
    want = g + (total_g if which == COPY else g)
    slips = (
        Mistake(
            "own-gradient", 2 * g, "this is what this rank sends back, alone; every rank used x, so all of them count."
        ),
        Mistake(
            "residual-summed",
            2 * total_g,
            "the residual branch's gradient is summed over ranks, too: the operator's result must be another tensor than "
            "x, or a hook on it is a hook on x.",
        ),
        Mistake(
            "summed-back",
            g + total_g,
            "this is N times the gradient that came: all ranks bring the same one, and summing it over ranks counts "
            "it N times. An all-reduce in both passes is one too many.",
        ),
        Mistake("mean", g + total_g / n, "this is a mean; gradients of a copy add up."),
        Mistake(
            "divided",
            g + g / n,
            "this is the gradient divided by N; what follows the sum is the same on every rank, and so is its gradient.",
        ),
    )
    return tensor_fault(f"Rank {rank}: the gradient behind {name}", got["grad"], want, slips)


def _bytes(which: int, wish: str, meter: Meter, x: Tensor, n: int) -> Fault | None:
    size = x.numel() * x.element_size()
    needed = which == SUM or wish != FORWARD
    least, most = (2 * (n - 1) * size, ring_most(x.numel(), x.element_size(), n)) if needed else (0, 0)
    one = ring_most(x.numel(), x.element_size(), n)
    known = (
        Mistake(
            "both-passes",
            one,
            f"{NAMES[which]} sends as much as two all-reduces of the tensor: one in a pass that has nothing to say, for there all ranks hold "
            "the same, or one of numbers twice as wide.",
        ),
        Mistake(
            "gathered",
            (n - 1) * size - most,
            "Every rank gets every other rank's tensor, and adds them up alone: N − 1 tensors from each rank. "
            "An all-reduce sends less than two.",
        ),
    )
    return traffic(meter, least, most, known, f"{NAMES[which]} sends one all-reduce, in one of its passes.")


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = case.per_rank or ()
    which, wish = given[0][0], given[0][1]
    xs, gs, n = [own[2] for own in given], [own[3] for own in given], len(given)
    if fault := results(outcome.value, n, ("out", "grad", "touched")):
        return [verdict(case.kind, case.part, case, fault)]
    fault = next(
        (found for rank, got in enumerate(outcome.value) if (found := _values(which, wish, rank, got, xs, gs))), None
    )
    others: Fault | None = None
    for rank, got in enumerate(outcome.value):
        if got["touched"] is not False:
            others = (
                "changed-another's",
                f"Rank {rank}: {NAMES[which]} summed in place in a tensor that others read: the residual branch beside "
                "it, or whoever made the input, now finds other numbers there. Sum a copy.",
            )
            break
    if others and fault:
        fault = others
    return judged(
        case, fault, ("protocol", "others", others), ("cost", "bytes", _bytes(which, wish, outcome.meter, xs[0], n))
    )


PAIR = {
    "conjugate-pair": Judging(
        shares="values:copy 0.25, values:sum 0.25, cost:bytes 0.2, protocol:others 0.1, generality:ranks 0.1, "
        "generality:layouts 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="A tensor that all ranks use gets a gradient from each of them: the transpose of copying is adding up. A sum that all ranks "
        "receive, and treat alike, has one gradient, and every rank has it already: the transpose of adding up is copying. So each "
        "operator talks in one pass, and the pair of them around a region costs one all-reduce each way.",
        pytorch="Megatron's `copy_to_tensor_model_parallel_region` and `reduce_from_tensor_model_parallel_region`; DTensor's redistribution "
        "from Replicate and to Replicate from Partial.",
    )
}
