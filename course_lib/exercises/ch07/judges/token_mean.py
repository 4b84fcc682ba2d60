"""Judge of token-mean: the mean of means."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from course_lib.exercises.ch07.judges.ranks import bytes_fault, gradients, graphs_fault
from course_lib.exercises.ch07.models import Words
from course_lib.judging import Fault, Judging, Mistake, Params, describe, is_number, judged, near
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import gradients_fault, mean_of, scaled
from course_lib.judging.ranks import UNKIND, PerRank
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

PAD = -100


def _micro(
    coin: torch.Generator, params: Params, rows: int, length: int, padded: Sequence[int], spread: bool = False
) -> tuple[Tensor, Tensor]:
    """One micro-batch: in row i, `padded[i]` targets do not count, at its end or, if `spread`, anywhere."""
    words = params["vocabulary"]
    inputs = torch.randint(words, (rows, length), generator=coin)
    targets = torch.randint(words, (rows, length), generator=coin)
    for row, count in enumerate(padded):
        targets[row, torch.randperm(length, generator=coin)[:count] if spread else slice(length - count, None)] = PAD
    return inputs, targets


def _token_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(*table: Sequence[Sequence[int]], rows: int = 2, length: int = 6, spread: bool = False) -> PerRank:
        """For each rank the model and its micro-batches, from the number of padded targets of each row."""
        spec = {"seed": rng.randrange(2**31), "vocabulary": params["vocabulary"], "width": params["width"]}
        return tuple((spec, [_micro(coin, params, rows, length, padded, spread) for padded in own]) for own in table)

    uneven = [(0, 5), (3, 4)], [(0, 0), (1, 0)], [(5, 5), (4, 2)]
    several = [(0, 3), (2, 2), (5, 5)], [(0, 0)], [(1, 1), (4, 5)]
    cases = [shown("three ranks with two micro-batches each", "values:tokens", per_rank=data(*uneven))]
    other = data([(5, 5), (0, 0), (2, 3)], [(0, 1), (4, 4), (5, 0)])
    cases += [hidden("two ranks, other data", "values:tokens", per_rank=other)]
    cases += [hidden("one rank alone, padded unevenly", "generality:ranks", per_rank=data([(0, 0), (5, 5), (1, 4)]))]
    cases += [hidden("no padding anywhere", "generality:ranks", per_rank=data(*[[(0, 0), (0, 0)]] * 2))]
    five = data(*([(i, 5 - i)] for i in range(5)))
    cases += [hidden("five ranks with one micro-batch each", "generality:ranks", per_rank=five)]
    cases += [hidden("ranks with 3, 1 and 2 micro-batches", "generality:uneven", per_rank=data(*several))]
    padding = data([(6, 6), (0, 5)], [(1, 1)])
    cases += [hidden("a micro-batch of padding alone", "generality:uneven", per_rank=padding)]
    ten = data([(0, 9, 40)] * 5, [], *[[(3, 20, 0)]] * 6, [(7, 0, 1)], [], rows=3, length=57, spread=True)
    cases += [hidden("ten ranks, two without a micro-batch", "generality:uneven", per_rank=ten)]
    return cases + under(UNKIND, "two ranks", "protocol:safe", lambda: data([(0, 5)], [(1, 0), (2, 2)]))


def _token_sums(case: Case) -> list[list[tuple[list[Tensor | None], float, int, int]]]:
    """By rank and micro-batch: gradient of the sum of losses, that sum, tokens that count, all tokens."""
    out = []
    for spec, batches in case.per_rank or ():
        rows = []
        for inputs, targets in batches:
            model = Words(spec["seed"], spec["vocabulary"], spec["width"])
            logits = model.head(model.embedding(inputs)).double()
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            rows.append((gradients(model, loss), loss.item(), int((targets != PAD).sum()), targets.numel()))
        out.append(rows)
    return out


def _token_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    results, n = outcome.value, case.ranks or 1
    sums = _token_sums(case)
    flat = [row for rows in sums for row in rows]
    zero = scaled(flat[0][0], 0.0)
    tokens, everything = sum(row[2] for row in flat), sum(row[3] for row in flat)

    def total(rows: Sequence[Any], weights: Sequence[float]) -> tuple[list[Tensor | None], float]:
        grads = scaled(mean_of([row[0] for row in rows], list(weights)), sum(weights)) if rows else zero
        return grads, sum(w * row[1] for w, row in zip(weights, rows, strict=True))

    want, loss = total(flat, [1 / tokens] * len(flat))
    local = [total(rows, [1 / max(sum(r[2] for r in rows), 1)] * len(rows)) for rows in sums]
    micro = [total(rows, [1 / max(r[2], 1) / len(rows) for r in rows]) for rows in sums]
    plain = [total(rows, [1 / max(r[2], 1) for r in rows]) for rows in sums]
    mean = {
        name: (mean_of([g for g, _ in each]), sum(x for _, x in each) / n)
        for name, each in (("local", local), ("micro", micro), ("plain", plain))
    }

    def share(rank: int) -> tuple[list[Tensor | None], float]:
        return total(sums[rank], [1 / tokens] * len(sums[rank]))

    def times(factor: float) -> Callable[[int], tuple[list[Tensor | None], float]]:
        return lambda rank: (scaled(want, factor), loss * factor)

    pairs = [  # each value is a function from a rank to (gradients, loss)
        Mistake("mean-of-means", lambda rank: mean["micro"], "a mean of means: tokens among few weigh more."),
        Mistake("mean-over-ranks", lambda rank: mean["local"], "right within each rank, then averaged over ranks."),
        Mistake("own-tokens", lambda rank: local[rank], "the mean over the rank's own tokens only."),
        Mistake("own-tokens", lambda rank: micro[rank], "a mean over the rank's own micro-batches only."),
        Mistake("micro-batches-added", lambda rank: mean["plain"], "the micro-batches' means added up."),
        Mistake("own-share", share, "the rank's own share of the mean; the other ranks' shares are missing."),
        Mistake("padding-counted", times(tokens / everything), "divided by all targets; targets of −100 do not count."),
        Mistake("averaged-again", times(1 / n), "divided by ranks; the count covers all ranks already, so sum."),
        Mistake("not-divided", times(tokens), "the sum over tokens, not the mean."),
    ]
    grads = [Mistake(pair.name, lambda rank, pair=pair: pair.on(rank)[0], pair.message) for pair in pairs]
    fault = gradients_fault(case, [row["gradients"] for row in results], want, grads)
    fault = fault or _loss_fault(case, [row["loss"] for row in results], loss, pairs)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in want if each is not None], 1, 128 + 64 * len(flat))
    batches = [len(own[1]) for own in case.per_rank or ()]
    counted = [sum(row[2] > 0 for row in rows) for rows in sums]
    largest = max(len(inputs) for own in case.per_rank or () for inputs, _ in own[1])
    graphs = graphs_fault([row["counts"] for row in results], batches, largest, counted)
    return judged(case, fault, ("cost", "bytes", wire), ("cost", "graphs", graphs))


def _loss_fault(case: Case, losses: Sequence[Any], want: float, mistakes: Sequence[Mistake]) -> Fault | None:
    for rank, got in enumerate(losses):
        if isinstance(got, Tensor) and got.numel() == 1:
            got = got.item()
        if near(got, want, 1e-5):
            continue
        if case.adversary is not None and is_number(got):
            return "in-flight", f"With {case.adversary}, rank {rank}'s loss changes: was it read too early?"
        if type(got) is float and math.isnan(got):
            return "not-finite", f"Rank {rank} returned NaN as its loss: a micro-batch of padding alone has no mean."
        if not is_number(got):
            return "no-loss", f"Rank {rank} returned {describe(got)}; return the mean loss, one number."
        lead = f"The gradients are right, but the loss that rank {rank} returned is wrong"
        for mistake in mistakes:
            if near(got, mistake.on(rank)[1], 1e-5):
                return f"loss-{mistake.name}", f"{lead}: {mistake.message}"
        return "other-loss", f"{lead}: it is {got / want:.4g} times the right one."
    return None


JUDGING = Judging(
    shares="values:tokens 0.35, cost:bytes 0.15, cost:graphs 0.15, protocol:safe 0.05, generality:ranks 0.1, "
    "generality:uneven 0.2",
    measured_by_worker=("cost:graphs",),
    cases=_token_cases,
    verdicts=_token_verdicts,
    why="Every token's loss must be divided by the number of all tokens. The targets give that number before the first forward pass. With "
    "it, each micro-batch can run its backward pass at once, and the ranks hold shares of one sum.",
    pytorch="transformers passes `num_items_in_batch` to the loss since October 2024; torchtune scales gradients by the token count.",
)

ANSWERS = r"""import torch
from torch.nn import functional as F


