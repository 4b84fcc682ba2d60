"""Judges of chapter 02's first counts: the buckets of a plan, and the parameters of a model by part."""

import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from course_lib.exercises.ch02.cards.core import BUCKETS, MOMENTS, TYPE_BYTES, plan, shape_of
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, EXACT, Breakdown, Column, table
from course_lib.judging.draws import draw_rows, log_uniform, one_apart, unseen
from course_lib.records import Case
from course_lib.units import GB, GiB, bytes_text, number_text

Plan = Mapping[str, Any]
Shape = Mapping[str, Any]


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


STATE_OF_A_PLAN = Judging(
    shares={"values:buckets": 0.3, "values:largest": 0.2, "generality:buckets": 0.3, "generality:largest": 0.2},
    cases=_state_cases,
    verdicts=table(STATE, LARGEST),
    why="The same 70B parameters take 840 GB without a master copy, 1,120 GB with one, and 1,260 GB with gradients summed in fp32. "
    "All three are right. Before you compare such numbers, ask which buckets exist and which data type each has.",
    pytorch="`sum(t.numel() * t.element_size() for t in model.parameters())`, the same over `p.grad`, and over the tensors in "
    "`optimizer.state`.",
)


def parts_of(biases: str, shape: Shape) -> dict[str, int]:
    """Parameters by part."""
    hidden, dim = shape["hidden"], shape["head_dim"]
    own, shared = shape["heads"] * dim, shape["kv_heads"] * dim
    attention = 2 * hidden * own + 2 * hidden * shared + (own + 2 * shared if biases == "qkv" else 0)
    return {
        "embedding": table_size(shape),
        "attention": shape["layers"] * attention,
        "mlp": shape["layers"] * (3 if shape["gated"] else 2) * hidden * shape["ffn"],
        "norms": (2 * shape["layers"] + 1) * hidden,
        "head": 0 if shape["tied"] else table_size(shape),
    }


KV_HEADS = "keys and values have only `kv_heads` heads."
NO_SQUARES = "the matrices are not hidden × hidden; use `heads`, `kv_heads` and `head_dim`."


def table_size(shape: Shape) -> int:
    """Parameters of a table from the vocabulary to the hidden size."""
    return shape["vocab"] * shape["hidden"]


