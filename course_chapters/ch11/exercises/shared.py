"""What several of chapter 11's cards use."""

ATTENTION = tuple(
    f"context_parallel.{name}"
    for name in (
        "partial:attend",
        "partial:merge",
        "ring:ring_attention",
        "gather:gather_attention",
        "needed:needed_attention",
        "ulysses:ulysses_attention",
    )
)
