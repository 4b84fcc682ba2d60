"""Judges of chapter 10's interleaved schedule, and of its contest at equal memory with the bound that measures the points."""

import random

from course_lib.exercises.ch10.judges.schedules import longer, runnable
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, looped, peak_activations
from course_lib.timeline import Durations, play
from course_lib.units import count_text


def _interleaved_cases(params: Params, rng: random.Random) -> list[Case]:
    def name(p: int, m: int, v: int) -> str:
        return f"{count_text(p, 'rank')}, {count_text(m, 'micro-batch', 'micro-batches')}, {count_text(v, 'chunk')}"

    own = params["ranks"], params["microbatches"], params["chunks"]
    sizes = [(2, 2, 2), (2, 2, 3), (3, 9, 3), (1, 1, 2), (1, 25, 2), (2, rng.randrange(8, 14, 2), rng.randrange(5, 7))]
    sizes += [(p, p * rng.randrange(1, 3), 2) for p in (rng.randrange(4, 6), rng.randrange(7, 9))]
    return [
        shown(name(*own), "values:rows", *own),
        *(hidden(name(*size), "generality:sizes", *size) for size in sizes),
        *(hidden(name(*size), "generality:refusal", *size) for size in ((4, 6, 2), (3, 4, 2), (4, 2, 2), (5, 13, 2))),
    ]


def _interleaved_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    p, m, v = case.args
    if case.part == "refusal":
        refused = type(outcome.value) is dict and set(outcome.value) == {"refused"}
        told = f"{m} micro-batches do not form whole rounds of {p}; raise a ValueError that says so."
        return judged(case, None if refused else ("not-refused", told), named=True)
    schedule = runnable(outcome.value, case, p, m, looped(p, v))
    if not isinstance(schedule, Schedule):
        return judged(case, schedule, named=True)
    slow = longer(schedule, Durations(forward=1, backward=2), Durations(forward=1, backward=1))
    if slow:
        told, plain = slow
        worse = f"{told} That is no better than 1F1B with one stage per rank."
        slow = ("bubble-of-1f1b", worse) if plain else ("slower", told)
    return judged(case, None, ("cost", "memory", _chunks_fault(schedule, v)), ("cost", "time", slow), named=True)


def _chunks_fault(schedule: Schedule, v: int) -> Fault | None:
    p, total = schedule.ranks, v * schedule.microbatches
    for rank, held in enumerate(peak_activations(schedule)):
        chunks, most = round(held * v), min(2 * (p - 1 - rank) + (v - 1) * p + 1, total)
        if chunks > most:
            name = "all-forwards-first" if chunks == total else "too-much-memory"
            return name, f"rank {rank} holds activations of {chunks} chunks at once; its limit is {most}."
    return None


Times = tuple[float, float, float]  # of a forward, an input gradient and a weight gradient
GOALS = {"quarter": 0.25, "half": 0.5, "nine-tenths": 0.9, "bound": 1.0}
SETTINGS = ((1.0, 1.0, 1.0), (2.0, 3.0, 1.0), (1.0, 0.4, 2.0), (2.0, 2.0, 1.0), (1.0, 1.5, 0.25))


def bound(stages: int, microbatches: int, times: Times) -> float:
    """No schedule with stage s on rank s and at most `stages` micro-batches held on any rank ends before this.

    Rank s works m(F + I + W). Its first input gradient cannot start before one micro-batch has gone forward through all p stages
    and back through p − 1 − s. Until then the rank can only do forwards: at most k = min(p, m) by memory, and none before sF. After
    its last input gradient that micro-batch needs s more input gradients and one weight gradient, while the rank can only do the
    weight gradients of what it still holds, at most k. The remainder of the two stretches is idle.
    """
    forward, inner, outer = times
    p, k = stages, min(stages, microbatches)
    return microbatches * sum(times) + max(
        max(s * forward, p * forward + (p - 1 - s) * inner - k * forward) + max(0.0, s * inner + outer - k * outer)
        for s in range(p)
    )


def lengths(times: Times) -> Durations:
    """The durations of these three operations."""
    forward, inner, outer = times
    return Durations(forward=forward, backward=inner + outer, input_gradient=inner, weight_gradient=outer)