def _count_parts(biases: str) -> Breakdown:
    def as_if(**other: Callable[[Shape], Any]) -> Callable[[Shape], dict[str, int]]:
        """The parts of a shape with other values."""
        return lambda s: parts_of(biases, {**s, **{name: value(s) for name, value in other.items()}})

    def part(name: str, count: Callable[[Shape], int]) -> Callable[[Shape], dict[str, int]]:
        """One part with another number of parameters."""
        return lambda s: {name: count(s)}

    def with_positions(s: Shape) -> int:
        return table_size(s) + 8192 * s["hidden"]

    def norms(count: Callable[[int], int]) -> Callable[[Shape], dict[str, int]]:
        return part("norms", lambda s: count(s["layers"]) * s["hidden"])

    def without(heads: str) -> Callable[[Shape], dict[str, int]]:
        """Attention without one of the matrices that have so many heads."""
        matrix = ("layers", "hidden", heads, "head_dim")
        return part("attention", lambda s: parts_of(biases, s)["attention"] - math.prod(s[name] for name in matrix))

    other, name, message = {
        "none": ("qkv", "other-form", "this counts biases on q, k and v; no matrix has a bias here."),
        "qkv": ("none", "public-form", "this solves the public form of the exercise; here q, k and v have biases."),
    }[biases]
    return Breakdown(
        part="parts",
        unit="parameters",
        want=lambda s: parts_of(biases, s),
        words=lambda s: (
            f"{s['layers']} layers of {s['hidden']}, {s['heads']} heads of {s['head_dim']}, {s['kv_heads']} for K and V"
        ),
        rel=EXACT,
        floor=0,
    ).knowing(
        Mistake("kv-full-size", as_if(kv_heads=lambda s: s["heads"]), KV_HEADS),
        Mistake(name, part("attention", lambda s: parts_of(other, s)["attention"]), message),
        Mistake(
            "hidden-for-heads", as_if(head_dim=lambda s: s["hidden"] // s["heads"]), "a head has `head_dim` numbers."
        ),
        Mistake("four-squares", part("attention", lambda s: 4 * s["layers"] * s["hidden"] ** 2), NO_SQUARES),
        Mistake("output-missing", without("heads"), "the output matrix is missing."),
        Mistake("one-of-k-and-v", without("kv_heads"), "keys and values have one matrix each."),
        Mistake("gate-forgotten", as_if(gated=lambda s: False), "this takes two matrices; a gated MLP has three."),
        Mistake("always-gated", as_if(gated=lambda s: True), "this takes three matrices; this MLP is not gated."),
        Mistake("four-times-hidden", as_if(ffn=lambda s: 4 * s["hidden"]), "this takes 4 · hidden for `ffn`."),
        Mistake("one-layer", as_if(layers=lambda s: 1), "this is one layer."),
        Mistake("last-norm-missing", norms(lambda layers: 2 * layers), "the final norm is missing."),
        Mistake("one-a-layer", norms(lambda layers: layers + 1), "each layer has two norms."),
        Mistake("one-a-layer", norms(lambda layers: layers), "each layer has two norms, and one is at the end."),
        Mistake("scale-and-shift", norms(lambda layers: 4 * layers + 2), "an RMSNorm has a scale and no shift."),
        Mistake("tied-counted-twice", part("head", table_size), "this counts a tied head, which is the embedding."),
        Mistake("head-forgotten", part("head", lambda s: 0), "this head is not tied, so it has a matrix."),
        Mistake("head-bias", part("head", lambda s: parts_of(biases, s)["head"] + s["vocab"]), "it has no bias."),
        Mistake(
            "head-with-embedding", part("embedding", lambda s: 2 * table_size(s)), "the head is a part of its own."
        ),
        Mistake("positions", part("embedding", with_positions), "rotary positions have no parameters."),
    )


def _shape(rng: random.Random) -> dict[str, Any]:
    heads = rng.choice((6, 8, 12, 16, 32))
    dim = rng.choice((32, 64, 80, 128, 256))
    return {
        "layers": rng.randint(1, 90),
        "hidden": rng.choice((heads * dim, heads * dim * 2, 64 * rng.randint(3, 90))),
        "heads": heads,
        "kv_heads": rng.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        "head_dim": dim,
        "ffn": rng.choice((1024, 3072, 11_008, 14_336)),
        "vocab": rng.choice((257, 32_000, 50_257, 151_936)),
        "gated": rng.random() < 0.6,
        "tied": rng.random() < 0.5,
    }


def _count_cases(params: Params, rng: random.Random) -> list[Case]:
    others = [(shape_of(name),) for name in ("llama3-70b", "mistral-7b", "llama3.2-1b", "qwen2.5-0.5b")]
    others += [(_shape(rng),) for _ in range(20)]
    others.append(({**others[0][0], "kv_heads": others[0][0]["heads"], "gated": False, "tied": True},))
    others += one_apart(others, partial(parts_of, params["biases"]), lambda s: s["heads"] % s["kv_heads"] == 0)
    return [
        shown(params["model"], "values:parts", 0, [(dict(params["shape"]),)]),
        unseen(rng, "parts", 0, "other models", others),
    ]


COUNT_PARAMETERS = Judging(
    shares={"values:parts": 0.4, "generality:parts": 0.6},
    cases=_count_cases,
    verdicts=lambda params, case, outcome: table(_count_parts(params["biases"]))(params, case, outcome),
    why="Do not plan with a model's name: 8B means 8.03 billion parameters, 70B means 70.6. In a small model with a large vocabulary, the "
    "embedding holds a fifth of the parameters. Shared keys and values save only about a tenth of a layer's parameters, but far more "
    "where keys and values are kept for every token. A tied head saves a whole table.",
    pytorch="`with torch.device('meta'): model = …`, then `sum(p.numel() for p in model.parameters())`. The tensors have shapes but no "
    "memory, and `parameters()` lists a tied weight once.",
)
