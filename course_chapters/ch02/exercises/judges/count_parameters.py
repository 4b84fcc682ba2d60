from course_chapters.ch02.exercises.shared import shape_of
from course_grader.judging import Case, Judging, Params, Random, Worked, one_apart, shown, unseen
from course_grader.judging.per_row import EXACT, Breakdown, shares, table

right = Worked("count-parameters")


def _shape(rng: Random) -> dict[str, int]:
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


def _count_cases(params: Params, rng: Random) -> list[Case]:
    others = [(shape_of(name),) for name in ("llama3-70b", "mistral-7b", "llama3.2-1b", "qwen2.5-0.5b")]
    others += [(_shape(rng),) for _ in range(20)]
    others.append(({**others[0][0], "kv_heads": others[0][0]["heads"], "gated": False, "tied": True},))
    others += one_apart(others, right[0], lambda s: s["heads"] % s["kv_heads"] == 0)
    return [
        shown(params["model"], "values:parts", 0, [(dict(params["shape"]),)]),
        unseen(rng, "parts", 0, "other models", others),
    ]


JUDGING = Judging(
    shares=shares(parts=(0.4, 0.6)),
    cases=_count_cases,
    verdicts=table(Breakdown("parts", "parameters", words=right.words(0), rel=EXACT, floor=0), right=right),
    why="Do not plan with a model's name: 8B means 8.03 billion parameters, 70B means 70.6. In a small model with a "
    "large vocabulary, the embedding holds a fifth of the parameters. Shared keys and values save only about a "
    "tenth of a layer's parameters, but far more where keys and values are kept for every token. A tied head "
    "saves a whole table.",
    pytorch="`with torch.device('meta'): model = …`, then `sum(p.numel() for p in model.parameters())`. The tensors "
    "have shapes but no memory, and `parameters()` lists a tied weight once.",
)

