"""Judges of chapter 10's exercises on real stages: gradients against one process, and what the run cost."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from course_lib.exercises.ch10.judges.models import SAMPLES, SECONDS, WIDTH, alike, drawn, gradients_fault, serial, told
from course_lib.exercises.ch10.judges.validator import plain, shuffled, whole
from course_lib.judging import Fault, Judging, Params, Weighed, judged
from course_lib.judging.ranks import BUFFER, BUFFERS_LATE, LATE, STREAM, STREAM_LATE
from course_lib.judging.traffic import Meter, ready_made
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import gpipe, interleaved, looped, naive, one_f_one_b, v_shaped, zb_v

SLACK = 1.2  # over the time that 1F1B takes where messages take none
ACTIVATIONS = 20_000_000  # bytes that a micro-batch leaves behind where the operating system counts

# --- costs


def _crossings(homes: Sequence[int]) -> dict[tuple[int, int], int]:
    """By pair of ranks the messages that one micro-batch takes."""
    found: dict[tuple[int, int], int] = {}
    for a, b in zip(homes, homes[1:], strict=False):
        for pair in ((a, b), (b, a)) if a != b else ():
            found[pair] = found.get(pair, 0) + 1
    return found


def traffic_fault(case: Case, meter: Meter) -> Fault | None:
    """A tensor that crossed twice, went to somebody else, or need not have crossed at all."""
    if fault := ready_made(meter):
        return fault
    spec = (case.per_rank or ())[0][0]
    size = SAMPLES * WIDTH * 8
    need = {pair: count * spec["microbatches"] * size for pair, count in _crossings(spec["homes"]).items()}
    for src, dst, moved, _ in meter["pairs"]:
        if moved and (src, dst) not in need:
            return (
                "not-a-neighbour",
                f"{case.name}: rank {src} sent {moved:,} bytes to rank {dst}, which needs nothing of it.",
            )
        if moved > need.get((src, dst), 0):
            return (
                "sent-again",
                f"{case.name}: rank {src} sent {moved:,} bytes to rank {dst}; {need[src, dst]:,} are what it needs.",
            )
    sent = {(src, dst): moved for src, dst, moved, _ in meter["pairs"]}
    for pair, wanted in need.items():
        if sent.get(pair, 0) < wanted:
            return (
                "too-few-bytes",
                f"{case.name}: rank {pair[0]} sent {sent.get(pair, 0):,} bytes to rank {pair[1]}, which needs {wanted:,}.",
            )
    return None


def _held_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    m = len(case.secret[1])
    for rank, row in enumerate(results):
        most = min(len(results) - rank, m)
        if row["held"] > most:
            all_first = (
                "all of them before its first backward, as GPipe does"
                if row["held"] == m
                else "between forward and backward"
            )
            return (
                "too-much-memory",
                f"{case.name}: rank {rank} holds {row['held']} micro-batches at once, {all_first}; 1F1B holds {most} there.",
            )
    return None


def _time_fault(case: Case, meter: Meter) -> Fault | None:
    ranks, m = case.ranks or 1, len(case.secret[1])
    best, slot = (m + ranks - 1) * sum(SECONDS), sum(SECONDS)
    if meter["seconds"] > SLACK * best + 1e-9:
        return "slow", (
            f"{case.name}: it takes {meter['seconds'] / slot:.3g} times a forward and backward; 1F1B takes {best / slot:.3g}. It no "
            "longer hangs; which ranks now wait where 1F1B would let them work?"
        )
    if meter["seconds"] < m * slot - 1e-9:
        return "skipped", f"{case.name}: it took less time than one stage computes: work was left out."
    return None


# --- the deadlocked 1F1B


def _hang_cases(params: Params, rng: random.Random) -> list[Case]:
    case, p, m = drawn(rng), params["ranks"], params["microbatches"]
    found = [
        case(f"{p} ranks, {m} micro-batches", range(p), m, "values", "gradients", visible=True),
        case("two ranks, other data", range(2), 3, "values", "gradients"),
    ]
    for ranks, count in ((1, 3), (4, 2), (2, 1), (5, 7), (3, 3)):
        name = "one rank alone" if ranks == 1 else f"{ranks} ranks, {count} micro-batch{'es' * (count > 1)}"
        found.append(case(name, range(ranks), count, "generality", "sizes"))
    for ranks, unkind in ((3, LATE), (4, BUFFER), (3, BUFFERS_LATE)):
        found.append(case(f"{ranks} ranks, {unkind}", range(ranks), 5, "protocol", "safe", adversary=unkind))
    for ranks, unkind in ((4, STREAM), (3, STREAM_LATE), (2, STREAM)):
        found.append(case(f"{ranks} ranks, {unkind}", range(ranks), 5, "protocol", "order", adversary=unkind))
    return found


def _hang_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = gradients_fault(case, outcome.value)
    if fault or case.adversary is not None:
        return judged(case, fault)
    return judged(
        case,
        None,
        ("cost", "memory", _held_fault(case, outcome.value)),
        ("cost", "time", _time_fault(case, outcome.meter)),
        ("cost", "once", traffic_fault(case, outcome.meter)),
    )


def _hang_weighed(params: Params, rng: random.Random) -> Weighed:
    """Two ranks, four micro-batches: 1F1B holds two and one at once, one more forward ahead makes it four, GPipe eight."""
    draw = drawn(rng)

    def case(name: str, copies: int) -> Case:
        return replace(draw(name, range(2), 4, "cost", "memory", copies=copies), seconds=30.0)

    def done(outcome: Outcome) -> bool:
        rows, want = outcome.value, serial(*large.secret)
        fits = (
            type(rows) is list and len(rows) == 2 and not any(told(large, rank, row) for rank, row in enumerate(rows))
        )
        return fits and all(alike(grad, want[stage]) for row in rows for stage, grad in row["gradients"])

    large = case("two ranks, 4 micro-batches that leave 20 MB each", ACTIVATIONS // (SAMPLES * WIDTH * 8))
    return Weighed(case=large, warm=case("two ranks, 4 small micro-batches", 100), most=3.5 * ACTIVATIONS, done=done)


# --- any schedule


def _any_cases(params: Params, rng: random.Random) -> list[Case]:
    case, p, m = drawn(rng), params["ranks"], params["microbatches"]
    scattered = (0, 2, 1, 0, 1)
    found = [
        case(f"1F1B, {p} ranks", range(p), m, "values", "gradients", rows=plain(one_f_one_b(p, m)), visible=True),
        case("GPipe, 3 ranks", range(3), 4, "values", "gradients", rows=plain(gpipe(3, 4))),
    ]
    for name, homes, count, rows in (
        ("naive, 3 ranks", tuple(range(3)), 3, plain(naive(3, 3))),
        ("interleaved, 2 ranks of 2 chunks", looped(2, 2), 4, plain(interleaved(2, 4))),
        ("interleaved, 3 ranks of 2 chunks", looped(3, 2), 6, plain(interleaved(3, 6))),
        ("a V, 3 ranks", v_shaped(3), 5, whole(zb_v(3, 5))),
        ("an order without a plan, 3 ranks", (0, 1, 2), 5, shuffled(3, 5, rng)),
        ("stages scattered over 3 ranks, an order without a plan", scattered, 4, shuffled(5, 4, rng, scattered)),
        ("stages in a loop, an order without a plan", looped(2, 3), 4, shuffled(6, 4, rng, looped(2, 3))),
        ("one rank with three stages", (0, 0, 0), 3, shuffled(3, 3, rng, (0, 0, 0))),
        ("neighbours on one rank", (0, 0, 1, 1), 4, shuffled(4, 4, rng, (0, 0, 1, 1))),
    ):
        found.append(case(name, homes, count, "generality", "schedules", rows=rows))
    for unkind in (LATE, BUFFER, BUFFERS_LATE):
        found.append(
            case(
                f"1F1B on 3 ranks, {unkind}",
                range(3),
                4,
                "protocol",
                "safe",
                rows=plain(one_f_one_b(3, 4)),
                adversary=unkind,
            )
        )
    found.append(
        case(
            f"interleaved, {LATE}",
            looped(2, 2),
            4,
            "generality",
            "schedules",
            rows=plain(interleaved(2, 4)),
            adversary=LATE,
        )
    )
    return found


def _order_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    for rank, (row, wanted) in enumerate(zip(results, (case.per_rank or ())[0][0]["rows"], strict=True)):
        done = [tuple(each) if type(each) in (tuple, list) else each for each in row["order"]]
        if done != [tuple(op) for op in wanted]:
            at = next(
                (i for i, (a, b) in enumerate(zip(done, wanted, strict=False)) if a != tuple(b)),
                min(len(done), len(wanted)),
            )
            return (
                "another-order",
                f"{case.name}: rank {rank} leaves its row at step {at}; the rows given are what is to be run.",
            )
    return None


def _any_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = gradients_fault(case, outcome.value)
    if fault or case.adversary is not None:
        return judged(case, fault)
    return judged(
        case,
        None,
        ("protocol", "rows", _order_fault(case, outcome.value)),
        ("cost", "once", traffic_fault(case, outcome.meter)),
    )


RUNNING = {
    "deadlocked-1f1b": Judging(
        shares={
            "values:gradients": 0.25,
            "cost:memory": 0.25,
            "cost:time": 0.1,
            "cost:once": 0.05,
            "protocol:safe": 0.1,
            "protocol:order": 0.15,
            "generality:sizes": 0.1,
        },
        measured_by_worker=("cost:memory",),
        cases=_hang_cases,
        verdicts=_hang_verdicts,
        weighed=_hang_weighed,
        why="In the steady phase two neighbours always have something for each other. As one batch, an exchange has no order inside, so neither "
        "waits for a receive that stands behind the other's send. Ranks in turns (even ones send first) work as well. Starting the sends and "
        "going on works where nothing is buffered, but not where a pair's operations keep their order of issue.",
        pytorch="Megatron-LM's `send_forward_recv_backward` and `send_backward_recv_forward`; `_batch_p2p` in `torch.distributed.pipelining`.",
    ),
    "run-any-schedule": Judging(
        shares={
            "values:gradients": 0.35,
            "cost:once": 0.1,
            "protocol:safe": 0.15,
            "protocol:rows": 0.1,
            "generality:schedules": 0.3,
        },
        measured_by_worker=("protocol:rows",),
        cases=_any_cases,
        verdicts=_any_verdicts,
        why="What an operation needs and for whom its result is follows from the rules of the pipeline and from where each stage lives; the "
        "schedule only says when. A message known by what it is, not by when it comes, can be waited for in any order.",
        pytorch="`_PipelineScheduleRuntime` runs any schedule given as rows; it inserts `SEND` and `RECV` operations into them first.",
    ),
}
