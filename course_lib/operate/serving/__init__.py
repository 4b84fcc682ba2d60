"""Serving a trained model: what a reply costs in memory, time and money, and who is computed together.

Read `kv_cache` (bytes), `speed` (prefill and decode on a device), `pages` and `prefix_cache` (memory), `requests`,
`simulator` and `queues` (many users), `speculative`, `cache_bits`, `layouts` and `cost`. Times are in seconds, sizes in
bytes.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(
    __name__,
    {
        "cache_bits": ("attention_error", "cache_bytes", "dequantize", "keys_with_outliers", "quantize", "quantized"),
        "cost": (
            "LifetimeChoice",
            "break_even_tokens",
            "cheapest_model",
            "lifetime_flops",
            "tokens_for_loss",
            "usd_per_million",
        ),
        "engine": ("Engine", "Limits"),  # names of release 1.0, as `PagedModel`: `course_runs.serving` has them now
        "kv_cache": ("KINDS", "kv_bytes", "kv_bytes_per_token", "kv_numbers_per_token"),
        "layouts": ("LayoutRow", "PoolSizes", "kv_transfer_seconds", "pool_sizes", "server_layouts"),
        "model_cache": ("Chunk", "KVCache", "PagedCache", "cached_logits", "generate", "paged_logits"),
        "outcome": ("Outcome", "Span"),
        "paged_model": ("PagedModel",),
        "pages": ("OutOfPages", "PagePool"),
        "prefix_cache": ("block_keys",),
        "queues": ("erlang_c", "md1_wait", "mg1_wait", "mm1_wait", "mmc_wait", "mmc_wait_quantile", "servers_needed"),
        "requests": ("Request", "poisson_requests"),
        "simulator": ("SCHEDULERS", "simulate"),
        "speculative": ("expected_tokens", "speedup", "verify"),
        "speed": (
            "Deployment",
            "Sustained",
            "causal_pairs",
            "decode_seconds",
            "largest_batch",
            "prefill_seconds",
            "ridge_batch",
            "static_tokens_per_s",
            "steady_tokens_per_s",
        ),
    },
)
