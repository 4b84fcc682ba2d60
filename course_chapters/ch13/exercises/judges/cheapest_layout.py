from collections.abc import Callable, Iterator, Mapping
from typing import Any

from course_chapters.ch13.exercises.probes import measured, why_invalid
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Wrong, describe, hidden, oracle, shown
from course_lib.estimate.units import GB

Layout = tuple[int, int, int, int]  # gpus, tp, pp, micro
Sizes = Mapping[str, int]
Row = tuple[Mapping[str, Any], Sizes, int, float, Mapping[str, float]]  # cluster, model, steps, limit, spec
Costs = dict[Layout, tuple[float, float, int]]  # seconds of the run, GPU-seconds, bytes
KEYS = ("gpus", "tp", "pp", "micro")


def valid(cluster: Sizes, model: Sizes) -> Iterator[Layout]:
    per = cluster["per_server"]
    for gpus in range(per, cluster["gpus"] + 1, per):
        for tp in range(1, per + 1):
            for pp in range(1, model["layers"] + 1):
                if why_invalid(cluster, model, (gpus, tp, pp, 1)):
                    continue
                own = model["sequences"] * tp * pp // gpus
                yield from ((gpus, tp, pp, micro) for micro in range(1, own + 1) if own % micro == 0)


def costs(row: Row) -> Costs:
    cluster, model, steps, _, spec = row
    found = {}
    for layout in valid(cluster, model):
        seconds, held = measured(spec, cluster, model, layout)
        found[layout] = steps * seconds, layout[0] * steps * seconds, held
    return found


def asked(goal: str, cost: tuple[float, float, int]) -> tuple[float, float]:
    """What the goal makes small, and what its limit is about."""
    seconds, spent, _ = cost
    return (spent, seconds) if goal == "cheapest" else (seconds, spent)


def allowed(goal: str, row: Row, table: Costs) -> dict[Layout, float]:
    """The layouts that fit and meet the limit, with what the goal makes small."""
    memory, limit = row[0]["memory"], row[3]
    pairs = ((layout, *asked(goal, cost), cost[2]) for layout, cost in table.items())
    return {layout: value for layout, value, limited, held in pairs if limited <= limit and held <= memory}


def best(goal: str, row: Row) -> Layout | None:
    found = allowed(goal, row, costs(row))
    return min(found, key=lambda layout: found[layout], default=None)


# --- what came back


def _layout(got: object) -> Layout | None:
    if type(got) is not dict or set(got) != set(KEYS):
        return None
    sizes = tuple(got[key] for key in KEYS)
    return sizes if all(type(each) is int and each > 0 for each in sizes) else None


def _search_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    goal, row = params["goal"], case.args
    if type(outcome.value) is not dict or "layout" not in outcome.value:
        return "wrong-shape", f"{case.name}: no layout came back."
    got = outcome.value["layout"]
    lead, table = f"{case.name}: ", costs(row)
    found = allowed(goal, row, table)
    if got is None:
        told = f"{lead}there is a layout that fits and meets the limit; None came back"
        return Wrong("gave-up", f"{told}.", f"{told}; ") if found else None
    layout = _layout(got)
    if layout is None:
        told = f"{lead}return a dictionary with gpus, tp, pp and micro, whole numbers, or None; got {describe(got)}."
        return "wrong-shape", told
    told = f"{lead}gpus {layout[0]}, tp {layout[1]}, pp {layout[2]}, micro {layout[3]} "
    if broken := why_invalid(row[0], row[1], layout):
        return "not-valid", f"{told}is not valid: {broken}."
    if layout not in found:
        if table[layout][2] > row[0]["memory"]:
            return "does-not-fit", f"{told}needs {table[layout][2] / GB:.4g} GB; a GPU has {row[0]['memory'] / GB:.4g}."
        return "over-the-limit", f"{told}misses the limit."
    lowest = min(found.values())
    if found[layout] == lowest:
        return None
    what = "GPU-seconds" if goal == "cheapest" else "seconds"
    told += f"is allowed, but needs {found[layout] / lowest:.4g} times the {what} of the best layout"
    return Wrong("", f"{told}.", f"{told}; ")


