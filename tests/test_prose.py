"""Prose: every quantity comes from code, language is consistent, links lead somewhere."""

import ast
import re
from pathlib import Path

import nbformat

from tests.tables import each_of

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(ROOT.glob("solutions/*/*.ipynb"))

UNIT = (
    r"(?:[kMGTPE]i?B|bytes?|[TPEG]FLOPs?(?:/s)?|FLOPs?|days?|weeks?|years?|hours?|"
    r"ms|µs|seconds?|GPUs?|H100s|tokens?|GPU-hours?|%|×)"
)
QUANTITY = re.compile(rf"(?<![\w.,{{-])(?:\\?\$)?\d[\d,.]*\s?(?:billion|million|trillion)?\s?{UNIT}(?![\w-])")
MONEY = re.compile(r"\\\$\d")
NOT_PROSE = re.compile(
    r"```.*?```|`[^`]*`|(?<!\\)\$\$.*?\$\$|(?<!\\)\$[^$\n]+?(?<!\\)\$|\]\([^)]*\)|<[^>]+>|\{\{[^}]*\}\}", re.S
)


def prose(path: Path) -> list[tuple[str, str]]:
    """(cell id, Markdown without code, formulas, links, tags and placeholders) of a chapter's source."""
    cells = nbformat.read(path, as_version=4).cells
    return [(cell.id, NOT_PROSE.sub(" ", cell.source)) for cell in cells if cell.cell_type == "markdown"]


def test_there_are_chapters():
    assert SOURCES


@each_of("path", SOURCES, ids=lambda path: path.stem)
def test_no_quantity_is_typed_by_hand(path):
    typed = [
        f"{cell}: {match.group(0)!r}"
        for cell, text in prose(path)
        for pattern in (QUANTITY, MONEY)
        for match in pattern.finditer(text)
    ]
    assert not typed, "quantities typed into prose; compute them and use a placeholder:\n" + "\n".join(typed)


BRITISH = re.compile(
    r"\b\w*(?:(?:optim|util|parallel|serial|organ|normal|real|synchron|initial|quant|token|general|minim|maxim|penal|recogn)is(?:e[drs]?|ing|ation)"
    r"|neighbour\w*|behaviour\w*|colour\w*|favour\w*|labelled|modelled|cancelled|centre[ds]?|catalogue|licence|whilst)\b",
    re.IGNORECASE,
)


ASKED = sorted(path for path in ROOT.glob("course_chapters/ch*/exercises/**/*.py")) + sorted(
    ROOT.glob("course_lib/draw/explore/*.py")
)


@each_of("path", SOURCES, ids=lambda path: path.stem)
def test_prose_is_in_american_spelling(path):
    found = [f"{cell}: {match.group(0)}" for cell, text in prose(path) for match in BRITISH.finditer(text)]
    assert not found, found


def test_cards_judges_and_widgets_are_in_american_spelling():
    """Module names are left out: they are not read by learners."""
    wrong = []
    for path in ASKED:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [
            (node.lineno, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {match.group(0)}"
            for line, text in texts
            for match in BRITISH.finditer(text)
        ]
    assert not wrong, "\n".join(wrong)


def test_a_british_spelling_would_be_found():
    assert all(BRITISH.search(word) for word in ("optimiser", "parallelised", "unnormalised", "behaviour", "modelled"))
    assert not any(
        BRITISH.search(word) for word in ("optimizer", "promise", "exercise", "wise", "behavior", "precise", "raise")
    )


@each_of("path", SOURCES, ids=lambda path: path.stem)
def test_links_and_pictures_exist(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "markdown":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)", cell.source) + re.findall(r'src="([^"]+)"', cell.source):
            if not re.match(r"https?:|mailto:|attachment:", target):
                assert (path.parent / target).resolve().exists(), f"{cell.id}: {target} does not exist"


@each_of("path", SOURCES, ids=lambda path: path.stem)
def test_pictures_in_prose_have_a_text_alternative(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert "![](" not in cell.source, f"{cell.id}: a picture without a text alternative"
            for tag in re.findall(r"<img[^>]*>", cell.source):
                assert re.search(r'alt="[^"]{10,}"', tag), f"{cell.id}: {tag}"


def test_a_hand_typed_quantity_would_be_found():
    assert QUANTITY.search("an 80 GB card") and QUANTITY.search("in 1,966 days") and QUANTITY.search("40 % of peak")
    assert not QUANTITY.search("chapter 02, cell 3, and version 1.2 of it") and MONEY.search("costs \\$10M")
    assert not QUANTITY.search(NOT_PROSE.sub(" ", "`80 GB` and {{a.b:gb}} and $6 \\Psi D$ FLOPs"))
