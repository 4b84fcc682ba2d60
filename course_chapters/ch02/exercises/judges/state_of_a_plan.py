from course_chapters.ch02.exercises.state_of_a_plan import MOMENTS, TYPE_BYTES, plan
from course_grader.judging import CLOSE, Breakdown, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, log_uniform, one_apart, unseen

right = Worked("state-of-a-plan")


def _plans(rng: Random, count: int) -> list[dict[str, object]]:
    kinds, copies = tuple(TYPE_BYTES), (None, "fp32", "bf16")
    own = [plan("bf16", "bf16", None, None, "sgd", "fp32"), plan("fp32", "fp32", None, None, "adamw", "fp32")]
    drawn = [plan(*row) for row in draw_rows(rng, count, kinds, kinds, copies, copies, tuple(MOMENTS), kinds)]
    return [*own, *drawn, plan("fp8", "int8", "bf16", "bf16", "lion", "fp8")]


def _state_cases(params: Params, rng: Random) -> list[Case]:
    example = dict(params["plan"])
    devices = [(log_uniform(rng, 8e9, 1e14), each) for each in _plans(rng, 14)]
    plans = [(log_uniform(rng, 1e6, 2e12), each) for each in _plans(rng, 24)]
    return [
        shown("the plan shown", "values:buckets", 0, [(params["size"], example)]),
        shown(params["device"], "values:largest", 1, [(params["memory"], example)]),
        unseen(rng, "buckets", 0, "other plans", plans + one_apart(plans, right[0])),
        unseen(rng, "largest", 1, "other devices", devices + one_apart(devices, right[1])),
    ]


JUDGING = Judging(
    shares=shares(buckets=(0.3, 0.3), largest=(0.2, 0.2)),
    cases=_state_cases,
    verdicts=table(
        Breakdown("buckets", "bytes", words=right.words(0), rel=CLOSE, floor=0),
        Column("largest", "parameters", words=right.words(1)),
        right=right,
    ),
    why="The same 70B parameters take 840 GB without a master copy, 1,120 GB with one, and 1,260 GB with gradients "
    "summed in fp32. All three are right. Before you compare such numbers, ask which buckets exist and which data "
    "type each has.",
    pytorch="`sum(t.numel() * t.element_size() for t in model.parameters())`, the same over `p.grad`, and over the "
    "tensors in `optimizer.state`.",
)

