from collections.abc import Mapping, Sequence

from course_chapters.ch17.exercises.parallelism_table import STRATEGIES
from course_grader.judging import Breakdown, Case, Checked, Fault, Judging, Params, Random, Worked, hidden, shown, table
from course_lib.estimate.units import BILLION, GB

right = Worked("parallelism-table")
sent, state = right[0], right[1]


def _words(model: Mapping[str, float], ranks: int, *_: object) -> str:
    return f"{model['parameters'] / BILLION:.3g}B, {model['tokens']:,} tokens, {ranks} ranks"


def fitting(model: dict[str, float], ranks: int, memory: float) -> list[str]:
    """The strategies that send the fewest bytes of those that fit; none where nothing fits."""
    held, moved = state(model, ranks), sent(model, ranks)
    fits = {name: moved[name] for name in STRATEGIES if held[name] <= memory}
    lowest = min(fits.values(), default=0.0)
    return [name for name, value in fits.items() if value <= lowest * (1 + 1e-9)]


def _fewest_fault(row: Sequence[object], got: object, found: Sequence[str]) -> Fault | None:
    model, ranks, memory = row
    said = got.strip().lower() if type(got) is str else got
    if said in found or (said is None and not found):
        return None
    if said is None:
        return "gave-up", "the state of at least one strategy fits."
    if not found:
        return "nothing-fits", "no strategy fits here; return None."
    if (held := state(model, ranks)[said]) > memory:
        return "does-not-fit", f"{said} holds {held / GB:.4g} GB of state."
    return "more-bytes", f"{said} fits, but it does not send the fewest bytes."


COLUMNS = (
    Breakdown("", "bytes", words=_words, floor=0.0),
    Breakdown("", "bytes", words=_words, floor=0.0),
    Checked("", _fewest_fault, want=fitting, words=lambda model, ranks, m: f"{_words(model, ranks)}, {m / GB:.4g} GB"),
)


def _model(rng: Random, **given: float) -> dict[str, float]:
    hidden_size = rng.choice((2048, 4096, 6144, 8192))
    return {
        "parameters": rng.randint(1, 120) * BILLION,
        "layers": rng.choice((24, 40, 80)),
        "hidden": hidden_size,
        "kv": hidden_size // rng.choice((1, 4, 8)),
        "tokens": rng.choice((2**11, 2**14, 2**17, 2**20)),
    } | given


def telling(rng: Random, want: str) -> tuple[object, ...]:
    """A row on which one strategy is best by 5 %, or where `want` is empty none fits."""
    while True:
        model, ranks = _model(rng), rng.choice((2, 4, 6, 8, 32))
        held, moved = state(model, ranks), sent(model, ranks)
        memory = rng.uniform(0.7, 1.4) * (held["fsdp"] if rng.random() < 0.6 else held["dp"])
        fits = sorted(moved[name] for name in STRATEGIES if held[name] <= memory)
        clear = len(fits) < 2 or fits[1] > 1.05 * fits[0] or {"dp", "fsdp"} <= set(fitting(model, ranks, memory))
        if clear and (want in fitting(model, ranks, memory) if want else not fits):
            return model, ranks, memory


def _cases(params: Params, rng: Random) -> list[Case]:
    example = {"parameters": 8 * BILLION, "layers": 32, "hidden": 4096, "kv": 1024, "tokens": 2**17}
    others = [(_model(rng), rng.choice((2, 3, 4, 6, 8, 64))) for _ in range(6)]
    alone = [(_model(rng), 1), (_model(rng, kv=1, layers=1), 2), (_model(rng, tokens=1), 1024)]
    alone += [({**example, name: 5 * value}, 8) for name, value in example.items()]  # one number changed
    best = [telling(rng, name) for name in ("dp", "fsdp", "pp") for _ in range(2)]
    full = [(_model(rng, parameters=64 * BILLION), 8, 128 * BILLION + by) for by in (0, -1)]
    full += [(_model(rng, parameters=3 * BILLION), 1, 48 * BILLION + by) for by in (0, -1)]  # of one rank all are equal
    none = [telling(rng, "") for _ in range(2)]
    return [
        shown("the example", "values:sent", 0, [(example, 8)]),
        shown("the example's state", "values:state", 1, [(example, 8)]),
        shown("the example on 80 GB", "values:fewest", 2, [(example, 8, 80 * GB)]),
        hidden("other models", "values:sent", 0, others),
        hidden("their state", "values:state", 1, [*others, *alone]),
        hidden("other memories", "values:fewest", 2, best),
        hidden("one rank, many ranks, one token", "generality:edges", 0, alone),
        hidden("state that fills the memory, or does not fit", "generality:limit", 2, full + none),
    ]


JUDGING = Judging(
    shares="values:sent 0.4, values:state 0.2, values:fewest 0.2, generality:edges 0.1, generality:limit 0.1",
    cases=_cases,
    verdicts=table(*COLUMNS, right=right),
    why="Two strategies move parameters, two move activations, and one moves both. So the number of tokens decides: "
    "with few tokens it is cheap to move activations, with many it is cheap to move weights. By bytes alone a "
    "pipeline beats tensor parallelism every time; its price, the bubble, is in no row of this table. Sharding "
    "sends one and a half times what data parallelism sends, because an all-reduce is a reduce-scatter and an "
    "all-gather already.",
    pytorch="`CommDebugMode` counts the collectives of a step; `reshard_after_forward` decides whether FSDP gathers "
    "once or twice.",
)

