"""What several of chapter 01's cards use."""

from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules
from course_grader.exercises.snippets import dense_flops
from course_lib.estimate import facts
from course_lib.estimate.units import number_text

CAUSES = {
    "as printed": "the statement is right",
    "unit": "the number has the wrong unit",
    "missing factor": "a factor that the statement itself names is missing from its number",
    "dense or sparse": "the sparse peak was used for the dense one, or the dense for the sparse",
    "wrong baseline": "the share is relative to something that no run can reach",
    "wrong scope": "the number is true of a smaller part, or of a larger whole, than the statement says",
    "convention": "both ways of counting are defensible",
    "reversed conclusion": "the numbers are right, but they imply the opposite",
}


def statement(items: tuple[Item, ...]) -> str:
    """The Markdown table of an audit's statements, quoted from the facts with their sources."""
    lines = ["| id | published statement | your number in |", "|---|---|---|"]
    for item in items:
        claim = facts.claim(item.claim or item.id)
        way = f", {item.asked}" if item.asked else ""
        source = claim.value.source.removeprefix("a public lesson, ")
        lines.append(f"| `{item.id}` | “{claim.text}” *({source})* | {item.unit}{way} |")
    return "\n".join(lines)


def audit_task(name: str, items: tuple[Item, ...]) -> str:
    return f"""{statement(items)}

{rules(name, CAUSES)}"""


def peak(device: str) -> str:
    return f"{number_text(float(facts.device(device).dense_flops) / 1e12)} TFLOP/s dense"


def audit_card(answer: str, title: str, text: str, hints: tuple[str, str, str]) -> Card:
    worth = Worth(points=12, minutes=15, difficulty=3, importance=4)
    return Card(title=title, **worth, **AUDIT, answers=(answer,), text=text, hints=hints)


DEVICES = ("H100 SXM", "A100 SXM 80GB", "H200 SXM", "B200 SXM", "MI300X")


def peak_of(device: str) -> dict[str, object]:
    """A device and its dense peak, as parameters of a card."""
    return {"device": device, "flops": dense_flops(device)}
