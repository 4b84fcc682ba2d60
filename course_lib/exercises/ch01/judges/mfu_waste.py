"""Judge of mfu-waste: money lost, compared with what?"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_lib.exercises.returns import DictOf, Maybe, Number, TupleOf
from course_lib.judging import Judging, Mistake, Params, lost
from course_lib.judging.columns import Column, table
from course_lib.judging.draws import log_uniform, one_apart, plain, unseen
from course_lib.records import Case, Outcome, Verdict

_PAIR = TupleOf({"lost": Maybe(Number("US dollars")), "more": Maybe(Number())})
_ABOVE = "at or above its baseline a run has lost nothing."


def money(spent_in: str, spent: float, price: float, mfu: float, baseline: float) -> tuple[float, float]:
    """(US dollars lost, extra work) against one baseline."""
    usd = spent if spent_in == "dollars" else spent * price
    return (usd * (1 - mfu / baseline), baseline / mfu - 1) if mfu < baseline else (0.0, 0.0)


def _money_words(spent: float, price: float, mfu: float, name: str, baseline: float) -> str:
    return f"{100 * mfu:g} % MFU against {name!r} ({100 * baseline:g} %)"


def _money_columns(spent_in: str) -> tuple[Column, Column]:
    def on(value: Callable[[float, float, float], float]) -> Callable[..., float]:
        """A function of a row from one of the dollars spent, the MFU and the baseline."""
        return lambda s, p, m, name, b: value(s if spent_in == "dollars" else s * p, m, b)

    def against(place: int) -> Callable[..., float]:
        return lambda s, p, m, name, b: money(spent_in, s, p, m, b)[place]

    share = on(lambda usd, m, b: usd * (1 - m / b))  # lost, below zero above the baseline
    lost_mistakes = (
        Mistake("below-zero", share, _ABOVE),
        Mistake("against-the-peak", on(lambda usd, m, b: usd * (1 - m)), "this compares with 100 % of the peak."),
        Mistake(
            "points-for-share",
            on(lambda usd, m, b: usd * (b - m)),
            "percentage points of MFU are not a share of the money.",
        ),
        Mistake("more-for-lost", on(lambda usd, m, b: usd * (b / m - 1)), "this is the value of the extra work."),
        Mistake("price-once-too-often", lambda *row: share(*row) * row[1], "this multiplies dollars by a price."),
        Mistake("gpu-hours", lambda *row: share(*row) / row[1], "these are GPU-hours; give dollars."),
        Mistake("what-is-left", on(lambda usd, m, b: usd * m / b), "this is what the work would have cost."),
    )
    more_mistakes = (
        Mistake("below-zero", on(lambda usd, m, b: b / m - 1), _ABOVE),
        Mistake("lost-for-more", on(lambda usd, m, b: 1 - m / b), "this is the share of the money lost."),
        Mistake("points-for-share", on(lambda usd, m, b: b - m), "percentage points are not extra work."),
        Mistake("percent", on(lambda usd, m, b: 100 * (b / m - 1)), "this is a percentage; give a fraction."),
        Mistake("ratio", on(lambda usd, m, b: b / m), "this is the ratio; subtract 1 to get the *extra* work."),
    )
    return (
        Column(part="lost", unit="US dollars", words=_money_words, want=against(0), mistakes=lost_mistakes),
        Column(part="more", unit="(a fraction)", words=_money_words, want=against(1), mistakes=more_mistakes),
    )


def _waste_cases(params: Params, rng: random.Random) -> list[Case]:
    named = {"whole peak": 1.0, "achievable": params["achievable"], "promised": params["typical"]}
    in_dollars = params["spent_in"] == "dollars"
    others = []
    for count in (1, 2, 3, 4, 1, 3, 2, 20):
        names = [f"{rng.choice(('run', 'plan', 'größer'))} {rng.randrange(10**6)}" for _ in range(count)]
        baselines = {name: round(rng.uniform(0.2, 0.99), 2) for name in names}
        spent = log_uniform(rng, 1e4, 1e9) / (1 if in_dollars else 2)
        others.append((spent, rng.choice((0.9, 1.5, 3.0, 4.25)), round(rng.uniform(0.05, 0.6), 3), baselines))
    others += one_apart(others, lambda *row: [money(params["spent_in"], *row[:3], each) for each in row[3].values()])
    others += [(1e6, 2.5, 0.4, {"same": 0.4}), (1e6, 2.5, 0.46, {"low": 0.38, "high": 0.5}), (1e6, 2.5, 0.46, {})]
    others += [(1e6, 2.5, 0.46, {"low": 0.28, "high": 0.6})]
    usual = [
        (
            log_uniform(rng, 1e5, 1e8) / (1 if in_dollars else 2),
            rng.choice((1.5, 3.0)),
            round(rng.uniform(0.2, 0.35), 3),
            {"best run": round(rng.uniform(0.4, 0.6), 2), "the plan": round(rng.uniform(0.6, 0.9), 2)},
        )
        for _ in range(2)
    ]
    return [
        Case(name="the run", args=(0, [(params["spent"], params["usd_per_hour"], params["mfu"], named)])),
        plain("", 0, "two more runs", usual),
        unseen(rng, "", 0, "other runs", others),
    ]


def _waste_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """Each baseline of each run is judged as a row of its own: (spent, price, mfu, name, baseline)."""
    rows: list[tuple[Any, ...]] = []
    values: list[Any] = []
    for row, answer in zip(case.args[1], outcome.value, strict=True):
        baselines = row[3]
        if fault := DictOf(dict.fromkeys(baselines, _PAIR)).find(answer, case.name, case):
            return lost(case, JUDGING.shares, fault)
        rows += [(*row[:3], name, baseline) for name, baseline in baselines.items()]
        values += [answer[name] for name in baselines]
    columns = _money_columns(params["spent_in"])
    return list(table(columns)(params, replace(case, args=(0, rows)), replace(outcome, value=values)))


JUDGING = Judging(
    shares={"values:lost": 0.25, "values:more": 0.2, "generality:lost": 0.3, "generality:more": 0.25},
    cases=_waste_cases,
    verdicts=_waste_verdicts,
    why="For the same work, GPU-hours scale as 1/MFU, so a run at the baseline would have cost mfu/baseline of this one: the "
    "loss is 1 − mfu/baseline of the money. For the same money, work scales as MFU: baseline/mfu − 1 more. The two fractions "
    "differ, and both change with the baseline, so a loss without a baseline means nothing. The price of an hour matters only "
    "if the spending is given in hours.",
    pytorch="MFU is not in PyTorch itself; torchtitan logs it from tokens per second, model FLOPs per token and the peak.",
)

ANSWERS = r"""# %% right: plain
def money_lost(spent, usd_per_hour, mfu, baselines):
    return {name: (spent * max(0, 1 - mfu / best), max(0, best / mfu - 1)) for name, best in baselines.items()}