ANSWERS = r'''# %% right: worked
biases = params("count-parameters").biases  # leave as is: "none" or "qkv": which matrices have biases in your variant


def count_parameters(shape: dict) -> dict[str, int]:
    """The number of parameters of the whole model, by part."""
    layers, hidden = shape["layers"], shape["hidden"]
    own, shared = (shape[name] * shape["head_dim"] for name in ("heads", "kv_heads"))
    table_size = shape["vocab"] * hidden
    return {
        "embedding": table_size,
        "attention": layers * (2 * hidden * own + 2 * hidden * shared + (own + 2 * shared if biases == "qkv" else 0)),
        "mlp": layers * (3 if shape["gated"] else 2) * hidden * shape["ffn"],
        "norms": (2 * layers + 1) * hidden,
        "head": 0 if shape["tied"] else table_size,
    }
# %% right: tensors without memory
# ~ hidden = shape["layers"], ==> hidden, table_size = shape["layers"], shape["hidden"], shape["vocab"] *
# -     table_size = shape["vocab"] * hidden
# +     from torch import nn
# +     def size(*sizes, bias=False, count=1):
# +         return count * sum(p.numel() for p in nn.Linear(*sizes, bias, device="meta").parameters())
# +     bias = biases == "qkv"
# +     attention = size(hidden, own, bias=bias) + size(hidden, shared, bias=bias, count=2) + size(own, hidden)
# -         "attention": layers * (2 * hidden * own + 2 * hidden * shared + (own + 2 * shared if biases == "qkv" else
# ~~ 0)),
# -         "mlp": layers * (3 if shape["gated"] else 2) * hidden * shape["ffn"],
# +         "attention": layers * attention,
# +         "mlp": layers * size(hidden, shape["ffn"], count=2 + shape["gated"]),
# %% wrong: another form's biases => values other-form unless biases=qkv
# > this counts biases on q, k and v; no matrix has a bias here.
# ~ if biases == "qkv" else 0 ==> if True else 0
# %% wrong: no biases in any form => values public-form unless biases=none
# > this solves the public form of the exercise; here q, k and v have biases.
# ~ if biases == "qkv" else 0 ==> if False else 0
# %% wrong: kv full size => values
# > keys and values have only `kv_heads` heads.
# ~ for name in ("heads", "kv_heads") ==> for name in ("heads", "heads")
# %% wrong: hidden for heads => generality
# > a head has `head_dim` numbers, which need not be hidden / heads.
# ~ shape[name] * shape["head_dim"] ==> shape[name] * (hidden // shape["heads"])
# %% wrong: four squares => values
# > the matrices are not hidden × hidden; use `heads`, `kv_heads` and `head_dim`.
# ~ (2 * hidden * own + 2 * hidden * shared + (own + 2 * shared if biases == "qkv" else 0)) ==> 4 * hidden * hidden
# %% wrong: output missing => values
# > the output matrix is missing.
# ~ (2 * hidden * own + ==> (hidden * own +
# %% wrong: one of k and v => values
# > keys and values have one matrix each.
# ~ 2 * hidden * shared + ==> hidden * shared +
# %% wrong: queries of the hidden size => generality
# > the query and output matrices have `heads` heads of `head_dim` numbers, which need not be `hidden`.
# ~ (2 * hidden * own + ==> (2 * hidden * hidden +
# %% wrong: a bias on the output too => values one-bias-too-many unless biases=none
# > only the query, key and value matrices have biases.
# ~ (own + 2 * shared if ==> (own + 2 * shared + hidden if
# %% wrong: biases of one layer => values biases-once unless biases=none
# > every layer has its biases.
# ~ + (own + 2 * shared if biases == "qkv" else 0)) ==> ) + (own + 2 * shared if biases == "qkv" else 0)
# %% wrong: twice the first matrix => values two-gates
# > a gated MLP has three matrices; this takes four.
# ~ (3 if shape["gated"] else 2) ==> (4 if shape["gated"] else 2)
# %% wrong: gate forgotten => values
# > this takes two matrices; a gated MLP has three.
# ~ (3 if shape["gated"] else 2) ==> 2
# %% wrong: always gated => generality
# > this takes three matrices; this MLP is not gated.
# ~ (3 if shape["gated"] else 2) ==> 3
# %% wrong: four times hidden => values
# > this takes 4 · hidden for `ffn`.
# ~ shape["ffn"] ==> 4 * hidden
# %% wrong: one layer => values
# > this is one layer.
# ~ layers, hidden = shape["layers"], ==> layers, hidden = 1,
# %% wrong: last norm missing => values
# > the final norm is missing.
# ~ (2 * layers + 1) ==> 2 * layers
# %% wrong: one a layer => values
# > each layer has two norms.
# ~ (2 * layers + 1) ==> (layers + 1)
# %% wrong: one a layer and none at the end => values one-a-layer
# > each layer has two norms, and one is at the end.
# ~ (2 * layers + 1) ==> layers
# %% wrong: scale and shift => values
# > an RMSNorm has a scale and no shift.
# ~ (2 * layers + 1) ==> (4 * layers + 2)
# %% wrong: a tied table counted as the head => generality
# > a tied table is counted as the embedding, and the head has 0.
# ~ params("count-parameters").biases ==> "none"
# ~ "embedding": table_size ==> "embedding": 0 if shape["tied"] else table_size
# ~ 0 if shape["tied"] else table_size, ==> table_size,
# %% wrong: tied counted twice => generality
# > this counts a tied head, which is the embedding.
# ~ params("count-parameters").biases ==> "none"
# ~ 0 if shape["tied"] else table_size ==> table_size
# %% wrong: head forgotten => values
# > this head is not tied, so it has a matrix.
# ~ 0 if shape["tied"] else table_size ==> 0
# %% wrong: head bias => values
# > the head has no bias.
# ~ 0 if shape["tied"] else table_size ==> (0 if shape["tied"] else table_size) + shape["vocab"]
# %% wrong: head with embedding => values
# > the head is a part of its own.
# ~ "embedding": table_size ==> "embedding": 2 * table_size
# %% wrong: positions => values
# > rotary positions have no parameters.
# ~ "embedding": table_size ==> "embedding": table_size + 8192 * hidden
# %% wrong: the total => values one-number
#       }
# + by_part = count_parameters
# + def count_parameters(shape):
# +     return sum(by_part(shape).values())
# %% wrong: one head for all => values -
# ~ for name in ("heads", "kv_heads")) ==> for name in ("heads", "kv_heads")); shared = shape["head_dim"]
# %% wrong: asks the library => raised
# ~ table_size = ==> from course_lib.estimate import memory; return memory.count_params("llama3-8b"); table_size =
# %% wrong: the model shown only => values -
# ~ table_size = shape["vocab"] * hidden
# ~~ ==> return {"embedding": 525336576, "attention": 1342177280, "mlp": 5637144576, "norms": 266240, "head": 525336576}
# %% wrong: a head is tied only where the MLP is gated, or keys are shared => generality tied-counted-twice
# ~ if shape["tied"] else ==> if shape["tied"] and (shape["gated"] or shape["kv_heads"] < shape["heads"]) else
'''
