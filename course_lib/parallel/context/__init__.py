"""Context parallelism: one sequence on several ranks, each with some of its tokens.

    positions = zig_zag(length, comm.size)                       # who has which tokens
    out, log_sum = ring_attention(comm, q, k, v, positions)      # q, k, v: of this rank's tokens

Only attention reads other tokens, and softmax attention over parts of the keys can be merged exactly. So the keys and
values travel around a ring (Liu et al., "Ring attention with blockwise transformers", 2023), or are gathered (Llama 3,
2024), or an all-to-all exchanges tokens for heads (Jacobs et al., "DeepSpeed Ulysses", 2023). Tensors are (…, heads,
tokens, head_dim); query head i reads KV head i // (heads / kv_heads). `costs` is arithmetic and loads no torch; names
are loaded when first used.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
