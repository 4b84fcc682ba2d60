"""Numbers in prose: `{{name:format}}` becomes the value that code computes, so no number is typed twice."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.estimate import units

if TYPE_CHECKING:
    from course_grader.exercises import Card

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z0-9_.-]+?)(?::([a-z_]+))?\s*\}\}")

NO_BREAK = "\u00a0"  # a space at which no line ends: between a number and what it counts
_DIGIT, _POWER = "[0-9⁰¹²³⁴⁵⁶⁷⁸⁹]", "10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]"
_UNIT = (
    r"(?:%|(?:(?:[munµkKMGTPEZ]|[KMGT]i)?(?:FLOP|bit|[bBsWm])(?:/s)?|thousand|million|billion|trillion|bytes?"
    r"|seconds?|min|minutes?|hours?|days?|weeks?|months?|years?)\b)"
)
_BEFORE_UNIT = re.compile(rf"(?<={_DIGIT}) (?={_UNIT}|×(?: {_POWER}|$))|(?<=×) (?={_POWER})")
_SLOT = re.compile(rf"{PLACEHOLDER.pattern}( (?={_UNIT}))?")

_SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def _count(value: float) -> str:
    """13e9 as "13B": how the field writes parameters and tokens."""
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}"


FORMATS: Mapping[str, Callable[[Any], str]] = {
    "count": _count,
    "gb": lambda value: f"{value / units.GB:.4g} GB",
    "tflops": lambda value: f"{value / units.TFLOP:,.5g} TFLOP/s",
    "gbps": lambda value: f"{value / units.GB:,.5g} GB/s",
    "us": lambda value: f"{value / units.US:.4g} µs",
    "days": lambda value: f"{value / units.DAY:,.4g} days",
    "years": lambda value: f"{value / units.YEAR:,.3g} years",
    "percent": lambda value: f"{100 * value:.4g} %",
    "usd": lambda value: f"\\${value:,.10g}",
    "musd": lambda value: f"\\${value / 1e6:.4g}M",
    "int": lambda value: f"{round(value):,}",
    "plain": str,
}


def format_value(value: object, form: str | None) -> str:
    """A value as prose shows it; without a format, text stays and numbers get at most four digits."""
    if form is None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    if form not in FORMATS:
        raise ValueError(f"There is no number format {form!r}; there are {', '.join(sorted(FORMATS))}.")
    return FORMATS[form](value)


def kept_together(value: str) -> str:
    """A number with its unit, a per cent, a power of ten, so that no line ends inside; longer texts and code stay."""
    return value if "\n" in value or "`" in value else _BEFORE_UNIT.sub(NO_BREAK, value)


def fill_text(text: str, values: Mapping[str, object]) -> str:
    """`text` with every placeholder replaced, numbers kept on one line with their units; ValueError names one without a
    value."""

    def one(match: re.Match[str]) -> str:
        name, form, space = match.groups()
        if name not in values:
            raise ValueError(
                f"Placeholder {match.group(0).strip()} has no value; there are {', '.join(sorted(values))}."
            )
        value = kept_together(format_value(values[name], form))
        return value + (NO_BREAK if space and re.search(rf"{_DIGIT}$", value) else space or "")

    return _SLOT.sub(one, text)


def chapter_values(
    chapter: str, variants: Mapping[str, Mapping[str, object]], cards: "Sequence[Card]" = ()
) -> Mapping[str, object]:
    """All that prose may name: "id.param" and "id.card" of every card, "NN.name" of the chapter's NUMBERS.

    `variants` maps exercise ids to parameters; a card that it lacks takes its canonical ones. `cards` stand in the
    place of those with the same ids: a class may give other points.
    """
    from course_grader import exercises

    values: dict[str, object] = {}
    known = {card.id: card for card in exercises.cards()} | {card.id: card for card in cards}
    for card in known.values():
        params = variants.get(card.id, card.params)
        values |= {f"{card.id}.{name}": value for name, value in params.items()}
        values |= {f"{card.id}.card": card.markdown(params), f"{card.id}.minutes": card.minutes}
    return values | {f"{chapter}.{name}": number() for name, number in exercises.numbers(chapter).items()}


def keep_dollars(markdown: str) -> str:
    """Markdown in which an escaped dollar sign stays a dollar sign on every page.

    JupyterLab drops the backslash before it looks for formulas, so "\\$2 to \\$3" would become mathematics. A dollar
    sign in an element of its own does not.
    """
    return markdown.replace("\\$", "<span>\\$</span>")
