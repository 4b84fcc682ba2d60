"""What the cards of audits share: printed statements, some wrong and some right, each to be recomputed and judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from course_lib.estimate import facts

RIGHT, WRONG = "right", "wrong"
AS_PRINTED = "as printed"  # the cause of a statement that is right
NEAR = 0.05  # relative: of a number, and of what was printed
NEAR_TEXT = f"{100 * NEAR:g} %"


class _Audit(TypedDict):
    kind: Literal["more"]
    form: Literal["audit"]
    allowed: str


AUDIT: _Audit = {  # what the cards of all audits say alike
    "kind": "more",
    "form": "audit",
    "allowed": "everything, including the library: your judgment is what is graded.",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One statement of an audit: what to recompute of it, and in which unit."""

    id: str
    asked: str
    unit: str = ""  # where `asked` does not name it
    scale: float = 1.0  # base units that make one of the unit
    claim: str = ""  # key of `facts.claim`, where it is not the id

    @property
    def words(self) -> str:
        """The number that is asked for, in words."""
        return self.unit or self.asked


def table(items: Sequence[Item]) -> str:
    """The statements in Markdown, quoted with source and condition; the unit has a column of its own."""
    lines = ["| id | published statement | your number | in |", "|---|---|---|---|"]
    for item in items:
        claim = facts.claim(item.id)
        told = f"{claim.value.source}; {claim.value.condition}".replace("|", "and")
        lines.append(f"| `{item.id}` | “{claim.text}” *({told})* | {item.asked} | {item.unit} |")
    return "\n".join(lines)


def short_table(items: Sequence[Item]) -> str:
    """The statements in Markdown, quoted with condition and source; the unit is in what is asked."""
    lines = ["| id | published statement | your number |", "|---|---|---|"]
    for item in items:
        claim = facts.claim(item.id)
        source = claim.value.source.removeprefix("a public lesson, ")
        lines.append(f"| `{item.id}` | “{claim.text}” ({claim.value.condition}) *({source})* | {item.asked} |")
    return "\n".join(lines)


def causes_text(causes: Mapping[str, str], ordered: bool = False) -> str:
    """The causes to choose from, a line of Markdown each; numbered where the first that applies counts."""
    rows = enumerate(causes.items(), 1)
    return "\n".join(f'{f"{at}." if ordered else "-"} `"{name}"`: {meaning}' for at, (name, meaning) in rows)


def rules(answer: str, causes: Mapping[str, str], more: str = "") -> str:
    """What the function `answer` returns and what counts, in Markdown; `more`: what statements say that do not look
    like a number."""
    return f"""`{answer}()` returns a dictionary with every id:
`{{"id": (your number, "{RIGHT}" or "{WRONG}", cause)}}`. Your number must be within {NEAR_TEXT} of ours. A statement is
right if what it says is within {NEAR_TEXT} of your number{more}. The cause is one of:

{causes_text(causes)}

Some statements are right as published. A judgment counts only if its number and its cause are right too. To score, you
must recognize at least one right statement and at least one wrong one: the same judgment everywhere earns nothing."""
