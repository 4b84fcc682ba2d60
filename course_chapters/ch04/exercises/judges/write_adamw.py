"""Judge of write-adamw: an optimizer from its formulas."""

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from course_chapters.ch04.exercises.probes import gradients_of, rates
from course_grader.judging import Fault, Judging, Params, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import close, kind_text, nbytes, tensor_fault
from course_grader.records import Case, Outcome, Verdict

LONG = 300  # steps of a run whose mistakes get no name, which would take long
SMALL = 128  # bytes that a state may hold besides its moments: counters
TIGHT = {torch.float64: 1e-11, torch.float32: 1e-5}  # of a parameter's largest number, or of 1


def simulate(spec: Mapping[str, Any], decay: str, **slip: Any) -> list[Tensor]:
    """The parameters after every step in double precision; `slip` names what is done in another way."""
    parameters, steps = gradients_of(spec)
    (one, two), eps, weight = spec["betas"], spec["eps"], spec["weight_decay"]
    one, two = slip.get("betas", (one, two))
    weight, found = weight * slip.get("weight", 1), []
    state = [(torch.zeros_like(p.double()), torch.zeros_like(p.double()), 0) for p in parameters]
    shared = 0
    for lr, gradients in zip(rates(spec), steps, strict=True):
        shared += 1
        for at, given in enumerate(gradients):
            p, (m, v, t) = parameters[at].double(), state[at]
            if given is None and not slip.get("decays_without"):
                found.append(parameters[at])
                continue
            g = torch.zeros_like(p) if given is None else given.double()
            kind = slip.get("kind", decay)
            g = g + weight * p if kind == "l2" else g
            t += 1
            m, v = one * m + (1 - one) * g, two * v + (1 - two) * (g.abs() if slip.get("plain_second") else g * g)
            state[at] = m, v, t
            n = shared + slip.get("late", 0) if slip.get("shared") else t + slip.get("late", 0)
            first = 1 if "first" in slip.get("uncorrected", "") else 1 - one**n
            second = 1 if "second" in slip.get("uncorrected", "") else 1 - two**n
            place = slip.get("eps", "outside")
            if place == "inside":
                down = (v / second + eps).sqrt()
            elif place == "uncorrected":
                down = (v.sqrt() + eps) / second**0.5
            else:
                down = (v / second).sqrt() + eps
            ratio = (g if slip.get("no_momentum") else m / first) / down
            if kind == "in ratio":
                ratio = (m / first + weight * p) / down
            after = p - slip.get("sign", 1) * lr * ratio
            base = after if kind == "after" else p
            p = after - (
                lr * weight * base if kind in ("decoupled", "after") else weight * p if kind == "unscaled" else 0
            )
            parameters[at] = p.to(parameters[at].dtype)
            found.append(parameters[at])
    return found


def reference(spec: Mapping[str, Any], decay: str) -> list[Tensor]:
    """The parameters after every step of PyTorch's optimizer, computed in the description's dtype."""
    parameters, steps = gradients_of(spec)
    leaves = [torch.nn.Parameter(p.double()) for p in parameters]
    kind = torch.optim.AdamW if decay == "decoupled" else torch.optim.Adam
    how = {name: spec[name] for name in ("lr", "eps", "weight_decay")}
    optimizer = kind(leaves, betas=tuple(spec["betas"]), **how)
    found = []
    for optimizer.param_groups[0]["lr"], gradients in zip(rates(spec), steps, strict=True):
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.grad = None if gradient is None else gradient.double()
        optimizer.step()
        found += [leaf.detach().clone().to(p.dtype) for leaf, p in zip(leaves, parameters, strict=True)]
    return found


