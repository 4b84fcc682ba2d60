from collections import Counter


# %% right: as written
def blame(groups, records):
    entered = {rank: {call[:2] for call in calls} for rank, calls in records.items()}
    busy = {rank for rank, calls in records.items() if any(not call[4] for call in calls)}
    stuck = {call[:2] for calls in records.values() for call in calls if not call[4]}
    odd = set()
    for key in stuck:
        kinds = {rank: call[2:4] for rank, calls in records.items() for call in calls if call[:2] == key}
        usual = Counter(kinds.values()).most_common(1)[0][0]
        odd |= {rank for rank, kind in kinds.items() if kind != usual}
    if odd:
        return "different", sorted(odd)
    waited = {rank for key in stuck for rank in groups[key[0]] if key not in entered[rank]}
    free = waited - busy
    if free:
        return "missing", sorted(free)
    return ("order", sorted(waited)) if waited else None


# %% right: call by call
def blame(groups, records):
    calls = {}
    for rank, mine in records.items():
        for group, number, operation, count, finished in mine:
            calls.setdefault((group, number), {})[rank] = (operation, count, finished)
    open_calls = {key: ranks for key, ranks in calls.items() if not all(each[2] for each in ranks.values())}
    wrong = []
    for ranks in open_calls.values():
        tally = {}
        for operation, count, _ in ranks.values():
            tally[operation, count] = tally.get((operation, count), 0) + 1
        best = max(tally, key=tally.get)
        wrong += [rank for rank, each in ranks.items() if each[:2] != best]
    if wrong:
        return ["different", sorted(set(wrong))]
    waiting = {rank for ranks in open_calls.values() for rank, each in ranks.items() if not each[2]}
    absent = [rank for (group, _), ranks in open_calls.items() for rank in groups[group] if rank not in ranks]
    if not absent:
        return None
    culprits = [rank for rank in absent if rank not in waiting]
    return ["missing" if culprits else "order", sorted(set(culprits or absent))]


# %% wrong: those that wait => values blames-the-waiting  from: as written
# ~ (free) ==> (busy)

# %% wrong: all that are waited for => generality blames-a-victim  from: as written
# ~ waited - busy ==> waited

# %% wrong: circles are overlooked => generality overlooked  from: as written
# ~ ("order", sorted(waited)) if waited else None ==> None

# %% wrong: sizes are not compared => values -  from: as written
# -         kinds = {rank: call[2:4] for rank, calls in records.items() for call in calls if call[:2] == key}
# +         kinds = {rank: call[2:3] for rank, calls in records.items() for call in calls if call[:2] == key}

# %% wrong: missing ranks first => generality -  from: as written
# -     if odd:
# +     early = {rank for key in stuck for rank in groups[key[0]] if key not in entered[rank]} - busy
# +     if odd and not early:


# %% wrong: the fewest calls => values -
def blame(groups, records):
    fewest = min(map(len, records.values()))
    return "missing", sorted(rank for rank, calls in records.items() if len(calls) == fewest)


# %% wrong: groups are not told apart => generality -  from: as written
# ~ groups[key[0]] ==> records

# %% wrong: numbers are not told apart => values -  from: as written
# -     waited = {rank for key in stuck for rank in groups[key[0]] if key not in entered[rank]}
# +     waited = {rank for key in stuck for rank in groups[key[0]] if key[0] not in {call[0] for call in records[rank]}}

# %% wrong: the first rank alone => values -  from: as written
# ~ (free) ==> (free)[:1]

# %% wrong: the ranks are not sorted => values -  from: as written
# ~ sorted(free) ==> sorted(free, reverse=True)

# %% wrong: nothing wrong is missing => values -  from: as written
# ~ ("order", sorted(waited)) if waited else None ==> "order", sorted(waited)

# %% wrong: one rank differs at most => generality other-ranks  from: as written
# ~ (odd) ==> (odd)[:1]

# %% wrong: the last call of each rank alone => generality overlooked  from: call by call
# -         for group, number, operation, count, finished in mine:
# +         for group, number, operation, count, finished in mine[-1:]:

# %% wrong: a circle comes before a missing rank => generality other-kind  from: as written
# -     if free:
# +     if free and not waited & busy:

# %% wrong: a rank is busy if its last call is open => generality ~  from: as written
# ~ if any(not call[4] for call in calls)} ==> if calls and not calls[-1][4]}

# %% wrong: who waits is remembered by the numbers of calls => generality ~  from: as written
# - def blame(groups, records):
# + BUSY = {}
# + def blame(groups, records):
#       stuck = {call[:2] for calls in records.values() for call in calls if not call[4]}
# +     busy = BUSY.setdefault(tuple((rank, len(calls)) for rank, calls in records.items()), busy)
