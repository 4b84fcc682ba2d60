"""Judge of parallelism-table: the table of parallelisms, in bytes."""

import random
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from course_chapters.ch17.exercises.parallelism_table import STRATEGIES
from course_grader.judging import Fault, Judging, Mistake, Params, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.per_row import Breakdown
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import BILLION, GB

Model = Mapping[str, Any]
TWO, STATE = 2, 16  # bytes of a number on the wire, and of state for each parameter


def sent(reshard: str, model: Model, ranks: int, slip: str = "") -> dict[str, float]:
    """Bytes that a GPU sends in a step; `slip` names a mistake to make."""
    ring = 1.0 if slip == "no-ring" else (ranks - 1) / ranks
    tokens = model["tokens"] / (ranks if slip == "own-tokens" else 1)
    weights, whole = TWO * model["parameters"], TWO * tokens * model["hidden"]
    keys = (1 if slip == "keys-alone" else 2) * TWO * tokens * (model["hidden"] if slip == "full-keys" else model["kv"])
    gathers = {"freed": 2, "kept": 1}[reshard]
    if slip == "other-gathers":
        gathers = 3 - gathers
    elif slip == "three-times":
        gathers = 5  # three all-reduces' worth
    dp = (1 if slip == "once-round" else 2) * ring * weights
    layers = 1 if slip == "one-layer" else model["layers"]
    reduces = {"two-a-layer": 2, "forward-alone": 2}.get(slip, 4)
    return {
        "dp": dp,
        "fsdp": (gathers + (slip != "no-scatter")) * ring * weights,
        "tp": layers * reduces * (1 if slip == "once-round" else 2) * ring * whole,
        "pp": 0.0 if ranks == 1 and slip != "alone-sends" else (1 if slip == "forward-alone" else 2) * whole,
        "cp": layers * (2 if slip == "no-scatter" else 3) * ring * keys + (0 if slip == "no-gradients" else dp),
    }


def state(model: Model, ranks: int, slip: str = "") -> dict[str, float]:
    """Bytes of state that a GPU holds."""
    whole = STATE * model["parameters"]
    cut = {"dp": False, "fsdp": True, "tp": True, "pp": True, "cp": slip == "cp-cuts"}
    if slip == "weights-alone":
        whole = TWO * model["parameters"]
    return {name: whole / ranks if each or slip == "all-cut" else float(whole) for name, each in cut.items()}


def fitting(reshard: str, model: Model, ranks: int, memory: float) -> list[str]:
    """The strategies that send the fewest bytes of those that fit; none where nothing fits."""
    held, moved = state(model, ranks), sent(reshard, model, ranks)
    fits = {name: moved[name] for name in STRATEGIES if held[name] <= memory}
    lowest = min(fits.values(), default=0.0)
    return [name for name, value in fits.items() if value <= lowest * (1 + 1e-9)]


SLIPS = {
    "other-gathers": "how often are the weights gathered in this variant?",
    "three-times": "sharding sends at most half as many bytes again as dp, not three times as many.",
    "no-ring": "a ring of n ranks sends (n − 1) / n of the tensor, not all of it.",
    "own-tokens": "the tensor that is reduced or passed on has all tokens of the step.",
    "no-scatter": "the gradients are reduce-scattered once.",
    "once-round": "an all-reduce goes round the ring twice.",
    "one-layer": "every layer communicates.",
    "two-a-layer": "there are four all-reduces in each layer: two forward, two backward.",
    "forward-alone": "the backward pass communicates too.",
    "keys-alone": "keys and values are gathered.",
    "full-keys": "keys and values are `kv` wide, not `hidden`.",
    "no-gradients": "cp ranks hold the same weights, so their gradients are all-reduced as well.",
    "alone-sends": "one rank has no neighbor to send to.",
}
STATE_SLIPS = {
    "cp-cuts": "cp cuts the sequence; every rank holds all weights.",
    "all-cut": "two of the five strategies keep all of the state on every rank.",
    "weights-alone": "state is weights, gradients and optimizer state, with 16 bytes per parameter.",
}


def _words(model: Model, ranks: int, *_: Any) -> str:
    return f"{model['parameters'] / BILLION:.3g}B, {model['tokens']:,} tokens, {ranks} ranks"