SLIPS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("no-correction", {"uncorrected": "first second"}, "the moments are not corrected for their start at zero."),
    ("first-only", {"uncorrected": "second"}, "the second moment is not corrected for its start at zero."),
    ("second-only", {"uncorrected": "first"}, "the first moment is not corrected for its start at zero."),
    ("step-late", {"late": 1}, "the first step has number 1 in the correction, and here it has number 2."),
    ("eps-inside", {"eps": "inside"}, "ε is inside the square root; add it to the root."),
    ("eps-uncorrected", {"eps": "uncorrected"}, "ε is added before the correction; correct the second moment first."),
    ("betas-swapped", {"betas": "swapped"}, "β₁ and β₂ are exchanged."),
    ("no-momentum", {"no_momentum": True}, "the update uses the gradient in place of the first moment."),
    ("not-squared", {"plain_second": True}, "the second moment averages squares of the gradient."),
    ("uphill", {"sign": -1}, "the parameter moves along the gradient; subtract the update."),
    ("no-decay", {"weight": 0}, "there is no weight decay."),
    ("decay-after", {"kind": "after"}, "the decay uses the parameter after the update; use the one from before."),
    ("decay-unscaled", {"kind": "unscaled"}, "the decay is not multiplied by the learning rate."),
    ("decay-in-ratio", {"kind": "in ratio"}, "the decay is divided by the root of the second moment; it must not be."),
    ("shared-step", {"shared": True}, "a step without a gradient counts; each parameter counts its own steps."),
    ("decays-without", {"decays_without": True}, "a gradient of `None` is treated as zero; skip the parameter."),
)


def _spec(rng: random.Random, steps: int, **more: Any) -> dict[str, Any]:
    base = {"seed": rng.randrange(2**31), "steps": steps, "dtype": "float64", "size": 1.0}
    how = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1}
    return {**base, **how, "shapes": ((4, 3), (5,)), **more}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    others: dict[str, dict[str, object]] = {
        "float32 and a parameter without a dimension": {"dtype": "float32", "shapes": ((), (3, 2, 2))},
        "gradients about as small as ε": {"size": 3e-8, "weight_decay": 0.0},
        "other coefficients": {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 1.5, "lr": 0.02},
        "a parameter whose gradient is always zero": {"silent": (1,), "weight_decay": 0.3},
        "no momentum, no ε, large gradients": {"betas": (0.0, 0.9), "eps": 0.0, "size": 100.0},
        "a learning rate that falls, and two equal shapes": {"falls": 0.9, "shapes": ((5,), (5,))},
    }
    gaps = ((0, 1), (3, 0), (4, 0), (5, 1))
    return [
        shown(f"{params['steps']} steps", "values:trajectory", _spec(rng, params["steps"])),
        hidden("20 steps", "values:trajectory", _spec(rng, 20, shapes=((16, 24), (40,)))),
        hidden("300 steps of one weight", "values:trajectory", _spec(rng, LONG, shapes=((1,),))),
        *(hidden(name, "generality:others", _spec(rng, 12, **more)) for name, more in others.items()),
        hidden("steps without a gradient", "generality:missing", _spec(rng, 9, missing=gaps)),
    ]


def _fault(decay: str, spec: Mapping[str, Any], got: list[Any]) -> Fault | None:
    want = reference(spec, decay)
    count = len(spec["shapes"])
    if len(got) != len(want):
        one = got[0] if got else None
        kind = kind_text(one) if isinstance(one, Tensor) else "no tensor"
        return "wrong-shape", f"Step 1 returned {kind}; return the updated parameter as a tensor."
    for at, (one, right) in enumerate(zip(got, want, strict=True)):
        if close(one, right, TIGHT[right.dtype], 1.0):
            continue
        where = f"Step {at // count + 1}, parameter {at % count}"
        return (spec["steps"] < LONG and _named(decay, spec, got, want, where)) or tensor_fault(
            where, one, right, rel=TIGHT[right.dtype], floor=1.0
        )
    return None


