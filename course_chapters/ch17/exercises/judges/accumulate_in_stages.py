from collections.abc import Sequence
from functools import partial

import torch

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, hidden, oracle, shown
from course_grader.judging.tensors import close, coin_of, normal, not_like, off_text
from course_grader.judging.traffic import bytes_fault

right = Worked("accumulate-in-stages")


def _ranks(
    coin: torch.Generator, rows: Sequence[Sequence[int]], parts: int, width: int = 96
) -> tuple[tuple[object, ...], ...]:
    """The ranks' arguments; `rows[rank][batch]` are the rows of a rank's batch."""
    draw = partial(normal, coin, dtype=torch.float64)
    w = draw(width)
    return tuple((w, [(draw(count, width), draw(count)) for count in each], parts) for each in rows)


def _cases(params: Params, rng: Random) -> list[Case]:
    data, free = partial(_ranks, coin_of(rng)), params["weights"] == "rows"

    def rows(ranks: int, batches: int, parts: int) -> list[list[int]]:
        by, least, most = (1, parts, 3 * parts + 1) if free else (parts, 1, 4)
        return [[by * rng.randint(least, most) for _ in range(batches)] for _ in range(ranks)]

    def uneven(ranks: int, batches: int, parts: int) -> list[list[int]]:
        while True:
            found = rows(ranks, batches, parts)
            if len({count for each in found for count in each}) > 1:
                return found

    holes = [[0, 5], [4, 0], [0, 0]] if free else [[2, 4], [6, 2], [2, 2]]
    fewer = [[3, 1], [2, 7]] if free else [[4, 8], [12, 4]]
    example = shown("one batch, two ranks", "values:one", per_rank=data([[8], [8]], 4))
    unseen = [
        ("values:many", "three batches", data(uneven(2, 3, 2), 2)),
        ("values:many", "seven batches, three ranks", data(uneven(3, 7, 3), 3)),
        ("generality:rows", "batches of other sizes", data(uneven(2, 2, 6), 6)),
        ("generality:rows", "small and empty batches" if free else "few rows", data(holes, 2)),
        ("generality:rows", "more parts than rows" if free else "one row a micro-batch", data(fewer, 4)),
        ("generality:edges", "one rank", data(rows(1, 3, 2), 2)),
        ("generality:edges", "one micro-batch", data(rows(3, 2, 1), 1, 1)),
        ("generality:edges", "one batch, other rows", data(rows(6, 1, 2), 2)),
    ]
    return [example, *(hidden(name, share, per_rank=given) for share, name, given in unseen)]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        if unlike := not_like(got, want, rank):
            return unlike
        if not close(got, want, 1e-9):
            lead = f"rank {rank}: "
            nearly = off_text(got, want) if close(got, want, 0.02) else "is not that of the mean loss."
            return Wrong("", f"{lead}the gradient {nearly}", lead)
    return None


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """More than one all-reduce of the gradient in each of the two calls."""
    per_rank = case.per_rank or ()
    n = len(per_rank)
    ring = 2 * (n - 1) / n * per_rank[0][0].nbytes
    most, needs = 2 * (ring + params["spare"]), "two steps with one all-reduce of the gradient take at most"
    return bytes_fault(outcome.meter, [most] * n, needs, [ring] * n) if n > 1 else None


JUDGING = Judging(
    shares="values:one 0.1, values:many 0.35, generality:rows 0.2, generality:edges 0.1, cost:bytes 0.25",
    cases=_cases,
    verdicts=oracle(_fault, {"cost:bytes": _bytes}, named=True),
    why="The gradient is one buffer that all batches add to. An operation on the buffer inside the loop also acts on "
    "the batches before: a division turns their sum into a moving average, and an all-reduce adds up sums. So scale "
    "the losses, which belong to one micro-batch alone, and touch the buffer once, behind the loop.",
    pytorch="torchtitan builds its schedules with `scale_grads=False` and scales the loss; FSDP2 has "
    "`set_requires_all_reduce` for the last micro-batch.",
)

