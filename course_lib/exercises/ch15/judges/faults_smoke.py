"""Judges of chapter 15's trainings: is one sound, and what do its norms and rates say? The trainings are real, and ship as numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.exercises.ch15.cards.faults import SMOKE_WORDS
from course_lib.exercises.ch15.cards.faults_more import TRACE_WORDS
from course_lib.exercises.ch15.judges import faults_edges as edges
from course_lib.exercises.ch15.judges.faults_trainings import RESUMED, SEEDS, limit_of, planned, rate_of, shipped
from course_lib.judging import Fault, Judging, Params, describe, is_number, verdict
from course_lib.judging.optional_columns import results, told
from course_lib.records import Case, Outcome, Verdict

SMOKE_CAUSES: Mapping[str, str] = {
    "sound": "sound",
    "explodes": "explodes",
    "not finite": "explodes",
    "order of sums": "not repeatable",
    "unseeded": "not repeatable",
    "frozen block": "frozen",
    "nothing handed over": "frozen",
    "leak": "leak",
    "looks ahead": "leak",
    "one batch": "memorises",
    "tiny rate": "learns nothing",
}
TRACE_CAUSES: Mapping[str, str] = {
    "sound": "sound",
    "resumed well": "sound",
    "bad batch": "bad batch",
    "explodes": "explodes",
    "vanishes": "vanishes",
    "always clipped": "always clipped",
    "not zeroed": "not zeroed",
    "warm-up again": "warm-up again",
    "one step back": "one step off",
    "one step ahead": "one step off",
    "twice a step": "stepped too often",
    "four times a step": "stepped too often",
}
RESUMING = ("resumed well", "warm-up again", "one step back", "one step ahead", "four times a step")
SMOKE_SHOWN = ("sound", "leak", "unseeded")
TRACES_SHOWN = ("sound", "bad batch", "warm-up again", "always clipped")

_SMOKE_LOOK: Mapping[str, str] = {
    "sound": "it is repeatable, all of it moves, and it predicts fresh text better than before, though no better than anybody can.",
    "explodes": "look at every training loss, not only at the last.",
    "not repeatable": "compare everything that the two runs give, without rounding.",
    "frozen": "look at what moved, parameter by parameter.",
    "leak": "compare what is fresh with `floor`: how would a model know so much?",
    "memorises": "compare what became of the training loss with what became of fresh text.",
    "learns nothing": "does the difference of `before` and `after` exceed the noise?",
}
_TRACE_LOOK: Mapping[str, str] = {
    "warm-up again": "rates differ from the plan from the step on in which it was resumed. Which steps of the plan had these rates?",
    "one step off": "the rates differ from the plan by little. Compare each with the plan's neighbours.",
    "stepped too often": "the rates run ahead of the plan, further and further. Where in the plan is each?",
    "vanishes": "compare the norms with the limit.",
    "explodes": "compare the largest norm with the first.",
    "not zeroed": "compare the last norms with the first, and look at how they came there.",
    "bad batch": "compare the largest norm with the median: how many steps are like it?",
    "always clipped": "compare the smallest norm with the limit.",
    "sound": "the rates are as planned. Some norms above the limit are what a limit is for.",
}


# --- the smoke test


def _training(fault: str, seed: int, name: str, **more: Any) -> Case:
    runs = shipped()["smoke"][f"{fault}/{seed}"]
    return Case(
        name=name,
        args=(tuple(runs * 2 if len(runs) == 1 else runs), shipped()["floors"][seed]),
        secret=SMOKE_CAUSES[fault],
        **more,
    )


def _smoke_cases(params: Params, rng: random.Random) -> list[Case]:
    pool = params["pool"]
    others = [seed for seed in SEEDS if seed != pool]
    shown = [_training(fault, pool, f"program {place}", part="shown") for place, fault in enumerate(SMOKE_SHOWN, 1)]
    drawn = [(fault, rng.choice(others)) for fault in SMOKE_CAUSES if fault != "explodes"] + [
        ("explodes", seed) for seed in others
    ]  # one of them ends where it began
    unseen = [
        _training(fault, seed, f"another program ({place})", kind="generality", part="unseen", visible=False)
        for place, (fault, seed) in enumerate(rng.sample(drawn, len(drawn)), 1)
    ]
    seed = rng.choice(others)
    moved = edges.programs(lambda fault: shipped()["smoke"][f"{fault}/{seed}"], shipped()["floors"][seed], rng)
    return [
        *shown,
        *unseen,
        *(
            Case(
                name=f"a program with numbers moved ({place})",
                args=(tuple(runs), shipped()["floors"][seed]),
                secret=word,
                kind="generality",
                part="unseen",
                visible=False,
            )
            for place, (runs, word) in enumerate(moved, 1)
        ),
    ]


def _word(case: Case, got: Any, words: Sequence[str], fine: str, look: Mapping[str, str]) -> Fault | None:
    if got is None:
        return "returned-none", f"{case.name}: it returned None: is a `return` missing?"
    if type(got) is not str or got not in words:
        return "no-such-word", f"{case.name}: got {describe(got)}; the words are {', '.join(words)}."
    if got == case.secret:
        return None
    if case.secret == fine:
        return "false-alarm", f"{case.name}: {got!r} is said; {look[fine]}"
    name = "unnoticed" if got == fine else f"not-{case.secret.replace(' ', '-')}"
    return name, f"{case.name}: {got!r} is said; {look[case.secret]}"


def _smoke_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = outcome.value
    if type(got) is not dict or not is_number(got.get("runs")):
        return [
            verdict(
                case.kind,
                case.part,
                case,
                ("no-such-word", f"{case.name}: got {describe(got)}; return one of the words."),
            )
        ]
    fault = _word(case, got.get("word"), tuple(SMOKE_WORDS), "sound", _SMOKE_LOOK)
    if fault:
        return [verdict(case.kind, case.part, case, fault)]
    dear = (
        ("too-many-runs", f"{case.name}: {got['runs']} runs of one program; two tell all that runs can tell.")
        if got["runs"] > 2
        else None
    )
    return [verdict(case.kind, case.part, case, None), verdict("cost", "runs", case, dear)]


# --- traces


def trace_of(fault: str, seed: int) -> dict[str, Any]:
    """The trace of a shipped training, as an answer gets it."""
    kept = shipped()["traces"][f"{fault}/{seed}"]
    plan = planned(fault)
    return {
        **kept,
        "rates": [rate_of(fault, seed, step) for step in range(len(plan))],
        "planned": plan,
        "limit": limit_of(fault),
        "resumed": RESUMED[seed] if fault in RESUMING else None,
    }


def wrong_step(trace: Mapping[str, Any]) -> int | None:
    """The first step whose rate is not the planned one."""
    pairs = enumerate(zip(trace["rates"], trace["planned"], strict=True))
    return next((step for step, (had, meant) in pairs if abs(had - meant) > 1e-6 * abs(meant)), None)


def _rate_rows(seed: int, faults: Sequence[str]) -> list[tuple[list[float], list[float]]]:
    return [(found["rates"], found["planned"]) for found in (trace_of(fault, seed) for fault in faults)]


def _trace_cases(params: Params, rng: random.Random) -> list[Case]:
    pool = params["pool"]
    others = [seed for seed in SEEDS if seed != pool]
    exact = [float(step) for step in range(1, 6)]
    close = [
        *edges.rates(),
        (exact, exact),
        ([*exact[:4], 5.1], exact),
        ([1.1, *exact[1:]], exact),
        ([value * (1 + 1e-9) for value in exact], exact),
        ([1.0, 2.0001, *exact[2:]], exact),
    ]
    cases = [
        Case(
            name="rates of four runs",
            args=(0, _rate_rows(pool, ("sound", "warm-up again", "one step back", "twice a step"))),
            part="step",
        )
    ]
    cases += [
        Case(name=f"trace {place}", args=(1, [(trace_of(fault, pool),)]), part="cause", secret=TRACE_CAUSES[fault])
        for place, fault in enumerate(TRACES_SHOWN, 1)
    ]
    cases.append(
        Case(
            name="rates at both ends of a run, and nearly the same",
            args=(0, close),
            kind="generality",
            part="steps",
            visible=False,
        )
    )
    cases.append(
        Case(
            name="other runs' rates",
            args=(0, _rate_rows(others[0], rng.sample(RESUMING, len(RESUMING)))),
            kind="generality",
            part="steps",
            visible=False,
        )
    )
    drawn = [
        (trace_of(fault, rng.choice(others)), TRACE_CAUSES[fault])
        for fault in rng.sample(sorted(TRACE_CAUSES), len(TRACE_CAUSES))
    ]
    moved = edges.traces(lambda fault: trace_of(fault, others[0]), rng)
    return cases + [
        Case(
            name=f"another trace ({place})",
            args=(1, [(trace,)]),
            kind="generality",
            part="causes",
            visible=False,
            secret=word,
        )
        for place, (trace, word) in enumerate([*drawn, *moved], 1)
    ]


def _step_fault(case: Case, got: Any, want: int | None, place: int) -> Fault | None:
    if (got is None and want is None) or (type(got) is int and got == want):
        return None
    lead = f"{case.name}, {place + 1}: "
    if want is None:
        return (
            "false-alarm",
            f"{lead}step {describe(got)} is said; every rate is the planned one, as far as numbers are equal.",
        )
    if got is None:
        return (
            "unnoticed",
            f"{lead}None is said; a rate differs. Are small differences looked at, and the first and the last step?",
        )
    if type(got) is not int:
        return "no-step", f"{lead}got {describe(got)}; return a step's number, or None."
    return (
        "counted-from-one" if got == want + 1 else "another-step"
    ), f"{lead}step {describe(got)} is said. Steps count from 0; the first that differs is asked for."


def _trace_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    if told(found):
        return list(found)
    if case.args[0] == 1:
        return [verdict(case.kind, case.part, case, _word(case, found[0], tuple(TRACE_WORDS), "sound", _TRACE_LOOK))]
    faults = (
        _step_fault(case, got, wrong_step({"rates": rates, "planned": plan}), place)
        for place, (got, (rates, plan)) in enumerate(zip(found, case.args[1], strict=True))
    )
    return [verdict(case.kind, case.part, case, next((fault for fault in faults if fault), None))]


TRAININGS = {
    "smoke-test": Judging(
        shares={"values:shown": 0.3, "cost:runs": 0.1, "generality:unseen": 0.6},
        measured_by_worker=("cost:runs",),
        cases=_smoke_cases,
        verdicts=_smoke_verdicts,
        why="A falling loss is the weakest of the signs: it falls when labels leak, when one batch is learnt by heart, when half of the model stands still, and when no two runs are alike. "
        "Each has a sign of its own: the entropy that nobody beats, text never seen, what has moved, and a second run compared to the bit.",
        pytorch="`torch.use_deterministic_algorithms(True)` makes sums come out alike, or says which operation cannot; seeds are per process: `torch.manual_seed` on every rank.",
    ),
    "read-the-traces": Judging(
        shares={"values:step": 0.2, "values:cause": 0.2, "generality:steps": 0.15, "generality:causes": 0.45},
        cases=_trace_cases,
        verdicts=_trace_verdicts,
        why="Rates are exact, so they come first: a wrong one is told from the plan by which step's rate it is. Norms are noisy, so each question is about a ratio: the largest to the limit, to "
        "the first, to the median; the last to the first; the smallest to the limit. What was never restored from a checkpoint shows at the step where it was read.",
        pytorch="`clip_grad_norm_` returns the norm before clipping: log it. `scheduler.state_dict()` belongs in every checkpoint, beside the optimizer's.",
    ),
}
