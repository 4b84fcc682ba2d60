"""Judges of chapter 05 on many ranks: a step that all take or skip, and a mean within the range of fp16."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.judging.tensors import close, coin_of, kind_fault, squares
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict

# --- overflow-everywhere


def _agreed_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def data(
        ranks: int,
        most: float,
        bad: dict[int, float] | None = None,
        sizes: Sequence[int] = (),
        size: float = 1.0,
        weight: float = 1.0,
    ) -> Any:
        scale, rows = 2.0 ** rng.randrange(8, 13), []
        for rank in range(ranks):
            count = sizes[rank] if sizes else 6
            weights = torch.randn(count, generator=coin) * weight
            gradients = (torch.randn(count, generator=coin) * size * (1 + rank)).half()
            if bad and rank in bad:
                gradients[rank % count] = bad[rank]
            rows.append((weights, gradients, scale, 0.5, most))
        return tuple(rows)

    def beside(times: float) -> Any:
        rows = data(3, 1.0, weight=1e-6)
        norm = math.sqrt(squares(row[1] for row in rows))
        return tuple((*row[:2], 1.0, 2.0, norm * times) for row in rows)

    return [
        shown(f"{ranks_text(n)}, clipped", "values:step", per_rank=data(n, 1e-4)),
        shown(f"{ranks_text(n)}, an infinity on rank 2", "values:skip", per_rank=data(n, 1.0, {2: math.inf})),
        hidden("three ranks, below the limit", "values:step", per_rank=data(3, 1e3)),
        hidden("five ranks, small gradients", "values:step", per_rank=data(5, 1.0, size=1e-3, weight=1e-6)),
        hidden("two ranks, large gradients", "values:step", per_rank=data(2, 1e-2, size=4000.0)),
        hidden("four ranks, NaN on rank 0", "values:skip", per_rank=data(4, 1.0, {0: math.nan})),
        hidden("three ranks, -infinity on rank 1", "values:skip", per_rank=data(3, 1.0, {1: -math.inf})),
        hidden("two ranks, both overflow", "values:skip", per_rank=data(2, 1.0, {0: -math.inf, 1: math.nan})),
        hidden("three ranks, just below the limit", "values:step", per_rank=beside(1.003)),
        hidden("three ranks, just above the limit", "values:step", per_rank=beside(0.997)),
        hidden("two ranks, the largest fp16 number", "values:step", per_rank=data(2, 1.0, {0: 65504.0})),
        hidden(
            "an empty part, and an infinity", "generality:ranks", per_rank=data(3, 1.0, {2: math.inf}, sizes=[4, 0, 5])
        ),
        hidden("six ranks with parts of 300", "cost:numbers", per_rank=data(6, 1e-4, sizes=[300] * 6)),
        hidden("nine ranks, an infinity on the last", "generality:ranks", per_rank=data(9, 1.0, {8: math.inf})),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, 1e-4)),
        hidden("one rank alone, with an infinity", "generality:ranks", per_rank=data(1, 1.0, {0: math.inf})),
        hidden("three ranks, one without a number", "generality:ranks", per_rank=data(3, 1e-4, sizes=[4, 0, 5])),
        hidden("three ranks, all gradients zero", "generality:ranks", per_rank=data(3, 1.0, size=0.0)),
    ]


def agreed_weights(case: Case, *, skip: str = "all", clip: str = "all", wide: bool = True) -> list[Tensor]:
    """Each rank's new weights in fp32; the keywords lead to known mistakes."""
    rows = case.per_rank or ()
    bad = [not row[1].isfinite().all() for row in rows]
    _, _, scale, rate, most = rows[0]
    parts = [(row[1].double() if wide else (row[1] / scale).double() * scale) / scale for row in rows]
    squares = [part.square().sum() for part in parts]
    found = []
    for rank, (row, part) in enumerate(zip(rows, parts, strict=True)):
        if (skip == "all" and any(bad)) or (skip == "own" and bad[rank]):
            found.append(row[0])
            continue
        norm = {
            "all": sum(squares),
            "own": squares[rank],
            "norms": sum(square.sqrt() for square in squares) ** 2,
            "scaled": sum(squares) * scale**2,
            "none": part.new_zeros(()),
        }[clip]
        norm = torch.as_tensor(norm).sqrt()
        found.append((row[0].double() - rate * part * (most / norm if norm > most else 1.0)).float())
    return found


