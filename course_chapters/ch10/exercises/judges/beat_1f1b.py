from course_chapters.ch10.exercises.judges.schedules import runnable
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, hidden, judged, shown
from course_lib.parallel.schedules import Schedule, peak_activations
from course_lib.parallel.timeline import Durations, play

Times = tuple[float, float, float]  # of a forward, an input gradient and a weight gradient
GOALS = {"quarter": 0.25, "half": 0.5, "nine-tenths": 0.9, "bound": 1.0}
SETTINGS = ((1.0, 1.0, 1.0), (2.0, 3.0, 1.0), (1.0, 0.4, 2.0), (2.0, 2.0, 1.0), (1.0, 1.5, 0.25))


def bound(stages: int, microbatches: int, times: Times) -> float:
    """No schedule with stage s on rank s and at most `stages` micro-batches held on any rank ends before this.

    Rank s works m(F + I + W). Its first input gradient cannot start before one micro-batch has gone forward through all
    p stages and back through p − 1 − s. Until then the rank can only do forwards: at most k = min(p, m) by memory, and
    none before sF. After its last input gradient that micro-batch needs s more input gradients and one weight gradient,
    while the rank can only do the weight gradients of what it still holds, at most k. The remainder of the two
    stretches is idle.
    """
    forward, inner, outer = times
    p, k = stages, min(stages, microbatches)
    return microbatches * sum(times) + max(
        max(s * forward, p * forward + (p - 1 - s) * inner - k * forward) + max(0.0, s * inner + outer - k * outer)
        for s in range(p)
    )


def lengths(times: Times) -> Durations:
    forward, inner, outer = times
    return Durations(forward=forward, backward=inner + outer, input_gradient=inner, weight_gradient=outer)


def closed(schedule: Schedule, times: Times) -> float:
    """How close a schedule comes to the bound: 0 if it ends with 1F1B, 1 at the bound."""
    p, m = schedule.stages, schedule.microbatches
    start, end = (m + p - 1) * sum(times), bound(p, m, times)
    return (start - play(schedule, lengths(times)).makespan) / (start - end)


def _contest_cases(params: Params, rng: Random) -> list[Case]:
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


JUDGING = Judging(
    shares="values:rows 0.1, cost:quarter 0.2, cost:half 0.2, cost:nine-tenths 0.2, cost:bound 0.3",
    cases=_contest_cases,
    verdicts=_contest_verdicts,
    why="""1F1B's later ranks hold less than its first. Rank r can put off r weight gradients at no cost in peak memory,
and does them when the pipeline drains; input gradients are computed at once. This order (ZB-H1) ends exactly at the
bound, so nothing is better under these rules. Faster schedules break one: more memory (ZB-H2), other places (ZB-V), no
common end.""",
    pytorch="`ScheduleInterleavedZeroBubble` and `ScheduleZBVZeroBubble`; `stage_backward_input` and "
    "`stage_backward_weight` do the halves.",
)

ANSWERS = r'''from course_lib.parallel.schedules import peak_activations, schedule_of
from course_lib.parallel.timeline import Durations
# %% right: worked
def split_rows(stages, microbatches, times):
    """Rows of F, I and W (or B) that end before 1F1B and hold no more than 1F1B's fullest rank."""
    rows = []
    for s in range(stages):
        ahead = min(stages - 1 - s, microbatches)
        row, owed = [("F", s, m) for m in range(ahead)], []
        for m in range(microbatches):
            if ahead + m < microbatches:
                row.append(("F", s, ahead + m))
            row.append(("I", s, m))
            owed.append(("W", s, m))
            if len(owed) > s:
                row.append(owed.pop(0))
        rows.append(row + owed)
    return rows
# %% right: tries how many to put off on each rank, and keeps what ends first
# ~ def split_rows(stages, microbatches, times): ==> def built(stages, microbatches, slope, shift):
# ~ if len(owed) > s: ==> if len(owed) > max(0, round(slope * s) + shift):
#       return rows
# + def split_rows(stages, microbatches, times):
# +     forward, inner, outer = times
# +     lengths = Durations(forward=forward, backward=inner + outer, input_gradient=inner, weight_gradient=outer)
# +     tried = [built(stages, microbatches, slope, shift) for slope in (0, 0.5, 1) for shift in (-1, 0, 1, 2)]
# +     fit = [rows for rows in tried if max(peak_activations(schedule_of(rows, microbatches))) <= stages]
# +     return min(fit, key=lambda rows: play(schedule_of(rows, microbatches), lengths).makespan)
# %% right: with whole backwards on the first rank
# ~ rows.append(row + owed)
# ~~ ==> rows.append(row + owed if s else [("B" if op[0] == "I" else op[0], *op[1:]) for op in row if op[0] != "W"])
# %% wrong: 1F1B itself => cost as-1f1b
# ~ rows.append(row + owed) ==> rows.append([("B" if op[0] == "I" else op[0], *op[1:]) for op in row if op[0] != "W"])
# %% wrong: 1F1B where stages and micro-batches are as many => cost as-1f1b
# ~ if len(owed) > s: ==> if len(owed) > s * (stages != microbatches):
#                   row.append(owed.pop(0))
# +         if stages == microbatches:
# +             row = [("B" if op[0] == "I" else op[0], *op[1:]) for op in row if op[0] != "W"]
# %% wrong: split, and W at once after I => cost not-there
# ~ if len(owed) > s: ==> if owed:
# %% wrong: one micro-batch at a time => cost slower-than-1f1b
# ~ min(stages - 1 - s, microbatches) ==> 0
# ~ if len(owed) > s: ==> if owed:
# %% wrong: GPipe => values more-memory
# ~ min(stages - 1 - s, microbatches) ==> microbatches
# %% wrong: one put off everywhere => values more-memory
# ~ if len(owed) > s: ==> if len(owed) > 1:
# %% wrong: no weight gradients at all => values missing
# ~ owed.append(("W", s, m)) ==> pass
# %% wrong: no operations, which ends before any bound => values empty-schedule
# ~ rows.append(row + owed) ==> rows.append([])
# %% wrong: half of the micro-batches => values missing
# ~ rows = [] ==> rows, microbatches = [], microbatches // 2
# %% wrong: weight gradient before input gradient => values weight-before-input
# ~ row.append(("I", s, m)) ==> row.append(("W", s, m))
# ~ owed.append(("W", s, m)) ==> owed.append(("I", s, m))
# %% wrong: both the whole backward and its halves => values duplicate
# ~ row.append(("I", s, m)) ==> row.append(("B", s, m))
# %% wrong: other ranks for the last stages, a V => values wrong-rank
# ~ return rows ==> return rows[::-1]
# %% wrong: by GENERATORS => values raised
# ~ return rows
# ~~ ==> return __import__("course_lib.parallel.schedules").schedules.GENERATORS["zb_h1"](stages, microbatches).rows
# %% wrong: remembers rows by stages and times => values ~
# ~ def split_rows(stages, microbatches, times): ==> def split_rows(stages, microbatches, times, kept={}):
# ~ rows = [] ==> rows, microbatches = [], kept.setdefault((stages, tuple(times)), microbatches)
# %% half: as good as 1F1B => 1.2  from: 1F1B itself
# %% half: W at once after I => 6  from: split, and W at once after I
# %% half: one put off but on the first => 6
# ~ if len(owed) > s: ==> if len(owed) > min(s, 1):
'''
