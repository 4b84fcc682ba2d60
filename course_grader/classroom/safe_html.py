"""Make content of a submission safe to show in a browser: no scripts, no styles, no network requests, no deceptive
links.

Markdown is converted to HTML first and cleaned afterwards, so that no Markdown trick can produce what cleaning removes.
The feedback pages and formgrader use the same functions (nbgrader's exporter accepts both).
"""

import re
from collections.abc import Mapping
from html import escape

from bleach.sanitizer import Cleaner
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.exporters.exporter import ResourcesDict
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from traitlets.config import Config

from course_grader.clean_text import clean

MARKDOWN_CHARACTERS = 60_000  # of one cell; a chapter's longest is a tenth of this
OUTPUT_CHARACTERS = 20_000  # of one text output
OUTPUTS = 50  # of one cell
PICTURE_CHARACTERS = 4_000_000  # of one picture, in base64
PICTURES = ("image/png", "image/jpeg")

TAGS = """a abbr b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre s
samp small span strong sub summary sup table tbody td tfoot th thead tr u ul"""
_LINK = re.compile(r"(?:https?://|mailto:|#)", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=\s]+")
_NUMBER = re.compile(r"\d{1,4}")
_TOKEN = re.compile(r"highlight|[a-z]{1,2}\d?")  # pygments' names for the pieces of code that it colors
_NAME = re.compile(r"[\w.-]{1,200}")
_STYLE = re.compile(r"<style\b.*?(?:</style\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TEX = re.compile(
    r"\\(href|url|require|style|class|cssId|html\w*|unicode)\b"
)  # what MathJax would make more of than a formula
_IMAGE = re.compile(r'<img((?:\s+[a-z]+="[^"]*")*)\s*/?>')


def _attribute(tag: str, name: str, value: str) -> bool:
    """Whether an attribute may stay."""
    if name == "href":
        return tag == "a" and bool(_LINK.match(value.strip()))
    if name == "src":
        return tag == "img" and bool(_PICTURE.fullmatch(value.strip()))
    if name == "class":
        return tag in ("span", "div") and all(_TOKEN.fullmatch(word) for word in value.split())
    if name in ("width", "height", "colspan", "rowspan", "start"):
        return bool(_NUMBER.fullmatch(value))
    return (tag, name) in {("img", "alt"), ("a", "title"), ("abbr", "title"), ("img", "title")}


_CLEANER = Cleaner(
    tags=frozenset(TAGS.split()), attributes=_attribute, protocols={"http", "https", "mailto", "data"}, strip=False
)


def safe_html(html: str) -> str:
    """`html` reduced to text, plain structure, links to http(s) and mailto, and embedded pictures."""
    kept = _IMAGE.sub(_with_its_picture, _CLEANER.clean(_STYLE.sub("", html)))
    return _TEX.sub(r"\\<span>\1</span>", kept)  # an element inside it: no formula for MathJax, the same for a reader


def _with_its_picture(image: re.Match[str]) -> str:
    """An embedded image; text in place of one that would have to be fetched."""
    return image.group(0) if ' src="' in image.group(1) else "[a picture that is not in this file]"


def safe_markdown(source: str, attachments: dict[str, dict[str, str]] | None = None) -> str:
    """A Markdown cell as safe HTML; formulas stay as typed."""
    text = clean(source, MARKDOWN_CHARACTERS)
    renderer = IPythonRenderer(escape=False, attachments=attachments or {}, exclude_anchor_links=True)
    try:
        return safe_html(MarkdownWithMath(renderer=renderer).render(text))
    except Exception:  # a text that breaks the reader of Markdown, or names an attachment that is not there
        return f"<pre>{escape(text)}</pre>"


@pass_context
def markdown_filter(context: Context, source: str) -> str:
    """`safe_markdown` as a filter of nbconvert's templates, with pictures attached to the cell."""
    attachments = (context.get("cell") or {}).get("attachments", {})
    return safe_markdown(source, attachments if isinstance(attachments, dict) else {})


def safe_outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """A code cell's outputs as text, as cleaned HTML, or as PNG and JPEG; scripts, SVG and widgets are dropped."""
    kept = []
    for output in outputs[:OUTPUTS]:
        kind = output.get("output_type")
        if kind == "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            kept.append(NotebookNode(output_type="stream", name=name, text=_text(output.get("text", ""))))
        elif kind == "error":
            lines = [_text(line) for line in output.get("traceback", [])[:100]]
            kept.append(
                NotebookNode(
                    output_type="error",
                    ename=_text(output.get("ename", ""))[:200],
                    evalue=_text(output.get("evalue", ""))[:1000],
                    traceback=lines,
                )
            )
        elif kind in ("display_data", "execute_result") and (data := _data(output.get("data", {}))):
            made = NotebookNode(output_type=kind, data=data, metadata=NotebookNode())
            kept.append(NotebookNode(**made, execution_count=None) if kind == "execute_result" else made)
    return kept


def _text(text: object) -> str:
    return clean("".join(map(str, text)) if isinstance(text, list) else str(text), OUTPUT_CHARACTERS)


def _data(bundle: Mapping[str, object]) -> NotebookNode:
    """The parts of a MIME bundle that may be shown."""
    kept = NotebookNode()
    for kind, value in bundle.items():
        text = "".join(map(str, value)) if isinstance(value, list) else value
        if not isinstance(text, str):
            continue
        if (
            kind in PICTURES
            and len(text) <= PICTURE_CHARACTERS
            and _PICTURE.fullmatch(f"data:{kind};base64,{text.strip()}")
        ):
            kept[kind] = "".join(text.split())
        elif kind == "text/html":
            kept[kind] = safe_html(clean(text, OUTPUT_CHARACTERS))
        elif kind == "text/plain":
            kept[kind] = _text(text)
    return kept


class SafeCells(Preprocessor):
    """A step of nbconvert: cells and outputs in their safe form, raw cells as text, unknown metadata removed.

    Formgrader's template prints a student's name unescaped, and an LMS lets people choose theirs, so names are escaped
    here.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The notebook with safe cells, and resources with safe names."""
        for name in ("first_name", "last_name"):
            if resources.get(name):
                resources[name] = escape(resources[name])
        nb.cells = [self._cell(cell) for cell in nb.cells]
        nb.metadata = NotebookNode(
            language_info=NotebookNode(name="python"), course=nb.metadata.get("course", NotebookNode())
        )
        return nb, resources

    def _cell(self, cell: NotebookNode) -> NotebookNode:
        grade = cell.metadata.get("nbgrader")
        named = isinstance(grade, dict) and _NAME.fullmatch(str(grade.get("grade_id", "")))
        cell.metadata = NotebookNode(nbgrader=grade) if named else NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = safe_outputs(cell.get("outputs", []))
        elif cell.cell_type == "raw":  # a raw cell would be copied to the page unchanged
            return NotebookNode(
                cell_type="code",
                execution_count=None,
                id=cell.get("id", ""),
                metadata=cell.metadata,
                outputs=[],
                source=cell.source,
            )
        return cell


def protect(config: Config) -> None:
    """Configure nbgrader's own pages to be safe: formgrader, and feedback as `class feedback` makes it."""
    here = "course_grader.classroom"
    config.HTMLExporter.filters = {"markdown2html": f"{here}.safe_html.markdown_filter"}
    config.HTMLExporter.preprocessors = [f"{here}.safe_html.SafeCells"]
    config.GenerateFeedback.exporter_class = f"{here}.feedback.FeedbackExporter"
    config.GenerateFeedback.preprocessors = []
