from collections.abc import Mapping

import torch
from torch import Tensor

from course_chapters.ch12.exercises.judges.shared import ids_fault
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, hidden, judged, placed, shown
from course_grader.judging.tensors import coin_of, kind_fault, tensor_fault

right = Worked("route-tokens")


def _route_cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["experts"]

    def data(
        tokens: int, experts: int, k: int, dtype: torch.dtype = torch.float32, around: float = 0.0
    ) -> tuple[Tensor, int, Tensor]:
        logits = (torch.randn(tokens, experts, generator=coin) + around).to(dtype)
        return logits, k, torch.randn(tokens, k, generator=coin)

    def tied(tokens: int, experts: int, k: int, dtype: torch.dtype) -> tuple[object, ...]:
        logits, k, slope = data(tokens, experts, k, dtype=dtype)
        return (logits.float() * 2).round().to(dtype), k, slope

    near = 2.0**-7 + torch.rand(9, 7, generator=coin).argsort(-1) * 2.0**-30  # neighbors in fp32
    far = torch.tensor([[-130.0, -150.0, 0.0, -120.0, -110.0], [1e-30, 2e-30, 0.0, -1e-30, 3e-30]])  # or nearly equal

    return [
        shown(f"{params['tokens']} tokens, 2 of {n} experts", "values:ids", *data(params["tokens"], n, 2)),
        hidden("9 tokens, 3 of 7 experts", "values:ids", *data(9, 7, 3)),
        hidden("5 tokens, 2 of 4 experts, other weights", "values:weights", *data(5, 4, 2)),
        hidden("logits of about 120", "values:weights", *data(6, 5, 3, around=120.0)),
        hidden("logits of about −200", "values:weights", *data(4, 5, 2, around=-200.0)),
        hidden("bf16 logits", "values:weights", *data(6, 8, 2, dtype=torch.bfloat16)),
        hidden("ties", "generality:ties", *tied(12, 64, 4, torch.float32)),
        hidden("ties in bf16", "generality:ties", *tied(12, 80, 6, torch.bfloat16)),
        hidden(
            "equal logits everywhere",
            "generality:ties",
            torch.zeros(3, 33),
            2,
            torch.ones(3, 2) * torch.tensor([1.0, 2.0]),
        ),
        hidden("logits that differ in the last bit", "generality:ties", near, 3, torch.randn(9, 3, generator=coin)),
        hidden("logits far apart, and close", "generality:ties", far, 3, torch.ones(2, 3)),
        hidden("one expert a token", "generality:sizes", *data(6, 5, 1)),
        hidden("every expert", "generality:sizes", *data(4, 5, 5)),
        hidden("one token and one expert", "generality:sizes", *data(1, 1, 1)),
        hidden("no tokens", "generality:sizes", *data(0, 6, 2)),
    ]


FINE = 2e-5  # of the largest weight: the log-sum-exp of large logits, rounded to fp32, is off by half of this


def route_fault(case: Case, got: Mapping[str, Tensor]) -> Fault | None:
    want = right.value(case)
    for name in ("ids", "weights"):
        if fault := kind_fault(f"`{name}`", got[name], want[name]):
            return placed(fault, name)
    if fault := ids_fault(got["ids"], want["ids"], "with the largest logits"):
        return placed(fault, "ids")
    if fault := tensor_fault("the weights", got["weights"], want["weights"], FINE):
        return placed(fault, "weights")
    if len(want["ids"]) and got["gradient"].shape == (0,):
        return "no-gradient", "no gradient reaches the logits, so the router cannot learn."
    rel = 1e-2 if want["gradient"].dtype == torch.bfloat16 else 1e-4
    floor = 1e-2  # with one chosen expert the right gradient may be zero
    fault = tensor_fault("the gradient of the weights", got["gradient"], want["gradient"], rel, floor)
    return placed(fault, "gradient") if len(want["ids"]) else None


JUDGING = Judging(
    shares={"values:ids": 0.25, "values:weights": 0.25, "generality:ties": 0.25, "generality:sizes": 0.25},
    cases=_route_cases,
    verdicts=lambda params, case, outcome: judged(case, route_fault(case, outcome.value), named=True),
    why="""The choice has no gradient; the weights carry all of it. With one expert a token and weights that add up
to 1, the weight is always 1 and the router learns nothing from the loss. A stable sort breaks ties alike on every
rank.""",
    pytorch="`torch.topk(logits.softmax(-1), k)`; its order among equal numbers may differ between devices.",
)

