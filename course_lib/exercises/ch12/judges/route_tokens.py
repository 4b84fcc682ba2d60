"""Judge of route-tokens: a top-k router."""

import random
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch12.judges.shared import top
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case


def weights_of(softmax: str, logits: Tensor, ids: Tensor) -> Tensor:
    """The weights of chosen experts, in the dtype of the logits."""
    if softmax == "chosen":
        return logits.gather(1, ids).softmax(-1)
    return logits.softmax(-1).gather(1, ids)


def _route_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["experts"]

    def data(
        tokens: int, experts: int, k: int, dtype: torch.dtype = torch.float32, around: float = 0.0
    ) -> tuple[Any, ...]:
        logits = (torch.randn(tokens, experts, generator=coin) + around).to(dtype)
        return logits, k, torch.randn(tokens, k, generator=coin)

    def tied(tokens: int, experts: int, k: int, dtype: torch.dtype) -> tuple[Any, ...]:
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
OTHER = {"chosen": "all", "all": "chosen"}


def route_fault(softmax: str, case: Case, got: Any) -> Fault | None:
    """What is wrong with ids, weights or the gradient."""
    given, k, slope = case.args
    if got["changed"] is not False:
        return "changed", "the logits were changed; make new tensors."
    ids = top(given, k)
    wide = given.double().requires_grad_()
    want = weights_of(softmax, wide, ids)
    if fault := kind_fault("`ids`", got["ids"], ids):
        return fault
    if fault := kind_fault("`weights`", got["weights"], want.float()):
        return fault
    if not torch.equal(got["ids"], ids):
        return _ids_fault(given, ids, got["ids"])
    if not close(got["weights"], want.float(), FINE):
        return _weights_fault(softmax, given, ids, got["weights"], want.float())
    if not len(given):
        return None
    (want * slope).sum().backward()
    grad, right = got["gradient"], wide.grad
    if grad.shape == (0,):
        return "no-gradient", "no gradient reaches the logits, so the router cannot learn."
    if fault := kind_fault("The gradient", grad, given):
        return fault
    rel = 1e-2 if given.dtype == torch.bfloat16 else 1e-4
    floor = 1e-2  # with one chosen expert the right gradient may be zero
    return (
        None if close(grad.double(), right, rel, floor) else ("other-gradient", "the gradient of the weights is wrong.")
    )


def _ids_fault(given: Tensor, ids: Tensor, got: Tensor) -> Fault:
    if torch.equal(got.sort(-1).values, ids.sort(-1).values):
        return (
            "other-order",
            "these are the right experts in another order; the largest logit comes first, of ties the lower id.",
        )
    if got.numel() and got.min() >= 0 and got.max() < given.shape[1]:
        picked = given.gather(1, got)
        if torch.equal(picked, given.gather(1, ids)) and bool((got.sort(-1).values.diff(dim=-1) > 0).all()):
            return "ties", "equal logits are not broken by the lower id, so two replicas may choose different experts."
        if torch.equal(got, top(-given, got.shape[1])):
            return "smallest", "these are the smallest logits."
    return "other-ids", "these are not the experts with the largest logits."


def _weights_fault(softmax: str, given: Tensor, ids: Tensor, got: Tensor, want: Tensor) -> Fault:
    other = weights_of(OTHER[softmax], given.double(), ids).float()
    if close(got, other, FINE):
        if softmax == "all":
            return "public-form", "this solves the public form of the exercise: these weights add up to 1."
        return (
            "not-renormalized",
            "these are weights of the softmax over all experts; over the chosen ones they add up to 1.",
        )
    if close(got, given.double().gather(1, ids).float(), 1e-6):
        return "raw-logits", "these are the logits; apply the softmax."
    if close(got, want, 1e-2):
        return "rounded", "the weights are close but not exact. Was the softmax computed in bf16?"
    return "other-weights", "the weights are wrong."


JUDGING = Judging(
    shares={"values:ids": 0.25, "values:weights": 0.25, "generality:ties": 0.25, "generality:sizes": 0.25},
    cases=_route_cases,
    verdicts=lambda params, case, outcome: judged(
        case, route_fault(params["softmax"], case, outcome.value), named=True
    ),
    why="""The choice has no gradient; the weights carry all of it. With one expert a token and weights that add up to 1, the weight is always 1
and the router learns nothing from the loss. A stable sort breaks ties alike on every rank.""",
    pytorch="`torch.topk(logits.softmax(-1), k)`; its order among equal numbers may differ between devices.",
)

ANSWERS = r"""import torch


# %% right: a stable sort
from course_lib.notebook import params


def route(logits, k):
    wide = logits.float()
    ids = wide.argsort(descending=True, stable=True)[:, :k]
    if params("route-tokens").softmax == "all":
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


# %% wrong: ties as topk leaves them => generality ties  from: a stable sort
# ~ argsort(descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices

# %% wrong: the softmax over all experts => values not-renormalized unless softmax=all  from: a stable sort
# ~ params("route-tokens").softmax == "all" ==> True

# %% wrong: the weights are detached => values no-gradient  from: a stable sort
# ~ float ==> detach().float

# %% wrong: the smallest logits => values smallest  from: a stable sort
# ~ descending=True, stable ==> stable

# %% wrong: ids in increasing order => values other-order  from: a stable sort
# ~ [:, :k] ==> [:, :k].sort(-1).values

# %% wrong: of ties the higher id => generality ties  from: a stable sort
# ~ wide.argsort ==> wide.shape[1] - 1 - wide.flip(-1).argsort

# %% wrong: the softmax in bf16 => values another-kind  from: a stable sort
# ~ logits.float() ==> logits

# %% wrong: computed in bf16, returned in fp32 => values -  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> logits.softmax(-1).gather(1, ids).float()
# ~ wide.gather(1, ids).softmax(-1) ==> logits.gather(1, ids).softmax(-1).float()

# %% wrong: the exponential overflows => values -  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> (wide.exp() / wide.exp().sum(-1, keepdim=True)).gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids).exp() / wide.gather(1, ids).exp().sum(-1, keepdim=True)

# %% wrong: the logits themselves => values raw-logits  from: a stable sort
# ~ wide.softmax(-1).gather(1, ids) ==> wide.gather(1, ids)
# ~ wide.gather(1, ids).softmax(-1) ==> wide.gather(1, ids)

# %% wrong: the logits are shifted in place => values changed  from: a stable sort
#       wide = logits.float()
# +     logits.detach().sub_(logits.detach().sum() + 1)

# %% wrong: sorted by rounded probabilities => generality other-ids  from: a stable sort
# ~ wide.argsort ==> wide.softmax(-1).argsort

# %% wrong: ties broken by a small slope => generality ~  from: a stable sort
# ~ wide.argsort ==> (wide.double() - 1e-12 * torch.arange(logits.shape[1])).argsort
"""
