from course_chapters.ch10.exercises.judges.schedules import longer, runnable
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Wrong, hidden, judged, shown
from course_lib.estimate.units import count_text
from course_lib.parallel.schedules import Schedule, peak_activations
from course_lib.parallel.timeline import Durations

GENERATED = {"naive": "naive_rows", "gpipe": "gpipe_rows", "1f1b": "one_f_one_b_rows"}


def _three_cases(params: Params, rng: Random) -> list[Case]:
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
            order = ", ".join(map(str, back[:6])) + " …" * (len(back) > 6)
            told = (
                f"rank {rank} does its backwards in the order {order}; the exercise asks for them {params['drained']}."
            )
            public = params["drain"] == "last" and back == forth
            return ("public-form", f"this solves the public form: {told}") if public else ("other-drain", told)
    return None


def _memory_fault(schedule: Schedule) -> Fault | None:
    """A stage of 1F1B that holds too much: the one furthest above its limit."""
    limits = [min(schedule.stages - s, schedule.microbatches) for s in range(schedule.stages)]
    over = [held - most for held, most in zip(peak_activations(schedule), limits, strict=True)]
    stage = over.index(max(over))
    most, held = limits[stage], limits[stage] + over[stage]
    if held <= most:
        return None
    told = f"stage {stage} holds {held:g} micro-batches at once; its limit is {most}."
    return Wrong("too-much-memory", told, f"{told} ")


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
    first = f"Rank {rank} does {count_text(ahead[rank], 'forward')} before its first backward"
    return "warm-up-short", f"{found[0]} {first}: can the gradient be back by then?"


JUDGING = Judging(
    many_right=True,
    point=("values:1f1b", "cost:memory", "cost:time"),
    shares="values:naive 0.1, values:gpipe 0.15, values:1f1b 0.15, cost:memory 0.25, cost:time 0.15, "
    "generality:sizes 0.2",
    cases=_three_cases,
    verdicts=_three_verdicts,
    why="""The last stage can start the backward at once, so it holds one micro-batch. Each stage before it needs one
more forward to stay busy until its first gradient returns: stage s holds p − s. GPipe ends no later, but it holds all
m, because it frees the first one only after the last forward.""",
    pytorch="`ScheduleGPipe` and `Schedule1F1B` in `torch.distributed.pipelining`, which writes schedules to CSV in "
    "the same rows.",
)

