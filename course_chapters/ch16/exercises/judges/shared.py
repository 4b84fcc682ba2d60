"""What several of chapter 16's judges use."""

from typing import Any


def kv_bytes(layers: int, heads: int, kv_heads: int, size: int, number: float, tokens: int) -> float:
    """Bytes of the keys and values of one sequence."""
    return 2 * layers * kv_heads * size * number * tokens


Row = tuple[Any, ...]