def losses(model, inputs, targets, reduction="sum"):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction=reduction)


# %% right: count first
def token_step(comm, model, batches):
    count = torch.tensor(float(sum((targets != -100).sum() for _, targets in batches)))
    comm.all_reduce(count)
    total = torch.zeros(())
    for inputs, targets in batches:
        loss = losses(model, inputs, targets) / count
        loss.backward()
        total += loss.detach()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        comm.all_reduce(parameter.grad)
    comm.all_reduce(total)
    return total.item()


# %% right: as DistributedDataParallel wants it, with the mean over ranks
def token_step(comm, model, batches):
    count = torch.tensor(float(sum(int(t.ge(0).sum()) for _, t in batches)))
    comm.all_reduce(count)
    value = torch.zeros(1)
    for inputs, targets in batches:
        loss = losses(model, inputs, targets) * comm.size / count
        loss.backward()
        value += loss.detach()
    for p in model.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    works = [comm.all_reduce(t, op="AVG", async_op=True) for t in [value, *(p.grad for p in model.parameters())]]
    for work in works:
        work.wait()
    return value.item()


# %% wrong: weighs tokens at home, ranks alike => values mean-over-ranks  from: right count, then the mean over ranks
# -     comm.all_reduce(count)
# ~ all_reduce(total) ==> all_reduce(total, op="AVG")

