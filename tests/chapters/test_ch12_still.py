"""Chapter 12's still picture is the one that the code draws."""

from course_lib.figures import svg
from course_lib.widgets.ch12_still import CHAPTER_COPY, at_the_experts


def test_the_chapters_copy_is_what_the_code_draws():
    picture, again = at_the_experts(), "python -m course_lib.widgets.ch12_still"
    assert CHAPTER_COPY.read_text(encoding="utf-8") == svg(picture, picture.alt), f"write it again: {again}"
