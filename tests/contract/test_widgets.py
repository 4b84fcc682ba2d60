"""What holds for every widget: it draws at every position of its controls, says in words what it shows, and each
control matters."""

import contextlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import cache

import pytest
import torch

from contract.counted import an_account
from contract.kit import ONE_OF_MANY
from course_grader import exercises
from course_lib.cluster import Comm
from course_lib.draw.explore import Explorer
from tests.tables import each_of_chapter


def token(comm: Comm) -> None:
    """Pass a token once round."""
    held = torch.zeros(1)
    if comm.rank == 0:
        comm.send(held, 1)
        comm.recv(held, comm.size - 1)
    else:
        comm.recv(held, comm.rank - 1)
        comm.send(held, (comm.rank + 1) % comm.size)


GIVEN: Mapping[str, Callable[[], tuple]] = {  # what a widget is made of, where it needs something
    "ch00.ring_stepper": lambda: (token, (2, 3, 5)),
    "ch02.over_a_step": lambda: (an_account(),),
}


def _is_whole(chapter: str, function: Callable[..., Explorer]) -> bool:
    """Whether a function makes its widget from nothing, or from what is given here; a table's own needs the chapter's
    run."""
    needs = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    return f"{chapter}.{function.__name__}" in GIVEN or not needs


@cache
def widgets(chapter: str) -> dict[str, Callable[..., Explorer]]:
    """All functions of a chapter that make a widget, by chapter and name."""
    found = {}
    for path in sorted((exercises.home() / f"ch{chapter}").glob("*.py")):
        if path.stem in ("__init__", "page"):
            continue
        made = importlib.import_module(f"course_chapters.ch{chapter}.{path.stem}")
        for name, function in vars(made).items():
            own = inspect.isfunction(function) and function.__module__ == made.__name__ and name[0] != "_"
            if (
                own
                and inspect.signature(function).return_annotation in (Explorer, "Explorer")
                and _is_whole(f"ch{chapter}", function)
            ):
                assert f"ch{chapter}.{name}" not in found
                found[f"ch{chapter}.{name}"] = function
    return found


MATTERS: Mapping[str, Mapping[str, object]] = {  # settings at which a control has something to change
    "ch00.course_map.symptom": {"route": "failure"},
    "ch00.course_map.pair": {"route": "synthesis"},
    "ch01.triage.user_rate": {"qps": 1.0, "params": 70e9},
    "ch03.roofs.wire": {"kernel": "linear layer, training step", "batch": 512},
    "ch03.zoom.wiring": {"level": 3},
    "ch03.zoom.topology": {"level": 1},
    "ch03.tiles.share": {"tile": 64},
    "ch03.generations.printed": {"value": "link"},
    "ch10.gantt.chunks": {"schedule": "interleaved 1F1B"},
    "ch13.placement.cp": {"tp": 1},
    "ch13.strategy.gpus": {"tp": 1, "pp": 1, "seq": 2048, "batch": 2**25},
    "ch13.strategy.tp": {"pp": 1},
    "ch13.strategy.pp": {"tp": 1},
    "ch13.strategy.ep": {"model": "8×7B experts", "tp": 2, "pp": 1},
    "ch13.strategy.cp": {"tp": 1, "pp": 1},
    "ch15.losses.zoom": {"look": "loss"},
}
MOST = 6  # positions of a control that are all drawn; of one with more, as many of them, except in these chapters
WHOLE = ("ch00", "ch01", "ch03")
by_widget = each_of_chapter("name", widgets)


def made(name: str) -> Explorer:
    """The widget, with what it is made of."""
    return widgets(name[2:4])[name](*GIVEN.get(name, tuple)())


DRAWN: dict[tuple, str] = {}


def drawn(name: str, explorer: Explorer, setting: Mapping[str, object]) -> str:
    """What a widget shows at a setting, in words; each is drawn once."""
    key = (name, *setting.items())
    if key not in DRAWN:
        picture = explorer.draw(**setting)
        DRAWN[key] = picture if isinstance(picture, str) else picture.alt
    return DRAWN[key]


@pytest.mark.slower
def test_widgets_of_every_chapter_are_found() -> None:
    found = {chapter: len(widgets(chapter)) for chapter in exercises.chapters()}
    assert sum(found.values()) >= 38 and all(found.values())


@pytest.mark.rotates("course_lib/draw/")
@by_widget
def test_it_draws_at_the_positions_of_its_controls_and_says_what_it_shows(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    explorer = made(name)
    assert capsys.readouterr().out.strip(), "without a notebook the alternative is printed"
    for control, inputs in explorer.controls.items():
        values = inputs.values or ("zero", "")
        step = 1 if name.startswith(WHOLE) else -(-len(values) // MOST)
        for value in (*values[::step], values[-1]):
            with contextlib.suppress(ValueError):  # an impossible setting is said where the picture was
                said = drawn(name, explorer, {**explorer.setting, control: value})
                assert said or explorer.alt, (control, value)
                assert not ONE_OF_MANY.search(said), said
    for end in (0, -1):  # all controls at one end, and at the other
        explorer.setting = {
            control: (inputs.values or ("zero", ""))[end] for control, inputs in explorer.controls.items()
        }
        markup, said = explorer.page()
        assert said and (
            markup.startswith("<img alt=") or "Not possible" in said or said == explorer.alt or "<" in markup
        )


@pytest.mark.rotates("course_lib/draw/")
@by_widget
def test_every_control_changes_what_is_shown(name: str, capsys: object) -> None:
    explorer = made(name)
    for control, inputs in explorer.controls.items():
        ends = (inputs.values[0], inputs.values[-1]) if inputs.values else ("", "no such word")
        explorer.setting |= MATTERS.get(f"{name}.{control}", {})
        base = dict(explorer.setting)
        if len({drawn(name, explorer, {**base, control: value}) for value in ends}) < 2:  # what it says is the same
            pages = []
            for value in ends:
                explorer.setting = {**base, control: value}
                pages.append(explorer.page()[0])
            assert pages[0] != pages[1], control
        explorer.setting = {each: made_of.start for each, made_of in explorer.controls.items()}
