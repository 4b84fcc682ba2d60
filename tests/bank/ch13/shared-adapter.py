# %% right: from event to event
def finish_times(transfers, bandwidth):
    left = [size for _, size in transfers]
    ends = [start for start, _ in transfers]
    now = 0.0
    while True:
        under_way = [i for i, (start, _) in enumerate(transfers) if start <= now and left[i] > 0]
        coming = [start for start, size in transfers if start > now and size > 0]
        if not under_way and not coming:
            return ends
        until = min(coming, default=float("inf"))
        if under_way:
            rate = bandwidth / len(under_way)
            quickest = min(left[i] for i in under_way)
            until = min(until, now + quickest / rate)
            for i in under_way:
                if left[i] == quickest and until == now + quickest / rate:
                    left[i], ends[i] = 0, until
                else:
                    left[i] -= (until - now) * rate
        now = until


# %% right: bytes that each share has sent
def finish_times(transfers, bandwidth):
    events = sorted({start for start, _ in transfers})
    active, ends, clock, served = {}, [start for start, _ in transfers], 0.0, 0.0
    for at, nxt in zip(events, [*events[1:], float("inf")]):
        clock = max(clock, at)
        for i, (start, size) in enumerate(transfers):
            if start == at and size:
                active[i] = served + size
        while active:
            goal = min(active.values())
            end = clock + (goal - served) * len(active) / bandwidth
            if end > nxt:
                served += (nxt - clock) * bandwidth / len(active)
                break
            clock, served = end, goal
            for i in [i for i, mark in active.items() if mark == goal]:
                ends[i] = clock
                del active[i]
        clock = max(clock, nxt) if nxt < float("inf") else clock
    return ends


# %% right: any variant  from: from event to event
# - def finish_times(transfers, bandwidth):
# + from course_lib import params
# + SHARING = params("shared-adapter").sharing
# + def finish_times(transfers, bandwidth):
# -     left = [size for _, size in transfers]
# +     if SHARING == "in turn":
# +         free, ends = 0.0, {}
# +         for i, (start, size) in sorted(enumerate(transfers), key=lambda pair: pair[1][0]):
# +             ends[i] = free = max(free, start) + size / bandwidth
# +         return [ends[i] for i in range(len(transfers))]
# +     left = [size for _, size in transfers]


# %% wrong: each alone => values independent
def finish_times(transfers, bandwidth):
    return [start + size / bandwidth for start, size in transfers]


# %% wrong: an equal part for good => values split-for-good
def finish_times(transfers, bandwidth):
    return [start + size * len(transfers) / bandwidth for start, size in transfers]


# %% wrong: one after another => values other-sharing unless sharing=in turn
def finish_times(transfers, bandwidth):
    free, ends = 0.0, {}
    for i, (start, size) in sorted(enumerate(transfers), key=lambda pair: pair[1][0]):
        ends[i] = free = max(free, start) + size / bandwidth
    return [ends[i] for i in range(len(transfers))]


# %% wrong: all start at once => generality -  from: from event to event
#   def finish_times(transfers, bandwidth):
# +     transfers = [(0.0, size) for _, size in transfers]

# %% wrong: durations => generality durations  from: from event to event
# ~ return ends ==> return [end - start for end, (start, _) in zip(ends, transfers)]


# %% wrong: all end together => values -
def finish_times(transfers, bandwidth):
    return [max(start for start, _ in transfers) + sum(size for _, size in transfers) / bandwidth] * len(transfers)


# %% wrong: no transfer is an error => generality raised  from: from event to event
# -     ends = [start for start, _ in transfers]
# +     ends = [start for start, _ in transfers]
# +     first = min(ends)

# %% wrong: the last kilobyte is done at once => generality ~  from: any variant
# ~ left[i] > 0 ==> left[i] > 1000