@cache
def sent_column(reshard: str) -> Breakdown:
    """The judge of `sent` in one variant."""
    slips = [Mistake(name, partial(sent, reshard, slip=name), text) for name, text in SLIPS.items()]
    return Breakdown(part="sent", unit="bytes", want=partial(sent, reshard), words=_words, mistakes=slips, floor=0.0)


STATE_COLUMN = Breakdown(
    part="state",
    unit="bytes",
    want=state,
    words=_words,
    mistakes=[Mistake(name, partial(state, slip=name), text) for name, text in STATE_SLIPS.items()],
    floor=0.0,
)


def _fewest_fault(reshard: str, case: Case, values: list[Any]) -> Fault | None:
    """What is wrong with the first strategy that is not a best one."""
    for (model, ranks, memory), got in zip(case.args[1], values, strict=True):
        found = fitting(reshard, model, ranks, memory)
        said = got.strip().lower() if type(got) is str else got
        if said in found or (said is None and not found):
            continue
        lead = f"{_words(model, ranks)}, {memory / GB:.4g} GB: "
        if said is None:
            return "gave-up", f"{lead}the state of at least one strategy fits."
        if not found:
            return "nothing-fits", f"{lead}no strategy fits here; return None."
        if state(model, ranks)[said] > memory:
            return "does-not-fit", f"{lead}{said} holds {state(model, ranks)[said] / GB:.4g} GB of state."
        return "more-bytes", f"{lead}{said} fits, but it does not send the fewest bytes."
    return None


def _model(rng: random.Random, **given: Any) -> dict[str, int]:
    hidden_size = rng.choice((2048, 4096, 6144, 8192))
    return {
        "parameters": rng.randint(1, 120) * BILLION,
        "layers": rng.choice((24, 40, 80)),
        "hidden": hidden_size,
        "kv": hidden_size // rng.choice((1, 4, 8)),
        "tokens": rng.choice((2**11, 2**14, 2**17, 2**20)),
    } | given


def telling(reshard: str, rng: random.Random, want: str, edge: int | None = None) -> tuple[Any, ...]:
    """A row on which one strategy is best by 5 %; with `edge`, because it fits to the byte (0) or misses by one (−1)."""
    while True:
        model, ranks = _model(rng), rng.choice((2, 4, 6, 8, 32))
        held, moved = state(model, ranks), sent(reshard, model, ranks)
        memory = rng.uniform(0.7, 1.4) * (held["fsdp"] if rng.random() < 0.6 else held["dp"])
        if edge is not None:
            memory = held["fsdp"] + edge
        fits = sorted(moved[name] for name in STRATEGIES if held[name] <= memory)
        clear = (
            len(fits) < 2 or fits[1] > 1.05 * fits[0] or {"dp", "fsdp"} <= set(fitting(reshard, model, ranks, memory))
        )
        if clear and (want in fitting(reshard, model, ranks, memory) if want else not fits):
            return model, ranks, memory


def _cases(params: Params, rng: random.Random) -> list[Case]:
    reshard = params["reshard"]
    example = {"parameters": 8 * BILLION, "layers": 32, "hidden": 4096, "kv": 1024, "tokens": 2**17}
    others = [(_model(rng), rng.choice((2, 3, 4, 6, 8, 64))) for _ in range(6)]
    alone = [(_model(rng), 1), (_model(rng, kv=1, layers=1), 2), (_model(rng, tokens=1), 1024)]
    alone += [({**example, name: 5 * value}, 8) for name, value in example.items()]  # one number changed
    best = [telling(reshard, rng, name) for name in ("dp", "fsdp", "pp") for _ in range(2)]
    full = [(_model(rng, parameters=64 * BILLION), 8, 128 * BILLION + by) for by in (0, -1)]
    full += [
        (_model(rng, parameters=3 * BILLION), 1, 48 * BILLION + by) for by in (0, -1)
    ]  # with one rank, all are equal
    none = [telling(reshard, rng, "") for _ in range(2)]
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


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index = case.args[0]
    if index == 2:
        return judged(case, _fewest_fault(params["reshard"], case, outcome.value))
    return judged(case, (sent_column(params["reshard"]), STATE_COLUMN)[index].fault(case, outcome.value))


