from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, generality, shown
from course_grader.judging.per_row import FINE, Breakdown, Column, one_verdict, table

PRICES, INCREMENTS = (0.5, 2.0, 3.75), (1, 5, 15, 60)
ORDER = (lambda rng: rng.randrange(2, 400) / 2, (1, 2, 8, 16), PRICES, INCREMENTS, (0, 1, 2.5, 7, 40))
right = Worked("spend-ledger")
Stage = dict[str, str | float]
LEDGER = Breakdown(
    part="ledger",
    unit="dollars",
    grain=0.005001,  # a bill has no smaller unit than a cent
    words=lambda stages, stop, gpus, price, increment: (
        f"{len(stages)} stages, {gpus} GPUs at ${price:g}, stopped at {stop:g} min, billed by {increment:g}"
    ),
)
ORDERED = "${:g}, {} GPUs at ${:g}, billed by {:g} min, {:g} min to stop".format
TOO_LATE = "even an order at minute 0 comes too late; return None"
STOP = Column("stop", "minutes", words=ORDERED, rel=FINE, none=TOO_LATE)


def _stages(*rows: tuple[str, float, float, str]) -> list[Stage]:
    return [dict(zip(("name", "start", "end", "state"), row, strict=True)) for row in rows]


def _session(rng: Random) -> tuple[list[Stage], float, int, float, int]:
    """Stages in half minutes, some of which failed, with gaps before, between and after them; stopped in one or
    later."""
    now, rows = rng.randrange(1, 12) / 2, []
    for name in ("matmul", "links", "ddp", "fsdp", "pp", "failures")[: rng.randrange(2, 7)]:
        took = rng.randrange(2, 25) / 2
        rows.append((name, now, now + took, rng.choice(("done", "done", "done", "failed", "timed out"))))
        now += took + rng.randrange(0, 6) / 2
    stop = rng.choice((rng.choice(rows)[1] + 0.5, rows[-1][2] + rng.randrange(0, 30) / 2))
    return _stages(*rows), stop, rng.choice((1, 2, 8, 64)), rng.choice(PRICES), rng.choice(INCREMENTS)


def _off_whole(row: tuple[float, int, float, int, float]) -> bool:
    """Whether the rounding of floats cannot decide how many increments the budget pays for."""
    budget, gpus, price, increment, _ = row
    return 0.05 < budget / (gpus * price / 60 * increment) % 1 < 0.95


def _cases(params: Params, rng: Random) -> list[Case]:
    bill = params["gpus"], params["price"], params["increment"]
    day = ("matmul", 4.0, 7.0, "done"), ("links", 7.5, 11.5, "failed"), ("fsdp", 12.0, 22.0, "done")
    own = [(_stages(*day, ("pp", 23.0, 31.0, "done")), stop, *bill) for stop in (37.0, 27.0, 60.0)]
    even = [(60.0, 8, 7.5, 15, 3), (60.0, 8, 7.5, 60, 3), (59.0, 8, 7.5, 60, 3), (14.0, 8, 7.5, 15, 0)]
    even += [(30.0, 4, 15.0, 10, 10), (30.0, 4, 15.0, 15, 31), (15.0, 8, 7.5, 15, 15)]  # all at a dollar a minute
    again = _stages(("ddp", 1.0, 3.0, "failed"), ("ddp", 4.0, 9.0, "done"))
    idle = [(rows, stop, 2, 3.0, 10) for rows, stop in ((again, 10.25), (again[1:], 9.0), ([], 12.0), ([], 20.0))]
    shown_orders = [(params["budget"] * more, *bill, grace) for more, grace in ((1, 4), (1, 0), (2, 4))]
    return [
        shown("a session, stopped early, late and on the hour", "values:ledger", 0, own),
        shown("when to stop", "values:stop", 1, shown_orders),
        generality("sessions", 0, "other sessions", [_session(rng) for _ in range(20)]),
        generality("sessions", 0, "a stage that ran again, and no stage at all", idle),
        generality("budgets", 1, "other budgets", [*draw_rows(rng, 25, *ORDER, keep=_off_whole), *even]),
    ]


JUDGING = Judging(
    shares={"values:ledger": 0.4, "values:stop": 0.2, "generality:sessions": 0.2, "generality:budgets": 0.2},
    cases=_cases,
    verdicts=one_verdict(table(LEDGER, STOP, right=right)),
    within=0.006,
    why="""The meter runs from the first minute to the last, not from the first kernel to the last. Setup, gaps and
failed stages cost as much as training. An increment is billed in full once it has begun, so order the stop early enough
that the machine is gone before the next one begins.""",
    pytorch="""`./course run tour --max-cost` ends the current stage when the budget is spent, but the machine is still
rented: set the provider's auto-stop before you start.""",
)

