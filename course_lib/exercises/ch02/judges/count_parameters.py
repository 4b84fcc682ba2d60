"""Judge of count-parameters: every parameter, by part."""

import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from course_lib.exercises.ch02.shared import shape_of
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Breakdown, table
from course_lib.judging.draws import one_apart, unseen
from course_lib.records import Case

Shape = Mapping[str, Any]


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


JUDGING = Judging(
    shares={"values:parts": 0.4, "generality:parts": 0.6},
    cases=_count_cases,
    verdicts=lambda params, case, outcome: table(_count_parts(params["biases"]))(params, case, outcome),
    why="Do not plan with a model's name: 8B means 8.03 billion parameters, 70B means 70.6. In a small model with a large vocabulary, the "
    "embedding holds a fifth of the parameters. Shared keys and values save only about a tenth of a layer's parameters, but far more "
    "where keys and values are kept for every token. A tied head saves a whole table.",
    pytorch="`with torch.device('meta'): model = …`, then `sum(p.numel() for p in model.parameters())`. The tensors have shapes but no "
    "memory, and `parameters()` lists a tied weight once.",
)

ANSWERS = r"""# %% right: closed form
def count_parameters(shape):
    layers, hidden, dim = shape["layers"], shape["hidden"], shape["head_dim"]
    own, shared = shape["heads"] * dim, shape["kv_heads"] * dim
    return {
        "embedding": shape["vocab"] * hidden,
        "attention": layers * (2 * hidden * own + 2 * hidden * shared),
        "mlp": layers * (3 if shape["gated"] else 2) * hidden * shape["ffn"],
        "norms": (2 * layers + 1) * hidden,
        "head": 0 if shape["tied"] else shape["vocab"] * hidden,
    }


# %% right: tensors without memory, any variant
import torch
from torch import nn
from course_lib import params


def count_parameters(shape):
    bias = params("count-parameters").biases == "qkv"
    hidden, dim = shape["hidden"], shape["head_dim"]
    own, shared = shape["heads"] * dim, shape["kv_heads"] * dim
    with torch.device("meta"):
        attention = [
            nn.Linear(hidden, own, bias),
            nn.Linear(hidden, shared, bias),
            nn.Linear(hidden, shared, bias),
            nn.Linear(own, hidden, False),
        ]
        mlp = [nn.Linear(hidden, shape["ffn"], False) for _ in range(2 + shape["gated"])]
        table = nn.Embedding(shape["vocab"], hidden)

    def size(modules):
        return sum(p.numel() for module in modules for p in module.parameters())

    return {
        "embedding": size([table]),
        "attention": shape["layers"] * size(attention),
        "mlp": shape["layers"] * size(mlp),
        "norms": hidden * (2 * shape["layers"] + 1),
        "head": 0 if shape["tied"] else size([table]),
    }


# %% wrong: four square matrices => values kv-full-size  from: closed form
# ~ (2 * hidden * own + 2 * hidden * shared) ==> 4 * hidden * hidden

# %% wrong: the output matrix is forgotten => values output-missing  from: closed form
# ~ 2 * hidden * own ==> hidden * own

# %% wrong: one matrix for keys and values => values one-of-k-and-v  from: closed form
# ~ own + 2 * hidden * shared ==> own + hidden * shared

# %% wrong: the gate is forgotten => values gate-forgotten  from: closed form
# ~ (3 if shape["gated"] else 2) ==> 2

# %% wrong: four times the hidden size => values four-times-hidden  from: closed form
# ~ shape["ffn"] ==> 4 * hidden

# %% wrong: no norm at the end => values last-norm-missing  from: closed form
# ~ (2 * layers + 1) ==> 2 * layers

# %% wrong: norms with a shift => values scale-and-shift  from: closed form
# ~ "norms": (2 * layers + 1) * hidden, ==> "norms": 2 * (2 * layers + 1) * hidden,

# %% wrong: the head inside the embedding => values head-with-embedding  from: closed form
# ~ ": shape[" ==> ": 2 * shape["

# %% wrong: one layer => values one-layer  from: closed form
# ~ shape["layers"] ==> 1

# %% wrong: the total => values one-number  from: closed form
#       }
# + by_part = count_parameters
# + def count_parameters(shape):
# +     return sum(by_part(shape).values())

# %% wrong: a tied head counted again => generality tied-counted-twice  from: closed form
# ~ 0 if shape["tied"] else shape ==> shape

# %% wrong: heads times their size taken for hidden => generality hidden-for-heads  from: closed form
# ~ ["head_dim"] ==> ["hidden"] // shape["heads"]

# %% wrong: one head for all => values -  from: closed form
# ~ shape["kv_heads"] * dim ==> dim

# %% wrong: always gated => generality always-gated  from: closed form
# ~ (3 if shape["gated"] else 2) ==> 3


# %% wrong: asks the library => raised
from course_lib import memory


def count_parameters(shape):
    return memory.count_params("llama3-8b")


# %% wrong: the model shown only => values -
def count_parameters(shape):
    return {"embedding": 525336576, "attention": 1342177280, "mlp": 5637144576, "norms": 266240, "head": 525336576}


# %% wrong: a head is tied only where the MLP is gated, or keys are shared => generality -  from: closed form
# ~ if shape["tied"] else ==> if shape["tied"] and (shape["gated"] or shape["kv_heads"] < shape["heads"]) else
"""
