"""Answers to smoke-test: right ones, and wrong ones with the verdict and mistake that must find them."""

import math
from statistics import mean, variance

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
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% right: repeats are compared as text, questions as a table


def smoke(run, floor):
    one, two = run(), run()
    n = len(one["after"])
    b, a = sum(one["before"]) / n, sum(one["after"]) / n
    spread = sum((x - b) ** 2 for x in one["before"]) + sum((x - a) ** 2 for x in one["after"])
    noise = 3 * (spread / (n - 1) / n) ** 0.5
    table = {
        "explodes": any(not x <= 2 * one["losses"][0] for x in one["losses"]),
        "not repeatable": repr(one) != repr(two),
        "frozen": 0.0 in one["moved"].values(),
        "leak": floor - a > noise,
        "memorises": b - a <= noise and 2 * one["losses"][-1] < one["losses"][0],
        "learns nothing": b - a <= noise,
    }
    return next((word for word, yes in table.items() if yes), "sound")


# %% wrong: the loss falls, so it is sound => values unnoticed


def smoke(run, floor):
    losses = run()["losses"]
    return "sound" if losses[-1] < losses[0] else "learns nothing"


# %% wrong: run once => values unnoticed


def smoke(run, floor):
    first = run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    if not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0]:
        return "explodes"
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if not all(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: repeats are compared to four digits => generality unnoticed


def smoke(run, floor):
    first, again = run(), run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    if not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0]:
        return "explodes"
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if [round(x, 4) for x in first["losses"]] != [round(x, 4) for x in again["losses"]]:
        return "not repeatable"
    if not all(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: only whether anything moved => generality unnoticed


def smoke(run, floor):
    first, again = run(), run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    if not all(map(math.isfinite, losses)) or max(losses) > 2 * losses[0]:
        return "explodes"
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if first != again:
        return "not repeatable"
    if not any(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: no floor, only a loss near zero => generality unnoticed


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
    if after < 0.1:
        return "leak"
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: no question of a leak => values unnoticed


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
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: whether the numbers are numbers is not asked => generality -


def smoke(run, floor):
    first, again = run(), run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if first != again:
        return "not repeatable"
    if not all(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: the last loss alone tells an explosion => generality not-explodes


def smoke(run, floor):
    first, again = run(), run()
    losses, before, after = first["losses"], mean(first["before"]), mean(first["after"])
    if not all(map(math.isfinite, losses)) or losses[-1] > 2 * losses[0]:
        return "explodes"
    noise = 3 * math.sqrt((variance(first["before"]) + variance(first["after"])) / len(first["after"]))
    if first != again:
        return "not repeatable"
    if not all(first["moved"].values()):
        return "frozen"
    if after < floor - noise:
        return "leak"
    if before - after <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: training loss in place of fresh text => generality -


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
    if losses[0] - losses[-1] <= noise:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: any fall is progress => generality unnoticed


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
    if before <= after:
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: what is learnt by heart is no learning => generality not-memorises


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
        return "learns nothing"
    return "sound"


# %% wrong: five runs, to be sure => values raised


def smoke(run, floor):
    first, again, *_ = [run() for _ in range(5)]
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
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: three runs => cost too-many-runs


def smoke(run, floor):
    first, again, _ = run(), run(), run()
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
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"


# %% wrong: a yes or no => values no-such-word


def smoke(run, floor):
    return run() == run()


# %% wrong: left as it is => not-answered


def smoke(run, floor):
    raise NotImplementedError


# %% half: right, with three runs => 4.5


def smoke(run, floor):
    first, again, _ = run(), run(), run()
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
        return "memorises" if losses[-1] < losses[0] / 2 else "learns nothing"
    return "sound"
