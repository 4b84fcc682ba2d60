"""Chapter 12's still picture: the tokens of four ranks at the experts that the router chose for them.

`python -m course_chapters.ch12.still` writes the chapter's copy again.
"""

import math
from pathlib import Path

from course_chapters.ch12.token_exchange import token_exchange
from course_chapters.ch12.widgets import exchange
from course_lib.draw import style
from course_lib.draw.style import Picture

CHAPTER_COPY = (
    Path(__file__).resolve().parents[2] / "solutions" / "12_expert_parallel" / "figures" / "at_the_experts.svg"
)


def at_the_experts() -> Picture:
    """Eight tokens of each rank in the buffers of the experts; nothing is dropped."""
    shown = exchange(math.inf, "even logits", 1)
    return token_exchange(
        shown, 5, "Each token at the expert that the router chose; its color is that of its home rank"
    )


if __name__ == "__main__":
    CHAPTER_COPY.parent.mkdir(exist_ok=True)
    style.save_svg(at_the_experts(), CHAPTER_COPY)