# %% wrong: communicates nothing => values own-tokens  from: count first
# -     comm.all_reduce(count)
#           total += loss.detach()
# -     for parameter in model.parameters():
# -         if parameter.grad is None:
# -             parameter.grad = torch.zeros_like(parameter)
# -         comm.all_reduce(parameter.grad)
# -     comm.all_reduce(total)

# %% wrong: counts the padding => values padding-counted  from: count first
# ~ (targets != -100).sum ==> targets.numel

# %% wrong: right count, then the mean over ranks => values averaged-again  from: count first
# ~ all_reduce(parameter.grad) ==> all_reduce(parameter.grad, op="AVG")

# %% wrong: the loss of its own share => values loss-own-share  from: count first
# -     comm.all_reduce(total)

# %% wrong: no division at all => values not-divided  from: count first
# ~ (model, inputs, targets) / count ==> (model, inputs, targets)

# %% wrong: one big batch => cost one-big-batch  from: count first
# ~ for inputs, targets in batches: ==> if batches:
# ~ (model, inputs, targets) / count ==> (model, *(torch.cat(each) for each in zip(*batches))) / count


# %% wrong: reduces once a micro-batch => cost too-many-bytes
def token_step(comm, model, batches):
    row = torch.tensor([float(sum((t != -100).sum() for _, t in batches)), 0.0])
    most = torch.tensor([len(batches)])
    comm.all_reduce(row)
    comm.all_reduce(most, op="MAX")
    kept = [torch.zeros_like(p) for p in model.parameters()]
    total = torch.zeros(())
    for place in range(int(most)):
        if place < len(batches):
            loss = losses(model, *batches[place]) / row[0]
            loss.backward()
            total += loss.detach()
        for p, into in zip(model.parameters(), kept):
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            comm.all_reduce(grad)
            into += grad
            p.grad = None
    for p, into in zip(model.parameters(), kept):
        p.grad = into
    comm.all_reduce(total)
    return total.item()


# %% wrong: every rank with everybody's tokens => cost -
def token_step(comm, model, batches):
    shape = torch.tensor([len(batches)])
    most = shape.clone()
    comm.all_reduce(most, op="MAX")
    most = int(most)
    mine = torch.full((max(most, 1), 2, 2, 6), -100)
    for place, (inputs, targets) in enumerate(batches):
        mine[place] = torch.stack([inputs, targets])
    every = [torch.empty_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    pairs = [(b[0], b[1]) for rank in every for b in rank if (b[1] != -100).any()]
    count = sum(int((t != -100).sum()) for _, t in pairs)
    total = 0.0
    for inputs, targets in pairs:
        loss = losses(model, inputs.clamp_min(0), targets) / count
        loss.backward()
        total += loss.item()
    return total


# %% wrong: a rank without a micro-batch has no gradient to send => generality raised  from: count first
# -         if parameter.grad is None:
# -             parameter.grad = torch.zeros_like(parameter)

# %% wrong: not a number times no token => generality not-finite  from: count first
# ~ (model, inputs, targets) / count ==> (model, inputs, targets, "mean") * (targets != -100).sum() / count

# %% wrong: reads the loss before it is there => protocol in-flight  from: count first
#           total += loss.detach()
# +     work = comm.all_reduce(total, async_op=True)
# -     comm.all_reduce(total)
# -     return total.item()
# +     value = total.item()
# +     work.wait()
# +     return value

# %% wrong: forward twice => cost more-forwards  from: count first
#       for inputs, targets in batches:
# +         with torch.no_grad():
# +             losses(model, inputs, targets)

# %% wrong: half precision on the wire => values rounded  from: count first
# -         comm.all_reduce(parameter.grad)
# +         half = parameter.grad.half()
# +         comm.all_reduce(half)
# +         parameter.grad = half.float()

# %% wrong: gradients never leave home, loss does => values own-share  from: count first
# -         comm.all_reduce(parameter.grad)

# %% wrong: returns nothing => values returned-none  from: count first
# -     comm.all_reduce(total)
# -     return total.item()

# %% wrong: weights tokens times ranks => values -  from: count first
# ~ (model, inputs, targets) / count ==> (model, inputs, targets) * comm.size / count

# %% wrong: backward at the end of pairs => cost graphs-kept  from: count first
# -     for inputs, targets in batches:
# -         loss = losses(model, inputs, targets) / count
# +     kept = [losses(model, inputs, targets) / count for inputs, targets in batches]
# +     for loss in kept:

# %% wrong: parts of the model, so that nobody counts => cost fewer-forwards  from: count first
# ~ losses(model, inputs, targets) ==> losses(lambda tokens: model.head(model.embedding(tokens)), inputs, targets)

# %% wrong: as it was => values mean-of-means  from: the card

# %% half: right for ranks with a micro-batch each => 7.2  from: a rank without a micro-batch has no gradient to send

# %% wrong: padding ends rows, and nothing else => generality ~  from: count first
# ~ (targets != -100).sum() ==> (targets != -100).flip(1).cummax(1).values.sum()
"""