JUDGING = Judging(
    shares="values:sent 0.4, values:state 0.2, values:fewest 0.2, generality:edges 0.1, generality:limit 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="Two strategies move parameters, two move activations, and one moves both. So the number of tokens decides: with few tokens it is cheap to move "
    "activations, with many it is cheap to move weights. By bytes alone a pipeline beats tensor parallelism every time; its price, the bubble, is in no row of this table. Sharding sends one and a half times what data parallelism sends, because an all-reduce is a "
    "reduce-scatter and an all-gather already.",
    pytorch="`CommDebugMode` counts the collectives of a step; `reshard_after_forward` decides whether FSDP gathers once or twice.",
)

ANSWERS = r"""# %% right: formulas
def sent(model, ranks):
    ring = (ranks - 1) / ranks
    weights, whole = 2 * model["parameters"], 2 * model["tokens"] * model["hidden"]
    keys = 2 * 2 * model["tokens"] * model["kv"]
    dp = 2 * ring * weights
    return {
        "dp": dp,
        "fsdp": 3 * ring * weights,
        "tp": model["layers"] * 4 * 2 * ring * whole,
        "pp": 2 * whole if ranks > 1 else 0,
        "cp": model["layers"] * 3 * ring * keys + dp,
    }


def state(model, ranks):
    whole = 16 * model["parameters"]
    return {"dp": whole, "fsdp": whole / ranks, "tp": whole / ranks, "pp": whole / ranks, "cp": whole}


def fewest(model, ranks, memory):
    held, moved = state(model, ranks), sent(model, ranks)
    return min((name for name in held if held[name] <= memory), key=moved.get, default=None)


# %% right: any variant  from: formulas
# - def sent(model, ranks):
# + from course_lib import params
# + RINGS = {"freed": 3, "kept": 2}[params("parallelism-table").reshard]
# + def sent(model, ranks):
# ~ "fsdp": 3 * ring * weights, ==> "fsdp": RINGS * ring * weights,


# %% wrong: fsdp gathers once => values other-gathers unless reshard=kept  from: formulas
# ~ "fsdp": 3 * ring * weights, ==> "fsdp": 2 * ring * weights,

# %% wrong: fsdp sends three times as much => values three-times  from: formulas
# ~ ring * weights, ==> dp,

# %% wrong: no ring => values no-ring  from: formulas
# ~ (ranks - 1) / ranks ==> 1.0

# %% wrong: tp reduces its own tokens => values own-tokens  from: formulas
# -     weights, whole = 2 * model["parameters"], 2 * model["tokens"] * model["hidden"]
# -     keys = 2 * 2 * model["tokens"] * model["kv"]
# +     tokens = model["tokens"] / ranks
# +     weights, whole = 2 * model["parameters"], 2 * tokens * model["hidden"]
# +     keys = 2 * 2 * tokens * model["kv"]

# %% wrong: keys as wide as the model => values full-keys  from: formulas
# ~ kv ==> hidden

# %% wrong: cp has no gradients to reduce => values no-gradients  from: formulas
# ~ keys + dp, ==> keys,

# %% wrong: one rank sends to a neighbor => generality alone-sends  from: formulas
# ~ whole if ranks > 1 else 0, ==> whole,

# %% wrong: cp cuts the state => values cp-cuts  from: formulas
# ~ return {"dp": whole, "fsdp": whole / ranks, "tp": whole / ranks, "pp": whole / ranks, "cp": whole} ==> return {"dp": whole, "fsdp": whole / ranks, "tp": whole / ranks, "pp": whole / ranks, "cp": whole / ranks}

# %% wrong: state of two bytes => values weights-alone  from: formulas
# ~ 16 ==> 2

# %% wrong: memory is not looked at => values does-not-fit  from: formulas
# ~ (name for name in held if held[name] <= memory), key=moved.get, default=None ==> moved, key=moved.get

# %% wrong: full is too full => generality gave-up  from: formulas
# ~ return min((name for name in held if held[name] <= memory), key=moved.get, default=None) ==> return min((name for name in held if held[name] < memory), key=moved.get, default=None)

# %% wrong: the first that fits => values more-bytes  from: formulas
# ~ return min((name for name in held if held[name] <= memory), key=moved.get, default=None) ==> return next((name for name in ("fsdp", "tp", "pp", "cp", "dp") if held[name] <= memory), None)


# %% half: the best strategy is missing => 6  from: formulas
def fewest(model, ranks, memory):
    raise NotImplementedError


# %% wrong: on one rank nothing fits => generality gave-up  from: formulas
#   def fewest(model, ranks, memory):
# +     if ranks == 1:
# +         return None
"""
