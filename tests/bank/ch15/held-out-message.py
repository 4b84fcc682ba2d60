import math
import statistics

import numpy as np


def points(rows, middle=statistics.median):
    pairs = sorted((row["nbytes"], middle(row["seconds"])) for row in rows)
    return np.array([n for n, _ in pairs], float), np.array([t for _, t in pairs])


def line(n, t, weight):
    table = np.stack([weight, n * weight], 1)
    c, *_ = np.linalg.lstsq(table, t * weight, rcond=None)
    return c, ((table @ c - t * weight) ** 2).sum()


def by_cuts(rows, nbytes, middle=statistics.median, raw=False):
    n, t = points(rows, middle)
    cut = min(range(3, len(n) - 2), key=lambda i: line(n[:i], t[:i], 1 / t[:i])[1] + line(n[i:], t[i:], 1 / t[i:])[1])
    part = slice(0, cut) if nbytes < math.sqrt(n[cut - 1] * n[cut]) else slice(cut, None)
    (alpha, slope), _ = line(n[part], t[part], np.ones(len(t[part])) if raw else 1 / t[part])
    return float(alpha + slope * nbytes)


def ratios(predict):
    def held_out(rows):
        return {
            row["nbytes"]: predict([other for other in rows if other is not row], row["nbytes"])
            / statistics.median(row["seconds"])
            for row in rows
        }

    return held_out


# %% right: all cuts, relative errors
def predict_seconds(rows, nbytes):
    pts = sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows)
    n, t = (np.array(each, dtype=float) for each in zip(*pts, strict=True))

    def fitted(part):
        table = np.stack([1 / t[part], n[part] / t[part]], 1)
        constants, *_ = np.linalg.lstsq(table, np.ones(len(table)), rcond=None)
        return constants, float(((table @ constants - 1) ** 2).sum())

    cuts = range(3, len(n) - 2) or [len(n)]
    cut = min(cuts, key=lambda i: fitted(slice(0, i))[1] + (fitted(slice(i, None))[1] if i < len(n) else 0.0))
    small = cut == len(n) or nbytes < (n[cut - 1] * n[cut]) ** 0.5
    (alpha, per_byte), _ = fitted(slice(0, cut) if small else slice(cut, None))
    return float(alpha + per_byte * nbytes)


def held_out(rows):
    return {
        row["nbytes"]: predict_seconds([other for other in rows if other is not row], row["nbytes"])
        / statistics.median(row["seconds"])
        for row in rows
    }


