"""Model shapes: what one must know of a transformer to count its parameters, bytes and FLOPs."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import find, reference, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A transformer's shape. `params` is counted from it, not rounded.

    Left out are small parts of a few models, such as biases of queries, keys and values: at most 0.006 % of the parameters.
    """

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

    @property
    def dense(self) -> bool:
        """Whether every token meets every parameter."""
        return self.experts == 0


_WHOLE = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "seq_len")
_MORE = ("experts", "top_k", "expert_ffn", "params", "active_params")


@cache
def _models() -> dict[str, ModelShape]:
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
            **{field: int(row[field]) for field in (*_WHOLE, *_MORE)},
        )
        for row in rows("models.csv")
    }


def model(name: str) -> ModelShape:
    """The shape of the model called `name`, such as "llama3-70b"."""
    return find("model", name, _models())


def models() -> dict[str, ModelShape]:
    """All model shapes by name, smallest first."""
    return dict(sorted(_models().items(), key=lambda item: item[1].params))
