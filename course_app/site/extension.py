"""What the site adds to Sphinx: formulas as MathML and none of them in the search, and links from words to the
glossary."""

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from course_app.site.api import restructured
from course_app.site.glossary import Words, anchor, linked_in
from course_app.site.mathml import mathml
from course_chapters import course

_NOT_IN = (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
_BEFORE, _AFTER = re.compile(r"[(\[“‘]+$"), re.compile(r"[^\s\w]+(?:s\b)?")  # a bracket; a comma, or ’s


def inline(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula within a line."""
    translator.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula on a line of its own; it scrolls where the screen is narrower."""
    translator.body.append(f'<div class="math">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


class GlossaryLinks(SphinxPostTransform):
    """The first occurrence of each term of the glossary on a chapter's page links to the term."""

    default_priority = 900

    def run(self, **_: object) -> None:
        """Replace words of this page by links."""
        chapter = self.env.docname[:2]
        if chapter not in course.chapters():
            return
        words = Words(linked_in(chapter, course.glossary()))
        seen: set[str] = set()
        for text in list(_running_text(self.document)):
            parts = list(words.parts(text.astext(), seen))
            if len(parts) > 1:
                made: list[nodes.Node] = []
                for part, term in parts:
                    made.append(self._link(part, term) if term else nodes.Text(part))
                text.parent.replace(text, made)

    def _link(self, words: str, term: course.Term) -> nodes.reference:
        made = nodes.reference(
            "", words, internal=True, refuri=f"glossary.html#{anchor(term.term)}", classes=["course-term"]
        )
        made["reftitle"] = term.meaning
        return made


class FormulasWithPunctuation(SphinxPostTransform):
    """A formula within a line stays together with the punctuation around it: no line begins with a comma."""

    default_priority = 950

    def run(self, **_: object) -> None:
        """Put each such formula and its punctuation into one element."""
        for formula in list(self.document.findall(nodes.math)):
            _kept_together(formula)


def _kept_together(formula: nodes.math) -> None:
    parent, place = formula.parent, formula.parent.index(formula)
    before, after = _text_at(parent, place - 1), _text_at(parent, place + 1)
    opened, closed = _BEFORE.search(before), _AFTER.match(after)
    if not opened and not closed:
        return
    together = nodes.inline("", classes=["course-together"])
    parent[place] = together
    if opened:
        parent[place - 1] = nodes.Text(before[: opened.start()])
        together += nodes.Text(opened[0])
    together += formula
    if closed:
        parent[place + 1] = nodes.Text(after[closed.end() :])
        together += nodes.Text(closed[0])


def _text_at(parent: nodes.Element, place: int) -> str:
    """The running text at this place; empty where there is none."""
    found = parent[place] if 0 <= place < len(parent) else ""
    return found if isinstance(found, nodes.Text) else ""


def _running_text(document: nodes.document) -> Iterator[nodes.Text]:
    """The text of paragraphs, without headings, code, formulas and links."""
    for paragraph in document.findall(nodes.paragraph):
        for text in paragraph.findall(nodes.Text):
            parent = text.parent
            while parent is not paragraph and not isinstance(parent, _NOT_IN):
                parent = parent.parent
            if parent is paragraph:
                yield text


def say_levels(app: Sphinx, page: str, template: str, context: dict[str, str], document: object) -> None:
    """Give the captions of the menu their level: Sphinx marks them as headings without one, which screen readers
    need."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


class UnsearchedFormulas(SphinxPostTransform):
    """Formulas are left out of the search: nobody looks for `frac`."""

    default_priority = 900

    def run(self, **_: object) -> None:
        """Mark the formulas of this page."""
        for formula in self.document.findall(lambda node: isinstance(node, (nodes.math, nodes.math_block))):
            formula["classes"].append("no-search")


def setup(app: Sphinx) -> dict[str, object]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.add_post_transform(GlossaryLinks)
    app.add_post_transform(UnsearchedFormulas)
    app.add_post_transform(FormulasWithPunctuation)
    app.connect("autodoc-process-docstring", restructured)
    app.connect("html-page-context", say_levels, priority=900)  # after the theme's own
    return {"parallel_read_safe": True, "parallel_write_safe": True}
