# %% right: level by level
def cross_bandwidth(levels):
    found, passed = [], float("inf")
    for level in levels:
        passed = min(passed, level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"])
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


# %% right: any variant  from: level by level
# - def cross_bandwidth(levels):
# + from course_lib import params
# + TOTAL = max if params("hierarchical-bandwidth").phases == "at once" else sum
# + def cross_bandwidth(levels):
# ~ 1 / sum ==> 1 / TOTAL

# %% wrong: both directions => values both-directions  from: level by level
# ~ level["shared_by"] / level["directions"] ==> level["shared_by"]

# %% wrong: a server's adapters for one device => values whole-server  from: level by level
# ~ level["rate"] / level["shared_by"] ==> level["rate"]

# %% wrong: full bisection everywhere => values full-bisection  from: level by level
# ~ level["directions"] / level["oversubscription"] ==> level["directions"]


# %% wrong: as printed => values as-printed  from: level by level
def cross_bandwidth(levels):
    return [level["rate"] for level in levels]


# %% wrong: wide again further out => generality grows-again  from: as printed
# ~ level["rate"] for level ==> l["rate"] / l["shared_by"] / l["directions"] / l["oversubscription"] for l

# %% wrong: thinner and thinner => generality -  from: level by level
# ~ found, passed = [], float("inf") ==> thin, found, passed = 1, [], float("inf")
# -         passed = min(passed, level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"])
# +         thin *= level["oversubscription"]
# +         passed = min(passed, level["rate"] / level["shared_by"] / level["directions"])
# ~ (passed) ==> (passed / thin)

# %% wrong: a sum of bandwidths => values sum-of-bandwidths  from: level by level
# ~ 1 / sum(share / rate for share, rate in zip(shares, rates)) ==> sum(rates)

# %% wrong: a weighted mean => values weighted-mean  from: level by level
# ~ 1 / sum(share / rate ==> sum(share * rate

# %% wrong: the slowest wire => values slowest  from: level by level
# ~ 1 / sum(share / rate for share, rate in zip(shares, rates)) ==> min(rates)

# %% wrong: all at once => values other-order unless phases=at once  from: level by level
# ~ 1 / sum ==> 1 / max

# %% wrong: gigabytes => values gigabytes  from: level by level
# ~ found.append(passed) ==> found.append(passed / 1e9)

# %% wrong: one number for all => values wrong-shape  from: as printed
# ~ [level["rate"] for level in levels] ==> 450e9

# %% half: the buffer is not there yet => 3.75  from: a sum of bandwidths
# ~ return sum(rates) ==> raise NotImplementedError

# %% wrong: six levels at most => generality -  from: level by level
# ~ in levels: ==> in levels[:6]:
