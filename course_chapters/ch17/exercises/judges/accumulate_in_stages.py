"""Judge of accumulate-in-stages: find the bug: right alone, wrong together."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch17.exercises.probes import CHANGED
from course_grader.exercises.result_schema import PerRank
from course_grader.exercises.result_schema import Tensor as TensorShape
from course_grader.judging import Fault, Judging, Params, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import close, coin_of, normal, not_like
from course_grader.judging.traffic import too_few_bytes
from course_grader.records import Case, Outcome, Verdict

Batches = Sequence[tuple[Tensor, Tensor]]


def summed(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the sum of the rows' losses."""
    return 2 * x.T @ (x @ w - y)


def right(weights: str, w: Tensor, ranks: Sequence[Batches]) -> Tensor:
    """The gradient that is asked for, in closed form."""
    every = [pair for batches in ranks for pair in batches]
    if weights == "rows":
        return sum(summed(w, *pair) for pair in every) / sum(len(y) for _, y in every)  # type: ignore[return-value]
    return sum(summed(w, *pair) / len(pair[1]) for pair in every) / len(every)  # type: ignore[return-value]


def wrong(name: str, w: Tensor, ranks: Sequence[Batches], parts: int, rank: int) -> Tensor | None:
    """What a known mistake leads to on one rank; None where it does not apply."""
    every = [pair for batches in ranks for pair in batches]
    if any(not len(y) for _, y in every) and name != "own-rank":
        return None
    n, count = len(ranks), len(ranks[0])
    means = [
        sum((summed(w, *batches[at]) / len(batches[at][1]) for batches in ranks), torch.zeros(()))
        for at in range(count)
    ]  # over ranks
    if name == "scaled-again":
        grad = torch.zeros_like(w)
        for mean in means:
            grad = (grad + mean * parts / n) / parts
        return grad / count
    if name == "reduced-again":
        grads = [torch.zeros_like(w) for _ in ranks]
        for at in range(count):
            grads = [
                grad + summed(w, *batches[at]) / len(batches[at][1]) for grad, batches in zip(grads, ranks, strict=True)
            ]
            grads = [sum(grads) for _ in ranks]  # type: ignore[misc]
        return grads[0] / n / count
    if name == "batches-equal":
        return right("batches", w, ranks)
    if name == "rows-equal":
        return right("rows", w, ranks)
    if name == "own-rank":
        own = [pair for pair in ranks[rank] if len(pair[1])]
        return sum(summed(w, *pair) / len(pair[1]) for pair in own) / count if own else None  # type: ignore[return-value]
    if name == "not-over-batches":
        return sum(means) / n  # type: ignore[return-value]
    if name == "not-over-ranks":
        return sum(means) / count  # type: ignore[return-value]
    if name == "not-over-parts":
        return sum(means) / n / count * parts  # type: ignore[return-value]
    if name == "last-batch":
        return means[-1] / n / count
    return sum(each * parts for each in means) / n / count / parts**count  # "scaled-at-the-end"


SLIPS = {
    "scaled-again": "earlier batches were divided by `parts` once more with each later batch.",
    "reduced-again": "what was summed over the ranks already is summed again with each later batch.",
    "batches-equal": "every row counts the same, so a larger batch weighs more.",
    "rows-equal": "every batch counts the same, however many rows it has.",
    "own-rank": "this is the rank's own gradient; the ranks are averaged.",
    "not-over-batches": "the batches are averaged, too.",
    "not-over-ranks": "this is the sum over the ranks.",
    "not-over-parts": "the micro-batches of a batch are averaged.",
    "last-batch": "only the last batch is left; the others were cleared.",
    "scaled-at-the-end": "the division by `parts` happens once for each batch.",
}


