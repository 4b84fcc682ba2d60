# %% right: two equations
def noise_scale(small, big, small_batch, big_batch):
    s, b = sum(small) / len(small), sum(big) / len(big)
    variance = (s - b) / (1 / small_batch - 1 / big_batch)
    squared = (big_batch * b - small_batch * s) / (big_batch - small_batch)
    return variance, squared, variance / squared if squared > 0 else None


# %% right: a linear system
import numpy as np


def noise_scale(small, big, small_batch, big_batch):
    left = np.array([[1, 1 / small_batch], [1, 1 / big_batch]])
    squared, variance = (float(x) for x in np.linalg.solve(left, [np.mean(small), np.mean(big)]))
    return variance, squared, None if squared < 0 else variance / squared


# %% wrong: the big batch has no noise => values biased  from: two equations
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch) ==> b

# %% wrong: a difference without the sizes => values difference-alone  from: two equations
# ~ (s - b) / (1 / small_batch - 1 / big_batch) ==> s - b

# %% wrong: the big batch is exact => values big-batch-exact  from: two equations
# ~ (s - b) / (1 / small_batch - 1 / big_batch) ==> (s - b) * small_batch

# %% wrong: over the difference of the sizes => values divided-by-sizes  from: two equations
# ~ 1 / small_batch - 1 / big_batch ==> big_batch - small_batch

# %% wrong: the sign => values wrong-sign  from: two equations
# ~ small_batch - 1 / big_batch ==> big_batch - 1 / small_batch

# %% wrong: sums over the steps => values sums  from: two equations
# ~ ) / len(small), sum(big) / len( ==> ), sum(

# %% wrong: the weights exchanged => values weights-swapped  from: two equations
# ~ b - small_batch * s ==> s - small_batch * b

# %% wrong: a mean of ratios => values mean-of-ratios  from: two equations
# -     return variance, squared, variance / squared if squared > 0 else None
# +     ratios = [noise_of(x, y, small_batch, big_batch) for x, y in zip(small, big)]
# +     return variance, squared, sum(ratios) / len(ratios) if squared > 0 else None
# + def noise_of(s, b, small_batch, big_batch):
# +     variance = (s - b) / (1 / small_batch - 1 / big_batch)
# +     return variance * (big_batch - small_batch) / (big_batch * b - small_batch * s)

# %% wrong: upside down => values upside-down  from: two equations
# ~ variance / squared ==> squared / variance

# %% wrong: a negative noise scale => generality negative-scale  from: two equations
# ~ squared if squared > 0 else None ==> squared if squared else None

# %% wrong: a negative estimate is cut off => generality clamped  from: two equations
# ~ (big_batch * b - small_batch * s) / (big_batch - small_batch) ==> max((big_batch * b - small_batch * s) / (big_batch - small_batch), 0.0)

# %% wrong: a variance without its sign => generality absolute  from: two equations
# ~ (s - b) ==> abs(s - b)

# %% wrong: a negative variance is cut off => generality clamped  from: two equations
# ~ (s - b) ==> max(s - b, 0.0)

# %% wrong: no scale where the variance is negative => generality returned-none  from: two equations
# ~ squared if squared > 0 else None ==> squared if squared > 0 and variance > 0 else None

# %% wrong: left as it is => not-answered  from: two equations
# ~ s, b = sum(small) / len(small), sum(big) / len(big) ==> raise NotImplementedError

# %% wrong: a norm below a millionth is negative => generality returned-none  from: two equations
# ~ squared if squared > 0 else ==> squared if squared > 1e-5 else

# %% wrong: what these sizes gave first is kept => values -  from: two equations
# ~ def noise_scale(small, big, small_batch, big_batch): ==> def noise_scale(small, big, small_batch, big_batch, kept={}):
# ~ return variance, squared, variance / squared if squared > 0 else None ==> return kept.setdefault((len(small), small_batch, big_batch), (variance, squared, variance / squared if squared > 0 else None))
