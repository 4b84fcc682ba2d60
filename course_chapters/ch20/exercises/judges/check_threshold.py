import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, table
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case

right = Worked("check-threshold")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    threshold, noise = params["threshold"], params["noise"]

    def drawn(count: int) -> list[tuple[float, ...]]:
        rows: list[tuple[float, ...]] = []
        for _ in range(count):
            weak, spread, repeats = rng.uniform(0.8, 0.97), rng.uniform(0.01, 0.05), rng.randrange(1, 9)
            rows.append((rng.uniform(weak, 1.0), weak, spread, repeats))
        return rows

    return [
        shown("one measurement", "values:rates", 0, [(threshold, 0.94, noise, 1)]),
        shown("a fleet", "values:share", 1, [(0.05, 0.95, 0.02)]),
        shown("1 % false alarms", "values:threshold", 2, [(0.01, noise, 1)]),
        plain("rates", 0, "other checks", [(0.95, 0.9, 0.02, 4), *drawn(4)]),
        plain("share", 1, "other fleets", [(0.01, 0.9, 0.3), (0.2, 0.99, 0.05), (0.04, 0.5, 0.01)]),
        plain("threshold", 2, "other limits", [(0.05, 0.03, 4), (0.001, 0.02, 2), (0.3, 0.01, 9)]),
        generality("rates", 0, "one number changes", each_changed((0.97, 0.94, 0.02, 2), (0.985, 0.9, 0.03, 5))),
        generality(
            "rates", 0, "at a mean, and outside both", [(1.0, 0.9, 0.04, 1), (0.9, 0.9, 0.04, 3), (1.04, 1.0, 0.05, 2)]
        ),
        generality("share", 1, "none or all weak, none rejected", [(0.1, 0.9, 0.0), (0.1, 0.9, 1.0), (0.0, 0.0, 0.1)]),
        generality("share", 1, "only weak or only healthy ones rejected", [(0.0, 0.7, 0.2), (0.3, 0.0, 0.2)]),
        generality("threshold", 2, "half, and nearly all", [(0.5, 0.03, 4), (0.9, 0.02, 3), (0.99, 0.05, 1)]),
        unseen(rng, "threshold", 2, "one number changes", each_changed((0.02, 0.02, 3), (0.1, 0.04, 8))),
    ]


def _rates(threshold: float, weak: float, noise: float, repeats: int) -> str:
    return f"threshold {threshold:.4g}, weak nodes at {weak:.4g}, noise {noise:.3g}, {repeats} measured"


JUDGING = Judging(
    shares={
        **dict.fromkeys(("values:alarms", "values:detection", "generality:alarms", "generality:detection"), 0.1),
        **dict.fromkeys(("values:share", "generality:share", "values:threshold", "generality:threshold"), 0.15),
    },
    cases=_cases,
    verdicts=table(
        [
            Column(part="alarms", unit="a fraction", want=lambda *row: right[0](*row)[0], words=_rates),
            Column(part="detection", unit="a fraction", want=lambda *row: right[0](*row)[1], words=_rates),
        ],
        Column(
            part="share",
            unit="a fraction",
            want=right[1],
            words=lambda alarms, detection, share: f"{alarms} false alarms, {detection} detection, {share} weak",
        ),
        Column(
            part="threshold",
            unit="a share",
            want=right[2],
            words=lambda most, noise, repeats: f"at most {most} of the healthy, noise {noise}, {repeats} measured",
            rel=1e-6,
        ),
    ),
    why="""Both rates follow from one threshold, so less of one means more of the other. Only a better measurement
improves both: the mean of n has 1/√n of the noise. And while weak nodes are rare, a rejected one is mostly healthy.""",
    pytorch="None: this is the arithmetic behind a limit in DCGM, in `nccl-tests` or in a burn-in script.",
)

