"""Judge of spend-ledger: what the session really bought."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import FINE, Breakdown, Column, one_verdict, table
from course_grader.judging.random_inputs import generality
from course_grader.records import Case

Stages = Sequence[Mapping[str, Any]]
CENT = 0.01  # dollars: a bill has no smaller unit
SURE = 1e-9  # of an increment: the rounding of a division decides nothing


def ledger(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    """Dollars of a session by what they bought."""
    rate = gpus * price / 60
    spent = {"useful": 0.0, "failed": 0.0}
    for stage in stages:
        whole = stage["state"] == "done" and stage["end"] <= stop
        spent["useful" if whole else "failed"] += rate * max(0.0, min(stage["end"], stop) - stage["start"])
    total = rate * math.ceil(stop / increment - SURE) * increment
    return {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}


def _uncut(stages: Stages, stop: float, *bill: float) -> dict[str, float]:
    late = ledger(stages, 1e9, *bill)
    return {part: late[part] for part in ("useful", "failed")}


def _cut_is_useful(stages: Stages, stop: float, *bill: float) -> dict[str, float]:
    return ledger([{**stage, "end": min(stage["end"], stop)} for stage in stages], stop, *bill)


def _gaps_only(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    gaps = [two["start"] - one["end"] for one, two in zip(stages, stages[1:], strict=False) if two["start"] <= stop]
    return {"idle": gpus * price / 60 * sum(gaps)}


def _billed(minutes: Callable[[float, float], float]) -> Callable[..., dict[str, float]]:
    """The bill for another idea of the billed minutes, a function of the stop and the increment."""

    def bill(stages: Stages, stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
        billed = minutes(stop, increment)
        return {"total": gpus * price / 60 * billed, "rounding": gpus * price / 60 * (billed - stop)}

    return bill


def _times(factor: float, row: Sequence[Any]) -> dict[str, float]:
    return {name: factor * value for name, value in ledger(*row).items()}


def _idle(*parts: str) -> Callable[..., dict[str, float]]:
    return lambda *row: {"idle": sum(ledger(*row)[part] for part in parts)}


LEDGER = Breakdown(
    part="ledger",
    unit="dollars",
    grain=0.5001 * CENT,
    want=ledger,
    words=lambda stages, stop, gpus, price, increment: (
        f"{len(stages)} stages, {gpus} GPUs at ${price:g}, stopped at {stop:g} min, billed by {increment:g}"
    ),
).knowing(
    Mistake("one-gpu", lambda *row: _times(1 / row[2], row), "this is the bill for one GPU; all of them are billed."),
    Mistake("hours-for-minutes", lambda *row: _times(60, row), "the price is per hour, and stages are in minutes."),
    Mistake("cut-is-useful", _cut_is_useful, "a stage that the stop cut short is not done."),
    Mistake("uncut", _uncut, "nothing runs after the stop: count a stage until its end or the stop."),
    Mistake("failed-is-idle", lambda *row: {"failed": 0.0} | _idle("failed", "idle")(*row), "a failed stage did run."),
    Mistake("gaps-only", _gaps_only, "the minutes before the first stage and after the last one are idle too."),
    Mistake("not-rounded", _billed(lambda stop, by: stop), "an increment that has begun is billed in full."),
    Mistake("rounded-down", _billed(lambda t, by: t // by * by), "round up: a begun increment is billed in full."),
    Mistake("one-too-many", _billed(lambda stop, by: stop // by * by + by), "no increment begins at the stop itself."),
    Mistake("rounding-is-idle", _idle("idle", "rounding"), "idle ends at the stop; the rest of the bill is rounding."),
    Mistake("everything", _idle("failed", "idle", "rounding"), "this is everything that was not useful."),
)


def _blocks(budget: float, gpus: int, price: float, increment: float) -> float:
    return budget / (gpus * price / 60 * increment)


def stop_by(budget: float, gpus: int, price: float, increment: float, grace: float) -> float | None:
    """The last minute at which a stop may be ordered; None where there is none."""
    blocks = math.floor(_blocks(budget, gpus, price, increment) + SURE)
    last = blocks * increment - grace
    return last if blocks and last >= 0 else None


def _shifted(more: int, b: float, g: int, p: float, i: float, grace: float) -> float:
    return (math.floor(_blocks(b, g, p, i) + SURE) + more) * i - grace


def _grace_first(b: float, g: int, p: float, i: float, grace: float) -> float:
    return math.floor(_blocks(b, g, p, i) - grace / i + SURE) * i


STOP = Column(
    part="stop",
    unit="minutes",
    want=stop_by,
    words=lambda budget, gpus, price, increment, grace: (
        f"${budget:g}, {gpus} GPUs at ${price:g}, billed by {increment:g} min, {grace:g} min to stop"
    ),
    rel=FINE,
    none="even an order at minute 0 comes too late; return None",
).knowing(
    Mistake("not-rounded", lambda *row: _blocks(*row[:4]) * row[3] - row[4], "the last increment is billed in full."),
    Mistake("grace-forgotten", lambda *row: stop_by(*row[:4], 0), "the machine is billed until it is gone."),
    Mistake("not-rounded-nor-grace", lambda *row: _blocks(*row[:4]) * row[3], "increments are billed in full."),
    Mistake("rounded-up", lambda *row: _shifted(1, *row), "this is one increment more than the budget pays for."),
    Mistake("one-less", lambda *row: _shifted(-1, *row), "the budget pays for one increment more."),
    Mistake("grace-first", _grace_first, "take the grace off the end of the last whole increment."),
    Mistake("grace-added", lambda *row: (stop_by(*row[:4], 0) or 0) + row[4], "take the grace off instead."),
    Mistake("one-gpu", lambda *row: stop_by(row[0], 1, *row[2:]), "all GPUs are billed."),
)


def _stages(*rows: tuple[str, float, float, str]) -> list[dict[str, Any]]:
    return [dict(zip(("name", "start", "end", "state"), row, strict=True)) for row in rows]


def session(rng: random.Random) -> list[dict[str, Any]]:
    """Stages one after another in half minutes, some of which failed; nothing runs before, between and after them."""
    now, rows = rng.randrange(1, 12) / 2, []
    for name in ("matmul", "links", "ddp", "fsdp", "pp", "failures")[: rng.randrange(2, 7)]:
        took = rng.randrange(2, 25) / 2
        rows.append((name, now, now + took, rng.choice(("done", "done", "done", "failed", "timed out"))))
        now += took + rng.randrange(0, 6) / 2
    return _stages(*rows)


_MORNING = ("matmul", 4.0, 7.0, "done"), ("links", 7.5, 11.5, "failed")
SHOWN = _stages(*_MORNING, ("fsdp", 12.0, 22.0, "done"), ("pp", 23.0, 31.0, "done"))
PRICES, INCREMENTS = (0.5, 2.0, 3.75), (1, 5, 15, 60)


def _session_row(rng: random.Random) -> tuple[Any, ...]:
    stages = session(rng)
    inside, later = rng.choice(stages)["start"] + 0.5, stages[-1]["end"] + rng.randrange(0, 30) / 2
    return stages, rng.choice((inside, later)), rng.choice((1, 2, 8, 64)), rng.choice(PRICES), rng.choice(INCREMENTS)


def _orders(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    while len(rows) < count:
        budget, gpus = rng.randrange(2, 400) / 2, rng.choice((1, 2, 8, 16))
        row = (budget, gpus, rng.choice(PRICES), rng.choice(INCREMENTS), rng.choice((0, 1, 2.5, 7, 40)))
        if 0.05 < _blocks(*row[:4]) % 1 < 0.95:  # at a whole number the rounding of floats would decide
            rows.append(row)
    return rows


def _cases(params: Params, rng: random.Random) -> list[Case]:
    bill = params["gpus"], params["price"], params["increment"]
    own = [(SHOWN, stop, *bill) for stop in (37.0, 27.0, 60.0)]
    even = [(60.0, 8, 7.5, 15, 3), (60.0, 8, 7.5, 60, 3), (59.0, 8, 7.5, 60, 3), (14.0, 8, 7.5, 15, 0)]
    even += [(30.0, 4, 15.0, 10, 10), (30.0, 4, 15.0, 15, 31), (15.0, 8, 7.5, 15, 15)]  # all at a dollar a minute
    again = _stages(("ddp", 1.0, 3.0, "failed"), ("ddp", 4.0, 9.0, "done"))
    idle = [(rows, stop, 2, 3.0, 10) for rows, stop in ((again, 10.25), (again, 9.0), ([], 12.0), ([], 20.0))]
    return [
        shown("a session, stopped early, late and on the hour", "values:ledger", 0, own),
        shown("when to stop", "values:stop", 1, [(params["budget"], *bill, grace) for grace in (4, 0)]),
        generality("sessions", 0, "other sessions", [_session_row(rng) for _ in range(20)]),
        generality("sessions", 0, "a stage that ran again, and no stage at all", idle),
        generality("budgets", 1, "other budgets", [*_orders(rng, 25), *even]),
    ]


JUDGING = Judging(
    shares={"values:ledger": 0.4, "values:stop": 0.2, "generality:sessions": 0.2, "generality:budgets": 0.2},
    cases=_cases,
    verdicts=one_verdict(table(LEDGER, STOP)),
    why="""The meter runs from the first minute to the last, not from the first kernel to the last. Setup, gaps and failed stages cost as much as training. An
