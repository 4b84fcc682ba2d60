import math

import numpy as np


# %% right: the exponent on a grid that is refined
def fit_law(compute, losses):
    at = np.array(compute) / np.exp(np.log(compute).mean())
    low, high = 0.01, 1.2
    for _ in range(20):
        grid = np.linspace(low, high, 31)
        errors = []
        for exponent in grid:
            line = np.polyfit(at**-exponent, losses, 1)
            errors.append(((np.polyval(line, at**-exponent) - losses) ** 2).sum())
        best = np.argmin(errors)
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 30)]
    exponent = grid[best]
    scale, floor = np.polyfit(at**-exponent, losses, 1)
    return floor, scale * (compute[0] / at[0]) ** exponent, exponent


def spend(flops, ratio):
    parameters = math.sqrt(flops / 6 / ratio)
    return parameters, ratio * parameters


# %% right: bisection on the curvature of three points
def fit_law(compute, losses):
    runs = sorted(zip(compute, losses))
    (a, la), (b, lb), (c, lc) = runs[0], runs[len(runs) // 2], runs[-1]
    low, high = 0.001, 2.0
    for _ in range(200):
        x = (low + high) / 2
        bend = (1 - (b / a) ** -x) / (1 - (c / a) ** -x)
        low, high = (x, high) if bend < (la - lb) / (la - lc) else (low, x)
    scale = (la - lc) / (1 - (c / a) ** -x)
    return la - scale, scale * a**x, x


def spend(flops, ratio):
    tokens = (flops * ratio / 6) ** 0.5
    return flops / 6 / tokens, tokens


# %% wrong: a straight line in logarithms => values no-floor  from: the exponent on a grid that is refined
def fit_law(compute, losses):
    slope, height = np.polyfit(np.log(compute), np.log(losses), 1)
    return 0.0, np.exp(height), -slope


# %% wrong: the lowest loss is the floor => values lowest-seen  from: bisection on the curvature of three points
# ~ la - scale ==> min(losses)

# %% wrong: a negative exponent => values sign  from: bisection on the curvature of three points
# ~ x, x ==> x, -x

# %% wrong: the scale at the first run => values -  from: bisection on the curvature of three points
# ~ scale * a**x, ==> scale,

# %% wrong: steep curves are left out => generality -  from: the exponent on a grid that is refined
# ~ 1.2 ==> 0.5

# %% wrong: one FLOP per parameter and token => values no-six  from: bisection on the curvature of three points
# ~ (flops * ratio / 6) ** 0 ==> (flops * ratio) ** 0
# ~ 6 / tokens ==> tokens

# %% wrong: tokens first => values tokens  from: bisection on the curvature of three points
# ~ return flops / 6 / tokens, tokens ==> return tokens, flops / 6 / tokens

# %% wrong: an even split => values even-split  from: bisection on the curvature of three points
# ~ flops * ratio / 6 ==> flops / 6

# %% half: no plan => 2.4  from: bisection on the curvature of three points
# ~ tokens = (flops * ratio / 6) ** 0.5 ==> raise NotImplementedError

# %% wrong: left as it is => not-answered  from: bisection on the curvature of three points
# -     low, high = 0.001, 2.0
# +     raise NotImplementedError

# %% wrong: a floor of 1 at least => generality ~  from: bisection on the curvature of three points
# ~ la - scale ==> max(la - scale, 1.0)
