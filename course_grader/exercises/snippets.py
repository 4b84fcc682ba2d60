"""What cards of several chapters share: a sentence on tolerance, parts that are folded, numbers of devices, and
functions that are switched off."""

import re
from collections.abc import Iterable, Sequence

from course_lib.estimate import facts

CLOSE = "Numbers within 0.1 % pass; counts must be exact."


def folded(summary: str, text: str) -> str:
    """A part of a statement that the learner opens when it is needed, such as a table of the keys of an argument."""
    shown = re.sub(r"`([^`]*)`", r"<code>\1</code>", summary)  # Markdown is not rendered there
    return f"<details><summary>{shown}</summary>\n\n{text}\n\n</details>"


def markdown_table(names: str, rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; the names of its columns are separated by bars."""
    head = [f"| {names} |", "|---" * len(names.split(" | ")) + "|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def dense_flops(device: str) -> float:
    """FLOP/s of one device, dense 16-bit peak, as a plain number."""
    return float(facts.device(device).dense_flops)


def memory_of(device: str) -> float:
    """Bytes of memory of one device, as a plain number."""
    return float(facts.device(device).memory)
