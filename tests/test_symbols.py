"""One table of symbols: every letter of a formula is in it, and means one thing in a chapter, in prose, cards and
widgets alike."""

import ast
import re
from collections.abc import Iterator

import nbformat
import pytest

from course_chapters import course
from course_lib.folders import ROOT

SOURCES = {path.parent.name[:2]: path for path in sorted(ROOT.glob("solutions/*/*.ipynb"))}
FORMULA = re.compile(r"(?<!\\)\$\$(.*?)(?<!\\)\$\$|(?<!\\)\$([^$\n]+?)(?<!\\)\$", re.S)
WORDS = re.compile(r"\\(?:text|mathrm|operatorname|mathsf|begin|end|tag)\s*\{[^{}]*\}")
BELOW = re.compile(r"_(?:\{[^{}]*\}|\\?[A-Za-z0-9]+)")  # what stands below a letter says which, not what
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "Delta": "Δ", "epsilon": "ε", "varepsilon": "ε",
    "eta": "η", "theta": "θ",
    "lambda": "λ", "mu": "μ, ν", "nu": "μ, ν", "pi": "π", "rho": "ρ", "sigma": "σ", "Sigma": "Σ", "tau": "τ",
    "phi": "φ", "Psi": "Ψ",
    "ell": "ℓ",
}  # fmt: skip
CODE = re.compile(r"```.*?```|`[^`]*`|\{\{?[^}]*\}\}?|<[^>]+>|https?://\S+", re.S)
# not the end of an expression
ALONE = re.compile(r"(?<![\w'’.&/\-])(?<![\d·+−] )([A-Za-zα-ωΨΣ])[₀-₉ₐ-ₜᵢᵣ]*(?![\w'’\-])")


def markdown(chapter: str) -> Iterator[tuple[str, str]]:
    """(cell, text) of a chapter's prose."""
    for cell in nbformat.read(SOURCES[chapter], as_version=4).cells:
        if cell.cell_type == "markdown":
            yield cell.id, cell.source


def formulas(text: str) -> Iterator[str]:
    for match in FORMULA.finditer(text):
        yield match[1] or match[2]


def letters(formula: str) -> set[str]:
    """The letters of a formula; what stands below them, words and names of functions left out."""
    plain = WORDS.sub(" ", re.sub(r"\{\{[^}]*\}\}", " ", formula))
    found = {"β₁, β₂"} if re.search(r"\\beta_[12]", plain) else set()
    plain = re.sub(r"\\beta_[12]", " ", plain)
    found |= {"ℒ"} if "\\mathcal L" in plain else set()
    found |= {"MFU"} if "MFU" in formula else set()
    plain = re.sub(r"\\(?:mathcal|mathbb)\s*\{?[A-Z]\}?|\\d\b", " ", BELOW.sub(" ", plain))
    found |= {GREEK[name] for name in re.findall(r"\\([A-Za-z]+)", plain) if name in GREEK}
    return found | set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", plain)))


NOUNS = sorted({noun for each in course.every_symbol() for noun in each.counts}, key=len, reverse=True)
COUNTED = re.compile(rf"^\s+({'|'.join(map(re.escape, NOUNS))})\b")


def miscounted(chapter: str, letter: str, after: str) -> str | None:
    """What a letter is said to count here, if that is none of the things that it counts in this chapter."""
    known, found = course.symbols(chapter).get(letter), COUNTED.match(after.replace("\n", " "))
    if known is None or found is None or found[1] in known.counts:
        return None
    return f"{letter} {found[1]}, but {letter}: {known.meaning}"


def strings(paths) -> Iterator[tuple[str, str]]:
    """(file and line, text) of all strings that could be read by a person."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{path.name}:{node.lineno}", CODE.sub(" ", node.value)


def test_a_letter_has_one_meaning_in_a_chapter():
    for chapter in SOURCES:
        said = [each.symbol for each in course.every_symbol() if chapter in each.chapters]
        assert len(said) == len(set(said)), chapter
    wide = [each.symbol for each in course.every_symbol() if not each.chapters]
    assert len(wide) == len(set(wide)) and all(each.meaning for each in course.every_symbol())


@pytest.mark.parametrize("chapter", SOURCES)
def test_every_letter_of_a_formula_is_in_the_table(chapter):
    unknown = {
        (letter, cell, formula)
        for cell, text in markdown(chapter)
        for formula in formulas(text)
        for letter in letters(formula) - set(course.symbols(chapter))
    }
    assert not unknown


@pytest.mark.parametrize("chapter", SOURCES)
def test_a_chapters_own_meanings_are_used_in_it(chapter):
    own = {each.symbol for each in course.every_symbol() if chapter in each.chapters}
    said = {letter for _, text in markdown(chapter) for formula in formulas(text) for letter in letters(formula)}
    cards = strings(ROOT.glob(f"course_chapters/ch{chapter}/**/*.py"))
    said |= {match[1] for _, text in [*cards, *markdown(chapter)] for match in ALONE.finditer(text)}
    assert own <= said


@pytest.mark.parametrize("chapter", SOURCES)
def test_prose_counts_with_a_letter_what_the_table_says(chapter):
    wrong = [
        (cell, said)
        for cell, text in markdown(chapter)
        for match in FORMULA.finditer(text)
        if (
            match[2] and len(found := letters(match[2])) == 1 and re.fullmatch(r"\\?[A-Za-z]+", BELOW.sub("", match[2]))
        )
        if (said := miscounted(chapter, *found, text[match.end() :]))
    ]
    assert not wrong


FOREIGN = {  # cards that explain letters of their own, or write N for "as many as ranks"
    ("audit_memory.py", "T"),
    ("audit_memory.py", "P"),
    ("break_even.py", "P"),
    ("break_even.py", "T"),
    ("hsdp_group.py", "m"),
    ("sampler.py", "N"),
    ("zig_zag_positions.py", "N"),
}


@pytest.mark.parametrize("chapter", SOURCES)
def test_cards_and_widgets_count_with_a_letter_what_the_table_says(chapter):
    paths = [*ROOT.glob(f"course_chapters/ch{chapter}/exercises/*.py"), *ROOT.glob(f"course_chapters/ch{chapter}/*.py")]
    wrong = [
        (place, said)
        for place, text in strings(paths)
        for match in ALONE.finditer(text)
        if match[1] not in "aA" and text[: match.start()].strip()  # no article, and not what follows a number
        if (place.partition(":")[0], match[1]) not in FOREIGN
        if (said := miscounted(chapter, match[1], text[match.end() :]))
    ]
    assert not wrong


def test_a_second_meaning_would_be_found():
    assert miscounted("10", "s", " tokens") and not miscounted("11", "s", " tokens")
    assert not miscounted("14", "s", " of")
    assert miscounted("12", "k", " updates") and not miscounted("04", "k", " updates")
    assert letters(r"T_\text{step}=\frac{6\Psi\tau}{\eta F}+N_{dp}\,\mathcal L") == {"T", "Ψ", "τ", "η", "F", "N", "ℒ"}
    assert letters(r"\beta_2^k\cdot\beta_\text{mem}") == {"β₁, β₂", "k", "β"}


def test_arithmetic_rates_are_written_alike():
    """F is the peak everywhere; what is reached of it is η F, and no chapter but 01, which defines it, writes F times
    MFU."""
    for chapter in set(SOURCES) - {"01"}:
        assert not [
            cell
            for cell, text in markdown(chapter)
            for each in formulas(text)
            if "MFU" in each and "F" in letters(each)
        ]
