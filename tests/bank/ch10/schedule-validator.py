from collections import Counter


def looked_at(rows, microbatches):
    """What single rows tell, or None."""
    found = Counter(tuple(op[:3]) for row in rows for op in row)
    wanted = [(kind, s, m) for s in range(len(rows)) for m in range(microbatches) for kind in "FB"]
    if not found:
        return "empty"
    if any(op[1] != rank for rank, row in enumerate(rows) for op in row):
        return "wrong rank"
    if max(found.values()) > 1:
        return "duplicate"
    if set(found) != set(wanted):
        return "missing"
    for row in rows:
        seen = set()
        for kind, _, m in row:
            if kind == "B" and m not in seen:
                return "order"
            seen.add(m)
    return None


def stuck(rows):
    """Whether the rows come to a stop when they run side by side."""
    done, at = set(), [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while at[rank] < len(row):
                kind, s, m = row[at[rank]]
                needs = [("F", s - 1, m)] if kind == "F" and s else []
                if kind == "B":
                    needs = [("F", s, m)] + ([("B", s + 1, m)] if s < len(rows) - 1 else [])
                if not all(each in done for each in needs):
                    break
                done.add((kind, s, m))
                at[rank] += 1
                moved = True
    return any(place < len(row) for place, row in zip(at, rows))


def most_held(rows):
    """The most micro-batches between forward and backward on any rank."""
    most = 0
    for row in rows:
        held = 0
        for kind, *_ in row:
            held += 1 if kind == "F" else -1
            most = max(most, held)
    return most


def too_full(rows, limit):
    """Whether the limit is passed."""
    return limit is not None and most_held(rows) > limit


# %% right: look at each row, then run them
def complaint(rows, microbatches, limit):
    word = looked_at(rows, microbatches)
    if word:
        return word
    if stuck(rows):
        return "deadlock"
    return "memory" if too_full(rows, limit) else "ok"


# %% right: a graph of needs, and whether it has a circle  from: look at each row, then run them
# -     if stuck(rows):
# +     edges = {}
# +     for rank, row in enumerate(rows):
# +         for place, (kind, s, m) in enumerate(row):
# +             needs = edges.setdefault((kind, s, m), set())
# +             if place:
# +                 needs.add(tuple(row[place - 1]))
# +             if kind == "F" and s:
# +                 needs.add(("F", s - 1, m))
# +             if kind == "B" and s + 1 < len(rows):
# +                 needs.add(("B", s + 1, m))
# +     while True:
# +         free = [op for op, needs in edges.items() if not needs]
# +         if not free:
# +             break
# +         for op in free:
# +             del edges[op]
# +         for needs in edges.values():
# +             needs.difference_update(free)
# +     if edges:


# %% wrong: compares what is there, so that nothing is right => values accepts-empty
def complaint(rows, microbatches, limit):
    for rank, row in enumerate(rows):
        for kind, s, m in row:
            if s != rank:
                return "wrong rank"
    return "ok"


# %% wrong: does not run the rows => values accepts-deadlock
def complaint(rows, microbatches, limit):
    return looked_at(rows, microbatches) or ("memory" if too_full(rows, limit) else "ok")


# %% wrong: does not look at the limit => values accepts-memory
def complaint(rows, microbatches, limit):
    return looked_at(rows, microbatches) or ("deadlock" if stuck(rows) else "ok")


# %% wrong: counts forwards, not what is held => values rejects-good
def complaint(rows, microbatches, limit):
    word = looked_at(rows, microbatches) or ("deadlock" if stuck(rows) else None)
    if not word and limit is not None and any(sum(op[0] == "F" for op in row) > limit for row in rows):
        return "memory"
    return word or "ok"


# %% wrong: the limit itself is too much => values rejects-good
def complaint(rows, microbatches, limit):
    word = looked_at(rows, microbatches) or ("deadlock" if stuck(rows) else None)
    return word or ("memory" if limit is not None and most_held(rows) >= limit else "ok")


# %% wrong: no limit means none may be held => values rejects-good  from: the limit itself is too much
# ~ limit is not None and most_held(rows) >= limit ==> most_held(rows) > (limit or 0)


# %% wrong: looks at the first row only => values -
def complaint(rows, microbatches, limit):
    return (
        "empty" if not rows else looked_at(rows[:1], microbatches) or ("memory" if too_full(rows[:1], limit) else "ok")
    )


# %% wrong: yes or no => values no-such-word
def complaint(rows, microbatches, limit):
    return looked_at(rows, microbatches) is None and not stuck(rows) and not too_full(rows, limit)


# %% wrong: one word for all faults => generality other-word
def complaint(rows, microbatches, limit):
    bad = looked_at(rows, microbatches) or stuck(rows) or too_full(rows, limit)
    return "missing" if bad else "ok"


# %% wrong: compares positions in the rows in place of running them => values rejects-good  from: look at each row, then run them
# -     if stuck(rows):
# -         return "deadlock"
# +     place = {tuple(op): i for row in rows for i, op in enumerate(row)}
# +     for (kind, s, m), i in place.items():
# +         if kind == "F" and s and place["F", s - 1, m] > i:
# +             return "deadlock"
# +         if kind == "B" and s < len(rows) - 1 and place["B", s + 1, m] > i + 2:
# +             return "deadlock"

# %% half: finds all, and has one word for it => 6  from: one word for all faults


# %% wrong: looks at memory before it runs the rows => generality other-word
def complaint(rows, microbatches, limit):
    word = looked_at(rows, microbatches)
    return word or ("memory" if too_full(rows, limit) else "deadlock" if stuck(rows) else "ok")


# %% wrong: finds what is missing by counting => generality accepts-missing
def complaint(rows, microbatches, limit):
    flat = [tuple(op) for row in rows for op in row]
    word = looked_at(rows, microbatches)
    if word == "missing" and len(flat) == 2 * len(rows) * microbatches:
        word = None
    return word or ("deadlock" if stuck(rows) else "memory" if too_full(rows, limit) else "ok")


# %% wrong: looks at the order before it counts => generality other-word
def complaint(rows, microbatches, limit):
    word = looked_at(rows, microbatches)
    early = any(
        kind == "B" and ("F", s, m) in row[i:] for row in rows for i, (kind, s, m) in enumerate(map(tuple, row))
    )
    if word in ("duplicate", "missing") and early:
        return "order"
    return word or ("deadlock" if stuck(rows) else "memory" if too_full(rows, limit) else "ok")


# %% wrong: memory is the warm-up's => values -
def complaint(rows, microbatches, limit):
    word = looked_at(rows, microbatches)
    warm = [next((at for at, (kind, *_) in enumerate(row) if kind == "B"), len(row)) for row in rows]
    return word or ("deadlock" if stuck(rows) else "memory" if limit is not None and max(warm) > limit else "ok")


# %% wrong: a limit of none held is no limit => values accepts-memory  from: look at each row, then run them
# ~ too_full(rows, limit) ==> too_full(rows, limit or None)

# %% wrong: ranks after the sixth are not run => generality accepts-deadlock  from: look at each row, then run them
# ~ stuck(rows) ==> len(rows) < 7 and stuck(rows)

# %% wrong: looks for missing ones before other ranks => generality other-word  from: look at each row, then run them
# -     if word:
# +     if word == "wrong rank" and len({tuple(op) for row in rows for op in row}) < 2 * len(rows) * microbatches:
# +         return "missing"
# +     if word:

# %% wrong: micro-batch -1 is the last one => generality accepts-missing  from: look at each row, then run them
#   def complaint(rows, microbatches, limit):
# +     rows = [[(kind, s, range(microbatches)[m] if m < microbatches else m) for kind, s, m in row] for row in rows]
