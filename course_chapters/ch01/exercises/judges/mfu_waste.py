from collections.abc import Callable
from dataclasses import replace

from course_grader.exercises.result_schema import DictOf, Maybe, Number, TupleOf
from course_grader.judging import Case, Column, Judging, Outcome, Params, Random, Verdict, Worked, lost, table
from course_grader.judging.random_inputs import log_uniform, one_apart, plain, unseen

_PAIR = TupleOf({"lost": Maybe(Number("US dollars")), "more": Maybe(Number())})
right = Worked("mfu-waste")


def _want(place: int) -> Callable[..., float]:
    """The right loss, or the right extra work, of a row with one baseline."""
    return lambda s, p, m, name, b: right(s, p, m, {name: b})[name][place]


def _money_words(spent: float, price: float, mfu: float, name: str, baseline: float) -> str:
    return f"{100 * mfu:g} % MFU against {name!r} ({100 * baseline:g} %)"


_COLUMNS = (
    Column("lost", "US dollars", words=_money_words, want=_want(0)),
    Column("more", "(a fraction of one)", words=_money_words, want=_want(1)),
)


def _waste_cases(params: Params, rng: Random) -> list[Case]:
    named = {"whole peak": 1.0, "achievable": params["achievable"], "promised": params["typical"]}
    in_dollars = params["spent_in"] == "dollars"
    others = []
    for count in (1, 2, 3, 4, 1, 3, 2, 20):
        names = [f"{rng.choice(('run', 'plan', 'größer'))} {rng.randrange(10**6)}" for _ in range(count)]
        baselines = {name: round(rng.uniform(0.2, 0.99), 2) for name in names}
        spent = log_uniform(rng, 1e4, 1e9) / (1 if in_dollars else 2)
        others.append((spent, rng.choice((0.9, 1.5, 3.0, 4.25)), round(rng.uniform(0.05, 0.6), 3), baselines))
    others += one_apart(others, lambda *row: [*right(*row).values()])
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
    rows: list[tuple[object, ...]] = []
    values: list[object] = []
    for row, answer in zip(case.args[1], outcome.value, strict=True):
        baselines = row[3]
        if fault := DictOf(dict.fromkeys(baselines, _PAIR)).find(answer, case.name, case):
            return lost(case, JUDGING.split, fault)
        rows += [(*row[:3], name, baseline) for name, baseline in baselines.items()]
        values += [answer[name] for name in baselines]
    found = table(_COLUMNS)(params, replace(case, args=(0, rows)), replace(outcome, value=values))
    return [replace(each, where=(..., *each.where)) for each in found]  # in what came back, under some name


JUDGING = Judging(
    shares={"values:lost": 0.25, "values:more": 0.2, "generality:lost": 0.3, "generality:more": 0.25},
    cases=_waste_cases,
    verdicts=_waste_verdicts,
    why="For the same work, GPU-hours scale as 1/MFU, so a run at the baseline would have cost mfu/baseline of this "
    "one: the loss is 1 − mfu/baseline of the money. For the same money, work scales as MFU: baseline/mfu − 1 "
    "more. The two fractions differ, and both change with the baseline, so a loss without a baseline means "
    "nothing. The price of an hour matters only if the spending is given in hours.",
    pytorch="MFU is not in PyTorch itself; torchtitan logs it from tokens per second, model FLOPs per token "
    "and the peak.",
)

ANSWERS = r'''# %% right: worked
spent_in = params("mfu-waste").spent_in  # leave as is: "dollars" or "GPU-hours": what `spent` counts in your variant


def money_lost(spent: float, usd_per_hour: float, mfu: float, baselines: dict) -> dict:
    """For each baseline: (US dollars lost on the same work, extra work for the same money as a fraction)."""
    usd = spent if spent_in == "dollars" else spent * usd_per_hour
    better = {name: max(mfu, baseline) for name, baseline in baselines.items()}
    return {name: (usd * (1 - mfu / reach), reach / mfu - 1) for name, reach in better.items()}
# %% right: cut at zero
# ~ {name: max(mfu, baseline) for name, baseline in baselines.items()} ==> baselines
# ~ usd * (1 - mfu / reach), reach / mfu - 1 ==> max(0, usd * (1 - mfu / reach)), max(0, reach / mfu - 1)
# %% wrong: against the peak => values
# > this compares with 100 % of the peak.
# ~ mfu / reach), reach / mfu ==> mfu), 1 / mfu
# %% wrong: points for share => values
# > percentage points of MFU are neither a share of the money nor extra work.
# ~ 1 - mfu / reach), reach / mfu - 1 ==> reach - mfu), reach - mfu
# %% wrong: more for lost => values
# > this is the value of the extra work.
# ~ 1 - mfu / reach ==> reach / mfu - 1
# %% wrong: what is left => values
# > this is what the work would have cost.
# ~ 1 - mfu / reach ==> mfu / reach
# %% wrong: price once too often => values
# > `spent` counts {{spent_unit}}; only GPU-hours are multiplied by a price.
# ~ if spent_in == "dollars" else spent * usd_per_hour ==> * usd_per_hour if spent_in == "dollars" else spent
# %% wrong: lost for more => values
# > this is the share of the money lost.
# ~ reach / mfu - 1 ==> 1 - mfu / reach
# %% wrong: ratio => values
# > this is the ratio; subtract 1 to get the *extra* work.
# ~ reach / mfu - 1 ==> reach / mfu
# %% wrong: below zero => generality
# > at or above its baseline a run has lost nothing.
# ~ max(mfu, baseline) ==> baseline
# %% wrong: the sign dropped => generality
# > at or above its baseline a run has lost nothing, whatever the sign.
# ~ max(mfu, baseline) ==> baseline
# ~ usd * (1 - mfu / reach), reach / mfu - 1 ==> abs(usd * (1 - mfu / reach)), abs(reach / mfu - 1)
# %% wrong: one number without its baseline => values wrong-shape
# ~ {name: (usd * (1 - mfu / reach), reach / mfu - 1) for name, reach in better.items()}
# ~~ ==> usd * (1 - mfu / 0.5), 0.5 / mfu - 1
# %% wrong: the example by heart => values missing-part
# ~ better.items() ==> (("whole peak", 1.0), ("achievable", 0.5), ("promised", 0.45))
# %% half: only the money => 2.5
# ~ reach / mfu - 1) ==> None)
# %% wrong: five baselines at most => generality missing-part
# ~ better.items() ==> list(better.items())[:5]
'''
