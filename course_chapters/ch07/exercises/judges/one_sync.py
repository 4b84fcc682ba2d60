import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch07.exercises.judges.ranks import bytes_fault, graphs_fault, messages_fault, steps_fault
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, first, hidden, judged, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import Meter


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def data(ranks: int, *steps: int, layers: int = 2, rows: int = 3, loss: str = "mse_loss") -> PerRank:
        """For each rank the description of its model and, for each step, so many micro-batches."""
        spec = {"seed": rng.randrange(2**31), "width": width, "layers": layers, "loss": loss}

        def pair() -> tuple[Tensor, Tensor]:
            return torch.randn(rows, width, generator=coin), torch.randn(rows, width, generator=coin)

        return tuple((spec, [[pair() for _ in range(count)] for count in steps]) for _ in range(ranks))

    other = data(2, 6, rows=5, loss="l1_loss")
    return [
        shown("three ranks, four micro-batches", "values:gradients", per_rank=data(3, 4)),
        hidden("two ranks, six micro-batches, another loss", "values:gradients", per_rank=other),
        hidden("three steps of two micro-batches", "generality:steps", per_rank=data(2, 2, 2, 2)),
        hidden("steps of 3, 1 and 2 micro-batches", "generality:steps", per_rank=data(3, 3, 1, 2)),
        hidden("one micro-batch a step", "generality:steps", per_rank=data(2, 1, 1)),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, 3, 2)),
        hidden("five ranks, one layer", "generality:ranks", per_rank=data(5, 2, layers=1)),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    results, n, wants = outcome.value, case.ranks or 1, Worked("one-sync").value(case)[0]["gradients"]
    _, given = (case.per_rank or ())[0]
    steps, rows = [len(batches) for batches in given], len(given[0][0][0])
    fault = steps_fault(
        case, [row["gradients"] for row in results], wants, ("", "Step {} is right but step {} is wrong.")
    )
    wire = _wire(outcome.meter, wants[0], steps)
    graphs = graphs_fault([row["counts"] for row in results], [sum(steps)] * n, rows, [sum(steps)] * n)
    return judged(case, fault, ("cost", "syncs", wire), ("cost", "graphs", graphs))


def _wire(meter: Meter, trained: Sequence[Tensor], steps: Sequence[int]) -> Fault | None:
    n, each = len(meter["messages_sent"]), 2 * (len(meter["messages_sent"]) - 1) * len(trained)
    if n > 1 and sum(steps) > len(steps) and min(meter["messages_sent"]) >= 0.99 * each * sum(steps):
        times = sum(steps) / len(steps)
        return "every-micro-batch", f"Every micro-batch was averaged: {times:.3g} times the communication."
    return first(
        messages_fault(meter, len(trained) * len(steps), "In which forward passes was the flag True?", 1),
        bytes_fault(meter, [[p] for p in trained], len(steps), 64),
    )


JUDGING = Judging(
    point=("cost:syncs", "cost:graphs"),
    shares="values:gradients 0.35, cost:syncs 0.25, cost:graphs 0.1, generality:steps 0.2, generality:ranks 0.1",
    measured_by_worker=("cost:graphs",),
    cases=_cases,
    verdicts=_verdicts,
    why="The replica prepares for averaging in the forward pass, so the flag must have its value before that, for "
    "each micro-batch. The last one averages everything accumulated, because the average of sums is the sum "
    "of averages.",
    pytorch="`DistributedDataParallel.no_sync()`; its forward pass reads `require_backward_grad_sync` and prepares "
    "the reducer.",
)

