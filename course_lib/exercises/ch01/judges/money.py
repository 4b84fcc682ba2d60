"""Judges of what utilisation costs: money lost against a baseline, and the worth of one point of MFU."""

import random
from typing import Any

from course_lib.judging import Judging, Mistake, Params, describe
from course_lib.judging.draws import days_alone, log_uniform, plain, unseen
from course_lib.judging.old_columns import Column, columns, judge_column, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import HOUR, money_text, number_text


def money(spent_in: str, spent: float, price: float, mfu: float, baseline: float) -> tuple[float, float]:
    """(US dollars lost, extra work) against one baseline."""
    usd = spent if spent_in == "dollars" else spent * price
    return (usd * (1 - mfu / baseline), baseline / mfu - 1) if mfu < baseline else (0.0, 0.0)


def _money_words(spent: float, price: float, mfu: float, name: str, baseline: float) -> str:
    return f"{100 * mfu:g} % MFU against {name!r} ({100 * baseline:g} %)"


def _money_columns(spent_in: str) -> tuple[Column, Column]:
    dollars = spent_in == "dollars"

    def usd(spent: float, price: float) -> float:
        return spent if dollars else spent * price

    above = "at or above its baseline a run has lost nothing."
    return (
        Column(
            part="lost",
            unit="US dollars",
            words=_money_words,
            want=lambda s, p, m, name, b: money(spent_in, s, p, m, b)[0],
            slips=(
                Mistake("below-zero", lambda s, p, m, name, b: usd(s, p) * (1 - m / b) if m > b else None, above),
                Mistake(
                    "against-the-peak",
                    lambda s, p, m, name, b: usd(s, p) * (1 - m),
                    "this compares with 100 % of the peak, not with this baseline.",
                ),
                Mistake(
                    "points-for-share",
                    lambda s, p, m, name, b: usd(s, p) * (b - m),
                    "percentage points of MFU are not a share of the money; the same work is cheaper by a ratio.",
                ),
                Mistake(
                    "more-for-lost",
                    lambda s, p, m, name, b: usd(s, p) * (b / m - 1),
                    "this is the worth of the extra work, not what the same work would not have cost.",
                ),
                Mistake(
                    "price-once-too-often",
                    lambda s, p, m, name, b: usd(s, p) * (1 - m / b) * p,
                    "this is already in dollars before the price comes in.",
                ),
                Mistake(
                    "gpu-hours",
                    lambda s, p, m, name, b: usd(s, p) * (1 - m / b) / p,
                    "these are GPU-hours; the question is in dollars.",
                ),
                Mistake(
                    "what-is-left",
                    lambda s, p, m, name, b: usd(s, p) * m / b,
                    "this is what the work would have cost, not what was lost.",
                ),
            ),
        ),
        Column(
            part="more",
            unit="(a fraction)",
            words=_money_words,
            want=lambda s, p, m, name, b: money(spent_in, s, p, m, b)[1],
            slips=(
                Mistake("below-zero", lambda s, p, m, name, b: b / m - 1 if m > b else None, above),
                Mistake(
                    "lost-for-more",
                    lambda s, p, m, name, b: 1 - m / b,
                    "this is the share of the money that was lost. More work for the same money is another fraction.",
                ),
                Mistake(
                    "points-for-share", lambda s, p, m, name, b: b - m, "percentage points of MFU are not extra work."
                ),
                Mistake(
                    "percent",
                    lambda s, p, m, name, b: 100 * (b / m - 1),
                    "this is in per cent; give a fraction of one.",
                ),
                Mistake("ratio", lambda s, p, m, name, b: b / m, "this is all the work; how much *more* is it?"),
            ),
        ),
    )


