import math

import numpy as np

from course_lib.notebook import params

growth = params("scaling-fit").growth


# %% right: least squares of relative errors
def column(kind, n, fewest, law=growth):
    return 1 / n if kind == "strong" else np.log2(n / fewest) if law == "doublings" else (n - fewest) / 8


def fitted(rows, law=growth):
    n, batch, rate = (np.array([row[key] for row in rows]) for key in ("ranks", "batch_tokens", "tokens_per_s"))
    t = batch / n / rate
    kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
    table = np.stack([1 / t, column(kind, n, n.min(), law) / t], 1)
    constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
    return kind, constants, table @ constants - 1


def fit_scaling(rows):
    kind, constants, off = fitted(rows)
    return ("mixed",) if kind == "mixed" else (kind, *map(float, constants), np.abs(off).max())


def efficiency(rows, ranks):
    kind, (first, second), _ = fitted(rows)
    fewest = min(row["ranks"] for row in rows)
    few, many = (first + second * column(kind, n, fewest) for n in (fewest, ranks))
    if kind == "mixed":
        return None
    return few * fewest / (many * ranks) if kind == "strong" else few / many


# %% right: a weighted line, and lists  from: least squares of relative errors
# -     table = np.stack([1 / t, column(kind, n, n.min(), law) / t], 1)
# -     constants, *_ = np.linalg.lstsq(table, np.ones(len(t)))
# -     return kind, constants, table @ constants - 1
# +     x = column(kind, n, n.min(), law)
# +     second, first = np.polyfit(x, t, 1, w=1 / t)
# +     return kind, (first, second), (first + second * x) / t - 1
# ~ ("mixed",) if kind == "mixed" else (kind, *map(float, constants), np.abs(off).max()) ==> ["mixed"] if kind == "mixed" else [kind, *constants, np.abs(off).max()]

# %% wrong: raw seconds => values raw-seconds  from: least squares of relative errors
# ~ [1 / t, column(kind, n, n.min(), law) / t] ==> [np.ones_like(t), column(kind, n, n.min(), law)]
# ~ (table, np.ones(len(t))) ==> (table, t)
# ~ table @ constants - 1 ==> table @ constants / t - 1

# %% wrong: a line through the ends => values line-through-ends  from: least squares of relative errors
#       kind, constants, off = fitted(rows)
# +     _, constants, _ = fitted(sorted(rows, key=lambda row: row["ranks"])[:: len(rows) - 1])


# %% wrong: speeds are fitted => values speed-fitted  from: least squares of relative errors
def fit_scaling(rows):
    kind, ranks = fitted(rows)[0], np.array([row["ranks"] for row in rows])
    speeds = [row["tokens_per_s"] * row["ranks"] / row["batch_tokens"] for row in rows]
    slope, first = np.polyfit(column(kind, ranks, ranks.min()), speeds, 1)
    return ("mixed",) if kind == "mixed" else (kind, float(first), float(slope), 0.01)


# %% wrong: mixed rows are strong => values not-mixed  from: least squares of relative errors
# ~ ("mixed",) if kind == "mixed" else (kind, ==> ("strong" if kind == "mixed" else kind,

# %% wrong: everything is strong => values not-weak  from: least squares of relative errors
# ~ ("mixed",) if kind == "mixed" else (kind, ==> ("strong",

# %% wrong: the other law => values other-law  from: least squares of relative errors
# ~ off = fitted(rows) ==> off = fitted(rows, "servers" if growth == "doublings" else "doublings")

# %% wrong: the mean residual => values mean-residual  from: least squares of relative errors
# ~ np.abs(off).max ==> np.abs(off).mean

# %% wrong: the sum of squares => values sum-of-squares  from: least squares of relative errors
# ~ np.abs(off).max ==> (off**2).sum

# %% wrong: constants exchanged => values turned-round  from: least squares of relative errors
# ~ (float, constants) ==> (float, constants[::-1])

# %% wrong: how much faster all are => values speed-up  from: least squares of relative errors
# -     return few * fewest / (many * ranks) if kind == "strong" else few / many
# +     return few / many if kind == "strong" else few / many * ranks / fewest

# %% wrong: measured over measured, where there is => values measured  from: least squares of relative errors
#       fewest = min(row["ranks"] for row in rows)
# +     by_ranks = {row["ranks"]: row["tokens_per_s"] for row in rows}
# +     if ranks in by_ranks and fit_scaling(rows) != ("mixed",):
# +         return by_ranks[ranks] / by_ranks[fewest]

# %% wrong: against one GPU => values against-one  from: least squares of relative errors
# ~ for n in (fewest, ranks) ==> for n in (1, ranks)
# ~ few * fewest / (many * ranks) ==> few / (many * ranks)

# %% wrong: a number for mixed rows => values none-is-right  from: least squares of relative errors
# ~ return None ==> return 1.0

# %% wrong: the word alone => values wrong-shape  from: least squares of relative errors
# ~ ("mixed",) if kind == "mixed" else (kind, *map(float, constants), np.abs(off).max()) ==> kind

# %% wrong: the ends tell the experiment => generality not-mixed  from: least squares of relative errors
# -     kind = "strong" if np.ptp(batch) == 0 else "weak" if np.ptp(batch / n) == 0 else "mixed"
# +     ends = [n.argmin(), n.argmax()]
# +     kind = "strong" if np.ptp(batch[ends]) == 0 else "weak" if np.ptp((batch / n)[ends]) == 0 else "mixed"

# %% wrong: all ranks' tokens over one GPU's rate => values one-gpu-rate  from: least squares of relative errors
# ~ off = fitted(rows) ==> off = fitted([row | {"tokens_per_s": row["tokens_per_s"] / row["ranks"]} for row in rows])

# %% wrong: the residual as a share of the fit => values over-the-fit  from: least squares of relative errors
# ~ np.abs(off).max ==> np.abs(1 / (1 + off) - 1).max
