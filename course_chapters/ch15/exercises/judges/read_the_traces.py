import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from course_chapters.ch15.exercises.judges import trainings
from course_chapters.ch15.exercises.judges.trainings import RESUMED, SEEDS, TRACES, Curves, shipped
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, describe, generality, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.judging.diagnoses import diagnosis_fault, numbered
from course_grader.judging.mistakes import Wrong, first_of

KNOWN = ("sound", "bad batch", "warm-up again", "always clipped")
SHOWN = ("sound", "warm-up again", "one step back", "twice a step")
RESUMING = ("resumed well", "warm-up again", "one step back", "one step ahead", "four times a step")
LOOK: Mapping[str, str] = {
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


class Trace(Curves):
    """What the exercise calls a trace."""

    rates: list[float]
    planned: list[float]
    limit: float
    resumed: int | None


right = Worked("read-the-traces")


def _one_norm(trace: Trace, place: int, norm: float) -> Trace:
    return trace | {"norms": [norm if step == place else each for step, each in enumerate(trace["norms"])]}


def moved_traces(kept: Callable[[str], Trace], rng: Random) -> list[tuple[Trace, str]]:
    """Traces made of shipped ones: two faults at once, and norms close to the limit of a word."""
    sound, bad, wrong = kept("sound"), kept("bad batch"), kept(rng.choice(("twice a step", "warm-up again")))
    norms = sound["norms"]
    usual, middle, last = median(norms), len(norms) // 2, len(norms) - 1
    why = "warm-up again" if wrong["resumed"] is not None else "stepped too often"
    # norms that grow from the first step, and fastest at the end: the last ones are also far above the median
    sums = sound | {"norms": [norms[0] * (1 + 60 * (step / last) ** 3) for step in range(last + 1)]}
    ones, twos = (sound | {"norms": [1.0, *[each] * last]} for each in (1.0, 2.0))
    quarter = len(norms) // 4
    tens, above = [1.0, *[4.0] * (last - quarter), *[10.0] * quarter], [1.0, *[4.0] * (last - 5), *[10.5] * 3, 4.0, 4.0]
    scaled = [sound | {"norms": [by * each for each in norms], "limit": by * sound["limit"]} for by in (512, 2**-12)]
    return [
        (wrong | {"norms": [1e-5 * wrong["limit"]] * len(norms)}, why),
        (bad | {"limit": 0.5 * min(bad["norms"])}, "bad batch"),
        (_one_norm(sound, middle, 5.3 * usual), "bad batch"),  # not above five times the mean, of which it is a part
        (_one_norm(sound, 0, max(norms) / 6), "sound"),
        (sound | {"limit": sorted(norms)[2]}, "sound"),  # the median step is clipped, and not all are
        (_one_norm(sound, middle, 150 * norms[0]), "explodes"),  # and comes back
        (_one_norm(sound, last, 1e-4 * sound["limit"]), "sound"),  # one norm is small, not every one
        (sums, "not zeroed"),
        (sums | {"limit": 0.5 * norms[0]}, "not zeroed"),
        (_one_norm(sound, middle, math.nan), "explodes"),
        (sound | {"limit": min(norms)}, "sound"),
        (ones | {"limit": 1000.0}, "sound"),  # exactly a thousandth
        (_one_norm(ones, middle, 4.0) | {"limit": 2000.0}, "sound"),  # one norm is not small
        (_one_norm(ones, middle, 100.0), "bad batch"),  # exactly a hundred times the first
        (_one_norm(ones, middle, 5.0), "sound"),  # exactly five times the median
        (ones | {"norms": tens}, "sound"),  # exactly ten times the first
        (ones | {"norms": above}, "not zeroed"),  # just above it, in the median of the last five
        (_one_norm(twos, middle, 100.5), "explodes"),
        *((each, "sound") for each in scaled),
    ]


def close_rates() -> list[tuple[list[float], list[float]]]:
    """(rates, planned) that differ by little or at an end of the run, among them such small rates as large models
    have."""
    small, exact = [1e-9 * step for step in range(1, 7)], [float(step) for step in range(1, 6)]
    changes = [(small, 0, 1.0), (small, 3, 1.001), (small, 4, 1 + 1.2e-6), (small, 1, 1 + 8e-7)]
    changes += [(exact, 0, 1.0), (exact, 4, 1.02), (exact, 0, 1.1), (exact, 1, 1.00005)]
    moved = [([each * (by if at == place else 1) for at, each in enumerate(plan)], plan) for plan, place, by in changes]
    zero = [([first, 1.0], [0.0, 1.0]) for first in (0.0, 1e-5)]
    return [*zero, *moved, ([value * (1 + 1e-9) for value in exact], exact)]


def trace_of(fault: str, seed: int) -> Trace:
    plan = trainings.planned(fault)
    rates = [trainings.rate_of(fault, seed, step) for step in range(len(plan))]
    resumed = RESUMED[seed] if fault in RESUMING else None
    known = shipped()["traces"][f"{fault}/{seed}"]
    return {**known, "rates": rates, "planned": plan, "limit": trainings.limit_of(fault), "resumed": resumed}


def _cases(params: Params, rng: Random) -> list[Case]:
    pool, others = params["pool"], [seed for seed in SEEDS if seed != params["pool"]]

    def rates(seed: int, faults: Sequence[str]) -> list[tuple[list[float], list[float]]]:
        return [(found["rates"], found["planned"]) for found in (trace_of(fault, seed) for fault in faults)]

    known = [(trace_of(fault, pool), TRACES[fault]) for fault in KNOWN]
    unseen = [(trace_of(fault, rng.choice(others)), TRACES[fault]) for fault in rng.sample(sorted(TRACES), len(TRACES))]
    unseen += moved_traces(lambda fault: trace_of(fault, others[0]), rng)
    asked, drawn = ([(1, [(trace,)], word) for trace, word in each] for each in (known, unseen))
    return [
        shown("rates of four runs", "values:step", 0, rates(pool, SHOWN)),
        *numbered(shown, "trace {}", "values:cause", asked),
        generality("steps", 0, "rates at both ends of a run, and nearly the same", close_rates()),
        generality("steps", 0, "other runs' rates", rates(others[0], rng.sample(RESUMING, len(RESUMING)))),
        *numbered(hidden, "another trace ({})", "generality:causes", drawn),
    ]


def _step_fault(where: str, got: int | None, want: int | None) -> Fault | None:
    if got == want:
        return None
    if want is None:
        return "false-alarm", f"{where}: it is not step {describe(got)}; all rates are as planned, up to rounding."
    if got is None:
        return "unnoticed", f"{where}: a rate differs. Do you see small differences, and the first and the last step?"
    told = f"{where}: it is not step {describe(got)}. Steps count from 0; return the first that differs."
    return Wrong("another-step", told, f"{where}: ")


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    index, rows = case.args
    if index == 1:
        return diagnosis_fault(case.name, outcome.value[0], case.secret, "sound", LOOK)
    steps = enumerate(zip(outcome.value, rows, strict=True), 1)
    return first_of(_step_fault(f"{case.name}, {place}", got, right[0](*row)) for place, (got, row) in steps)


JUDGING = Judging(
    shares={"values:step": 0.2, "values:cause": 0.2, "generality:steps": 0.15, "generality:causes": 0.45},
    cases=_cases,
    verdicts=oracle(_fault),
    why="""Rates are exact, so they come first: find the step of the plan that has a wrong rate. Norms are noisy, so
each question is about a ratio: the largest to the limit, to the first and to the median; the last to the first; the
smallest to the limit.""",
    pytorch="`clip_grad_norm_` returns the norm before clipping: log it. Save `scheduler.state_dict()` in every "
    "checkpoint, next to the optimizer's.",
)

ANSWERS = r'''# %% right: worked
def first_wrong(rates: list[float], planned: list[float]) -> int | None:
    """The first step whose learning rate is not the planned one; None if all are."""
    pairs = enumerate(zip(rates, planned, strict=True))
    return next((step for step, (had, meant) in pairs if not math.isclose(had, meant, rel_tol=1e-6)), None)


def cause(trace: dict) -> str:
    """What happened to this training, in one of the words above."""
    rates, planned, norms, limit, resumed = (trace[name] for name in ("rates", "planned", "norms", "limit", "resumed"))
    at, last = first_wrong(rates, planned), len(rates) - 1
    if at is not None:

        def follows(place) -> bool:  # whether each later step i has the rate of step place(i)
            return first_wrong(rates[at:], [planned[min(max(place(i), 0), last)] for i in range(at, last + 1)]) is None

        if resumed is not None and follows(lambda i: i - resumed):
            return "warm-up again"
        return "one step off" if follows(lambda i: i - 1) or follows(lambda i: i + 1) else "stepped too often"
    if max(norms) < 1e-3 * limit:
        return "vanishes"
    if not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0]:
        return "explodes"
    if median(norms[-5:]) > 10 * norms[0]:
        return "not zeroed"
    if max(norms) > 5 * median(norms):
        return "bad batch"
    return "always clipped" if min(norms) > limit else "sound"
# %% right: norms by other ratios
# ~ not math.isclose(had, meant, rel_tol=1e-6) ==> abs(had - meant) > 1e-6 * abs(meant)
# ~ max(norms) < 1e-3 * limit ==> all(norm < limit / 1000 for norm in norms)
# ~ not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0]
# ~~ ==> any(not norm <= 100 * norms[0] for norm in norms)
# ~ median(norms[-5:]) > 10 * norms[0] ==> sorted(norms)[-3] > 10 * norms[0]
# ~ min(norms) > limit ==> all(norm > limit for norm in norms)
# %% wrong: any norm above the limit is always clipped => values false-alarm
# ~ min(norms) > limit ==> max(norms) > limit
# %% wrong: rates must be equal to the bit => generality false-alarm
# ~ not math.isclose(had, meant, rel_tol=1e-6) ==> had != meant
# %% wrong: steps count from one => values counted-from-one
# > steps count from 0; here they count from 1.
# ~ enumerate(zip(rates, planned, strict=True)) ==> enumerate(zip(rates, planned, strict=True), 1)
# %% wrong: the last wrong step => values
# > this is the last step that differs; return the first.
# -     return next((step for step, (had, meant) in pairs if not math.isclose(had, meant, rel_tol=1e-6)), None)
# +     return max((step for step, (had, meant) in pairs if not math.isclose(had, meant, rel_tol=1e-6)), default=None)
# %% wrong: the first step is not looked at => generality unnoticed
# ~ in pairs if not ==> in pairs if step and not
# %% wrong: one step back only => generality not-one-step-off
# ~ follows(lambda i: i - 1) or follows(lambda i: i + 1) ==> follows(lambda i: i - 1)
# %% wrong: every wrong rate is a schedule stepped too often => values not-warm-up-again
# ~ resumed is not None and follows(lambda i: i - resumed) ==> False
# ~ follows(lambda i: i - 1) or follows(lambda i: i + 1) ==> False
# %% wrong: a large norm is an explosion => values not-bad-batch
# ~ 100 * norms[0] ==> 4 * median(norms)
# %% wrong: no norm is too small => generality not-vanishes
# ~ max(norms) < 1e-3 * limit ==> not max(norms)
# ~ > 100 * norms[0] ==> > 100 * max(norms[0], 1e-3)
# %% wrong: always sound => values unnoticed  from: worked
def cause(trace):
    return "sound"
# %% wrong: rates to an absolute millionth => generality unnoticed
# ~ math.isclose(had, meant, rel_tol=1e-6) ==> abs(had - meant) <= 1e-6
# %% wrong: norms before rates => generality not-warm-up-again
# -     if at is not None:
# +     sound = 1e-3 * limit <= max(norms) <= min(100 * norms[0], 5 * median(norms)) and min(norms) <= limit
# +     if at is not None and sound and median(norms[-5:]) <= 10 * norms[0]:
# %% wrong: an explosion is a norm above a hundred => generality false-alarm
# ~ not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0] ==> max(norms) > 100
# %% wrong: the mean for the median => generality unnoticed
# ~ 5 * median(norms) ==> 5 * sum(norms) / len(norms)
# %% wrong: a batch against the first norm => generality false-alarm
# ~ 5 * median(norms) ==> 5 * norms[0]
# %% wrong: a bad batch is asked for before sums => generality not-not-zeroed
# ~ median(norms[-5:]) > 10 * norms[0] ==> 10 * norms[0] < median(norms[-5:]) and max(norms) <= 5 * median(norms)
# %% wrong: clipping is asked for before a bad batch => generality not-bad-batch
# ~ max(norms) > 5 * median(norms) ==> max(norms) > 5 * median(norms) and min(norms) <= limit
# %% wrong: the last step clipped is all => generality false-alarm
# ~ min(norms) > limit ==> norms[-1] > limit
# %% wrong: the last norm tells an explosion => generality not-explodes
# ~ not all(map(math.isfinite, norms)) or max(norms) > 100 * norms[0] ==> not norms[-1] <= 100 * norms[0]
# %% wrong: one small norm vanishes => generality false-alarm
# ~ if max(norms) < 1e-3 * limit: ==> if min(norms) < 1e-3 * limit:
# %% half: only the step => 1.4  from: worked
def cause(trace):
    raise NotImplementedError
'''