ANSWERS = r'''import torch
# %% right: worked
weights = params("accumulate-in-stages").weights  # leave as is: what counts the same: "batches" or "rows"


def step_gradient(comm, w: torch.Tensor, batches: list[tuple[torch.Tensor, torch.Tensor]], parts: int) -> torch.Tensor:
    """The gradient of the mean loss of all batches and ranks."""
    w = w.detach().clone().requires_grad_()
    rows = torch.tensor([float(sum(len(y) for _, y in batches))], dtype=w.dtype)
    for x, y in batches:
        for xs, ys in zip(x.chunk(parts), y.chunk(parts), strict=True):
            loss = ((xs @ w - ys) ** 2).sum()
            (loss if weights == "rows" else loss / len(y)).backward()
    comm.all_reduce(w.grad)
    comm.all_reduce(rows)
    return w.grad / (rows if weights == "rows" else len(batches) * comm.size)
# %% right: in closed form, a batch at once  from: worked
def step_gradient(comm, w, batches, parts):
    total = torch.zeros_like(w)
    for x, y in batches:
        total += 2 * x.T @ (x @ w - y) / (1 if weights == "rows" else len(y))
    count = torch.tensor(sum(len(y) for _, y in batches) if weights == "rows" else len(batches))
    comm.all_reduce(total)
    comm.all_reduce(count)
    return total / count
# %% wrong: as it was => values scaled-again  from: the card
# %% wrong: scaled again => values
# > earlier batches were divided by `parts` once more with each later batch.
# ~ ((xs @ w - ys) ** 2).sum() ==> ((xs @ w - ys) ** 2).sum() * parts
#               (loss if weights == "rows" else loss / len(y)).backward()
# +         w.grad /= parts
# %% wrong: reduced again => values
# > what was summed over the ranks already is summed again with each later batch.
# -     comm.all_reduce(w.grad)
# +         comm.all_reduce(w.grad)
# %% wrong: rows equal => values unless weights=rows
# > every row counts the same, so a larger batch weighs more.
# ~ params("accumulate-in-stages").weights ==> "rows"
# %% wrong: batches equal => values unless weights=batches
# > every batch counts the same, however many rows it has.
# ~ params("accumulate-in-stages").weights ==> "batches"
# %% wrong: rows of a rank equal => values
# > every row of a rank counts the same, and then every rank.
# ~ (loss if weights == "rows" else loss / len(y)) ==> loss
# ~ comm.all_reduce(w.grad) ==> comm.all_reduce(w.grad.div_(sum(len(y) for _, y in batches)))
# ~ (rows if weights == "rows" else len(batches) * comm.size) ==> comm.size
# %% wrong: own rank => values
# > this is the rank's own gradient; it was not averaged over the ranks.
# -     comm.all_reduce(w.grad)
# -     comm.all_reduce(rows)
# ~ len(batches) * comm.size ==> len(batches)
# %% wrong: not over ranks => values
# > this is the sum over the ranks.
# ~ return w.grad / ( ==> return w.grad * comm.size / (
# %% wrong: not over batches => values
# > this is the sum over the batches.
# ~ return w.grad / ( ==> return w.grad * len(batches) / (
# %% wrong: not over parts => values
# > this is the sum over the micro-batches of a batch.
# ~ ((xs @ w - ys) ** 2).sum() ==> ((xs @ w - ys) ** 2).sum() * parts
# %% wrong: last batch => values
# > only the last batch is left; the others were cleared.
#       for x, y in batches:
# +         w.grad = None
# %% wrong: scaled at the end => values
# > the division by `parts` happens once for each batch.
# ~ ((xs @ w - ys) ** 2).sum() ==> ((xs @ w - ys) ** 2).sum() * parts
# ~ return w.grad / ( ==> return w.grad / parts ** len(batches) / (
# %% wrong: one message a batch => cost too-many-bytes  from: in closed form, a batch at once
# -     total = torch.zeros_like(w)
# +     totals = []
# -         total += 2 * x.T @ (x @ w - y) / (1 if weights == "rows" else len(y))
# +         totals.append(2 * x.T @ (x @ w - y) / (1 if weights == "rows" else len(y)))
# +         comm.all_reduce(totals[-1])
# -     comm.all_reduce(total)
# ~ return total ==> return sum(totals)
# %% wrong: the gradient stays on w => values changed
# ~ w = w.detach().clone().requires_grad_ ==> w.requires_grad_
# %% wrong: second call => values
# > the second call returns what is left of the first, which had other weights.
#       w = w.detach().clone().requires_grad_()
# +     kept = step_gradient.__dict__.setdefault("grad", {})
# +     w.grad = kept.get(comm.rank)
#               (loss if weights == "rows" else loss / len(y)).backward()
# +     kept[comm.rank] = w.grad.clone()
# %% wrong: the first gradient is remembered => values second-call
# ~ return w.grad / ( ==> return step_gradient.__dict__.setdefault(comm.rank, w.grad) / (
# %% wrong: one tensor for the results of all calls => values changed-results
# -     return w.grad / (rows if weights == "rows" else len(batches) * comm.size)
# +     kept = step_gradient.__dict__.setdefault((comm.rank, w.shape), w.detach())
# +     return torch.div(w.grad, rows if weights == "rows" else len(batches) * comm.size, out=kept)
'''
