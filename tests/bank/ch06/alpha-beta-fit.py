import numpy as np


def line(sizes, seconds, weight):
    rows = np.stack([weight, sizes * weight], 1)
    (alpha, beta), *_ = np.linalg.lstsq(rows, seconds * weight)
    return alpha, 1 / beta, ((rows @ [alpha, beta] - seconds * weight) ** 2).sum()


# %% right: relative least squares, every cut tried
def fit(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    best = None
    for cut in range(3, len(n) - 2):
        first, second = line(n[:cut], t[:cut], 1 / t[:cut]), line(n[cut:], t[cut:], 1 / t[cut:])
        error = first[2] + second[2]
        if best is None or error < best[0]:
            best = error, np.sqrt(n[cut - 1] * n[cut]), first[:2], second[:2]
    return best[1:]


# %% right: alternating: assign points to the quicker line, fit again; the switch where the lines cross
def fit(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    left = np.arange(len(n)) < len(n) // 2
    for _ in range(50):
        one, two = (line(n[part], t[part], 1 / t[part])[:2] for part in (left, ~left))
        now = one[0] + n / one[1] <= two[0] + n / two[1]
        if now.sum() < 3 or (~now).sum() < 3 or (now == left).all():
            break
        left = now
    switch = (two[0] - one[0]) / (1 / one[1] - 1 / two[1])
    return [float(switch), list(one), list(two)]


# %% wrong: least squares on raw seconds => values raw-seconds  from: relative least squares, every cut tried
# ~ 1 / t[:cut]), line(n[cut:], t[cut:], 1 / t[cut:] ==> np.ones(cut)), line(n[cut:], t[cut:], np.ones(len(n) - cut)
# ~ np.sqrt(n[cut - 1] * n[cut]) ==> n[cut]


# %% wrong: one line for all => values one-line
def fit(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    alpha, bandwidth, _ = line(n, t, 1 / t)
    return 1e5, (alpha, bandwidth), (alpha, bandwidth)


# %% wrong: latency from the smallest, bandwidth from the largest, no second way => values -
def fit(sizes, seconds):
    alpha, bandwidth = seconds[0], sizes[-1] / seconds[-1]
    return 1e6, (alpha, bandwidth), (alpha, bandwidth)


# %% wrong: slopes for bandwidths => values slope-for-bandwidth  from: relative least squares, every cut tried
# -             best = error, np.sqrt(n[cut - 1] * n[cut]), first[:2], second[:2]
# +             best = error, n[cut], (first[0], 1 / first[1]), (second[0], 1 / second[1])

# %% wrong: the ways the wrong way round => values lines-swapped  from: relative least squares, every cut tried
# ~ first[:2], second[:2] ==> second[:2], first[:2]

# %% wrong: the switch in MB => values wrong-switch  from: relative least squares, every cut tried
# ~ np.sqrt(n[cut - 1] * n[cut]) ==> n[cut] / 1e6

# %% wrong: the first link's constants for all => values bad-line
from course_lib import notebook

SHOWN = notebook.params("alpha-beta-fit")
CROSS = (SHOWN.alphas[1] - SHOWN.alphas[0]) / (1 / SHOWN.bandwidths[0] - 1 / SHOWN.bandwidths[1])


def fit(sizes, seconds):
    return CROSS, (SHOWN.alphas[0], SHOWN.bandwidths[0]), (SHOWN.alphas[1], SHOWN.bandwidths[1])


# %% wrong: four numbers in a row => values wrong-shape
def fit(sizes, seconds):
    return 5e-6, 4e9, 40e-6, 80e9