def _waste_cases(params: Params, rng: random.Random) -> list[Case]:
    named = {"whole peak": 1.0, "achievable": params["achievable"], "promised": params["typical"]}
    in_dollars = params["spent_in"] == "dollars"
    others = []
    for count in (1, 2, 3, 4, 1, 3, 2, 5):
        names = rng.sample(("best run", "vendor", "last year", "PaLM", "the plan", "ours"), count)
        baselines = {name: round(rng.uniform(0.2, 0.99), 2) for name in names}
        spent = log_uniform(rng, 1e4, 1e9) / (1 if in_dollars else 2)
        others.append((spent, rng.choice((0.9, 1.5, 3.0, 4.25)), round(rng.uniform(0.15, 0.6), 3), baselines))
    others += [(1e6, 2.5, 0.4, {"same": 0.4}), (1e6, 2.5, 0.46, {"low": 0.38, "high": 0.5})]
    return [
        Case(name="the run", args=(0, [(params["spent"], params["usd_per_hour"], params["mfu"], named)])),
        plain(
            "",
            0,
            "two more runs",
            [
                (
                    log_uniform(rng, 1e5, 1e8) / (1 if in_dollars else 2),
                    rng.choice((1.5, 3.0)),
                    round(rng.uniform(0.2, 0.35), 3),
                    {"best run": round(rng.uniform(0.4, 0.6), 2), "the plan": round(rng.uniform(0.6, 0.9), 2)},
                )
                for _ in range(2)
            ],
        ),
        unseen(rng, "", 0, "other runs", others),
    ]


def _waste_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = table(outcome.value, case, "lost", case.kind)
    parts = [column.part for column in _money_columns(params["spent_in"])]

    def both(message: str, mistake: str) -> list[Verdict]:
        return [
            Verdict(kind=case.kind, part=part, ok=False, case=case.name, message=message, mistake=mistake)
            for part in parts
        ]

    if isinstance(got, Verdict):
        return both(got.message, got.mistake)
    flat: list[tuple[Any, ...]] = []
    values: list[Any] = []
    for row, answer in zip(case.args[1], got, strict=True):
        baselines = row[3]
        if type(answer) is not dict:
            return both(
                f"Return a dictionary from each baseline's name to a pair; got {describe(answer)}.", "no-dictionary"
            )
        if set(answer) != set(baselines):
            return both(
                f"The names must be those of `baselines`, {', '.join(map(repr, baselines))}; "
                f"got {describe(list(answer))}.",
                "baseline-not-named",
            )
        for name, baseline in baselines.items():
            if type(answer[name]) not in (tuple, list) or len(answer[name]) != 2:
                return both(f"{name!r}: give a pair (lost, more); got {describe(answer[name])}.", "wrong-shape")
            flat.append((*row[:3], name, baseline))
            values.append(answer[name])
    spread = Case(name=case.name, args=(0, flat))
    return [
        judge_column(column, spread, [value[place] for value in values], case.kind, inside=True)
        for place, column in enumerate(_money_columns(params["spent_in"]))
    ]


MFU_WASTE = Judging(
    shares={"values:lost": 0.25, "values:more": 0.2, "generality:lost": 0.3, "generality:more": 0.25},
    cases=_waste_cases,
    verdicts=_waste_verdicts,
    why="For the same work GPU-hours go as 1/MFU, so a run at the baseline would have cost mfu/baseline of this one: the "
    "loss is 1 − mfu/baseline of the money. For the same money, work goes as MFU: baseline/mfu − 1 more. The two fractions "
    "describe one fact and differ, and both change with the baseline, which is why a loss without one is no number. The "
    "price of an hour matters only if what was spent is given in hours.",
    pytorch="MFU is not in PyTorch itself; torchtitan logs it from tokens per second, model FLOPs per token and the peak.",
)


def run_cost(p: float, d: float, f: float, price: float, u: float) -> float:
    """US dollars of the GPU-hours of a run."""
    return days_alone(p, d, f, u) * 24 * price


