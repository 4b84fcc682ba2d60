"""Texts of the numbers that chapters quote in prose: one module a chapter, each with a dict `NUMBERS`.

Here is the job that runs through the whole course, 70B on 64 H100s, so that all chapters mean the same one.
"""

from course_lib import facts
from course_lib.units import BILLION, DAY, TRILLION

PARAMS = 70 * BILLION
TOKENS = 15 * TRILLION  # what a Llama 3 of its size was trained on
GPUS = 64
MFU = 0.4  # published runs of this kind lie about there
DEADLINE = 90 * DAY  # a choice


def reading(*keys: str) -> str:
    """Sources as a Markdown list, each with its address."""
    sources = [facts.reference(key) for key in keys]
    return "\n".join(f"- {one.authors}, [{one.title}]({one.url}), {one.year}." for one in sources)
