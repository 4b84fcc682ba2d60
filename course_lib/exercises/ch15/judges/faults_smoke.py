"""Judges of chapter 15's trainings: whether one is sound, and what its norms and rates show."""

import copy
import math
import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, variance
from typing import Any

from course_lib.exercises.ch15.judges import faults_trainings as trainings
from course_lib.exercises.ch15.judges.faults_trainings import RESUMED, SEEDS, SMOKE, TRACES, shipped
from course_lib.judging import Fault, Judging, Params, describe, first, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.diagnoses import diagnosis_fault, numbered
from course_lib.judging.draws import generality
from course_lib.records import Case, Outcome, Verdict

RESUMING = ("resumed well", "warm-up again", "one step back", "one step ahead", "four times a step")
SMOKE_SHOWN = ("sound", "leak", "unseeded")
TRACES_SHOWN = ("sound", "bad batch", "warm-up again", "always clipped")

SMOKE_LOOK: Mapping[str, str] = {
    "sound": "It is repeatable, all of it moves, and fresh text improves, though not below the floor.",
    "explodes": "Look at every training loss, not only at the last.",
    "not repeatable": "Compare everything that the two runs return, without rounding.",
    "frozen": "Look at what moved, parameter by parameter.",
    "leak": "Compare the losses of fresh text with `floor`: how could a model know so much?",
    "memorizes": "Compare what happened to the training loss with what happened to fresh text.",
    "learns nothing": "Is the difference of `before` and `after` larger than the noise?",
}
TRACE_LOOK: Mapping[str, str] = {
    "warm-up again": "The rates differ from the plan after the resume. Which steps of the plan have these rates?",
    "one step off": "The rates differ little from the plan. Compare each with the plan's neighbors.",
    "stepped too often": "The rates run further and further ahead of the plan. Where in the plan is each?",
    "vanishes": "Compare the norms with the limit.",
    "explodes": "Compare the largest norm with the first.",
    "not zeroed": "Compare the last norms with the first, and look at how they grew.",
    "bad batch": "Compare the largest norm with the median: how many steps are like it?",
    "always clipped": "Compare the smallest norm with the limit.",
    "sound": "The rates are as planned, and some norms above the limit are normal.",
}

Training = dict[str, Any]
Trace = dict[str, Any]
Program = tuple[list[Training], float, str]  # the results of two runs, the floor, and the word for them


def last_bit(run: Training, name: str, key: Any) -> list[Training]:
    again = copy.deepcopy(run)
    again[name][key] = math.nextafter(again[name][key], math.inf)
    return [run, again]


def shifted(run: Training, mean: float) -> Training:
    """The run with the losses of fresh text, after it, moved to another mean."""
    return {**run, "after": [each + (mean - fmean(run["after"])) for each in run["after"]]}


def moved_programs(kept: Callable[[str], list[Training]], floor: float, rng: random.Random) -> list[Program]:
    """Two faults at once, and numbers close to the limit of a word; `kept` gives a fault's shipped runs."""
    faults = ("sound", "leak", "frozen block", "explodes", "one batch")
    sound, leak, frozen, explodes, noted = (kept(fault)[0] for fault in faults)
    some, start, count = rng.choice(sorted(sound["moved"])), sound["losses"][0], len(sound["losses"])
    noise = 3 * math.sqrt((variance(sound["before"]) + variance(sound["after"])) / len(sound["after"]))
    known = shifted(sound, floor - 3 * noise)["after"]
    barely = {"losses": [start * (1 - 0.4 * step / (count - 1)) for step in range(count)]}  # they do not fall to half

    def better_by(share: float) -> Training:
        """Fresh text is predicted better than before by this share of the noise."""
        return shifted(sound, fmean(sound["before"]) - share * noise)

    made = [
        (last_bit(sound, "losses", rng.randrange(5, 30)), "not repeatable"),
        (last_bit(sound, "after", rng.randrange(8)), "not repeatable"),
        (last_bit(sound, "before", rng.randrange(8)), "not repeatable"),
        (last_bit(sound, "moved", some), "not repeatable"),
        ([{**sound, "moved": {**sound["moved"], some: 1e-12}}] * 2, "sound"),
        (last_bit(frozen, "after", 2), "not repeatable"),
        (last_bit(explodes, "losses", 1), "explodes"),
        ([{**leak, "moved": {**leak["moved"], some: 0.0}}] * 2, "frozen"),
        ([{**noted, "before": known, "after": known}] * 2, "leak"),
        ([shifted(sound, floor - 0.8 * noise)] * 2, "sound"),
        ([better_by(1.03)] * 2, "sound"),
        ([better_by(0.97) | barely] * 2, "learns nothing"),  # sound by the variance of a population
        ([better_by(0.6) | barely] * 2, "learns nothing"),
    ]
    return [(runs, floor, word) for runs, word in made]


