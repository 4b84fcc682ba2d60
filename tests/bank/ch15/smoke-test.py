import math
from statistics import mean, pvariance, variance


# %% right: in the order of the words
def smoke(run, floor):
    first, again = run(), run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    if not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0]:
        return "explodes"
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if first != again:
        return "not repeatable"
    if not all(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorizes" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% right: repeats are compared as text, questions as a table
def smoke(run, floor):
    one, two = run(), run()
    n = len(one["after"])
    b, a = sum(one["before"]) / n, sum(one["after"]) / n
    spread = sum((x - b) ** 2 for x in one["before"]) + sum((x - a) ** 2 for x in one["after"])
    noise = 3 * (spread / (n - 1) / n) ** 0.5
    table = {
        "explodes": any(not -math.inf < x <= 2 * one["losses"][0] for x in one["losses"]),
        "not repeatable": repr(one) != repr(two),
        "frozen": 0.0 in one["moved"].values(),
        "leak": floor - a > noise,
        "memorizes": b - a <= noise and 2 * one["losses"][-1] < one["losses"][0],
        "learns nothing": b - a <= noise,
    }
    return next((word for word, yes in table.items() if yes), "sound")


# %% wrong: only whether anything moved => generality unnoticed  from: in the order of the words
# ~ if not all(first["moved"].values()): ==> if not any(first["moved"].values()):

# %% wrong: no question of a leak => values unnoticed  from: in the order of the words
# ~ after < floor - noise ==> False

# %% wrong: whether the numbers are numbers is not asked => generality -  from: in the order of the words
# ~ not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0] ==> False

# %% wrong: training loss in place of fresh text => generality -  from: in the order of the words
# ~ before - after ==> losses[0] - losses[-1]

# %% wrong: what is learnt by heart is no learning => generality not-memorizes  from: in the order of the words
# ~ return "memorizes" if losses[-1] < losses[0] / 2 else "learns nothing" ==> return "learns nothing"

# %% wrong: five runs, to be sure => values raised  from: in the order of the words
# ~ again = run(), run() ==> again, *_ = [run() for _ in range(5)]

# %% wrong: three runs => cost too-many-runs  from: in the order of the words
# ~ again = run ==> again, _ = run(), run


# %% wrong: a yes or no => values no-such-word
def smoke(run, floor):
    return run() == run()


# %% wrong: what moved is not compared => generality unnoticed  from: in the order of the words
# ~ first != again ==> any(first[name] != again[name] for name in ("losses", "before", "after"))

# %% wrong: repeats before explosions => generality not-explodes  from: in the order of the words
#       losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
# +     if first != again:
# +         return "not repeatable"

# %% wrong: what stands still before repeats => generality not-not-repeatable  from: in the order of the words
# ~ if first != again: ==> if first != again and all(first["moved"].values()):

# %% wrong: the leak before what stands still => generality not-frozen  from: in the order of the words
# ~ if not all(first["moved"].values()): ==> if after >= floor - noise and not all(first["moved"].values()):

# %% wrong: learning by heart before the leak => generality not-leak  from: in the order of the words
# ~ after < floor - noise ==> after < floor - noise and (before - after > noise or losses[-1] >= losses[0] / 2)

# %% wrong: the variance of a population => generality unnoticed  from: in the order of the words
# ~ variance(first["before"]) + variance(first["after"]) ==> pvariance(first["before"]) + pvariance(first["after"])

# %% wrong: any loss below the floor is a leak => generality false-alarm  from: in the order of the words
# ~ floor - noise ==> floor

# %% half: right, with three runs => 4.5  from: three runs

# %% wrong: minus infinity is a loss => generality -  from: repeats are compared as text, questions as a table
# ~ not -math.inf < x <= 2 ==> not x <= 2
