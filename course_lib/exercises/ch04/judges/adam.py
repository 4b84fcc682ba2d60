"""Judge of AdamW and of Adam with L2: PyTorch's own optimizer in double precision on the same gradients."""

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch04.probes import gradients_of, rates
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, kind_text, nbytes, tensor_fault
from course_lib.records import Case, Outcome, Verdict

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
    others = {
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


WRITE_ADAMW = Judging(
    shares="values:trajectory 0.4, cost:state 0.15, generality:others 0.3, generality:missing 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="Both moments start at zero, so after t steps they are too small by exactly 1 − β to the power of t; the division removes that. ε "
    "guards the corrected root. The place of the decay decides what it does: in the gradient it is divided by the root of the second "
    "moment, so parameters with large gradients hardly decay; outside, all parameters shrink at the same rate, lr · decay per step.",
    pytorch="`torch.optim.AdamW`, and `torch.optim.Adam(weight_decay=…)` for L2. Both skip parameters whose `.grad` is None, and both count "
    "steps per parameter. `fused=True` computes the same in one kernel.",
)
