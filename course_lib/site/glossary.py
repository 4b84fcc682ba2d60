"""Words of a text that the glossary explains."""

import re
from collections.abc import Iterator, Mapping

from course_lib.facts.course import Term


def anchor(term: str) -> str:
    """The place of a term on the glossary's page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


class Words:
    """Finds terms of a glossary in running text, the longest first, in singular and plural."""

    def __init__(self, glossary: Mapping[str, Term]) -> None:
        self._terms = {name.casefold(): term for name, term in glossary.items()}
        names = sorted(map(re.escape, glossary), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<![\w-])({'|'.join(names)})(?:s|es)?(?![\w-])", re.IGNORECASE)

    def parts(self, text: str, seen: set[str]) -> Iterator[tuple[str, Term | None]]:
        """The text in pieces, each with the term that it names; terms in `seen` are passed over, and new ones added to it."""
        end = 0
        for found in self._pattern.finditer(text):
            term = self._terms[found[1].casefold()]
            if term.term in seen:
                continue
            seen.add(term.term)
            if found.start() > end:
                yield text[end : found.start()], None
            yield found[0], term
            end = found.end()
        if end < len(text):
            yield text[end:], None