increment is billed in full once it has begun, so order the stop early enough that the machine is gone before the next one begins.""",
    pytorch="""`./course run tour --max-cost` ends the current stage when the budget is spent, but the machine is still rented: set the provider's auto-stop
before you start.""",
)

ANSWERS = r"""import math


# %% right: one rate
def ledger(stages, stop, gpus, price, increment):
    rate = gpus * price / 60
    spent = {"useful": 0.0, "failed": 0.0}
    for stage in stages:
        whole = stage["state"] == "done" and stage["end"] <= stop
        spent["useful" if whole else "failed"] += rate * max(0.0, min(stage["end"], stop) - stage["start"])
    total = rate * math.ceil(stop / increment - 1e-9) * increment
    return {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}


def stop_by(budget, gpus, price, increment, grace):
    blocks = math.floor(budget / (gpus * price / 60 * increment) + 1e-9)
    last = blocks * increment - grace
    return last if blocks and last >= 0 else None


# %% right: minutes first, dollars last  from: one rate
def ledger(stages, stop, gpus, price, increment):
    minutes, now = {"useful": 0.0, "failed": 0.0, "idle": 0.0, "rounding": -stop % increment}, 0.0
    for stage in [stage for stage in stages if stage["start"] < stop]:
        minutes["idle"] += stage["start"] - now
        now = min(stage["end"], stop)
        good = stage["state"] == "done" and now == stage["end"]
        minutes["useful" if good else "failed"] += now - stage["start"]
    minutes["idle"] += stop - now
    found = {name: value * gpus * price / 60 for name, value in minutes.items()}
    return {**found, "total": sum(found.values())}


