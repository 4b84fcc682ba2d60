"""A stand-in for a notebook's kernel."""

import sys

import pytest

from course_chapters.ch00 import widgets as ch00
from course_lib.draw.explore import explore


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What is displayed, each place with what was put there last."""
    import IPython.display

    shown: list[dict[str, object]] = []

    class Handle:
        def __init__(self, at: int) -> None:
            self.at = at

        def update(self, bundle: dict[str, object], raw: bool) -> None:
            assert raw
            shown[self.at] = bundle

    def display(bundle: dict[str, object], raw: bool = False, display_id: bool = False) -> Handle | None:
        assert raw
        shown.append(bundle)
        return Handle(len(shown) - 1) if display_id else None

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(sys.modules[explore.__module__], "in_notebook", lambda: True)
    monkeypatch.setattr(ch00, "in_notebook", lambda: True)
    return shown