def _point_column(asked: str) -> Column:
    def point(p: float, d: float, f: float, c: float, u: float) -> float:
        return run_cost(p, d, f, c, u) - run_cost(p, d, f, c, u + 0.01)

    def slope(p: float, d: float, f: float, c: float, u: float) -> float:
        return run_cost(p, d, f, c, u) / u / 100

    want, other = (point, slope) if asked == "point" else (slope, point)
    told = {
        "point": "this is the slope. A whole point along, the cost has bent; take the difference of two costs.",
        "slope": "this is the difference over a whole point, not the derivative.",
    }
    return Column(
        part="saved",
        unit="US dollars",
        want=want,
        words=lambda p, d, f, c, u: (
            f"{number_text(p)} parameters, {number_text(d)} tokens, {money_text(c)}/h, {100 * u:g} % MFU"
        ),
        slips=(
            Mistake("slope" if asked == "point" else "difference", other, told[asked]),
            Mistake("sign", lambda *row: -want(*row), "the sign is turned: a saving is positive."),
            Mistake(
                "per-unit", lambda *row: 100 * want(*row), "this is per whole unit of MFU; a point is a hundredth."
            ),
            Mistake(
                "per-unit", lambda *row: 100 * slope(*row), "this is per whole unit of MFU; a point is a hundredth."
            ),
            Mistake(
                "one-per-cent-of-cost",
                lambda *row: run_cost(*row) / 100,
                "one per cent of the cost: that is what one per cent *more* MFU saves, not one percentage point.",
            ),
            Mistake(
                "point-below",
                lambda p, d, f, c, u: run_cost(p, d, f, c, u - 0.01) - run_cost(p, d, f, c, u) if u > 0.01 else None,
                "that is the point below, which is worth more.",
            ),
            Mistake("the-cost", run_cost, "this is the whole cost of the run."),
            Mistake("seconds-as-hours", lambda *row: want(*row) * HOUR, "the price is per hour, the time in seconds."),
            Mistake("days-as-hours", lambda *row: want(*row) / 24, "the price is per hour, the time in days."),
            Mistake(
                "percent-of-cost",
                lambda *row: want(*row) / run_cost(*row),
                "this is a share of the cost; give dollars.",
            ),
        ),
    )


def _point_cases(params: Params, rng: random.Random) -> list[Case]:
    run = tuple(params[name] for name in ("params", "tokens", "flops", "usd_per_hour", "mfu"))
    others = [
        (
            log_uniform(rng, 1e8, 1e12),
            log_uniform(rng, 1e10, 3e13),
            rng.choice((312e12, 989e12, 2250e12)),
            rng.choice((0.8, 1.99, 2, 3.5, 12.0)),
            round(rng.uniform(0.05, 0.9), 3),
        )
        for _ in range(20)
    ]
    return [
        Case(name="the run", args=(0, [run]), part="saved"),
        plain(
            "saved",
            0,
            "three more runs",
            [
                (
                    log_uniform(rng, 1e9, 1e12),
                    log_uniform(rng, 1e11, 2e13),
                    rng.choice((312e12, 989e12)),
                    rng.choice((1.5, 3.0)),
                    round(rng.uniform(0.2, 0.5), 3),
                )
                for _ in range(3)
            ],
        ),
        unseen(rng, "saved", 0, "other runs", [*others, (1e9, 1e10, 989e12, 2.0, 0.02)]),
    ]


def _point_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return columns(_point_column(params["asked"]))(params, case, outcome)


COST_SENSITIVITY = Judging(
    shares={"values:saved": 0.4, "generality:saved": 0.6},
    cases=_point_cases,
    verdicts=_point_verdicts,
    why="Cost goes as 1/MFU and the number of GPUs cancels: half the GPUs for twice as long are the same GPU-hours. The slope "
    "is cost/MFU per unit, so a point is worth most where the MFU is low; one per cent more MFU is always worth one per cent "
    "of the cost (elasticity −1). A whole point is a little less than the slope says, because the curve bends.",
)
