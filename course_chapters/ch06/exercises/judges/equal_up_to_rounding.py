import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Params, Random, describe, judged, shown
from course_grader.judging.tensors import coin_of


def ring_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum in a ring's order: every chunk begins at a different rank."""
    n = len(inputs)
    chunks = [x.tensor_split(n) for x in inputs]
    return torch.cat([root_order([chunks[(c + 1 + step) % n][c] for step in range(n)]) for c in range(n)])


def tree_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum in a tree's order: pairs, then pairs of pairs."""
    row = [x.clone() for x in inputs]
    while len(row) > 1:
        row = [row[i] + row[i + 1] if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    return row[0]


def root_order(inputs: Sequence[Tensor]) -> Tensor:
    """The sum in rank 0's order: one tensor after another."""
    return sum(inputs[1:], inputs[0].clone())


def _fewer_bits(inputs: Sequence[Tensor]) -> Tensor:
    low = torch.bfloat16 if inputs[0].dtype == torch.float32 else torch.float8_e5m2
    total = inputs[0].clone()
    for x in inputs[1:]:
        total = (total.to(low).to(total.dtype) + x.to(low).to(total.dtype)).to(low).to(total.dtype)
    return total


def _lacks_one(inputs: Sequence[Tensor]) -> Tensor:
    total = root_order(inputs)
    size = torch.stack([x.double().abs() for x in inputs])
    clear = 8 * len(inputs) * torch.finfo(total.dtype).eps * size.sum(0)  # the smallest term that no rounding excuses
    least = torch.where(size[-1] > clear, size[-1], torch.inf)
    at = int(least.argmin() if least.isfinite().any() else size[-1].argmax())
    total[at] = root_order([x[at : at + 1] for x in inputs[:-1]])[0]
    return total


def _off_in_one(inputs: Sequence[Tensor]) -> Tensor:
    total = root_order(inputs)
    total[len(total) // 2] += total.abs().max() / 100
    return total


def _sum_data(kind: str, coin: torch.Generator, n: int) -> list[Tensor]:
    size = 40 + n
    rows = [torch.randn(size, generator=coin) for _ in range(n)]
    if kind in ("cancel", "both"):  # large numbers that nearly cancel, in pairs of ranks, in half of the elements
        big = torch.randn(n // 2, size, generator=coin) * 1e4 * (torch.arange(size) < size // 2)
        signed = [(1 if rank % 2 else -1) * big[rank // 2] for rank in range(n // 2 * 2)]
        rows = [row + term for row, term in zip(rows, signed, strict=False)] + rows[n // 2 * 2 :]
    if kind == "small":
        rows = [row * 1e-6 for row in rows]
    if kind in ("half", "both"):
        rows = [row.bfloat16() for row in rows]
    if kind not in ("plain", "cancel"):  # where every rank has a zero, no rounding excuses anything, and 0 is right
        for row in rows:
            row[size // 2] = 0
    return rows


Sums = dict[str, Callable[[Sequence[Tensor]], Tensor]]
RIGHT_ORDERS: Sums = {"a ring": ring_order, "a tree": tree_order, "rank 0's loop": root_order}
WRONG_SUMS: Sums = {
    "one element without the last rank": _lacks_one,
    "rank 1 counted twice": lambda inputs: root_order([*inputs, inputs[1]]),
    "added up in fewer bits": _fewer_bits,
    "NaN in the last element": lambda inputs: torch.cat([root_order(inputs)[:-1], inputs[0][:1] * math.nan]),
    "one element off by a hundredth of the largest": _off_in_one,
}


OTHERS = (("small", 5), ("half", 4), ("both", 6), ("two", 2))
SHARES = {"plain": "values:plain", "cancel": "values:cancel", "both": "generality:half"}


def _same_cases(params: Params, rng: Random) -> list[Case]:
    coin, cases, several = coin_of(rng), [], params["ranks"]
    for part, ranks in (("plain", 6), ("cancel", several), *OTHERS):
        share = SHARES.get(part, f"generality:{part}")
        inputs = _sum_data(part, coin, ranks)
        for name, make in (*RIGHT_ORDERS.items(), *WRONG_SUMS.items()):
            right, visible = name in RIGHT_ORDERS, part == "plain"
            cases.append(shown(f"{part}: {name}", share, make(inputs), inputs, secret=right, visible=visible))
    return cases


DATA = {
    "plain": "Ordinary numbers",
    "cancel": "Large numbers that nearly cancel",
    "small": "Numbers of 10⁻⁶",
    "half": "bfloat16",
    "both": "bfloat16 that nearly cancels",
    "two": "Two ranks",
}


def _same_fault(case: Case, got: object) -> Fault | None:
    where, _, what = case.name.partition(": ")
    data = DATA[where]
    if type(got) is Tensor and got.dtype == torch.bool and got.numel() == 1:
        got = bool(got)  # `(error <= bound).all()` is a valid answer
    if type(got) is not bool:
        return "not-a-bool", f"{data}: return True or False; you returned {describe(got)}."
    if got is case.secret:
        return None
    if case.secret:
        hint = "Sums need not be equal bit for bit; by how much may the last digits differ?"
        if where == "cancel":
            hint = "The sum is small, but its terms are not. Which of the two determines the error?"
        return "rejects-right", f"{data}: you reject the order of {what}, which is as valid as any other. {hint}"
    return "accepts-wrong", f"{data}: you accept a wrong sum ({what}). How large can a rounding error be there?"


JUDGING = Judging(
    shares="values:plain 0.25, values:cancel 0.25, generality:small 0.15, generality:half 0.2, generality:two 0.15",
    cases=_same_cases,
    verdicts=lambda params, case, outcome: judged(case, _same_fault(case, outcome.value)),
    why="A rounding error is relative to a partial sum, and partial sums can be as large as Σ|x|, however small the "
    "result. So the bound is (N − 1) roundings of Σ|x|, element by element, with the dtype's own epsilon. A bound "
    "relative to the sum rejects right answers when numbers cancel; a fixed bound accepts wrong answers when "
    "numbers are small.",
    pytorch="`torch.testing.assert_close` takes `rtol` and `atol` relative to the result; neither knows the "
    "terms of the sum.",
)

ANSWERS = r'''# %% right: worked
def same_sum(got, inputs):
    """Whether `got` can be the sum of `inputs` in some order of additions in their dtype."""
    exact = sum(x.double() for x in inputs)
    added = sum(x.double().abs() for x in inputs)  # no partial sum is larger than this
    bound = len(inputs) * torch.finfo(got.dtype).eps * added
    return bool(((got.double() - exact).abs() <= bound).all())
# %% right: the textbook bound, one comparison an element
# -     bound = len(inputs) * torch.finfo(got.dtype).eps * added
# -     return bool(((got.double() - exact).abs() <= bound).all())
# +     rounded = (len(inputs) - 1) * torch.finfo(got.dtype).eps / 2
# +     error, most = (got.double() - exact).abs(), rounded / (1 - rounded) * added
# +     return all(e <= m for e, m in zip(error.tolist(), most.tolist()))
# %% wrong: the defaults of allclose => values rejects-right
# ~ bool(((got.double() - exact).abs() <= bound).all()) ==> torch.allclose(got, sum(inputs))
# %% wrong: small numbers are within any fixed tolerance => generality accepts-wrong
# ~ <= bound ==> <= bound + 1e-4
# %% wrong: the largest bound for every element => values accepts-wrong
# ~ <= bound ==> <= bound.max()
# %% wrong: on average it is fine => values accepts-wrong
# ~ abs() <= bound).all() ==> abs().mean() <= 1e-1 * exact.abs().mean())
# %% wrong: relative to the sum => values rejects-right
# ~ eps * added ==> eps * exact.abs()
# %% wrong: the epsilon of float32 for every dtype => generality rejects-right
# ~ torch.finfo(got.dtype).eps ==> 2**-23
# %% wrong: the epsilon of bfloat16 for every dtype => values accepts-wrong
# ~ torch.finfo(got.dtype).eps ==> 2**-7
# %% wrong: element by element, no verdict => values not-a-bool
# ~ bool(((got.double() - exact).abs() <= bound).all()) ==> (got - sum(inputs)).abs() < 1e-3
# %% half: one dtype only => 4.8  from: the epsilon of float32 for every dtype
'''
