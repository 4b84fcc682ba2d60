"""Chapter 19's widgets: the loss of a token over its ratio."""

from course_chapters.ch19.plots import draw_clip
from course_lib.draw.explore import Explorer, explore, menu, slider


def clip(clip: float = 0.2) -> Explorer:
    """Move the clip, and see a right and a wrong answer."""
    return explore(
        draw_clip,
        clip=slider((0.05, 0.1, 0.2, 0.3, 0.5), clip, label="clip", text=lambda each: f"± {each:g}"),
        sign=menu(("right", "wrong"), "right", label="answer"),
    )