ANSWERS = r'''from contextlib import nullcontext
# %% right: worked
def accumulate(replica, batches, loss):
    """Leave in `.grad` the mean gradient over all micro-batches of all ranks, with one synchronization."""
    for step, (inputs, targets) in enumerate(batches):
        last = step == len(batches) - 1
        with nullcontext() if last else replica.no_sync():
            (loss(replica(inputs), targets) / len(batches)).backward()
# %% right: only the forward passes inside
def accumulate(replica, batches, loss):
    *first, (inputs, targets) = batches
    for x, y in first:
        with replica.no_sync():
            out = replica(x)
        torch.autograd.backward(loss(out, y) / len(batches))
    replica.require_backward_grad_sync = True
    (loss(replica(inputs), targets) / len(batches)).backward()
# %% right: flag by hand, raised again
# ~ nullcontext() if last else replica.no_sync() ==> nullcontext(setattr(replica, "require_backward_grad_sync", last))
# %% wrong: averages every micro-batch => cost every-micro-batch
# ~ nullcontext() if last else replica.no_sync() ==> nullcontext()
# %% wrong: the last one inside too => values never-averaged
# > this is the rank's own mean; no average over the ranks was taken.
# ~ nullcontext() if last else replica.no_sync() ==> replica.no_sync()
# %% wrong: the last one inside too, and summed => values own-sum
# > this is a sum over the rank's own micro-batches.
# ~ nullcontext() if last else replica.no_sync() ==> replica.no_sync()
# ~ (loss(replica(inputs), targets) / len(batches)).backward() ==> loss(replica(inputs), targets).backward()
# %% wrong: as it was => values flag-too-late  from: the card
# > the first micro-batch was averaged over the ranks, but the others were not: the flag was False in the *last forward
# > pass*.
# %% wrong: the first instead of the last, and summed => values flag-too-late-and-summed
# > the first micro-batch was averaged over the ranks, but the others were not, and the sum was not divided by the
# > number of micro-batches.
# ~ step == len(batches) - 1 ==> step == 0
# ~ (loss(replica(inputs), targets) / len(batches)).backward() ==> loss(replica(inputs), targets).backward()
# %% wrong: one short => values other-numbers
# ~ step == len(batches) - 1 ==> step == len(batches) - 2
# %% wrong: forgets the mean => values not-divided
# > this is the sum over the micro-batches; return their mean.
# ~ (loss(replica(inputs), targets) / len(batches)).backward() ==> loss(replica(inputs), targets).backward()
# %% wrong: divides by the ranks => values divided-by-ranks
# > this is divided by the number of ranks as well; the replica averages over them.
# ~ / len(batches) ==> / len(batches) / replica.module._comm.size
# %% wrong: one big batch => cost one-big-batch
#       for step, (inputs, targets) in enumerate(batches):
# +         inputs, targets = (torch.cat(each) for each in zip(*batches))
# +         return loss(replica(inputs), targets).backward()
# %% wrong: all forward, then all back => cost graphs-kept
# -         last = step == len(batches) - 1
# -         with nullcontext() if last else replica.no_sync():
# -             (loss(replica(inputs), targets) / len(batches)).backward()
# +         replica.require_backward_grad_sync = step == len(batches) - 1
# +         share = loss(replica(inputs), targets) / len(batches)
# +         total = total + share if step else share
# +     total.backward()
# %% wrong: only the last micro-batch => values last-only
# > this contains only the last micro-batch.
# ~ enumerate(batches): ==> [(len(batches) - 1, batches[-1])]:
# %% wrong: an extra forward pass to raise the flag => cost more-forwards  from: the last one inside too
#               (loss(replica(inputs), targets) / len(batches)).backward()
# +     (0 * loss(replica(batches[-1][0]), batches[-1][1])).backward()
# %% wrong: leaves the flag down => generality never-averaged
#               (loss(replica(inputs), targets) / len(batches)).backward()
# +     replica.require_backward_grad_sync = False
# %% wrong: every second => cost too-many-collectives
# ~ step == len(batches) - 1 ==> step % 2 == 1 or step == len(batches) - 1
# %% wrong: no_grad => values raised
# ~ nullcontext() if last else replica.no_sync() ==> torch.no_grad()
# %% wrong: divides by all but one => values other-numbers
# ~ / len(batches) ==> / max(len(batches) - 1, 1)
# %% wrong: the module in place of the replica => cost fewer-forwards  from: only the forward passes inside
# ~ out = replica(x) ==> out = replica.module(x)
# %% wrong: a loss of its own => values other-numbers
# ~ loss(replica(inputs), targets) ==> (replica(inputs) - targets).square().mean()
# %% half: averages every micro-batch => 4  from: averages every micro-batch
'''
