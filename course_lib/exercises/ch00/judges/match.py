"""Judging of match-the-cuts: a row counts when its property and its talk are right, and its letter is used once."""

from collections.abc import Mapping
from typing import Any

from course_lib.exercises.ch00.cards import PROPERTIES
from course_lib.judging import Fault, Params, describe, verdict
from course_lib.records import Case, Outcome, Verdict

CUTS: Mapping[str, tuple[str, str, str]] = {  # cut -> (property, what the ranks say, what to think of when it is wrong)
    "data": (
        PROPERTIES[2],
        "all_reduce",
        "Each rank has the gradient of its own samples. What has to happen to these?",
    ),
    "sharded": (
        PROPERTIES[1],
        "all_gather + reduce_scatter",
        "A rank keeps a piece of each layer. What does it need just before the layer runs, and what is left after?",
    ),
    "tensor": (
        PROPERTIES[4],
        "all_reduce",
        "Each rank multiplied a slice. When the slices are terms of a sum, what is missing?",
    ),
    "pipeline": (PROPERTIES[0], "send_recv", "One rank's output is the next rank's input, and nobody else's."),
    "context": (PROPERTIES[5], "ring", "Every query must meet every key, and no rank has them all at once."),
    "expert": (PROPERTIES[3], "all_to_all", "Every rank has tokens for experts that live on every other rank."),
}
TALK = tuple(dict.fromkeys(say for _, say, _ in CUTS.values()))


def letters(params: Params) -> dict[str, str]:
    """The letter under which each cut's property stands in this variant."""
    lines = [line.removeprefix("- **").split("** ", 1) for line in params["options"].splitlines()]
    by_text = {text: letter for letter, text in lines}
    return {cut: by_text[text] for cut, (text, _, _) in CUTS.items()}


def match_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = outcome.value
    if type(got) is not dict:
        name = "returned-none" if got is None else "not-a-dictionary"
        fault = (name, f"Return a dictionary with a row for each cut, not {describe(got)}.")
        return [verdict("values", cut, case, fault) for cut in CUTS]
    rows = {cut: _row(got.get(cut)) for cut in CUTS}
    used = [row[0] for row in rows.values() if row is not None]
    want = letters(params)
    return [verdict("values", cut, case, _match_fault(cut, rows[cut], used, want[cut], got)) for cut in CUTS]


def _row(row: Any) -> tuple[str, str] | None:
    """A row in upper and lower case as we compare it, or None where it is not a pair of texts."""
    if type(row) in (tuple, list) and len(row) == 2 and all(type(each) is str for each in row):
        return row[0].strip().upper(), "".join(row[1].lower().split())
    return None


def _match_fault(
    cut: str, row: tuple[str, str] | None, used: list[str], letter: str, got: Mapping[Any, Any]
) -> Fault | None:
    _, say, think = CUTS[cut]
    if row is None:
        given = "is missing" if cut not in got else f"is {describe(got[cut])}"
        return "not-a-pair", f'Row "{cut}" {given}; give a pair such as ("A", "all_reduce").'
    if len(row[0]) != 1 or row[0] not in "ABCDEF":
        return "no-such-letter", f'Row "{cut}": {describe(row[0])} is none of the letters A to F.'
    if row[1] not in {"".join(each.split()) for each in TALK}:
        return "no-such-talk", f'Row "{cut}": {describe(got[cut][1])} is not on the list: {", ".join(TALK)}.'
    if used.count(row[0]) > 1:
        return (
            "letter-twice",
            f"Letter {row[0]} is used {used.count(row[0])} times; each property belongs to one cut, so none of its rows counts.",
        )
    if row[0] != letter:
        return (
            "wrong-property",
            f'Row "{cut}": that property is true, but it is not what makes this cut possible. What exactly is cut here?',
        )
    if row[1] != "".join(say.split()):
        return "wrong-talk", f'Row "{cut}": the property fits, what the ranks say does not. {think}'
    return None