def closed(schedule: Schedule, times: Times) -> float:
    """How close a schedule comes to the bound: 0 if it ends with 1F1B, 1 at the bound."""
    p, m = schedule.stages, schedule.microbatches
    start, end = (m + p - 1) * sum(times), bound(p, m, times)
    return (start - play(schedule, lengths(times)).makespan) / (start - end)


def _contest_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m = params["stages"], params["microbatches"]
    settings = [(2, 20, SETTINGS[0]), (7, 7, SETTINGS[3]), (5, 10, SETTINGS[1]), (5, 5, SETTINGS[1])]
    settings += [(rng.randrange(3, 6), rng.randrange(8, 15), SETTINGS[which]) for which in (2, 4)]
    cases = [shown(f"{p} stages, {m} micro-batches, all three alike", "values:rows", p, m, SETTINGS[0], seconds=20.0)]
    for p, m, times in settings:
        name = f"{p} stages, {m} micro-batches, F, I, W of {', '.join(f'{x:g}' for x in times)}"
        cases.append(hidden(name, "values:rows", p, m, times, seconds=20.0))
    return cases


def _contest_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    p, m, times = case.args
    schedule = runnable(outcome.value, case, p, m, kinds="FBIW")
    if not isinstance(schedule, Schedule):
        return judged(case, schedule, named=True)
    peaks = peak_activations(schedule)
    if max(peaks) > p + 1e-9:
        held = f"rank {peaks.index(max(peaks))} holds activations of {max(peaks):g} micro-batches at once"
        told = f"{held}; 1F1B's fullest rank holds {p}."
        return judged(case, ("more-memory", f"{told} An input gradient alone frees nothing."), named=True)
    way, fault = closed(schedule, times), _distance(schedule, m, times)
    goals = (("cost", name, None if way >= goal - 1e-6 else fault) for name, goal in GOALS.items())
    return judged(case, None, *goals, named=True)


def _distance(schedule: Schedule, m: int, times: Times) -> Fault:
    """How far a schedule is from the bound, for one that has not reached its goal."""
    p, way, took = schedule.stages, closed(schedule, times), play(schedule, lengths(times)).makespan
    ends = f"it ends at {took:g}; 1F1B ends at {(m + p - 1) * sum(times):g}, the bound is {bound(p, m, times):g}"
    told = f"{ends}: {max(way, 0):.0%} of the way."
    if way > 1e-6:
        return "not-there", f"{told} Draw it: which rank is idle, and which weight gradients could it do there?"
    whole = "The previous stage waits for the whole of an unsplit backward."
    name = "as-1f1b" if way > -1e-6 else "slower-than-1f1b"
    return name, f"{told} {'Who waits for an input gradient?' if schedule.splits else whole}"


CONTEST = {
    "interleaved-rows": Judging(
        shares="values:rows 0.35, cost:memory 0.15, cost:time 0.25, generality:sizes 0.15, generality:refusal 0.1",
        cases=_interleaved_cases,
        verdicts=_interleaved_verdicts,
        why="""Filling and draining take one *stage's* time per rank, and a stage is 1/chunks as long. The price is chunks times as many
messages, and activations of (p − 1)/chunks more micro-batches. In rounds of p, each chunk's first micro-batch comes back just as the
round ends; with a broken round, ranks would wait. Where messages take no time, ranks − 1 − r forwards ahead are enough; doing twice
as many hides the messages.""",
        pytorch="`ScheduleInterleaved1F1B`; Megatron-LM's `--num-layers-per-virtual-pipeline-stage`.",
    ),
    "beat-1f1b": Judging(
        shares="values:rows 0.1, cost:quarter 0.2, cost:half 0.2, cost:nine-tenths 0.2, cost:bound 0.3",
        cases=_contest_cases,
        verdicts=_contest_verdicts,
        why="""1F1B's later ranks hold less than its first. Rank r can put off r weight gradients at no cost in peak memory, and does them
when the pipeline drains; input gradients are computed at once. This order (ZB-H1) ends exactly at the bound, so nothing is better under
these rules. Faster schedules break one: more memory (ZB-H2), other places (ZB-V), no common end.""",
        pytorch="`ScheduleInterleavedZeroBubble` and `ScheduleZBVZeroBubble`; `stage_backward_input` and `stage_backward_weight` do the halves.",
    ),
}
