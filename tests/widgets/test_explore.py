"""A picture with controls: a still first, redrawn in its place, and no control that cannot work."""

import builtins

import pytest

from course_chapters.ch00 import widgets as ch00
from course_chapters.ch01 import widgets as ch01
from course_lib.draw import Picture
from course_lib.draw.explore import as_control, explore, menu, play, slider, text_box, toggle
from tests.tables import each_of


def circle(ranks: int, step: int = 0) -> Picture:
    return ch00.ring(ranks, holders=[step % ranks])


# --- explore ---------------------------------------------------------------------------------------


def test_the_still_comes_first_and_the_controls_after_it(notebook):
    explore(circle, ranks=slider((3, 5, 8), 5))
    assert len(notebook) == 2
    assert "<img alt=" in notebook[0]["text/html"] and "ring of 5 ranks" in notebook[0]["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in notebook[1]


def test_a_moved_slider_redraws_the_picture_in_its_place(notebook):
    explorer = explore(circle, ranks=slider((3, 5, 8)), step=play(range(8)))
    explorer.inputs["ranks"].value = 8
    explorer.inputs["step"].value = 3
    assert len(notebook) == 2
    assert "ring of 8 ranks. Rank 3 has the token" in notebook[0]["text/plain"]
    assert explorer.setting == {"ranks": 8, "step": 3}


def test_every_control_has_a_tooltip(notebook):
    explorer = explore(circle, ranks=slider((3, 5)), step=play(range(3), label="hop"))
    assert [made.tooltip for made in explorer.inputs.values()] == ["ranks", "hop"]


def test_a_play_button_moves_its_slider(notebook):
    explorer = explore(circle, ranks=[8], step=play(range(8), 2, interval=300))
    button = explorer.inputs["step"]
    assert (button.index, len(button.options)) == (2, 8)


def test_without_ipywidgets_there_is_a_still(notebook, monkeypatch):
    plain = builtins.__import__

    def no_widgets(name, *rest):
        if name == "ipywidgets":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_widgets)
    explorer = explore(circle, ranks=(3, 5))
    assert len(notebook) == 1 and "<img" in notebook[0]["text/html"]
    assert explorer.inputs == {}


def test_without_a_notebook_the_alternative_is_printed(capsys):
    explorer = explore(circle, ranks=(3, 5))
    assert "ring of 3 ranks" in capsys.readouterr().out
    explorer.set(ranks=5)
    assert "ring of 5 ranks" in explorer.page()[1]


def test_an_impossible_setting_is_said_where_the_picture_was(notebook):
    def draw(ranks: int) -> Picture:
        if ranks > 3:
            raise ValueError("4 <ranks> do not fit")
        return circle(ranks)

    explorer = explore(draw, ranks=(3, 4))
    explorer.inputs["ranks"].value = 4
    assert "4 &lt;ranks&gt; do not fit" in notebook[0]["text/html"]


def test_controls_read_with_their_unit_and_label(notebook):
    explorer = explore(
        lambda **_: circle(3),
        params=slider((7e9, 70e9), 70e9, label="parameters", text=ch01.params_text),
        gpu=menu(("A", "B")),
        on=toggle(label="sharded"),
        find=text_box(label="search"),
    )
    inputs = explorer.inputs
    assert inputs["params"].description == "parameters"
    assert inputs["params"].label == "70B"
    assert {name: type(widget).__name__ for name, widget in inputs.items()} == {
        "params": "SelectionSlider",
        "gpu": "Dropdown",
        "on": "Checkbox",
        "find": "Text",
    }


@each_of("given, kind", [((1, 2), "slider"), (range(3), "slider"), (("a", "b"), "menu"), (True, "toggle")])
def test_a_plain_value_becomes_the_control_that_fits(given, kind):
    assert as_control("some_name", given).kind == kind
    assert as_control("some_name", given).label == "some name"


@each_of(
    "call, words",
    (lambda: explore(circle, ranks=slider((3, 5), 4)), "not among"),
    (lambda: explore(circle, ranks=[]), "at least one value"),
    (lambda: explore(circle, ranks="3, 5"), "a sequence of values"),
    (lambda: explore(circle, ranks=7), "a sequence of values"),
    (lambda: slider((1.001, 1.002), text=lambda value: f"{value:.1f}"), "read the same"),
    (lambda: explore(circle, ranks=(3, 5)).set(ranks=4), "cannot be 4"),
    (lambda: explore(circle, ranks=(3, 5)).set(rank=4), "there are ranks"),
)
def test_a_control_that_cannot_work_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_picture_needs_an_alternative():
    from course_lib.draw import style

    with pytest.raises(ValueError, match="cannot see it"):
        explore(lambda: style.new()[0])


def test_a_slider_ends_at_the_last_value_of_the_setting(notebook):
    explorer = explore(circle, ranks=slider((3, 5, 8), 8), step=play(range(8), last=lambda now: now["ranks"] - 1))
    made, button = explorer.inputs["step"], explorer.buttons["step"]
    made.index = 6
    explorer.inputs["ranks"].value = 5
    assert (len(made.options), made.index, button.max, explorer.setting["step"]) == (5, 4, 4, 4)
    assert "Rank 4 has the token" in notebook[0]["text/plain"]
    explorer.inputs["ranks"].value = 8
    assert (len(made.options), made.index, button.max, explorer.setting["step"]) == (8, 4, 7, 4)