ANSWERS = r'''from course_lib.parallel.schedules import Op
# %% right: worked
drain = params("three-schedules").drain  # leave as is: where GPipe's backwards begin: "first" or "last"


def naive_rows(stages: int, microbatches: int) -> list[list[tuple[str, int, int]]]:
    """One row per stage: one micro-batch in the pipeline at a time."""
    return [[(kind, s, m) for m in range(microbatches) for kind in "FB"] for s in range(stages)]


def gpipe_rows(stages: int, microbatches: int) -> list[list[tuple[str, int, int]]]:
    """One row per stage: all forwards, then all backwards."""
    there = range(microbatches)
    back = there if drain == "first" else reversed(there)
    order = [("F", m) for m in there] + [("B", m) for m in back]
    return [[(kind, s, m) for kind, m in order] for s in range(stages)]


def one_f_one_b_rows(stages: int, microbatches: int) -> list[list[tuple[str, int, int]]]:
    """One row per stage: fill, then alternate one forward and one backward, then drain."""
    rows = []
    for s in range(stages):
        ahead = min(stages - 1 - s, microbatches)
        row = [("F", s, m) for m in range(ahead)]
        for m in range(microbatches - ahead):
            row += [("F", s, ahead + m), ("B", s, m)]
        rows.append(row + [("B", s, m) for m in range(microbatches - ahead, microbatches)])
    return rows
# %% right: 1F1B by a rule for the next operation, the library's operations
# -         ahead = min(stages - 1 - s, microbatches)
# -         row = [("F", s, m) for m in range(ahead)]
# -         for m in range(microbatches - ahead):
# -             row += [("F", s, ahead + m), ("B", s, m)]
# -         rows.append(row + [("B", s, m) for m in range(microbatches - ahead, microbatches)])
# +         row, forward, backward = [], 0, 0
# +         while backward < microbatches:
# +             if forward < microbatches and forward - backward < stages - s:
# +                 row.append(Op("F", s, forward))
# +                 forward += 1
# +             else:
# +                 row.append(Op("B", s, backward))
# +                 backward += 1
# +         rows.append(row)
# %% right: tuples of rows, with idleness written as None
# ~ [(kind, s, m) for kind, m in order] for s in range(stages)]
# ~~ ==> tuple((kind, s, m) for kind, m in order) for s in range(stages)]
# ~ rows.append(row + ==> rows.append([None] * s + row +
# %% right: one operation after another
# ~ row += [("F", s, ahead + m), ("B", s, m)] ==> row.extend([("F", s, ahead + m)] + [("B", s, m)])
# %% wrong: empty lists => values empty-schedule
# ~ [(kind, s, m) for m in range(microbatches) for kind in "FB"] for s ==> [] for s
# %% wrong: forwards only => values missing
# ~ kind in "FB" ==> kind in "F"
# %% wrong: one row for all ranks => values other-ranks
# ~ for m in range(microbatches) for kind in "FB"] for s in range(stages)]
# ~~ ==> for s in range(stages) for m in range(microbatches) for kind in "FB"]]
# %% wrong: every rank does stage 0 => values wrong-rank
# ~ (kind, s, m) for m in ==> (kind, 0, m) for m in
# %% wrong: naive is GPipe => values not-naive
# ~ for m in range(microbatches) for kind in "FB" ==> for kind in "FB" for m in range(microbatches)
# %% wrong: GPipe is 1F1B => values backward-too-early
# ~ return [[(kind, s, m) for kind, m in order] for s in range(stages)]
# ~~ ==> return one_f_one_b_rows(stages, microbatches)
# %% wrong: GPipe's backwards from the last one => values other-drain unless drain=last
# ~ there if drain == "first" else reversed(there) ==> reversed(there)
# %% wrong: gpipe memory => cost
# > All forwards come first, as in GPipe.
# ~ rows = [] ==> return gpipe_rows(stages, microbatches)
# %% wrong: 1F1B up to 16 micro-batches => cost gpipe-memory
#       rows = []
# +     if microbatches > 16:
# +         return gpipe_rows(stages, microbatches)
# %% wrong: warm up long => cost
# > That is one forward too early.
# ~ min(stages - 1 - s, microbatches) ==> min(stages - s, microbatches)
# %% wrong: all ranks warm up alike => cost too-much-memory
# ~ min(stages - 1 - s, ==> min(stages - 1,
# %% wrong: one forward too late => cost warm-up-short
# ~ min(stages - 1 - s, ==> min(max(0, stages - 2 - s),
# %% wrong: seven stages at most => cost warm-up-short
# ~ min(stages - 1 - s, ==> min(max(0, min(stages, 7) - 1 - s),
# %% wrong: the warm-up of the other end => values deadlock
# > Stage 0 warms up with the fewest forwards here, but waits longest for its first gradient.
# ~ min(stages - 1 - s, microbatches) ==> s
# %% wrong: backward before forward => values order
# ~ kind in "FB" ==> kind in "BF"
# %% wrong: micro-batch before stage => values
# > An operation names its stage first, then the micro-batch; here they are exchanged.
# ~ (kind, s, m) for m in ==> (kind, m, s) for m in
# ~ (kind, s, m) for kind, m in ==> (kind, m, s) for kind, m in
# -     return rows
# +     return [[(kind, m, s) for kind, s, m in row] for row in rows]
# %% wrong: drains twice => values duplicate
# ~ range(microbatches - ahead, microbatches) ==> [*range(microbatches - ahead, microbatches), microbatches - 1]
# %% wrong: fewer micro-batches than stages are not thought of => generality unknown
# ~ min(stages - 1 - s, microbatches) ==> stages - 1 - s
# %% wrong: the library's generators => values raised
# ~ rows = [] ==> return __import__("course_lib.parallel.schedules").schedules.one_f_one_b(stages, microbatches).rows
# %% wrong: a million operations => values too-many-operations
# ~ [(kind, s, m) for m in range(microbatches) for kind in "FB"] for s ==> [("F", s, 0)] * 250_000 for s
# %% wrong: kind last => values no-operation
# ~ (kind, s, m) for m in ==> (s, m, kind) for m in
# %% wrong: split backwards => values other-kind
# ~ kind in "FB" ==> kind in "FIW"
# %% wrong: no row for one stage and one micro-batch => generality empty-schedule
# ~ return rows ==> return rows if stages * microbatches > 1 else []
# %% half: GPipe for 1F1B => 5  from: gpipe memory
# %% half: only the example's size of 1F1B is right => 8
# ~ return rows ==> return rows if microbatches >= stages else []
# %% half: 1F1B with one forward too late => 5  from: one forward too late
'''
