"""Words of a text that the glossary explains."""

import re
from collections.abc import Iterator, Mapping

from course_chapters.course import Term

EVERYDAY = ("evidence", "warm-up")  # terms of one chapter that other chapters use in their ordinary sense


def anchor(term: str) -> str:
    """The place of a term on the glossary's page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def linked_in(chapter: str, glossary: Mapping[str, Term]) -> dict[str, Term]:
    """The terms that a chapter's page links to: everyday words only where the chapter teaches them."""
    return {name: term for name, term in glossary.items() if name not in EVERYDAY or term.chapter == chapter}


class Words:
    """Finds terms of a glossary in running text, the longest first, in singular and plural.

    Capitals within a term count, so that "zero" is not ZeRO.
    """

    def __init__(self, glossary: Mapping[str, Term]) -> None:
        self._terms = {name.casefold(): term for name, term in glossary.items()}
        names = sorted(glossary, key=len, reverse=True)
        written = [re.escape(name) if name[1:] != name[1:].lower() else f"(?i:{re.escape(name)})" for name in names]
        self._pattern = re.compile(rf"(?<![\w-])({'|'.join(written)})(?:s|es)?(?![\w-])")

    def parts(self, text: str, seen: set[str]) -> Iterator[tuple[str, Term | None]]:
        """The text in pieces, each with the term that it names; terms in `seen` are passed over, and new ones added to
        it."""
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
