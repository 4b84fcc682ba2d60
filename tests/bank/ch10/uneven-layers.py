from itertools import accumulate


# %% right: dynamic programming over where the last stage begins
def cut_layers(costs, stages):
    from functools import cache

    @cache
    def best(start, left):
        if left == 1:
            return sum(costs[start:]), (len(costs) - start,)
        found = None
        for end in range(start + 1, len(costs) - left + 2):
            slowest, counts = best(end, left - 1)
            slowest = max(slowest, sum(costs[start:end]))
            if found is None or slowest < found[0]:
                found = slowest, (end - start, *counts)
        return found

    return list(best(0, stages)[1])


# %% right: every run of layers is a candidate for the slowest stage
def cut_layers(costs, stages):
    def filled(limit):
        counts, now = [0], 0.0
        for place, cost in enumerate(costs):
            left = len(costs) - place
            if counts[-1] and (now + cost > limit + 1e-9 or left <= stages - len(counts)):
                counts.append(0)
                now = 0.0
            counts[-1] += 1
            now += cost
            if now > limit + 1e-9:
                return None
        return counts if len(counts) == stages else None

    sums = [0.0, *accumulate(costs)]
    limits = sorted({b - a for i, a in enumerate(sums) for b in sums[i + 1 :]})
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if filled(limits[middle]) else (middle + 1, high)
    return filled(limits[low])


# %% right: a tuple, by bisection on the time
def cut_layers(costs, stages):
    low, high = max(costs), sum(costs)

    def filled(limit):
        counts, now = [0], 0.0
        for place, cost in enumerate(costs):
            if counts[-1] and (now + cost > limit or len(costs) - place <= stages - len(counts)):
                counts.append(0)
                now = 0.0
            counts[-1] += 1
            now += cost
        return counts

    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if len(filled(middle)) <= stages else (middle, high)
    return tuple(filled(high))


# %% wrong: equally many layers => values equal-counts
def cut_layers(costs, stages):
    base, rest = divmod(len(costs), stages)
    return [base + (s < rest) for s in range(stages)]


# %% wrong: fills up to the average => values filled-to-average
def cut_layers(costs, stages):
    average, counts, now = sum(costs) / stages, [0], 0.0
    for place, cost in enumerate(costs):
        left = len(costs) - place
        if counts[-1] and len(counts) < stages and (now + cost > average or left <= stages - len(counts)):
            counts.append(0)
            now = 0.0
        counts[-1] += 1
        now += cost
    return counts


# %% wrong: nearest to equal shares of the sum => values -
def cut_layers(costs, stages):
    sums, total = [0.0, *accumulate(costs)], sum(costs)
    cuts = [0]
    for s in range(1, stages):
        room = range(cuts[-1] + 1, len(costs) - (stages - s) + 1)
        cuts.append(min(room, key=lambda i: abs(sums[i] - s * total / stages)))
    cuts.append(len(costs))
    return [b - a for a, b in zip(cuts, cuts[1:])]


# %% wrong: drops the head => values layers-lost  from: equally many layers
# ~ (costs), stages ==> (costs) - 1, stages


# %% wrong: an idle stage is allowed => values empty-stage
def cut_layers(costs, stages):
    return [len(costs)] + [0] * (stages - 1)


# %% wrong: where stages begin, not how long they are => values -
def cut_layers(costs, stages):
    base = len(costs) // stages
    return [s * base for s in range(stages)]


# %% wrong: the layers themselves => values not-a-number  from: where stages begin, not how long they are
# ~ s * base ==> costs[s * base : (s + 1) * base]


# %% wrong: the time, not the cut => values wrong-shape
def cut_layers(costs, stages):
    return sum(costs) / stages


# %% wrong: one stage too few => values other-stages
def cut_layers(costs, stages):
    return [len(costs)] if stages == 1 else [1] * (stages - 2) + [len(costs) - stages + 2]


# %% wrong: to a thousandth => generality not-best  from: a tuple, by bisection on the time
# ~ for _ in range(100): ==> while high - low > 1e-3:

# %% wrong: remembers cuts by the costs in order of size => generality not-best  from: a tuple, by bisection on the time
# ~ def cut_layers(costs, stages): ==> def cut_layers(costs, stages, kept={}):
#       low, high = max(costs), sum(costs)
# +     costs = kept.setdefault((stages, *sorted(costs)), costs)


# %% half: right for the small ones by trying all, the rest evenly => 4
def cut_layers(costs, stages):
    from itertools import combinations

    base, rest = divmod(len(costs), stages)
    even = [base + (s < rest) for s in range(stages)]
    if len(costs) > 14:
        return even
    found = None
    for cuts in combinations(range(1, len(costs)), stages - 1):
        bounds = (0, *cuts, len(costs))
        slowest = max(sum(costs[a:b]) for a, b in zip(bounds, bounds[1:]))
        if found is None or slowest < found[0]:
            found = slowest, [b - a for a, b in zip(bounds, bounds[1:])]
    return found[1]


# %% wrong: the costs are used up where stages are layers => values changed-arguments  from: dynamic programming over where the last stage begins
#   def cut_layers(costs, stages):
# +     if stages == len(costs):
# +         return [len([costs.pop()]) for _ in range(stages)]

# %% wrong: one list for the cuts of all calls => values changed-results  from: dynamic programming over where the last stage begins
# - def cut_layers(costs, stages):
# + CUT = []
# + def cut_layers(costs, stages):
# -     return list(best(0, stages)[1])
# +     CUT[:] = best(0, stages)[1]
# +     return CUT
