import math
import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, Series, shares, table
from course_grader.judging.random_inputs import each_changed, generality, plain
from course_grader.records import Case

right = Worked("off-policy")
Logs = list[float]


def _logs(rng: random.Random, count: int) -> Logs:
    return [-rng.uniform(0.1, 6) for _ in range(count)]


def _beside(rng: random.Random, logs: Logs, spread: float) -> Logs:
    return [min(each + rng.gauss(0, spread), -1e-3) for each in logs]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    cap, logs = params["cap"], [-0.5, -1.0, -2.0]
    generator = [-0.4, -1.0 - math.log(cap * 2), -2.0]
    edge = [each - math.log(cap) + sign * 1e-9 for each, sign in zip(logs, (1, -1, 0), strict=True)]
    nan, inf = math.nan, math.inf

    def row(
        spread: float, advantage: float, clip: float = 0.2
    ) -> tuple[list[float], list[float], list[float], float, float, float]:
        old = _logs(rng, 12)
        return _beside(rng, old, spread), old, _beside(rng, old, spread), advantage, clip, cap

    some = [row(0.3, 1.5), row(0.3, -0.7), row(0.6, 1.0, 0.1), row(0.6, -2.0, 0.4), row(0.05, 0.0)]
    apart = each_changed((*some[0][:3], 1.0, 0.2, cap), (*some[1][:3], -1.0, 0.05, cap / 4))
    changed = each_changed((logs, generator, cap), (some[0][1][:3], some[1][1][:3], cap / 4))
    single = ([-0.5], [-1.0], [-1.2])
    odd = ([-1.0, nan, -1.0, -inf, -2.0], [-1.2, -1.0, -inf, -inf, nan], [-1.1, -1.0, -inf, -3.0, -2.0])
    broken = [(*odd, advantage, 0.2, cap) for advantage in (1.0, -1.0)]
    halves = [-math.log(2), -math.log(2)], [-math.log(4), -math.log(2)]  # ratios of 2 and 1: edges of the clip 1
    far = [-0.1, -900.0], [-900.0, -0.1], [-0.1, -0.1]
    policies = [(each[0], each[1], each[3], each[4]) for each in [*some, *apart]]
    both = [(logs, generator, logs, sign, 0.2, cap) for sign in (1.0, -1.0)]
    distant = [([], [], [], 1.0, 0.2, cap), (*far, 1.0, 0.2, cap), (*far[:2], far[1], 0.0, 0.2, cap)]
    edges = [(*halves, 1.0, 1.0), (halves[1], halves[0], -1.0, 0.5), ([], [], 1.0, 0.2)]
    return [
        shown("three tokens", "values:weights", 0, [(logs, generator, cap)]),
        shown("a right and a wrong answer", "values:losses", 1, both),
        shown("a right answer", "values:clipped", 2, [(logs, generator, 1.0, 0.2)]),
        plain("weights", 0, "other tokens", [(each[1], each[2], cap) for each in some]),
        plain("weights", 0, "around the cap", [(logs, edge, cap), (logs, logs, 1.0)]),
        plain("weights", 0, "one token, and one argument changed", [(*single[:2], cap), *changed]),
        plain("losses", 1, "other tokens", [*some, *apart, (*single, 1.0, 0.2, cap)]),
        plain("clipped", 2, "other tokens", policies),
        plain("clipped", 2, "one token", [(*single[:2], sign, 0.2) for sign in (1.0, -1.0)]),
        generality("weights", 0, "no number", [(each[1], each[2], cap) for each in broken]),
        generality("weights", 0, "no tokens, an engine far away", [([], [], cap), (*far[:2], cap)]),
        generality("losses", 1, "no number", broken),
        generality("losses", 1, "no tokens, policies far apart", distant),
        generality("clipped", 2, "no number", [(each[0], each[1], each[3], each[4]) for each in broken]),
        generality("clipped", 2, "at an edge", edges),
        generality("clipped", 2, "far apart", [(*far[:2], sign, 0.2) for sign in (1.0, -1.0, 0.0)]),
    ]


def _tokens(logs: Logs, advantage: float | None = None) -> str:
    return f"{len(logs)} tokens" + ("" if advantage is None else f", advantage {advantage:g}")


JUDGING = Judging(
    shares=shares(weights=(0.2, 0.1), losses=(0.3, 0.1), clipped=(0.2, 0.1)),
    cases=_cases,
    verdicts=table(
        Series(part="weights", want=right[0], words=lambda *row: _tokens(row[0]), each="token", rel=1e-6),
        Series(part="losses", want=right[1], words=lambda *row: _tokens(row[0], row[3]), each="token", rel=1e-6),
        Column(part="clipped", unit="a count", want=right[2], words=lambda *row: _tokens(row[0], row[2])),
    ),
    why="""Between generator and `old` lies a change of program, between `old` and `new` lie updates. The clip is about
updates alone. One ratio of `new` to `generator`, clipped, would stop tokens that no update has moved. The weight has no
gradient. It has a cap, because one token that the generator thought improbable would otherwise outweigh a batch.
Masking instead of truncating drops such tokens, with a larger bias and less variance.""",
    pytorch="TRL: `vllm_importance_sampling_correction` and its cap; verl: `rollout_is`, at the level of tokens or of "
    "sequences, truncated or masked.",
)

