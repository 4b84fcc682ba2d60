"""Serving a trained model: what a reply costs in memory, time and money, and who is computed together.

Read `kv_cache` (bytes), `speed` (prefill and decode on a device), `pages` and `prefix_cache` (memory), `requests`,
`simulator` and `queues` (many users), `speculative`, `cache_bits`, `layouts` and `cost`. Times are in seconds, sizes in
bytes.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(
    __name__, older={"Engine": "engine", "Limits": "engine", "PagedModel": "paged_model"}
)
