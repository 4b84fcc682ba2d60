"""Judges of chapter 10's interleaved schedule, and of its contest at equal memory, with the bound that the points are measured by."""

from __future__ import annotations

import random
from collections.abc import Mapping

from course_lib.exercises.ch10.judges.rows import judged, not_runnable, schedule_from
from course_lib.judging import Fault, Judging, Params, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, looped, peak_activations
from course_lib.timeline import Durations, play

# --- interleaved


def _loop_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m, v = params["ranks"], params["microbatches"], params["chunks"]
    cases = [Case(name=f"{p} ranks, {m} micro-batches, {v} chunks", args=(p, m, v), part="rows")]
    sizes = [
        (2, 2, 2),
        (3, 9, 3),
        (1, 4, 2),
        (rng.randrange(4, 6), rng.randrange(2, 4), rng.randrange(2, 4)),
        (2, rng.randrange(4, 8), 4),
    ]
    for ranks, many, chunks in sizes:
        count = many if many % ranks == 0 else ranks * many
        cases.append(
            Case(
                name=f"{ranks} ranks, {count} micro-batches, {chunks} chunks",
                args=(ranks, count, chunks),
                kind="generality",
                part="sizes",
                visible=False,
            )
        )
    return cases + [
        Case(
            name=f"{a} ranks, {b} micro-batches, 2 chunks",
            args=(a, b, 2),
            kind="generality",
            part="refusal",
            visible=False,
        )
        for a, b in ((4, 6), (3, 4), (4, 2))
    ]


def _loop_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    p, m, v = case.args
    got = outcome.value
    if case.part == "refusal":
        refused = type(got) is dict and set(got) == {"refused"}
        told = f"{case.name}: {m} micro-batches make no whole rounds of {p}; a ValueError was to say so, and rows came back."
        return [verdict(case.kind, case.part, case, None if refused else ("not-refused", told))]
    schedule = schedule_from(got, case, p, m, looped(p, v))
    if not isinstance(schedule, Schedule):
        return judged(case, schedule)
    fault = not_runnable(schedule, case)
    if fault:
        return judged(case, fault)
    return judged(
        case, None, ("cost", "memory", _loop_held(schedule, case, v)), ("cost", "time", _loop_long(schedule, case, v))
    )


def _loop_held(schedule: Schedule, case: Case, v: int) -> Fault | None:
    p, total = schedule.ranks, v * schedule.microbatches
    for rank, held in enumerate(peak_activations(schedule)):
        chunks, most = round(held * v), min(2 * (p - 1 - rank) + (v - 1) * p + 1, total)
        if chunks > most:
            name = "all-forwards-first" if chunks == total else "too-much-memory"
            return (
                name,
                f"{case.name}: rank {rank} holds activations of {chunks} chunks at once; {most} are the most here.",
            )
    return None


def _loop_long(schedule: Schedule, case: Case, v: int) -> Fault | None:
    p, m = schedule.ranks, schedule.microbatches
    for each in (Durations(forward=1, backward=2), Durations(forward=1, backward=1)):
        slot = each.forward + each.backward
        took, best, plain = play(schedule, each).makespan, m * slot + (p - 1) * slot / v, (m + p - 1) * slot
        if took <= best + 1e-9:
            continue
        name = "bubble-of-1f1b" if took >= plain - 1e-9 else "slower"
        worse = " That is no better than 1F1B with one stage a rank." if name == "bubble-of-1f1b" else ""
        return (
            name,
            f"{case.name}: with F = {each.forward:g} and B = {each.backward:g} it takes {took:g}, where {best:g} is enough.{worse}",
        )
    return None


# --- the contest

Times = tuple[float, float, float]
GOALS = {"quarter": 0.25, "half": 0.5, "nine-tenths": 0.9, "bound": 1.0}
SETTINGS = ((1.0, 1.0, 1.0), (2.0, 3.0, 1.0), (1.0, 0.6, 1.4), (2.0, 2.0, 1.0), (1.0, 1.2, 0.8))


def bound(stages: int, microbatches: int, times: Times) -> float:
    """No schedule with stage s on rank s and at most `stages` micro-batches held on any rank ends before this.

    Rank s works m(F + I + W). Its first input gradient cannot start before one micro-batch has gone forward through all p stages and
    back through p − 1 − s; until then it can only do forwards, k = min(p, m) at most by memory, and not before sF. After its
    last input gradient that micro-batch needs s more of them and one weight gradient, while the rank has only the weight gradients of
    what it still holds, k at most. What these leave of the two stretches is idle.
    """
    forward, inner, outer = times
    p, k = stages, min(stages, microbatches)
    return max(
        microbatches * sum(times)
        + max(s * forward, p * forward + (p - 1 - s) * inner - k * forward)
        + max(0.0, s * inner + outer - k * outer)
        for s in range(p)
    )


