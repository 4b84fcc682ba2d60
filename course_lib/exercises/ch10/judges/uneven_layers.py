"""Judge of uneven-layers: layers that differ."""

import random
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise

from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome
from course_lib.schedules import cut


def _times(costs: Sequence[float], counts: Sequence[int]) -> list[float]:
    """The time of each stage, from the time of each layer and how many layers each stage gets."""
    return [sum(costs[start:end]) for start, end in pairwise((0, *accumulate(counts)))]


def _best(costs: Sequence[float], stages: int) -> float:
    """The least time of the slowest stage."""
    return max(_times(costs, [len(layers) for layers in cut(costs, stages)]))


def _filled(costs: Sequence[float], stages: int) -> list[int]:
    """Stages filled one after another until the next layer would pass the average."""
    average, counts, filled = sum(costs) / stages, [0], 0.0
    for place, cost in enumerate(costs):
        stages_left, layers_left = stages - len(counts), len(costs) - place
        if counts[-1] and stages_left and (filled + cost > average or layers_left <= stages_left):
            counts.append(0)
            filled = 0.0
        counts[-1] += 1
        filled += cost
    return counts


def _nearest(costs: Sequence[float], stages: int) -> list[int]:
    """Stages cut where the running sum is nearest to equal shares."""
    sums, cuts = [0.0, *accumulate(costs)], [0]
    for stage in range(1, stages):
        room = range(cuts[-1] + 1, len(costs) - (stages - stage) + 1)
        cuts.append(min(room, key=lambda at: abs(sums[at] - stage * sums[-1] / stages)))
    return [end - start for start, end in pairwise([*cuts, len(costs)])]


def _costs(rng: random.Random, layers: int) -> list[float]:
    blocks = [round(rng.uniform(0.8, 1.6), 2) for _ in range(layers - 2)]
    return [0.3, *blocks, round(rng.uniform(2.5, 4.5), 2)]


def _heavy(layers: int, stages: int) -> list[float]:
    """Equal blocks between a light embedding and a head so heavy that neither equal counts nor filling to the average is best."""
    even = [layers // stages + (stage < layers % stages) for stage in range(stages)]
    for head in range(5, 25):
        costs = [0.2, *[1.0] * (layers - 2), head / 4]
        filled = _filled(costs, stages)
        shortcut = min(max(_times(costs, even)), max(_times(costs, filled)))
        if max(filled) - min(filled) > 1 and shortcut > 1.05 * _best(costs, stages):
            return costs
    raise ValueError(f"No head makes {layers} layers on {stages} stages uneven.")


def _unlike(rng: random.Random, layers: int, stages: int) -> list[float]:
    """Drawn costs for which cutting nearest to equal shares is not the best: by luck it often is."""
    while True:
        costs = _costs(rng, layers)
        if max(_times(costs, _nearest(costs, stages))) > 1.02 * _best(costs, stages):
            return costs


def _no_cut_for_all(rng: random.Random, layers: int, stages: int, count: int = 3) -> list[list[float]]:
    """Several such costs for which no one cut is always the best, so that constant counts are no answer."""
    while True:
        drawn = [_unlike(rng, layers, stages) for _ in range(count)]
        best = [_best(costs, stages) * (1 + 1e-9) for costs in drawn]
        ends = combinations(range(1, layers), stages - 1)
        cuts = ([end - start for start, end in pairwise((0, *inner, layers))] for inner in ends)
        if not any(
            all(max(_times(costs, counts)) <= most for costs, most in zip(drawn, best, strict=True)) for counts in cuts
        ):
            return drawn


def _cases(params: Params, rng: random.Random) -> list[Case]:
    layers, stages = params["layers"], params["stages"]
    cases = [shown(f"{layers} layers, a heavy head", "values:cut", _heavy(layers, stages), stages)]
    for costs in _no_cut_for_all(rng, layers, stages):
        cases.append(hidden(f"{layers} layers of all sizes", "values:cut", costs, stages))
    more = {
        "one stage": ([1.0, 2.0, 3.0], 1),
        "as many stages as layers": ([3.0, 1.0, 2.0, 5.0], 4),
        "a giant in the middle": ([1.0] * 4 + [9.0] + [1.0] * 4, 4),
        "the heavy ones first": ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0], 3),
        "whole numbers": ([rng.randrange(1, 9) for _ in range(15)], 5),
        "a hundred layers": (_costs(rng, 100), rng.randrange(17, 21)),
        "the heavy ones last": ([1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3),
        "a trap for averages": ([2.0] * 7 + [1.0] * 2, 4),
    }
    for s, scale in (3, 1.0), (4, 1e-5), (6, 1e5):
        more[f"drawn layers, {s} stages"] = [scale * cost for cost in _costs(rng, rng.randrange(10, 40))], s
    return cases + [hidden(name, "generality:layers", *args) for name, args in more.items()]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    (costs, stages), counts = case.args, [int(count) for count in outcome.value]
    if len(counts) != stages:
        return "other-stages", f"there are {len(counts)} counts; there must be one for each of {stages} stages."
    if min(counts) < 1:
        stage = counts.index(min(counts))
        return "empty-stage", f"stage {stage} gets {counts[stage]} layers; each stage gets at least one."
    if sum(counts) != len(costs):
        return "layers-lost", f"the stages have {sum(counts)} layers together; there are {len(costs)}."
    times, best = _times(costs, counts), _best(costs, stages)
    if max(times) <= best * (1 + 1e-9):
        return None
    told = f"the slowest stage takes {max(times):.4g}, and {best:.4g} is possible."
    if max(counts) - min(counts) <= 1:
        return "equal-counts", f"{told} Equal numbers of layers are not equal work."
    if _filled(costs, stages) == counts:
        return "filled-to-average", f"{told} Filling each stage to the average leaves all the rest to the last one."
    return "not-best", f"{told} Stage {times.index(max(times))} is the slowest: can it, or a neighbor, pass a layer on?"


JUDGING = Judging(
    shares="values:cut 0.5, generality:layers 0.5",
    cases=_cases,
    verdicts=oracle(_fault, named=True),
    why="""A stage is a run of neighboring layers. Dynamic programming compares all such runs; a greedy test decides whether a time t can
be kept, for each t that can be the answer. Filling to the average leaves the head on top of a full last stage.""",
    pytorch="`pipeline(module, mb_args, split_spec={...})` takes the cut as given; Llama 3 took one block from the first and the last stage.",
)

ANSWERS = r"""from itertools import accumulate


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
"""
