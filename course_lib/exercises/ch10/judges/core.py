"""Judges of chapter 10's first exercises: the bubble, a prediction, three generators."""

import random
from typing import Any

from course_lib.exercises.ch10.judges.schedules import longer, runnable
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.exercises.returns import Number
from course_lib.judging import Fault, Judging, Mistake, Params, judged, number_fault, prediction, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, peak_activations
from course_lib.timeline import Durations
from course_lib.units import count_text


def share(convention: str, stages: int, microbatches: int) -> float:
    """The bubble of GPipe and 1F1B on equal stages: idle time over "all" time or over "work"ing time."""
    return (stages - 1) / (microbatches + stages - 1 if convention == "all" else microbatches)


def fewest(convention: str, stages: int, most: float) -> int:
    """The fewest micro-batches with a bubble of at most `most`."""
    count = 1
    while share(convention, stages, count) > most * (1 + 1e-12):
        count += 1
    return count


OTHER = {"all": ("work", "other-convention"), "work": ("all", "public-form")}  # with the mistake of using it


def _bubble_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m, most = params["stages"], params["microbatches"], params["most"]
    cases = [
        shown(
            f"{count_text(p, 'stage')}, {count_text(m, 'micro-batch', 'micro-batches')}",
            "values:both",
            (p, m),
            (p, most),
        )
    ]
    mosts, exact = (0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5), share(params["convention"], 7, 11)
    sizes = [(1, rng.randrange(2, 9), 0.5), (rng.randrange(5, 9), 1, 0.75), (21, 2000, 0.08), (90, 3, 0.004)]
    sizes += [(7, 11, exact), (7, 12, 0.9999 * exact)]
    for p, m, most in sizes + [(rng.randrange(2, 33), rng.randrange(2, 129), rng.choice(mosts)) for _ in range(8)]:
        cases.append(
            hidden(
                f"{count_text(p, 'stage')}, {count_text(m, 'micro-batch', 'micro-batches')}",
                "generality:sizes",
                (p, m),
                (p, most),
            )
        )
    return cases


def _bubble_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (p, m), (_, most) = case.args
    (bubble, count), parts = outcome.value, ("bubble", "inverse") if case.kind == "values" else ("sizes", "sizes")
    faults = _bubble_fault(params, case, bubble, p, m), _fewest_fault(params["convention"], count, p, most)
    return [verdict(case.kind, part, case, fault) for part, fault in zip(parts, faults, strict=True)]


def _bubble_fault(params: Params, case: Case, got: Any, p: int, m: int) -> Fault | None:
    want, (other, name) = share(params["convention"], p, m), OTHER[params["convention"]]
    mistakes = [
        Mistake(name, share(other, p, m), f"this is the other convention; the exercise asks for {params['means']}."),
        Mistake("naive", 1 - 1 / p, "this is the naive pipeline, where one rank works at a time."),
        Mistake("off-by-one", p / (m + p), "how many slots does a rank wait before its first micro-batch arrives?"),
        Mistake("one-less", (p - 1) / (m + p), "count the slots from the first forward to the end once more."),
        Mistake("useful-part", 1 - want, "this is the share that works; the idle share is asked for."),
        Mistake("percent", 100 * want, "this is a percentage; a fraction of 1 is asked for."),
    ]
    mistakes = [Mistake(one.name, one.value, f"{case.name}: {one.message}") for one in mistakes if p > 1]
    hint = "Draw the slots of two stages."
    return number_fault(case.name, got, want, unit="of 1", rel=1e-9, mistakes=mistakes, hint=hint)


def _fewest_fault(convention: str, got: Any, p: int, most: float) -> Fault | None:
    want, lead, (other, name) = fewest(convention, p, most), f"At most {most:g} on {p} stages", OTHER[convention]
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", f"{lead}: this function is not answered yet."
    if fault := Number("micro-batches", whole=True).find(got, lead, None):
        return fault
    if got == want:
        return None
    if got < 1:
        return "below-one", f"{lead}: got {got:g} micro-batches; there is at least one."
    if got == fewest(other, p, most):
        return name, f"{lead}: {got:g} is right for the other convention of what a bubble is a share of."
    if got > want:
        return "not-fewest", f"{lead}: {got:g} are enough, but not the fewest."
    name, bubble = "rounded-down" if got == want - 1 else "too-few", share(convention, p, int(got))
    return name, f"{lead}: with {got:g} micro-batches the bubble is {bubble:.4g}, still too large."


def idle_days(params: Params) -> float:
    """GPU-days lost to the bubble."""
    return params["gpus"] * params["days"] * share("all", params["stages"], params["microbatches"])


GENERATED = {"naive": "naive_rows", "gpipe": "gpipe_rows", "1f1b": "one_f_one_b_rows"}


def _three_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m = params["stages"], params["microbatches"]
    sizes = [(1, 3), (3, 1), (1, 1), (5, 2), (2, 2), (4, 4), (rng.randrange(9, 12), rng.randrange(2, 5))]
    sizes += [(rng.randrange(5, 8), rng.randrange(17, 22)), (rng.randrange(2, 4), rng.randrange(5, 8))]
    names = list(enumerate(GENERATED.items()))
    return [shown(f"{name}({p}, {m})", f"values:{part}", which, p, m) for which, (part, name) in names] + [
        hidden(f"{name}({a}, {b})", "generality:sizes", which, a, b) for a, b in sizes for which, (_, name) in names
    ]


