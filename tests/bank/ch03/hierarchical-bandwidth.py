# %% right: level by level
def cross_bandwidth(levels):
    found, passed = [], float("inf")
    for level in levels:
        own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
        passed = min(passed, own)
        found.append(passed)
    return found


def effective_bandwidth(shares, rates):
    return 1 / sum(share / rate for share, rate in zip(shares, rates))


# %% right: numpy, a running minimum, a tuple
import numpy as np


def cross_bandwidth(levels):
    keys = ("rate", "shared_by", "directions", "oversubscription")
    table = np.array([[level[key] for key in keys] for level in levels], dtype=float)
    return tuple(np.minimum.accumulate(table[:, 0] / table[:, 1:].prod(axis=1)))


def effective_bandwidth(shares, rates):
    return 1 / np.dot(shares, 1 / np.array(rates))


# %% right: any variant
from course_lib import params

TOTAL = max if params("hierarchical-bandwidth").phases == "at once" else sum


def cross_bandwidth(levels):
    own = [l["rate"] / (l["shared_by"] * l["directions"] * l["oversubscription"]) for l in levels]
    return [min(own[: i + 1]) for i in range(len(own))]


def effective_bandwidth(shares, rates):
    return 1.0 / TOTAL([s / r for s, r in zip(shares, rates)])


# %% wrong: both directions => values both-directions  from: level by level
# -         own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
# -         passed = min(passed, own)
# +         passed = min(passed, level["rate"] / level["shared_by"] / level["oversubscription"])

# %% wrong: a server's adapters for one device => values whole-server  from: level by level
# -         own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
# -         passed = min(passed, own)
# +         passed = min(passed, level["rate"] / level["directions"] / level["oversubscription"])

# %% wrong: full bisection everywhere => values full-bisection  from: level by level
# -         own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
# -         passed = min(passed, own)
# +         passed = min(passed, level["rate"] / level["shared_by"] / level["directions"])


# %% wrong: as printed => values as-printed  from: level by level
def cross_bandwidth(levels):
    return [level["rate"] for level in levels]


# %% wrong: wide again further out => generality grows-again  from: as printed
# ~ level["rate"] for level ==> l["rate"] / l["shared_by"] / l["directions"] / l["oversubscription"] for l

# %% wrong: thinner and thinner => generality -  from: level by level
# ~ found, passed = [], float("inf") ==> thin, found, passed = 1, [], float("inf")
# ~ for level in levels: ==> for l in levels:
# ~ own = level["rate"] / level["shared_by"] / level["directions"] / level ==> thin *= l
# ~ (passed, own) ==> (passed, l["rate"] / l["shared_by"] / l["directions"])
# ~ (passed) ==> (passed / thin)

# %% wrong: a sum of bandwidths => values sum-of-bandwidths  from: level by level
# -         own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
# -         passed = min(passed, own)
# +         passed = min(passed, level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"])
# ~ 1 / sum(share / rate for share, rate in zip(shares, rates)) ==> sum(rates)

# %% wrong: a weighted mean => values weighted-mean  from: a sum of bandwidths
# ~ (rates) ==> (share * rate for share, rate in zip(shares, rates))

# %% wrong: the slowest wire => values slowest  from: a sum of bandwidths
# ~ sum ==> min

# %% wrong: all at once => values other-order unless phases=at once  from: a sum of bandwidths
# ~ sum(rates) ==> 1 / max(share / rate for share, rate in zip(shares, rates))

# %% wrong: gigabytes => values gigabytes  from: both directions
# ~ oversubscription ==> directions"] / level["oversubscription
# ~ (passed) ==> (passed / 1e9)

# %% wrong: one number for all => values wrong-shape  from: as printed
# ~ [level["rate"] for level in levels] ==> 450e9

# %% half: the buffer is not there yet => 3.75  from: a sum of bandwidths
# ~ return sum(rates) ==> raise NotImplementedError
