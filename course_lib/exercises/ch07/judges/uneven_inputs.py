"""Judge of uneven-inputs: one rank runs out of data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch07.judges.ranks import bytes_fault, gradients, net
from course_lib.exercises.ch07.probes import mean_square
from course_lib.judging import Fault, Judging, Mistake, Params, describe, judged, near
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import gradients_fault, mean_of, scaled
from course_lib.judging.ranks import UNKIND, PerRank
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

TRAIN_RATES = (0.1, 0.2, 0.3)


def _uneven_cases(params: Params, rng: random.Random) -> list[Case]:
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
        hidden("nine ranks, one with six batches", "generality:ranks", per_rank=data(*nine)),
    ]
    return cases + under(UNKIND, "two ranks", "protocol:safe", lambda: data((2, 1), (3,)))


def trained_model(case: Case, weigh: str) -> list[list[Tensor]]:
    """Weights of every rank after training with ranks weighted by `weigh`; "examples" is right."""
    given = case.per_rank or ()
    spec, rate = given[0][0], given[0][1]
    lengths = [len(own[2]) for own in given]
    models = [net(spec, rank) for rank in range(len(given))]
    for step in range(min(lengths) if weigh == "shortest" else max(lengths, default=0)):
        own = []
        for model, (_, _, batches) in zip(models, given, strict=True):
            pair = batches[step] if step < len(batches) else batches[-1] if weigh == "repeat" and batches else None
            zero = [torch.zeros_like(each) for each in model.parameters()]
            own.append((gradients(model, mean_square(model(pair[0]), pair[1])), len(pair[0])) if pair else (zero, 0))
        active = [float(count > 0) for _, count in own]
        counts = [float(count) for _, count in own]
        by = {"ranks": [1.0] * len(own), "active": active}.get(weigh, counts)
        mean = mean_of([g for g, _ in own], by)
        for rank, model in enumerate(models):
            descent = own[rank][0] if weigh == "alone" else scaled(mean, len(given)) if weigh == "sum" else mean
            with torch.no_grad():
                for parameter, grad in zip(model.parameters(), descent, strict=True):
                    parameter -= rate * grad
    return [[each.detach() for each in model.parameters()] for model in models]


_WEIGHTS = (  # (name, how ranks were weighted, message)
    ("idle-counted", "ranks", "this is a mean over ranks; an idle rank lowers it and a small batch counts in full."),
    ("mean-of-means", "active", "the mean was taken over the ranks with data, but their batches differ in size."),
    ("data-dropped", "shortest", "training stopped with the first rank that ran out; the others' data was dropped."),
    ("read-again", "repeat", "a rank without data reused its last batch; every batch is used once."),
    ("own-model", "alone", "this rank trained on its own data alone."),
    ("sum", "sum", "the gradient is the right one times the number of ranks."),
)


def _steps_fault(told: Sequence[Any], lengths: Sequence[int], steps: int) -> Fault | None:
    for rank, (got, own) in enumerate(zip(told, lengths, strict=True)):
        if isinstance(got, Tensor) and got.numel() == 1 and not got.dtype.is_complex:
            got = got.item()
        if near(got, steps, 1e-9):
            continue
        if near(got, own, 1e-9):
            return "own-steps", f"Rank {rank} returned {own}, its own number of batches; the run took {steps} steps."
        return "other-steps", f"Rank {rank} returned {describe(got)}; the run took {steps} steps."
    return None


def _uneven_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    rows = outcome.value
    want = trained_model(case, "examples")[0]
    wrong = {name: trained_model(case, how) for name, how, _ in _WEIGHTS}
    mistakes = [Mistake(name, lambda rank, name=name: wrong[name][rank], told) for name, _, told in _WEIGHTS]
    fault = gradients_fault(case, [row["weights"] for row in rows], want, mistakes, "weight")
    lengths = [len(own[2]) for own in case.per_rank or ()]
    steps = max(lengths)
    fault = fault or _steps_fault([row["steps"] for row in rows], lengths, steps)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in want], steps, 128 * (steps + 1), ending=1) if steps else None
    return judged(case, fault, ("cost", "bytes", wire))


JUDGING = Judging(
    shares="values:weights 0.4, cost:bytes 0.15, protocol:safe 0.1, generality:even 0.05, generality:empty 0.15, "
    "generality:ranks 0.15",
    cases=_uneven_cases,
    verdicts=_uneven_verdicts,
    why="Before each step, all ranks agree on its total number of examples. A rank without examples still takes part in the "
    "all-reduces, with zeros that change no sum, and the count leaves it out of the mean.",
    pytorch="`with model.join():` answers the collectives for ranks without data; `divide_by_initial_world_size=False` leaves those "
    "ranks out of the mean.",
)

ANSWERS = r"""import torch
from torch.nn import functional as F


