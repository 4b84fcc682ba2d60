"""Judges of chapter 15's trainings: whether one is sound, and what its norms and rates show."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch15.judges import faults_edges as edges
from course_lib.exercises.ch15.judges import faults_trainings as trainings
from course_lib.exercises.ch15.judges.diagnosis import diagnosis_fault
from course_lib.exercises.ch15.judges.faults_trainings import RESUMED, SEEDS, SMOKE, TRACES, shipped
from course_lib.judging import Fault, Judging, Params, describe, first, judged
from course_lib.judging.cases import hidden, shown
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


# --- the smoke test


def _smoke_cases(params: Params, rng: random.Random) -> list[Case]:
    pool, others = params["pool"], [seed for seed in SEEDS if seed != params["pool"]]
    programs, floors = shipped()["smoke"], shipped()["floors"]

    def kept(fault: str, seed: int) -> tuple[Any, float, str]:
        runs = programs[f"{fault}/{seed}"]
        return runs * 2 if len(runs) == 1 else runs, floors[seed], SMOKE[fault]

    def unseen(name: str, drawn: Iterable[tuple[Any, float, str]]) -> list[Case]:
        return [
            hidden(f"{name} ({place})", "generality:unseen", tuple(runs), floor, secret=word)
            for place, (runs, floor, word) in enumerate(drawn, 1)
        ]

    cases = []
    for place, (runs, floor, word) in enumerate((kept(fault, pool) for fault in SMOKE_SHOWN), 1):
        cases.append(shown(f"program {place}", "values:shown", tuple(runs), floor, secret=word))
    drawn = [(fault, rng.choice(others)) for fault in SMOKE if fault != "explodes"]
    drawn += [("explodes", seed) for seed in others]  # one of them ends where it began
    cases += unseen("another program", [kept(*each) for each in rng.sample(drawn, len(drawn))])
    seed = rng.choice(others)
    moved = edges.programs(lambda fault: programs[f"{fault}/{seed}"], floors[seed], rng)
    cases += unseen("a program with numbers moved", ((runs, floors[seed], word) for runs, word in moved))
    return cases + unseen("a program at a limit", edges.limits(programs[f"sound/{seed}"][0]))


def _smoke_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    word, runs = outcome.value["word"], outcome.value["runs"]
    dear = "too-many-runs", f"{case.name}: you ran one program {runs} times; two runs are enough."
    fault = diagnosis_fault(case.name, word, case.secret, "sound", SMOKE_LOOK)
    return judged(case, fault, ("cost", "runs", dear if runs > 2 else None))


# --- traces


def trace_of(fault: str, seed: int) -> dict[str, Any]:
    """The trace of a shipped training, as an answer gets it."""
    plan = trainings.planned(fault)
    return {
        **shipped()["traces"][f"{fault}/{seed}"],
        "rates": [trainings.rate_of(fault, seed, step) for step in range(len(plan))],
        "planned": plan,
        "limit": trainings.limit_of(fault),
        "resumed": RESUMED[seed] if fault in RESUMING else None,
    }


def wrong_step(rates: Sequence[float], plan: Sequence[float]) -> int | None:
    """The first step whose rate is not the planned one."""
    pairs = enumerate(zip(rates, plan, strict=True))
    return next((step for step, (rate, meant) in pairs if abs(rate - meant) > 1e-6 * abs(meant)), None)


def _rates(seed: int, faults: Sequence[str]) -> list[tuple[list[float], list[float]]]:
    return [(found["rates"], found["planned"]) for found in (trace_of(fault, seed) for fault in faults)]


def _trace_cases(params: Params, rng: random.Random) -> list[Case]:
    pool, others = params["pool"], [seed for seed in SEEDS if seed != params["pool"]]
    example = _rates(pool, ("sound", "warm-up again", "one step back", "twice a step"))
    cases = [shown("rates of four runs", "values:step", 0, example)]
    cases += [
        shown(f"trace {place}", "values:cause", 1, [(trace_of(fault, pool),)], secret=TRACES[fault])
        for place, fault in enumerate(TRACES_SHOWN, 1)
    ]
    cases.append(generality("steps", 0, "rates at both ends of a run, and nearly the same", edges.rates()))
    resumed = _rates(others[0], rng.sample(RESUMING, len(RESUMING)))
    cases.append(generality("steps", 0, "other runs' rates", resumed))
    faults = rng.sample(sorted(TRACES), len(TRACES))
    drawn = [(trace_of(fault, rng.choice(others)), TRACES[fault]) for fault in faults]
    moved = edges.traces(lambda fault: trace_of(fault, others[0]), rng)
    return cases + [
        generality("causes", 1, f"another trace ({place})", [(trace,)], word)
        for place, (trace, word) in enumerate([*drawn, *moved], 1)
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
        why="A falling loss is the weakest of the signs: it falls when labels leak, when the model memorizes one batch, "
        "when half of the model is frozen, and when no two runs agree. Each fault has its own sign: the entropy, fresh "
        "text, what moved, and a second run compared bit by bit.",
        pytorch="`torch.use_deterministic_algorithms(True)` makes sums repeatable or names the operation that is not; "
        "seeds are per process: call `torch.manual_seed` on every rank.",
    ),
    "read-the-traces": Judging(
        shares={"values:step": 0.2, "values:cause": 0.2, "generality:steps": 0.15, "generality:causes": 0.45},
        cases=_trace_cases,
        verdicts=_trace_verdicts,
        why="Rates are exact, so they come first: find the step of the plan that has a wrong rate. Norms are noisy, so "
        "each question is about a ratio: the largest to the limit, to the first and to the median; the last to the "
        "first; the smallest to the limit.",
        pytorch="`clip_grad_norm_` returns the norm before clipping: log it. Save `scheduler.state_dict()` in every "
        "checkpoint, next to the optimizer's.",
    ),
}
