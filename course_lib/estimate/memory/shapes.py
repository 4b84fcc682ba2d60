"""The shape of a transformer for the memory formulas, and its parameters counted part by part.

`Shape` is the small, numeric half of a model: any field may be a numpy array, so one call can cover many models.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, TypedDict

import numpy as np

from course_lib.estimate.facts.models import ModelShape
from course_lib.estimate.memory.recipes import dtype_bytes
from course_lib.estimate.units import Numeric, require_whole

NORMS = {"LayerNorm": 2, "RMSNorm": 1, "LayerNorm without weights": 0}  # learned vectors: a scale, and a shift
PARTS = ("embedding", "positions", "layer", "final_norm", "head")


class Style(TypedDict, total=False):
    """Keywords of `Shape` that are no numbers."""

    gated: bool
    tied: bool
    norm: str
    biases: bool
    relative_positions: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A decoder, dense or a mixture of experts. Omitted numbers are filled in at construction."""

    layers: Numeric
    hidden: Numeric  # width of the residual stream
    heads: Numeric
    vocab: Numeric
    kv_heads: Any = None  # None: same as heads
    head_dim: Any = None  # None: hidden / heads, which must divide
    ffn: Any = None  # None: 4 hidden; gated: 8/3 hidden
    gated: bool = False
    tied: bool = True  # the head's matrix is the embedding's
    norm: str = "LayerNorm"
    biases: bool = True
    learned_positions: Numeric = 0  # tokens with a learned position
    relative_positions: bool = False  # one more hidden x heads matrix in each layer (Dai et al. 2019)
    experts: Numeric = 0  # MLPs of a layer that a router chooses among; 0: dense
    top_k: Numeric = 0  # experts that a token visits
    expert_ffn: Numeric = 0  # inner width of one expert
    shared_ffn: Numeric = 0  # inner width of the expert that every token visits; 0: none
    dense_layers: Numeric = 0  # first layers of a mixture that have a plain MLP of width `ffn`
    expert_every: int = 1  # 2: every other layer is a mixture
    shared_gate: int = 0  # 1: weights that scale the shared expert's output
    router_bias: int = 0  # 1: a number for each expert, added to its score
    router_groups: int = 1  # of experts
    groups_visited: int = 1  # that a token's experts may be in
    expert_biases: int = 0  # 1: experts have biases
    attention_biases: str = ""  # "qkv" or "qkvo", of a model without other biases
    head_norms: int = 0  # 1: queries and keys are normalized head by head
    wide_norms: int = 0  # 1: queries and keys are normalized over all heads together
    layer_norms: int = 2  # norms of hidden width in a layer
    head_bias: int = 0  # 1: the output projection has a bias
    window: int = 0  # tokens that the layers of local attention attend to; 0: there are none
    local_layers: int = 0  # how many layers those are
    sinks: int = 0  # 1: a learned score for each head
    embedding_norm: int = 0  # 1: a norm after the embedding
    query_latent: int = 0  # latent attention: compressed width of the queries
    latent: int = 0  # of keys and values together; 0: no latent attention
    rotary_dim: int = 0
    plain_dim: int = 0
    value_dim: int = 0
    index_heads: int = 0  # of an indexer that selects the tokens to attend to
    index_dim: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "vocab"):
            self._set(name, require_whole(name, getattr(self, name)))
        if self.head_dim is None:
            _divides("heads", self.heads, "hidden", self.hidden)
            self._set("head_dim", self.hidden // self.heads)
        wide = self.hidden * 8 // 3 if self.gated else 4 * self.hidden
        for name, usual in (("head_dim", self.head_dim), ("kv_heads", self.heads), ("ffn", wide)):
            value = getattr(self, name)
            self._set(name, require_whole(name, usual if value is None else value))
        _divides("kv_heads", self.kv_heads, "heads", self.heads)
        self._set("learned_positions", require_whole("learned_positions", self.learned_positions, least=0))
        for name in ("experts", "top_k", "expert_ffn", "shared_ffn", "dense_layers"):
            self._set(name, require_whole(name, getattr(self, name), least=0))
        if np.any(np.greater(self.top_k, self.experts)):
            raise ValueError(
                f"top_k={self.top_k!r} of {self.experts!r} experts; a token cannot visit more than there are."
            )
        if self.norm not in NORMS:
            raise ValueError(f"norm is {self.norm!r}; choose from {', '.join(NORMS)}.")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def key_dim(self) -> Numeric:
        """Numbers in the query and the key of one head."""
        return self.plain_dim + self.rotary_dim if self.latent else self.head_dim

    @property
    def query_width(self) -> Numeric:
        """Numbers in a token's queries over all heads; equal to `hidden` in most models."""
        return self.heads * self.key_dim

    @property
    def value_width(self) -> Numeric:
        """Numbers in attention's result for a token over all heads, before the output projection."""
        return self.heads * self.value_dim if self.latent else self.query_width

    @property
    def kv_width(self) -> Numeric:
        """Numbers in a token's keys, and in its values; with latent attention, the mean of both once they are expanded
        for training."""
        return (self.query_width + self.value_width) / 2 if self.latent else self.kv_heads * self.head_dim

    def kv_width_on(self, tp: Numeric) -> Numeric:
        """`kv_width` on one of `tp` tensor-parallel ranks: whole heads, and copies of one where there are more ranks
        than heads."""
        return self.kv_width / np.minimum(tp, self.kv_heads)

    @property
    def expert_layers(self) -> Numeric:
        """Layers whose MLP is a mixture of experts."""
        mixtures = (self.layers - self.dense_layers) // self.expert_every
        return np.where(self.experts, mixtures, 0) if np.ndim(self.experts) else (mixtures if self.experts else 0)

    def attended(self, seq: Numeric) -> Numeric:
        """The share of causal attention's pairs of tokens that all layers together compute: less than 1 where some have
        a window."""
        near = np.minimum(self.window, seq) / seq
        return 1 - self.local_layers / self.layers * (1 - near * (2 - near))

    @property
    def matrices(self) -> int:
        """Matrices of an MLP: a gated one has three."""
        return 3 if self.gated else 2


def shape(of: object) -> Shape:
    """The shape of a model: a name such as "llama3-70b", a `ModelShape`, a transformer's `Config`, or a `Shape`."""
    if isinstance(of, Shape):
        return of
    if isinstance(of, str):
        from course_lib.estimate import facts

        of = facts.model(of)
    missing = [name for name in ("layers", "hidden", "heads", "vocab") if not hasattr(of, name)]
    if missing:
        raise ValueError(f"{of!r} does not give its {', '.join(missing)}; give a model's name or a memory.Shape.")
    learned = getattr(of, "learned_positions", getattr(of, "positions", "") == "learned")
    said = {each.name: getattr(of, each.name) for each in fields(Shape) if hasattr(of, each.name)}
    positions = getattr(of, "seq_len", 0) if learned else 0
    return Shape(**{"norm": "RMSNorm", "biases": False, **said, "learned_positions": positions})


def expert_params(shape: Shape, tp: Numeric = 1, ep: Numeric = 1) -> Numeric:
    """Parameters of the routed experts of one layer on one rank; averaged over all layers where the first ones are
    dense."""
    share = shape.expert_layers / shape.layers
    biases = shape.expert_biases * ((shape.matrices - 1) * shape.expert_ffn / tp + shape.hidden)
    return share * shape.experts / ep * (shape.matrices * shape.hidden * shape.expert_ffn / tp + biases)


def _mlp_params(shape: Shape) -> Numeric:
    """Parameters of a layer's MLP but for router and routed experts: the plain MLP, or the shared expert of a
    mixture."""
    plain = shape.matrices * shape.hidden * shape.ffn
    if not np.any(shape.experts):
        return plain
    share = shape.expert_layers / shape.layers
    return share * shape.matrices * shape.hidden * shape.shared_ffn + (1 - share) * plain


def _router_params(shape: Shape) -> Numeric:
    """Parameters of the router and of the shared expert's gate, averaged over all layers where some are dense."""
    if not np.any(shape.experts):
        return 0
    each = (shape.hidden + shape.router_bias) * shape.experts + shape.shared_gate * shape.hidden
    return shape.expert_layers / shape.layers * each


def _attention_params(shape: Shape, tp: Numeric) -> tuple[Numeric, Numeric]:
    """Parameters of attention that `tp` ranks split, and those that each of them has."""
    if shape.latent:
        key = shape.plain_dim + shape.rotary_dim
        into, out = (shape.query_latent or shape.hidden) * key, shape.value_dim * shape.hidden
        split = shape.heads * (into + shape.latent * (shape.plain_dim + shape.value_dim) + out)
        whole = (shape.hidden + 1) * (shape.query_latent + shape.latent) + shape.hidden * shape.rotary_dim
        index = (shape.query_latent * shape.index_heads + shape.hidden) * shape.index_dim + 2 * shape.index_dim
        return split, whole + index + shape.hidden * shape.index_heads
    keys = 2 * shape.kv_width_on(tp)
    split, whole = 2 * shape.hidden * shape.query_width, shape.hidden * keys
    if shape.relative_positions:
        split = split + shape.hidden * shape.query_width
    if shape.biases or shape.attention_biases:
        split, whole = split + shape.query_width, whole + keys
    if shape.biases or shape.attention_biases == "qkvo":
        whole = whole + shape.hidden
    whole = whole + shape.head_norms * 2 * shape.head_dim
    return split + shape.sinks * shape.heads, whole + shape.wide_norms * (shape.query_width + shape.kv_width)


def layer_params(shape: Shape, tp: Numeric = 1, ep: Numeric = 1) -> Numeric:
    """Parameters of one layer on one of `tp` tensor-parallel ranks, its routed experts shared out over `ep`.

    Matrices and the biases of their outer width are split, keys and values by whole heads; norms, the router, and
    biases that are added after the sum over ranks, exist on every rank. Shoeybi et al. (2019), section 3. Of latent
    attention, what belongs to a head is split.
    """
    split, whole = _attention_params(shape, tp)
    split, whole = split + _mlp_params(shape), whole + shape.layer_norms * _norm_params(shape) + _router_params(shape)
    if shape.biases:
        split, whole = split + (2 if shape.gated else 1) * shape.ffn, whole + shape.hidden
    dense = split / tp + whole
    return dense + expert_params(shape, tp, ep) if np.any(shape.experts) else dense


def params_by_part(of: object) -> dict[str, Any]:
    """Parameters by part: embedding, positions, layer (one of them), final_norm, head (0 when tied).

    A layer is the average over all where some of them have experts and others do not.
    """
    one = shape(of)
    table = one.vocab * one.hidden
    parts = {
        "embedding": table,
        "positions": one.learned_positions * one.hidden,
        "layer": layer_params(one),
        "final_norm": _norm_params(one),
        "head": (0 * table if one.tied else table) + one.head_bias * one.vocab,
    }
    return {**parts, "embedding_norm": _norm_params(one)} if one.embedding_norm else parts


def count_params(of: object) -> int:
    """Parameters of a transformer, all experts included, counted matrix by matrix, with its biases and norms.

    Leaves out rotary tables, which are not learned.
    """
    one = shape(of)
    total = sum(count * (one.layers if part == "layer" else 1) for part, count in params_by_part(one).items())
    return round(total) if np.ndim(total) == 0 else total


def gathered_layer_bytes(shape: ModelShape, dtype: str = "bf16") -> float:
    """Bytes of one layer's full weights on a rank, as ZeRO-3 gathers them to compute the layer."""
    outside = shape.vocab * shape.hidden * (1 if shape.tied else 2)
    return math.ceil((shape.params - outside) / shape.layers) * dtype_bytes(dtype)


def _norm_params(shape: Shape) -> Numeric:
    return shape.hidden * NORMS[shape.norm]


def undivided(part: Numeric, whole: Numeric) -> tuple[int, int, list[int]] | None:
    """The first `part` that does not divide its `whole`, that whole, and what would divide it; None if all do."""
    wrong = np.mod(whole, part) != 0
    if not np.any(wrong):
        return None
    first, of = (int(np.broadcast_to(each, np.shape(wrong))[wrong].flat[0]) for each in (part, whole))
    return first, of, [n for n in range(1, min(of, 256) + 1) if of % n == 0]


def _divides(name: str, part: Numeric, whole_name: str, whole: Numeric) -> None:
    if found := undivided(part, whole):
        part, whole, fits = found
        raise ValueError(f"{name}={part} does not divide {whole_name}={whole}; choose {name} from {fits}.")