# %% right: any variant
from course_lib import params

IN_HOURS = params("mfu-waste").spent_in == "GPU-hours"


def money_lost(spent, usd_per_hour, mfu, baselines):
    usd = spent * usd_per_hour if IN_HOURS else spent
    return {name: (max(0, usd * (1 - mfu / b)), max(0, b / mfu - 1)) for name, b in baselines.items()}


# %% wrong: percentage points => values points-for-share  from: plain
# ~ 1 - mfu / best), ==> best - mfu),

# %% wrong: always against the peak => values against-the-peak  from: plain
# ~ mfu / best), max(0, best / mfu ==> mfu), max(0, 1 / mfu

# %% wrong: lost for more => values lost-for-more  from: plain
# ~ best / mfu - 1 ==> 1 - mfu / best

# %% wrong: more for lost => values more-for-lost  from: plain
# ~ 1 - mfu / best ==> best / mfu - 1

# %% wrong: the distractor bites => values price-once-too-often unless spent_in=GPU-hours  from: plain
# ~ spent * max ==> spent * usd_per_hour * max

# %% wrong: in per cent => values percent  from: plain
# ~ max(0, best / mfu ==> 100 * max(0, best / mfu


# %% wrong: one number without its baseline => values wrong-shape  from: plain
# ~ {name: (spent * max(0, 1 - mfu / best), max(0, best / mfu - 1)) for name, best in baselines.items()} ==> spent * (1 - mfu / 0.5), 0.5 / mfu - 1

# %% wrong: negative losses => generality below-zero  from: plain
# ~ max(0, 1 - mfu / best), max(0, best / mfu - 1)) ==> (1 - mfu / best), best / mfu - 1)


# %% wrong: the example by heart => values missing-part
def money_lost(spent, usd_per_hour, mfu, baselines):
    return {"whole peak": (6_500_000, 1.857143), "achievable": (3_000_000, 0.428571), "promised": (2_222_222, 0.285714)}


# %% half: only the money => 2.5  from: plain
# ~ max(0, best / mfu - 1)) ==> None)

# %% wrong: five baselines at most => generality -  from: plain
# ~ baselines.items() ==> list(baselines.items())[:5]
"""
