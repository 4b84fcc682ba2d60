import math


# %% right: solved for P
def largest_model(ranks, memory, layers, activations, per_param):
    return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)


def ranks_for(params, memory, layers, activations, per_param):
    room = memory - activations - 4 * params / layers
    return math.ceil(per_param * params / room - 1e-9) if room > 0 else None


# %% right: by halving
def _held(params, ranks, layers, activations, per_param):
    return per_param * params / ranks + 2 * (2 * params / layers) + activations


def largest_model(ranks, memory, layers, activations, per_param):
    low, high = 0.0, 1e16
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _held(middle, ranks, layers, activations, per_param) <= memory else (low, middle)
    return low


def ranks_for(params, memory, layers, activations, per_param):
    def fits(n):
        return _held(params, n, layers, activations, per_param) <= memory * (1 + 1e-12)

    if not fits(10**18):
        return None
    high = 1
    while not fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


# %% right: fractions  from: solved for P
# - def largest_model(ranks, memory, layers, activations, per_param):
# + import math
# + from fractions import Fraction
# + def largest_model(ranks, memory, layers, activations, per_param):
# -     return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)
# +     room = Fraction(memory) - Fraction(activations)
# +     return float(max(room, 0) / (Fraction(per_param) / ranks + Fraction(4, layers)))
# ~ memory - activations - 4 * params ==> Fraction(memory) - Fraction(activations) - 4 * Fraction(params)
# ~ per_param * params / room - 1e-9 ==> Fraction(per_param) * Fraction(params) / room


# %% wrong: state only => values state-only
def largest_model(ranks, memory, layers, activations, per_param):
    return ranks * memory / per_param


def ranks_for(params, memory, layers, activations, per_param):
    return math.ceil(per_param * params / memory)


# %% wrong: nothing is gathered => values nothing-gathered  from: state only
# ~ ranks * memory / per_param ==> ranks * max(0, memory - activations) / per_param
# ~ (per_param * params / memory) ==> (per_param * params / (memory - activations))


# %% wrong: the activations are left out => values no-activations
def largest_model(ranks, memory, layers, activations, per_param):
    return memory / (per_param / ranks + 4 / layers)


def ranks_for(params, memory, layers, activations, per_param):
    room = memory - 4 * params / layers
    return math.ceil(per_param * params / room) if room > 0 else None


# %% wrong: one layer whole => values one-layer  from: the activations are left out
# ~ memory / (per_param / ranks + 4 / layers) ==> max(0, memory - activations) / (per_param / ranks + 2 / layers)
# ~ - 4 ==> - activations - 2

# %% wrong: all weights whole => values whole-weights  from: state only
# ~ ranks * memory / per_param ==> max(0, memory - activations) / (per_param / ranks + 2)
# ~ math.ceil(per_param * params / memory) ==> None

# %% wrong: activations shared out as well => values activations-shared  from: all weights whole
# -     return max(0, memory - activations) / (per_param / ranks + 2)
# +     return max(0, memory - activations / ranks) / (per_param / ranks + 4 / layers)

# %% wrong: rounded down => values rounded-down  from: solved for P
# ~ 2 * 2 ==> 4
# ~ math.ceil(per_param * params / room - 1e-9) ==> int(per_param * params / room)

# %% wrong: a negative number of GPUs => generality none-is-right  from: state only
# ~ ranks * memory / per_param ==> max(0, memory - activations) / (per_param / ranks + 4 / layers)
# ~ (per_param * params / memory) ==> (per_param * params / (memory - activations - 4 * params / layers) - 1e-9)

# %% wrong: a model of negative size => generality negative  from: solved for P
# -     return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)
# +     return (memory - activations) / (per_param / ranks + 4 / layers)

# %% wrong: the bytes of the example => generality other-bytes  from: solved for P
# ~ per_param / ranks + 2 * 2 ==> 16 / ranks + 4
# ~ per_param * params ==> 16 * params

# %% wrong: the largest as a whole number of billions => values -  from: solved for P
# -     return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)
# +     return int(max(0, memory - activations) / (per_param / ranks + 4 / layers) / 1e9) * 1e9 + 3e8

# %% wrong: gradients of two layers gathered as well => values two-and-two  from: the activations are left out
# ~ memory / (per_param / ranks + 4 / layers) ==> max(0, memory - activations) / (per_param / ranks + 8 / layers)
# ~ - 4 ==> - activations - 8

# %% wrong: one GPU more where it is exactly full => generality one-more  from: rounded down
# ~ (per_param * params / room) if room > 0 else None ==> (per_param * params / room) + 1 if room > 0 else None

# %% wrong: the own share of two layers taken off => values own-part-off  from: gradients of two layers gathered as well
# ~ 8 / layers ==> 4 / layers * (1 - 1 / ranks)
# ~ activations - 8 * params ==> activations - 4 * params

# %% half: the first only => 2.1  from: a negative number of GPUs
# -     return math.ceil(per_param * params / (memory - activations - 4 * params / layers) - 1e-9)
# +     raise NotImplementedError

# %% wrong: at least sixteen layers => generality ~  from: solved for P
# ~ 2 * 2 / layers ==> 4 / max(layers, 16)
# ~ 4 * params / layers ==> 4 * params / max(layers, 16)
