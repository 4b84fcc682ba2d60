# %% right: a running total
def peak(log):
    alive, best = {}, (0, None, None)
    for row in log:
        if row["what"] == "alloc":
            alive[row["name"]] = row["kind"], row["bytes"]
        else:
            del alive[row["name"]]
        kinds = {}
        for kind, nbytes in alive.values():
            kinds[kind] = kinds.get(kind, 0) + nbytes
        if sum(kinds.values()) > best[0]:
            best = sum(kinds.values()), row["time"], max(kinds, key=kinds.get)
    return best


# %% right: any variant  from: a running total
#   def peak(log):
# +     if "born" in log[0]:
# +         moments = [(row["born"], 1, {**row, "what": "alloc", "time": row["born"]}) for row in log]
# +         dead = [row for row in log if row["died"] is not None]
# +         moments += [(row["died"], 0, {"what": "free", "time": row["died"], "name": row["name"]}) for row in dead]
# +         log = [row for *_, row in sorted(moments, key=lambda each: each[:2])]


# %% wrong: the sum => values sum-not-peak
def peak(log):
    rows = [row for row in log if row["what"] == "alloc"]
    return sum(row["bytes"] for row in rows), log[-1]["time"], "activations"


# %% wrong: what is alive at the end => values last-level  from: a running total
# ~ sum(kinds.values()) > best[0] ==> kinds


# %% wrong: the largest block => values largest-block
def peak(log):
    row = max((row for row in log if row["what"] == "alloc"), key=lambda row: row["bytes"])
    return row["bytes"], row["time"], row["kind"]


# %% wrong: each kind's own peak => values kind-by-kind
def peak(log):
    alive, best, when = {}, {}, 0
    for row in log:
        if row["what"] == "alloc":
            alive[row["name"]] = row["kind"], row["bytes"]
        else:
            del alive[row["name"]]
        for kind in {kind for kind, _ in alive.values()}:
            level = sum(nbytes for k, nbytes in alive.values() if k == kind)
            if level > best.get(kind, 0):
                best[kind], when = level, row["time"]
    return sum(best.values()), when, max(best, key=best.get)


# %% wrong: a name keeps its first size => values name-used-again  from: a running total
# ~ alive, best = {}, (0, None, None) ==> alive, best, first = {}, (0, None, None), {}
# ~ row["kind"], row["bytes"] ==> row["kind"], first.setdefault(row["name"], row["bytes"])

# %% wrong: the position for the time => values position  from: a running total
# ~ row["time"] ==> log.index(row)

# %% wrong: the kind of the largest block => values -  from: a running total
# ~ max(kinds, key=kinds.get) ==> max(alive.values(), key=lambda each: each[1])[0]

# %% wrong: the kind that allocated most => values most-allocated  from: a running total
# ~ alive, best = {}, ==> total, alive, best = {}, {},
#               alive[row["name"]] = row["kind"], row["bytes"]
# +             total[row["kind"]] = total.get(row["kind"], 0) + row["bytes"]
# ~ return best ==> return *best[:2], max(total, key=total.get)

# %% wrong: the kind allocated last => values last-allocated  from: a running total
# ~ max(kinds, key=kinds.get) ==> row["kind"]

# %% wrong: mebibytes => values mebibytes  from: a running total
# ~ return best ==> return best[0] / 2**20, *best[1:]

# %% wrong: the bytes alone => values wrong-shape  from: a running total
# ~ return best ==> return best[0]

# %% wrong: the last time of the peak => generality last-time  from: a running total
# ~ if sum(kinds.values()) > best[0]: ==> if sum(kinds.values()) >= best[0]:

# %% wrong: a level for each time => generality end-of-a-moment  from: a running total
# ~ row in log ==> number, row in enumerate(log)
# ~ if sum ==> if (number + 1 == len(log) or log[number + 1]["time"] != row["time"]) and sum


# %% wrong: the log shown, by heart => values only-the-example
def peak(log):
    return 414187520, 23.5, "moments"


# %% half: bytes and time => 3.5  from: a running total
# ~ max(kinds, key=kinds.get) ==> "weights"
