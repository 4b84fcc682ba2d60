MEETS = {"sends": "receives", "receives": "sends"}


def latest(log):
    state = {}
    for time, rank, what, peer in sorted(log):
        state[rank] = (what, peer)
    return state


# %% right: follow the path from every rank
def find_cycle(log):
    state = latest(log)
    waits = {r: p for r, (what, p) in state.items() if what in MEETS and state.get(p) != (MEETS[what], r)}
    for start in sorted(waits):
        path, rank = [], start
        while rank in waits and rank not in path:
            path.append(rank)
            rank = waits[rank]
        if rank == start:
            return path
    return []


# %% right: strike out whoever waits for one that is free, until nothing changes
def find_cycle(log):
    state = latest(log)
    waits = {rank: peer for rank, (what, peer) in state.items() if what in MEETS}
    waits = {rank: peer for rank, peer in waits.items() if state.get(peer) != (MEETS[state[rank][0]], rank)}
    while free := [rank for rank in waits if waits[rank] not in waits]:
        for rank in free:
            del waits[rank]
    while tail := [rank for rank in waits if rank not in waits.values()]:
        for rank in tail:
            del waits[rank]
    circle = [min(waits)] if waits else []
    while circle and waits[circle[-1]] != circle[0]:
        circle.append(waits[circle[-1]])
    return circle


# %% wrong: a message in flight is no deadlock => generality missed  from: follow the path from every rank
# ~ return path ==> return path * all(state.get(p) != (MEETS.get(what), r) for r, (what, p) in state.items())

# %% wrong: every rank has entries => generality raised  from: follow the path from every rank
# ~ state.get(p) ==> state[p]

# %% wrong: the latest entries are those after the first ten seconds => values -  from: follow the path from every rank
# ~ state = latest(log) ==> state = {entry[1]: entry[2:] for entry in log if entry[0] >= 10}


# %% wrong: a slow rank is reported => values slow-is-no-circle
def find_cycle(log):
    state = latest(log)
    waits = {r: p for r, (what, p) in state.items() if what in MEETS}
    return sorted(waits)


# %% wrong: counts the tail in => generality tail-counted  from: follow the path from every rank
# ~ for start in sorted(waits): ==> for start in sorted(waits, reverse=True):
# -         if rank == start:
# -             return path
# +         if rank in path:
# +             at = path.index(min(path))
# +             return path[at:] + path[:at]

# %% wrong: a send and its receive count as a circle of two => generality about-to-meet  from: follow the path from every rank
# ~ MEETS and state.get(p) != (MEETS[what], r) ==> MEETS

# %% wrong: any entry counts, not the latest => generality old-entries  from: follow the path from every rank
# -     state = latest(log)
# -     waits = {r: p for r, (what, p) in state.items() if what in MEETS and state.get(p) != (MEETS[what], r)}
# +     ever = {}
# +     for time, rank, what, peer in sorted(log, key=lambda entry: entry[0]):
# +         if what in MEETS:
# +             ever[rank] = (what, peer)
# +         elif what == "done":
# +             ever.pop(rank, None)
# +     waits = {r: p for r, (what, p) in ever.items() if ever.get(p) != (MEETS[what], r)}

# %% wrong: begins where it happened to look => values wrong-start  from: counts the tail in
# -             at = path.index(min(path))
# -             return path[at:] + path[:at]
# +             return path[path.index(rank) :]

# %% wrong: the ranks in order of number => values -  from: follow the path from every rank
# ~ return path ==> return sorted(path)[:1] + sorted(path, reverse=True)[:-1]

# %% wrong: never finds any => values missed  from: says whether there is one
# ~ True ==> []


# %% wrong: says whether there is one => values wrong-shape
def find_cycle(log):
    return True


# %% half: pairs about to meet are taken for circles => 6.8  from: a send and its receive count as a circle of two
