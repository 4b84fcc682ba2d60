"""What several of chapter 11's cards use."""

ATTENTION = tuple(
    f"course_lib.parallel.{name}"
    for name in (
        "context.log_sum_exp_merge:attend",
        "context.log_sum_exp_merge:merge",
        "context.ring:ring_attention",
        "context.all_gather_kv:gather_attention",
        "context.visible_blocks:needed_attention",
        "context.ulysses:ulysses_attention",
        "four_axes:attend",
        "four_axes:merge",
        "four_axes:ring_attention",
    )
)