ANSWERS = r'''from statistics import NormalDist


# %% right: worked
def rates(threshold: float, weak: float, noise: float, repeats: int) -> tuple[float, float]:
    """(false alarms, detection): the chances that a healthy and a weak node are rejected."""
    ### BEGIN SOLUTION
    healthy, sick = (NormalDist(mean, noise / repeats**0.5) for mean in (1.0, weak))
    return healthy.cdf(threshold), sick.cdf(threshold)
    ### END SOLUTION


def healthy_share(alarms: float, detection: float, share: float) -> float:
    """The share of the rejected nodes that are healthy."""
    ### BEGIN SOLUTION
    wrong = (1 - share) * alarms
    rejected = wrong + share * detection
    return wrong / rejected if rejected else 0.0
    ### END SOLUTION


def highest_threshold(most: float, noise: float, repeats: int) -> float:
    """The highest threshold with at most so many false alarms."""
    ### BEGIN SOLUTION
    return NormalDist(1.0, noise / repeats**0.5).inv_cdf(most)
    ### END SOLUTION

# %% right: by the error function, and by bisection
# ~ healthy, sick = (NormalDist(mean, noise / repeats**0.5) for mean in (1.0, weak))
# ~~ ==> import math; z = [(threshold - mean) / (noise / math.sqrt(repeats)) for mean in (1.0, weak)]
# ~ return healthy.cdf(threshold), sick.cdf(threshold)
# ~~ ==> return tuple(0.5 * math.erfc(-each / math.sqrt(2)) for each in z)
# ~ return NormalDist(1.0, noise / repeats**0.5).inv_cdf(most)
# ~~ ==> return 1 + noise / repeats**0.5 * NormalDist().inv_cdf(most)
# %% wrong: one measurement in the rates => values
# > this is the noise of one measurement; the mean of several has less.
# ~ (NormalDist(mean, noise / repeats**0.5) for ==> (NormalDist(mean, noise) for
# %% wrong: noise over n => values
# > the noise of a mean falls with the root of the number of measurements.
# ~ (NormalDist(mean, noise / repeats**0.5) for ==> (NormalDist(mean, noise / repeats) for
# %% wrong: above the threshold => values
# > these are the chances to pass; a node is rejected below the threshold.
# ~ return healthy.cdf(threshold), sick.cdf(threshold) ==> return 1 - healthy.cdf(threshold), 1 - sick.cdf(threshold)
# %% wrong: the pair in the other order => values
# > this is the other chance of the pair: false alarms come first.
# ~ return healthy.cdf(threshold), sick.cdf(threshold) ==> return sick.cdf(threshold), healthy.cdf(threshold)
# %% wrong: what passes among the weak => values
# > the second chance is that a weak node passes; detection is that it is rejected.
# ~ return healthy.cdf(threshold), sick.cdf(threshold) ==> return healthy.cdf(threshold), 1 - sick.cdf(threshold)
# %% wrong: the base rate is forgotten => values
# > this treats weak and healthy nodes as equally frequent.
# ~ wrong = (1 - share) * alarms ==> wrong = alarms
# ~ rejected = wrong + share * detection ==> rejected = wrong + detection
# %% wrong: false alarms of all nodes => values
# > this is a share of all nodes; divide by the rejected ones.
# ~ return wrong / rejected if rejected else 0.0 ==> return wrong
# %% wrong: weak among the rejected => values
# > this is the share of the rejected nodes that are weak.
# ~ return wrong / rejected if rejected else 0.0 ==> return 1 - wrong / rejected if rejected else 0.0
# %% wrong: zero over zero => generality raised
# ~ return wrong / rejected if rejected else 0.0 ==> return wrong / rejected
# %% wrong: the other side of the mean => values
# > this threshold lies on the other side of a healthy node's mean.
# ~ .inv_cdf(most) ==> .inv_cdf(1 - most)
# %% wrong: one measurement in the threshold => values
# > this allows for the noise of one measurement, although the mean of several is compared.
# ~ return NormalDist(1.0, noise / repeats**0.5).inv_cdf ==> return NormalDist(1.0, noise).inv_cdf
# %% wrong: three sigma => values
# > this is three standard deviations below the mean, whatever share is allowed.
# ~ return NormalDist(1.0, noise / repeats**0.5).inv_cdf(most) ==> return 1 - 3 * noise / repeats**0.5
# %% wrong: two sides => values
# > this counts half of the allowed false alarms above the mean, where no node is rejected.
# ~ .inv_cdf(most) ==> .inv_cdf(most / 2)
# %% wrong: left as it is => not-answered
# ~ healthy, sick ==> raise NotImplementedError; healthy, sick
'''
