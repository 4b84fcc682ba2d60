"""A picture with controls: a pure function drawn at its first setting, redrawn in place when a control moves.

The first picture is an output of its own: it stays on pages without a kernel, and without ipywidgets it is all
there is. Controls have labels with units, work from the keyboard, and say their value in words.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from course_lib.draw import style
from course_lib.draw.explorer import FOLDER, Control, Draw, Explorer, Setting

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

# Tracks of one length and readouts in one column; a drop-down's arrow that is there in the dark theme too.
_ARROW = (
    "data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 18 18%22%3E"
    "%3Cpath d=%22M5 7l4 4 4-4%22 fill=%22none%22 stroke=%22%23ddd%22 stroke-width=%221.8%22/%3E%3C/svg%3E"
)
# ipywidgets gives the buttons of a player no accessible name; text that is only spoken does.
_LOOK = f"""
.course-controls .widget-readout{{flex:0 0 11em;text-align:left;padding-left:.5em;margin:0}}
.course-controls .widget-hslider{{min-width:0}}
.course-controls .widget-hbox .widget-hslider{{flex:1}}
.course-controls .widget-hbox .widget-readout{{flex-basis:calc(11em - 80px)}}
.course-controls .course-words .widget-readout{{flex-basis:8.5em}}
.course-controls .widget-hslider:has([disabled]),.course-controls .widget-dropdown:has([disabled]){{opacity:.45}}
.course-controls .widget-play button::after{{content:"play or pause";position:absolute;width:1px;height:1px;
  overflow:hidden;clip-path:inset(50%)}}
.course-controls .widget-play button:nth-child(2)::after{{content:"stop"}}
[data-jp-theme-light=false] .course-controls{{--jp-widgets-dropdown-arrow:url('{_ARROW}')}}
"""
Value = TypeVar("Value")


def slider(
    values: Sequence[Value],
    start: object = None,
    *,
    label: str = "",
    text: Callable[[Value], str] | None = None,
    when: Callable[[Setting], bool] | None = None,
) -> Control:
    """A slider over these values; `text` says a value with its unit, `when` at which settings it changes the
    picture."""
    return replace(_over("slider", values, start, label, text), when=when)


def menu(
    values: Sequence[Value],
    start: object = None,
    *,
    label: str = "",
    text: Callable[[Value], str] | None = None,
    when: Callable[[Setting], bool] | None = None,
) -> Control:
    """A drop-down list of these values; `when` says at which settings it changes the picture."""
    return replace(_over("menu", values, start, label, text), when=when)


def buttons(
    values: Sequence[Value], start: object = None, *, label: str = "", text: Callable[[Value], str] | None = None
) -> Control:
    """A button for each of a few values, of which one is pressed."""
    return _over("buttons", values, start, label, text)


def play(
    values: Sequence[Value],
    start: object = None,
    *,
    label: str = "",
    text: Callable[[Value], str] | None = None,
    interval: int = 600,
    last: Callable[[Setting], int] | None = None,
) -> Control:
    """A slider with a play button that moves through the values, one each `interval` ms; `last` shortens it by
    setting."""
    return replace(_over("play", values, start, label, text), interval=interval, last=last)


def toggle(start: bool = False, *, label: str = "") -> Control:
    """A check box."""
    return Control("toggle", (False, True), bool(start), label)


def text_box(start: str = "", *, label: str = "") -> Control:
    """A line to type in."""
    return Control("text", (), start, label)


def bits(start: str, *, label: str = "") -> Control:
    """A row of bits to click, the highest first; its value is a text of as many 0s and 1s."""
    if not start or set(start) - {"0", "1"}:
        raise ValueError(f"The bits start at {start!r}; give a text of 0s and 1s.")
    return Control("bits", ("0" * len(start), "1" * len(start)), start, label)  # and all between the two


def _over(
    kind: str, values: Sequence[Value], start: object, label: str, text: Callable[[Value], str] | None
) -> Control:
    values = tuple(values)
    if not values:
        raise ValueError(f"A {kind} needs at least one value.")
    said = tuple((text or str)(value) for value in values)
    if len(set(said)) < len(said):
        raise ValueError(f"Two values of the {kind} read the same: {list(said)}.")
    return Control(kind, values, values[0] if start is None else start, label, said)


def explore(draw: Draw, *, alt: str | Callable[..., str] | None = None, **controls: object) -> Explorer:
    """Show `draw(...)` at its first setting, with controls under it that redraw it in place.

    `draw` is a pure function to a figure or to HTML. Each control is made by `slider`, `menu`, `toggle`, `play` or
    `text_box`; a plain sequence is a slider (of numbers) or a menu, and a bool a check box. `alt` is the text
    alternative or a function of the setting; a picture of `course_lib.draw` brings its own.
    """
    made = {name: as_control(name, given) for name, given in controls.items()}
    explorer = Explorer(draw, alt, made, {name: control.start for name, control in made.items()})
    markup, said = explorer.page()
    if not in_notebook():
        print(said)
        return explorer
    from IPython.display import display

    if os.environ.get(FOLDER):  # a page without a kernel
        from course_app.site import frames  # which only the site has

        display({"text/html": frames.markup(explorer), "text/plain": said}, raw=True)
        return explorer
    explorer.handle = display({"text/html": markup, "text/plain": said}, raw=True, display_id=True)
    _show_controls(explorer)
    return explorer


def as_control(name: str, given: object) -> Control:
    """The control that a keyword of `explore` stands for."""
    if isinstance(given, Control):
        return given.check(name)
    if isinstance(given, bool):
        return toggle(given).check(name)
    if isinstance(given, str) or not isinstance(given, Sequence | range):
        raise ValueError(f"{name} is {given!r}; give a sequence of values, a bool, or a control such as slider(...).")
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in given)
    return (slider if numbers else menu)(given).check(name)


def in_notebook() -> bool:
    """Whether there is a kernel that can show things."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _show_controls(explorer: Explorer) -> None:
    """The controls under the picture, if ipywidgets is there; a page without a kernel shows a line instead."""
    try:
        import ipywidgets
    except ImportError:
        return
    rows = [_row(explorer, ipywidgets, name, control) for name, control in explorer.controls.items()]
    if not rows:
        return
    explorer.shorten()
    explorer.grey_out()
    look = ipywidgets.HTML(f"<style>{_LOOK}</style>", layout=ipywidgets.Layout(display="none"))
    layout = ipywidgets.Layout(max_width=f"{style.WIDTH * style.DPI:.0f}px", margin="0.2em 0 1em 0")
    box = ipywidgets.VBox([*rows, look], layout=layout).add_class("course-controls")
    show_widget(box, "(Run this cell to get its controls.)")