SLIPS = (
    ("clipped-scaled", {"clip": "scaled"}, "the norm was taken of the scaled gradients. Unscale first, and then clip."),
    ("own-norm", {"clip": "own"}, "each rank clips by the norm of its own part; add the squares over all ranks."),
    ("sum-of-norms", {"clip": "norms"}, "the ranks' norms were added; add their squares, and then take the root."),
    ("not-clipped", {"clip": "none"}, "the gradients were not clipped."),
    ("in-half", {"wide": False}, "the gradients were unscaled in fp16; convert to fp32 first."),
)


def agreed_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    """The first rank whose decision or whose weights are not the right ones."""
    rows = case.per_rank or ()
    bad = [not row[1].isfinite().all() for row in rows]
    said = [
        bool(row["stepped"])
        if type(row["stepped"]) is bool or isinstance(row["stepped"], Tensor) and row["stepped"].numel() == 1
        else None
        for row in results
    ]
    if None in said:
        rank = said.index(None)
        return "not-a-bool", f"Rank {rank}: `stepped` is True or False; got {describe(results[rank]['stepped'])}."
    if len(set(said)) > 1:
        took = ", ".join(str(rank) for rank, step in enumerate(said) if step)
        return "local-skip", f"only ranks {took} took the step, so parts of two different models are left."
    if said[0] == any(bad):
        if said[0]:
            return "missed", "no rank skips, although a gradient is infinite or NaN."
        return "false-alarm", "all ranks skip, and every gradient is finite."
    for rank, (row, want) in enumerate(zip(results, agreed_weights(case), strict=True)):
        if fault := kind_fault(f"Rank {rank}'s result", row["weights"], want):
            return fault
        if _near(row["weights"], want, rows[rank][0]):
            continue
        if any(bad):
            return "changed-anyway", f"rank {rank} says that it skipped, but its weights changed."
        for name, change, message in SLIPS:
            if all(
                _near(one["weights"], two, own[0])
                for one, two, own in zip(results, agreed_weights(case, **change), rows, strict=True)
            ):
                return name, message
        if not row["weights"].isfinite().all():
            return "not-finite", f"rank {rank}'s weights hold NaN or infinity. Is a norm of zero a divisor?"
        return "other-numbers", f"rank {rank}'s weights are wrong."
    return None


def _near(got: Tensor, want: Tensor, before: Tensor) -> bool:
    """Whether the *changes* of the weights agree, up to the rounding of fp32 weights."""
    if not isinstance(got, Tensor) or got.shape != want.shape:
        return False
    off = (got.double() - want.double()).abs()
    allowed = 1e-3 * (want.double() - before.double()).abs() + 3e-7 * before.double().abs() + 1e-12
    return bool((off <= allowed).all())


NUMBERS_SENT = 40  # bytes that a rank may send in all: a ring reduces two float64 numbers with fewer than 32


def numbers_fault(case: Case, meter: Any) -> Fault | None:
    """Gradients sent in place of two numbers, or a rank that cannot know the others' decision."""
    n = case.ranks or 1
    told = [(n > 1) * 1.0] * n
    if fault := too_few_bytes(meter, told, told):
        return fault
    sent = max(meter["bytes_sent"])
    if n > 1 and sent > NUMBERS_SENT:
        return "gathered", f"a rank sent {sent:,} bytes with {ranks_text(n)}: reduce two numbers, not gradients."
    return None


def _agreed_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, cost = agreed_fault(case, outcome.value), numbers_fault(case, outcome.meter)
    if case.kind == "values":
        return judged(case, fault, ("cost", "numbers", cost), named=True)
    return judged(case, fault or (cost if case.kind == "cost" else None), named=True)


# --- average-in-fp16