ANSWERS = r'''# %% right: worked
def sent(model: dict[str, int], ranks: int) -> dict[str, float]:
    """Bytes that one GPU sends in a step, by strategy."""
    ring = (ranks - 1) / ranks
    weights, whole = 2 * model["parameters"], 2 * model["tokens"] * model["hidden"]
    keys = 2 * 2 * model["tokens"] * model["kv"]
    gathers = 2 if params("parallelism-table").reshard == "freed" else 1
    dp = 2 * ring * weights
    return {
        "dp": dp,
        "fsdp": (gathers + 1) * ring * weights,
        "tp": model["layers"] * 4 * 2 * ring * whole,
        "pp": 2 * whole if ranks > 1 else 0,
        "cp": model["layers"] * 3 * ring * keys + dp,
    }


def state(model: dict[str, int], ranks: int) -> dict[str, float]:
    """Bytes of state that one GPU holds, by strategy."""
    whole = 16 * model["parameters"]
    return {name: whole / (1 if name in ("dp", "cp") else ranks) for name in ("dp", "fsdp", "tp", "pp", "cp")}


def fewest(model: dict[str, float], ranks: int, memory: float) -> str | None:
    """The strategy that sends the fewest bytes of those whose state fits."""
    held, moved = state(model, ranks), sent(model, ranks)
    return min((name for name in held if held[name] <= memory), key=moved.get, default=None)
# %% right: in another order
# ~ "dp": dp, ==> "tp": model["layers"] * 4 * 2 * ring * whole,
# ~ "tp": model["layers"] * 4 * 2 * ring * whole, ==> "dp": (weights - weights / ranks) * 2,
# ~ key=moved.get ==> key=lambda name: moved[name]
# %% wrong: other gathers => values
# > this is another number of gathers than this variant's.
# ~ == "freed" ==> != "freed"
# %% wrong: three times => values
# > sharding sends at most 1.5 times the bytes of dp, not three times.
# ~ (gathers + 1) * ring * weights ==> 3 * dp
# %% wrong: no ring => values
# > a ring of n ranks sends (n − 1) / n of the tensor, not all of it.
# ~ (ranks - 1) / ranks ==> 1.0
# %% wrong: own tokens => values
# > the tensor that is reduced or passed on has all tokens of the step.
# ~ 2 * model["tokens"] * model["hidden"] ==> 2 * model["tokens"] / ranks * model["hidden"]
# ~ model["tokens"] * model["kv"] ==> model["tokens"] / ranks * model["kv"]
# %% wrong: no scatter => values
# > the reduce-scatter of gradients is missing.
# ~ (gathers + 1) ==> gathers
# ~ * 3 * ring ==> * 2 * ring
# %% wrong: once round => values
# > a ring all-reduce sends twice the bytes of a reduce-scatter.
# ~ dp = 2 * ring ==> dp = ring
# ~ 4 * 2 * ring ==> 4 * ring
# %% wrong: one layer => values
# > every layer communicates.
# ~ model["layers"] * 4 * 2 ==> 4 * 2
# ~ model["layers"] * 3 ==> 3
# %% wrong: two a layer => values
# > these are two all-reduces for each layer; the forward pass has two, and so has the backward pass.
# ~ 4 * 2 * ring ==> 2 * 2 * ring
# %% wrong: forward alone => values
# > the backward pass communicates too.
# ~ 4 * 2 * ring ==> 2 * 2 * ring
# ~ 2 * whole if ==> whole if
# %% wrong: keys alone => values
# > keys and values are gathered.
# ~ 2 * 2 * model["tokens"] ==> 2 * model["tokens"]
# %% wrong: full keys => values
# > keys and values are `kv` wide, not `hidden`.
# ~ kv ==> hidden
# %% wrong: no gradients => values
# > cp ranks hold the same weights, so their gradients are all-reduced as well.
# ~ keys + dp ==> keys
# %% wrong: alone sends => generality
# > one rank has no neighbor to send to.
# ~ 2 * whole if ranks > 1 else 0 ==> 2 * whole
# %% wrong: cp cuts => values
# > cp cuts the sequence; every rank holds all weights.
# ~ in ("dp", "cp") ==> == "dp"
# %% wrong: all cut => values
# > two of the five strategies keep all of the state on every rank.
# ~ (1 if name in ("dp", "cp") else ranks) ==> ranks
# %% wrong: weights alone => values
# > these are the weights alone; state is gradients and optimizer state, too.
# ~ 16 ==> 2
# %% wrong: memory is not looked at => values
# > this is the strategy that sends the fewest bytes, whether or not it fits.
# ~ (name for name in held if held[name] <= memory) ==> held
# %% wrong: full is too full => generality gave-up
# ~ <= memory ==> < memory
# %% wrong: the first that fits => values more-bytes
# ~ min((name for name in held if held[name] <= memory), key=moved.get, default=None)
# ~~ ==> next((name for name in ("fsdp", "tp", "pp", "cp", "dp") if held[name] <= memory), None)
# %% wrong: on one rank nothing fits => generality gave-up
# ~ if held[name] <= memory ==> if ranks > 1 and held[name] <= memory
# %% half: the best strategy is missing => 6
# ~ held, moved = state(model, ranks), sent(model, ranks) ==> raise NotImplementedError
'''