def programs_at_limits(run: Training) -> list[Program]:
    """Exactly at a limit, and just beyond it. Every number is a binary fraction, so no sum is rounded."""
    unit, floor = 2.0**-6, 1.5
    spread = [unit * each for each in (-1.5, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.5)]  # its sample variance is unit ** 2
    noise = 1.5 * unit  # of two such sets
    low, middle, high = ([mean + each for each in spread] for mean in (floor - noise, floor, floor + 1))
    halved = [4.0] * (len(run["losses"]) - 1) + [2.0]
    better, same = {**run, "before": high, "after": low}, {**run, "before": middle, "after": low}
    made = [
        (better, [4.0, 8.0, *halved[2:]], "sound"),
        (same, halved, "learns nothing"),
        (same, [4.0, 3.5, *halved[3:], 1.0, 2.0], "learns nothing"),
        (same, [4.0, 3.5, *halved[2:-1], 1.875], "memorizes"),
        (same, [4.0, 8.5, *halved[2:]], "explodes"),
        (better, [4.0, -math.inf, *halved[2:]], "explodes"),
    ]
    return [([{**run, "losses": losses}] * 2, floor, word) for run, losses, word in made]


def scaled(trace: Trace, by: float) -> Trace:
    """The same training with its loss multiplied: norms and the limit grow together, and no ratio changes."""
    return {**trace, "norms": [by * each for each in trace["norms"]], "limit": by * trace["limit"]}


def _one_norm(trace: Trace, place: int, norm: float) -> Trace:
    return {**trace, "norms": [norm if step == place else each for step, each in enumerate(trace["norms"])]}


