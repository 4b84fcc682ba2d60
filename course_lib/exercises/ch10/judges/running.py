"""Judges of chapter 10's exercises on real stages: gradients against one process, and what the run cost."""

import random
from collections import Counter
from itertools import pairwise, zip_longest

from course_lib.exercises.ch10.cards.stages import WORK
from course_lib.exercises.ch10.judges.models import SAMPLES, SECONDS, WIDTH, gradients_fault, model_cases
from course_lib.exercises.ch10.judges.validator import plain, shuffled, whole
from course_lib.judging import Fault, Judging, Params, Weighed, oracle
from course_lib.judging.ranks import BUFFER, BUFFERS_LATE, LATE, STREAM, STREAM_LATE
from course_lib.judging.traffic import ready_made
from course_lib.records import Case, Outcome
from course_lib.schedules import gpipe, interleaved, looped, naive, one_f_one_b, v_shaped, zb_v

SLACK = 1.2  # over the time that 1F1B takes where messages take none
ACTIVATIONS = 20_000_000  # bytes that a micro-batch leaves behind where the operating system counts


def _traffic_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
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


def _hang_cases(params: Params, rng: random.Random) -> list[Case]:
    case, p, m = model_cases(rng), params["ranks"], params["microbatches"]
    cases = [
        case(f"{p} ranks, {m} micro-batches", "values:gradients", range(p), m, visible=True),
        case("two ranks, other data", "values:gradients", range(2), 3),
    ]
    for p, m in ((1, 3), (4, 2), (2, 1), (7, 9), (3, 3)):
        name = "one rank alone" if p == 1 else f"{p} ranks, {m} micro-batch{'es' * (m > 1)}"
        cases.append(case(name, "generality:sizes", range(p), m))
    unkind = {
        "safe": ((3, LATE), (4, BUFFER), (3, BUFFERS_LATE)),
        "order": ((4, STREAM), (3, STREAM_LATE), (2, STREAM)),
    }
    for part, adversaries in unkind.items():
        for p, adversary in adversaries:
            cases.append(case(f"{p} ranks, {adversary}", f"protocol:{part}", range(p), 5, adversary=adversary))
    return cases


def _memory_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    m = len(case.secret[1])
    for rank, done in enumerate(outcome.value):
        held, most = done["held"], min(len(outcome.value) - rank, m)
        if held > most:
            gpipe_like = " All its forwards come first, as in GPipe." if held == m else ""
            return "too-much-memory", f"rank {rank} holds {held} micro-batches at once; 1F1B holds {most}.{gpipe_like}"
    return None


def _time_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    m, slot, took = len(case.secret[1]), sum(SECONDS), outcome.meter["seconds"]
    best = (m + (case.ranks or 1) - 1) * slot
    if took > SLACK * best + 1e-9:
        told = f"it takes {took / slot:.3g} times a forward and backward; 1F1B takes {best / slot:.3g}."
        return "slow", f"{told} It no longer hangs; which ranks now wait where 1F1B would let them work?"
    if took < m * slot - 1e-9:
        return "skipped", "it took less time than one stage computes: work was left out."
    return None


def _hang_weighed(params: Params, rng: random.Random) -> Weighed:
    """Two ranks, four micro-batches: 1F1B holds two and one at once, one more forward ahead makes it four, GPipe eight."""
    case = model_cases(rng)
    task, copies = ("cost:memory", range(2), 4), ACTIVATIONS // (SAMPLES * WIDTH * 8)
    large = case("two ranks, 4 micro-batches that leave 20 MB each", *task, copies=copies, seconds=30.0)
    warm = case("two ranks, 4 small micro-batches", *task, copies=100, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        return not WORK.find(outcome.value, large.name, large) and not gradients_fault(params, large, outcome)

    return Weighed(case=large, warm=warm, most=3.5 * ACTIVATIONS, done=done)


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


RUNNING = {
    "deadlocked-1f1b": Judging(
        point=("cost:memory", "protocol:safe"),
        shares="values:gradients 0.25, cost:memory 0.25, cost:time 0.1, cost:once 0.05, protocol:safe 0.1, "
        "protocol:order 0.15, generality:sizes 0.1",
        measured_by_worker=("cost:memory",),
        cases=_hang_cases,
        verdicts=oracle(
            gradients_fault,
            {"cost:memory": _memory_fault, "cost:time": _time_fault, "cost:once": _traffic_fault},
            named=True,
        ),
        weighed=_hang_weighed,
        why="""In the steady phase two neighbors always have something to send to each other. Operations in one batch have no order, so neither
rank waits for a receive that comes after the other's send. Taking turns (even ranks send first) works as well. Starting the sends and
continuing works without buffers, but not if the operations of a pair of ranks run in the order in which they were issued.""",
        pytorch="Megatron-LM's `send_forward_recv_backward` and `send_backward_recv_forward`; `_batch_p2p` in `torch.distributed.pipelining`.",
    ),
    "run-any-schedule": Judging(
        point=("generality:schedules",),
        shares="values:gradients 0.35, cost:once 0.1, protocol:safe 0.15, protocol:rows 0.1, generality:schedules 0.3",
        measured_by_worker=("protocol:rows",),
        cases=_any_cases,
        verdicts=oracle(gradients_fault, {"protocol:rows": _order_fault, "cost:once": _traffic_fault}, named=True),
        why="""The rules of the pipeline and the homes of the stages say what an operation needs and who needs its result; the schedule
only says when. A message that carries its identity in its tag can be awaited in any order.""",
        pytorch="`_PipelineScheduleRuntime` runs any schedule given as rows; it inserts `SEND` and `RECV` operations into them first.",
    ),
}
