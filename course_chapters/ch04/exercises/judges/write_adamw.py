import random

import torch

from course_chapters.ch04.exercises.probes import gradients_of
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Worked, hidden, oracle, placed, shown
from course_grader.judging.tensors import nbytes, tensor_fault

SMALL = 128  # bytes that a state may hold besides its moments: counters
TIGHT = {torch.float64: 1e-11, torch.float32: 1e-5}  # of a parameter's largest number, or of 1

right = Worked("write-adamw")


def _spec(rng: random.Random, steps: int, **more: object) -> dict[str, object]:
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
    # two parameters that a second step finds equal, with equal gradients, and that differ in their states alone
    twins = {"twins": True, "from_zero": True, "missing": ((0, 1),), "shapes": ((5,), (5,))}
    return [
        shown(f"{params['steps']} steps", "values:trajectory", _spec(rng, params["steps"])),
        hidden("20 steps", "values:trajectory", _spec(rng, 20, shapes=((16, 24), (40,)))),
        hidden("300 steps of one weight", "values:trajectory", _spec(rng, 300, shapes=((1,),))),
        *(hidden(name, "generality:others", _spec(rng, 12, **more)) for name, more in others.items()),
        hidden("steps without a gradient", "generality:missing", _spec(rng, 9, missing=gaps)),
        hidden("equal parameters with different states", "generality:missing", _spec(rng, 4, **twins)),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    got, want, count = outcome.value["parameters"], right.value(case)["parameters"], len(case.args[0]["shapes"])
    if len(got) != len(want):
        return "wrong-shape", "Step 1 returned no tensor; return the updated parameter as a tensor."
    for at, (one, like) in enumerate(zip(got, want, strict=True)):
        where = f"Step {at // count + 1}, parameter {at % count}"
        if fault := tensor_fault(where, one, like, rel=TIGHT[like.dtype], floor=1.0):
            return placed(fault, "parameters")
    return None


def _state_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    parameters, _ = gradients_of(**case.args[0])
    held, size = sum(map(nbytes, outcome.value["state"])), sum(map(nbytes, parameters))
    if held <= 2 * size + SMALL * len(parameters):
        return None
    return "state-too-large", f"The states hold {held / size:.3g} times the parameters' bytes; two moments are 2 times."


JUDGING = Judging(
    shares="values:trajectory 0.4, cost:state 0.15, generality:others 0.3, generality:missing 0.15",
    cases=_cases,
    verdicts=oracle(_fault, {"cost:state": _state_fault}),
    why="Both moments start at zero, so after t steps they are too small by exactly 1 − β to the power of t; the "
    "division removes that. ε guards the corrected root. The place of the decay decides what it does: in the "
    "gradient it is divided by the root of the second moment, so parameters with large gradients hardly decay; "
    "outside, all parameters shrink at the same rate, lr · decay per step.",
    pytorch="`torch.optim.AdamW`, and `torch.optim.Adam(weight_decay=…)` for L2. Both skip parameters whose `.grad` "
    "is None, and both count steps per parameter. `fused=True` computes the same in one kernel.",
)

ANSWERS = r'''# %% right: worked
decay_kind = params("write-adamw").decay  # leave as is: "decoupled": AdamW; "l2": Adam with the decay in the gradient


def adamw(parameter, gradient, state: dict, lr: float, betas: tuple[float, float], eps: float, decay: float):
    """The updated parameter; `state` keeps what the next step needs."""
    if gradient is None:
        return parameter
    if decay_kind == "l2":
        gradient, decay = gradient + decay * parameter, 0.0
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * gradient
    v = state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * gradient**2
    ratio = m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
    return parameter - lr * ratio - lr * decay * parameter
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
# %% right: all in one tuple
# -     t = state["t"] = state.get("t", 0) + 1
# -     m = state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * gradient
# -     v = state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * gradient**2
# +     t, m, v = state.get("all", (0, torch.zeros_like(parameter), torch.zeros_like(parameter)))
# +     t, m, v = t + 1, torch.lerp(gradient, m, betas[0]), torch.lerp(gradient.square(), v, betas[1])
# +     state["all"] = t, m, v
# %% wrong: no bias correction => values no-correction
# > the moments are not corrected for their start at zero.
# ~ m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() ==> m / (v.sqrt()
# %% wrong: only the first moment corrected => values first-only
# > the second moment is not corrected for its start at zero.
# ~ (v / (1 - betas[1] ** t)) ==> v
# %% wrong: only the second moment corrected => values second-only
# > the first moment is not corrected for its start at zero.
# ~ m / (1 - betas[0] ** t) ==> m
# %% wrong: the first step has number 2 => values step-late
# > the first step has number 1 in the correction, and here it has number 2.
# ~ ("t", 0) + 1 ==> ("t", 1) + 1
# %% wrong: moments start at the first gradient => values start-at-gradient
# > the moments start at the first gradient; both must start at zero.
# ~ state.get("m", 0) ==> state.get("m", gradient)
# ~ state.get("v", 0) ==> state.get("v", gradient**2)
# %% wrong: ε inside the root => values eps-inside
# > ε is inside the square root; add it to the root.
# ~ (v / (1 - betas[1] ** t)).sqrt() + eps ==> v / (1 - betas[1] ** t) + eps).sqrt(
# %% wrong: ε before the correction => values eps-uncorrected
# > ε is added before the correction; correct the second moment first.
# ~ (v / (1 - betas[1] ** t)).sqrt() + eps) ==> v.sqrt() + eps) * (1 - betas[1] ** t) ** 0.5
# %% wrong: β₁ for β₂ => values betas-swapped
# > β₁ and β₂ are exchanged.
#           return parameter
# +     betas = betas[::-1]
# %% wrong: no first moment => values no-momentum
# > the update uses the gradient in place of the first moment.
# ~ ratio = m / (1 - betas[0] ** t) ==> ratio = gradient
# %% wrong: sizes in place of squares => values not-squared
# > the second moment averages squares of the gradient.
# ~ gradient**2 ==> gradient.abs()
# %% wrong: uphill => values uphill
# > the parameter moves along the gradient; subtract the update.
# ~ - lr * ratio ==> + lr * ratio
# %% wrong: no decay => values no-decay
# > there is no weight decay.
#           return parameter
# +     decay = 0.0
# %% wrong: the decay in the gradient => values not-decoupled unless decay=l2
# > this is Adam with L2: the decay is part of the gradient, and must stay outside.
# ~ if decay_kind == "l2": ==> if decay_kind:
# %% wrong: the public form => values public-form unless decay=decoupled
# > this solves the public form; here the decay is added to the gradient.
# ~ if decay_kind == "l2": ==> if not decay_kind:
# %% wrong: the decay without the learning rate => values decay-unscaled
# > the decay is not multiplied by the learning rate.
# ~ if decay_kind == "l2": ==> if not decay_kind:
# ~ lr * decay * parameter ==> decay * parameter
# %% wrong: the decay after the update => values decay-after
# > the decay uses the parameter after the update; use the one from before.
# ~ if decay_kind == "l2": ==> if not decay_kind:
# ~ return parameter - lr * ratio - lr * decay * parameter ==> return (parameter - lr * ratio) * (1 - lr * decay)
# %% wrong: the decay in the ratio => values decay-in-ratio
# > the decay is divided by the root of the second moment; it must not be.
# ~ if decay_kind == "l2": ==> if not decay_kind:
# ~ ratio = m / (1 - betas[0] ** t) ==> ratio = (m / (1 - betas[0] ** t) + decay * parameter)
# ~ - lr * ratio - lr * decay * parameter ==> - lr * ratio
# %% wrong: the decay after the update, without the learning rate => values decay-after-unscaled
# > the decay uses the parameter after the update, and lacks the learning rate.
# ~ if decay_kind == "l2": ==> if not decay_kind:
# ~ return parameter - lr * ratio - lr * decay * parameter ==> return (parameter - lr * ratio) * (1 - decay)
# %% wrong: without a gradient it counts and decays => generality counts-and-decays
# > a step without a gradient is counted, and decays the parameter; it must do neither.
# -         return parameter
# +         state["t"] = state.get("t", 0) + 1
# +         return parameter * (1 - lr * decay)
# %% wrong: one count of steps for all parameters => generality shared-step
# > a step without a gradient counts; each parameter counts its own steps.
#       if gradient is None:
# +         state["t"] = state.get("t", 0) + 1
# %% wrong: no gradient is a zero gradient => generality decays-without
# > a gradient of `None` is treated as zero; skip the parameter.
# -     if gradient is None:
# -         return parameter
# +     gradient = torch.zeros_like(parameter) if gradient is None else gradient
# %% wrong: modifies the parameter => values changed
# ~ parameter - lr * ratio - lr * decay * parameter ==> parameter.sub_(lr * ratio + lr * decay * parameter)
# %% wrong: keeps every gradient => cost state-too-large
# -     t = state["t"] = state.get("t", 0) + 1
# +     state.setdefault("all", []).append(gradient)
# +     t = state["t"] = len(state["all"])
# %% wrong: keeps a corrected moment as well => cost state-too-large
# ~ ratio = m / (1 - betas[0] ** t) ==> ratio = state["ratio"] = m / (1 - betas[0] ** t)
# %% wrong: returns the change => values other-numbers
# ~ return parameter - lr * ratio - lr * ==> return lr * ratio + lr *
# %% wrong: PyTorch's own => raised
def adamw(parameter, gradient, state, lr, betas, eps, decay):
    leaf = torch.nn.Parameter(parameter.clone())
    leaf.grad = gradient
    torch.optim.AdamW([leaf], lr=lr, betas=betas, eps=eps, weight_decay=decay).step()
    return leaf.detach()
# %% wrong: the first learning rate is kept => generality ~
# ~ t = state["t"] = state.get("t", 0) + 1 ==> t, lr = state.get("t", 0) + 1, state.setdefault("lr", lr); state["t"] = t
# %% wrong: an ε of zero is replaced => generality ~
# ~ t = state["t"] = state.get("t", 0) + 1 ==> eps = eps or 1e-3; t = state["t"] = state.get("t", 0) + 1
# %% wrong: no correction after 50 steps => values rounded
# ~ m / (1 - betas[0] ** t) ==> m / (1 - betas[0] ** t * (t <= 50))
# %% wrong: one output for all parameters of a shape => values changed
# -     return parameter - lr * ratio - lr * decay * parameter
# +     new = parameter - lr * ratio - lr * decay * parameter
# +     return vars(adamw).setdefault(str(new.shape), torch.empty_like(new)).copy_(new)
'''
