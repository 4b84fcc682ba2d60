from collections import Counter
from statistics import fmean, median


# %% right: means
def where_it_goes(rows, warm_up, every):
    timed = rows[warm_up:]
    names = {name for row in timed for name in row["parts"]} - {"checkpoint"}
    found = {name: fmean(row["parts"].get(name, 0.0) for row in timed) for name in names}
    found["other"] = fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)
    saved = [row["parts"]["checkpoint"] for row in timed if row["parts"].get("checkpoint")]
    found["checkpoint"] = fmean(saved) / every if saved else 0.0
    return found


def closer_model(alone, measured):
    compute, talk = alone["compute"], alone["communication"]
    rest = sum(alone.values()) - compute - talk
    both, longer, shorter = compute + talk + rest, max(compute, talk) + rest, min(compute, talk)
    name = "sum" if abs(measured - both) <= abs(measured - longer) else "max"
    return name, min(max((both - measured) / shorter, 0.0), 1.0) if shorter else 0.0


def tokens_without(parts, tokens, name):
    return tokens / (sum(parts.values()) - parts.get(name, 0.0))


# %% right: running totals and other names
def where_it_goes(rows, warm_up, every):
    totals, saves = Counter(), []
    for row in rows[warm_up:]:
        parts = dict(row["parts"])
        totals["other"] += row["seconds"] - sum(parts.values())
        saves += filter(None, [parts.pop("checkpoint", None)])
        totals.update(parts)
    found = {name: total / (len(rows) - warm_up) for name, total in totals.items()}
    return {**found, "checkpoint": sum(saves) / len(saves) / every if saves else 0.0}


def closer_model(alone, measured):
    short, long = sorted((alone["compute"], alone["communication"]))
    over = measured - sum(each for name, each in alone.items() if name not in ("compute", "communication")) - long
    share = 1 - over / short if short else 0.0
    return ["sum" if over >= short / 2 or short == 0 else "max", sorted((0.0, share, 1.0))[1]]


def tokens_without(parts, tokens, name):
    return tokens / sum(seconds for part, seconds in parts.items() if part != name)


# %% wrong: with the warm-up => values warm-up-counted  from: means
# ~ rows[warm_up:] ==> rows


# %% wrong: medians => values medians  from: means
# ~ - {"checkpoint"} ==> | {"checkpoint"}
# ~ {name: fmean ==> {name: median
# ~ fmean(row["seconds"] ==> median(row["seconds"]
# -     saved = [row["parts"]["checkpoint"] for row in timed if row["parts"].get("checkpoint")]
# -     found["checkpoint"] = fmean(saved) / every if saved else 0.0

# %% wrong: a whole checkpoint in every step => values checkpoint-not-shared-out  from: means
# ~ / every if ==> if

# %% wrong: as many checkpoints as the log holds => values checkpoint-by-chance  from: means
# ~ fmean(saved) / every ==> sum(saved) / len(timed)

# %% wrong: the checkpoint twice => values checkpoint-in-other  from: means
# ~ - sum(row["parts"].values()) for ==> - sum(s for n, s in row["parts"].items() if n != "checkpoint") for

# %% wrong: seconds of the whole run => values totals  from: means
# ~ return found ==> return {name: seconds * len(timed) for name, seconds in found.items()}

# %% wrong: nothing is left over => values missing-part  from: means
# -     found["other"] = fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)

# %% wrong: only rows that have the part => generality only-where-present  from: means
# ~ .get(name, 0.0) for row in timed ==> [name] for row in timed if name in row["parts"]

# %% wrong: the rest forgotten in both theories => values rest-forgotten  from: means
# ~ sum(alone.values()) - compute - talk ==> 0.0

# %% wrong: the other theory => values other-theory  from: means
# ~ (measured - both) <= abs ==> (measured - both) > abs

# %% wrong: always the sum => values always-the-same  from: means
# ~ "sum" if abs(measured - both) <= abs(measured - longer) else "max" ==> "sum"

# %% wrong: a share of the longer => values of-the-longer  from: means
# ~ + rest, min(compute, talk) ==> + rest, max(compute, talk)

# %% wrong: a share of communication => values of-communication  from: means
# ~ min(compute, talk) ==> talk

# %% wrong: a share above one => values not-held  from: means
# ~ min(max((both - measured) / shorter, 0.0), 1.0) ==> (both - measured) / shorter

# %% wrong: what is exposed => values exposed  from: means
# ~ min(max ==> 1 - min(max

# %% wrong: the part alone => values part-alone  from: means
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> parts[name]

# %% wrong: what is gained => values gained  from: means
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> (sum(parts.values()) - parts.get(name, 0.0)) - tokens / sum(parts.values())

# %% wrong: a part that is not there => generality raised  from: means
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> (sum(parts.values()) - parts[name])

# %% wrong: nearer in ratio => generality -  from: means
# ~ abs(measured - both) <= abs(measured - longer) ==> both / measured <= measured / longer


# %% half: the account only => 2.1  from: means
def closer_model(alone, measured):
    raise NotImplementedError


def tokens_without(parts, tokens, name):
    raise NotImplementedError
