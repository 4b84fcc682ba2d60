"""Chapter 12's still picture is the one that the code draws."""

from course_chapters.ch12.still import CHAPTER_COPY, at_the_experts
from course_lib.draw import svg


def test_the_chapters_copy_is_what_the_code_draws():
    picture, again = at_the_experts(), "python -m course_chapters.ch12.still"
    assert CHAPTER_COPY.read_text(encoding="utf-8") == svg(picture, picture.alt), f"write it again: {again}"