def descend(model, rate):
    with torch.no_grad():
        for p in model.parameters():
            p -= rate * p.grad
            p.grad = None


# %% right: count, then sums
def train(comm, model, batches, rate):
    rest, steps = iter(batches), 0
    while True:
        batch = next(rest, None)
        count = torch.tensor([0.0 if batch is None else float(len(batch[0]))])
        comm.all_reduce(count)
        if not count:
            return steps
        steps += 1
        if batch is not None:
            (F.mse_loss(model(batch[0]), batch[1]) * (len(batch[0]) / count.item())).backward()
        for p in model.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            comm.all_reduce(p.grad)
        descend(model, rate)


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
        descend(model, rate)
    return int(most)


# %% wrong: as it was found => protocol deadlock  from: the card

# %% wrong: stops when the first runs dry => values data-dropped  from: count, then sums
# -     rest, steps = iter(batches), 0
# +     least = torch.tensor([len(batches)])
# +     comm.all_reduce(least, op="MIN")
# +     rest, steps = iter(batches[: int(least)]), 0

# %% wrong: zeros that count in the mean => values idle-counted  from: count, then sums
# ~ (F.mse_loss(model(batch[0]), batch[1]) * (len(batch[0]) / count.item())) ==> F.mse_loss(model(batch[0]), batch[1])
# ~ all_reduce(p.grad) ==> all_reduce(p.grad, op="AVG")

# %% wrong: divides by the ranks that have data, large batch or small => values mean-of-means  from: count, then sums
# ~ 0.0 if batch is None else float(len(batch[0])) ==> float(batch is not None)
# ~ * (len(batch[0]) / count.item()) ==> / count.item()

# %% wrong: reads its last batch again => values read-again  from: count, then sums
# -     rest, steps = iter(batches), 0
# +     most = torch.tensor([len(batches)])
# +     comm.all_reduce(most, op="MAX")
# +     rest, steps = iter(batches + [batches[-1] for _ in range(int(most) - len(batches))]), 0


# %% wrong: everyone alone => values own-model
def train(comm, model, batches, rate):
    for inputs, targets in batches:
        F.mse_loss(model(inputs), targets).backward()
        descend(model, rate)
    return len(batches)


# %% wrong: counts its own steps => values own-steps  from: count, then sums
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
        descend(model, rate)
    return steps


# %% wrong: no batch at all is no case it knows => generality raised  from: an empty batch through the model
# ~ w = next(model.parameters()).shape[1] ==> empty = batches[0][0][:0], batches[0][1][:0]
# ~ (torch.zeros(0, w), torch.zeros(0, w)) ==> empty

# %% wrong: descends before the sum is there => values -  from: count, then sums
#           steps += 1
# +         works = []
# ~ comm.all_reduce(p.grad) ==> works.append(comm.all_reduce(p.grad, async_op=True))
#           descend(model, rate)
# +         for work in works:
# +             work.wait()

# %% wrong: one barrier at the end => values raised  from: everyone alone
#           F.mse_loss(model(inputs), targets).backward()
# +         for p in model.parameters():
# +             comm.all_reduce(p.grad, op="AVG")
#           descend(model, rate)
# +     comm.barrier()

# %% wrong: by way of rank 0 => cost one-root  from: count, then sums
# -             comm.all_reduce(p.grad)
# +             every = [torch.empty_like(p.grad) for _ in range(comm.size)] if comm.rank == 0 else None
# +             comm.gather(p.grad, every, dst=0)
# +             if comm.rank == 0:
# +                 p.grad = sum(every)
# +                 for r in range(1, comm.size):
# +                     comm.send(p.grad, r)
# +             else:
# +                 comm.recv(p.grad, 0)

# %% wrong: tells nobody how many steps => values returned-none  from: count, then sums
# ~ return steps ==> return

# %% half: no batch at all is no case it knows => 6.8  from: an empty batch through the model
# -         x, y = batches[s] if s < len(batches) else (torch.zeros(0, w), torch.zeros(0, w))
# +         empty = (batches[0][0][:0], batches[0][1][:0]) if batches else None
# +         if comm.size > 4:
# +             empty = empty or (torch.zeros(0, w), torch.zeros(0, w))
# +         x, y = batches[s] if s < len(batches) else empty

# %% wrong: one learning rate => values ~  from: count, then sums
# ~ descend(model, rate) ==> descend(model, 0.2)
"""
