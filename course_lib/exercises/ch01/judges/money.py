"""Judges of what utilization costs: money lost against a baseline, and the worth of one point of MFU."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_lib.exercises.returns import DictOf, Maybe, Number, TupleOf
from course_lib.judging import Judging, Mistake, Params, lost
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, table
from course_lib.judging.draws import days_alone, draw_rows, log_uniform, logarithmic, one_apart, plain, rounded, unseen
from course_lib.judging.mistakes import scaled
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import HOUR, money_text, number_text

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
            return lost(case, MFU_WASTE.shares, fault)
        rows += [(*row[:3], name, baseline) for name, baseline in baselines.items()]
        values += [answer[name] for name in baselines]
    columns = _money_columns(params["spent_in"])
    return list(table(columns)(params, replace(case, args=(0, rows)), replace(outcome, value=values)))


MFU_WASTE = Judging(
    shares={"values:lost": 0.25, "values:more": 0.2, "generality:lost": 0.3, "generality:more": 0.25},
    cases=_waste_cases,
    verdicts=_waste_verdicts,
    why="For the same work, GPU-hours scale as 1/MFU, so a run at the baseline would have cost mfu/baseline of this one: the "
    "loss is 1 − mfu/baseline of the money. For the same money, work scales as MFU: baseline/mfu − 1 more. The two fractions "
    "differ, and both change with the baseline, so a loss without a baseline means nothing. The price of an hour matters only "
    "if the spending is given in hours.",
    pytorch="MFU is not in PyTorch itself; torchtitan logs it from tokens per second, model FLOPs per token and the peak.",
)


def run_cost(p: float, d: float, f: float, price: float, u: float) -> float:
    """US dollars of the GPU-hours of a run."""
    return days_alone(p, d, f, u) * 24 * price


def _point(p: float, d: float, f: float, c: float, u: float) -> float:
    """US dollars that the next percentage point of MFU saves."""
    return run_cost(p, d, f, c, u) - run_cost(p, d, f, c, u + 0.01)


def _slope(p: float, d: float, f: float, c: float, u: float) -> float:
    """Minus the derivative of the cost, in US dollars per percentage point of MFU."""
    return run_cost(p, d, f, c, u) / u / 100


def _point_words(p: float, d: float, f: float, c: float, u: float) -> str:
    return f"{number_text(p)} parameters, {number_text(d)} tokens, {money_text(c)}/h, {100 * u:g} % MFU"


def _point_column(asked: str) -> Column:
    want, other = (_point, _slope) if asked == "point" else (_slope, _point)
    mixed_up = {
        "point": Mistake("slope", other, "this is the slope; take the difference of two costs, a whole point apart."),
        "slope": Mistake("difference", other, "this is the difference over a whole point, not the derivative."),
    }
    whole_unit = "this is per whole unit of MFU; a point is a hundredth."
    mistakes = (
        mixed_up[asked],
        Mistake("sign", scaled(want, -1), "the sign is wrong: a saving is positive."),
        Mistake("per-unit", scaled(want, 100), whole_unit),
        Mistake("per-unit", scaled(_slope, 100), whole_unit),
        Mistake("one-per-cent-of-cost", scaled(run_cost, 0.01), "1 % *more* MFU saves this; a point is not 1 %."),
        Mistake("point-below", lambda *row: _point(*row[:4], row[4] - 0.01), "that is the point below `mfu`."),
        Mistake("the-cost", run_cost, "this is the whole cost of the run."),
        Mistake("seconds-as-hours", scaled(want, HOUR), "the price is per hour, the time in seconds."),
        Mistake("days-as-hours", scaled(want, 1 / 24), "the price is per hour, the time in days."),
        Mistake("percent-of-cost", lambda *row: want(*row) / run_cost(*row), "this is a share; give dollars."),
    )
    return Column(part="saved", unit="US dollars", want=want, words=_point_words, mistakes=mistakes)


def _point_cases(params: Params, rng: random.Random) -> list[Case]:
    run = tuple(params[name] for name in ("params", "tokens", "flops", "usd_per_hour", "mfu"))
    peaks = (312e12, 989e12, 2250e12)
    work = logarithmic(1e8, 1e12), logarithmic(1e10, 3e13)
    others = draw_rows(rng, 20, *work, peaks, (0.8, 1.99, 2, 3.5, 12.0), rounded(0.05, 0.9, 3))
    work = logarithmic(1e9, 1e12), logarithmic(1e11, 2e13)
    usual = draw_rows(rng, 3, *work, peaks[:2], (1.5, 3.0), rounded(0.2, 0.5, 3))
    ends = [(1e9, 1e10, 989e12, 2.0, 0.01235), (7e10, 1e12, 989e12, 2.0, 0.9), (3e6, 1e8, 312e12, 0.01, 0.3)]
    return [
        shown("the run", "values:saved", 0, [run]),
        plain("saved", 0, "three more runs", usual),
        unseen(rng, "saved", 0, "other runs", [*others, *one_apart(others, _point), *ends]),
    ]


COST_SENSITIVITY = Judging(
    shares={"values:saved": 0.4, "generality:saved": 0.6},
    cases=_point_cases,
    verdicts=lambda params, *given: table(_point_column(params["asked"]))(params, *given),
    why="Cost scales as 1/MFU and the number of GPUs cancels: half the GPUs for twice as long are the same GPU-hours. The "
    "slope is cost/MFU per unit, so a point is worth most where the MFU is low. One per cent more MFU always saves one per "
    "cent of the cost (elasticity −1). A whole point saves a little less than the slope says, because the curve flattens.",
)
