"""What several of chapter 02's cards use."""

from course_lib.estimate import facts


def shape_of(model: str) -> dict[str, int]:
    one = facts.model(model)
    sizes = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    return {name: int(getattr(one, name)) for name in sizes} | {"gated": one.gated, "tied": one.tied}