def _named(decay: str, spec: Mapping[str, Any], got: list[Any], want: list[Tensor], where: str) -> Fault | None:
    """The mistake that leads to these parameters from the first step to the last."""
    other = ("l2", "not-decoupled", "this is Adam with L2: the decay is part of the gradient, and must stay outside.")
    if decay == "l2":
        other = ("decoupled", "public-form", "this solves the public form; here the decay is added to the gradient.")
    slips = [*SLIPS, (other[1], {"kind": other[0]}, other[2])]
    for name, slip, message in slips:
        how = {**slip, "betas": tuple(reversed(spec["betas"]))} if "betas" in slip else slip
        found = simulate(spec, decay, **how)
        pairs = list(zip(got, found, want, strict=True))
        if all(close(one, two, TIGHT[two.dtype], 1.0) for one, two, _ in pairs) and not all(
            close(two, right, TIGHT[right.dtype], 1.0) for _, two, right in pairs
        ):
            return name, f"{where}: {message}"
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (spec,), value = case.args, outcome.value
    fault = _fault(params["decay"], spec, value["parameters"])
    if not fault and value["spoilt"]:
        fault = "input-modified", f"{case.name}: `parameter` or `gradient` was modified; return a new tensor."
    others: list[tuple[Any, str, Fault | None]] = []
    if case.kind == "values":
        others = [("cost", "state", _state_fault(spec, value["state"]))]
    return judged(case, fault, *others)


def _state_fault(spec: Mapping[str, Any], state: list[Tensor]) -> Fault | None:
    parameters, _ = gradients_of(spec)
    held, size = sum(map(nbytes, state)), sum(map(nbytes, parameters))
    if held <= 2 * size + SMALL * len(parameters):
        return None
    return "state-too-large", f"The states hold {held / size:.3g} times the parameters' bytes; two moments are 2 times."


JUDGING = Judging(
    shares="values:trajectory 0.4, cost:state 0.15, generality:others 0.3, generality:missing 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="Both moments start at zero, so after t steps they are too small by exactly 1 − β to the power of t; the division removes that. ε "
    "guards the corrected root. The place of the decay decides what it does: in the gradient it is divided by the root of the second "
    "moment, so parameters with large gradients hardly decay; outside, all parameters shrink at the same rate, lr · decay per step.",
    pytorch="`torch.optim.AdamW`, and `torch.optim.Adam(weight_decay=…)` for L2. Both skip parameters whose `.grad` is None, and both count "
    "steps per parameter. `fused=True` computes the same in one kernel.",
)

