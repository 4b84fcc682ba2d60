import math
import statistics

import numpy as np


# %% right: all cuts, relative errors
def points(rows):
    return np.array(sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows))


def fitted(pairs):
    n, t = pairs.T
    table = np.stack([1 / t, n / t], 1)
    constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
    return constants, ((table @ constants - 1) ** 2).sum()


def predict_seconds(rows, nbytes):
    pairs = points(rows)
    cut = min(range(3, len(pairs) - 2), key=lambda i: fitted(pairs[:i])[1] + fitted(pairs[i:])[1])
    border = (pairs[cut - 1, 0] * pairs[cut, 0]) ** 0.5
    (alpha, per_byte), _ = fitted(pairs[:cut] if nbytes < border else pairs[cut:])
    return alpha + per_byte * nbytes


def held_out(rows):
    found = {}
    for row in rows:
        rest = [other for other in rows if other is not row]
        found[row["nbytes"]] = predict_seconds(rest, row["nbytes"]) / statistics.median(row["seconds"])
    return found


# %% right: one line unless two are far better  from: all cuts, relative errors
def predict_seconds(rows, nbytes):
    pairs = points(rows)
    cuts = [(fitted(pairs[:cut])[1] + fitted(pairs[cut:])[1], cut) for cut in range(3, len(pairs) - 2)]
    error, cut = min(cuts)
    below = math.log(nbytes) < np.log(pairs[cut - 1 : cut + 1, 0]).mean()
    part = pairs if error > fitted(pairs)[1] / 4 else pairs[:cut] if below else pairs[cut:]
    return fitted(part)[0] @ [1, nbytes]


# %% right: a line through the two nearest sizes  from: all cuts, relative errors
def predict_seconds(rows, nbytes):
    n, t = points(rows).T
    right = min(max(int(np.searchsorted(n, nbytes)), 1), len(n) - 1)
    share = (nbytes - n[right - 1]) / (n[right] - n[right - 1])
    return float(t[right - 1] + share * (t[right] - t[right - 1]))


# %% wrong: least squares on raw seconds => values raw-seconds  from: all cuts, relative errors
def predict_seconds(rows, nbytes):
    n, t = points(rows).T
    slope, alpha = np.polyfit(n, t, 1)
    return float(alpha + slope * nbytes)


# %% wrong: one line through both regimes => values one-regime  from: least squares on raw seconds
# ~ slope, alpha = np.polyfit(n, t, 1) ==> (alpha, slope), _ = fitted(points(rows))

# %% wrong: the mean of the repeats => values mean  from: all cuts, relative errors
# ~ statistics.median(row["seconds"])) for ==> statistics.fmean(row["seconds"])) for

# %% wrong: the first repeat => values first-repeat  from: all cuts, relative errors
# ~ statistics.median(row["seconds"])) for ==> row["seconds"][0]) for

# %% wrong: a line through the two largest => values largest-two  from: least squares on raw seconds
# ~ (n, t, 1) ==> (n[-2:], t[-2:], 1)

# %% wrong: the rate of the largest => values rate-of-largest  from: least squares on raw seconds
# ~ alpha + slope * nbytes ==> nbytes * t[-1] / n[-1]

# %% wrong: straight between neighbors => values held-flat  from: least squares on raw seconds
# ~ alpha + slope * nbytes ==> np.interp(nbytes, n, t)

# %% wrong: fitted to what it predicts => protocol seen-before  from: all cuts, relative errors
# ~ [other for other in rows if other is not row] ==> rows

# %% wrong: measured over measured => protocol too-good  from: all cuts, relative errors
# ~ predict_seconds(rest, row["nbytes"]) / statistics.median(row["seconds"]) ==> 1.0

# %% wrong: measured over predicted => protocol upside-down  from: all cuts, relative errors
# ~ return found ==> return {size: 1 / ratio for size, ratio in found.items()}

# %% wrong: errors for ratios => protocol difference  from: all cuts, relative errors
# ~ return found ==> return {size: ratio - 1 for size, ratio in found.items()}

# %% wrong: only sizes that fit well => protocol wrong-shape  from: all cuts, relative errors
# ~ return found ==> return {size: ratio for size, ratio in found.items() if 0.9 < ratio < 1.1}

# %% wrong: the second function is not written => protocol not-answered  from: all cuts, relative errors
# ~ return found ==> raise NotImplementedError

# %% wrong: in milliseconds => values milliseconds  from: all cuts, relative errors
# ~ alpha + per_byte * nbytes ==> 1e3 * (alpha + per_byte * nbytes)
# ~ = predict_seconds(rest ==> = 1e-3 * predict_seconds(rest
