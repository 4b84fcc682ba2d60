"""Make text from a learner's code safe to show: no control codes, no changes of direction, limited length."""

import re

# Whole escape sequences, then other control codes and marks that change the text direction.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LINE = 400  # characters of one line


def clean(text: str, limit: int = 600, line: int = LINE) -> str:
    """`text` without control codes, at most `limit` characters, none of its lines longer than `line`."""
    short = _CODES.sub("", _SEQUENCES.sub("", text[: 4 * limit]).replace("\r\n", "\n").replace("\r", "\n"))
    lines = [each if len(each) <= line else each[:line] + "…" for each in short.split("\n")]
    joined = "\n".join(lines)
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"
