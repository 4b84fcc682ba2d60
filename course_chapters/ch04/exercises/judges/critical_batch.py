from collections.abc import Sequence

from course_grader.judging import Case, Judging, Params, Random, Worked, each_changed, log_uniform, plain, shown, unseen
from course_grader.judging.per_row import Column, shares, table

Runs = tuple[Sequence[float], Sequence[float]]
right = Worked("critical-batch")


def _runs_words(batches: Sequence[float], steps: Sequence[float]) -> str:
    return f"{len(batches)} runs at batches of {min(batches):,} to {max(batches):,}"


_extra = right.words(1, "at least {min_steps:,g} steps and {min_examples:,g} examples, extra {extra:g}")
UNITS = {"steps": "steps", "examples": "examples", "critical": "examples"}
FIT = [Column(part, unit, words=_runs_words) for part, unit in UNITS.items()]
CHOICE = [Column("batch", "examples", words=_extra), Column("at-batch", "steps", words=_extra)]


def _runs(rng: Random, count: int) -> Runs:
    least, critical = rng.randrange(20_000, 90_000), rng.choice((128, 300, 1000, 4000))
    batches = [round(critical * 2 ** (k - count / 2) * rng.uniform(0.9, 1.1)) + 1 for k in range(count)]
    rng.shuffle(batches)
    return batches, [round(least * (1 + critical / batch)) for batch in batches]


def _critical_cases(params: Params, rng: Random) -> list[Case]:
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
    verdicts=table(FIT, CHOICE, right=right),
    why="With E = n·U the hyperbola becomes U = U_min + E_min/n, which is linear in 1/n, so two runs determine it. At "
    "the critical batch both costs are twice their minimum. Time is steps, money is examples: a quarter more "
    "examples buys a quarter of the critical batch.",
    pytorch="No framework measures this. McCandlish et al. (2018) fit such curves; the noise scale predicts the "
    "critical batch from one run.",
)

ANSWERS = r'''# %% right: worked
def fit_hyperbola(batches: list[int], steps: list[int]) -> tuple[float, float, float]:
    """(fewest steps, fewest examples, critical batch) of the runs."""
    slope, intercept = np.polyfit(1 / np.array(batches, dtype=float), steps, 1)
    return float(intercept), float(slope), float(slope / intercept)


def largest_batch(min_steps: float, min_examples: float, extra: float) -> tuple[float, float]:
    """(batch, steps) of the largest batch that needs at most `extra` more examples."""
    return extra * min_examples / min_steps, min_steps * (1 + 1 / extra)
# %% right: the two outermost runs
# -     slope, intercept = np.polyfit(1 / np.array(batches, dtype=float), steps, 1)
# +     (b, s), (c, t) = min(zip(batches, steps)), max(zip(batches, steps))
# +     slope = (s - t) / (1 / b - 1 / c)
# +     intercept = t - slope / c
# ~ min_steps * (1 + 1 / extra) ==> (1 + extra) * min_steps / extra
# %% wrong: the best of the runs => values fewest-seen
# > this takes the fewest that were seen; the curve goes lower.
# -     slope, intercept = np.polyfit(1 / np.array(batches, dtype=float), steps, 1)
# +     intercept, slope = min(steps), min(b * s for b, s in zip(batches, steps))
# %% wrong: a line in B => values line-in-batch
# > this fits a line in n; the steps are a line in 1/n.
# ~ 1 / np ==> np
# %% wrong: slope and intercept exchanged => values examples
# > the fewest steps and the fewest examples are exchanged.
# ~ slope, intercept = ==> intercept, slope =
# %% wrong: steps over examples => values upside-down
# > this is steps over examples.
# ~ slope / intercept ==> intercept / slope
# %% wrong: a power law => values -
# -     slope, intercept = np.polyfit(1 / np.array(batches, dtype=float), steps, 1)
# +     power, height = np.polyfit(np.log(batches), np.log(steps), 1)
# +     intercept, slope = np.exp(height), np.exp(height + power)
# %% wrong: the critical batch itself => values critical
# > this is the critical batch: an extra of 1.
# ~ extra * min_examples / min_steps, min_steps * (1 + 1 / extra) ==> min_examples / min_steps, min_steps * 2
# %% wrong: one plus extra => values plus-one
# > E/E_min is 1 + n/n_crit; solve for n.
# ~ return extra * ==> return (1 + extra) *
# %% wrong: over the extra => values divided
# > a smaller extra needs a smaller batch.
# ~ extra * min_examples / min_steps ==> min_examples / min_steps / extra
# %% wrong: the batch of steps over examples => values upside-down
# ~ extra * min_examples / min_steps ==> extra * min_steps / min_examples
# %% wrong: extra steps => values extra-steps
# > the extra is of examples, not of steps.
# ~ 1 / extra ==> extra
# %% wrong: the fewest examples at this batch => values fewest-examples
# > this batch needs more than `min_examples`.
# ~ min_steps * (1 + 1 / extra) ==> min_steps / extra
# %% wrong: the fewest steps at this batch => values fewest
# > so few steps need an infinite batch.
# ~ min_steps * (1 + 1 / extra) ==> min_steps
# %% half: no choice of a batch => 2.4
# ~ return extra ==> raise NotImplementedError; extra
# %% wrong: the critical batch is among the runs => generality ~
# ~ float(slope / intercept) ==> min(float(slope / intercept), max(batches))
'''
