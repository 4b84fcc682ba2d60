"""Bytes of a KV cache: keys and values of every token that a model may still attend to.

MHA, GQA and MQA keep 2 · layers · key-value heads · head width numbers for each token. MLA keeps one compressed vector
instead, with a small part that holds the rotary positions. Shazeer (2019), Ainslie et al. (2023), DeepSeek-AI (2024).
"""

from course_lib.estimate import facts, memory
from course_lib.estimate.units import require, require_whole

KINDS = ("MHA", "GQA", "MQA", "MLA")


def kv_numbers_per_token(model: str | facts.ModelShape, kind: str | None = None) -> int:
    """Numbers that one token keeps over all layers.

    `model` is a name, a `ModelShape` or a `memory.Shape`. `kind` asks what the model would keep with another attention:
    "MHA" gives each query head its own keys, "MQA" has one key-value head for all. None is the model as it is.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; choose from {', '.join(KINDS)}, or None for the model as it is.")
    of = facts.model(model) if isinstance(model, str) else model
    latent = getattr(of, "latent_width", 0)
    if kind == "MLA" or (kind is None and latent):
        if not latent:
            raise ValueError(
                f"{getattr(of, 'name', of)!r} has no latent attention; its key-value heads are {of.kv_heads}."
            )
        return of.layers * latent
    shape = memory.shape(of)
    heads = {"MHA": shape.heads, "MQA": 1}.get(kind or "", shape.kv_heads)
    return int(2 * shape.layers * heads * shape.head_dim)


def kv_bytes_per_token(model: str | facts.ModelShape, size: float = 2.0, kind: str | None = None) -> float:
    """Bytes of one token's keys and values with numbers of `size` bytes. Scales of a quantized cache are left out."""
    return kv_numbers_per_token(model, kind) * require("size", size, "bytes per number")


def kv_bytes(
    model: str | facts.ModelShape, tokens: int, size: float = 2.0, window: int | None = None, sinks: int = 0
) -> float:
    """Bytes of one sequence of `tokens` tokens. With a `window`, only the last ones and the first `sinks` are kept."""
    tokens = require_whole("tokens", tokens, least=0)
    if window is not None:
        tokens = min(tokens, require_whole("window", window) + require_whole("sinks", sinks, least=0))
    return tokens * kv_bytes_per_token(model, size)
