"""Judge of critical-batch: where a larger batch stops paying."""

import random
from collections.abc import Sequence

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, shares, table
from course_grader.judging.random_inputs import each_changed, log_uniform, plain, unseen
from course_grader.records import Case

Runs = tuple[Sequence[float], Sequence[float]]


def line(batches: Sequence[float], steps: Sequence[float], power: float = -1.0) -> tuple[float, float]:
    """(intercept, slope) of the line of least squares through steps against batch to a power."""
    at = [batch**power for batch in batches]
    x, y = sum(at) / len(at), sum(steps) / len(steps)
    slope = sum((a - x) * (s - y) for a, s in zip(at, steps, strict=True)) / sum((a - x) ** 2 for a in at)
    return y - slope * x, slope


def _fit_words(batches: Sequence[float], steps: Sequence[float]) -> str:
    return f"{len(batches)} runs at batches of {min(batches):,} to {max(batches):,}"


def _examples(batches: Sequence[float], steps: Sequence[float]) -> list[float]:
    return [batch * count for batch, count in zip(batches, steps, strict=True)]


STEPS = Column(
    part="steps",
    unit="steps",
    want=lambda *runs: line(*runs)[0],
    words=_fit_words,
    mistakes=(
        Mistake("fewest-seen", lambda b, s: min(s), "these are the fewest steps seen; the curve goes lower."),
        Mistake(
            "line-in-batch", lambda b, s: line(b, s, 1.0)[0], "this fits a line in n; the steps are a line in 1/n."
        ),
        Mistake("examples", lambda *runs: line(*runs)[1], "these are the fewest examples, not the fewest steps."),
    ),
)
EXAMPLES = Column(
    part="examples",
    unit="examples",
    want=lambda *runs: line(*runs)[1],
    words=_fit_words,
    mistakes=(
        Mistake("fewest-seen", lambda b, s: min(_examples(b, s)), "these are the fewest seen; the curve goes lower."),
        Mistake(
            "line-in-batch", lambda b, s: line(b, s, 1.0)[1], "this fits a line in n; the steps are a line in 1/n."
        ),
        Mistake("steps", lambda *runs: line(*runs)[0], "these are the fewest steps, not the fewest examples."),
    ),
)
CRITICAL = Column(
    part="critical",
    unit="examples",
    want=lambda *runs: line(*runs)[1] / line(*runs)[0],
    words=_fit_words,
    mistakes=(
        Mistake("upside-down", lambda *runs: line(*runs)[0] / line(*runs)[1], "this is steps over examples."),
        Mistake("of-the-seen", lambda b, s: min(_examples(b, s)) / min(s), "this divides what the best runs needed."),
    ),
)


def _batch_words(min_steps: float, min_examples: float, extra: float) -> str:
    return f"at least {min_steps:,g} steps and {min_examples:,g} examples, extra {extra:g}"


BATCH = Column(
    part="batch",
    unit="examples",
    want=lambda u, e, extra: extra * e / u,
    words=_batch_words,
    mistakes=(
        Mistake("critical", lambda u, e, extra: e / u, "this is the critical batch: an extra of 1."),
        Mistake("plus-one", lambda u, e, extra: (1 + extra) * e / u, "E/E_min is 1 + n/n_crit; solve for n."),
        Mistake("divided", lambda u, e, extra: e / u / extra, "a smaller extra needs a smaller batch."),
        Mistake("upside-down", lambda u, e, extra: extra * u / e, "this is steps over examples."),
    ),
)
AT_BATCH = Column(
    part="at-batch",
    unit="steps",
    want=lambda u, e, extra: u * (1 + 1 / extra),
    words=_batch_words,
    mistakes=(
        Mistake("extra-steps", lambda u, e, extra: u * (1 + extra), "the extra is of examples, not of steps."),
        Mistake("fewest-examples", lambda u, e, extra: u / extra, "this batch needs more than `min_examples`."),
        Mistake("fewest", lambda u, e, extra: u, "so few steps need an infinite batch."),
    ),
)


def _runs(rng: random.Random, count: int) -> Runs:
    least, critical = rng.randrange(20_000, 90_000), rng.choice((128, 300, 1000, 4000))
    batches = [round(critical * 2 ** (k - count / 2) * rng.uniform(0.9, 1.1)) + 1 for k in range(count)]
    rng.shuffle(batches)
    return batches, [round(least * (1 + critical / batch)) for batch in batches]


def _critical_cases(params: Params, rng: random.Random) -> list[Case]:
    chosen = [(log_uniform(rng, 1e3, 1e5), log_uniform(rng, 1e6, 1e9), extra) for extra in (0.05, 0.5, 1.0, 2.0, 4.0)]
    below = each_changed(([32, 64, 128], [16_512, 8512, 4512]), ([64, 128, 256], [33_024, 17_024, 9024]))
    return [
        shown(f"{params['runs']} runs", "values:steps", 0, [_runs(rng, params["runs"])]),
        shown(f"extra {params['extra']}", "values:batch", 1, [(10_000, 20_000_000, params["extra"])]),
        plain("steps", 0, "other runs", [_runs(rng, 5) for _ in range(3)]),
        plain("batch", 1, "other trade-offs", chosen[:2]),
        unseen(rng, "steps", 0, "two runs and seven", [*(_runs(rng, k) for k in (2, 3, 7)), *below]),
        unseen(rng, "batch", 1, "extras up to 8", [*chosen, *each_changed((500, 1e6, 8.0), (700, 3e6, 0.01))]),
    ]


JUDGING = Judging(
    shares=shares(
        steps=(0.1, 0.1), examples=(0.1, 0.1), critical=(0.1, 0.1), batch=(0.1, 0.1), **{"at-batch": (0.1, 0.1)}
    ),
    cases=_critical_cases,
    verdicts=table((STEPS, EXAMPLES, CRITICAL), (BATCH, AT_BATCH)),
    why="With E = n·U the hyperbola becomes U = U_min + E_min/n, which is linear in 1/n, so two runs determine it. At the critical batch both "
    "costs are twice their minimum. Time is steps, money is examples: a quarter more examples buys a quarter of the critical batch.",
    pytorch="No framework measures this. McCandlish et al. (2018) fit such curves; the noise scale predicts the critical batch from one run.",
)

ANSWERS = r"""import numpy as np


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
"""
