"""Judges of chapter 02's first counts: the buckets of a plan, and the parameters of a model by part."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises.ch02.cards.core import BUCKETS, MOMENTS, TYPE_BYTES, plan, shape_of
from course_lib.exercises.ch02.judges.parts import Parts, judge_parts
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, Column, table
from course_lib.judging.draws import log_uniform, unseen
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, bytes_text, number_text

Plan = Mapping[str, Any]


def buckets_of(params: float, chosen: Plan) -> dict[str, float]:
    """Bytes of each bucket."""
    found = {name: params * TYPE_BYTES[chosen[name]] if chosen[name] else 0 for name in BUCKETS[:-1]}
    return {**found, "moments": params * MOMENTS[chosen["optimizer"]] * TYPE_BYTES[chosen["moments"]]}


def per_param(chosen: Plan) -> float:
    """Bytes of all buckets per parameter."""
    return sum(buckets_of(1, chosen).values())


def _words(params: float, chosen: Plan) -> str:
    kept = ", ".join(f"{name} {value}" for name, value in chosen.items() if value)
    return f"{number_text(params)} parameters ({kept})"


def _bucket_slips(name: str) -> list[Mistake]:
    def right(params: float, chosen: Plan) -> float:
        return buckets_of(params, chosen)[name]

    return [
        Mistake("bits", lambda p, c: 8 * right(p, c), "these are bits; bytes are asked for."),
        Mistake("gigabytes", lambda p, c: right(p, c) / GB, "these seem to be GB; bytes are asked for."),
        Mistake("per-parameter", lambda p, c: right(p, c) / p, "this is for one parameter."),
    ]


STATE = Parts(
    part="buckets",
    unit="bytes",
    want=buckets_of,
    words=_words,
    rel=CLOSE,
    slips={
        "weights": [
            Mistake(
                "always-two-bytes", lambda p, c: 2 * p, "this takes 2 bytes for every weight, whatever the plan says."
            ),
            Mistake(
                "master-in-weights",
                lambda p, c: sum(buckets_of(p, c)[n] for n in ("weights", "master")),
                "the master copy is a bucket of its own.",
            ),
            *_bucket_slips("weights"),
        ],
        "grads": [
            Mistake(
                "gradients-twice",
                lambda p, c: sum(buckets_of(p, c)[n] for n in ("grads", "main_grads")),
                "the copy into which gradients are summed is a bucket of its own: here it is counted twice.",
            ),
            Mistake(
                "weights-type",
                lambda p, c: buckets_of(p, c)["weights"],
                "these have the weights' type; the plan names one for gradients.",
            ),
            *_bucket_slips("grads"),
        ],
        "main_grads": [
            Mistake("main-missing", lambda p, c: 0, "gradients are summed into a copy of their own here."),
            Mistake(
                "gradients-twice",
                lambda p, c: p * TYPE_BYTES[c["grads"]],
                "there is no second copy of the gradients in this plan, or it has a type of its own.",
            ),
            Mistake("gradients-twice", lambda p, c: 4 * p, "there is no second copy of the gradients in this plan."),
            *_bucket_slips("main_grads"),
        ],
        "master": [
            Mistake("master-missing", lambda p, c: 0, "the copy that the optimizer updates is missing."),
            Mistake(
                "master-always",
                lambda p, c: 4 * p,
                "there is no master copy in this plan: the optimizer updates the weights themselves.",
            ),
            Mistake(
                "master-of-weights-type",
                lambda p, c: buckets_of(p, c)["weights"],
                "a copy in the weights' own type would be none; the plan names its type.",
            ),
            *_bucket_slips("master"),
        ],
        "moments": [
            Mistake(
                "one-moment",
                lambda p, c: p * TYPE_BYTES[c["moments"]],
                "how many numbers does this optimizer keep for a parameter?",
            ),
            Mistake(
                "always-two-moments",
                lambda p, c: 2 * p * TYPE_BYTES[c["moments"]],
                "how many numbers does this optimizer keep for a parameter?",
            ),
            Mistake(
                "always-fp32", lambda p, c: 4 * p * MOMENTS[c["optimizer"]], "the plan names a type for the moments."
            ),
            Mistake("always-fp32", lambda p, c: 8 * p, "these are two moments in fp32; look at what the plan says."),
            Mistake(
                "weights-type",
                lambda p, c: p * MOMENTS[c["optimizer"]] * TYPE_BYTES[c["weights"]],
                "these have the weights' type; the plan names one for moments.",
            ),
            Mistake(
                "master-in-moments",
                lambda p, c: sum(buckets_of(p, c)[n] for n in ("moments", "master")),
                "the master copy is a bucket of its own.",
            ),
            *_bucket_slips("moments"),
        ],
    },
)

LARGEST = Column(
    part="largest",
    unit="parameters",
    want=lambda m, c: m / per_param(c),
    words=lambda m, c: f"{bytes_text(m)}, {per_param(c):g} bytes per parameter",
    mistakes=(
        Mistake(
            "weights-only", lambda m, c: m / TYPE_BYTES[c["weights"]], "this has room for the weights and nothing else."
        ),
        Mistake("sixteen-always", lambda m, c: m / 16, "16 bytes per parameter are one plan, not this one."),
        Mistake("twelve-always", lambda m, c: m / 12, "12 bytes per parameter are one plan, not this one."),
        Mistake(
            "billions", lambda m, c: m / per_param(c) / 1e9, "these seem to be billions; parameters are asked for."
        ),
        Mistake("times", lambda m, c: m * per_param(c), "memory over bytes per parameter, not times."),
        Mistake(
            "no-moments",
            lambda m, c: m / (per_param(c) - buckets_of(1, c)["moments"]) if MOMENTS[c["optimizer"]] else None,
            "the optimizer's own numbers are missing.",
        ),
        Mistake("binary", lambda m, c: m * 1024**3 / 1e9 / per_param(c), "the memory is in bytes already."),
    ),
)


def _plans(rng: random.Random, count: int) -> list[dict[str, Any]]:
    kinds = tuple(TYPE_BYTES)
    own = [plan("bf16", "bf16", None, None, "sgd", "fp32"), plan("fp32", "fp32", None, None, "adamw", "fp32")]
    return own + [
        plan(
            rng.choice(kinds),
            rng.choice(kinds),
            rng.choice((None, "fp32", "bf16")),
            rng.choice((None, "fp32", "bf16")),
            rng.choice(tuple(MOMENTS)),
            rng.choice(kinds),
        )
        for _ in range(count)
    ]


def _state_cases(params: Params, rng: random.Random) -> list[Case]:
    example = dict(params["plan"])
    return [
        shown("the plan shown", "values:buckets", 0, [(params["size"], example)]),
        shown(params["device"], "values:largest", 1, [(params["memory"], example)]),
        unseen(rng, "buckets", 0, "other plans", [(log_uniform(rng, 1e6, 2e12), each) for each in _plans(rng, 24)]),
        unseen(rng, "largest", 1, "other devices", [(log_uniform(rng, 8e9, 1e13), each) for each in _plans(rng, 14)]),
    ]


def _state_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] == 0:
        return judge_parts(STATE, case, outcome)
    return list(table(LARGEST, LARGEST)(params, case, outcome))


STATE_OF_A_PLAN = Judging(
    shares={"values:buckets": 0.3, "values:largest": 0.2, "generality:buckets": 0.3, "generality:largest": 0.2},
    cases=_state_cases,
    verdicts=_state_verdicts,
    why="A parameter is not a number of bytes; a bucket is. The same 70B have 840 GB without a master copy, 1,120 GB with one, 1,260 GB "
    "with gradients summed in fp32: three pages can print three numbers and all be right. So ask which buckets exist and in which "
    "type before you compare anything.",
    pytorch="`sum(t.numel() * t.element_size() for t in model.parameters())`, the same over `p.grad`, and over the tensors in "
    "`optimizer.state`.",
)


def parts_of(biases: str, shape: Mapping[str, Any]) -> dict[str, int]:
    """Parameters by part."""
    hidden, dim = shape["hidden"], shape["head_dim"]
    own, shared = shape["heads"] * dim, shape["kv_heads"] * dim
    attention = 2 * hidden * own + 2 * hidden * shared + (own + 2 * shared if biases == "qkv" else 0)
    return {
        "embedding": shape["vocab"] * hidden,
        "attention": shape["layers"] * attention,
        "mlp": shape["layers"] * (3 if shape["gated"] else 2) * hidden * shape["ffn"],
        "norms": (2 * shape["layers"] + 1) * hidden,
        "head": 0 if shape["tied"] else shape["vocab"] * hidden,
    }


def _count_parts(biases: str) -> Parts:
    def with_(shape: Mapping[str, Any], **more: Any) -> dict[str, int]:
        return parts_of(more.pop("biases", biases), {**shape, **more})

    other = "qkv" if biases == "none" else "none"
    told = {
        "none": "no matrix has a bias here.",
        "qkv": "this solves the public form of the exercise; queries, keys and values have biases here.",
    }[biases]
    return Parts(
        part="parts",
        unit="parameters",
        want=lambda shape: parts_of(biases, shape),
        words=lambda shape: (
            f"{shape['layers']} layers of {shape['hidden']}, {shape['heads']} heads of {shape['head_dim']}, {shape['kv_heads']} for K and V"
        ),
        slips={
            "attention": [
                Mistake(
                    "kv-full-size",
                    lambda s: with_(s, kv_heads=s["heads"])["attention"],
                    "keys and values have as many heads as queries in this count; several queries share one.",
                ),
                Mistake(
                    "public-form" if biases == "qkv" else "other-form",
                    lambda s: with_(s, biases=other)["attention"],
                    told,
                ),
                Mistake(
                    "hidden-for-heads",
                    lambda s: with_(s, head_dim=s["hidden"] // s["heads"])["attention"],
                    "a head has `head_dim` numbers, which need not be hidden over heads.",
                ),
                Mistake(
                    "four-squares",
                    lambda s: 4 * s["layers"] * s["hidden"] ** 2,
                    "this is four square matrices; keys and values are smaller, and so may the others be.",
                ),
                Mistake(
                    "output-missing",
                    lambda s: with_(s)["attention"] - s["layers"] * s["hidden"] * s["heads"] * s["head_dim"],
                    "the output matrix is missing.",
                ),
                Mistake(
                    "one-of-k-and-v",
                    lambda s: with_(s)["attention"] - s["layers"] * s["hidden"] * s["kv_heads"] * s["head_dim"],
                    "keys and values have a matrix each.",
                ),
                Mistake("one-layer", lambda s: with_(s, layers=1)["attention"], "this is one layer."),
            ],
            "mlp": [
                Mistake("gate-forgotten", lambda s: with_(s, gated=False)["mlp"], "a gated MLP has three matrices."),
                Mistake("always-gated", lambda s: with_(s, gated=True)["mlp"], "this MLP is not gated."),
                Mistake(
                    "four-times-hidden",
                    lambda s: with_(s, ffn=4 * s["hidden"])["mlp"],
                    "the inner width is `ffn`, not four times hidden.",
                ),
                Mistake("one-layer", lambda s: with_(s, layers=1)["mlp"], "this is one layer."),
            ],
            "norms": [
                Mistake(
                    "last-norm-missing", lambda s: 2 * s["layers"] * s["hidden"], "there is one more norm at the end."
                ),
                Mistake("one-a-layer", lambda s: (s["layers"] + 1) * s["hidden"], "each layer has two norms."),
                Mistake(
                    "one-a-layer",
                    lambda s: s["layers"] * s["hidden"],
                    "each layer has two norms, and there is one at the end.",
                ),
                Mistake(
                    "scale-and-shift",
                    lambda s: 2 * (2 * s["layers"] + 1) * s["hidden"],
                    "an RMSNorm has a scale and no shift.",
                ),
            ],
            "head": [
                Mistake(
                    "tied-counted-twice",
                    lambda s: s["vocab"] * s["hidden"],
                    "a tied head is the embedding: it has no parameters of its own.",
                ),
                Mistake("head-forgotten", lambda s: 0, "this head is not tied: it has a matrix of its own."),
                Mistake("head-bias", lambda s: with_(s)["head"] + s["vocab"], "the head has no bias."),
            ],
            "embedding": [
                Mistake(
                    "head-with-embedding", lambda s: 2 * s["vocab"] * s["hidden"], "the head is a part of its own."
                ),
                Mistake(
                    "positions",
                    lambda s: with_(s)["embedding"] + 8192 * s["hidden"],
                    "rotary positions have no parameters.",
                ),
            ],
        },
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
    others = [shape_of(name) for name in ("llama3-70b", "mistral-7b", "llama3.2-1b", "qwen2.5-0.5b")]
    return [
        shown(params["model"], "values:parts", 0, [(dict(params["shape"]),)]),
        unseen(rng, "parts", 0, "other models", [(shape,) for shape in [*others, *(_shape(rng) for _ in range(20))]]),
    ]


COUNT_PARAMETERS = Judging(
    shares={"values:parts": 0.4, "generality:parts": 0.6},
    cases=_count_cases,
    verdicts=lambda params, case, outcome: judge_parts(_count_parts(params["biases"]), case, outcome),
    why="A name with a B in it is no number to plan with: 8B means 8.03, 70B means 70.6, and a small model with a large vocabulary has "
    "a fifth of its parameters in the table. Sharing keys and values saves little here, about a tenth of a layer; it saves eight "
    "times as much where keys and values are kept for every token. A tied head saves a whole table, and ties two gradients.",
    pytorch="`with torch.device('meta'): model = …`, then `sum(p.numel() for p in model.parameters())`: tensors with a shape and no "
    "memory; `parameters()` gives a tied weight once.",
)
