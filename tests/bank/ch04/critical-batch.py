import numpy as np


# %% right: a line in 1/B
def fit_hyperbola(batches, steps):
    slope, intercept = np.polyfit(1 / np.array(batches), steps, 1)
    return intercept, slope, slope / intercept


def largest_batch(min_steps, min_examples, extra):
    return extra * min_examples / min_steps, min_steps * (1 + 1 / extra)


# %% right: the two outermost runs
def fit_hyperbola(batches, steps):
    runs = sorted(zip(batches, steps))
    (b, s), (c, t) = runs[0], runs[-1]
    examples = (s - t) / (1 / b - 1 / c)
    least = t - examples / c
    return least, examples, examples / least


def largest_batch(min_steps, min_examples, extra):
    batch = extra * (min_examples / min_steps)
    return batch, (1 + extra) * min_examples / batch


# %% wrong: the best of the runs => values fewest-seen  from: a line in 1/B
# -     slope, intercept = np.polyfit(1 / np.array(batches), steps, 1)
# +     intercept, slope = min(steps), min(b * s for b, s in zip(batches, steps))

# %% wrong: a line in B => values line-in-batch  from: a line in 1/B
# ~ 1 / np ==> np

# %% wrong: slope and intercept exchanged => values examples  from: a line in 1/B
# ~ slope, intercept = ==> intercept, slope =

# %% wrong: steps over examples => values upside-down  from: a line in 1/B
# ~ slope / intercept ==> intercept / slope

# %% wrong: a power law => values -  from: a line in 1/B
# -     slope, intercept = np.polyfit(1 / np.array(batches), steps, 1)
# +     power, height = np.polyfit(np.log(batches), np.log(steps), 1)
# +     intercept, slope = np.exp(height), np.exp(height + power)

# %% wrong: the critical batch itself => values critical  from: a line in 1/B
# ~ extra * min_examples / min_steps, min_steps * (1 + 1 / extra) ==> min_examples / min_steps, min_steps * 2

# %% wrong: one plus extra => values plus-one  from: a line in 1/B
# ~ return extra * ==> return (1 + extra) *

# %% wrong: over the extra => values divided  from: a line in 1/B
# ~ extra * min_examples / min_steps ==> min_examples / min_steps / extra

# %% wrong: extra steps => values extra-steps  from: a line in 1/B
# ~ 1 / extra ==> extra

# %% wrong: the fewest examples at this batch => values fewest-examples  from: a line in 1/B
# ~ min_steps * (1 + 1 / extra) ==> min_steps / extra

# %% half: no choice of a batch => 2.4  from: a line in 1/B
# ~ return extra * min_examples / min_steps, min_steps * (1 + 1 / extra) ==> raise NotImplementedError

# %% wrong: left as it is => not-answered  from: a line in 1/B
# -     slope, intercept = np.polyfit(1 / np.array(batches), steps, 1)
# +     raise NotImplementedError

# %% wrong: the critical batch is among the runs => generality ~  from: a line in 1/B
# ~ slope, slope / intercept ==> slope, min(slope / intercept, max(batches))
