import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch07.exercises.judges.ranks import bytes_fault
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, Wrong, describe, judged, near
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.gradients import gradients_fault
from course_grader.judging.ranks import UNKIND, PerRank
from course_grader.judging.tensors import coin_of

TRAIN_RATES = (0.1, 0.2, 0.3)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def data(*table: Sequence[int]) -> PerRank:
        """For each rank the model, the learning rate, and batches with these numbers of rows."""
        spec = {"seed": rng.randrange(2**31), "width": width, "layers": 2}

        def pair(rows: int) -> tuple[Tensor, Tensor]:
            return torch.randn(rows, width, generator=coin), torch.randn(rows, width, generator=coin)

        rate = rng.choice(TRAIN_RATES)
        return tuple((spec, rate, [pair(rows) for rows in own]) for own in table)

    nine = (2,), (), (1, 1), (3, 2), (), (1,), (1,), (), (1,) * 6
    cases = [
        shown("three ranks with 3, 1 and 2 batches", "values:weights", per_rank=data((4, 4, 4), (4,), (4, 4))),
        hidden("two ranks, batches of several sizes", "values:weights", per_rank=data((1, 5), (6, 2, 3))),
        hidden("equally many batches on all ranks", "generality:even", per_rank=data((2, 3), (4, 1), (3, 3))),
        hidden("a rank without a batch", "generality:empty", per_rank=data((3, 2), (), (4,))),
        hidden("no rank has a batch", "generality:empty", per_rank=data((), ())),
        hidden("two ranks, batches larger than the model", "cost:bytes", per_rank=data((60, 75), (90,))),
        hidden("one rank alone", "generality:ranks", per_rank=data((2, 3))),
        hidden("one rank alone, one batch", "generality:ranks", per_rank=data((2,))),
        hidden("one rank alone, without a batch", "generality:ranks", per_rank=data(())),
        hidden("nine ranks, one with six batches", "generality:ranks", per_rank=data(*nine)),
    ]
    return cases + under(UNKIND, "two ranks", "protocol:safe", lambda: data((2, 1), (3,)))


def _steps_fault(told: Sequence[object], steps: int) -> Fault | None:
    for rank, got in enumerate(told):
        if isinstance(got, Tensor) and got.numel() == 1 and not got.dtype.is_complex:
            got = got.item()
        if not near(got, steps, 1e-9):
            message = f"Rank {rank} returned {describe(got)}; the run took {steps} steps."
            return Wrong("other-steps", message, f"Rank {rank}: ", ("steps",))
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    rows, right = outcome.value, Worked("uneven-inputs").value(case)[0]
    weights, steps = right["weights"], right["steps"]
    fault = gradients_fault(case, [row["weights"] for row in rows], weights, what="weight", where=("weights",))
    fault = fault or _steps_fault([row["steps"] for row in rows], steps)
    if case.adversary is not None:
        return judged(case, fault)
    spare = 128 * (steps + 1)
    wire = bytes_fault(outcome.meter, [[each] for each in weights], steps, spare, ending=1) if steps else None
    return judged(case, fault, ("cost", "bytes", wire))


JUDGING = Judging(
    shares="values:weights 0.4, cost:bytes 0.15, protocol:safe 0.1, generality:even 0.05, generality:empty 0.15, "
    "generality:ranks 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="Before each step, all ranks agree on its total number of examples. A rank without examples still takes part "
    "in the all-reduces, with zeros that change no sum, and the count leaves it out of the mean.",
    pytorch="`with model.join():` answers the collectives for ranks without data; "
    "`divide_by_initial_world_size=False` leaves those ranks out of the mean.",
)