# %% right: a bill in cents, blocks counted one by one  from: one rate
# -     return {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}
# +     found = {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}
# +     return {name: round(dollars, 2) for name, dollars in found.items()}
# -     blocks = math.floor(budget / (gpus * price / 60 * increment) + 1e-9)
# -     last = blocks * increment - grace
# -     return last if blocks and last >= 0 else None
# +     block, blocks = gpus * price * increment / 60, 0
# +     while (blocks + 1) * block <= budget + 1e-9:
# +         blocks += 1
# +     return blocks * increment - grace if blocks and blocks * increment >= grace else None

# %% wrong: one GPU's bill => values one-gpu  from: one rate
# ~ rate = gpus * price / 60 ==> rate = price / 60

# %% wrong: dollars a minute => values hours-for-minutes  from: one rate
# ~ rate = gpus * price / 60 ==> rate = gpus * price

# %% wrong: a stage that was cut is useful => values cut-is-useful  from: one rate
# ~ "done" and stage["end"] <= stop ==> "done"

# %% wrong: stages run on after the stop => values uncut  from: a stage that was cut is useful
# ~ max(0.0, min(stage["end"], stop) ==> (stage["end"]

# %% wrong: what failed is idle => values failed-is-idle  from: one rate
#       total = rate * math.ceil(stop / increment - 1e-9) * increment
# +     spent["failed"] = 0.0

# %% wrong: only gaps between stages are idle => values gaps-only  from: one rate
#       total = rate * math.ceil(stop / increment - 1e-9) * increment
# +     gaps = sum(b["start"] - a["end"] for a, b in zip(stages, stages[1:]) if b["start"] <= stop)
# ~ rate * stop - sum(spent.values()) ==> rate * gaps

# %% wrong: nothing is rounded => values not-rounded  from: one rate
# ~ math.ceil(stop / increment - 1e-9) * increment ==> stop

# %% wrong: rounded down => values rounded-down  from: one rate
# ~ ceil(stop / increment - 1e-9) ==> floor(stop / increment)

# %% wrong: always one more increment => values one-too-many  from: one rate
# ~ math.ceil(stop / increment - 1e-9) ==> (stop // increment + 1)

# %% wrong: rounding counts as idle => values rounding-is-idle  from: one rate
# ~ : rate * stop ==> : total

# %% wrong: the stop takes no time => values grace-forgotten  from: one rate
# ~ increment - grace ==> increment

# %% wrong: one increment more than is paid for => values rounded-up  from: one rate
# ~ = math ==> = 1 + math


# %% wrong: the grace before rounding => values grace-first  from: one rate
# ~ (budget / (gpus * price / 60 * increment) ==> ((budget / (gpus * price / 60) - grace) / increment
# ~ increment - grace ==> increment

# %% wrong: the budget in minutes, not in increments => values not-rounded  from: one rate
# ~ math.floor(budget / (gpus * price / 60 * increment) + 1e-9) ==> budget / (gpus * price / 60 * increment)

# %% wrong: exactly the budget is too much => values one-less  from: one rate
# ~ floor(budget / (gpus * price / 60 * increment) + 1e-9) ==> ceil(budget / (gpus * price / 60 * increment) - 1e-9) - 1

# %% wrong: an order before the beginning => values none-is-right  from: one rate
# ~ last if blocks and last >= 0 else None ==> last

# %% wrong: an order at minute 0 is none => generality -  from: a bill in cents, blocks counted one by one
# ~ {name: round(dollars, 2) for name, dollars in found.items()} ==> found
# ~ blocks and blocks * increment >= grace ==> blocks * increment > grace

# %% wrong: whole dollars => values -  from: a bill in cents, blocks counted one by one
# ~ , 2) ==> )


# %% half: the ledger only => 2  from: one rate
def stop_by(budget, gpus, price, increment, grace):
    raise NotImplementedError
"""
