import torch
from torch import Tensor

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.values import is_row
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Worked, describe, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import tensor_fault

right = Worked("remove-breaks")
PARTS = ("clip", "mean", "ramp")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin = torch.Generator().manual_seed(rng.randrange(2**31))

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=coin)

    large, masks = draw(2, 3), [torch.tensor(each) for each in ([True, False, True], [False] * 3, [True] * 3)]
    bad = torch.tensor([float("nan"), 2.0, float("inf"), -1.0])
    few = torch.tensor([False, True, False, True])
    return [
        shown("clip", "values:clip", 0, [(large, 1.0), (0.1 * large / large.norm(), 1.0)]),
        shown("kept_mean", "values:mean", 1, [(draw(3), mask) for mask in masks]),
        shown("Ramp", "values:ramp", 2, [(params["steps"],), *((draw(2),) for _ in range(params["steps"] + 2))]),
        hidden("clip at another norm", "values:clip", 0, [(4 * draw(4), 2.0)]),
        hidden("kept_mean of two", "values:mean", 1, [(draw(2), masks[0][:2])]),
        hidden("clip of zeros", "generality:clip", 0, [(torch.zeros(4), 2.0)]),
        hidden("kept_mean over NaN and infinity", "generality:mean", 1, [(bad, few), (bad, few & (bad > 0))]),
        hidden("Ramp of one step", "values:ramp", 2, [(1,), *((draw(2, 2),) for _ in range(3))]),
    ]


def _eager(case: Case) -> list[Tensor]:
    index, table = case.args
    function, rows = (right[2](*table[0]), table[1:]) if index == 2 else (right[index], table)
    return [function(*row) for row in rows]


def _values_fault(case: Case, got: object) -> Fault | None:
    if got == NOT_ANSWERED:
        return "not-answered", f"{case.name}: this one is not answered yet."
    calls = len(case.args[1]) - (case.args[0] == 2)
    made = got[0] if is_row(got) and list(map(type, got)) == [list, int, str] else None
    if type(made) is not list or len(made) != calls:
        return "wrong-shape", f"{case.name}: expected a tensor for each of {calls} calls; got {describe(got)}."
    for call, (mine, want) in enumerate(zip(made, _eager(case), strict=True), 1):
        if fault := tensor_fault(f"{case.name}, call {call}", mine, want, rel=1e-5):
            return fault
    return None


def _graphs_fault(case: Case, got: tuple[object, int, str]) -> Fault | None:
    if got[2]:
        return "graph-break", f"{case.name}: PyTorch cannot make one graph of it. It says: {got[2]}"
    if got[1] > 1:
        return "recompiled", f"{case.name}: it was compiled {int(got[1])} times. What changes from call to call?"
    return ("not-compiled", f"{case.name}: nothing was compiled.") if got[1] < 1 else None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, part = _values_fault(case, outcome.value), PARTS[case.args[0]]
    return judged(case, fault, *([] if fault else [("cost", part, _graphs_fault(case, outcome.value))]))


JUDGING = Judging(
    shares="values:clip 0.05, values:mean 0.05, values:ramp 0.05, cost:clip 0.25, cost:mean 0.25, cost:ramp 0.25, "
    "generality:clip 0.05, generality:mean 0.05",
    cases=_cases,
    verdicts=_verdicts,
    why="A graph holds operations on tensors, and nothing that asks for their values. An `if` on a tensor and "
    "`.item()` do. A Python number that the code reads becomes a constant of the graph, and "
    "a guard compares it in every call, so a counter compiles again each time until PyTorch gives up after eight.",
    pytorch="`torch.compile(fullgraph=True)` refuses a break, `TORCH_LOGS=graph_breaks,recompiles` tells why, and "
    "`torch._dynamo.explain(function)(*inputs)` counts.",
)

ANSWERS = r'''# %% right: worked
def clip(x: torch.Tensor, limit: float) -> torch.Tensor:
    """x, scaled down to the norm `limit` if it is longer."""
    ### BEGIN SOLUTION
    return x * (limit / x.norm()).clamp(max=1)
    ### END SOLUTION


def kept_mean(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The mean of x where keep is true; 0 where nothing is kept."""
    ### BEGIN SOLUTION
    return torch.where(keep, x, 0).sum() / keep.sum().clamp(min=1)
    ### END SOLUTION


class Ramp(torch.nn.Module):
    """Multiplies by n / steps in the n-th call, at most by 1."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.steps = steps
        self.register_buffer("calls", torch.zeros(()))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        self.calls.add_(1)
        return x * (self.calls / self.steps).clamp(max=1)
        ### END SOLUTION
# %% right: by choosing
# ~ x * (limit / x.norm()).clamp(max=1) ==> torch.where(x.norm() > limit, x * (limit / x.norm()), x)
# ~ torch.where(keep, x, 0) ==> x.masked_fill(~keep, 0)
# ~ (self.calls / self.steps).clamp(max=1) ==> torch.minimum(self.calls / self.steps, torch.ones(()))
# %% wrong: as given => cost graph-break
# -     return x * (limit / x.norm()).clamp(max=1)
# +     norm = x.norm()
# +     return x * (limit / norm) if norm > limit else x
# %% wrong: a branch for nothing kept => cost graph-break
# ~ torch.where(keep, x, 0).sum() / keep.sum().clamp(min=1) ==> x[keep].mean() if keep.any() else x.new_zeros(())
# %% wrong: counts as a Python number => cost graph-break
# ~ keep.sum().clamp(min=1) ==> max(keep.sum().item(), 1)
# %% wrong: zero divided by zero => generality
# > for a vector of zeros, zero was divided by zero.
# ~ x * (limit / x.norm()).clamp(max=1) ==> x * torch.minimum(limit / x.norm(), 1 + 0 / x.norm())
# %% wrong: a counter in the module => cost recompiled
# ~ self.register_buffer("calls", torch.zeros(())) ==> self.calls = 0
# ~ self.calls.add_(1) ==> self.calls += 1
# ~ (self.calls / self.steps).clamp(max=1) ==> min(self.calls / self.steps, 1)
# %% wrong: the mask multiplied => generality
# > zero times infinity or NaN is NaN, so what the mask hides still counts.
# ~ torch.where(keep, x, 0).sum() ==> (x * keep).sum()
# %% wrong: divided by all => values
# > this divides by the number of all elements, not of those that are kept.
# ~ keep.sum().clamp(min=1) ==> keep.numel()
# %% wrong: stretched as well => values
# > a vector that is shorter than the limit must stay as it is.
# ~ (limit / x.norm()).clamp(max=1) ==> (limit / x.norm())
# %% wrong: never more than a step => values
# > the factor must grow from call to call.
# ~ self.calls.add_(1) ==> self.calls.fill_(1)
# %% wrong: counted after the product => values
# > the ramp counts a call after it has multiplied, so every factor comes one call late.
# -         self.calls.add_(1)
# -         return x * (self.calls / self.steps).clamp(max=1)
# +         out = x * (self.calls / self.steps).clamp(max=1)
# +         self.calls.add_(1)
# +         return out
# %% wrong: the compiler switched off => cost graph-break
# ~ x * (limit / x.norm()).clamp(max=1) ==> torch._dynamo.disable(lambda: x * (limit / x.norm()).clamp(max=1))()
# %% wrong: left as it is => not-answered
# ~ return x * (limit / x.norm()).clamp(max=1) ==> raise NotImplementedError
'''
