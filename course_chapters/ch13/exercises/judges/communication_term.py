import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from course_chapters.ch09 import tensor_scaling
from course_grader.judging import Breakdown, Judging, Params, Worked, Wrong, each_changed, hidden, judged, shown
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate import facts
from course_lib.estimate.facts import collectives
from course_lib.estimate.units import BILLION, GB, count_text

Table = Mapping[str, float]
right = Worked("communication-term")


def _words(model: Table, layout: Table, wires: Table) -> str:
    sizes = ", ".join(f"{axis} {layout[axis]}" for axis in ("tp", "cp", "pp", "dp"))
    return (
        f"{model['parameters'] / BILLION:.3g}B, {sizes}, {layout['micro_batches']} micro-batches of {layout['micro']}"
    )


TERM = Breakdown("term", "s", want=right, words=_words, rel=1e-4, floor=0.0)


@cache
def published() -> tuple[tuple[tuple[Table, Table, Table], float, float, str], ...]:
    """Published steps of models cut by tensor parallelism: arguments, seconds without communication, seconds measured,
    and a name.

    The wire is the device's link at the share of its rate that a measured all-reduce of 64 MiB reaches on eight A100s.
    """
    measured = next(row for row in collectives.series("8 × A100") if row.nbytes == 2**26)
    share = measured.bus_bandwidth / facts.device("A100 SXM 80GB").link_one_way
    found = []
    for name, series in tensor_scaling.all_series().items():
        for cut in series[1:]:  # the first one is not cut
            model: dict[str, float] = {"layers": cut.layers, "hidden": cut.hidden, "kv": cut.hidden}
            model |= {"length": 1024, "parameters": cut.params}
            sizes = {"tp": cut.ranks, "cp": 1, "pp": 1, "dp": 1}
            layout = {**sizes, "micro": cut.tokens // 1024, "micro_batches": 1, "recompute": True}
            row = model, layout, dict.fromkeys(sizes, float(share * facts.device(cut.device).link_one_way))
            alone = float(cut.step_seconds * cut.scaling)
            found.append((row, alone, float(cut.step_seconds), f"{name}, {count_text(cut.ranks, 'GPU')}"))
    return tuple(found)


NEAR_PUBLISHED = 0.05  # relative: the right term predicts all six steps within 3.3 %


def _communication_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = TERM.fault(case, outcome.value)
    if case.part != "published":
        return judged(case, fault)
    pairs = zip(published(), outcome.value, strict=True)
    found = [((alone + sum(got.values())) / seconds - 1, name) for (_, alone, seconds, name), got in pairs]
    error, name = max(found, key=lambda each: abs(each[0]))
    told = f"{name}: compute and your term together are {100 * error:+.1f} % off the published step"
    if abs(error) > NEAR_PUBLISHED:
        where = Wrong(*fault).where if fault else ()
        return judged(case, Wrong("", f"{told}; within {100 * NEAR_PUBLISHED:g} % is possible.", f"{told}; ", where))
    bare = max(abs(alone / seconds - 1) for _, alone, seconds, _ in published())
    message = (
        f"The worst of six published steps is {100 * abs(error):.1f} % off; without your term it is {100 * bare:.0f} %."
    )
    return [replace(verdict, message=message) for verdict in judged(case, None)]


def _communication_cases(params: Params, rng: random.Random) -> list[Case]:
    def row(axes: str = "tp cp pp dp", **given: float) -> tuple[Table, Table, Table]:
        heads, width, layers = rng.choice((32, 48, 64)), 128, rng.choice((24, 48, 96))
        model: dict[str, float] = {"layers": layers, "hidden": heads * width, "kv": rng.choice((8, 16)) * width}
        model |= {"length": rng.choice((2048, 4096, 12_288)), "parameters": rng.randint(7, 400) * BILLION}
        choices = {"tp": (2, 4, 8), "cp": (2, 3, 4), "pp": (2, 3, 4, 8), "dp": (2, 3, 5, 16)}
        sizes = {axis: rng.choice(choices[axis]) if axis in axes else 1 for axis in choices}
        layout = {**sizes, "micro": rng.choice((1, 2, 3)), "micro_batches": rng.choice((3, 8, 20))}
        layout["recompute"] = rng.random() < 0.5
        wires = {axis: rng.choice((25, 50, 150, 450)) * GB for axis in rng.sample(list(sizes), 4)}
        return model, {**layout, **given}, wires

    example = (
        {"layers": 80, "hidden": 8192, "kv": 1024, "length": 8192, "parameters": 70 * BILLION},
        {"tp": 8, "cp": 2, "pp": 4, "dp": 4, "micro": 1, "micro_batches": 16, "recompute": False},
        {"tp": 450 * GB, "cp": 50 * GB, "pp": 50 * GB, "dp": 50 * GB},
    )
    model = {"layers": 160, "hidden": 16_384, "kv": 8192, "length": 65_536, "parameters": 500 * BILLION}
    layout = {"tp": 16, "cp": 8, "pp": 10, "dp": 96, "micro": 6, "micro_batches": 1, "recompute": True}
    alike = each_changed(example, (model, layout, dict.fromkeys(example[2], 900 * GB)))
    alone = [row(axis) for axis in ("", "tp", "cp", "pp", "dp", "tp cp", "cp dp", "tp pp dp")]
    return [
        shown("70B on 256 GPUs", "values:term", 0, [example]),
        hidden("six published steps", "values:published", 0, [row for row, *_ in published()]),
        hidden("other layouts", "values:term", 0, [row(recompute=False) for _ in range(8)]),
        hidden("with recomputation", "generality:recompute", 0, [row(recompute=True) for _ in range(5)]),
        hidden("axes of one rank", "generality:ones", 0, alone),
        hidden("one number differs", "generality:ones", 0, alike),
    ]


JUDGING = Judging(
    shares="values:term 0.35, values:published 0.25, generality:recompute 0.2, generality:ones 0.2",
    cases=_communication_cases,
    verdicts=_communication_verdicts,
    why="Every term is a count of collectives, times the bytes of one, over a wire. tp pays for every layer and "
    "micro-batch, pp for every micro-batch, dp once a step. Six published steps agree within a few percent, "
    "because the wire is a measured one: with the data sheet's rate they would not.",
    pytorch="`CommDebugMode` counts the collectives of a step; a trace of the profiler shows which of them the "
    "computation hides.",
)

ANSWERS = r'''# %% right: worked
reduced = params("communication-term").reduced  # leave as is: "all-reduce" or "ZeRO-3"


def communication_seconds(model, layout, wires):
    """Seconds that one GPU communicates on each axis in a step."""
    tp, cp, pp, dp, count = (layout[name] for name in ("tp", "cp", "pp", "dp", "micro_batches"))

    def ring(n, size, axis):
        return (n - 1) / n * size / wires[axis]

    blocks = model["layers"] / pp * count
    held = layout["micro"] * model["length"] / cp * model["hidden"] * 2
    keys_and_values = 2 * layout["micro"] * model["length"] * model["kv"] / tp * 2
    weights = model["parameters"] / (tp * pp) * 2
    return {
        "tp": blocks * (6 if layout["recompute"] else 4) * 2 * ring(tp, held, "tp"),
        "cp": blocks * 3 * ring(cp, keys_and_values, "cp"),
        "pp": count * 2 * held / wires["pp"] if pp > 1 else 0.0,
        "dp": (2 if reduced == "all-reduce" else 3 * count) * ring(dp * cp, weights, "dp"),
    }
# %% right: exchanges of each axis
def communication_seconds(model, layout, wires):
    sizes = {axis: layout[axis] for axis in ("tp", "cp", "pp", "dp")}
    times, tokens = layout["micro_batches"], layout["micro"] * model["length"]
    rows = times * model["layers"] / sizes["pp"]
    moved = {
        "tp": (12 if layout["recompute"] else 8) * rows * tokens / sizes["cp"] * 2 * model["hidden"],
        "cp": 12 * rows * tokens * model["kv"] / sizes["tp"],
        "pp": 4 * times * tokens / sizes["cp"] * model["hidden"],
        "dp": 4 * model["parameters"] / sizes["tp"] / sizes["pp"],
    }
    ranks = sizes | {"dp": sizes["dp"] * sizes["cp"]}
    part = {axis: (n > 1) if axis == "pp" else 1 - 1 / n for axis, n in ranks.items()}
    return {axis: part[axis] * size / wires[axis] for axis, size in moved.items()}
# %% wrong: no communication => values only-the-example
# ~ return { ==> return dict.fromkeys(("tp", "cp", "pp", "dp"), 0.0) or {
# %% wrong: recompute => values
# > recomputation repeats the forward pass, with its two all-reduces.
# ~ (6 if layout["recompute"] else 4) ==> 4
# %% wrong: always recomputed => values
# > without recomputation a layer has four all-reduces, not six.
# ~ (6 if layout["recompute"] else 4) ==> 6
# %% wrong: half => values
# > an all-reduce has two halves, a reduce-scatter and an all-gather.
# ~ 2 * ring(tp, held, "tp") ==> ring(tp, held, "tp")
# ~ (2 if reduced == "all-reduce" else 3 * count) ==> (1 if reduced == "all-reduce" else 1.5 * count)
# %% wrong: ring => values
# > among n ranks, a ring moves (n − 1) / n of the tensor, not all of it.
# ~ (n - 1) / n * size ==> (n > 1) * size
# %% wrong: micro-batches => values
# > every micro-batch communicates, not only one.
# ~ layout[name] for name in ("tp", "cp", "pp", "dp", "micro_batches")
# ~~ ==> (layout | {"one": 1})[name] for name in ("tp", "cp", "pp", "dp", "one")
# %% wrong: stages => values
# > a GPU has the layers of its own stage alone.
# ~ model["layers"] / pp ==> model["layers"]
# %% wrong: cut => values
# > cp cuts the sequence, so a rank's activations are smaller.
# ~ model["length"] / cp * model["hidden"] ==> model["length"] * model["hidden"]
# %% wrong: values => values
# > values are gathered as well as keys.
# ~ keys_and_values = 2 * ==> keys_and_values =
# %% wrong: kv tp => values
# > tp cuts the heads, so the keys are narrower.
# ~ model["kv"] / tp ==> model["kv"]
# %% wrong: forward only => values
# > three collectives: two gathers and one reduce-scatter.
# ~ blocks * 3 ==> blocks * 2
# %% wrong: one way => values
# > gradients go back as activations go forward.
# ~ count * 2 * held ==> count * held
# %% wrong: whole model => values
# > a GPU holds its share of the parameters alone.
# ~ model["parameters"] / (tp * pp) ==> model["parameters"]
# %% wrong: dp alone => values
# > cp ranks hold the same weights, so the ring has dp × cp ranks.
# ~ ring(dp * cp, ==> ring(dp,
# %% wrong: other reduction => values other-reduction unless reduced=ZeRO-3
# > this gathers weights and reduces gradients for every micro-batch; they are all-reduced once a step here.
# ~ params("communication-term").reduced ==> "ZeRO-3"
# %% wrong: one stage => generality
# > a pipeline of one stage sends nothing.
# ~ wires["pp"] if pp > 1 else 0.0 ==> wires["pp"]
# %% wrong: a ring of 64 ranks at most => generality ~
# ~ ring(dp * cp, ==> ring(min(dp * cp, 64),
'''