ANSWERS = r"""import torch


# %% right: from the formulas
def adamw(parameter, gradient, state, lr, betas, eps, decay):
    if gradient is None:
        return parameter
    t = state["t"] = state.get("t", 0) + 1
    one, two = betas
    state["m"] = one * state.get("m", 0) + (1 - one) * gradient
    state["v"] = two * state.get("v", 0) + (1 - two) * gradient * gradient
    first = state["m"] / (1 - one**t)
    second = state["v"] / (1 - two**t)
    return parameter - lr * first / (second.sqrt() + eps) - lr * decay * parameter


# %% right: in place on the moments, as PyTorch does it
def adamw(parameter, gradient, state, lr, betas, eps, decay):
    if gradient is None:
        return parameter
    if not state:
        state.update(step=torch.tensor(0.0), first=torch.zeros_like(parameter), second=torch.zeros_like(parameter))
    state["step"] += 1
    t = state["step"].item()
    state["first"].lerp_(gradient, 1 - betas[0])
    state["second"].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    below = state["second"].sqrt() / (1 - betas[1] ** t) ** 0.5 + eps
    return (parameter * (1 - lr * decay)).addcdiv_(state["first"], below, value=-lr / (1 - betas[0] ** t))


# %% right: any variant
from course_lib import params

KIND = params("write-adamw").decay


def adamw(parameter, gradient, state, lr, betas, eps, decay):
    if gradient is None:
        return parameter
    t, m, v = state.get("all", (0, torch.zeros_like(parameter), torch.zeros_like(parameter)))
    if KIND == "l2":
        gradient = gradient + decay * parameter
    t, m, v = t + 1, torch.lerp(gradient, m, betas[0]), torch.lerp(gradient.square(), v, betas[1])
    state["all"] = t, m, v
    update = m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)) ** 0.5 + eps)
    if KIND == "decoupled":
        update = update + decay * parameter
    return parameter - lr * update


# %% wrong: no bias correction => values no-correction  from: from the formulas
# ~ ["m"] / (1 - one**t) ==> ["m"]
# ~ ["v"] / (1 - two**t) ==> ["v"]

# %% wrong: only the first moment corrected => values first-only  from: from the formulas
# ~ ["v"] / (1 - two**t) ==> ["v"]

# %% wrong: only the second moment corrected => values second-only  from: from the formulas
# ~ ["m"] / (1 - one**t) ==> ["m"]

# %% wrong: the first step has number 2 => values step-late  from: from the formulas
# ~ ("t", 0) + 1 ==> ("t", 1) + 1

# %% wrong: ε inside the root => values eps-inside  from: from the formulas
# ~ * first / (second.sqrt() + eps) - lr * decay ==> * first / (second + eps).sqrt() - lr * decay

# %% wrong: ε before the correction => values eps-uncorrected  from: from the formulas
# ~ second = state["v"] / (1 - two**t) ==> below = (state["v"].sqrt() + eps) / (1 - two**t) ** 0.5
# ~ (second.sqrt() + eps) ==> below

# %% wrong: the decay in the gradient => values not-decoupled unless decay=l2  from: from the formulas
# -     t = state["t"] = state.get("t", 0) + 1
# +     t, gradient = state.get("t", 0) + 1, gradient + decay * parameter
# +     state["t"] = t
# ~ (second.sqrt() + eps) - lr * decay * parameter ==> (second.sqrt() + eps)

# %% wrong: the decay without the learning rate => values decay-unscaled  from: from the formulas
# ~ lr * decay ==> decay

# %% wrong: the decay after the update => values decay-after  from: from the formulas
# ~ parameter - lr * first / (second.sqrt() + eps) - lr * decay * parameter ==> (parameter - lr * first / (second.sqrt() + eps)) * (1 - lr * decay)

# %% wrong: no gradient is a zero gradient => generality decays-without  from: from the formulas
# -     if gradient is None:
# -         return parameter
# +     gradient = torch.zeros_like(parameter) if gradient is None else gradient

# %% wrong: modifies the parameter => values input-modified  from: from the formulas
# ~ return parameter - lr * first / (second.sqrt() + eps) - lr * decay * parameter ==> return parameter.sub_(lr * first / (second.sqrt() + eps) + lr * decay * parameter)

# %% wrong: keeps every gradient => cost state-too-large  from: from the formulas
# -     t = state["t"] = state.get("t", 0) + 1
# +     state.setdefault("all", []).append(gradient)
# +     t = state["t"] = len(state["all"])

# %% wrong: keeps a corrected moment as well => cost state-too-large  from: from the formulas
# ~ second = state["v"] / (1 - two**t) ==> second = state["corrected"] = state["v"] / (1 - two**t)

# %% wrong: returns the change => values -  from: from the formulas
# ~ return parameter - lr * first / (second.sqrt() + eps) - lr ==> return lr * first / (second.sqrt() + eps) + lr


# %% wrong: PyTorch's own => raised
def adamw(parameter, gradient, state, lr, betas, eps, decay):
    leaf = torch.nn.Parameter(parameter.clone())
    leaf.grad = gradient
    torch.optim.AdamW([leaf], lr=lr, betas=betas, eps=eps, weight_decay=decay).step()
    return leaf.detach()


# %% wrong: left as it is => not-answered  from: from the formulas
# ~ one, two = betas ==> raise NotImplementedError

# %% wrong: the first learning rate is kept => generality ~  from: from the formulas
# ~ one, two = betas ==> lr, (one, two) = state.setdefault("lr", lr), betas

# %% wrong: an ε of zero is replaced => generality ~  from: from the formulas
# ~ one, two = betas ==> eps, (one, two) = eps or 1e-3, betas

# %% wrong: no correction after 50 steps => values -  from: from the formulas
# ~ ["m"] / (1 - one**t) ==> ["m"] / (1 - one**t * (t <= 50))


# %% wrong: one output for all parameters of a shape => values -  from: from the formulas
# -     return parameter - lr * first / (second.sqrt() + eps) - lr * decay * parameter
# +     new = parameter - lr * first / (second.sqrt() + eps) - lr * decay * parameter
# +     return vars(adamw).setdefault(str(new.shape), torch.empty_like(new)).copy_(new)
"""
