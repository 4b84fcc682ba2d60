"""The judge of chapter 09's cross-entropy whose columns are shared out: right, stable, and without a logit on the wire."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges.regions import (
    FORM,
    as_part,
    case_of,
    gradient_faults,
    over_ranks,
    results,
    ring_most,
    touched,
    traffic,
)
from course_lib.exercises.ch09.probes import MEASURED, WEIGHED
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, is_number, judged, verdict
from course_lib.judging.cases import shown
from course_lib.judging.tensors import close, coin_of, normal, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict


def _loss_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, vocab = coin_of(rng), params["vocab"]

    def make(
        name: str,
        n: int,
        shape: tuple[int, int],
        words: int,
        *,
        kind_of: torch.dtype = torch.float32,
        scale: float = 1.0,
        wish: str = "",
        **more: Any,
    ) -> Case:
        logits = (normal(coin, *shape, words) * scale).to(kind_of)
        targets = torch.randint(0, words, shape, generator=coin)
        per_rank = tuple((targets.clone(), words, wish, piece.clone()) for piece in logits.tensor_split(n, -1))
        return case_of(name, n, per_rank, secret={"logits": logits, "targets": targets}, **more)

    return [
        make("four ranks", 4, (2, 4), vocab, part="loss"),
        make("three ranks, other data", 3, (2, 6), vocab + 1, part="loss", visible=False),
        make("one rank", 1, (1, 3), 7, kind="generality", part="vocabularies", visible=False),
        make("two ranks, 13 words", 2, (3, 2), 13, kind="generality", part="vocabularies", visible=False),
        make("five ranks, 8 words", 5, (2, 2), 8, kind="generality", part="vocabularies", visible=False),
        make("logits of ±10,000", 4, (2, 4), 40, scale=1e4, kind="generality", part="large", visible=False),
        make(
            "logits of bfloat16", 4, (2, 4), 48, kind_of=torch.bfloat16, kind="generality", part="bits", visible=False
        ),
        make("a large vocabulary, memory", 4, (2, 8), 8192, wish=MEASURED, kind="cost", part="memory", visible=False),
    ]


def _loss_values(case: Case, n: int, rank: int, got: Mapping[str, Any], loss: Tensor) -> Fault | None:
    logits, targets = case.secret["logits"].double(), case.secret["targets"]
    tokens = targets.numel()
    pieces = logits.tensor_split(n, -1)
    start = sum(piece.shape[-1] for piece in pieces[:rank])
    inside = (targets >= start) & (targets < start + pieces[rank].shape[-1])
    own = pieces[rank].logsumexp(-1) - torch.where(
        inside, pieces[rank].gather(-1, (targets - start).where(inside, 0).unsqueeze(-1)).squeeze(-1), 0.0
    )
    each = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    slips = (
        Mistake("sum", (loss * tokens).float(), "this is a sum over tokens; the mean was asked for."),
        Mistake(
            "own-columns",
            own.mean().float(),
            "this is reckoned from this rank's columns alone: the others' words count in Σ exp, too.",
        ),
        Mistake(
            "log-n",
            (loss.double() + torch.tensor(float(n)).log()).float(),
            "it is too large by log N: Σ exp was added up over ranks that had it whole.",
        ),
        Mistake("times-n", (loss * n).float(), "it is N times too large."),
        Mistake(
            "targets-n-times",
            (logits.logsumexp(-1) - n * each).mean().float(),
            "the target's logit counts once, on the rank that has it.",
        ),
        Mistake(
            "own-target",
            (logits.logsumexp(-1) - each.where(inside, 0.0)).mean().float(),
            "targets of other ranks are missing: their logit is on another rank.",
        ),
    )
    y = got["y"]
    if isinstance(y, Tensor) and y.dtype == torch.bfloat16:
        return "another-dtype", f"Rank {rank}: the loss is bfloat16; reckon it, and return it, in float32."
    if isinstance(y, Tensor) and y.shape == loss.shape and not torch.isfinite(y).all():
        return (
            "not-finite",
            f"Rank {rank}: the loss is {y.item()}. exp overflows, or all of a rank's exponentials vanish: subtract the largest logit of all ranks.",
        )
    return tensor_fault(f"Rank {rank}: the loss", y, loss, slips)


def _loss_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, logits, targets = case.ranks or 1, case.secret["logits"], case.secret["targets"]
    measured = case.part == "memory"
    if fault := results(outcome.value, n, (*FORM, "peak") if measured else FORM):
        return [verdict(case.kind, case.part, case, fault)]
    leaf = logits.detach().double().clone().requires_grad_()
    exact = F.cross_entropy(leaf.flatten(0, -2), targets.flatten())
    exact.backward()
    loss = exact.detach().float()

    def gradients(rank: int, got: Mapping[str, Any]) -> Fault | None:
        want = leaf.grad.to(logits.dtype).tensor_split(n, -1)[rank]
        soft = logits.double().softmax(-1).tensor_split(n, -1)[rank] / targets.numel()
        slips: dict[str, tuple[Mistake, ...]] = {
            "logits": (
                Mistake(
                    "times-n",
                    n * want,
                    f"it is {n} times too large: every rank has the same loss, so its gradient is not summed over ranks.",
                ),
                Mistake(
                    "no-target",
                    soft.to(logits.dtype),
                    "this is softmax alone; one is taken off at each token's target.",
                ),
                Mistake("sum", want * targets.numel(), "this is the gradient of a sum over tokens."),
            )
        }
        return gradient_faults(got, rank, ("logits",), {"logits": want}, slips)

    found = over_ranks(outcome.value, lambda rank, got: _loss_values(case, n, rank, got, loss)) or touched(
        outcome.value
    )
    behind = None if found else over_ranks(outcome.value, gradients)
    if measured:
        return [verdict("cost", "memory", case, found or behind or _memory(case, outcome.value, n))]
    if case.kind != "values":
        return [verdict(case.kind, case.part, case, found or behind)]
    if found:
        return [
            verdict("values", "loss", case, found),
            verdict("values", "gradient", case, (found[0], "The gradient counts once the loss is right.")),
        ]
    return [
        verdict("values", "loss", case, None),
        *judged(as_part(case, "gradient"), behind, ("cost", "bytes", _loss_bytes(case, n, outcome.meter))),
    ]


def _loss_bytes(case: Case, n: int, meter: Meter) -> Fault | None:
    logits, tokens = case.secret["logits"], case.secret["targets"].numel()
    most = 4 * ring_most(tokens, 4, n)
    if n > 1 and min(meter["bytes_sent"]) > max(most, 0.4 * (n - 1) * logits.numel() / n * 4):
        return "gathered-logits", (
            f"Every rank sends {min(meter['bytes_sent']):,} bytes, {most:,} are enough: logits travel. Of each token the others need "
            "its largest logit, its Σ exp, and its target's logit."
        )
    return traffic(meter, 2 * (n - 1) * tokens * 4, most, (), "A few numbers a token are enough.")


def _memory(case: Case, found: Any, n: int) -> Fault | None:
    if not all(is_number(each["peak"]) for each in found):
        return "not-measured", "The memory of this run could not be measured."
    piece = case.secret["logits"].numel() / n * 4
    beyond = sorted(each["peak"] for each in found)[n // 2] - piece  # the probe keeps a copy of what it hands out
    if beyond <= 8.25 * piece:
        return None
    return "too-much-memory", (
        f"{beyond / piece:.3g} times this rank's logits were alive at the peak; eight are enough. Are logits of other ranks among them, or "
        "a row of zeros for every word?"
    )


def _loss_weighed(params: Params, rng: random.Random) -> Weighed:
    """Logits of 4.2 MB on each of four ranks: eight times that are enough, as in the counted case; a row for every word takes eleven."""
    coin, ranks, tokens, width, repeats = coin_of(rng), 4, 64, 256, 64  # columns are repeated

    def case(name: str, times: int) -> Case:
        here = width * times
        tables = normal(coin, ranks, 1, tokens, width)
        targets = torch.randint(0, ranks * here, (tokens,), generator=coin)
        elsewhere = torch.randint(0, here, (ranks, tokens), generator=coin)
        owners, rows = targets // here, torch.arange(tokens)
        columns = torch.where(owners == torch.arange(ranks).unsqueeze(-1), targets % here, elsewhere)
        mine = [(table, times, (rows, own)) for table, own in zip(tables, columns, strict=True)]
        given = tuple((targets.unsqueeze(0), ranks * here, WEIGHED, each) for each in mine)
        table = tables.squeeze(1).double()
        log_sums = table.transpose(0, 1).flatten(1).logsumexp(-1) + math.log(times)
        grads = (table.gather(-1, (columns % width).unsqueeze(-1)).squeeze(-1) - log_sums).exp()
        grads[owners, rows] -= 1
        loss = (log_sums - table[owners, rows, targets % width]).mean()
        made = shown(name, "cost:memory", per_rank=given, secret=(loss, grads / tokens))
        return replace(made, visible=False, seconds=30.0)

    def right(got: Mapping[str, Any], grad: Tensor) -> bool:
        sound = close(got["y"], large.secret[0].float()) and close(got["grad"], grad.float())
        return sound and torch.allclose(got["grad"].double(), grad, rtol=1e-3, atol=0.0)

    def done(outcome: Outcome) -> bool:
        found = outcome.value
        return not results(found, ranks, ("y", "grad")) and all(map(right, found, large.secret[1]))

    large = case("four ranks with logits of 4.2 MB each", repeats)
    most = ranks * 9.25 * 4 * tokens * width * repeats
    return Weighed(case=large, warm=case("four ranks with few logits", 1), most=most, done=done)


LOSS = {
    "vocab-cross-entropy": Judging(
        shares="values:loss 0.2, values:gradient 0.2, cost:bytes 0.2, cost:memory 0.1, generality:vocabularies 0.1, "
        "generality:large 0.1, generality:bits 0.1",
        measured_by_worker=("cost:memory",),
        weighed=_loss_weighed,
        cases=_loss_cases,
        verdicts=_loss_verdicts,
        why="log Σ exp falls apart into ranks as Σ exp does, once all subtract the same largest logit; of the target's logit one rank has the number and "
        "the others zero. The gradient needs nothing new: softmax of one's own columns, minus one where the target is one's own.",
        pytorch="`loss_parallel()` in `torch.distributed.tensor.parallel`; Megatron's `vocab_parallel_cross_entropy`.",
    )
}
