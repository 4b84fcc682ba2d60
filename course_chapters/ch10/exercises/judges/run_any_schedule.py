from itertools import zip_longest

from course_chapters.ch10.exercises.judges.models import gradients_fault, model_cases
from course_chapters.ch10.exercises.judges.shared import plain, shuffled, traffic_fault, whole
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, oracle
from course_grader.judging.ranks import BUFFER, BUFFERS_LATE, LATE
from course_lib.parallel.schedules import gpipe, interleaved, looped, naive, one_f_one_b, v_shaped, zb_v


def _any_cases(params: Params, rng: Random) -> list[Case]:
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
    why="""The rules of the pipeline and the homes of the stages say what an operation needs and who needs its result;
the schedule only says when. A message that carries its identity in its tag can be awaited in any order.""",
    pytorch="`_PipelineScheduleRuntime` runs any schedule given as rows; it inserts `SEND` and `RECV` operations "
    "into them first.",
)

ANSWERS = r'''# %% right: worked
def run_rows(comm, rows, homes, forward, backward, empty):
    """None. Run this rank's row in order; send and receive what crosses a border between ranks."""
    here, sent, last = {}, [], len(homes) - 1
    for kind, stage, m in rows[comm.rank]:
        step = 1 if kind == "F" else -1
        maker, taker, given = stage - step, stage + step, None
        if 0 <= maker <= last:
            if homes[maker] == comm.rank:
                given = here.pop((kind, maker, m))
            else:
                comm.recv(given := empty(), homes[maker], tag=2 * (maker * 10_000 + m) + (kind == "B"))
        made = (forward if kind == "F" else backward)(stage, m, given)
        if 0 <= taker <= last and homes[taker] == comm.rank:
            here[kind, stage, m] = made
        elif 0 <= taker <= last:
            tag = 2 * (stage * 10_000 + m) + (kind == "B")
            sent.append((comm.isend(made, homes[taker], tag=tag), made))
    for work, _ in sent:
        work.wait()
# %% right: a tag for the micro-batch is enough, since what it needs comes in the order of its way
# ~ tag=2 * (maker * 10_000 + m) + (kind == "B") ==> tag=m
# ~ tag = 2 * (stage * 10_000 + m) + (kind == "B") ==> tag = m
# %% right: no tags, all ranks go through all operations in one order that they work out alike
def run_rows(comm, rows, homes, forward, backward, empty):
    left, done, here, last = [list(row) for row in rows], set(), {}, len(homes) - 1
    while any(left):
        for row in filter(None, left):
            kind, stage, m = row[0]
            step = 1 if kind == "F" else -1
            maker, taker = (kind, stage - step, m), stage + step
            if 0 <= stage - step <= last and maker not in done:
                continue
            done.add(row.pop(0))
            target = homes[taker] if 0 <= taker <= last else None
            if homes[stage] == comm.rank:
                made = (forward if kind == "F" else backward)(stage, m, here.pop(maker, None))
                if target == comm.rank:
                    here[kind, stage, m] = made
                elif target is not None:
                    comm.send(made, target)
            elif target == comm.rank:
                here[kind, stage, m] = empty()
                comm.recv(here[kind, stage, m], homes[stage])
# %% wrong: sends block => protocol deadlock
# ~ sent.append((comm.isend(made, homes[taker], tag=tag), made)) ==> comm.send(made, homes[taker], tag=tag)
# %% wrong: without tags, in the order in which things come => generality wrong-pairing
# ~ , tag=2 * (maker * 10_000 + m) + (kind == "B") ==>
# ~ , tag=tag) ==> )
# %% wrong: tags for eight micro-batches => generality wrong-pairing
# ~ tag=2 * (maker * 10_000 + m) + (kind == "B") ==> tag=m % 8
# ~ tag = 2 * (stage * 10_000 + m) + (kind == "B") ==> tag = m % 8
# %% wrong: receives from anyone without a tag => values wrong-pairing
# ~~ from: without tags, in the order in which things come
# ~ empty(), homes[maker]) ==> empty())
# %% wrong: the neighbor's rank is taken to be one more => generality raised
# ~ if homes[maker] == comm.rank: ==> if False:
# ~ empty(), homes[maker], ==> empty(), comm.rank - step,
# ~ homes[taker] == comm.rank: ==> False:
# ~ isend(made, homes[taker], ==> isend(made, comm.rank + step,
# %% wrong: sends to itself => generality raised
# ~ if homes[maker] == comm.rank: ==> if False:
# ~ homes[taker] == comm.rank: ==> False:
# %% wrong: each rank has a stage => generality raised
# ~ here, sent, last = {}, [], len(homes) - 1 ==> here, sent, last, _ = {}, [], len(homes) - 1, homes.index(comm.rank)
# %% wrong: the schedule is GPipe, whatever was given => protocol another-order
# ~ in rows[comm.rank]:
# ~~ ==> in sorted(rows[comm.rank], key=lambda op: (op[0] == "B", op[1] if op[0] == "F" else -op[1], op[2])):
# %% wrong: forwards only => values zero-gradients  from: sends to itself
# ~ rows[comm.rank]: ==> [op for op in rows[comm.rank] if op[0] == "F"]:
# %% wrong: leaves out the last operation of every row => values micro-batches-left
# ~ rows[comm.rank]: ==> rows[comm.rank][:-1]:
# %% wrong: its own row is used up => values changed-arguments
# ~ in rows[comm.rank]: ==> in iter(lambda: rows[comm.rank].pop(0) if rows[comm.rank] else None, None):
# %% wrong: tells every rank, and whoever needs it takes it => cost not-a-neighbor
#       here, sent, last = {}, [], len(homes) - 1
# +     for rank, row in enumerate(rows):
# +         for kind, stage, m in row:
# +             if rank != comm.rank and 0 <= stage + (1 if kind == "F" else -1) <= last:
# +                 sent.append((comm.irecv(into := empty(), rank, tag=m + 1000 * stage + 10**6 * (kind == "B") +
# ~~ 10**8), into))
#           made = (forward if kind == "F" else backward)(stage, m, given)
# +         for rank in set(range(comm.size)) - {comm.rank} if made is not None else ():
# +             sent.append((comm.isend(made, rank, tag=m + 1000 * stage + 10**6 * (kind == "B") + 10**8), made))
# %% wrong: the library's runner => values raised
# ~ here, sent, last = {}, [], len(homes) - 1 ==> return __import__("course_lib.parallel.pipeline").pipeline.run(comm)
# %% half: stage and rank are one => 6  from: the neighbor's rank is taken to be one more
'''
