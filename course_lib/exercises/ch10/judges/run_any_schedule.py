"""Judge of run-any-schedule: run any schedule."""

import random
from itertools import zip_longest

from course_lib.exercises.ch10.judges.models import gradients_fault, model_cases
from course_lib.exercises.ch10.judges.shared import plain, shuffled, traffic_fault, whole
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.ranks import BUFFER, BUFFERS_LATE, LATE
from course_lib.records import Case, Outcome
from course_lib.schedules import gpipe, interleaved, looped, naive, one_f_one_b, v_shaped, zb_v


def _any_cases(params: Params, rng: random.Random) -> list[Case]:
    case, p, m = model_cases(rng), params["ranks"], params["microbatches"]
    cases = [
        case(f"1F1B, {p} ranks", "values:gradients", range(p), m, rows=plain(one_f_one_b(p, m)), visible=True),
        case("GPipe, 3 ranks", "values:gradients", range(3), 4, rows=plain(gpipe(3, 4))),
    ]

    def unplanned(homes: tuple[int, ...], m: int) -> tuple:
        return homes, m, shuffled(len(homes), m, rng, homes)

    for name, (homes, m, rows) in {
        "naive, 3 ranks": (range(3), 3, plain(naive(3, 3))),
        "interleaved, 2 ranks of 2 chunks": (looped(2, 2), 4, plain(interleaved(2, 4))),
        "interleaved, 3 ranks of 2 chunks": (looped(3, 2), 3, plain(interleaved(3, 3))),
        "a V, 3 ranks": (v_shaped(3), 5, whole(zb_v(3, 5))),
        "an order without a plan, 3 ranks": unplanned((0, 1, 2), 5),
        "stages scattered over 6 ranks, two without a stage": unplanned((5, 2, 1, 5, 0), 4),
        "stages in a loop, an order without a plan": unplanned(looped(2, 2), 12),
        "one rank with three stages": unplanned((0, 0, 0), 3),
        "neighbors on one rank": unplanned((0, 0, 1, 1), 4),
    }.items():
        cases.append(case(name, "generality:schedules", homes, m, rows=rows))
    for adversary in (LATE, BUFFER, BUFFERS_LATE):
        fields = {"rows": plain(one_f_one_b(3, 4)), "adversary": adversary}
        cases.append(case(f"1F1B on 3 ranks, {adversary}", "protocol:safe", range(3), 4, **fields))
    fields = {"rows": plain(interleaved(2, 4)), "adversary": LATE}
    return [*cases, case(f"interleaved, {LATE}", "generality:schedules", looped(2, 2), 4, **fields)]


def _order_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (done, row) in enumerate(zip(outcome.value, (case.per_rank or ())[0][0]["rows"], strict=True)):
        order = [tuple(op) for op in done["order"]]
        if order != row:
            at = next(place for place, (op, want) in enumerate(zip_longest(order, row)) if op != want)
            return "another-order", f"rank {rank} departs from its row at operation {at}; run each row in its order."
    return None


JUDGING = Judging(
    point=("generality:schedules",),
    shares="values:gradients 0.35, cost:once 0.1, protocol:safe 0.15, protocol:rows 0.1, generality:schedules 0.3",
    measured_by_worker=("protocol:rows",),
    cases=_any_cases,
    verdicts=oracle(gradients_fault, {"protocol:rows": _order_fault, "cost:once": traffic_fault}, named=True),
    why="""The rules of the pipeline and the homes of the stages say what an operation needs and who needs its result; the schedule
only says when. A message that carries its identity in its tag can be awaited in any order.""",
    pytorch="`_PipelineScheduleRuntime` runs any schedule given as rows; it inserts `SEND` and `RECV` operations into them first.",
)

