"""A widget: its controls as data, and the picture at a setting of them."""

import html
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from course_lib.draw import style
from course_lib.draw.sheets import Sheet

if TYPE_CHECKING:
    from IPython.display import DisplayHandle
    from ipywidgets import DOMWidget

Draw = Callable[..., Figure | Sheet | str]
Setting = dict[str, Any]  # the value of each control, of whatever kind, by its name
FOLDER = "COURSE_FRAMES"  # the environment variable that names the folder for the pictures of a page without a kernel


@dataclass(frozen=True, slots=True)
class Control:
    """One input: what it may be, where it starts, and how its values read."""

    kind: str  # "slider", "menu", "buttons", "toggle", "text", "bits" or "play"
    values: tuple[object, ...] = ()
    start: Any = None
    label: str = ""
    texts: tuple[str, ...] = ()  # one for each value
    interval: int = 600  # ms between two frames of "play"
    when: Callable[[Setting], bool] | None = None  # at which settings it matters; grayed out at others
    last: Callable[[Setting], int] | None = None  # index of its last value at a setting; None: all of them

    def check(self, name: str) -> "Control":
        """This control with its label filled in; refused if it cannot start."""
        if self.kind not in ("text", "bits") and self.start not in self.values:
            raise ValueError(f"{name} starts at {self.start!r}, which is not among {list(self.values)}.")
        return self if self.label else replace(self, label=name.replace("_", " "))


@dataclass(slots=True)
class Explorer:
    """A widget that is on the page: its present setting, and how to change it from code."""

    draw: Draw
    alt: str | Callable[..., str] | None
    controls: dict[str, Control]
    setting: Setting
    handle: "DisplayHandle | None" = None  # what redraws the picture in place; None outside a notebook
    inputs: "dict[str, DOMWidget]" = field(default_factory=dict)  # the ipywidgets, if there are any
    buttons: "dict[str, DOMWidget]" = field(default_factory=dict)  # play buttons, by the name of their control
    shortening: bool = False  # a slider's options are being replaced, so its moves are not the reader's
    seconds: float = 0.0  # what the last redraw took in the kernel

    def page(self) -> tuple[str, str]:
        """The picture at the present setting as HTML, and its text alternative."""
        try:
            drawn = self.draw(**self.setting)
        except ValueError as error:  # an impossible setting is part of exploring: say it where the picture was
            return f"<p><b>Not possible:</b> {html.escape(str(error))}</p>", f"Not possible: {error}"
        said = self.alt(**self.setting) if callable(self.alt) else self.alt
        if isinstance(drawn, str):
            return drawn, said or "Text, see the page."
        alt: str = getattr(drawn, "alt", "")
        words = said or alt
        return (drawn.page(words) if isinstance(drawn, Sheet) else style.page(drawn, words)), words

    def set(self, **changes: object) -> None:
        """Move controls to values and redraw once."""
        for name, value in changes.items():
            control = self.controls.get(name)
            if control is None:
                raise ValueError(f"No control {name!r}; there are {', '.join(self.controls)}.")
            if control.kind not in ("text", "bits") and value not in control.values:
                raise ValueError(f"{name} cannot be {value!r}; choose from {list(control.values)}.")
            self.setting[name] = value
        self.redraw()

    def redraw(self) -> None:
        """Put the picture of the present setting where the old one was."""
        began = time.perf_counter()
        self.shorten()
        markup, said = self.page()
        self.grey_out()
        if self.handle is not None:
            self.handle.update({"text/html": markup, "text/plain": said}, raw=True)
        self.seconds = time.perf_counter() - began

    def shorten(self) -> None:
        """Let each slider end at the last value that there is at the present setting."""
        for name, control in self.controls.items():
            if control.last is None:
                continue
            end = min(control.last(self.setting), len(control.values) - 1)
            place = min(control.values.index(self.setting[name]), end)
            self.setting[name] = control.values[place]
            made = self.inputs.get(name)
            if made is None or len(made.options) == end + 1:
                continue
            options = list(zip(control.texts, control.values, strict=True))[: end + 1]
            self.shortening = True  # new options move the slider to its start for a moment
            with made.hold_sync():
                made.options, made.index = options, place
            self.shortening = False
            self.buttons[name].max = end

    def grey_out(self) -> None:
        """Switch off the controls that change nothing at the present setting."""
        for name, made in self.inputs.items():
            when = self.controls[name].when
            made.disabled = when is not None and not when(self.setting)

    def _ipython_display_(self) -> None:
        """Nothing: the picture and its controls are on the page already."""
