import math

import numpy as np

from course_lib.notebook import params

growth = params("scaling-fit").growth


def arrays(rows):
    n = np.array([row["ranks"] for row in rows], float)
    batch = np.array([row["batch_tokens"] for row in rows], float)
    return n, batch, batch / n / np.array([row["tokens_per_s"] for row in rows])


def kind_of(rows):
    n, batch, _ = arrays(rows)
    return "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"


def column(kind, n, fewest, law=growth):
    return 1 / n if kind == "strong" else np.log2(n / fewest) if law == "doublings" else (n - fewest) / 8


def solved(rows, weight=lambda t: 1 / t, law=growth, kind=None):
    n, _, t = arrays(rows)
    table = np.stack([np.ones_like(t), column(kind or kind_of(rows), n, n.min(), law)], 1)
    w = weight(t)
    c, *_ = np.linalg.lstsq(table * w[:, None], t * w, rcond=None)
    return float(c[0]), float(c[1]), table @ c / t - 1


def fitted(rows, **how):
    kind = kind_of(rows)
    if kind == "mixed":
        return ("mixed",)
    first, second, off = solved(rows, **how)
    return kind, first, second, float(abs(off).max())


def efficient(rows, ranks, fit=None):
    kind, *constants = (fit or fitted)(rows)
    if kind == "mixed":
        return None
    fewest = float(min(row["ranks"] for row in rows))
    few, many = (constants[0] + constants[1] * float(column(kind, n, fewest)) for n in (fewest, float(ranks)))
    return few * fewest / (many * ranks) if kind == "strong" else few / many


# %% right: least squares of relative errors
def fit_scaling(rows):
    n = np.array([row["ranks"] for row in rows], dtype=float)
    batch = np.array([row["batch_tokens"] for row in rows], dtype=float)
    t = batch / n / np.array([row["tokens_per_s"] for row in rows])
    kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
    if kind == "mixed":
        return ("mixed",)
    x = 1 / n if kind == "strong" else np.log2(n / n.min()) if growth == "doublings" else (n - n.min()) / 8
    table = np.stack([1 / t, x / t], 1)
    constants, *_ = np.linalg.lstsq(table, np.ones(len(t)), rcond=None)
    return kind, *map(float, constants), float(np.abs(table @ constants - 1).max())


def efficiency(rows, ranks):
    kind, *constants = fit_scaling(rows)
    if kind == "mixed":
        return None
    fewest = min(row["ranks"] for row in rows)
    first, second, _ = constants
    if kind == "strong":
        return (first + second / fewest) * fewest / ((first + second / ranks) * ranks)
    more = math.log2(ranks / fewest) if growth == "doublings" else (ranks - fewest) / 8
    return first / (first + second * more)