ANSWERS = r'''import torch


def tag(kind, stage, m):
    """A number for what an operation made."""
    return 2 * (stage * 10_000 + m) + (kind == "B")


def maker(kind, stage, m, homes):
    """The operation whose result this one needs from another stage, or None."""
    if kind == "F":
        return ("F", stage - 1, m) if stage else None
    return ("B", stage + 1, m) if stage < len(homes) - 1 else None


# %% right: receive just before, start the sends and wait in the end
def run_rows(comm, rows, homes, forward, backward, empty):
    here, works = {}, []
    for kind, stage, m in rows[comm.rank]:
        needs, given = maker(kind, stage, m, homes), None
        if needs and homes[needs[1]] == comm.rank:
            given = here.pop(needs)
        elif needs:
            given = empty()
            comm.recv(given, homes[needs[1]], tag(*needs))
        made = (forward if kind == "F" else backward)(stage, m, given)
        if made is None:
            continue
        target = homes[stage + 1 if kind == "F" else stage - 1]
        if target == comm.rank:
            here[kind, stage, m] = made
        else:
            works.append(comm.isend(made, target, tag(kind, stage, m)))
    for work in works:
        work.wait()


# %% right: no tags, all ranks go through all operations in one order that they work out alike
def run_rows(comm, rows, homes, forward, backward, empty):
    done, at, order = set(), [0] * len(rows), []
    while any(place < len(row) for place, row in zip(at, rows)):
        for rank, row in enumerate(rows):
            if at[rank] < len(row):
                op = tuple(row[at[rank]])
                needs = maker(*op, homes)
                if needs is None or needs in done:
                    order.append(op)
                    done.add(op)
                    at[rank] += 1
    here = {}
    for op in order:
        kind, stage, m = op
        if homes[stage] == comm.rank:
            needs = maker(*op, homes)
            made = (forward if kind == "F" else backward)(stage, m, here.pop(needs) if needs else None)
            if made is None:
                continue
            target = homes[stage + 1 if kind == "F" else stage - 1]
            if target == comm.rank:
                here[op] = made
            else:
                comm.send(made, target)
        else:
            target = stage + 1 if kind == "F" else stage - 1
            if 0 <= target < len(homes) and homes[target] == comm.rank:
                here[op] = empty()
                comm.recv(here[op], homes[stage])


# %% right: a tag for the micro-batch is enough, since what it needs comes in the order of its way  from: receive just before, start the sends and wait in the end
# ~ tag(*needs) ==> m
# ~ tag(kind, stage, m) ==> m

# %% wrong: sends block => protocol deadlock  from: receive just before, start the sends and wait in the end
# ~ here, works = {}, [] ==> here = {}
# -             works.append(comm.isend(made, target, tag(kind, stage, m)))
# -     for work in works:
# -         work.wait()
# +             comm.send(made, target, tag(kind, stage, m))

# %% wrong: without tags, in the order in which things come => generality wrong-pairing  from: receive just before, start the sends and wait in the end
# ~ (given, homes[needs[1]], tag(*needs)) ==> (given, homes[needs[1]])
# ~ (comm.isend(made, target, tag(kind, stage, m))) ==> (comm.isend(made, target))


# %% wrong: the neighbor's rank is taken to be one more => generality -
def run_rows(comm, rows, homes, forward, backward, empty):
    works, last = [], comm.size - 1
    for kind, stage, m in rows[comm.rank]:
        given = None
        source = comm.rank - 1 if kind == "F" else comm.rank + 1
        if 0 <= source <= last:
            given = empty()
            comm.recv(given, source, tag(*maker(kind, stage, m, homes)))
        made = (forward if kind == "F" else backward)(stage, m, given)
        if made is not None:
            works.append(comm.isend(made, comm.rank + (1 if kind == "F" else -1), tag(kind, stage, m)))
    for work in works:
        work.wait()


# %% wrong: sends to itself => generality raised  from: receive just before, start the sends and wait in the end
# ~ needs and homes[needs[1]] == comm.rank: ==> False:
# ~ target == comm.rank: ==> False:

# %% wrong: the schedule is GPipe, whatever was given => protocol another-order  from: receive just before, start the sends and wait in the end
# -     for kind, stage, m in rows[comm.rank]:
# +     row = sorted(rows[comm.rank], key=lambda op: (op[0] == "B", op[1] if op[0] == "F" else -op[1], op[2]))
# +     for kind, stage, m in row:

# %% wrong: forwards only => values zero-gradients  from: sends to itself
# ~ rows[comm.rank] ==> [op for op in rows[comm.rank] if op[0] == "F"]


# %% wrong: tells every rank, and whoever needs it takes it => cost not-a-neighbor
def run_rows(comm, rows, homes, forward, backward, empty):
    arriving, works = {}, []
    for rank, row in enumerate(rows):
        for kind, stage, m in row:
            last = kind == "F" and stage == len(homes) - 1 or kind == "B" and stage == 0
            if rank != comm.rank and not last:
                into = empty()
                arriving[kind, stage, m] = into, comm.irecv(into, rank, tag(kind, stage, m))
    for kind, stage, m in rows[comm.rank]:
        needs, given = maker(kind, stage, m, homes), None
        if needs:
            given, work = arriving[needs]
            if work:
                work.wait()
        made = (forward if kind == "F" else backward)(stage, m, given)
        if made is None:
            continue
        arriving[kind, stage, m] = made, None
        works += [comm.isend(made, rank, tag(kind, stage, m)) for rank in range(comm.size) if rank != comm.rank]
    for work in works + [work for _, work in arriving.values() if work]:
        work.wait()


# %% wrong: the library's runner => values -
def run_rows(comm, rows, homes, forward, backward, empty):
    from course_lib.pipeline import run
    from course_lib.schedules import schedule_of

    microbatches = 1 + max(op[2] for op in rows[0])
    run(comm, schedule_of(rows, microbatches, [tuple(homes)]), {comm.rank: forward}, None, None, None, (5,))


# %% wrong: leaves out the last operation of every row => values -  from: receive just before, start the sends and wait in the end
# ~ for kind, stage, m in rows[comm.rank]: ==> for kind, stage, m in rows[comm.rank][:-1]:

# %% wrong: receives from anyone without a tag => values -  from: without tags, in the order in which things come
# ~ (given, homes[needs[1]]) ==> (given)

# %% wrong: tags for eight micro-batches => generality wrong-pairing  from: receive just before, start the sends and wait in the end
# ~ tag(*needs) ==> m % 8
# ~ tag(kind, stage, m) ==> m % 8

# %% wrong: each rank has a stage => generality raised  from: receive just before, start the sends and wait in the end
# ~ here, works = {}, [] ==> here, works, first = {}, [], homes.index(comm.rank)

# %% half: stage and rank are one => 6  from: the neighbor's rank is taken to be one more

# %% wrong: its own row is used up => values changed-arguments  from: receive just before, start the sends and wait in the end
# -     for kind, stage, m in rows[comm.rank]:
# +     mine = rows[comm.rank]
# +     while mine:
# +         kind, stage, m = mine.pop(0)
'''