def _thumb(goal: str, found: Mapping[Layout, float], table: Costs) -> dict[str, list[Layout]]:
    """Rules of thumb, which some cases refute: the best layouts under each."""
    fewest, most = min(each[0] for each in found), max(each[0] for each in table)

    def least(value: Callable[[Layout], float], among: Callable[[Layout], bool] = lambda each: True) -> list[Layout]:
        kept = [each for each in found if among(each)]
        lowest = min(map(value, kept), default=0.0)
        return [each for each in kept if value(each) == lowest]

    value = found.__getitem__
    return {
        "other-goal": least(lambda each: asked(goal, table[each])[1]),
        "fewest-gpus": least(value, lambda each: each[0] == fewest),
        "all-gpus": least(value, lambda each: each[0] == most),
        "no-pipeline": least(value, lambda each: each[2] == 1),
        "one-sequence": least(value, lambda each: each[3] == 1),
        "powers-of-two": least(value, lambda each: all(n & (n - 1) == 0 for n in each)),
    }


# --- cases


def _row(rng: Random, **given: Any) -> Row:
    """A cluster, a model and a job; the limit is open."""
    per = given.get("per", rng.choice((4, 8)))
    gpus = per * given.get("servers", rng.choice((2, 3, 4, 6))) + given.get("spare", 0)
    cluster = {"gpus": gpus, "per_server": per, "memory": 80 * GB}
    layers = given.get("layers", rng.choice((12, 18, 24, 30)))
    model = {
        "heads": given.get("heads", rng.choice((8, 12, 16, 24))),
        "layers": layers,
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
    return cluster, model, rng.randint(1000, 90_000), float("inf"), spec


def _limited(goal: str, row: Row, rng: Random, share: float | None = None) -> Row | None:
    """The row with a limit that this share of the layouts that fit meet; None where too few fit."""
    fitting = [cost for cost in costs(row).values() if cost[2] <= row[0]["memory"]]
    if len(fitting) < 8:
        return None
    ranked = sorted(asked(goal, cost)[1] for cost in fitting)
    limit = ranked[int((share or rng.uniform(0.15, 0.6)) * len(ranked))]
    return *row[:3], limit + 1 / 128, row[4]  # no layout uses it up


def telling(goal: str, rng: Random, trap: Callable[[Row, Layout], bool], **given: object) -> Row:
    """A row on which a trap changes the answer: the best layout under the trap is not allowed, or worse."""
    while True:
        row = _limited(goal, _row(rng, **given), rng)
        if row and trap(row, best(goal, row) or (0, 0, 0, 0)):
            return row


def _without(goal: str, memory: bool = False, limit: bool = False) -> Callable[[Row, Layout], bool]:
    """Whether a search that forgets a condition returns another layout."""

    def trap(row: Row, right: Layout) -> bool:
        cluster = {**row[0], "memory": float("inf")} if memory else row[0]
        return best(goal, (cluster, *row[1:3], float("inf") if limit else row[3], row[4])) != right

    return trap


def _thumbs_fail(goal: str, names: tuple[str, ...]) -> Callable[[Row, Layout], bool]:
    def trap(row: Row, right: Layout) -> bool:
        table = costs(row)
        found = allowed(goal, row, table)
        lowest = found.get(right)
        rules = [layouts for name, layouts in _thumb(goal, found, table).items() if name in names]
        return lowest is not None and all(not any(found[each] == lowest for each in layouts) for layouts in rules)

    return trap


def _exactly(goal: str, rng: Random, at: str, by: int = 0) -> Row:
    """A row whose best layout uses up all of the memory or all of the limit; with `by` = −1, just too little of it is
    left."""
    while True:
        row = _limited(goal, _row(rng), rng)
        if not row:
            continue
        right, table = best(goal, row), costs(row)
        if right is None:
            continue
        used = asked(goal, table[right])[1] if at == "limit" else table[right][2]
        changed = (row[0] | {"memory": used + by}, *row[1:]) if at == "memory" else (*row[:3], used + by / 128, row[4])  # type: ignore[operator]
        tight: Row = changed
        found = allowed(goal, tight, table)
        if not found:
            continue
        lowest = min(found.values())
        if (by == 0) == (found.get(right) == lowest) and sum(value == lowest for value in found.values()) == 1:
            return tight


def _search_cases(params: Params, rng: Random) -> list[Case]:
    goal = params["goal"]
    names = ("other-goal", "fewest-gpus" if goal == "quickest" else "all-gpus", "no-pipeline", "one-sequence")
    example = telling(goal, Random(f"example {goal}"), _thumbs_fail(goal, names[:1]), per=8, servers=4)
    thumbs, late = _thumbs_fail(goal, names[:2]), _without(goal, limit=True)
    open_rows = [telling(goal, rng, lambda *row: thumbs(*row) and late(*row)) for _ in range(2)]
    pipelines = telling(goal, rng, _thumbs_fail(goal, names[2:]))
    odd = telling(
        goal, rng, _thumbs_fail(goal, ("powers-of-two",)), per=8, servers=3, heads=24, layers=18, sequences=60
    )
    idle = telling(
        goal, rng, lambda row, right: right[0] not in (0, row[0]["gpus"], row[0]["per_server"]), servers=5, sequences=48
    )
    missed, full = (*_row(rng)[:3], 1.0, example[4]), _row(rng)
    full = (full[0] | {"memory": 10**8}, *full[1:3], 1e18, full[4])  # type: ignore[operator]
    server = _row(rng, per=8, servers=1, heads=12)
    small = {**_row(rng)[4], "state": 40 * GB, "activations": GB}
    alone = _limited(goal, (*server[:4], small), rng) or example
    talkative, large = {"tp_seconds": 20.0, "state": 60 * GB, "activations": GB}, {"state": 900 * GB, "activations": GB}
    part = {"per": 4, "servers": 3, "spare": 3}  # the last server is not whole
    no_tp = telling(goal, rng, lambda row, right: right[1] == 1, **part, sequences=48, spec=talkative)
    deep = telling(goal, rng, lambda row, right: right[2] == 4, per=4, servers=6, layers=4, sequences=96, spec=large)
    heavy = {"state": 90 * GB, "activations": 60 * GB}
    single = telling(goal, rng, lambda row, right: right[3] == 1, servers=4, layers=24, sequences=48, spec=heavy)

    far = {"state": 8000 * GB, "activations": GB}
    many = telling(goal, rng, lambda *_: True, per=4, servers=31, layers=31, heads=12, sequences=24, spec=far)
    roomy = {"state": 60 * GB, "activations": 10 * GB, "tp_seconds": 0.01}
    big = {"per": 12, "servers": 2, "layers": 2, "heads": 12, "sequences": 120, "spec": roomy}
    coarse = telling(goal, rng, lambda row, right: right[1] == 12 and right[3] > 24, **big)

    def again(row: Row) -> Row:
        """Another job on the same cluster and model, with another best layout."""
        while not (other := _limited(goal, (*row[:4], _row(rng)[4]), rng)) or best(goal, other) == best(goal, row):
            pass
        return other

    only = _row(rng, servers=1, sequences=1)
    only = (only[0] | {"memory": 10**15}, *only[1:3], 1e18, only[4])  # type: ignore[operator]

    def hide(name: str, share: str, row: Row) -> Case:
        return hidden(name, share, *row)

    return [
        shown("four servers", "values:best", *example),
        *(hide("another job", "values:best", row) for row in open_rows),
        hide("a model that needs a pipeline", "values:best", pipelines),
        hide("three servers, 18 layers", "generality:sizes", odd),
        hide("a cluster of which a part is best", "generality:sizes", idle),
        hide("the same cluster and model, another job", "generality:sizes", again(open_rows[0])),
        hide("31 layers on 31 servers", "generality:sizes", many),
        hide("large micro-batches", "generality:sizes", coarse),
        hide("no tensor parallelism", "generality:sizes", no_tp),
        hide("one layer a stage", "generality:sizes", deep),
        hide("micro-batches of one sequence", "generality:sizes", single),
        hide("memory decides", "generality:memory", telling(goal, rng, _without(goal, memory=True))),
        hide("a layout that fills the memory", "generality:memory", _exactly(goal, rng, "memory")),
        hide("a layout that needs one byte more", "generality:memory", _exactly(goal, rng, "memory", -1)),
        hide("the limit decides", "generality:limit", telling(goal, rng, late)),
        hide("a layout that uses up the limit", "generality:limit", _exactly(goal, rng, "limit")),
        hide("a layout just over the limit", "generality:limit", _exactly(goal, rng, "limit", -1)),
        hide("a limit that nothing meets", "generality:none", missed),
        hide("a model that fits nowhere", "generality:none", full),
        hide("one server", "generality:sizes", alone),
        hide("one sequence in all", "generality:sizes", only),
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
# %% wrong: powers of two but for micro => values powers-of-two
# ~ params("cheapest-layout").goal ==> "cheapest"
# ~ gpus % (tp * pp): ==> gpus % (tp * pp) or any(n & (n - 1) for n in (pp, tp, gpus)):
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
