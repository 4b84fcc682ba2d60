import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from course_chapters.ch13.exercises.cheapest_layout import KEYS
from course_chapters.ch13.exercises.probes import measured, why_invalid
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Wrong, hidden, oracle, shown
from course_lib.estimate.units import GB

Layout = tuple[int, int, int, int]  # gpus, tp, pp, micro
Sizes = dict[str, Any]
Costs = dict[Layout, tuple[float, float, int]]  # seconds of the run, GPU-seconds, bytes


class Row(NamedTuple):
    """A job, as the arguments of the case."""

    cluster: Sizes
    model: Sizes
    steps: int
    limit: float
    spec: Mapping[str, float]

    def on(self, memory: float, limit: float) -> "Row":
        """The job with another memory and another limit."""
        return self._replace(cluster=self.cluster | {"memory": memory}, limit=limit)


Trap = Callable[[Row, Layout], bool]  # of a row and its best layout


def costs(row: Row) -> Costs:
    """What each valid layout costs."""
    cluster, model, per = row.cluster, row.model, row.cluster["per_server"]
    sizes = range(per, cluster["gpus"] + 1, per), range(1, per + 1), range(1, model["layers"] + 1)
    found = {}
    for gpus, tp, pp in (each for each in itertools.product(*sizes) if not why_invalid(cluster, model, (*each, 1))):
        own = model["sequences"] * tp * pp // gpus
        for layout in ((gpus, tp, pp, micro) for micro in range(1, own + 1) if own % micro == 0):
            seconds, held = measured(row.spec, cluster, model, layout)
            found[layout] = row.steps * seconds, gpus * row.steps * seconds, held
    return found


def asked(goal: str, cost: tuple[float, float, int]) -> tuple[float, float]:
    """What the goal makes small, and what its limit is about."""
    seconds, spent, _ = cost
    return (spent, seconds) if goal == "cheapest" else (seconds, spent)


def allowed(goal: str, row: Row, table: Costs) -> dict[Layout, float]:
    """The layouts that fit and meet the limit, with what the goal makes small."""
    pairs = ((layout, *asked(goal, cost), cost[2]) for layout, cost in table.items())
    memory = row.cluster["memory"]
    return {layout: value for layout, value, limited, held in pairs if limited <= row.limit and held <= memory}


def best(goal: str, row: Row) -> Layout:
    """The best layout; four zeros if none is allowed."""
    found = allowed(goal, row, costs(row))
    return min(found, key=lambda layout: found[layout], default=(0, 0, 0, 0))


def _search_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    goal, row, got, lead = params["goal"], Row(*case.args), outcome.value["layout"], f"{case.name}: "
    table = costs(row)
    found, memory = allowed(goal, row, table), row.cluster["memory"]
    if got is None:
        told = f"{lead}there is a layout that fits and meets the limit; None came back"
        return Wrong("gave-up", f"{told}.", f"{told}; ") if found else None
    layout = gpus, tp, pp, micro = tuple(got[key] for key in KEYS)
    told = f"{lead}gpus {gpus}, tp {tp}, pp {pp}, micro {micro} "
    if broken := why_invalid(row.cluster, row.model, layout):
        return "not-valid", f"{told}is not valid: {broken}."
    if (held := table[layout][2]) > memory:
        return "does-not-fit", f"{told}needs {held / GB:.4g} GB; a GPU has {memory / GB:.4g}."
    if layout not in found:
        return "over-the-limit", f"{told}misses the limit."
    lowest = min(found.values())
    if found[layout] == lowest:
        return None
    what = "GPU-seconds" if goal == "cheapest" else "seconds"
    told += f"is allowed, but needs {found[layout] / lowest:.4g} times the {what} of the best layout"
    return Wrong("", f"{told}.", f"{told}; ")


# --- cases