ANSWERS = r'''# %% right: worked
def ledger(stages: list[dict], stop: float, gpus: int, price: float, increment: float) -> dict[str, float]:
    """Dollars of a session of `stop` minutes: {"useful", "failed", "idle", "rounding", "total"}."""
    rate = gpus * price / 60  # dollars per minute, whatever the GPUs do
    billed = math.ceil(stop / increment - 1e-9) * increment
    spent = {"useful": 0.0, "failed": 0.0}
    for stage in stages:
        minutes = max(0.0, min(stage["end"], stop) - stage["start"])
        whole = stage["state"] == "done" and stage["end"] <= stop
        spent["useful" if whole else "failed"] += rate * minutes
    total = rate * billed
    return {**spent, "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total}


def stop_by(budget: float, gpus: int, price: float, increment: float, grace: float) -> float | None:
    """The last minute at which you may order a stop that takes `grace` minutes; None if the budget is too small."""
    blocks = math.floor(budget / (gpus * price / 60 * increment) + 1e-9)
    last = blocks * increment - grace
    return last if blocks and last >= 0 else None
# %% right: idle minutes by gaps, rounding by the remainder
# ~ "failed": 0.0 ==> "failed": 0.0, "idle": rate * stop, "rounding": rate * (-stop % increment)
#           spent["useful" if whole else "failed"] += rate * minutes
# +         spent["idle"] -= rate * minutes
# ~ "idle": rate * stop - sum(spent.values()), "rounding": total - rate * stop, "total": total ==> "total":
# ~~ sum(spent.values())
# %% right: a bill in cents, blocks counted one by one
# ~ return {**spent ==> found = {**spent
# +     return {name: round(dollars, 2) for name, dollars in found.items()}
# ~ math.floor(budget / (gpus * price / 60 * increment) + 1e-9)
# ~~ ==> next(n for n in range(9999) if (n + 1) * gpus * price * increment / 60 > budget + 1e-9)
# %% wrong: one GPU's bill => values one-gpu
# > this is the bill for one GPU; all of them are billed.
# ~ rate = gpus * price / 60 ==> rate = price / 60
# %% wrong: dollars a minute => values hours-for-minutes
# > the price is per hour, and stages are in minutes.
# ~ rate = gpus * price / 60 ==> rate = gpus * price
# %% wrong: a stage that was cut is useful => values cut-is-useful
# > a stage that the stop cut short is not done.
# ~ "done" and stage["end"] <= stop ==> "done"
# %% wrong: stages run on after the stop => values uncut
# > nothing runs after the stop: count a stage until its end or the stop.
# ~ max(0.0, min(stage["end"], stop) - stage["start"]) ==> stage["end"] - stage["start"]
# ~ "done" and stage["end"] <= stop ==> "done"
# %% wrong: what failed runs on after the stop => values uncut
# ~ max(0.0, min(stage["end"], stop) - stage["start"]) ==> stage["end"] - stage["start"]
# %% wrong: a stage that ends at the stop is cut => generality ends-at-the-stop
# > a stage that ends exactly at the stop is done.
# ~ stage["end"] <= stop ==> stage["end"] < stop
# %% wrong: what failed is idle => values failed-is-idle
# > a failed stage did run.
#       total = rate * billed
# +     spent["failed"] = 0.0
# %% wrong: only gaps between stages are idle => values gaps-only
# > the minutes before the first stage and after the last one are idle too.
# ~ stop - sum(spent.values()) ==> sum(b["start"] - a["end"] for a, b in zip(stages, stages[1:]) if b["start"] <= stop)
# %% wrong: everything but useful minutes is idle => values everything
# > this is everything that was not useful.
# ~ rate * stop - sum(spent.values()) ==> total - spent["useful"]
# %% wrong: nothing is rounded => values not-rounded
# > an increment that has begun is billed in full.
# ~ math.ceil(stop / increment - 1e-9) * increment ==> stop
# %% wrong: rounded down => values rounded-down
# > round up: a begun increment is billed in full.
# ~ ceil(stop / increment - 1e-9) ==> floor(stop / increment)
# %% wrong: always one more increment => values one-too-many
# > no increment begins at the stop itself.
# ~ math.ceil(stop / increment - 1e-9) ==> (stop // increment + 1)
# %% wrong: rounding counts as idle => values rounding-is-idle
# > idle ends at the stop; the rest of the bill is rounding.
# ~ "idle": rate * stop ==> "idle": total
# %% wrong: the stop takes no time => values grace-forgotten
# > the machine is billed until it is gone.
# ~ increment - grace ==> increment
# %% wrong: the grace is added => values grace-added
# > this adds the grace; take it off instead.
# ~ increment - grace ==> increment + grace
# %% wrong: a stop for one GPU => values one-gpu-stop
# > all GPUs are billed.
# ~ budget / (gpus * ==> budget / (
# %% wrong: one increment more than is paid for => values rounded-up
# > this is one increment more than the budget pays for.
# ~ = math.floor ==> = 1 + math.floor
# %% wrong: the grace before rounding => values grace-first
# > take the grace off the end of the last whole increment.
# ~ (budget / (gpus * price / 60 * increment) ==> ((budget / (gpus * price / 60) - grace) / increment
# ~ increment - grace ==> increment
# %% wrong: the budget in minutes, not in increments => values not-rounded
# > the last increment is billed in full.
# ~ math.floor(budget / (gpus * price / 60 * increment) + 1e-9) ==> budget / (gpus * price / 60 * increment)
# %% wrong: the budget in minutes, and no grace => values not-rounded-nor-grace
# > increments are billed in full, and the machine until it is gone.
# ~ math.floor(budget / (gpus * price / 60 * increment) + 1e-9) ==> budget / (gpus * price / 60 * increment)
# ~ increment - grace ==> increment
# %% wrong: exactly the budget is too much => values one-less
# > the budget pays for one increment more.
# ~ floor(budget / (gpus * price / 60 * increment) + 1e-9) ==> ceil(budget / (gpus * price / 60 * increment) - 1e-9) - 1
# %% wrong: an order before the beginning => values none-is-right
# ~ last if blocks and last >= 0 else None ==> last
# %% wrong: an order at minute 0 is none => generality returned-none
# ~ last >= 0 ==> last > 0
# %% wrong: whole dollars => values -  from: a bill in cents, blocks counted one by one
# ~ , 2) ==> )
# %% half: the ledger only => 2
# ~ return last if blocks and last >= 0 else None ==> raise NotImplementedError
'''
