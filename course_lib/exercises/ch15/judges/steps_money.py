"""Judge of the bill: useful, failed and idle minutes, rounding up, and the last moment to order a stop."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.exercises.ch15.judges.steps_rows import Parts, fault_of_parts
from course_lib.judging import Judging, Mistake, Params, verdict
from course_lib.judging.optional_columns import Column, judge, results, told
from course_lib.records import Case, Outcome, Verdict

Stages = Sequence[Mapping[str, Any]]
CENT = 0.01  # dollars: a bill has no less
SURE = 1e-9  # of an increment: rounding of a division decides nothing


def ledger(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    """Dollars of a session by what they bought."""
    rate = gpus * price / 60
    spent = {"useful": 0.0, "failed": 0.0}
    for stage in stages:
        whole = stage["state"] == "done" and stage["end"] <= stop
        spent["useful" if whole else "failed"] += rate * max(0.0, min(stage["end"], stop) - stage["start"])
    total = rate * math.ceil(stop / increment - SURE) * increment
    return {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}


def _cut_is_useful(stages: Stages, stop: float, *bill: float) -> dict[str, float]:
    """A stage that was done later, had it been let, counted as useful until the stop."""
    return ledger([{**stage, "end": min(stage["end"], stop)} for stage in stages], stop, *bill)


def _uncut(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    spent = {"useful": 0.0, "failed": 0.0}
    for stage in stages:
        spent["useful" if stage["state"] == "done" else "failed"] += gpus * price / 60 * (stage["end"] - stage["start"])
    return spent


def _gaps_only(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    gaps = [two["start"] - one["end"] for one, two in zip(stages, stages[1:], strict=False) if two["start"] <= stop]
    return {"idle": gpus * price / 60 * sum(gaps)}


def _failed_is_idle(*row: Any) -> dict[str, float]:
    found = ledger(*row)
    return {"failed": 0.0, "idle": found["idle"] + found["failed"]}


def _billed(stop: float, gpus: int, price: float, increment: float, blocks: float) -> dict[str, float]:
    total = gpus * price / 60 * blocks * increment
    return {"total": total, "rounding": total - gpus * price / 60 * stop}


def _scaled(row: Sequence[Any], factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in ledger(*row).items()}


LEDGER = Parts(
    unit="dollars",
    grain=0.5001 * CENT,
    want=ledger,
    words=lambda stages, stop, gpus, price, increment: (
        f"{len(stages)} stages, {gpus} GPUs at ${price:g}, stopped at {stop:g} min, billed by {increment:g}"
    ),
    slips=(
        Mistake("one-gpu", lambda *row: _scaled(row, 1 / row[2]), "this is one GPU's; all of them are billed."),
        Mistake(
            "hours-for-minutes", lambda *row: _scaled(row, 60), "the price is of an hour, and stages are in minutes."
        ),
        Mistake(
            "cut-is-useful",
            _cut_is_useful,
            "a stage that the stop cut short is not done, whatever it would have become.",
        ),
        Mistake("uncut", _uncut, "after the stop nothing runs: count a stage until its end or the stop."),
        Mistake("failed-is-idle", _failed_is_idle, "a stage that failed did run, and its minutes are not idle."),
        Mistake("gaps-only", _gaps_only, "the minutes before the first stage and after the last one are idle, too."),
        Mistake(
            "not-rounded",
            lambda stages, stop, gpus, price, increment: {"total": gpus * price / 60 * stop, "rounding": 0.0},
            "an increment that was begun is billed in full.",
        ),
        Mistake(
            "rounded-down",
            lambda stages, stop, *bill: _billed(stop, *bill, stop // bill[2]),
            "an increment that was begun is billed in full: round up.",
        ),
        Mistake(
            "one-too-many",
            lambda stages, stop, *bill: _billed(stop, *bill, stop // bill[2] + 1),
            "the machine was stopped at the end of an increment, and no other one was begun.",
        ),
        Mistake(
            "rounding-is-idle",
            lambda *row: {"idle": ledger(*row)["idle"] + ledger(*row)["rounding"]},
            "idle is until the stop; what was billed beyond it is rounding.",
        ),
        Mistake(
            "everything",
            lambda *row: {"idle": ledger(*row)["total"] - ledger(*row)["useful"]},
            "this is all that was not useful.",
        ),
    ),
)


def stop_by(budget: float, gpus: int, price: float, increment: float, grace: float) -> float | None:
    """The last minute at which a stop may be ordered; None where there is none."""
    blocks = math.floor(budget / (gpus * price / 60 * increment) + SURE)
    last = blocks * increment - grace
    return last if blocks and last >= 0 else None


def _order(budget: float, gpus: int, price: float, increment: float, grace: float) -> str:
    return f"${budget:g}, {gpus} GPUs at ${price:g}, billed by {increment:g} min, {grace:g} min to stop"


STOP = Column(
    part="stop",
    unit="minutes",
    want=stop_by,
    words=_order,
    rel=1e-6,
    none="even an order at minute 0 comes too late: `None`",
    slips=(
        Mistake(
            "not-rounded",
            lambda b, g, p, i, grace: b / (g * p / 60) - grace,
            "the last increment would be begun and billed in full, beyond the budget.",
        ),
        Mistake(
            "grace-forgotten",
            lambda b, g, p, i, grace: stop_by(b, g, p, i, 0),
            "until the machine is gone it is billed: order earlier.",
        ),
        Mistake(
            "not-rounded-nor-grace",
            lambda b, g, p, i, grace: b / (g * p / 60),
            "an increment is billed in full, and the machine goes only some minutes after the order.",
        ),
        Mistake(
            "rounded-up",
            lambda b, g, p, i, grace: (math.floor(b / (g * p / 60 * i) + SURE) + 1) * i - grace,
            "this is one increment more than the budget pays for.",
        ),
        Mistake(
            "one-less",
            lambda b, g, p, i, grace: (math.floor(b / (g * p / 60 * i) + SURE) - 1) * i - grace,
            "exactly the budget is allowed: one increment more is paid for.",
        ),
        Mistake(
            "grace-first",
            lambda b, g, p, i, grace: math.floor((b / (g * p / 60) - grace) / i + SURE) * i,
            "it is the end that must lie within what is billed: take the grace off the last whole increment.",
        ),
        Mistake(
            "grace-added",
            lambda b, g, p, i, grace: (stop_by(b, g, p, i, 0) or 0) + grace,
            "the grace comes after the order: take it off.",
        ),
        Mistake("one-gpu", lambda b, g, p, i, grace: stop_by(b, 1, p, i, grace), "all GPUs are billed."),
    ),
)


# --- the cases


def session(rng: random.Random) -> list[dict[str, Any]]:
    """Stages one after another in half minutes, some of which failed; before them, between them and after them nothing runs."""
    now, found = rng.randrange(1, 12) / 2, []
    for name in ("matmul", "links", "ddp", "fsdp", "pp", "failures")[: rng.randrange(2, 7)]:
        took = rng.randrange(2, 25) / 2
        found.append(
            {
                "name": name,
                "start": now,
                "end": now + took,
                "state": rng.choice(("done", "done", "done", "failed", "timed out")),
            }
        )
        now += took + rng.randrange(0, 6) / 2
    return found


SHOWN = (
    {"name": "matmul", "start": 4.0, "end": 7.0, "state": "done"},
    {"name": "links", "start": 7.5, "end": 11.5, "state": "failed"},
    {"name": "fsdp", "start": 12.0, "end": 22.0, "state": "done"},
    {"name": "pp", "start": 23.0, "end": 31.0, "state": "done"},
)


def _sessions(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    found = []
    for _ in range(count):
        stages = session(rng)
        inside, later = rng.choice(stages)["start"] + 0.5, stages[-1]["end"] + rng.randrange(0, 30) / 2
        found.append(
            (
                stages,
                rng.choice((inside, later)),
                rng.choice((1, 2, 8, 64)),
                rng.choice((0.5, 2.0, 3.75)),
                rng.choice((1, 5, 15, 60)),
            )
        )
    return found


def _orders(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        row = (
            rng.randrange(2, 400) / 2,
            rng.choice((1, 2, 8, 16)),
            rng.choice((0.5, 2.0, 3.75)),
            rng.choice((1, 5, 15, 60)),
            rng.choice((0, 1, 2.5, 7, 40)),
        )
        blocks = row[0] / (row[1] * row[2] / 60 * row[3])
        if 0.05 < blocks % 1 < 0.95:  # where it comes out even, rounding of floats would decide
            found.append(row)
    return found


def _cases(params: Params, rng: random.Random) -> list[Case]:
    bill = params["gpus"], params["price"], params["increment"]
    stages = list(SHOWN)
    own = [(stages, 37.0, *bill), (stages, 27.0, *bill), (stages, 60.0, *bill)]
    even = [
        (60.0, 8, 7.5, 15, 3),
        (60.0, 8, 7.5, 60, 3),
        (59.0, 8, 7.5, 60, 3),
        (14.0, 8, 7.5, 15, 0),
        (30.0, 4, 15.0, 10, 10),
        (30.0, 4, 15.0, 15, 31),
        (15.0, 8, 7.5, 15, 15),
    ]  # a dollar a minute
    return [
        Case(name="a session, stopped early, late and on the hour", args=(0, own), part="ledger"),
        Case(name="when to stop", args=(1, [(params["budget"], *bill, 4), (params["budget"], *bill, 0)]), part="stop"),
        Case(name="other sessions", args=(0, _sessions(rng, 20)), kind="generality", part="sessions", visible=False),
        Case(
            name="no stage at all",
            args=(0, [([], 12.0, 2, 3.0, 10), ([], 20.0, 2, 3.0, 10)]),
            kind="generality",
            part="sessions",
            visible=False,
        ),
        Case(
            name="other budgets", args=(1, [*_orders(rng, 25), *even]), kind="generality", part="budgets", visible=False
        ),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    found = results(case, outcome.value)
    if told(found):
        return found
    if case.args[0] == 0:
        return [verdict(case.kind, case.part, case, fault_of_parts(LEDGER, case, found))]
    return [judge(STOP, case, found, part=case.part)]


MONEY = {
    "spend-ledger": Judging(
        shares={"values:ledger": 0.4, "values:stop": 0.2, "generality:sessions": 0.2, "generality:budgets": 0.2},
        cases=_cases,
        verdicts=_verdicts,
        why="A meter runs from the first minute to the last, not from the first kernel to the last: set-up, gaps, a stage that failed and the evening on which nobody stopped the machine cost as much as training. Since an "
        "increment is billed in full once it is begun, a limit has to be set on when the machine is gone, and the stop must be ordered earlier by what stopping takes.",
        pytorch="`./course run tour --max-cost` ends the stage at work when the budget is spent, and says that the machine is still rented: stopping that is the provider's auto-stop, to be set "
        "before anything starts.",
    )
}