def _row(rng: Random, **given: Any) -> Row:
    """A cluster, a model and a job; the limit is open."""
    per = given.get("per", rng.choice((4, 8)))
    gpus = per * given.get("servers", rng.choice((2, 3, 4, 6))) + given.get("spare", 0)
    model = {
        "layers": given.get("layers", rng.choice((12, 18, 24, 30))),
        "heads": given.get("heads", rng.choice((8, 12, 16, 24))),
        "sequences": given.get("sequences", rng.choice((24, 48, 60, 96))),
    }
    spec = {
        "work": rng.uniform(60, 400),
        "tp_seconds": rng.uniform(0.2, 3),
        "dp_seconds": rng.uniform(0.5, 8),
        "state": rng.uniform(150, 900) * GB,
        "activations": rng.uniform(2, 12) * GB,
        "salt": rng.randrange(10**6),
    } | given.get("spec", {})
    cluster = {"gpus": gpus, "per_server": per, "memory": 80 * GB}
    return Row(cluster, model, rng.randint(1000, 90_000), float("inf"), spec)


def _limited(goal: str, row: Row, rng: Random) -> Row | None:
    """The row with a limit that a part of the layouts that fit meet; None where too few fit."""
    ranked = sorted(asked(goal, cost)[1] for cost in costs(row).values() if cost[2] <= row.cluster["memory"])
    if len(ranked) < 8:
        return None
    return row._replace(limit=ranked[int(rng.uniform(0.15, 0.6) * len(ranked))] + 1 / 128)  # no layout uses it up


def telling(goal: str, rng: Random, *traps: Trap, **given: object) -> Row:
    """A row on which each trap, such as a rule of thumb, changes the answer."""
    while True:
        row = _limited(goal, _row(rng, **given), rng)
        if row and all(trap(row, best(goal, row)) for trap in traps):
            return row


def _exactly(goal: str, rng: Random, at: str, by: int = 0) -> Row:
    """A row whose best layout uses up all of the memory or of the limit; with `by` = −1, just too little is left."""
    while True:
        row = telling(goal, rng)
        right, table = best(goal, row), costs(row)
        memory = table[right][2] + by if at == "memory" else row.cluster["memory"]
        tight = row.on(memory, asked(goal, table[right])[1] + by / 128 if at == "limit" else row.limit)
        found = allowed(goal, tight, table)
        lowest = min(found.values(), default=-1.0)
        if (by == 0) == (found.get(right) == lowest) and list(found.values()).count(lowest) == 1:
            return tight