ANSWERS = r'''import math

from course_lib import params


# %% right: worked
above = params("off-policy").above  # leave as is: "truncated" or "masked"


def engine_weights(old: list[float], generator: list[float], cap: float) -> list[float]:
    """The weight of each token, from the ratio of `old` to `generator`."""
    ### BEGIN SOLUTION
    found = []
    for each in map(ratio, old, generator):
        most = cap if above == "truncated" else 0.0
        found.append(0.0 if each != each else each if each <= cap else most)
    return found


def ratio(new: float, old: float) -> float:
    gap = new - old
    return gap if gap != gap else math.exp(gap) if gap < 700 else math.inf
    ### END SOLUTION


def losses(new: list, old: list, generator: list, advantage: float, clip: float, cap: float) -> list[float]:
    """The loss of each token: its weight times the clipped loss."""
    ### BEGIN SOLUTION
    found = []
    for weight, each in zip(engine_weights(old, generator, cap), map(ratio, new, old), strict=True):
        if each != each or weight == 0 or advantage == 0:
            found.append(0.0)
            continue
        inside = min(max(each, 1 - clip), 1 + clip)
        found.append(-weight * min(each * advantage, inside * advantage))
    return found
    ### END SOLUTION


def clipped(new: list[float], old: list[float], advantage: float, clip: float) -> int:
    """How many tokens have no gradient because of the clip."""
    ### BEGIN SOLUTION
    found = [each for each in map(ratio, new, old) if each == each]
    return sum(each > 1 + clip if advantage > 0 else advantage < 0 and each < 1 - clip for each in found)
    ### END SOLUTION

# %% right: case by case
# ~ most = cap if above == "truncated" else 0.0 ==> most = min(each, cap) * (above == "truncated")
# ~ math.exp(gap) if gap < 700 else math.inf ==> math.exp(min(gap, 600))
# ~ min(max(each, 1 - clip), 1 + clip) ==> min(each, 1 + clip) if advantage > 0 else max(each, 1 - clip)
# ~ -weight * min(each * advantage, inside * advantage) ==> -weight * advantage * inside
# ~ sum(each > 1 + clip if advantage > 0 else advantage < 0 and each < 1 - clip for each in found)
# ~~ ==> len([each for each in found if advantage * (each - 1) > abs(advantage) * clip])
# %% wrong: the other way round => values
# > the weight divides by the trainer's probability; the generator drew the token, so its probability is below.
# ~ map(ratio, old, generator) ==> map(ratio, generator, old)
# %% wrong: no cap => values
# > a weight above the cap stays as it is.
# ~ most = cap if above == "truncated" else 0.0 ==> most = each
# %% wrong: masked instead of truncated => values unless above=masked
# > a weight above the cap is 0 here; it must be the cap.
# ~ most = cap if above == "truncated" else 0.0 ==> most = 0.0
# %% wrong: truncated instead of masked => values unless above=truncated
# > a weight above the cap is the cap here; it must be 0.
# ~ most = cap if above == "truncated" else 0.0 ==> most = cap
# %% wrong: capped from below => values
# > weights below one are raised to one.
# ~ 0.0 if each != each else each if ==> 0.0 if each != each else max(each, 1.0) if
# %% wrong: a weight of one for no number => generality
# > a ratio that is no number counts as a weight of one.
# ~ 0.0 if each != each else each if ==> 1.0 if each != each else each if
# %% wrong: no weight => values
# > the losses are not multiplied by the weights between the engines.
# ~ found.append(-weight * min( ==> found.append(-min(
# %% wrong: one ratio for both => values
# > the clip acts on the ratio of `new` to `generator`; it belongs to the ratio of `new` to `old`.
# ~ engine_weights(old, generator, cap), map(ratio, new, old) ==> [1.0] * len(new), map(ratio, new, generator)
# %% wrong: never clipped => values
# > the ratio is not clipped.
# ~ inside = min(max(each, 1 - clip), 1 + clip) ==> inside = each
# %% wrong: always the clipped one => values
# > the clipped ratio is taken even where the unclipped one gives the smaller value.
# ~ min(each * advantage, inside * advantage) ==> inside * advantage
# %% wrong: the larger of the two => values
# > this takes the larger of the two products; PPO takes the smaller one.
# ~ -weight * min(each ==> -weight * max(each
# %% wrong: the ratio to the generator => values
# > the clipped ratio is that of `new` to `generator`; it is the ratio to `old`, and the weight corrects the rest.
# ~ map(ratio, new, old), strict=True): ==> map(ratio, new, generator), strict=True):
# %% wrong: a gain, not a loss => values
# > the sign is that of a gain; a loss is its negative.
# ~ found.append(-weight ==> found.append(weight
# %% wrong: a clip upward only => values
# > the ratio is not clipped below.
# ~ min(max(each, 1 - clip), 1 + clip) ==> min(each, 1 + clip)
# %% wrong: whatever is outside => values
# > this counts every ratio outside the clip; one that the minimum does not choose still has a gradient.
# ~ each > 1 + clip if advantage > 0 else advantage < 0 and each < 1 - clip ==> abs(each - 1) > clip
# %% wrong: the sides are swapped => values
# > the upper edge stops right answers, and the lower edge wrong ones; here it is the other way round.
# ~ if advantage > 0 else advantage < 0 and ==> if advantage < 0 else advantage > 0 and
# %% wrong: edges count as clipped => generality
# > a ratio that equals an edge of the clip still has a gradient.
# ~ sum(each > 1 + clip if advantage > 0 else advantage < 0 and each < 1 - clip for
# ~~ ==> sum(each >= 1 + clip if advantage > 0 else advantage < 0 and each <= 1 - clip for
# %% wrong: overflow => generality raised
# ~ math.exp(gap) if gap < 700 else math.inf ==> math.exp(gap)
'''