def moved_traces(kept: Callable[[str], Trace], rng: random.Random) -> list[tuple[Trace, str]]:
    """Traces made of shipped ones: two faults at once, and norms close to the limit of a word."""
    sound, bad = kept("sound"), kept("bad batch")
    norms = sound["norms"]
    usual, middle, last = median(norms), len(norms) // 2, len(norms) - 1
    wrong = kept(rng.choice(("twice a step", "warm-up again")))
    why = "warm-up again" if wrong["resumed"] is not None else "stepped too often"
    # norms that grow from the first step, and fastest at the end: the last ones are also far above the median
    sums = {**sound, "norms": [norms[0] * (1 + 60 * (step / last) ** 3) for step in range(last + 1)]}
    ones, twos = ({**sound, "norms": [1.0, *[each] * last]} for each in (1.0, 2.0))
    tens = [1.0, *[4.0] * (last - len(norms) // 4), *[10.0] * (len(norms) // 4)]
    above = [1.0, *[4.0] * (last - 5), 10.5, 10.5, 10.5, 4.0, 4.0]
    one_below = _one_norm(sound, middle, 0.9 * min(norms))  # all other steps are clipped
    return [
        ({**wrong, "norms": bad["norms"]}, why),
        ({**wrong, "norms": [1e-5 * wrong["limit"]] * len(norms)}, why),
        ({**bad, "limit": 0.5 * min(bad["norms"])}, "bad batch"),
        (_one_norm(sound, middle, 5.3 * usual), "bad batch"),  # not above five times the mean, of which it is a part
        (_one_norm(sound, 0, max(norms) / 6), "sound"),
        ({**sound, "limit": sorted(norms)[2]}, "sound"),  # the median step is clipped, and not all are
        (_one_norm(sound, middle, 150 * norms[0]), "explodes"),  # and comes back
        (_one_norm(sound, last, 1e-4 * sound["limit"]), "sound"),  # one norm is small, not every one
        ({**one_below, "limit": 0.95 * min(norms)}, "sound"),
        (sums, "not zeroed"),
        ({**sums, "limit": 0.5 * norms[0]}, "not zeroed"),
        (_one_norm(sums, middle, 150 * norms[0]), "explodes"),
        (_one_norm(sound, middle, math.nan), "explodes"),
        ({**sound, "limit": min(norms)}, "sound"),
        ({**ones, "limit": 1000.0}, "sound"),  # exactly a thousandth
        ({**ones, "limit": 1 - 2**-30}, "always clipped"),
        ({**_one_norm(ones, middle, 4.0), "limit": 2000.0}, "sound"),  # one norm is not small
        (_one_norm(ones, middle, 100.0), "bad batch"),  # exactly a hundred times the first
        (_one_norm(ones, middle, 5.0), "sound"),  # exactly five times the median
        ({**ones, "norms": tens}, "sound"),  # exactly ten times the first
        ({**ones, "norms": above}, "not zeroed"),  # just above it, in the median of the last five
        (_one_norm(twos, middle, 100.5), "explodes"),
        (scaled(sound, 512.0), "sound"),
        (scaled(sound, 2.0**-12), "sound"),
    ]


def close_rates() -> list[tuple[list[float], list[float]]]:
    """(rates, planned) that differ by little or at an end of the run, among them such small rates as large models have."""
    small, exact = [1e-9 * step for step in range(1, 7)], [float(step) for step in range(1, 6)]
    made = (
        small,
        [*small[:3], small[3] * 1.001, *small[4:]],
        [*small[:4], small[4] * (1 + 1.2e-6), small[5]],
        [small[0], small[1] * (1 + 8e-7), *small[2:]],
        exact,
        [*exact[:4], 5.1],
        [1.1, *exact[1:]],
        [value * (1 + 1e-9) for value in exact],
        [1.0, 2.0001, *exact[2:]],
    )
    zero = [([first, 1.0], [0.0, 1.0]) for first in (0.0, 1e-5)]
    return zero + [(rates, small if len(rates) == len(small) else exact) for rates in made]


# --- the smoke test


def _smoke_cases(params: Params, rng: random.Random) -> list[Case]:
    pool, others = params["pool"], [seed for seed in SEEDS if seed != params["pool"]]
    kept, floors = shipped()["smoke"], shipped()["floors"]

    def program(fault: str, seed: int) -> Program:
        return kept[f"{fault}/{seed}"], floors[seed], SMOKE[fault]  # one run stands for two that are equal

    example = [program(fault, pool) for fault in SMOKE_SHOWN]
    drawn = [(fault, rng.choice(others)) for fault in SMOKE if fault != "explodes"]
    drawn += [("explodes", seed) for seed in others]  # one of them ends where it began
    unseen = [program(*each) for each in rng.sample(drawn, len(drawn))]
    seed = rng.choice(others)
    moved = moved_programs(lambda fault: kept[f"{fault}/{seed}"], floors[seed], rng)
    at_limits = programs_at_limits(kept[f"sound/{seed}"][0])
    return [
        *numbered(shown, "program {}", "values:shown", example),
        *numbered(hidden, "another program ({})", "generality:unseen", unseen),
        *numbered(hidden, "a program with numbers moved ({})", "generality:unseen", moved),
        *numbered(hidden, "a program at a limit ({})", "generality:unseen", at_limits),
    ]


def _smoke_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    word, runs = outcome.value["word"], outcome.value["runs"]
    dear = "too-many-runs", f"{case.name}: you ran one program {runs} times; two runs are enough."
    fault = diagnosis_fault(case.name, word, case.secret, "sound", SMOKE_LOOK)
    return judged(case, fault, ("cost", "runs", dear if runs > 2 else None))


# --- traces


def trace_of(fault: str, seed: int) -> dict[str, Any]:
    plan = trainings.planned(fault)
    return {
        **shipped()["traces"][f"{fault}/{seed}"],
        "rates": [trainings.rate_of(fault, seed, step) for step in range(len(plan))],
        "planned": plan,
        "limit": trainings.limit_of(fault),
        "resumed": RESUMED[seed] if fault in RESUMING else None,
    }


def wrong_step(rates: Sequence[float], plan: Sequence[float]) -> int | None:
    pairs = enumerate(zip(rates, plan, strict=True))
    return next((step for step, (rate, meant) in pairs if abs(rate - meant) > 1e-6 * abs(meant)), None)


def _rates(seed: int, faults: Sequence[str]) -> list[tuple[list[float], list[float]]]:
    return [(found["rates"], found["planned"]) for found in (trace_of(fault, seed) for fault in faults)]


def _trace_cases(params: Params, rng: random.Random) -> list[Case]:
    pool, others = params["pool"], [seed for seed in SEEDS if seed != params["pool"]]
    example = _rates(pool, ("sound", "warm-up again", "one step back", "twice a step"))
    known = [(1, [(trace_of(fault, pool),)], TRACES[fault]) for fault in TRACES_SHOWN]
    resumed = _rates(others[0], rng.sample(RESUMING, len(RESUMING)))
    faults = rng.sample(sorted(TRACES), len(TRACES))
    drawn = [(trace_of(fault, rng.choice(others)), TRACES[fault]) for fault in faults]
    moved = moved_traces(lambda fault: trace_of(fault, others[0]), rng)
    unseen = [(1, [(trace,)], word) for trace, word in (*drawn, *moved)]
    return [
        shown("rates of four runs", "values:step", 0, example),
        *numbered(shown, "trace {}", "values:cause", known),
        generality("steps", 0, "rates at both ends of a run, and nearly the same", close_rates()),
        generality("steps", 0, "other runs' rates", resumed),
        *numbered(hidden, "another trace ({})", "generality:causes", unseen),
    ]


def _step_fault(where: str, got: Any, want: int | None) -> Fault | None:
    if got == want:
        return None
    if want is None:
        return "false-alarm", f"{where}: it is not step {describe(got)}; all rates are as planned, up to rounding."
    if got is None:
        return "unnoticed", f"{where}: a rate differs. Do you see small differences, and the first and the last step?"
    name = "counted-from-one" if got == want + 1 else "another-step"
    return name, f"{where}: it is not step {describe(got)}. Steps count from 0; return the first that differs."


def _trace_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index, rows = case.args
    if index == 1:
        fault = diagnosis_fault(case.name, outcome.value[0], case.secret, "sound", TRACE_LOOK)
    else:
        steps = enumerate(zip(outcome.value, rows, strict=True), 1)
        fault = first(*(_step_fault(f"{case.name}, {place}", got, wrong_step(*row)) for place, (got, row) in steps))
    return judged(case, fault)


TRAININGS = {
    "smoke-test": Judging(
        shares={"values:shown": 0.3, "cost:runs": 0.1, "generality:unseen": 0.6},
        measured_by_worker=("cost:runs",),
        cases=_smoke_cases,
        verdicts=_smoke_verdicts,
        why="""A falling loss is the weakest of the signs: it falls when labels leak, when the model memorizes one batch, when half of the model is frozen, and when
no two runs agree. Each fault has its own sign: the entropy, fresh text, what moved, and a second run compared bit by bit.""",
        pytorch="""`torch.use_deterministic_algorithms(True)` makes sums repeatable or names the operation that is not; seeds are per process: call
`torch.manual_seed` on every rank.""",
    ),
    "read-the-traces": Judging(
        shares={"values:step": 0.2, "values:cause": 0.2, "generality:steps": 0.15, "generality:causes": 0.45},
        cases=_trace_cases,
        verdicts=_trace_verdicts,
        why="""Rates are exact, so they come first: find the step of the plan that has a wrong rate. Norms are noisy, so each question is about a ratio: the largest
to the limit, to the first and to the median; the last to the first; the smallest to the limit.""",
        pytorch="`clip_grad_norm_` returns the norm before clipping: log it. Save `scheduler.state_dict()` in every checkpoint, next to the optimizer's.",
    ),
}
