"""A prefix cache: pages of finished prompts stay in memory, found again by a hash of everything up to and including them.

A page's keys and values depend on all tokens before it, so its key is a chain: the hash of the previous key and the page's own tokens.
Two prompts share pages exactly as far as they agree from the start. Pages are evicted from the end of a chain, because a page is useless
without those before it. Only full pages are kept. Zheng et al. (2023); vLLM calls it automatic prefix caching.
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


class PrefixCache:
    """At most `pages` full pages, the least recently used leaf evicted first.

    Time is counted in calls. `hits` and `asked` are tokens, for the hit rate. The cache keeps keys only; pages that running requests use
    are `pinned` and stay.
    """

    def __init__(self, pages: int, page_size: int = 16) -> None:
        self.pages = require_whole("pages", pages)
        self.page_size = require_whole("page_size", page_size, "tokens")
        self.parent: dict[bytes, bytes | None] = {}
        self.children: dict[bytes, int] = {}  # cached pages that follow this one
        self.used: dict[bytes, int] = {}  # the call that last touched it
        self.pins: dict[bytes, int] = {}
        self.clock = self.hits = self.asked = 0

    def __len__(self) -> int:
        return len(self.parent)

    def match(self, tokens: Sequence[int], salt: bytes = b"") -> int:
        """Tokens at the start that are cached, a multiple of the page size. Counts as a use."""
        self.clock += 1
        found = 0
        for key in block_keys(tokens, self.page_size, salt):
            if key not in self.parent:
                break
            self.used[key] = self.clock
            found += self.page_size
        self.hits += found
        self.asked += len(tokens)
        return found

    def add(self, tokens: Sequence[int], salt: bytes = b"", pin: bool = False) -> int:
        """Keep the full pages of `tokens`; returns how many are new. Stops where no page can be evicted."""
        self.clock += 1
        before, new = None, 0
        own: list[bytes] = []
        for key in block_keys(tokens, self.page_size, salt):
            if key not in self.parent:
                if len(self.parent) >= self.pages and not self._evict(keep=own):
                    break
                self.parent[key], self.children[key] = before, 0
                if before is not None:
                    self.children[before] += 1
                new += 1
            self.used[key] = self.clock
            if pin:
                self.pins[key] = self.pins.get(key, 0) + 1
            own.append(key)
            before = key
        return new

    def release(self, tokens: Sequence[int], salt: bytes = b"") -> None:
        """Take back one pin from each page of `tokens` that has one."""
        for key in block_keys(tokens, self.page_size, salt):
            if self.pins.get(key, 0) > 1:
                self.pins[key] -= 1
            else:
                self.pins.pop(key, None)

    def _evict(self, keep: Sequence[bytes]) -> bool:
        """Drop the least recently used page that no cached page follows and nobody uses. False if there is none."""
        held = set(keep)
        free = [key for key, count in self.children.items() if not count and key not in self.pins and key not in held]
        if not free:
            return False
        oldest = min(free, key=lambda key: self.used[key])
        before = self.parent.pop(oldest)
        del self.children[oldest], self.used[oldest]
        if before is not None:
            self.children[before] -= 1
        return True

    @property
    def hit_rate(self) -> float:
        """Share of the asked tokens that were cached."""
        return self.hits / self.asked if self.asked else 0.0