def _three_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    which, p, m = case.args
    schedule = runnable(outcome.value, case, p, m)
    if not isinstance(schedule, Schedule):
        return judged(case, schedule, named=True)
    fault = (_naive_fault(schedule), _gpipe_fault(params, schedule), None)[which]
    costs = [("cost", "memory", _memory_fault(schedule))] if which == 2 else []
    costs += [("cost", "time", _time_fault(schedule))] if which else []
    return judged(case, fault, *costs, named=True)


def _naive_fault(schedule: Schedule) -> Fault | None:
    peak = peak_activations(schedule)
    rank = peak.index(max(peak))
    if peak[rank] <= 1:
        return None
    return "not-naive", f"rank {rank} holds {peak[rank]:g} micro-batches at once; the next enters when one has left."


def _gpipe_fault(params: Params, schedule: Schedule) -> Fault | None:
    for rank, row in enumerate(schedule.rows):
        if any(op.kind == "B" for op in row[: schedule.microbatches]):
            return "backward-too-early", f"rank {rank} does a backward before all of its forwards are done."
    for rank, row in enumerate(schedule.rows):
        forth, back = ([op.microbatch for op in row if op.kind == kind] for kind in "FB")
        if back != (forth if params["drain"] == "first" else forth[::-1]):
            public = params["drain"] == "last" and back == forth
            order = ", ".join(map(str, back[:6])) + " …" * (len(back) > 6)
            told = f"rank {rank} does its backwards in the order {order}; the exercise asks for {params['drained']}."
            return ("public-form", f"this solves the public form: {told}") if public else ("other-drain", told)
    return None


def _memory_fault(schedule: Schedule) -> Fault | None:
    """A stage of 1F1B that holds too much: the one furthest above its limit."""
    m, limits = schedule.microbatches, [min(schedule.stages - s, schedule.microbatches) for s in range(schedule.stages)]
    over = [held - most for held, most in zip(peak_activations(schedule), limits, strict=True)]
    stage = over.index(max(over))
    most, held = limits[stage], limits[stage] + over[stage]
    if held <= most:
        return None
    told = f"stage {stage} holds {held:g} micro-batches at once; its limit is {most}."
    if held == m and all(op.kind == "F" for row in schedule.rows for op in row[:m]):
        return "gpipe-memory", f"{told} All forwards come first."
    return ("warm-up-long", f"{told} That is one forward too early.") if held == most + 1 else ("too-much-memory", told)


LENGTHS = (Durations(forward=1, backward=2), Durations(forward=3, backward=2), Durations(forward=1, backward=1))


def _time_fault(schedule: Schedule) -> Fault | None:
    p, m, found = schedule.stages, schedule.microbatches, longer(schedule, *LENGTHS)
    if not found:
        return None
    ahead = [[op.kind for op in row].index("B") for row in schedule.rows]
    missing = [min(p - stage, m) - forwards for stage, forwards in enumerate(ahead)]
    if min(missing) < 0 or not any(missing):
        return "slower", f"{found[0]} Who waits for whom?"
    rank = next(rank for rank, forwards in enumerate(missing) if forwards)
    first = f"Rank {rank} does {ahead[rank]} forward(s) before its first backward"
    return "warm-up-short", f"{found[0]} {first}: can the gradient be back by then?"


CORE = {
    "pipeline-bubble": Judging(
        shares="values:bubble 0.4, values:inverse 0.3, generality:sizes 0.3",
        cases=_bubble_cases,
        verdicts=_bubble_verdicts,
        why="""Rank s waits s slots before its first micro-batch arrives, and p − 1 − s slots after its last: p − 1 in all, whichever
rank it is. A slot is one forward and one backward, so their ratio cancels.""",
        pytorch="`n_microbatches` of the schedules in `torch.distributed.pipelining` is the number to choose.",
    ),
    "predict-idle": prediction(
        unit="GPU-days",
        truth=idle_days,
        reveal=lambda params: (
            f"{idle_days(params):,.0f} GPU-days: a rank is idle in {params['stages'] - 1} of "
            f"{params['microbatches']} + {params['stages'] - 1} slots."
        ),
        why="Each rank idles (p − 1)/(m + p − 1) of the time: the first ranks at the end, the last ones at the start.",
    ),
    "three-schedules": Judging(
        point=("values:1f1b", "cost:memory", "cost:time"),
        shares="values:naive 0.1, values:gpipe 0.15, values:1f1b 0.15, cost:memory 0.25, cost:time 0.15, "
        "generality:sizes 0.2",
        cases=_three_cases,
        verdicts=_three_verdicts,
        why="""The last stage can start the backward at once, so it holds one micro-batch. Each stage before it needs one more forward to stay
busy until its first gradient returns: stage s holds p − s. GPipe ends no later, but it holds all m, because it frees the first one only
after the last forward.""",
        pytorch="`ScheduleGPipe` and `Schedule1F1B` in `torch.distributed.pipelining`, which writes schedules to CSV in the same rows.",
    ),
}