def _search_cases(params: Params, rng: Random) -> list[Case]:
    goal = params["goal"]

    def other_goal(row: Row, right: Layout) -> bool:
        table = costs(row)
        found = allowed(goal, row, table)
        return found[min(found, key=lambda each: asked(goal, table[each])[1])] > found[right]

    def gpus_differ(row: Row, right: Layout) -> bool:
        """Whether the best layout has more than the fewest GPUs of those allowed, or fewer than all."""
        fewest = min(each[0] for each in allowed(goal, row, costs(row)))
        return right[0] > fewest if goal == "quickest" else right[0] <= row.cluster["gpus"] - row.cluster["per_server"]

    def no_limit(row: Row, right: Layout) -> bool:
        return best(goal, row.on(row.cluster["memory"], float("inf"))) != right

    def no_memory(row: Row, right: Layout) -> bool:
        return best(goal, row.on(float("inf"), row.limit)) != right

    def drawn(trap: Trap, **given: object) -> Row:
        return telling(goal, rng, trap, **given)

    example = telling(goal, Random(f"example {goal}"), other_goal, per=8, servers=4)
    open_rows = [telling(goal, rng, other_goal, gpus_differ, no_limit) for _ in range(2)]
    pipelines = drawn(lambda row, right: right[2] > 1 and right[3] > 1)
    odd = {"per": 8, "servers": 3, "heads": 24, "layers": 18, "sequences": 60}
    missed, full = _row(rng)._replace(limit=1.0, spec=example.spec), _row(rng).on(10**8, 1e18)
    small = {**_row(rng).spec, "state": 40 * GB, "activations": GB}
    server = _row(rng, per=8, servers=1, heads=12)._replace(spec=small)
    talkative, large = {"tp_seconds": 20.0, "state": 60 * GB, "activations": GB}, {"state": 900 * GB, "activations": GB}
    part = {"per": 4, "servers": 3, "spare": 3}  # the last server is not whole
    heavy = {"state": 90 * GB, "activations": 60 * GB}
    far = {"state": 8000 * GB, "activations": GB}
    roomy = {"state": 60 * GB, "activations": 10 * GB, "tp_seconds": 0.01}
    big = {"per": 12, "servers": 2, "layers": 2, "heads": 12, "sequences": 120, "spec": roomy}

    def again(row: Row) -> Row:
        """Another job on the same cluster and model, with another best layout."""
        other = None
        while not other or best(goal, other) == best(goal, row):
            other = _limited(goal, row._replace(spec=_row(rng).spec), rng)
        return other

    sizes = {
        "three servers, 18 layers": drawn(lambda row, right: any(n & (n - 1) for n in right), **odd),
        "a cluster of which a part is best": drawn(
            lambda row, right: row.cluster["per_server"] < right[0] < row.cluster["gpus"], servers=5, sequences=48
        ),
        "the same cluster and model, another job": again(open_rows[0]),
        "31 layers on 31 servers": telling(goal, rng, per=4, servers=31, layers=31, heads=12, sequences=24, spec=far),
        "large micro-batches": drawn(lambda row, right: right[1] == 12 and right[3] > 24, **big),
        "no tensor parallelism": drawn(lambda row, right: right[1] == 1, **part, sequences=48, spec=talkative),
        "one layer a stage": drawn(
            lambda row, right: right[2] == 4, per=4, servers=6, layers=4, sequences=96, spec=large
        ),
        "micro-batches of one sequence": drawn(
            lambda row, right: right[3] == 1, servers=4, layers=24, sequences=48, spec=heavy
        ),
        "one server": _limited(goal, server, rng) or example,
        "one sequence in all": _row(rng, servers=1, sequences=1).on(10**15, 1e18),
    }
    return [
        shown("four servers", "values:best", *example),
        *(hidden("another job", "values:best", *row) for row in open_rows),
        hidden("a model that needs a pipeline", "values:best", *pipelines),
        *(hidden(name, "generality:sizes", *row) for name, row in sizes.items()),
        hidden("memory decides", "generality:memory", *drawn(no_memory)),
        hidden("a layout that fills the memory", "generality:memory", *_exactly(goal, rng, "memory")),
        hidden("a layout that needs one byte more", "generality:memory", *_exactly(goal, rng, "memory", -1)),
        hidden("the limit decides", "generality:limit", *drawn(no_limit)),
        hidden("a layout that uses up the limit", "generality:limit", *_exactly(goal, rng, "limit")),
        hidden("a layout just over the limit", "generality:limit", *_exactly(goal, rng, "limit", -1)),
        hidden("a limit that nothing meets", "generality:none", *missed),
        hidden("a model that fits nowhere", "generality:none", *full),
    ]


JUDGING = Judging(
    shares="values:best 0.4, generality:sizes 0.15, generality:memory 0.2, generality:limit 0.15, generality:none 0.1",
    cases=_search_cases,
    verdicts=oracle(_search_fault),
    why="With no limit, few GPUs are cheap because they communicate little; a deadline forces more of them, and "
    "memory forbids some layouts. No rule of thumb finds the best of what is left, but a few hundred layouts are "
    "quickly compared. Check what costs nothing first, and call the model last.",
    pytorch="`./course plan --model llama3-70b --gpus 64xH100 --deadline 30d` searches in the same way, over more "
    "axes, with the chapter's step-time model.",
)

