import torch


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