def _average_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["ordinary"]

    def gradients(ranks: int, *sizes: float, lost: int = 0) -> tuple[list[Tensor], int]:
        """One number of about each size, a little different on each rank."""
        spread = 1 + 0.1 * torch.rand(ranks, len(sizes), generator=coin)
        return list((spread * torch.tensor(sizes)).half()), lost

    return [
        shown(f"{ranks_text(n)}, ordinary gradients", "values:mean", *gradients(n, 0.5, -2.0, 0.01)),
        shown(
            "1,024 ranks, large and small gradients", "values:mean", *gradients(1024, params["large"], -1500.0, 1e-4)
        ),
        hidden("256 ranks, large gradients", "values:mean", *gradients(256, 1400.0, -1500.0)),
        hidden(f"{ranks_text(n)}, other gradients", "values:mean", *gradients(n, -1.0, 0.3, 20.0)),
        hidden("512 ranks, small gradients", "values:mean", *gradients(512, 1.1e-4, -2e-4)),
        *(
            hidden(
                f"{ranks_text(each)}, large and small gradients", "generality:ranks", *gradients(each, 1500.0, -1.5e-4)
            )
            for each in (1, 2, 3, 24, 100, 1000)
        ),
        hidden("eight matrices", "generality:ranks", [each.reshape(2, 1) for each in gradients(8, 0.5, -2.0)[0]], 0),
        hidden("a network that loses three of eight ranks", "generality:ranks", *gradients(8, 0.5, -2.0, lost=3)),
    ]


def mean_fault(case: Case, got: Any) -> Fault | None:
    """What is wrong with a mean, or with how the sum was called."""
    given, lost = case.args
    n = len(given)
    if got["changed"] is not False:
        return "changed", "the given gradients were changed."
    if not all(same_lists(dtypes, ["torch.float16"]) for dtypes in got["calls"]):
        return "wider-wire", "the network carries fp16 tensors here; another dtype would be converted."
    if len(got["calls"]) != 1:
        return "other-calls", f"`tree_sum` was called {len(got['calls'])} times; call it once."
    whole = torch.stack([gradient.double() for gradient in given])
    want = whole[: n - lost].sum(0) / n
    if fault := kind_fault("The result", got["mean"], want.float()):
        return fault
    off = (got["mean"].double() / want - 1).abs()
    if bool((off <= 0.03).all()):
        return None
    if lost and close(got["mean"].double(), whole.mean(0), 0.03):
        return "own-sum", "the result does not change with what `tree_sum` returns: the gradients were added elsewhere."
    if not got["mean"].isfinite().all():
        return "overflow", f"a sum over {ranks_text(n)} is infinite. Divide before the sum as well."
    if n > 1 and close(got["mean"].double() / n, want, 0.03):
        return "sum", "this is the sum, not the mean."
    place = int(off.argmax())
    if abs(want[place]) < 1e-3:
        told = f"are {off[place]:.0%} off: they were too small while they were added."
        return "underflow", f"small gradients of {ranks_text(n)} {told}"
    return "other-numbers", f"a number is {off[place]:.0%} off."


RANKS = {
    "overflow-everywhere": Judging(
        shares={"values:step": 0.3, "values:skip": 0.3, "cost:numbers": 0.2, "generality:ranks": 0.2},
        cases=_agreed_cases,
        verdicts=_agreed_verdicts,
        why="""A decision that all ranks must share is reduced before anyone acts on it. The same reduction could carry the sum of squares:
an infinite or NaN sum *is* the flag. Unscaling comes before clipping, because the limit is about the real gradients.""",
        pytorch="`torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler` reduces `found_inf` over the ranks before it steps.",
    ),
    "average-in-fp16": Judging(
        shares={"values:mean": 0.5, "generality:ranks": 0.5},
        cases=_average_cases,
        verdicts=lambda params, case, outcome: judged(case, mean_fault(case, outcome.value), named=True),
        why="""A sum of N numbers is up to N times as large as each. Divided by √N before and after, nothing on the way is more than √N times too
large or too small. bf16 has the exponent range of fp32, so there it does not matter where one divides.""",
        pytorch="FSDP2 divides by about √N before and after the reduction in fp16; in bf16 and fp32 it lets NCCL average.",
    ),
}
