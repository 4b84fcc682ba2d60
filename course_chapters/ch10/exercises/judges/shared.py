"""What several of chapter 10's judges use."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from course_chapters.ch10.exercises.judges.models import SAMPLES, WIDTH
from course_grader.judging import Case, Fault, Outcome, Params, Random
from course_grader.judging.traffic import ready_made
from course_lib.parallel.schedules import Schedule

Op = tuple[str, int, int]  # kind, stage, micro-batch
Rows = list[list[Op]]


def plain(schedule: Schedule) -> Rows:
    return [[(op.kind, op.stage, op.microbatch) for op in row] for row in schedule.rows]


def whole(schedule: Schedule) -> Rows:
    """A split schedule with whole backwards in place of its input gradients: valid, and in an unusual order."""
    return [[("B" if kind == "I" else kind, s, m) for kind, s, m in row if kind != "W"] for row in plain(schedule)]


def shuffled(p: int, m: int, rng: Random, homes: Sequence[int] = ()) -> Rows:
    """A valid schedule of `p` stages in random order: each operation is drawn from those that are ready."""
    homes = homes or range(p)
    rows: Rows = [[] for _ in range(max(homes) + 1)]
    done: set[Op] = set()
    left = [(kind, stage, x) for kind in "FB" for stage in range(p) for x in range(m)]

    def ready(kind: str, s: int, x: int) -> bool:
        if kind == "F":
            return s == 0 or ("F", s - 1, x) in done
        return ("F", s, x) in done and (s == p - 1 or ("B", s + 1, x) in done)

    while left:
        op = rng.choice([op for op in left if ready(*op)])
        rows[homes[op[1]]].append(op)
        done.add(op)
        left.remove(op)
    return rows


def traffic_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """A tensor that crossed twice, went to the wrong rank, or need not have crossed at all."""
    if fault := ready_made(outcome.meter):
        return fault
    homes, nbytes = (case.per_rank or ())[0][0]["homes"], len(case.secret[1]) * SAMPLES * WIDTH * 8
    need: Counter[tuple[int, int]] = Counter()
    for one, other in pairwise(homes):
        if one != other:
            need.update({(one, other): nbytes, (other, one): nbytes})
    sent: Counter[tuple[int, int]] = Counter()
    for src, dst, moved, _ in outcome.meter["pairs"]:
        sent[src, dst] = moved
        told = f"rank {src} sent {moved:,} bytes to rank {dst}, which needs"
        if moved > need[src, dst]:
            return "sent-again" if need[src, dst] else "not-a-neighbor", f"{told} {need[src, dst]:,}."
    for (src, dst), wanted in need.items():
        if sent[src, dst] < wanted:
            return "too-few-bytes", f"rank {src} sent {sent[src, dst]:,} bytes to rank {dst}, which needs {wanted:,}."
    return None
