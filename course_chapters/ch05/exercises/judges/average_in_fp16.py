from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.exercises.values import is_tensor, same_lists
from course_grader.judging import Case, Fault, Judging, Params, Random, hidden, judged, ranks_text, shown
from course_grader.judging.tensors import coin_of, kind_fault


def _average_cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["ordinary"]

    def gradients(ranks: int, *sizes: float, lost: int = 0) -> tuple[list[Tensor], int]:
        """One number of about each size, a little different on each rank."""
        spread = 1 + 0.1 * torch.rand(ranks, len(sizes), generator=coin)
        return list((spread * torch.tensor(sizes)).half()), lost

    far, both = (params["large"], -1500.0, 1e-4), (1500.0, -1.5e-4)
    return [
        shown(f"{ranks_text(n)}, ordinary gradients", "values:mean", *gradients(n, 0.5, -2.0, 0.01)),
        shown("1,024 ranks, large and small gradients", "values:mean", *gradients(1024, *far)),
        hidden("256 ranks, large gradients", "values:mean", *gradients(256, 1400.0, -1500.0)),
        hidden(f"{ranks_text(n)}, other gradients", "values:mean", *gradients(n, -1.0, 0.3, 20.0)),
        hidden("512 ranks, small gradients", "values:mean", *gradients(512, 1.1e-4, -2e-4)),
        *(
            hidden(f"{ranks_text(each)}, large and small gradients", "generality:ranks", *gradients(each, *both))
            for each in (1, 2, 3, 24, 100, 1000)
        ),
        hidden("eight matrices", "generality:ranks", [each.reshape(2, 1) for each in gradients(8, 0.5, -2.0)[0]], 0),
        hidden("a network that loses three of eight ranks", "generality:ranks", *gradients(8, 0.5, -2.0, lost=3)),
    ]


def mean_fault(case: Case, mean: object, calls: Sequence[object]) -> Fault | None:
    given, lost = case.args
    n = len(given)
    if not all(same_lists(dtypes, ["torch.float16"]) for dtypes in calls):
        return "wider-wire", "the network carries fp16 tensors here; another dtype would be converted."
    if len(calls) != 1:
        return "other-calls", f"`tree_sum` was called {len(calls)} times; call it once."
    want = torch.stack([gradient.double() for gradient in given[: n - lost]]).sum(0) / n
    if fault := kind_fault("The result", mean, want.float()):
        return fault
    assert is_tensor(mean)  # `kind_fault` refuses anything else
    off = (mean.double() / want - 1).abs().reshape(-1)
    if bool((off <= 0.03).all()):
        return None
    if not mean.isfinite().all():
        return "overflow", f"a sum over {ranks_text(n)} is infinite. Divide before the sum as well."
    if n > 1 and bool(((mean.double() / n / want - 1).abs() <= 0.03).all()):
        return "sum", "this is the sum, not the mean."
    place = int(off.argmax())
    if abs(want.reshape(-1)[place]) < 1e-3:
        told = f"are {off[place]:.0%} off: they were too small while they were added."
        return "underflow", f"small gradients of {ranks_text(n)} {told}"
    return "other-numbers", f"a number is {off[place]:.0%} off."


JUDGING = Judging(
    shares={"values:mean": 0.5, "generality:ranks": 0.5},
    cases=_average_cases,
    verdicts=lambda params, case, outcome: judged(case, mean_fault(case, **outcome.value), named=True),
    why="""A sum of N numbers is up to N times as large as each. Divided by √N before and after, nothing on the way is
more than √N times too large or too small. bf16 has the exponent range of fp32, so there it does not matter where one
divides.""",
    pytorch="FSDP2 divides by about √N before and after the reduction in fp16; in bf16 and fp32 it lets NCCL average.",
)

ANSWERS = r'''# %% right: worked
def mean_in_half(gradients: list[torch.Tensor], tree_sum) -> torch.Tensor:
    """The mean of the ranks' fp16 gradients, in fp32; `tree_sum` adds fp16 tensors in fp16."""
    n = len(gradients)
    before = 2 ** round(math.log2(n) / 2)  # about the root of n; a power of two divides without rounding
    return tree_sum([gradient / before for gradient in gradients]).float() * (before / n)
# %% right: the root itself, before and after
# ~ 2 ** round(math.log2(n) / 2) ==> math.sqrt(n)
# %% wrong: only after the sum => values overflow
# > the gradients are divided only after the sum, and a sum over many ranks is beyond the range of fp16. Divide before
# > it as well.
# ~ 2 ** round(math.log2(n) / 2) ==> 1
# %% wrong: only before the sum => values underflow
# > the gradients are divided by all ranks before the sum, so small ones fall below the range of fp16 while they are
# > added.
# ~ 2 ** round(math.log2(n) / 2) ==> n
# %% wrong: the sum => values sum
# ~ (before / n) ==> before
# %% wrong: divided twice => values divided-twice
# > this is the mean over the ranks, divided once more: what was divided before the sum counts, too.
# ~ (before / n) ==> (1 / n)
# %% wrong: a sum of its own beside the network => generality own-sum
# > the result does not change with what `tree_sum` returns: the gradients were added elsewhere.
# ~ return tree_sum([gradient / before for gradient in gradients]).float() * (before / n)
# ~~ ==> return (tree_sum(gradients), torch.stack(gradients).float().mean(0))[1]
# %% wrong: a fixed factor => generality
# > the divisor before the sum does not grow with every number of ranks, and is too small for some of them.
# ~ 2 ** round(math.log2(n) / 2) ==> 64 if n > 200 else 1
# %% wrong: fp32 on the wire => values wider-wire
# ~ gradient / before ==> gradient.float() / before
# %% wrong: a sum of its own => values other-calls
# ~ return tree_sum([gradient / before for gradient in gradients]).float() * (before / n)
# ~~ ==> return torch.stack(gradients).float().mean(0)
# %% wrong: fp16 comes back => values another-kind
# ~ .float() * (before / n) ==> * (before / n)
# %% wrong: in place => values changed
# ~ gradient / before ==> gradient.div_(before)
# %% wrong: the mean is flat => generality another-kind
# ~ gradient / before ==> gradient.reshape(-1) / before
'''
