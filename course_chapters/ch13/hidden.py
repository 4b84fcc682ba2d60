"""When computing hides what an axis sends: one bound for each axis."""

from course_lib.estimate.facts.models import ModelShape
from course_lib.parallel.context import tokens_to_hide


def bounds(model: ModelShape, reach: float) -> dict[str, float]:
    """Axis -> the bound at which its messages take exactly as long as the computing beside them.

    `reach` is ηF / β: FLOPs that a GPU computes while one byte crosses the link. Numbers have 2 bytes, groups are large
    and latency is left out. At least: tokens of a replica and step (data), tokens of a micro-batch (sharded), tokens of
    a rank in a causal zig-zag (context), inner width of a gated expert (expert). At most: ranks (tensor), stages
    (pipeline).

    Source: How to Scale Your Model (2025), for data, sharded and tensor; chapters 11 and 12 for context and expert.
    """
    return {
        "data": reach,
        "sharded": reach,
        "tensor": model.params / model.layers / (4 * model.hidden) / reach,
        "pipeline": model.params / model.hidden / reach,
        "context": float(tokens_to_hide(model.heads, model.kv_heads, reach, 1.0, visible=0.5)),
        "expert": 2 / 3 * reach,
    }