# %% right: normal equations in plain Python
def fit_scaling(rows):
    batches = {row["batch_tokens"] for row in rows}
    shares = {row["batch_tokens"] // row["ranks"] for row in rows}
    if len(batches) > 1 and len(shares) > 1:
        return ["mixed"]
    kind, fewest = ("strong" if len(batches) == 1 else "weak"), min(row["ranks"] for row in rows)
    data = []
    for row in rows:
        n = row["ranks"]
        grown = math.log2(n / fewest) if growth == "doublings" else (n - fewest) / 8
        data.append((1 / n if kind == "strong" else grown, row["batch_tokens"] / (n * row["tokens_per_s"])))
    a = sum(1 / t**2 for x, t in data)
    b = sum(x / t**2 for x, t in data)
    c = sum(x * x / t**2 for x, t in data)
    p, q = sum(1 / t for x, t in data), sum(x / t for x, t in data)
    first, second = (p * c - q * b) / (a * c - b * b), (a * q - b * p) / (a * c - b * b)
    return [kind, first, second, max(abs((first + second * x) / t - 1) for x, t in data)]


def efficiency(rows, ranks):
    found = fit_scaling(rows)
    fewest = min(row["ranks"] for row in rows)

    def speed(n):  # of one GPU, over a constant
        if found[0] == "strong":
            return 1 / (n * (found[1] + found[2] / n))
        return 1 / (found[1] + found[2] * (math.log2(n / fewest) if growth == "doublings" else (n - fewest) / 8))

    return None if found[0] == "mixed" else speed(ranks) / speed(fewest)


# %% wrong: raw seconds => values raw-seconds
def fit_scaling(rows):
    return fitted(rows, weight=np.ones_like)


def efficiency(rows, ranks):
    return efficient(rows, ranks, fit_scaling)


# %% wrong: a line through the ends => values line-through-ends
def fit_scaling(rows):
    kind = kind_of(rows)
    if kind == "mixed":
        return ("mixed",)
    n, _, t = arrays(rows)
    low, high = n.argmin(), n.argmax()
    x = column(kind, n, n.min())
    slope = (t[high] - t[low]) / (x[high] - x[low])
    first = t[low] - slope * x[low]
    return kind, float(first), float(slope), float(abs((first + slope * x) / t - 1).max())


efficiency = efficient


# %% wrong: speeds are fitted => values speed-fitted  from: a line through the ends
# -     low, high = n.argmin(), n.argmax()
# -     x = column(kind, n, n.min())
# -     slope = (t[high] - t[low]) / (x[high] - x[low])
# -     first = t[low] - slope * x[low]
# -     return kind, float(first), float(slope), float(abs((first + slope * x) / t - 1).max())
# +     slope, first = np.polyfit(column(kind, n, n.min()), 1 / t, 1)
# +     return kind, float(first), float(slope), 0.01


# %% wrong: mixed rows are strong => values not-mixed
def fit_scaling(rows):
    kind = kind_of(rows)
    if kind != "mixed":
        return fitted(rows)
    first, second, off = solved(rows, kind="strong")
    return "strong", first, second, float(abs(off).max())


efficiency = efficient


# %% wrong: everything is strong => values not-weak  from: mixed rows are strong
# -     kind = kind_of(rows)
# -     if kind != "mixed":
# -         return fitted(rows)


# %% wrong: the other law => values other-law
def fit_scaling(rows):
    return fitted(rows, law="servers" if growth == "doublings" else "doublings")


efficiency = efficient


# %% wrong: the mean residual => values mean-residual  from: the other law
# -     return fitted(rows, law="servers" if growth == "doublings" else "doublings")
# +     if kind_of(rows) == "mixed":
# +         return ("mixed",)
# +     first, second, off = solved(rows)
# +     return kind_of(rows), first, second, float(abs(off).mean())

# %% wrong: the sum of squares => values sum-of-squares  from: the mean residual
# ~ abs(off).mean ==> (off**2).sum

# %% wrong: constants exchanged => values turned-round  from: the other law
# -     return fitted(rows, law="servers" if growth == "doublings" else "doublings")
# +     found = fitted(rows)
# +     return found if found[0] == "mixed" else (found[0], found[2], found[1], found[3])

# %% wrong: how much faster all are => values speed-up
fit_scaling = fitted


def efficiency(rows, ranks):
    found = efficient(rows, ranks)
    return found and found * ranks / min(row["ranks"] for row in rows)


# %% wrong: measured over measured, where there is => values measured  from: least squares of relative errors
#       fewest = min(row["ranks"] for row in rows)
# +     by_ranks = {row["ranks"]: row["tokens_per_s"] for row in rows}
# +     if ranks in by_ranks:
# +         return by_ranks[ranks] / by_ranks[fewest]

# %% wrong: against one GPU => values against-one  from: how much faster all are
# ~ found * ranks / min(row["ranks"] for row in rows) ==> found / efficient(rows, 1)

# %% wrong: a number for mixed rows => values none-is-right  from: how much faster all are
# ~ found and found * ranks / min(row["ranks"] for row in rows) ==> 1.0 if found is None else found

# %% wrong: the word alone => values wrong-shape  from: the other law
# ~ fitted(rows, law="servers" if growth == "doublings" else "doublings") ==> kind_of(rows)

# %% wrong: the ends tell the experiment => generality not-mixed  from: least squares of relative errors
# -     kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
# +     ends = [n.argmin(), n.argmax()]
# +     kind = "strong" if np.ptp(batch[ends]) == 0 else "weak" if np.ptp((batch / n)[ends]) == 0 else "mixed"

# %% wrong: all ranks' tokens over one GPU's rate => values one-gpu-rate  from: raw seconds
# ~ rows, weight=np.ones_like ==> [{**row, "tokens_per_s": row["tokens_per_s"] / row["ranks"]} for row in rows]
# ~ (rows, ranks, fit_scaling) ==> (rows, ranks)

# %% wrong: the residual as a share of the fit => values over-the-fit  from: the other law
# -     return fitted(rows, law="servers" if growth == "doublings" else "doublings")
# +     kind = kind_of(rows)
# +     if kind == "mixed":
# +         return ("mixed",)
# +     first, second, off = solved(rows)
# +     return kind, first, second, float(abs(1 / (1 + off) - 1).max())