def lengths(times: Times) -> Durations:
    """The durations of these three operations."""
    forward, inner, outer = times
    return Durations(forward=forward, backward=inner + outer, input_gradient=inner, weight_gradient=outer)


def closed(schedule: Schedule, times: Times) -> float:
    """How much of the way from 1F1B's end to the bound a schedule goes: 0 as 1F1B, 1 at the bound."""
    p, m = schedule.stages, schedule.microbatches
    start, end = (m + p - 1) * sum(times), bound(p, m, times)
    return (start - play(schedule, lengths(times)).makespan) / (start - end)


def _contest_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m = params["stages"], params["microbatches"]
    cases = [
        Case(
            name=f"{p} stages, {m} micro-batches, all three alike", args=(p, m, SETTINGS[0]), part="rows", seconds=20.0
        )
    ]
    settings = [
        (2, 4, SETTINGS[0]),
        (6, 12, SETTINGS[3]),
        (5, 10, SETTINGS[1]),
        (rng.randrange(3, 6), rng.randrange(8, 15), SETTINGS[2]),
        (rng.randrange(3, 6), rng.randrange(8, 15), SETTINGS[4]),
    ]
    return cases + [
        Case(
            name=f"{a} stages, {b} micro-batches, F, I, W of {', '.join(f'{x:g}' for x in times)}",
            args=(a, b, times),
            part="rows",
            visible=False,
            seconds=20.0,
        )
        for a, b, times in settings
    ]


def _contest_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    p, m, times = case.args
    schedule = schedule_from(outcome.value, case, p, m, kinds="FBIW")
    if not isinstance(schedule, Schedule):
        return judged(case, schedule)
    fault = not_runnable(schedule, case) or _over_limit(schedule, case)
    if fault:
        return judged(case, fault)
    way = closed(schedule, times)
    return judged(case, None, *(("cost", name, _short_of(goal, way, schedule, case)) for name, goal in GOALS.items()))


def _over_limit(schedule: Schedule, case: Case) -> Fault | None:
    held = peak_activations(schedule)
    rank = max(range(len(held)), key=held.__getitem__)
    if held[rank] <= schedule.stages + 1e-9:
        return None
    return "more-memory", (
        f"{case.name}: rank {rank} holds activations of {held[rank]:g} micro-batches at once, and 1F1B's fullest rank "
        f"{schedule.stages}: that is another contest. An input gradient alone frees nothing."
    )


def _short_of(goal: float, way: float, schedule: Schedule, case: Case) -> Fault | None:
    if way >= goal - 1e-6:
        return None
    p, m, times = case.args
    took, end = play(schedule, lengths(times)).makespan, bound(p, m, times)
    told = f"{case.name}: it ends at {took:g}; 1F1B ends at {(m + p - 1) * sum(times):g}, the bound is {end:g}: {max(way, 0):.0%} of the way."
    if way <= 1e-6:
        name = "as-1f1b" if way > -1e-6 else "slower-than-1f1b"
        return (
            name,
            f"{told} {'A backward in one piece keeps the stage before waiting.' if not schedule.splits else 'Who waits for an input gradient?'}",
        )
    return "not-there", f"{told} Draw it: which rank is idle, and which weight gradients could be done there?"


CONTEST: Mapping[str, Judging] = {
    "interleaved-rows": Judging(
        shares={
            "values:rows": 0.35,
            "cost:memory": 0.15,
            "cost:time": 0.25,
            "generality:sizes": 0.15,
            "generality:refusal": 0.1,
        },
        cases=_loop_cases,
        verdicts=_loop_verdicts,
        why="Filling and draining take one *stage's* time per rank, and stages are 1/chunks as long. The price: chunks times as many messages, and "
        "(p − 1)/chunks more micro-batches' activations. In rounds of p, each chunk's first micro-batch comes back just as the round ends; "
        "with a broken round it would not, and ranks would wait. Where messages take no time, ranks − 1 − r forwards ahead would do in place of "
        "twice as many; the second half hides them.",
        pytorch="`ScheduleInterleaved1F1B`; Megatron-LM's `--num-layers-per-virtual-pipeline-stage`.",
    ),
    "beat-1f1b": Judging(
        shares={"values:rows": 0.1, "cost:quarter": 0.2, "cost:half": 0.2, "cost:nine-tenths": 0.2, "cost:bound": 0.3},
        cases=_contest_cases,
        verdicts=_contest_verdicts,
        why="1F1B's later ranks hold less than its first. Rank r can put off r weight gradients at no cost in peak memory, and has them ready "
        "when the pipeline drains; input gradients hurry through meanwhile. This order (ZB-H1) ends exactly at the bound: with stage s on rank s, at "
        "this memory and with a common end nothing is better. Better ones break a rule: more memory (ZB-H2), other places (ZB-V), no common end.",
        pytorch="`ScheduleInterleavedZeroBubble` and `ScheduleZBVZeroBubble`; `stage_backward_input` and `stage_backward_weight` do the halves.",
    ),
}
