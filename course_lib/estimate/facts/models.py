"""Model shapes: what one must know of a transformer to count its parameters, bytes and FLOPs."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import find, reference, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A transformer's shape. `params` is counted from it, to the last parameter."""

    name: str
    layers: int
    hidden: int  # width of the residual stream
    ffn: int  # inner width of the MLP
    heads: int
    kv_heads: int  # fewer than heads: grouped-query attention
    head_dim: int
    vocab: int
    seq_len: int  # tokens of context it was trained or configured with
    gated: bool  # a gated MLP has three matrices, a plain one two
    tied: bool  # the embedding and the output projection are one matrix
    norm: str
    learned_positions: bool
    biases: bool
    experts: int  # 0: a dense model
    top_k: int
    expert_ffn: int
    params: int
    active_params: int  # parameters that one token meets
    published_billion: float  # parameters as the source prints them
    note: str
    source: str
    date: str
    dense_layers: int = 0  # first layers of a mixture that have a plain MLP of width `ffn`
    expert_every: int = 1  # 2: every other layer is a mixture, the rest have a plain MLP
    shared_ffn: int = 0  # inner width of the expert that every token visits
    shared_gate: int = 0  # 1: a vector of `hidden` weights that scales the shared expert's output
    router_bias: int = 0  # 1: a number for each expert, added to its score
    router_groups: int = 1  # of experts
    groups_visited: int = 1  # that a token's experts may be in
    expert_biases: int = 0  # 1: experts have biases
    attention_biases: str = ""  # of a model whose other matrices have none: "qkv", or "qkvo" with the output's
    head_norms: int = 0  # 1: queries and keys are normalized head by head
    wide_norms: int = 0  # 1: queries and keys are normalized over all heads together
    layer_norms: int = 2  # norms of hidden width in a layer
    head_bias: int = 0  # 1: the output projection has a bias
    window: int = 0  # tokens that the layers of local attention attend to; 0: there are none
    local_layers: int = 0  # how many layers those are
    sinks: int = 0  # 1: a learned score for each head, to which attention can go instead of to a token
    embedding_norm: int = 0  # 1: a norm after the embedding
    query_latent: int = 0  # latent attention: compressed width of the queries
    latent: int = 0  # compressed width of keys and values together; 0: no latent attention
    rotary_dim: int = 0  # the part of a head's query, and of the one shared key, that carries positions
    plain_dim: int = 0  # the part that does not
    value_dim: int = 0
    index_heads: int = 0  # of an indexer that selects the tokens to attend to
    index_dim: int = 0

    @property
    def latent_width(self) -> int:
        """Numbers that one token keeps in one layer of a model with latent attention; 0 for a model without it."""
        return self.latent + self.rotary_dim + self.index_dim

    @property
    def dense(self) -> bool:
        """Whether every token meets every parameter."""
        return self.experts == 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How many numbers a published checkpoint holds, and how many of them the shape does not describe."""

    model: str
    parameters: int
    besides: int
    condition: str
    source: str
    date: str


_WHOLE = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "seq_len")
_MORE = ("experts", "top_k", "expert_ffn", "params", "active_params")


def _numbers(row: dict[str, str], details: dict[str, str]) -> dict[str, int]:
    """A model's whole numbers, by field."""
    found = {field: int(row[field]) for field in (*_WHOLE, *_MORE)}
    return found | {field: int(value) for field, value in details.items() if field != "attention_biases"}


@cache
def _models() -> dict[str, ModelShape]:
    details: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows("model_details.csv"):
        details[row["model"]][row["field"]] = row["value"]
    return {
        row["name"]: ModelShape(
            name=row["name"],
            gated=row["mlp"] == "gated",
            tied=row["tied"] == "1",
            norm=row["norm"],
            learned_positions=row["learned_positions"] == "1",
            biases=row["biases"] == "1",
            published_billion=float(row["published_billion"]),
            note=row["note"],
            source=reference(row["source"]).short,
            date=row["date"],
            attention_biases=details[row["name"]].get("attention_biases", ""),
            **_numbers(row, details[row["name"]]),
        )
        for row in rows("models.csv")
    }


def model(name: str) -> ModelShape:
    """The shape of the model called `name`, such as "llama3-70b"."""
    return find("model", name, _models())


def models() -> dict[str, ModelShape]:
    """All model shapes by name, smallest first."""
    return dict(sorted(_models().items(), key=lambda item: item[1].params))


@cache
def checkpoints() -> tuple[Checkpoint, ...]:
    """Published checkpoints whose parameters are known one by one."""
    return tuple(
        Checkpoint(
            model=row["model"],
            parameters=int(row["parameters"]),
            besides=int(row["besides"]),
            condition=row["condition"],
            source=reference(row["source"]).short,
            date=row["date"],
        )
        for row in rows("checkpoints.csv")
    )
