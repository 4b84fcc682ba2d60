import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch07.exercises.judges.ranks import bytes_fault, graphs_fault
from course_grader.judging import Fault, Judging, Params, Random, Worked, Wrong, describe, is_number, judged, near
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.gradients import gradients_fault
from course_grader.judging.ranks import UNKIND, PerRank
from course_grader.judging.tensors import coin_of
from course_grader.records import Case, Outcome, Verdict

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


def _cases(params: Params, rng: Random) -> list[Case]:
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
    cases += [hidden("one rank, one micro-batch", "generality:ranks", per_rank=data([(0, 5)]))]
    idle = data([(0, 5)], [], [(1, 4), (2, 2)])
    cases += [hidden("three ranks, one without a micro-batch", "generality:uneven", per_rank=idle)]
    ten = data([(0, 9, 40)] * 5, [], *[[(3, 20, 0)]] * 6, [(7, 0, 1)], [], rows=3, length=57, spread=True)
    cases += [hidden("ten ranks, two without a micro-batch", "generality:uneven", per_rank=ten)]
    return cases + under(UNKIND, "two ranks", "protocol:safe", lambda: data([(0, 5)], [(1, 0), (2, 2)]))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    results, right = outcome.value, Worked("token-mean").value(case)[0]
    want = right["gradients"]
    fault = gradients_fault(case, [row["gradients"] for row in results], want, where=("gradients",))
    fault = fault or _loss_fault(case, [row["loss"] for row in results], right["loss"])
    if case.adversary is not None:
        return judged(case, fault)
    given = [batches for _, batches in case.per_rank or ()]
    spare = 128 + 64 * sum(map(len, given))
    wire = bytes_fault(outcome.meter, [[each] for each in want if each is not None], 1, spare)
    counted = [sum(bool((targets != PAD).any()) for _, targets in batches) for batches in given]
    largest = max(len(inputs) for batches in given for inputs, _ in batches)
    graphs = graphs_fault([row["counts"] for row in results], list(map(len, given)), largest, counted)
    return judged(case, fault, ("cost", "bytes", wire), ("cost", "graphs", graphs))


def _loss_fault(case: Case, losses: Sequence[object], want: float) -> Fault | None:
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
        message = (
            f"The gradients are right, but the loss that rank {rank} returned is {got / want:.4g} times the right one."
        )
        return Wrong("other-loss", message, f"Rank {rank}: ", ("loss",))
    return None


JUDGING = Judging(
    shares="values:tokens 0.35, cost:bytes 0.15, cost:graphs 0.15, protocol:safe 0.05, generality:ranks 0.1, "
    "generality:uneven 0.2",
    measured_by_worker=("cost:graphs",),
    cases=_cases,
    verdicts=_verdicts,
    why="Every token's loss must be divided by the number of all tokens. The targets give that number before the "
    "first forward pass. With it, each micro-batch can run its backward pass at once, and the ranks hold "
    "shares of one sum.",
    pytorch="transformers passes `num_items_in_batch` to the loss since October 2024; torchtune scales gradients by "
    "the token count.",
)

