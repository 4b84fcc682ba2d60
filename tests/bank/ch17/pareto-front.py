import math


# %% right: every pair
def front(runs):
    def four(run):
        return run["loss"], run["seconds"], run["memory"], run["usd"]

    def beats(a, b):
        return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b))

    alive = [run for run in runs if math.isfinite(run["loss"])]
    return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]


# %% right: any variant
from course_lib import params

METRIC = params("pareto-front").metric


def front(runs):
    table = {}
    for run in runs:
        if run["loss"] - run["loss"] == 0:
            speed = run["seconds"] if METRIC == "seconds" else -run["speed"]
            table[run["name"]] = (run["loss"], speed, run["memory"], run["usd"])
    kept = []
    for name, mine in table.items():
        rivals = [other for other in table.values() if other != mine]
        if not any(all(x <= y for x, y in zip(other, mine)) for other in rivals):
            kept.append(name)
    return kept


# %% wrong: everything stays => values -
def front(runs):
    return [run["name"] for run in runs]


# %% wrong: the best of each => values -
def front(runs):
    alive = [run for run in runs if math.isfinite(run["loss"])]
    keys = ("loss", "seconds", "memory", "usd")
    return [run["name"] for run in alive if any(run[key] == min(other[key] for other in alive) for key in keys)]


# %% wrong: better in all four => values better-in-all  from: every pair
# ~ return all(x <= y for x, y in zip(a, b)) and any(x < y for x, y in zip(a, b)) ==> return all(x < y for x, y in zip(a, b))

# %% wrong: the loss is left out => values no-loss  from: every pair
# ~ "loss"], run["seconds" ==> "seconds"

# %% wrong: memory is left out => values no-memory  from: every pair
# ~ "memory"], run["usd" ==> "usd"

# %% wrong: of equals the first stays => generality first-of-equals  from: every pair
# -     return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)]
# +     kept = {}
# +     for run in alive:
# +         if not any(beats(four(other), four(run)) for other in alive):
# +             kept.setdefault(four(run), run["name"])
# +     return list(kept.values())

# %% wrong: diverged runs stay => generality diverged-stay  from: every pair
# ~ [run for run in runs if math.isfinite(run["loss"])] ==> list(runs)

# %% wrong: only nan is dropped => generality -  from: every pair
# ~ math.isfinite ==> not math.isnan

# %% wrong: sorted by name => values -  from: every pair
# ~ return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)] ==> return sorted(run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive))

# %% wrong: the runs themselves => values not-names  from: every pair
# ~ return [run["name"] for run in alive if not any(beats(four(other), four(run)) for other in alive)] ==> return [run for run in alive if not any(beats(four(other), four(run)) for other in alive)]

# %% wrong: a millionth better is as good => generality ~  from: every pair
# ~ any(x < y for ==> any(x < y * (1 - 1e-6) for

# %% wrong: the first 64 runs => generality ~  from: every pair
# ~ for run in runs if ==> for run in runs[:64] if

# %% wrong: a loss below 0 has diverged => generality ~  from: every pair
# ~ math.isfinite(run["loss"]) ==> math.isfinite(run["loss"]) and run["loss"] >= 0

# %% wrong: remembers a front by its names => generality ~  from: every pair
# ~ def front(runs): ==> def front(runs, kept={}):
# -     alive = [run for run in runs if math.isfinite(run["loss"])]
# +     runs = kept.setdefault(tuple(run["name"] for run in runs), runs)
# +     alive = [run for run in runs if math.isfinite(run["loss"])]

# %% wrong: memory in whole MiB => generality -  from: every pair
# ~ run["memory"], ==> run["memory"] // 2**20,
