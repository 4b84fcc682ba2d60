"""Judge of average-in-fp16: a mean that does not leave the range."""

import random
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case


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


JUDGING = Judging(
    shares={"values:mean": 0.5, "generality:ranks": 0.5},
    cases=_average_cases,
    verdicts=lambda params, case, outcome: judged(case, mean_fault(case, outcome.value), named=True),
    why="""A sum of N numbers is up to N times as large as each. Divided by √N before and after, nothing on the way is more than √N times too
large or too small. bf16 has the exponent range of fp32, so there it does not matter where one divides.""",
    pytorch="FSDP2 divides by about √N before and after the reduction in fp16; in bf16 and fp32 it lets NCCL average.",
)

ANSWERS = r"""import math

import torch


# %% right: the root before, and after
def mean_in_half(gradients, tree_sum):
    root = math.sqrt(len(gradients))
    total = tree_sum([gradient / root for gradient in gradients])
    return total.float() / root


# %% right: a power of two before, the rest after  from: the root before, and after
# ~ math.sqrt(len(gradients)) ==> 2 ** round(math.log2(len(gradients)) / 2)
# ~ .float() / root ==> .float() * (root / len(gradients))

# %% wrong: only after the sum => values overflow  from: the root before, and after
# ~ gradient / root for ==> gradient for
# ~ .float() / root ==> .float() / len(gradients)

# %% wrong: only before the sum => values underflow  from: the root before, and after
# ~ gradient / root for ==> gradient / root**2 for
# ~ .float() / root ==> .float()

# %% wrong: the sum => values -  from: the root before, and after
# ~ .float() / root ==> .float() * root

# %% wrong: fp32 on the wire => values wider-wire  from: the root before, and after
# ~ gradient / root for ==> gradient.float() / root for

# %% wrong: a sum of its own => values other-calls  from: the root before, and after
# ~ tree_sum([gradient / root for gradient in gradients]) ==> root * torch.stack([gradient.float() for gradient in gradients]).mean(0)

# %% wrong: fp16 comes back => values another-kind  from: the root before, and after
# ~ .float() / root ==> / root

# %% wrong: a fixed factor => generality -  from: the root before, and after
# ~ gradient / root for ==> gradient / (64 if len(gradients) > 200 else 1) for
# ~ .float() / root ==> .float() * (64 if len(gradients) > 200 else 1) / len(gradients)

# %% wrong: in place => values changed  from: the root before, and after
# ~ gradient / root for ==> gradient.div_(root) for

# %% wrong: a sum of its own beside the network => generality own-sum  from: the root before, and after
# ~ total.float() / root ==> torch.stack([gradient.float() for gradient in gradients]).mean(0)

# %% wrong: the mean is flat => generality -  from: the root before, and after
# ~ gradient / root for ==> gradient.reshape(-1) / root for
"""