ANSWERS = r'''# %% right: worked
def state_buckets(params: float, plan: dict) -> dict[str, float]:
    """Bytes of each of the five buckets, 0 for a bucket that does not exist."""
    size = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
    copies = {"sgd": 0, "momentum": 1, "lion": 1, "adamw": 2}
    buckets = {
        name: size[plan[name]] * params if plan[name] else 0 for name in ("weights", "grads", "main_grads", "master")
    }
    return buckets | {"moments": copies[plan["optimizer"]] * size[plan["moments"]] * params}


def largest_model(memory: float, plan: dict) -> float:
    """The most parameters whose state fits in `memory` bytes."""
    return memory / sum(state_buckets(1, plan).values())
# %% right: every copy of its own, and the largest model by bisection
# -     size = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
# -     copies = {"sgd": 0, "momentum": 1, "lion": 1, "adamw": 2}
# -     buckets = {
# -         name: size[plan[name]] * params if plan[name] else 0 for name in ("weights", "grads", "main_grads",
# ~~ "master")
# -     }
# -     return buckets | {"moments": copies[plan["optimizer"]] * size[plan["moments"]] * params}
# +     bits = {None: 0, "fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8}
# +     each = {name: bits[plan[name]] / 8 for name in ("weights", "grads", "main_grads", "master", "moments")}
# +     each["moments"] *= 2 if plan["optimizer"] == "adamw" else plan["optimizer"] != "sgd"
# +     return {name: params * nbytes for name, nbytes in each.items()}
# -     return memory / sum(state_buckets(1, plan).values())
# +     low, high = 0.0, memory
# +     for _ in range(200):
# +         middle = (low + high) / 2
# +         low, high = (low, middle) if sum(state_buckets(middle, plan).values()) > memory else (middle, high)
# +     return low
# %% wrong: the master copy in the weights => values master-in-weights
# > this includes another copy, which has a bucket of its own.
# ~ return buckets | ==> return buckets | {"weights": buckets["weights"] + buckets["master"]} |
# %% wrong: both gradients in one bucket => values gradients-twice
# > this counts a second copy of the gradients here. A bucket holds its own copy in its own type, or none.
# ~ return buckets | ==> return buckets | {"main_grads": size[plan["grads"]] * params} |
# %% wrong: the main gradients among the gradients => generality gradients-twice
# ~ return buckets | ==> return buckets | {"grads": buckets["grads"] + buckets["main_grads"]} |
# %% wrong: sums in fp32 in any plan => values gradients-twice
# ~ return buckets | ==> return buckets | {"main_grads": 4 * params} |
# %% wrong: master missing => values
# > the copy that the optimizer updates is missing.
# ~ return buckets | ==> return buckets | {"master": 0} |
# %% wrong: master always => generality
# > this has a master copy in fp32 in any plan; the plan names another type, or none.
# ~ return buckets | ==> return buckets | {"master": 4 * params} |
# %% wrong: master of weights type => values
# > this takes the type of the weights; the master copy has its own, or does not exist.
# ~ return buckets | ==> return buckets | {"master": buckets["weights"]} |
# %% wrong: one moment => values
# > this counts one number per parameter, whatever the optimizer.
# ~ copies[plan["optimizer"]] * size ==> size
# %% wrong: always two moments => generality
# > this counts two numbers per parameter, whatever the optimizer.
# ~ copies[plan["optimizer"]] * ==> 2 *
# %% wrong: master in moments => values
# > this includes the master copy, which has a bucket of its own.
# ~ [plan["moments"]] * params ==> [plan["moments"]] * params + buckets["master"]
# %% wrong: per parameter => values
# > this is for a single parameter.
# ~ copies = {" ==> params, copies = 1, {"
# %% wrong: the total only => values one-number
# ~ return buckets | {"moments": copies[plan["optimizer"]] * size[plan["moments"]] * params} ==> return 16 * params
# %% wrong: a bucket is left out => values missing-part
# ~ "grads", "main_grads", ==> "grads",
# %% wrong: always two bytes => generality
# > this takes 2 bytes per weight in any plan.
# ~ return buckets | ==> return buckets | {"weights": 2 * params} |
# %% wrong: weights type => values
# > this takes the type of the weights; the plan names another one for this bucket.
# ~ return buckets | {"moments": copies[plan["optimizer"]] * size[plan["moments"]] * params}
# ~~ ==> return buckets | {"grads": buckets["weights"], "moments": copies[plan["optimizer"]] * buckets["weights"]}
# %% wrong: main gradients in place of the gradients => generality grads-replaced
# > the gradients of the backward pass keep their memory beside a second copy.
# ~ return buckets | ==> return buckets | ({"grads": 0} if plan["main_grads"] else {}) |
# %% wrong: main missing => generality
# > this plan has a second copy of the gradients.
# ~ return buckets | ==> return buckets | {"main_grads": 0} |
# %% wrong: always fp32 => generality
# > the moments are in fp32 here, whatever the plan.
# ~ size[plan["moments"]] ==> 4
# %% wrong: lion like adamw => generality
# > `"lion"` keeps one number per parameter.
# ~ "lion": 1 ==> "lion": 2
# %% wrong: fp8 takes two bytes for lion => generality -
# ~ size[plan["moments"]] ==> max(size[plan["moments"]], 2 * (plan["optimizer"] == "lion"))
# %% wrong: weights only => values
# > this has room for the weights alone.
# ~ sum(state_buckets(1, plan).values()) ==> state_buckets(1, plan)["weights"]
# %% wrong: sixteen always => generality
# > this takes 16 bytes per parameter, whatever the plan.
# ~ memory / sum(state_buckets(1, plan).values()) ==> memory / 16
# %% wrong: twelve always => values
# > this takes 12 bytes per parameter, whatever the plan.
# ~ memory / sum(state_buckets(1, plan).values()) ==> memory / 12
# %% wrong: billions => values
# > these are billions; return parameters.
# ~ memory / sum ==> memory / 1e9 / sum
# %% wrong: times => values
# > divide the memory by the bytes per parameter.
# ~ memory / sum ==> memory * sum
# %% wrong: no moments => values
# > the moments are missing.
# ~ state_buckets(1, plan) ==> state_buckets(1, {**plan, "optimizer": "sgd"})
# %% wrong: binary => values
# > the memory is already in bytes.
# ~ memory / sum ==> memory * 2**30 / 1e9 / sum
# %% wrong: asks the library => raised
# ~ buckets | ==> {"main_grads": 0.0} |
# ~~ __import__("course_lib.estimate.memory").estimate.memory.state_by_bucket(params, "B") |
# -     return memory / sum(state_buckets(1, plan).values())
# +     return __import__("course_lib.estimate.memory").estimate.memory.largest_model(memory, "B")
# %% half: the buckets alone => 1.5
# ~ return memory / sum(state_buckets(1, plan).values()) ==> raise NotImplementedError
# %% half: both, for this plan only => 2.5
# ~ return buckets | {"moments": copies[plan["optimizer"]] * size[plan["moments"]] * params}
# ~~ ==> return {"weights": 2 * params, "grads": 2 * params, "main_grads": 0, "master": 4 * params, "moments": 8 *
# ~~ params}
# ~ memory / sum(state_buckets(1, plan).values()) ==> memory / 16
'''