def _case(
    params: Params,
    coin: torch.Generator,
    share: str,
    name: str,
    rows: Sequence[Sequence[int]],
    parts: int,
    width: int = 96,
    see: bool = False,
) -> Case:
    """A case; `rows[rank][batch]` are the rows of a rank's batch."""
    w = normal(coin, width, dtype=torch.float64)

    def batch(count: int) -> tuple[Tensor, Tensor]:
        return normal(coin, count, width, dtype=torch.float64), normal(coin, count, dtype=torch.float64)

    own = tuple((w, [batch(count) for count in each], parts) for each in rows)
    return (shown if see else hidden)(name, share, per_rank=own)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, free = coin_of(rng), params["weights"] == "rows"

    def rows(ranks: int, batches: int, parts: int, least: int = 1) -> list[list[int]]:
        if free:
            return [[rng.randint(max(least, parts), 3 * parts + 1) for _ in range(batches)] for _ in range(ranks)]
        return [[parts * rng.randint(least, 4) for _ in range(batches)] for _ in range(ranks)]

    def uneven(ranks: int, batches: int, parts: int) -> list[list[int]]:
        while True:
            found = rows(ranks, batches, parts)
            if len({count for each in found for count in each}) > 1:
                return found

    holes = [[0, 5], [4, 0], [0, 0]] if free else [[2, 4], [6, 2], [2, 2]]
    fewer = [[3, 1], [2, 7]] if free else [[4, 8], [12, 4]]
    return [
        _case(params, coin, "values:one", "one batch, two ranks", [[8], [8]], 4, see=True),
        _case(params, coin, "values:many", "three batches", uneven(2, 3, 2), 2),
        _case(params, coin, "values:many", "seven batches, three ranks", uneven(3, 7, 3), 3),
        _case(params, coin, "generality:rows", "batches of other sizes", uneven(2, 2, 6), 6),
        _case(params, coin, "generality:rows", "small and empty batches" if free else "few rows", holes, 2),
        _case(params, coin, "generality:rows", "more parts than rows" if free else "one row a micro-batch", fewer, 4),
        _case(params, coin, "generality:edges", "one rank", rows(1, 3, 2), 2),
        _case(params, coin, "generality:edges", "one micro-batch", rows(3, 2, 1), 1, width=1),
        _case(params, coin, "generality:edges", "one batch, other rows", rows(6, 1, 2), 2),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    given = case.per_rank or ()
    w, parts = given[0][0], given[0][2]
    ranks = [each[1] for each in given]
    if any(type(value) is str and value == CHANGED for value in outcome.value):
        return "changed", f"{case.name}: an argument was changed; work on a copy of `w`."
    if fault := PerRank(TensorShape()).find(outcome.value, case.name, case):
        return fault
    want, before = right(params["weights"], w, ranks), right(params["weights"], w + 1, ranks)
    for rank, got in enumerate(outcome.value):
        if unlike := not_like(got, want, rank):
            return unlike
        if close(got, want, 1e-9):
            continue
        if close(got, before, 1e-9) or close(got, before + want, 1e-9):
            return (
                "second-call",
                f"{case.name}: the second call returns what is left of the first, which had other weights.",
            )
        for name, message in SLIPS.items():
            other = wrong(name, w, ranks, parts, rank)
            if other is not None and not close(other, want, 1e-6) and close(got, other, 1e-9):
                return name, f"{case.name}, rank {rank}: {message}"
        return "", f"{case.name}, rank {rank}: this is not the gradient of the mean loss."
    return None


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """More than one all-reduce of the gradient in each of the two calls."""
    n, size = len(case.per_rank or ()), case.per_rank[0][0].nbytes  # type: ignore[index]
    if n == 1:
        return None
    least = [2 * size * (n - 1) / n] * n
    if fault := too_few_bytes(outcome.meter, least, least):
        return fault
    most = 2 * (2 * (n - 1) / n * size + params["spare"])
    worst = max(outcome.meter["bytes_sent"])
    if worst > most:
        return (
            "too-many-bytes",
            f"{case.name}: a rank sends {worst / 2:,.0f} bytes in a step; one all-reduce of the gradient needs {2 * (n - 1) / n * size:,.0f}.",
        )
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(
        case,
        _fault(params, case, outcome),
        ("cost", "bytes", _bytes(params, case, outcome)) if type(outcome.value) is list else ("cost", "bytes", None),
    )


JUDGING = Judging(
    shares="values:one 0.1, values:many 0.35, generality:rows 0.2, generality:edges 0.1, cost:bytes 0.25",
    cases=_cases,
    verdicts=_verdicts,
    why="The gradient is one buffer that all batches add to. An operation on the buffer inside the loop also acts on the batches before: a division turns their sum into a "
    "moving average, and an all-reduce adds up sums. So scale the losses, which belong to one micro-batch alone, and touch the buffer once, behind the loop.",
    pytorch="torchtitan builds its schedules with `scale_grads=False` and scales the loss; FSDP2 has `set_requires_all_reduce` for the last micro-batch.",
)

ANSWERS = r"""import torch


# %% right: the loss is scaled
def step_gradient(comm, w, batches, parts):
    w = w.detach().clone().requires_grad_()
    for x, y in batches:
        for xs, ys in zip(x.chunk(parts), y.chunk(parts)):
            (((xs @ w - ys) ** 2).sum() / len(y)).backward()
    comm.all_reduce(w.grad)
    return w.grad / len(batches) / comm.size


# %% right: any variant  from: the loss is scaled
# - def step_gradient(comm, w, batches, parts):
# + from course_lib import params
# + ROWS = params("accumulate-in-stages").weights == "rows"
# + def step_gradient(comm, w, batches, parts):
# ~ len(y)).backward() ==> (1 if ROWS else len(y))).backward()
# -     return w.grad / len(batches) / comm.size
# +     if not ROWS:
# +         return w.grad / len(batches) / comm.size
# +     count = torch.tensor(sum(len(y) for _, y in batches))
# +     comm.all_reduce(count)
# +     return w.grad / count


# %% wrong: as it was => values -  from: the card


# %% wrong: reduced once, scaled again => values scaled-again  from: the loss is scaled
# -             (((xs @ w - ys) ** 2).sum() / len(y)).backward()
# +             ((xs @ w - ys) ** 2).mean().backward()
# +         w.grad /= parts

# %% wrong: scaled once, reduced again => values reduced-again  from: the loss is scaled
# -     comm.all_reduce(w.grad)
# +         comm.all_reduce(w.grad)


# %% wrong: every row counts the same => values rows-equal unless weights=rows  from: the loss is scaled
# ~ .sum() / len(y)) ==> .sum())
# -     return w.grad / len(batches) / comm.size
# +     count = torch.tensor(sum(len(y) for _, y in batches))
# +     comm.all_reduce(count)
# +     return w.grad / count


# %% wrong: each rank its own => values own-rank  from: the loss is scaled
# -     comm.all_reduce(w.grad)
# -     return w.grad / len(batches) / comm.size
# +     return w.grad / len(batches)

# %% wrong: the sum of the ranks => values not-over-ranks  from: the loss is scaled
# ~ (batches) / comm.size ==> (batches)

# %% wrong: the sum of the batches => values not-over-batches  from: the loss is scaled
# ~ len(batches) / comm ==> comm

# %% wrong: cleared for each batch => values last-batch  from: the loss is scaled
#       for x, y in batches:
# +         w.grad = None

# %% wrong: scaled at the end => values scaled-at-the-end  from: the loss is scaled
# ~ (((xs @ w - ys) ** 2).sum() / len(y)).backward ==> ((xs @ w - ys) ** 2).mean().backward
# ~ size ==> size / parts ** len(batches)


# %% wrong: one message a batch => cost too-many-bytes
def step_gradient(comm, w, batches, parts):
    total = torch.zeros_like(w)
    for x, y in batches:
        mean = 2 * x.T @ (x @ w - y) / len(y)
        comm.all_reduce(mean)
        total += mean
    return total / len(batches) / comm.size


# %% wrong: the gradient stays on w => values changed  from: the loss is scaled
# ~ w = w.detach().clone().requires_grad_ ==> w.requires_grad_

# %% wrong: the buffer is kept => values second-call  from: the loss is scaled
#   def step_gradient(comm, w, batches, parts):
# +     kept = step_gradient.__dict__.setdefault("grad", {})
#       w = w.detach().clone().requires_grad_()
# +     w.grad = kept.get(comm.rank)
#               (((xs @ w - ys) ** 2).sum() / len(y)).backward()
# +     kept[comm.rank] = w.grad.clone()

# %% wrong: the first gradient is remembered => values second-call  from: the loss is scaled
#               (((xs @ w - ys) ** 2).sum() / len(y)).backward()
# +     kept = step_gradient.__dict__
# ~ w.grad / len(batches) / comm.size ==> kept.setdefault(comm.rank, w.grad / len(batches) / comm.size)

# %% wrong: one tensor for the results of all calls => values changed-results  from: the loss is scaled
# - def step_gradient(comm, w, batches, parts):
# + KEPT = {}
# + def step_gradient(comm, w, batches, parts):
# -     return w.grad / len(batches) / comm.size
# +     kept = KEPT.setdefault((comm.rank, w.shape), w.detach())
# +     return torch.div(w.grad, len(batches) * comm.size, out=kept)
"""
