"""What several of chapter 11's cards use."""

ATTENTION = tuple(
    f"course_lib.parallel.context.{name}"
    for name in (
        "log_sum_exp_merge:attend",
        "log_sum_exp_merge:merge",
        "ring:ring_attention",
        "all_gather_kv:gather_attention",
        "visible_blocks:needed_attention",
        "ulysses:ulysses_attention",
    )
)
