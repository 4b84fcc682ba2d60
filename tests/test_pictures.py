"""README's and docs' photographs show what the course says now."""

import pytest

from bench import pictures

pytestmark = pytest.mark.slower


@pytest.mark.parametrize("name", pictures.TAKEN)
def test_a_picture_shows_what_the_course_says_now(name):
    assert pictures.stale(name) == [], "./course bench pictures takes them again"


def test_a_picture_of_other_words_is_stale(monkeypatch, capsys):
    monkeypatch.setitem(pictures.TAKEN, "chapter", (lambda: "others", *pictures.TAKEN["chapter"][1:]))
    assert pictures.main(["chapter", "--check"]) == 1
    assert "chapter-01.png" in capsys.readouterr().out
