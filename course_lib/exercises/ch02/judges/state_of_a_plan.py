"""Judge of state-of-a-plan: five buckets."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from course_lib.exercises.ch02.state_of_a_plan import BUCKETS, MOMENTS, TYPE_BYTES, plan
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, Breakdown, Column, table
from course_lib.judging.draws import draw_rows, log_uniform, one_apart, unseen
from course_lib.records import Case
from course_lib.units import GB, GiB, bytes_text, number_text

Plan = Mapping[str, Any]


def buckets_of(params: float, chosen: Plan) -> dict[str, float]:
    """Bytes of each bucket."""
    found = {name: params * TYPE_BYTES[chosen[name]] if chosen[name] else 0 for name in BUCKETS[:-1]}
    return {**found, "moments": params * MOMENTS[chosen["optimizer"]] * TYPE_BYTES[chosen["moments"]]}


def per_param(chosen: Plan) -> float:
    """Bytes of all buckets per parameter."""
    return sum(buckets_of(1, chosen).values())


def _total(params: float, chosen: Plan, *names: str) -> float:
    return sum(buckets_of(params, chosen)[name] for name in names)


def _all_times(factor: Callable[[float], float]) -> Callable[[float, Plan], dict[str, float]]:
    """Every bucket times a factor, which may depend on the number of parameters."""
    return lambda p, c: {name: value * factor(p) for name, value in buckets_of(p, c).items()}


def _holds(bucket: str, *parts: str) -> Callable[[float, Plan], dict[str, float]]:
    """One bucket with the bytes of these together."""
    return lambda p, c: {bucket: _total(p, c, *parts)}


def _in_type_of_weights(params: float, chosen: Plan) -> dict[str, float]:
    return buckets_of(params, {**chosen, "grads": chosen["weights"], "moments": chosen["weights"]})


def _plan_text(params: float, chosen: Plan) -> str:
    kept = ", ".join(f"{name} {value}" for name, value in chosen.items() if value)
    return f"{number_text(params)} parameters ({kept})"


OWN_BUCKET = "this includes another copy, which has a bucket of its own."
OTHER_TYPE = "the plan names another type for this bucket, or leaves it out."
OTHER_COUNT = "this optimizer keeps another number of values per parameter."

STATE = Breakdown(part="buckets", unit="bytes", want=buckets_of, words=_plan_text, rel=CLOSE, floor=0).knowing(
    Mistake("always-two-bytes", lambda p, c: {"weights": 2 * p}, "this takes 2 bytes per weight in any plan."),
    Mistake("master-in-weights", _holds("weights", "weights", "master"), OWN_BUCKET),
    Mistake("gradients-twice", _holds("grads", "grads", "main_grads"), OWN_BUCKET),
    Mistake("main-missing", lambda p, c: {"main_grads": 0}, "this plan has a second copy of the gradients."),
    Mistake("gradients-twice", lambda p, c: {"main_grads": p * TYPE_BYTES[c["grads"]]}, OTHER_TYPE),
    Mistake("gradients-twice", lambda p, c: {"main_grads": 4 * p}, OTHER_TYPE),
    Mistake("master-missing", lambda p, c: {"master": 0}, "the copy that the optimizer updates is missing."),
    Mistake("master-always", lambda p, c: {"master": 4 * p}, OTHER_TYPE),
    Mistake("master-of-weights-type", _holds("master", "weights"), OTHER_TYPE),
    Mistake("one-moment", lambda p, c: {"moments": p * TYPE_BYTES[c["moments"]]}, OTHER_COUNT),
    Mistake("always-two-moments", lambda p, c: {"moments": 2 * p * TYPE_BYTES[c["moments"]]}, OTHER_COUNT),
    Mistake("always-fp32", lambda p, c: {"moments": 4 * p * MOMENTS[c["optimizer"]]}, OTHER_TYPE),
    Mistake("always-fp32", lambda p, c: {"moments": 8 * p}, "these are two moments in fp32, whatever the plan."),
    Mistake("weights-type", _in_type_of_weights, OTHER_TYPE),
    Mistake("master-in-moments", _holds("moments", "moments", "master"), OWN_BUCKET),
    Mistake("bits", _all_times(lambda p: 8), "these are bits; return bytes."),
    Mistake("gigabytes", _all_times(lambda p: 1 / GB), "these are GB; return bytes."),
    Mistake("gibibytes", _all_times(lambda p: 1 / GiB), "these are GiB; return bytes."),
    Mistake("per-parameter", _all_times(lambda p: 1 / p), "this is for a single parameter."),
)

LARGEST = Column(
    part="largest",
    unit="parameters",
    want=lambda m, c: m / per_param(c),
    words=lambda m, c: f"{bytes_text(m)}, {per_param(c):g} bytes per parameter",
).knowing(
    Mistake("weights-only", lambda m, c: m / TYPE_BYTES[c["weights"]], "this has room for the weights alone."),
    Mistake("sixteen-always", lambda m, c: m / 16, "this takes 16 bytes per parameter, whatever the plan."),
    Mistake("twelve-always", lambda m, c: m / 12, "this takes 12 bytes per parameter, whatever the plan."),
    Mistake("billions", lambda m, c: m / per_param(c) / 1e9, "these are billions; return parameters."),
    Mistake("times", lambda m, c: m * per_param(c), "divide the memory by the bytes per parameter."),
    Mistake("no-moments", lambda m, c: m / _total(1, c, *BUCKETS[:-1]), "the moments are missing."),
    Mistake("binary", lambda m, c: m * 1024**3 / 1e9 / per_param(c), "the memory is already in bytes."),
)


def _plans(rng: random.Random, count: int) -> list[dict[str, Any]]:
    kinds, copies = tuple(TYPE_BYTES), (None, "fp32", "bf16")
    own = [plan("bf16", "bf16", None, None, "sgd", "fp32"), plan("fp32", "fp32", None, None, "adamw", "fp32")]
    drawn = [plan(*row) for row in draw_rows(rng, count, kinds, kinds, copies, copies, tuple(MOMENTS), kinds)]
    return [*own, *drawn, plan("fp8", "int8", "bf16", "bf16", "lion", "fp8")]


def _state_cases(params: Params, rng: random.Random) -> list[Case]:
    example = dict(params["plan"])
    devices = [(log_uniform(rng, 8e9, 1e14), each) for each in _plans(rng, 14)]
    plans = [(log_uniform(rng, 1e6, 2e12), each) for each in _plans(rng, 24)]
    return [
        shown("the plan shown", "values:buckets", 0, [(params["size"], example)]),
        shown(params["device"], "values:largest", 1, [(params["memory"], example)]),
        unseen(rng, "buckets", 0, "other plans", plans + one_apart(plans, buckets_of)),
        unseen(rng, "largest", 1, "other devices", devices + one_apart(devices, LARGEST.want)),
    ]


JUDGING = Judging(
    shares={"values:buckets": 0.3, "values:largest": 0.2, "generality:buckets": 0.3, "generality:largest": 0.2},
    cases=_state_cases,
    verdicts=table(STATE, LARGEST),
    why="The same 70B parameters take 840 GB without a master copy, 1,120 GB with one, and 1,260 GB with gradients summed in fp32. "
    "All three are right. Before you compare such numbers, ask which buckets exist and which data type each has.",
    pytorch="`sum(t.numel() * t.element_size() for t in model.parameters())`, the same over `p.grad`, and over the tensors in "
    "`optimizer.state`.",
)

ANSWERS = r"""SIZE = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
KEPT = {"sgd": 0, "momentum": 1, "lion": 1, "adamw": 2}


