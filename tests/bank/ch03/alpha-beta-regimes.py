import math

import numpy as np

from course_lib import roofline


# %% right: every equation divided by its time
def fit_line(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    alpha, per_byte = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)[0]
    return alpha, 1 / per_byte


def switch_size(small, large):
    gain = 1 / small[1] - 1 / large[1]
    if gain <= 0:
        return math.inf
    return max(0.0, (large[0] - small[0]) / gain)


def best_bandwidth(nbytes, small, large):
    return nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large))


# %% right: both ends of the log, plain Python
def fit_line(sizes, seconds):
    ordered = sorted(zip(sizes, seconds))
    alpha = sum(t for _, t in ordered[:5]) / 5
    rates = [n / (t - alpha) for n, t in ordered[-4:]]
    return [alpha, sum(rates) / 4]


def switch_size(small, large):
    (a1, b1), (a2, b2) = small, large
    if b2 <= b1:
        return float("inf")
    if a2 <= a1:
        return 0.0
    return (a2 - a1) * b1 * b2 / (b2 - b1)


def best_bandwidth(nbytes, small, large):
    (a1, b1), (a2, b2) = small, large
    return max(nbytes / (a1 + nbytes / b1), nbytes / (a2 + nbytes / b2))


# %% wrong: raw seconds => values raw-seconds  from: every equation divided by its time
# ~ np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)[0] ==> np.polyfit(n, t, 1)[::-1]

# %% wrong: a mean of rates => values mean-rate  from: every equation divided by its time
# ~ return alpha, 1 / per_byte ==> return min(seconds), sum(n / t) / len(t)

# %% wrong: seconds per byte for bandwidth => values seconds-per-byte  from: every equation divided by its time
# ~ return alpha, 1 / per_byte ==> return alpha, per_byte


# %% wrong: the sign of the switch => values sign  from: every equation divided by its time
def switch_size(small, large):
    return (large[0] - small[0]) / (1 / large[1] - 1 / small[1])


# %% wrong: no way always wins => generality -  from: the sign of the switch
# ~ large[1] - 1 / small ==> small[1] - 1 / large

# %% wrong: rates subtracted => values difference-of-rates  from: the sign of the switch
# ~ / (1 / large[1] - 1 / small[1]) ==> * (large[1] - small[1])

# %% wrong: the bandwidth that was bought => values no-alpha  from: every equation divided by its time
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> max(small[1], large[1])

# %% wrong: always the second way => values second-only  from: every equation divided by its time
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> nbytes / (large[0] + nbytes / large[1])

# %% wrong: None for never => generality returned-none  from: every equation divided by its time
# ~ math.inf ==> None

# %% wrong: asks the library => raised  from: every equation divided by its time
# ~ return alpha, 1 / per_byte ==> return roofline.fit_alpha_beta(sizes, seconds)

# %% half: the line alone => 2.25  from: the sign of the switch
# ~ (large[0] - small[0]) / (1 / large[1] - 1 / small[1]) ==> 0.0
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> 0.0
