"""Pages of a KV cache: fixed numbers of token slots that sequences take when they grow, share, and give back.

A contiguous cache reserves room for the longest possible reply. Pages are taken one at a time, so at most one page per
sequence is partly empty. Forked sequences share pages and copy one only when they write to it. Kwon et al. (2023).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from course_lib.estimate.units import require_whole


class OutOfPages(ValueError):
    """The pool has fewer free pages than a call needs. The pool is as it was before the call."""


@dataclass
class Pages:
    """The pages of one sequence, in order, and how many of its slots hold a token."""

    table: list[int] = field(default_factory=list)
    tokens: int = 0


class PagePool:
    """`pages` pages of `page_size` token slots each. The pool only keeps books; the tensors are elsewhere.

    Free pages are reused last in, first out. `counts[page]` is the number of sequences that share it; 0 is free.
    """

    def __init__(self, pages: int, page_size: int = 16) -> None:
        self.page_size = require_whole("page_size", page_size, "tokens")
        self.counts = [0] * require_whole("pages", pages)
        self.free = list(range(len(self.counts)))[::-1]
        self.sequences: dict[Hashable, Pages] = {}

    @property
    def free_pages(self) -> int:
        """Pages that no sequence uses."""
        return len(self.free)

    def table(self, sequence: Hashable) -> tuple[int, ...]:
        """The sequence's pages in the order of its tokens."""
        return tuple(self._of(sequence).table)

    def tokens(self, sequence: Hashable) -> int:
        """Tokens of the sequence."""
        return self._of(sequence).tokens

    def slot(self, sequence: Hashable, position: int) -> tuple[int, int]:
        """The page and the offset in it that hold the token at `position`."""
        one = self._of(sequence)
        if not 0 <= position < one.tokens:
            raise ValueError(f"Sequence {sequence!r} has {one.tokens} tokens; there is none at position {position}.")
        return one.table[position // self.page_size], position % self.page_size

    def add(self, sequence: Hashable, tokens: int = 0, shared: tuple[int, ...] = ()) -> None:
        """A new sequence of `tokens` tokens, whose first full pages are `shared` with others (a prefix cache's)."""
        if sequence in self.sequences:
            raise ValueError(f"Sequence {sequence!r} is already in the pool; free it first.")
        tokens = require_whole("tokens", tokens, least=0)
        if len(shared) * self.page_size > tokens:
            raise ValueError(f"{len(shared)} shared pages hold more than the sequence's {tokens} tokens.")
        self._need(self.pages_of(tokens) - len(shared) + sum(self.counts[page] == 0 for page in shared), sequence)
        for page in shared:
            if self.counts[page] == 0:
                self.free.remove(page)
            self.counts[page] += 1
        self.sequences[sequence] = Pages(list(shared), len(shared) * self.page_size)
        self.append(sequence, tokens - len(shared) * self.page_size)

    def append(self, sequence: Hashable, count: int = 1) -> list[tuple[int, int]]:
        """Room for `count` more tokens. Returns pages to copy, as (from, to), before anything is written.

        The last page is copied if others share it and it has room, since writing to it would change their tokens.
        """
        one = self._of(sequence)
        count = require_whole("count", count, least=0)
        if not count:
            return []
        room = len(one.table) * self.page_size - one.tokens
        copies = bool(room and self.counts[one.table[-1]] > 1)
        new = self.pages_of(one.tokens + count) - len(one.table)
        self._need(new + copies, sequence)
        copied = []
        if copies:
            source, target = one.table[-1], self._take()
            self.counts[source] -= 1
            one.table[-1] = target
            copied.append((source, target))
        one.table += [self._take() for _ in range(new)]
        one.tokens += count
        return copied

    def fork(self, sequence: Hashable, child: Hashable) -> None:
        """`child` starts with the same tokens and shares all pages, the last one too."""
        if child in self.sequences:
            raise ValueError(f"Sequence {child!r} is already in the pool; free it first.")
        one = self._of(sequence)
        self.sequences[child] = Pages(list(one.table), one.tokens)
        for page in one.table:
            self.counts[page] += 1

    def release(self, sequence: Hashable) -> None:
        """End the sequence. A page becomes free when its last sequence lets go of it."""
        one = self._of(sequence)
        del self.sequences[sequence]
        for page in reversed(one.table):
            self.counts[page] -= 1
            if not self.counts[page]:
                self.free.append(page)

    def pages_of(self, tokens: int) -> int:
        """Pages that this many tokens take."""
        return -(-tokens // self.page_size)

    def _take(self) -> int:
        page = self.free.pop()
        self.counts[page] = 1
        return page

    def _of(self, sequence: Hashable) -> Pages:
        if sequence not in self.sequences:
            raise ValueError(f"There is no sequence {sequence!r} in the pool; it was never added or is already freed.")
        return self.sequences[sequence]

    def _need(self, count: int, sequence: Hashable) -> None:
        if count > len(self.free):
            raise OutOfPages(f"Sequence {sequence!r} needs {count} more pages, and {len(self.free)} are free.")
