# %% right: one formula
from course_lib.notebook import params


def _count(used, layers, width, ffn, experts, other):
    used += params("active-parameters").shared
    return layers * (used * 3 * width * ffn + width * experts) + other


def total_parameters(layers, width, ffn, experts, k, other):
    return _count(experts, layers, width, ffn, experts, other)


def active_parameters(layers, width, ffn, experts, k, other):
    return _count(k, layers, width, ffn, experts, other)


# %% right: what is not used is subtracted
def total_parameters(layers, width, ffn, experts, k, other):
    return other + sum(width * experts + experts * (2 * width * ffn + ffn * width) for _ in range(layers))


def active_parameters(layers, width, ffn, experts, k, other):
    return total_parameters(layers, width, ffn, experts, k, other) - layers * (experts - k) * 3 * width * ffn


# %% wrong: the router is missing => values no-router  from: what is not used is subtracted
# ~ width * experts + experts ==> experts

# %% wrong: all experts are active => values all-experts  from: what is not used is subtracted
# ~ (layers, width, ffn, experts, k, other) - layers * (experts - k) * 3 * width * ffn ==> (layers, width, ffn, experts, k, other)

# %% wrong: the total of one token => values only-active  from: one formula
# ~ return _count(experts, layers, width, ffn, experts, other) ==> return _count(k, layers, width, ffn, experts, other)

# %% wrong: two matrices => values two-matrices  from: one formula
# ~ 3 ==> 2

# %% wrong: the router of the chosen experts => values router-of-k  from: one formula
# ~ (k, layers, width, ffn, experts, other) ==> (k, layers, width, ffn, experts, other) - layers * width * (experts - k)

# %% wrong: eight whole models => values experts-times-all  from: one formula
# ~ (experts, layers, width, ffn, experts, other) ==> (experts, layers, width, ffn, experts, experts * other)

# %% wrong: one layer => values one-layer  from: one formula
# ~ layers * (used * 3 * width * ffn + width * experts) ==> used * 3 * width * ffn + width * experts

# %% wrong: the rest is missing => values no-others  from: one formula
# ~ (k, layers, width, ffn, experts, other) ==> (k, layers, width, ffn, experts, 0)

# %% wrong: at least one expert is idle => generality -  from: one formula
# ~ k, layers ==> min(k, max(1, experts - 1)), layers

# %% wrong: four experts a token at most => generality ~  from: one formula
# ~ (k, layers ==> (min(k, 4), layers
