from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, hidden, oracle, shown
from course_lib.parallel.schedules import cut

right = Worked("uneven-layers")


def _times(costs: Sequence[float], counts: Sequence[int]) -> list[float]:
    """The time of each stage, from the time of each layer and how many layers each stage gets."""
    return [sum(costs[start:end]) for start, end in pairwise((0, *accumulate(counts)))]


def _best(costs: Sequence[float], stages: int) -> float:
    return max(_times(costs, [len(layers) for layers in cut(costs, stages)]))


def _costs(rng: Random, layers: int) -> list[float]:
    blocks = [round(rng.uniform(0.8, 1.6), 2) for _ in range(layers - 2)]
    return [0.3, *blocks, round(rng.uniform(2.5, 4.5), 2)]


def _heavy(layers: int, stages: int) -> list[float]:
    """Equal blocks between a light embedding and a head so heavy that neither equal counts nor filling to the average
    is best."""
    for head in range(5, 25):
        costs = [0.2, *[1.0] * (layers - 2), head / 4]
        filled = right.wrong("filled to average", costs, stages)
        shortcut = min(max(_times(costs, each)) for each in (filled, right.wrong("equal counts", costs, stages)))
        if max(filled) - min(filled) > 1 and shortcut > 1.05 * _best(costs, stages):
            return costs
    raise ValueError(f"No head makes {layers} layers on {stages} stages uneven.")


def _unlike(rng: Random, layers: int, stages: int, slip: str = "nearest shares") -> list[float]:
    """Drawn costs for which a wrong rule does not find the best cut: by luck it often does."""
    while True:
        costs = _costs(rng, layers)
        if max(_times(costs, right.wrong(slip, costs, stages))) > 1.02 * _best(costs, stages):
            return costs


def _no_cut_for_all(rng: Random, layers: int, stages: int, count: int = 3) -> list[list[float]]:
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


def _cases(params: Params, rng: Random) -> list[Case]:
    layers, stages = params["layers"], params["stages"]
    cases = [shown(f"{layers} layers, a heavy head", "values:cut", _heavy(layers, stages), stages)]
    for costs in _no_cut_for_all(rng, layers, stages):
        cases.append(hidden(f"{layers} layers of all sizes", "values:cut", costs, stages))
    squares = _unlike(rng, layers, stages, "sum of squares")
    cases.append(hidden(f"{layers} layers, another rule", "values:cut", squares, stages))
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
    slowest = f"Stage {times.index(max(times))} is the slowest: can it, or a neighbor, pass a layer on?"
    return Wrong("not-best", f"{told} {slowest}", f"{told} ")


JUDGING = Judging(
    many_right=True,
    shares="values:cut 0.5, generality:layers 0.5",
    cases=_cases,
    verdicts=oracle(_fault, named=True),
    why="""A stage is a run of neighboring layers. Dynamic programming compares all such runs; a greedy test decides
whether a time t can be kept, for each t that can be the answer. Filling to the average leaves the head on top of a full
last stage.""",
    pytorch="`pipeline(module, mb_args, split_spec={...})` takes the cut as given; Llama 3 took one block from the "
    "first and the last stage.",
)

ANSWERS = r'''import math
# %% right: worked
def cut_layers(costs: list[float], stages: int) -> list[int]:
    """How many layers each stage gets, so that the slowest stage is as fast as possible."""
    n = len(costs)
    upto = [0.0]
    for cost in costs:
        upto.append(upto[-1] + cost)
    best = [upto[n] - upto[i] for i in range(n + 1)]  # of layers from i on, as one stage
    choice = []
    for left in range(2, stages + 1):
        new, take = [math.inf] * (n + 1), [0] * (n + 1)
        for i in range(n - left + 1):
            for j in range(i + 1, n - left + 2):
                worst = max(upto[j] - upto[i], best[j])
                if worst < new[i]:
                    new[i], take[i] = worst, j
        best = new
        choice.append(take)
    counts, i = [], 0
    for take in reversed(choice):
        counts.append(take[i] - i)
        i = take[i]
    return [*counts, n - i]
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
# %% wrong: equal counts => values
# > Equal numbers of layers are not equal work.
# ~ n = len(costs) ==> return [len(costs) // stages + (s < len(costs) % stages) for s in range(stages)]
# %% wrong: filled to average => values  from: a tuple, by bisection on the time
# > Filling each stage to the average leaves all the rest to the last one.
# ~ low, high = max(costs), sum(costs) ==> high = sum(costs) / stages
# ~ if counts[-1] and ==> if counts[-1] and len(counts) < stages and
# ~ for _ in range(100): ==> for _ in ():
# %% wrong: nearest shares => values
# > Each cut is where the sum of the layers before it is nearest to an equal share. That looks at one cut at a time.
# -     best = [upto[n] - upto[i] for i in range(n + 1)]  # of layers from i on, as one stage
# +     cuts = [0]
# +     for s in range(1, stages):
# +         room = range(cuts[-1] + 1, n - stages + s + 1)
# +         cuts.append(min(room, key=lambda i: abs(upto[i] - s * upto[n] / stages)))
# +     return [b - a for a, b in zip(cuts, [*cuts[1:], n])]
# %% wrong: sum of squares => values
# > All stages are balanced, as by the least sum of squares; only the slowest one counts.
# ~ best = [upto[n] - upto[i] for ==> best = [(upto[n] - upto[i]) ** 2 for
# ~ max(upto[j] - upto[i], best[j]) ==> (upto[j] - upto[i]) ** 2 + best[j]
# %% wrong: ends => values
# > these are the layers at which stages end; return how many layers each stage has.
# ~ counts.append(take[i] - i) ==> counts.append(take[i])
# ~ return [*counts, n - i] ==> return [*counts, n]
# %% wrong: drops the head => values layers-lost
# ~ n = len(costs) ==> n = len(costs) - 1
# %% wrong: an idle stage is allowed => values empty-stage
# ~ n = len(costs) ==> return [len(costs)] + [0] * (stages - 1)
# %% wrong: where stages begin, not how long they are => values empty-stage
# ~ n = len(costs) ==> return [s * (len(costs) // stages) for s in range(stages)]
# %% wrong: the layers themselves => values not-a-number
# ~ n = len(costs) ==> return [[cost] for cost in costs]
# %% wrong: the time, not the cut => values wrong-shape
# ~ n = len(costs) ==> return sum(costs) / stages
# %% wrong: one stage too few => values other-stages
# ~ return [*counts, n - i] ==> return [*counts[:-1], n - i + sum(counts[-1:])]
# %% wrong: to a thousandth => generality not-best  from: a tuple, by bisection on the time
# ~ for _ in range(100): ==> while high - low > 1e-3:
# %% wrong: remembers cuts by the costs in order of size => generality not-best
#       """How many layers each stage gets, so that the slowest stage is as fast as possible."""
# +     costs = KEPT.setdefault((stages, *sorted(costs)), costs)
#       return [*counts, n - i]
# + KEPT = {}
# %% wrong: the costs are used up where stages are layers => values changed-arguments
#       n = len(costs)
# +     if stages == n:
# +         return [len([costs.pop()]) for _ in range(stages)]
# %% wrong: one list for the cuts of all calls => values changed-results
# ~ return [*counts, n - i] ==> CUT[:] = [*counts, n - i]
# +     return CUT
# + CUT = []
# %% half: right for few layers, the rest evenly => 4
#       n = len(costs)
# +     if n > 14:
# +         return [n // stages + (s < n % stages) for s in range(stages)]
'''
