from course_lib.schedules import peak_activations, schedule_of
from course_lib.timeline import Durations, play


def one_f_one_b(stages, microbatches, ahead=0):
    """1F1B's rows, with more forwards ahead."""
    rows = []
    for s in range(stages):
        first = min(stages - 1 - s + ahead, microbatches)
        row = [("F", s, m) for m in range(first)]
        for m in range(microbatches):
            row += [("F", s, first + m)] * (first + m < microbatches) + [("B", s, m)]
        rows.append(row)
    return rows


def split(rows, lag):
    """Every B as an I; rank r does the W of micro-batch m after the I of m + lag(r), what is left in the end."""
    made = []
    for rank, row in enumerate(rows):
        new, owed = [], []
        for kind, s, m in row:
            if kind != "B":
                new.append((kind, s, m))
                continue
            new.append(("I", s, m))
            owed.append(("W", s, m))
            if len(owed) > lag(rank):
                new.append(owed.pop(0))
        made.append(new + owed)
    return made


def listed(stages, microbatches, times, order):
    """List scheduling: what can start earliest is next, at equal times by `order`; memory is kept."""
    forward, inner, outer = times
    took = dict(zip("FIW", times))
    now, held, rows = [0.0] * stages, [0] * stages, [[] for _ in range(stages)]
    count = {kind: [0] * stages for kind in "FIW"}
    done = {}
    while sum(count["W"]) < stages * microbatches:
        best = None
        for s in range(stages):
            f, i, w = (count[kind][s] for kind in "FIW")
            can = []
            if f < microbatches and held[s] < stages and (s == 0 or ("F", s - 1, f) in done):
                can.append((max(now[s], done.get(("F", s - 1, f), 0.0)), "F", f))
            source = ("F", s, i) if s == stages - 1 else ("I", s + 1, i)
            if i < f and source in done:
                can.append((max(now[s], done[source]), "I", i))
            if w < i:
                can.append((now[s], "W", w))
            for start, kind, m in can:
                key = (start, order.index(kind), s)
                if best is None or key < best[0]:
                    best = key, kind, s, m
        (start, _, _), kind, s, m = best
        now[s] = done[kind, s, m] = start + took[kind]
        rows[s].append((kind, s, m))
        count[kind][s] += 1
        held[s] += {"F": 1, "I": 0, "W": -1}[kind]
    return rows


# %% right: ZB-H1, rank r puts r weight gradients off
def split_rows(stages, microbatches, times):
    rows = []
    for s in range(stages):
        ahead = min(stages - 1 - s, microbatches)
        row = [("F", s, m) for m in range(ahead)]
        for m in range(microbatches):
            if ahead + m < microbatches:
                row.append(("F", s, ahead + m))
            row.append(("I", s, m))
            if m >= s:  # s weight gradients wait for the end, where nothing else is to be done
                row.append(("W", s, m - s))
        rows.append(row + [("W", s, m) for m in range(max(0, microbatches - s), microbatches)])
    return rows


# %% right: tries how many to put off on each rank, and keeps what ends first
def split_rows(stages, microbatches, times):
    forward, inner, outer = times
    lengths = Durations(forward=forward, backward=inner + outer, input_gradient=inner, weight_gradient=outer)
    base, best = one_f_one_b(stages, microbatches), None
    for slope in (0, 0.5, 1):
        for shift in (-1, 0, 1, 2):
            rows = split(base, lambda rank: max(0, round(slope * rank) + shift))
            made = schedule_of(rows, microbatches)
            if max(peak_activations(made)) <= stages:
                took = play(made, lengths).makespan
                if best is None or took < best[0] - 1e-9:
                    best = took, rows
    return best[1]


# %% right: with whole backwards on the first rank
def split_rows(stages, microbatches, times):
    whole = one_f_one_b(stages, microbatches)
    return [whole[0], *split(whole, lambda rank: rank)[1:]]


# %% wrong: 1F1B itself => cost as-1f1b
def split_rows(stages, microbatches, times):
    return one_f_one_b(stages, microbatches)


# %% wrong: split, and W at once after I => cost not-there
def split_rows(stages, microbatches, times):
    return split(one_f_one_b(stages, microbatches), lambda rank: 0)


# %% wrong: GPipe => values more-memory
def split_rows(stages, microbatches, times):
    return [[(kind, s, m) for kind in "FB" for m in range(microbatches)] for s in range(stages)]


# %% wrong: no weight gradients at all => values missing
def split_rows(stages, microbatches, times):
    return [[op for op in row if op[0] != "W"] for row in split(one_f_one_b(stages, microbatches), lambda rank: rank)]


# %% wrong: no operations, which ends before any bound => values empty-schedule
def split_rows(stages, microbatches, times):
    return [[] for _ in range(stages)]


# %% wrong: half of the micro-batches => values missing
def split_rows(stages, microbatches, times):
    return split(one_f_one_b(stages, microbatches // 2), lambda rank: rank)


# %% wrong: weight gradient before input gradient => values -
def split_rows(stages, microbatches, times):
    return [
        [({"I": "W", "W": "I"}.get(op[0], op[0]), *op[1:]) for op in row]
        for row in split(one_f_one_b(stages, microbatches), lambda rank: 0)
    ]


# %% wrong: both the whole backward and its halves => values duplicate
def split_rows(stages, microbatches, times):
    return [row + [("W", row[0][1], 0)] for row in one_f_one_b(stages, microbatches)]


# %% wrong: other ranks for the last stages, a V => values -
def split_rows(stages, microbatches, times):
    return split(one_f_one_b(stages, microbatches), lambda rank: rank)[::-1]


# %% wrong: what can start first, forwards before the rest => cost slower-than-1f1b
def split_rows(stages, microbatches, times):
    return listed(stages, microbatches, times, "FIW")


# %% wrong: one put off everywhere => values more-memory
def split_rows(stages, microbatches, times):
    return split(one_f_one_b(stages, microbatches), lambda rank: 1)


# %% wrong: by GENERATORS => values raised  from: 1F1B itself
# -     return one_f_one_b(stages, microbatches)
# +     from course_lib.schedules import GENERATORS
# +     return GENERATORS["zb_h1"](stages, microbatches).rows

# %% wrong: 1F1B where stages and micro-batches are as many => cost as-1f1b  from: with whole backwards on the first rank
# ~ return [whole ==> return whole if stages == microbatches else [whole

# %% wrong: remembers rows by stages and times => values ~  from: with whole backwards on the first rank
# ~ def split_rows(stages, microbatches, times): ==> def split_rows(stages, microbatches, times, kept={}):
# ~ whole = one_f_one_b(stages, microbatches) ==> whole = one_f_one_b(stages, kept.setdefault((stages, tuple(times)), microbatches))

# %% half: as good as 1F1B => 1.2  from: 1F1B itself

# %% half: W at once after I => 6  from: split, and W at once after I


# %% half: what can start first, input gradients before the rest => 6
def split_rows(stages, microbatches, times):
    return listed(stages, microbatches, times, "IFW")


# %% half: one put off but on the first => 6  from: W at once after I
# ~ lambda rank: 0 ==> lambda rank: min(rank, 1)
