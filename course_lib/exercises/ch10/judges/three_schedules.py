"""Judge of three-schedules: three schedules from their rules."""

import random

from course_lib.exercises.ch10.judges.schedules import longer, runnable
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, peak_activations
from course_lib.timeline import Durations

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


JUDGING = Judging(
    point=("values:1f1b", "cost:memory", "cost:time"),
    shares="values:naive 0.1, values:gpipe 0.15, values:1f1b 0.15, cost:memory 0.25, cost:time 0.15, "
    "generality:sizes 0.2",
    cases=_three_cases,
    verdicts=_three_verdicts,
    why="""The last stage can start the backward at once, so it holds one micro-batch. Each stage before it needs one more forward to stay
busy until its first gradient returns: stage s holds p − s. GPipe ends no later, but it holds all m, because it frees the first one only
after the last forward.""",
    pytorch="`ScheduleGPipe` and `Schedule1F1B` in `torch.distributed.pipelining`, which writes schedules to CSV in the same rows.",
)

ANSWERS = r'''from course_lib.schedules import Op


def ops(kind, stage, numbers):
    """Operations of one kind on one stage."""
    return [(kind, stage, each) for each in numbers]


def good_naive(stages, microbatches):
    """One at a time."""
    return [[(kind, s, m) for m in range(microbatches) for kind in "FB"] for s in range(stages)]


def good_gpipe(stages, microbatches):
    """Forwards, then backwards."""
    return [ops("F", s, range(microbatches)) + ops("B", s, range(microbatches)) for s in range(stages)]


def good_1f1b(stages, microbatches, more=0):
    """Fill, alternate, drain; `more` forwards ahead than need be."""
    rows = []
    for s in range(stages):
        ahead = max(0, min(stages - 1 - s + more, microbatches))
        row = ops("F", s, range(ahead))
        for m in range(microbatches):
            row += ops("F", s, range(ahead + m, min(ahead + m + 1, microbatches))) + ops("B", s, [m])
        rows.append(row)
    return rows


# %% right: fill, alternate, drain
def naive_rows(stages, microbatches):
    return [[(kind, s, m) for m in range(microbatches) for kind in "FB"] for s in range(stages)]


def gpipe_rows(stages, microbatches):
    return [[(kind, s, m) for kind in "FB" for m in range(microbatches)] for s in range(stages)]


def one_f_one_b_rows(stages, microbatches):
    rows = []
    for s in range(stages):
        ahead = min(stages - 1 - s, microbatches)
        row = [("F", s, m) for m in range(ahead)]
        for m in range(microbatches - ahead):
            row += [("F", s, ahead + m), ("B", s, m)]
        rows.append(row + [("B", s, m) for m in range(microbatches - ahead, microbatches)])
    return rows


# %% right: the library's operations, and 1F1B by a rule for the next one
def naive_rows(stages, microbatches):
    return [[Op(kind, s, m) for m in range(microbatches) for kind in "FB"] for s in range(stages)]


def gpipe_rows(stages, microbatches):
    return tuple(tuple(Op(kind, s, m) for kind in "FB" for m in range(microbatches)) for s in range(stages))


def one_f_one_b_rows(stages, microbatches):
    rows = []
    for s in range(stages):
        row, forward, backward = [], 0, 0
        while backward < microbatches:
            if forward < microbatches and forward - backward < stages - s:
                row.append(Op("F", s, forward))
                forward += 1
            else:
                row.append(Op("B", s, backward))
                backward += 1
        rows.append(row)
    return rows


# %% right: lists, with idleness written as None
naive_rows, one_f_one_b_rows = (
    lambda p, m, rows=rows: [[None] * s + row for s, row in enumerate(rows(p, m))] for rows in (good_naive, good_1f1b)
)
gpipe_rows = good_gpipe


# %% right: any variant
from course_lib import params

VARIANT = params("three-schedules")


naive_rows, one_f_one_b_rows = good_naive, good_1f1b


def gpipe_rows(stages, microbatches):
    drained = range(microbatches) if VARIANT.drain == "first" else range(microbatches)[::-1]
    return [ops("F", s, range(microbatches)) + ops("B", s, drained) for s in range(stages)]


# %% wrong: empty lists => values empty-schedule
def naive_rows(stages, microbatches):
    return [[] for _ in range(stages)]


gpipe_rows = one_f_one_b_rows = naive_rows


# %% wrong: forwards only => values missing  from: empty lists
# ~ return [[] for _ in range(stages)] ==> return [ops("F", s, range(microbatches)) for s in range(stages)]


# %% wrong: one row for all ranks => values other-ranks
def naive_rows(stages, microbatches):
    return [[op for row in good_naive(stages, microbatches) for op in row]]


gpipe_rows, one_f_one_b_rows = good_gpipe, good_1f1b


# %% wrong: every rank does stage 0 => values wrong-rank  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     return [[(kind, 0, m) for m in range(microbatches) for kind in "FB"] for _ in range(stages)]


# %% wrong: naive is GPipe => values not-naive
naive_rows, gpipe_rows, one_f_one_b_rows = good_gpipe, good_gpipe, good_1f1b


# %% wrong: GPipe is 1F1B => values backward-too-early
naive_rows, gpipe_rows, one_f_one_b_rows = good_naive, good_1f1b, good_1f1b


# %% wrong: GPipe's backwards from the last one => values other-drain unless drain=last
def gpipe_rows(stages, microbatches):
    return [ops("F", s, range(microbatches)) + ops("B", s, reversed(range(microbatches))) for s in range(stages)]


naive_rows, one_f_one_b_rows = good_naive, good_1f1b


# %% wrong: 1F1B is GPipe => cost gpipe-memory
naive_rows, gpipe_rows, one_f_one_b_rows = good_naive, good_gpipe, good_gpipe


# %% wrong: one forward too early => cost warm-up-long
def one_f_one_b_rows(stages, microbatches):
    return good_1f1b(stages, microbatches, more=1)


naive_rows, gpipe_rows = good_naive, good_gpipe


# %% wrong: one forward too late => cost warm-up-short  from: one forward too early
# ~ good_1f1b(stages, microbatches, more=1) ==> good_1f1b(stages, microbatches, more=-1)

# %% wrong: all ranks warm up alike => cost too-much-memory  from: fill, alternate, drain
# ~ 1 - s, ==> 1,

# %% wrong: the warm-up of the other end => values deadlock  from: fill, alternate, drain
# ~ min(stages - 1 - s, microbatches) ==> s

# %% wrong: backward before forward => values order  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     return [[(kind, s, m) for m in range(microbatches) for kind in "BF"] for s in range(stages)]

# %% wrong: micro-batch and stage the wrong way round => values -  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     return [[(kind, m, s) for m in range(microbatches) for kind in "FB"] for s in range(stages)]

# %% wrong: drains twice => values duplicate  from: one forward too early
# -     return good_1f1b(stages, microbatches, more=1)
# +     return [row + [("B", s, microbatches - 1)] for s, row in enumerate(good_1f1b(stages, microbatches))]

# %% wrong: fewer micro-batches than stages are not thought of => generality -  from: fill, alternate, drain
# ~ min(stages - 1 - s, microbatches) ==> stages - 1 - s

# %% wrong: the library's generators => values raised  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     from course_lib.schedules import naive
# +     return naive(stages, microbatches).rows

# %% wrong: a million operations => values too-many-operations  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     return [[("F", s, 0)] * 250_000 for s in range(stages)]

# %% wrong: kind last => values no-operation  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     return [[(s, m, kind) for m in range(microbatches) for kind in "FB"] for s in range(stages)]

# %% wrong: split backwards => values other-kind  from: one row for all ranks
# -     return [[op for row in good_naive(stages, microbatches) for op in row]]
# +     return [[(kind, s, m) for m in range(microbatches) for kind in "FIW"] for s in range(stages)]

# %% wrong: seven stages at most => cost warm-up-short  from: fill, alternate, drain
# ~ min(stages - 1 - s, microbatches) ==> max(0, min(min(stages, 7) - 1 - s, microbatches))

# %% wrong: 1F1B up to 16 micro-batches => cost gpipe-memory  from: one forward too early
# ~ good_1f1b(stages, microbatches, more=1) ==> (good_gpipe if microbatches > 16 else good_1f1b)(stages, microbatches)

# %% wrong: no row for one stage and one micro-batch => generality empty-schedule  from: one forward too early
# ~ good_1f1b(stages, microbatches, more=1) ==> good_1f1b(stages, microbatches) if stages * microbatches > 1 else []

# %% half: GPipe for 1F1B => 5  from: 1F1B is GPipe

# %% half: only the example's size of 1F1B is right => 8  from: one forward too early
# -     return good_1f1b(stages, microbatches, more=1)
# +     if microbatches < stages:
# +         return []
# +     return good_1f1b(stages, microbatches)

# %% half: naive for 1F1B => 5  from: one forward too late
'''
