"""Judge of chapter 07's mean over tokens: all micro-batches of all ranks, one graph alive at a time, gradients sent once."""

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


TOKENS = {
    "token-mean": Judging(
        shares="values:tokens 0.35, cost:bytes 0.15, cost:graphs 0.15, protocol:safe 0.05, generality:ranks 0.1, "
        "generality:uneven 0.2",
        measured_by_worker=("cost:graphs",),
        cases=_token_cases,
        verdicts=_token_verdicts,
        why="Every token's loss must be divided by the number of all tokens. The targets give that number before the first forward pass. With "
        "it, each micro-batch can run its backward pass at once, and the ranks hold shares of one sum.",
        pytorch="transformers passes `num_items_in_batch` to the loss since October 2024; torchtune scales gradients by the token count.",
    )
}
