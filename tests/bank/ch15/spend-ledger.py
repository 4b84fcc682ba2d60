import math


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
