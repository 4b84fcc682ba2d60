"""A prefix cache: pages of finished prompts stay in memory, found again by a hash of everything up to and including
them.

A page's keys and values depend on all tokens before it, so its key is a chain: the hash of the previous key and the
page's own tokens. Two prompts share pages exactly as far as they agree from the start. Pages are evicted from the end
of a chain, because a page is useless without those before it. Only full pages are kept. Zheng et al. (2023); vLLM calls
it automatic prefix caching.
"""

import hashlib
from collections.abc import Sequence

from course_lib.estimate.units import require_whole


def block_keys(tokens: Sequence[int], page_size: int, salt: bytes = b"") -> tuple[bytes, ...]:
    """The key of each full page of `tokens`, each a hash over all tokens up to its end.

    `salt` separates users, models or adapters whose caches must not be shared.
    """
    size = require_whole("page_size", page_size, "tokens")
    keys, before = [], hashlib.sha256(b"prefix:" + len(salt).to_bytes(8, "little") + salt).digest()
    for start in range(0, len(tokens) - size + 1, size):
        text = b"".join(int(token).to_bytes(8, "little", signed=True) for token in tokens[start : start + size])
        before = hashlib.sha256(before + text).digest()
        keys.append(before)
    return tuple(keys)