def show_widget(widget: "DOMWidget", instead: str) -> None:
    """Show a widget of ipywidgets 7 or 8, and in its place a line where there is no kernel."""
    from IPython.display import display

    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({"application/vnd.jupyter.widget-view+json": view, "text/plain": instead}, raw=True)


def _row(explorer: Explorer, ipywidgets: ModuleType, name: str, control: Control) -> "DOMWidget":
    """The input of one control, wired to redraw; a play button sits before its slider."""
    if control.kind == "bits":
        return _bit_row(explorer, ipywidgets, name, control)
    longest = max(len(each.label) for each in explorer.controls.values() if each.kind != "toggle")
    look = {
        "description": control.label,
        "style": {"description_width": f"{max(6.0, 0.62 * longest + 0.5):.1f}em"},
        "layout": ipywidgets.Layout(width="auto"),
    }
    pairs = list(zip(control.texts, control.values, strict=False))  # a check box has no texts
    if control.kind in ("slider", "play"):
        made = ipywidgets.SelectionSlider(options=pairs, value=control.start, continuous_update=True, **look)
    elif control.kind == "menu":
        made = ipywidgets.Dropdown(options=pairs, value=control.start, **look)
    elif control.kind == "buttons":
        look["style"]["button_width"] = "auto"
        made = ipywidgets.ToggleButtons(options=pairs, value=control.start, **look)
    elif control.kind == "toggle":
        made = ipywidgets.Checkbox(value=control.start, indent=True, **look)
    else:
        made = ipywidgets.Text(value=control.start, continuous_update=True, **look)

    def moved(change: dict[str, object]) -> None:
        if not explorer.shortening:
            explorer.setting[name] = change["new"]
            explorer.redraw()

    made.tooltip = control.label  # without one, JupyterLab shows "null"
    made.observe(moved, "value")
    explorer.inputs[name] = made
    if control.kind != "play":
        return made
    button = ipywidgets.Play(
        min=0,
        max=len(control.values) - 1,
        step=1,
        interval=control.interval,
        repeat=False,
        value=control.values.index(control.start),
        show_repeat=False,
        layout=ipywidgets.Layout(width="76px", margin="0 2px"),
    )
    explorer.buttons[name] = button
    ipywidgets.jslink((button, "value"), (made, "index"))
    row = ipywidgets.HBox([made, button], layout=ipywidgets.Layout(width="100%", align_items="center"))
    return row.add_class("course-words") if max(map(len, control.texts)) > 8 else row  # readouts that need room


def _bit_row(explorer: Explorer, ipywidgets: ModuleType, name: str, control: Control) -> "DOMWidget":
    """A button for each bit, the highest first, with a label before them."""
    layout = ipywidgets.Layout(width="2.1em", padding="0", margin="1px")
    buttons = []
    for place, bit in enumerate(control.start):
        title = f"{control.label}: bit {len(control.start) - 1 - place}"
        buttons.append(ipywidgets.ToggleButton(value=bit == "1", description=bit, tooltip=title, layout=layout))

    def clicked(_: dict[str, object]) -> None:
        for button in buttons:
            button.description = "1" if button.value else "0"
        explorer.setting[name] = "".join(button.description for button in buttons)
        explorer.redraw()

    for button in buttons:
        button.observe(clicked, "value")
    row = ipywidgets.HBox([ipywidgets.Label(control.label), *buttons])
    explorer.inputs[name] = row
    return row
