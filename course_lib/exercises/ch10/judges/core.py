"""Judges of chapter 10's first exercises: the bubble, a prediction, three generators."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises.ch10.judges.rows import judged, not_runnable, schedule_from
from course_lib.judging import Fault, Judging, Mistake, Params, describe, is_number, number_verdict, prediction, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, peak_activations
from course_lib.timeline import Durations, play

# --- the bubble, and its inverse


def share(convention: str, stages: int, microbatches: int) -> float:
    """The bubble of GPipe and 1F1B on equal stages, by one of the two conventions."""
    return (stages - 1) / (microbatches + stages - 1 if convention == "all" else microbatches)


def fewest(convention: str, stages: int, most: float) -> int:
    """The fewest micro-batches with at most that bubble."""
    found = 1
    while share(convention, stages, found) > most * (1 + 1e-12):
        found += 1
    return found


def _bubble_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m, most = params["stages"], params["microbatches"], params["most"]
    cases = [Case(name=f"{p} stages, {m} micro-batches", args=((p, m), (p, most)), part="both")]
    sizes = [
        (1, rng.randrange(2, 9)),
        (rng.randrange(5, 9), 1),
        *((rng.randrange(2, 33), rng.randrange(2, 129)) for _ in range(8)),
    ]
    for stages, count in sizes:
        limit = rng.choice((0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5))
        cases.append(
            Case(
                name=f"{stages} stages, {count} micro-batches",
                args=((stages, count), (stages, limit)),
                kind="generality",
                part="sizes",
                visible=False,
            )
        )
    return cases


def _bubble_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (p, m), (_, most) = case.args
    convention, value = params["convention"], outcome.value
    if type(value) is not list or len(value) != 2:
        return [verdict(case.kind, part, case, ("no-pair", f"Got {describe(value)}.")) for part in _parts(case)]
    other = share("work" if convention == "all" else "all", p, m)
    label = "public-form" if convention == "work" else "other-convention"
    slips = [
        Mistake(label, other, f"{case.name}: this is the other convention; asked for is {params['means']}."),
        Mistake("naive", 1 - 1 / p, f"{case.name}: this is the naive pipeline's, where one rank works at a time."),
        Mistake(
            "off-by-one",
            p / (m + p),
            f"{case.name}: how many slots does a rank wait before its first micro-batch arrives?",
        ),
        Mistake(
            "one-less", (p - 1) / (m + p), f"{case.name}: count the slots from the first forward to the end once more."
        ),
        Mistake(
            "useful-part",
            1 - share(convention, p, m),
            f"{case.name}: this is the part that works; the idle part is asked for.",
        ),
        Mistake(
            "percent", 100 * share(convention, p, m), f"{case.name}: these are per cent; a fraction of 1 is asked for."
        ),
    ]
    parts = _parts(case)
    found = [
        number_verdict(
            parts[0],
            case,
            value[0],
            share(convention, p, m),
            unit="of 1",
            rel=1e-9,
            kind=case.kind,
            mistakes=slips if p > 1 else [],
            hint="Draw the slots of two stages.",
        )
    ]
    return [*found, verdict(case.kind, parts[-1], case, _fewest_fault(convention, case, value[1], p, most))]


def _parts(case: Case) -> list[str]:
    return ["bubble", "inverse"] if case.kind == "values" else [case.part]


def _fewest_fault(convention: str, case: Case, got: Any, p: int, most: float) -> Fault | None:
    want, lead = fewest(convention, p, most), f"At most {most:g} on {p} stages: "
    if got is None:
        return "returned-none", f"{lead}the function returned None: is a `return` missing?"
    if not is_number(got) or got != int(got):
        return "not-whole", f"{lead}got {describe(got)}; micro-batches are a whole number."
    if got == want:
        return None
    if got < 1:
        return "below-one", f"{lead}{got:g} micro-batches; there is one at least."
    if got == fewest("all" if convention == "work" else "work", p, most):
        label = "public-form" if convention == "work" else "other-convention"
        return label, f"{lead}{got:g} is right for the other convention of what a bubble is a share of."
    if got == want - 1:
        return (
            "rounded-down",
            f"{lead}with {got:g} micro-batches the bubble is {share(convention, p, int(got)):.4g}, still too large.",
        )
    if got > want:
        return "not-fewest", f"{lead}{got:g} are enough, but not the fewest."
    return "too-few", f"{lead}with {got:g} micro-batches the bubble is {share(convention, p, int(got)):.4g}."


# --- a prediction


def idle_days(params: Params) -> float:
    """GPU-days lost to the bubble."""
    return params["gpus"] * params["days"] * share("all", params["stages"], params["microbatches"])


# --- three generators

NAMES = ("naive_rows", "gpipe_rows", "one_f_one_b_rows")
PARTS = ("naive", "gpipe", "1f1b")


def _three_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m = params["stages"], params["microbatches"]
    cases = [Case(name=f"{NAMES[which]}({p}, {m})", args=(which, p, m), part=PARTS[which]) for which in range(3)]
    sizes = [
        (1, 3),
        (3, 1),
        (5, 2),
        (2, 2),
        (4, 4),
        (rng.randrange(5, 8), rng.randrange(9, 15)),
        (rng.randrange(2, 4), rng.randrange(5, 8)),
    ]
    return cases + [
        Case(name=f"{NAMES[which]}({a}, {b})", args=(which, a, b), kind="generality", part="sizes", visible=False)
        for a, b in sizes
        for which in range(3)
    ]


def _in_order(schedule: Schedule, kind: str) -> list[list[int]]:
    return [[op.microbatch for op in row if op.kind == kind] for row in schedule.rows]


def _gpipe_shape(params: Params, schedule: Schedule, case: Case) -> Fault | None:
    m = schedule.microbatches
    for rank, row in enumerate(schedule.rows):
        if any(op.kind == "B" for op in row[:m]):
            return (
                "backward-too-early",
                f"{case.name}: rank {rank} does a backward before all of its forwards are done.",
            )
    for rank, (forth, back) in enumerate(zip(_in_order(schedule, "F"), _in_order(schedule, "B"), strict=True)):
        wanted = forth if params["drain"] == "first" else forth[::-1]
        if back != wanted:
            turned = params["drain"] == "last" and back == forth
            lead = "This solves the public form of the exercise: " if turned else ""
            name = "public-form" if turned else "other-drain"
            return (
                name,
                f"{case.name}: {lead}rank {rank} does its backwards in the order {_few(back)}; asked for is {params['drained']}.",
            )
    return None


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:6])) + (" …" if len(numbers) > 6 else "")


def _naive_shape(schedule: Schedule, case: Case) -> Fault | None:
    peak = peak_activations(schedule)
    if max(peak) > 1:
        rank = peak.index(max(peak))
        return (
            "not-naive",
            f"{case.name}: rank {rank} holds {max(peak):g} micro-batches at once; here the next enters when the one before is out.",
        )
    return None


def _held(schedule: Schedule, case: Case) -> Fault | None:
    p, m = schedule.stages, schedule.microbatches
    peaks = peak_activations(schedule)
    over = [held - min(p - stage, m) for stage, held in enumerate(peaks)]
    stage = over.index(max(over))
    held, most = peaks[stage], min(p - stage, m)
    if held <= most:
        return None
    if held == m and all(op.kind == "F" for row in schedule.rows for op in row[:m]):
        return (
            "gpipe-memory",
            f"{case.name}: all forwards come first, so that stage {stage} holds {m} micro-batches; {most} is the most here.",
        )
    if held == most + 1:
        return (
            "warm-up-long",
            f"{case.name}: stage {stage} holds {held:g} micro-batches at once, one more than its {most}: one forward too early.",
        )
    return (
        "too-much-memory",
        f"{case.name}: stage {stage} holds {held:g} micro-batches at once; {most} is the most here.",
    )


LENGTHS = (Durations(forward=1, backward=2), Durations(forward=3, backward=2), Durations(forward=1, backward=1))


def _long(schedule: Schedule, case: Case) -> Fault | None:
    p, m = schedule.stages, schedule.microbatches
    for each in LENGTHS:
        took, best = play(schedule, each).makespan, (m + p - 1) * (each.forward + each.backward)
        if took <= best + 1e-9:
            continue
        ahead = [next(i for i, op in enumerate(row) if op.kind == "B") for row in schedule.rows]
        short = all(a <= min(p - s, m) for s, a in enumerate(ahead)) and any(
            a < min(p - s, m) for s, a in enumerate(ahead)
        )
        told = f"{case.name}: with F = {each.forward:g} and B = {each.backward:g} it takes {took:g}, where {best:g} is enough."
        if short:
            rank = next(s for s, a in enumerate(ahead) if a < min(p - s, m))
            return (
                "warm-up-short",
                f"{told} Rank {rank} does {ahead[rank]} forward(s) before its first backward: can the gradient be back by then?",
            )
        return "slower", f"{told} Who waits for whom?"
    return None


def _three_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    which, p, m = case.args
    schedule = schedule_from(outcome.value, case, p, m)
    if not isinstance(schedule, Schedule):
        return judged(case, schedule)
    fault = not_runnable(schedule, case)
    if fault is None and which < 2:
        fault = _naive_shape(schedule, case) if which == 0 else _gpipe_shape(params, schedule, case)
    if fault or which == 0:
        return judged(case, fault)
    held = [("cost", "memory", _held(schedule, case))] if which == 2 else []
    return judged(case, None, *held, ("cost", "time", _long(schedule, case)))


CORE: Mapping[str, Judging] = {
    "pipeline-bubble": Judging(
        shares={"values:bubble": 0.4, "values:inverse": 0.3, "generality:sizes": 0.3},
        cases=_bubble_cases,
        verdicts=_bubble_verdicts,
        why="Rank s waits s slots before its first micro-batch arrives, and p − 1 − s after its last: p − 1 in all, whichever rank it is. "
        "A slot is one forward and one backward, whatever their ratio, so that it cancels. Ten per cent of all time takes nine "
        "micro-batches for every stage but one.",
        pytorch="`n_microbatches` of `torch.distributed.pipelining`'s schedules is the number to choose.",
    ),
    "predict-idle": prediction(
        unit="GPU-days",
        truth=idle_days,
        reveal=lambda params: (
            f"{idle_days(params):,.0f} GPU-days: of {params['microbatches']} + {params['stages']} − 1 slots a rank is idle in "
            f"{params['stages'] - 1}, {share('all', params['stages'], params['microbatches']):.1%} of the run."
        ),
        why="(p − 1)/(m + p − 1) of all GPU time, whichever rank: the first ones idle at the end, the last ones in the beginning.",
    ),
    "three-schedules": Judging(
        shares={
            "values:naive": 0.1,
            "values:gpipe": 0.15,
            "values:1f1b": 0.15,
            "cost:memory": 0.25,
            "cost:time": 0.15,
            "generality:sizes": 0.2,
        },
        cases=_three_cases,
        verdicts=_three_verdicts,
        why="The last stage can turn round at once, so it holds one micro-batch. Each stage before needs one more forward on its way to keep "
        "busy until its first gradient returns: p − s. GPipe ends no later; it only holds all m, because it starts to free them last.",
        pytorch="`ScheduleGPipe` and `Schedule1F1B` in `torch.distributed.pipelining`; its schedules as CSV use the same rows.",
    ),
}
