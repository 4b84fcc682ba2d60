import torch


# %% right: N roundings of what was added up
def same_sum(got, inputs):
    exact = sum(x.double() for x in inputs)
    scale = sum(x.double().abs() for x in inputs)
    bound = len(inputs) * torch.finfo(got.dtype).eps * scale
    return bool(((got.double() - exact).abs() <= bound).all())


# %% right: the textbook bound, as a stack, one comparison an element
def same_sum(got, inputs):
    stack = torch.stack(inputs).to(torch.float64)
    n, unit = len(inputs), torch.finfo(got.dtype).eps / 2
    gamma = (n - 1) * unit / (1 - (n - 1) * unit)
    error, most = (got.to(torch.float64) - stack.sum(0)).abs(), gamma * stack.abs().sum(0)
    return all(e <= m for e, m in zip(error.tolist(), most.tolist()))


# %% wrong: the defaults of allclose => values rejects-right  from: element by element, no verdict
# ~ (got - sum(inputs)).abs() < 1e-3 ==> torch.allclose(got, sum(inputs))


# %% wrong: small numbers are within any fixed tolerance => generality accepts-wrong  from: N roundings of what was added up
# ~ <= bound).all() ==> <= bound + 1e-4).all()

# %% wrong: the largest bound for every element => values accepts-wrong  from: N roundings of what was added up
# ~ <= bound).all() ==> <= bound.max()).all()


# %% wrong: on average it is fine => values accepts-wrong
def same_sum(got, inputs):
    exact = sum(x.double() for x in inputs)
    return bool((got.double() - exact).abs().mean() <= 1e-1 * exact.abs().mean())


# %% wrong: relative to the sum => values rejects-right  from: N roundings of what was added up
# ~ eps * scale ==> eps * exact.abs()

# %% wrong: the epsilon of float32 for every dtype => generality rejects-right  from: N roundings of what was added up
# ~ torch.finfo(got.dtype).eps ==> 2**-23

# %% wrong: the epsilon of bfloat16 for every dtype => values accepts-wrong  from: N roundings of what was added up
# ~ torch.finfo(got.dtype).eps ==> 2**-7


# %% wrong: element by element, no verdict => values not-a-bool
def same_sum(got, inputs):
    return (got - sum(inputs)).abs() < 1e-3


# %% half: one dtype only => 4.8  from: the epsilon of float32 for every dtype
