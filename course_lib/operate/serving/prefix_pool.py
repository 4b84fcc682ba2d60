"""A page pool that keeps the pages of finished prompts until their room is needed, so that a shared prefix is computed
once."""

from collections.abc import Hashable, Sequence

from course_lib.operate.serving.pages import PagePool
from course_lib.operate.serving.prefix_cache import block_keys


class PrefixPool(PagePool):
    """Full pages are known by the hash of all tokens up to their end. A free page keeps its key until it is taken
    again.

    Free pages without a key are taken first, then those freed longest ago, the end of a sequence before its beginning.
    """

    def __init__(self, pages: int, page_size: int = 16) -> None:
        super().__init__(pages, page_size)
        self._page_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}

    @property
    def kept_pages(self) -> frozenset[int]:
        """Free pages whose content can still be shared."""
        return frozenset(page for page in self._key_of if not self.counts[page])

    def match(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The pages that hold the longest known prefix of `tokens`. At least one token is left to compute, for its
        logits."""
        found = []
        for key in block_keys(tokens[: len(tokens) - 1], self.page_size):
            if key not in self._page_of:
                break
            found.append(self._page_of[key])
        return tuple(found)

    def publish(self, sequence: Hashable, tokens: Sequence[int]) -> None:
        """Make the full pages of a sequence's computed `tokens` known. A prefix that is known already keeps its first
        page."""
        for key, page in zip(block_keys(tokens, self.page_size), self.table(sequence), strict=False):
            if key not in self._page_of and page not in self._key_of:
                self._page_of[key], self._key_of[page] = page, key

    def release(self, sequence: Hashable) -> None:
        """End the sequence; pages that nobody shares become free, and those with a key are taken again last."""
        table = self.table(sequence)
        super().release(sequence)
        for page in reversed(table):
            if not self.counts[page] and page in self._key_of:
                self.free.remove(page)
                self.free.insert(0, page)

    def _take(self) -> int:
        page = super()._take()
        if (key := self._key_of.pop(page, None)) is not None:
            del self._page_of[key]
        return page