ANSWERS = r'''# %% right: worked
def token_step(comm, model, batches):
    """The mean loss over all tokens that count on all ranks; leaves its gradient in `.grad`."""
    count = torch.tensor(float(sum((targets != -100).sum() for _, targets in batches)))
    comm.all_reduce(count)
    total = torch.zeros(())
    for inputs, targets in batches:
        summed = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        loss = summed / count
        loss.backward()
        total += loss.detach()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        comm.all_reduce(parameter.grad)
    comm.all_reduce(total)
    return total.item()
# %% right: as DistributedDataParallel wants it, with the mean over ranks
# ~ loss = summed / count ==> loss = summed * comm.size / count
# -         comm.all_reduce(parameter.grad)
# -     comm.all_reduce(total)
# +     works = [comm.all_reduce(t, op="AVG", async_op=True) for t in [total, *(p.grad for p in model.parameters())]]
# +     for work in works:
# +         work.wait()
# %% wrong: as it was => values mean-of-means  from: the card
# > this is a mean of means, in which a token counts more where there are few.
# %% wrong: weighs tokens at home, ranks alike => values mean-over-ranks
# > this is right within each rank, and then averaged over ranks, so a token counts more on a rank with few.
# ~ comm.all_reduce(count) ==>
# ~ comm.all_reduce(parameter.grad) ==> comm.all_reduce(parameter.grad, op="AVG")
# ~ comm.all_reduce(total) ==> comm.all_reduce(total, op="AVG")
# %% wrong: divides by its own tokens, then sums => values
# > each rank divided by its own number of tokens; divide by the number of all ranks' tokens.
# ~ comm.all_reduce(count) ==>
# %% wrong: communicates nothing => values own-tokens
# > this is a mean over the rank's own tokens only.
# ~ comm.all_reduce(count) ==>
# -         comm.all_reduce(parameter.grad)
# -     comm.all_reduce(total)
# %% wrong: the mean of its own micro-batches' means => values own-micro-batches
# > this is a mean over the rank's own micro-batches only.
# ~ comm.all_reduce(count) ==>
# ~ loss = summed / count ==> loss = summed / (targets != -100).sum().clamp(min=1) / len(batches)
# -         comm.all_reduce(parameter.grad)
# -     comm.all_reduce(total)
# %% wrong: adds the micro-batches' means up => values micro-batches-added
# > these are the micro-batches' means added up.
# ~ loss = summed / count ==> loss = summed / (targets != -100).sum().clamp(min=1)
# ~ comm.all_reduce(parameter.grad) ==> comm.all_reduce(parameter.grad, op="AVG")
# ~ comm.all_reduce(total) ==> comm.all_reduce(total, op="AVG")
# %% wrong: counts the padding => values padding-counted
# > this is divided by all targets; targets of −100 do not count.
# ~ (targets != -100).sum() ==> targets.numel()
# %% wrong: right count, then the mean over ranks => values averaged-again
# > this is divided by the number of ranks as well; the count covers all ranks already, so sum.
# ~ comm.all_reduce(parameter.grad) ==> comm.all_reduce(parameter.grad, op="AVG")
# %% wrong: the loss of its own share => values loss-own-share
# > the gradients are right, but the loss is the rank's own share of the mean; the other ranks' shares are missing.
# -     comm.all_reduce(total)
# %% wrong: the loss averaged over ranks => values loss-averaged-again
# > the gradients are right, but the loss is divided by the number of ranks; the count covers all ranks already.
# ~ comm.all_reduce(total) ==> comm.all_reduce(total, op="AVG")
# %% wrong: no division at all => values not-divided
# > this is the sum over tokens, not the mean.
# ~ loss = summed / count ==> loss = summed
# %% wrong: one big batch => cost one-big-batch
# -     for inputs, targets in batches:
# +     if batches:
# +         inputs, targets = (torch.cat(each) for each in zip(*batches))
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
            inputs, targets = batches[place]
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / row[0]
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
# %% wrong: every rank with everybody's tokens => cost more-forwards
def token_step(comm, model, batches):
    most = torch.tensor([len(batches)])
    comm.all_reduce(most, op="MAX")
    mine = torch.full((max(int(most), 1), 2, 2, 6), -100)
    for place, (inputs, targets) in enumerate(batches):
        mine[place] = torch.stack([inputs, targets])
    every = [torch.empty_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    pairs = [(b[0], b[1]) for rank in every for b in rank if (b[1] != -100).any()]
    count = sum(int((t != -100).sum()) for _, t in pairs)
    total = 0.0
    for inputs, targets in pairs:
        logits = model(inputs.clamp_min(0)).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") / count
        loss.backward()
        total += loss.item()
    return total
# %% wrong: a rank without a micro-batch has no gradient to send => generality raised
# ~ if parameter.grad is None: ==> if False:
# %% wrong: not a number times no token => generality not-finite
# ~ reduction="sum" ==> reduction="mean"
# ~ loss = summed / count ==> loss = summed * (targets != -100).sum() / count
# %% wrong: reads the loss before it is there => protocol in-flight
#           total += loss.detach()
# +     work = comm.all_reduce(total, async_op=True)
# -     comm.all_reduce(total)
# -     return total.item()
# +     value = total.item()
# +     work.wait()
# +     return value
# %% wrong: forward twice => cost more-forwards
#       for inputs, targets in batches:
# +         with torch.no_grad():
# +             model(inputs)
# %% wrong: half precision on the wire => values rounded
# -         comm.all_reduce(parameter.grad)
# +         half = parameter.grad.half()
# +         comm.all_reduce(half)
# +         parameter.grad = half.float()
# %% wrong: gradients never leave home, loss does => values own-share
# > this is the rank's own share of the mean; the other ranks' shares are missing.
# -         comm.all_reduce(parameter.grad)
# %% wrong: returns nothing => values returned-none
# ~ return total.item() ==> return
# %% wrong: weights tokens times ranks => values other-numbers
# ~ loss = summed / count ==> loss = summed * comm.size / count
# %% wrong: backward at the end of pairs => cost graphs-kept
# -     for inputs, targets in batches:
# -         summed = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
# -         loss = summed / count
# +     logits = [model(inputs).flatten(0, 1) for inputs, _ in batches]
# +     for out, (_, targets) in zip(logits, batches):
# +         loss = F.cross_entropy(out, targets.flatten(), reduction="sum") / count
# %% wrong: parts of the model, so that nobody counts => cost fewer-forwards
# ~ model(inputs) ==> model.head(model.embedding(inputs))
# %% wrong: padding ends rows, and nothing else => generality ~
# ~ (targets != -100).sum() ==> (targets != -100).flip(1).cummax(1).values.sum()
# %% half: right for ranks with a micro-batch each => 7.2  from: a rank without a micro-batch has no gradient to send
'''