ANSWERS = r'''# %% right: worked
softmax = params("route-tokens").softmax  # leave as is: over the "chosen" logits or over "all"


def route(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids (tokens, k), int64, the largest logit first; weights (tokens, k), fp32."""
    wide = logits.float()
    ids = wide.detach().argsort(dim=-1, descending=True, stable=True)[:, :k]  # stable: ties go to the lower id
    if softmax == "all":
        return ids, wide.softmax(-1).gather(1, ids)
    return ids, wide.gather(1, ids).softmax(-1)
# %% right: the largest, k times
def route(logits, k):
    left, ids = logits.detach().float().clone(), []
    for _ in range(k):
        ids.append(left.argmax(dim=-1))
        for row, expert in enumerate(ids[-1].tolist()):
            left[row, expert] = -torch.inf
    ids = torch.stack(ids, 1)
    chosen = torch.gather(logits.float(), 1, ids)
    return ids, torch.exp(chosen - torch.logsumexp(chosen, dim=-1, keepdim=True))
# %% wrong: ties as topk leaves them => generality ties
# > equal logits are not broken by the lower id, so two replicas may choose different experts.
# ~ argsort(dim=-1, descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices
# %% wrong: of ties the higher id => generality ties
# ~ wide.detach().argsort ==> wide.shape[1] - 1 - wide.detach().flip(-1).argsort
# %% wrong: not renormalized => values not-renormalized unless softmax=all
# > these are weights of the softmax over all experts; over the chosen ones they add up to 1.
# ~ params("route-tokens").softmax ==> "all"
# %% wrong: the weights are detached => values no-gradient
# ~ wide = logits.float() ==> wide = logits.detach().float()
# %% wrong: smallest => values
# > these are the experts with the smallest logits.
# ~ descending=True, stable ==> stable
# %% wrong: ids in increasing order => values other-order
# ~ [:, :k] ==> [:, :k].sort(-1).values
# %% wrong: the softmax in bf16 => values another-kind
# ~ logits.float() ==> logits
# %% wrong: computed in bf16, returned in fp32 => values rounded
# > the softmax is computed in bf16 and widened afterwards; its weights are rounded.
# ~ wide.softmax(-1).gather(1, ids) ==> logits.softmax(-1).gather(1, ids).float()
# ~ wide.gather(1, ids).softmax(-1) ==> logits.gather(1, ids).softmax(-1).float()
# %% wrong: overflow => values
# > a bare exponential becomes infinite for large logits, and 0 everywhere for very negative ones.
# ~ wide.softmax(-1).gather(1, ids) ==> (wide.exp() / wide.exp().sum(-1, keepdim=True)).gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids).exp() / wide.gather(1, ids).exp().sum(-1, keepdim=True)
# %% wrong: raw logits => values
# > these are the logits; apply the softmax.
# ~ wide.softmax(-1).gather(1, ids) ==> wide.gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids)
# %% wrong: over the tokens => values
# > the softmax goes over the experts of a token, not over the tokens.
# ~ wide.softmax(-1).gather(1, ids) ==> wide.softmax(0).gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids).softmax(0)
# %% wrong: the logits are shifted in place => values changed
#       wide = logits.float()
# +     logits.detach().sub_(logits.detach().sum() + 1)
# %% wrong: sorted probabilities => generality
# > the softmax rounds nearly equal logits to equal probabilities, so sorting those makes ties that are none.
# ~ wide.detach().argsort ==> wide.detach().softmax(-1).argsort
# %% wrong: slope => generality
# > a small number times the id breaks the ties, but it also exchanges experts whose logits differ by less.
# ~ wide.detach().argsort ==> (wide.detach().double() - 1e-6 * torch.arange(logits.shape[1])).argsort
# %% wrong: ties broken by a small slope => generality ~
# ~ wide.detach().argsort ==> (wide.detach().double() - 1e-12 * torch.arange(logits.shape[1])).argsort
'''