ANSWERS = r'''# %% right: worked
def train(comm, model, batches, rate):
    """Train until no rank has a batch left; return the number of steps taken."""
    rest, steps = iter(batches), 0
    while True:
        batch = next(rest, None)
        count = torch.tensor([len(batch[0]) if batch else 0])
        comm.all_reduce(count)
        if not count:
            return steps
        if batch:
            inputs, targets = batch
            (F.mse_loss(model(inputs), targets) * len(inputs) / count.item()).backward()
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            comm.all_reduce(parameter.grad)
            with torch.no_grad():
                parameter -= rate * parameter.grad
            parameter.grad = None
        steps += 1
# %% right: an empty batch through the model
def train(comm, model, batches, rate):
    most = torch.tensor(len(batches))
    comm.all_reduce(most, op="MAX")
    w = next(model.parameters()).shape[1]
    for s in range(int(most)):
        x, y = batches[s] if s < len(batches) else (torch.zeros(0, w), torch.zeros(0, w))
        c = torch.tensor([float(y.numel())])
        comm.all_reduce(c)
        ((model(x) - y).square().sum() / c).backward()
        for p in model.parameters():
            comm.all_reduce(p.grad)
            p.data -= rate * p.grad
            p.grad = None
    return int(most)
# %% wrong: as it was found => protocol deadlock  from: the card
# %% wrong: stops when the first runs dry => values data-dropped
# > training stopped with the first rank that ran out; the others' data was dropped.
# -     rest, steps = iter(batches), 0
# +     least = torch.tensor([len(batches)])
# +     comm.all_reduce(least, op="MIN")
# +     rest, steps = iter(batches[: int(least)]), 0
# %% wrong: zeros that count in the mean => values idle-counted
# > this is a mean over ranks; an idle rank lowers it and a small batch counts in full.
# ~ (F.mse_loss(model(inputs), targets) * len(inputs) / count.item()) ==> F.mse_loss(model(inputs), targets)
# ~ all_reduce(parameter.grad) ==> all_reduce(parameter.grad, op="AVG")
# %% wrong: divides by the ranks that have data, large batch or small => values mean-of-means
# > the mean was taken over the ranks with data, but their batches differ in size.
# ~ len(batch[0]) if batch else 0 ==> 1 if batch else 0
# ~ * len(inputs) / count.item() ==> / count.item()
# %% wrong: reads its last batch again => values read-again
# > a rank without data reused its last batch; every batch is used once.
# -     rest, steps = iter(batches), 0
# +     most = torch.tensor([len(batches)])
# +     comm.all_reduce(most, op="MAX")
# +     rest, steps = iter(batches + batches[-1:] * (int(most) - len(batches))), 0
# %% wrong: everyone alone => values own-model
# > this rank trained on its own data alone.
# ~ comm.all_reduce(count) ==>
# ~ comm.all_reduce(parameter.grad) ==>
# %% wrong: times the ranks => values sum
# > the gradient is the right one times the number of ranks.
# ~ * len(inputs) / count.item() ==> * len(inputs) * comm.size / count.item()
# %% wrong: averaged over the ranks as well => values averaged-again
# > the gradient is divided by the number of ranks as well; the count covers all ranks already, so sum.
# ~ all_reduce(parameter.grad) ==> all_reduce(parameter.grad, op="AVG")
# %% wrong: the ranks' means added up => values
# > the ranks' means were added up; weight each by its examples, and divide by those of all.
# ~ * len(inputs) / count.item() ==>
# %% wrong: squared errors added up over outputs => values
# > an example's squared errors were added up; their mean was asked for.
# ~ F.mse_loss(model(inputs), targets) * len(inputs) ==> F.mse_loss(model(inputs), targets, reduction="sum")
# %% wrong: a rank without data keeps its weights => values
# > a rank without data did not take the step; every rank updates its weights in every step.
# ~ rate * parameter.grad ==> rate * parameter.grad * bool(batch)
# %% wrong: counts its own steps => values own-steps
# > this is the rank's own number of batches; return the number of steps that the run took.
# ~ return steps ==> return len(batches)
# %% wrong: all data to everyone => cost too-many-bytes
def train(comm, model, batches, rate):
    most = torch.tensor([len(batches), max((len(x) for x, _ in batches), default=0)])
    comm.all_reduce(most, op="MAX")
    steps, rows = most.tolist()
    width = next(model.parameters()).shape[1]
    mine = torch.full((max(steps, 1), max(rows, 1), 2, width), float("nan"))
    for step, (inputs, targets) in enumerate(batches):
        mine[step, : len(inputs)] = torch.stack([inputs, targets], 1)
    every = [torch.empty_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    for step in range(steps):
        data = torch.cat([e[step] for e in every])
        data = data[~data[:, 0, 0].isnan()]
        F.mse_loss(model(data[:, 0]), data[:, 1]).backward()
        for p in model.parameters():
            p.data -= rate * p.grad
            p.grad = None
    return steps
# %% wrong: no batch at all is no case it knows => generality raised  from: an empty batch through the model
# ~ w = next(model.parameters()).shape[1] ==> empty = batches[0][0][:0], batches[0][1][:0]
# ~ (torch.zeros(0, w), torch.zeros(0, w)) ==> empty
# %% wrong: descends before the sum is there => values other-numbers
#               return steps
# +         works = []
# ~ comm.all_reduce(parameter.grad) ==> works.append(comm.all_reduce(parameter.grad, async_op=True))
#               parameter.grad = None
# +         for work in works:
# +             work.wait()
# %% wrong: one barrier at the end => values raised
# ~ comm.all_reduce(count) ==>
#           if not count:
# +             comm.barrier()
# ~ all_reduce(parameter.grad) ==> all_reduce(parameter.grad, op="AVG")
# %% wrong: by way of rank 0 => cost one-root
# -             comm.all_reduce(parameter.grad)
# +             every = [torch.empty_like(parameter) for _ in range(comm.size)] if comm.rank == 0 else None
# +             comm.gather(parameter.grad, every, dst=0)
# +             if comm.rank == 0:
# +                 parameter.grad = sum(every)
# +                 for other in range(1, comm.size):
# +                     comm.send(parameter.grad, other)
# +             else:
# +                 comm.recv(parameter.grad, 0)
# %% wrong: tells nobody how many steps => values returned-none
# ~ return steps ==> return
# %% wrong: one learning rate => values ~
# ~ rate * parameter.grad ==> 0.2 * parameter.grad
# %% half: no batch at all is no case it knows => 6.8  from: an empty batch through the model
# -         x, y = batches[s] if s < len(batches) else (torch.zeros(0, w), torch.zeros(0, w))
# +         empty = (batches[0][0][:0], batches[0][1][:0]) if batches else None
# +         if comm.size > 4:
# +             empty = empty or (torch.zeros(0, w), torch.zeros(0, w))
# +         x, y = batches[s] if s < len(batches) else empty
'''