# %% right: a table of sizes
def state_buckets(params, plan):
    def of(key):
        return params * SIZE[plan[key]] if plan[key] else 0

    return {
        "weights": of("weights"),
        "grads": of("grads"),
        "main_grads": of("main_grads"),
        "master": of("master"),
        "moments": params * KEPT[plan["optimizer"]] * SIZE[plan["moments"]],
    }


def largest_model(memory, plan):
    return memory / sum(state_buckets(1, plan).values())


# %% right: the largest model by bisection  from: a table of sizes
def largest_model(memory, plan):
    low, high = 0.0, memory
    for _ in range(200):
        middle = (low + high) / 2
        if sum(state_buckets(middle, plan).values()) > memory:
            high = middle
        else:
            low = middle
    return low


# %% wrong: no master copy => values master-missing  from: a table of sizes
# ~ of("master") ==> 0

# %% wrong: gradients counted twice => values gradients-twice  from: a table of sizes
# ~ ("main_grads") ==> ("grads")

# %% wrong: one moment for Adam => values one-moment  from: a table of sizes
# ~ KEPT[plan["optimizer"]] * SIZE ==> SIZE

# %% wrong: the master copy inside the moments => values master-in-moments  from: a table of sizes
# ~ [plan["moments"]], ==> [plan["moments"]] + of("master"),

# %% wrong: bits => values bits  from: a table of sizes
# - def state_buckets(params, plan):
# + SIZE = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8}
# + def state_buckets(params, plan):

# %% wrong: gigabytes => values gigabytes  from: a table of sizes
#   def state_buckets(params, plan):
# +     params = params / 1e9


# %% wrong: the total only => values one-number
def state_buckets(params, plan):
    return 16 * params


def largest_model(memory, plan):
    return memory / 16


# %% wrong: a bucket is left out => values missing-part  from: the total only
# ~ 16 * params ==> {"weights": 2 * params, "grads": 2 * params, "master": 4 * params, "moments": 8 * params}

# %% wrong: room for the weights alone => values weights-only  from: a table of sizes
# ~ sum(state_buckets(1, plan).values()) ==> SIZE[plan["weights"]]

# %% wrong: in billions => values billions  from: a table of sizes
# ~ (state_buckets(1, plan).values()) ==> (state_buckets(1, plan).values()) / 1e9

# %% wrong: always sixteen bytes => generality always-two-bytes  from: the total only
# -     return 16 * params
# +     return {"weights": 2 * params, "grads": 2 * params, "main_grads": 0, "master": 4 * params, "moments": 8 * params}

# %% wrong: gradients in the weights' type => generality weights-type  from: a table of sizes
# ~ ("grads") ==> ("weights")

# %% wrong: two moments whatever the optimizer => generality always-two-moments  from: a table of sizes
# ~ KEPT[plan["optimizer"]] ==> 2

# %% wrong: a main copy is forgotten => generality main-missing  from: a table of sizes
# ~ of("main_grads") ==> 0

# %% wrong: moments always in fp32 => generality -  from: a table of sizes
# ~ SIZE[plan["moments"]] ==> 4

# %% wrong: asks the library => raised  from: the total only
# - def state_buckets(params, plan):
# + from course_lib import memory as library
# + def state_buckets(params, plan):
# ~ 16 * params ==> {"main_grads": 0.0, **library.state_by_bucket(params, "B")}
# ~ memory / 16 ==> library.largest_model(memory, "B")

# %% half: the buckets alone => 1.5  from: a table of sizes
# ~ return memory / sum(state_buckets(1, plan).values()) ==> raise NotImplementedError

# %% half: both, for this plan only => 2.5  from: always sixteen bytes

# %% wrong: fp8 takes two bytes for lion => generality -  from: a table of sizes
# ~ SIZE[plan["moments"]], ==> max(SIZE[plan["moments"]], 2 * (plan["optimizer"] == "lion")),
"""