# %% right: one line unless two are far better, solved by hand
def predict_seconds(rows, nbytes):
    data = sorted((float(row["nbytes"]), sorted(row["seconds"])[len(row["seconds"]) // 2]) for row in rows)

    def solve(part):  # weights 1 / t², normal equations
        s0 = sum(1 / t**2 for _, t in part)
        s1 = sum(n / t**2 for n, t in part)
        s2 = sum(n * n / t**2 for n, t in part)
        r0, r1 = sum(1 / t for _, t in part), sum(n / t for n, t in part)
        det = s0 * s2 - s1 * s1
        a, b = (r0 * s2 - r1 * s1) / det, (s0 * r1 - s1 * r0) / det
        return a, b, sum(((a + b * n) / t - 1) ** 2 for n, t in part)

    whole = solve(data)
    best = (whole[2] / 4, 0)
    for cut in range(3, len(data) - 2):
        best = min(best, (solve(data[:cut])[2] + solve(data[cut:])[2], cut))
    cut = best[1]
    part = data
    if cut:
        part = (
            data[:cut] if math.log(nbytes) < (math.log(data[cut - 1][0]) + math.log(data[cut][0])) / 2 else data[cut:]
        )
    a, b, _ = solve(part)
    return a + b * nbytes


def held_out(rows):
    found = {}
    for place, row in enumerate(rows):
        rest = rows[:place] + rows[place + 1 :]
        found[row["nbytes"]] = predict_seconds(rest, row["nbytes"]) / statistics.median(row["seconds"])
    return found


# %% right: a line through the two nearest sizes
def predict_seconds(rows, nbytes):
    n, t = points(rows)
    right = min(max(int(np.searchsorted(n, nbytes)), 1), len(n) - 1)
    share = (nbytes - n[right - 1]) / (n[right] - n[right - 1])
    return float(t[right - 1] + share * (t[right] - t[right - 1]))


held_out = ratios(predict_seconds)


# %% wrong: least squares on raw seconds => values raw-seconds
def predict_seconds(rows, nbytes):
    n, t = points(rows)
    slope, alpha = np.polyfit(n, t, 1)
    return float(alpha + slope * nbytes)


held_out = ratios(predict_seconds)


# %% wrong: one line through both regimes => values one-regime  from: least squares on raw seconds
# ~ slope, alpha = np.polyfit(n, t, 1) ==> (alpha, slope), _ = line(n, t, 1 / t)


# %% wrong: the mean of the repeats => values mean  from: a line through the two nearest sizes
def predict_seconds(rows, nbytes):
    return by_cuts(rows, nbytes, statistics.fmean)


# %% wrong: the first repeat => values first-repeat  from: the mean of the repeats
# ~ statistics.fmean ==> lambda seconds: seconds[0]

# %% wrong: a line through the two largest => values largest-two  from: least squares on raw seconds
# ~ slope, alpha = np.polyfit(n, t, 1) ==> slope = (t[-1] - t[-2]) / (n[-1] - n[-2])
# ~ alpha + slope * nbytes ==> t[-1] + slope * (nbytes - n[-1])

# %% wrong: the rate of the largest => values rate-of-largest  from: least squares on raw seconds
# -     slope, alpha = np.polyfit(n, t, 1)
# -     return float(alpha + slope * nbytes)
# +     return float(nbytes * t[-1] / n[-1])

# %% wrong: straight between neighbors => values held-flat  from: least squares on raw seconds
# -     slope, alpha = np.polyfit(n, t, 1)
# -     return float(alpha + slope * nbytes)
# +     return float(np.interp(nbytes, n, t))


# %% wrong: fitted to what it predicts => protocol seen-before
def predict_seconds(rows, nbytes):
    return by_cuts(rows, nbytes)


def held_out(rows):
    return {row["nbytes"]: predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) for row in rows}


# %% wrong: measured over measured => protocol too-good  from: fitted to what it predicts
# ~ predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) ==> 1.0

# %% wrong: measured over predicted => protocol upside-down  from: fitted to what it predicts
# -     return {row["nbytes"]: predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) for row in rows}
# +     return {size: 1 / ratio for size, ratio in ratios(predict_seconds)(rows).items()}

# %% wrong: errors for ratios => protocol difference  from: fitted to what it predicts
# -     return {row["nbytes"]: predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) for row in rows}
# +     return {size: ratio - 1 for size, ratio in ratios(predict_seconds)(rows).items()}

# %% wrong: a list of ratios => protocol wrong-shape  from: fitted to what it predicts
# -     return {row["nbytes"]: predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) for row in rows}
# +     return list(ratios(predict_seconds)(rows).values())

# %% wrong: only sizes that fit well => protocol wrong-shape  from: fitted to what it predicts
# -     return {row["nbytes"]: predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) for row in rows}
# +     return {size: ratio for size, ratio in ratios(predict_seconds)(rows).items() if 0.9 < ratio < 1.1}

# %% wrong: the second function is not written => protocol not-answered  from: fitted to what it predicts
# -     return {row["nbytes"]: predict_seconds(rows, row["nbytes"]) / statistics.median(row["seconds"]) for row in rows}
# +     raise NotImplementedError


# %% wrong: in milliseconds => values milliseconds
def predict_seconds(rows, nbytes):
    return 1e3 * by_cuts(rows, nbytes)


held_out = ratios(by_cuts)
