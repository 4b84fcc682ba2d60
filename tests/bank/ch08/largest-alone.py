import math


# %% right: solved for P
def largest_model(ranks, memory, layers, activations, per_param):
    return max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers)


def ranks_for(params, memory, layers, activations, per_param):
    room = memory - activations - 4 * params / layers
    return math.ceil(per_param * params / room - 1e-9) if room > 0 else None


# %% right: by halving
from bisect import bisect_left


def _held(params, ranks, layers, activations, per_param):
    return per_param * params / ranks + 2 * (2 * params / layers) + activations


def largest_model(ranks, memory, layers, activations, per_param):
    low, high = 0.0, 1e16
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _held(middle, ranks, layers, activations, per_param) <= memory else (low, middle)
    return low


def ranks_for(params, memory, layers, activations, per_param):
    most, counts = memory * (1 + 1e-12), range(1, 10**18)
    place = bisect_left(counts, True, key=lambda n: _held(params, n, layers, activations, per_param) <= most)
    return counts[place] if place < len(counts) else None


# %% wrong: state only => values state-only
def largest_model(ranks, memory, layers, activations, per_param):
    return ranks * memory / per_param


def ranks_for(params, memory, layers, activations, per_param):
    return math.ceil(per_param * params / memory)


# %% wrong: nothing is gathered => values nothing-gathered  from: state only
# ~ ranks * memory / per_param ==> ranks * max(0, memory - activations) / per_param
# ~ (per_param * params / memory) ==> (per_param * params / (memory - activations))


# %% wrong: the activations are left out => values no-activations  from: solved for P
# ~ max(0, memory - activations) ==> memory
# ~ memory - activations - 4 ==> memory - 4

# %% wrong: one layer whole => values one-layer  from: solved for P
# ~ 2 * 2 / layers ==> 2 / layers
# ~ 4 * params ==> 2 * params

# %% wrong: all weights whole => values whole-weights  from: state only
# ~ ranks * memory / per_param ==> max(0, memory - activations) / (per_param / ranks + 2)
# ~ math.ceil(per_param * params / memory) ==> None

# %% wrong: activations shared out as well => values activations-shared  from: all weights whole
# ~ - activations) / (per_param / ranks + 2) ==> - activations / ranks) / (per_param / ranks + 4 / layers)

# %% wrong: rounded down => values rounded-down  from: solved for P
# ~ 2 * 2 ==> 4
# ~ math.ceil(per_param * params / room - 1e-9) ==> int(per_param * params / room)

# %% wrong: a negative number of GPUs => generality none-is-right  from: state only
# ~ ranks * memory / per_param ==> max(0, memory - activations) / (per_param / ranks + 4 / layers)
# ~ (per_param * params / memory) ==> (per_param * params / (memory - activations - 4 * params / layers) - 1e-9)

# %% wrong: a model of negative size => generality negative  from: solved for P
# ~ max(0, memory - activations) ==> (memory - activations)

# %% wrong: the bytes of the example => generality other-bytes  from: solved for P
# ~ per_param / ranks + 2 * 2 ==> 16 / ranks + 4
# ~ per_param * params ==> 16 * params

# %% wrong: the largest as a whole number of billions => values -  from: solved for P
# ~ max(0, memory - activations) / (per_param / ranks + 2 * 2 / layers) ==> (memory - activations) / (per_param / ranks + 4 / layers) // 1e9 * 1e9 + 3e8

# %% wrong: gradients of two layers gathered as well => values two-and-two  from: solved for P
# ~ 2 * 2 / layers ==> 8 / layers
# ~ 4 * params ==> 8 * params

# %% wrong: one GPU more where it is exactly full => generality one-more  from: rounded down
# ~ (per_param * params / room) if room > 0 else None ==> (per_param * params / room) + 1 if room > 0 else None

# %% wrong: the own share of two layers taken off => values own-part-off  from: solved for P
# ~ 2 * 2 / layers ==> 4 / layers * (1 - 1 / ranks)

# %% half: the first only => 2.1  from: a negative number of GPUs
# ~ return math.ceil(per_param * params / (memory - activations - 4 * params / layers) - 1e-9) ==> raise NotImplementedError

# %% wrong: at least sixteen layers => generality ~  from: solved for P
# ~ 2 * 2 / layers ==> 4 / max(layers, 16)
# ~ 4 * params / layers ==> 4 * params / max(layers, 16)