ANSWERS = r'''# %% right: worked
goal = params("cheapest-layout").goal  # leave as is: "cheapest" or "quickest"


def cheapest(cluster, model, steps, limit, evaluate):
    """The best layout that is allowed, with gpus, tp, pp and micro; None if there is none."""
    best, least, per = None, math.inf, cluster["per_server"]
    sizes = range(per, cluster["gpus"] + 1, per), range(1, per + 1), range(1, model["layers"] + 1)
    for gpus, tp, pp in itertools.product(*sizes):
        if per % tp or model["heads"] % tp or model["layers"] % pp or gpus % (tp * pp):
            continue
        dp = gpus // (tp * pp)
        for micro in range(1, model["sequences"] // dp + 1):
            if model["sequences"] % (dp * micro):
                continue
            seconds, held = evaluate(gpus, tp, pp, micro)
            value, used = gpus * steps * seconds, steps * seconds
            if goal == "quickest":
                value, used = used, value
            if held <= cluster["memory"] and used <= limit and value < least:
                best, least = {"gpus": gpus, "tp": tp, "pp": pp, "micro": micro}, value
    return best
# %% right: nested loops
# -     sizes = range(per, cluster["gpus"] + 1, per), range(1, per + 1), range(1, model["layers"] + 1)
# -     for gpus, tp, pp in itertools.product(*sizes):
# +     degrees = [(tp, pp) for tp in range(1, per + 1) for pp in range(1, model["layers"] + 1)]
# +     for gpus, (tp, pp) in ((n * per, each) for n in range(cluster["gpus"] // per, 0, -1) for each in degrees):
# %% wrong: other goal => values
# > this is the best by what `limit` is about, not by what is asked for.
# ~ value < least ==> used < least
# ~ "micro": micro}, value ==> "micro": micro}, used
# %% wrong: fewest gpus => values
# > it is the first of the layouts with the fewest GPUs; look at all of them.
# ~ value < least ==> gpus < least
# ~ "micro": micro}, value ==> "micro": micro}, gpus
# %% wrong: all gpus => values
# > it is the best with all GPUs; look at fewer.
# ~ params("cheapest-layout").goal ==> "cheapest"
# ~ range(per, cluster["gpus"] + 1, per) ==> [cluster["gpus"]]
# %% wrong: powers of two => values
# > only powers of two were searched.
# ~ params("cheapest-layout").goal ==> "cheapest"
# ~ gpus % (tp * pp): ==> gpus % (tp * pp) or any(n & (n - 1) for n in (pp, tp, gpus)):
# ~ % (dp * micro): ==> % (dp * micro) or micro & (micro - 1):
# %% wrong: no pipeline => values
# > it is the best without a pipeline.
# ~ range(1, model["layers"] + 1) ==> (1,)
# %% wrong: one sequence => values
# > it is the best with micro-batches of one sequence.
# ~ range(1, model["sequences"] // dp + 1) ==> (1,)
# %% wrong: memory is forgotten => values does-not-fit
# ~ params("cheapest-layout").goal ==> "cheapest"
# ~ held <= cluster["memory"] and used ==> used
# %% wrong: the limit is forgotten => values over-the-limit
# ~ params("cheapest-layout").goal ==> "cheapest"
# ~ used <= limit and value ==> value
# %% wrong: limits excluded => generality
# > a layout that uses all of the memory, or all of the limit, is allowed.
# ~ held <= cluster["memory"] and used <= limit ==> held < cluster["memory"] and used < limit
# %% wrong: memory must not be full => generality limits-excluded
# ~ held <= ==> held <
# %% wrong: the limit must not be reached => generality limits-excluded
# ~ used <= ==> used <
# %% wrong: invalid layouts are asked about => raised
# -             if model["sequences"] % (dp * micro):
# -                 continue
# %% wrong: an error where nothing is allowed => generality raised
# ~ return best ==> return {**best}
# %% wrong: never all sequences at once => generality
# > micro-batches of all sequences of a replica were not searched.
# ~ params("cheapest-layout").goal ==> "cheapest"
# ~ range(1, model["sequences"] // dp + 1) ==> range(1, model["sequences"] // dp)
# %% wrong: eight GPUs a server at most => generality ~
# ~ range(1, per + 1) ==> range(1, min(per, 8) + 1)
# %% wrong: 48 GPUs at most => generality ~
# ~ cluster["gpus"] + 1 ==> min(cluster["gpus"], 48) + 1
'''
