"""A widget for a page without a kernel: its pictures drawn ahead, and its controls as plain HTML.

Where `COURSE_FRAMES` names a folder, `explore` calls `markup`. It draws the widget at many settings, writes the
pictures to one file in that folder, and returns the first picture with the controls that turn to the others. A script
of the page (`course_app/site/static/site.js`) connects the two.

A widget with six controls has too many settings to draw all of them. Each control moves alone from the start through
all its values; the controls that fit together into the limit also move in every combination. The script shows the
nearest setting that was drawn and says so.
"""

import base64
import gc
import gzip
import hashlib
import html
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from pathlib import Path

from course_lib.draw.explorer import FOLDER, Control, Explorer

MOST = 200  # pictures of one widget that are drawn in combination
HEAVY, FEWER = 1_500_000, 50  # a file of more bytes is too slow on a phone: fewer combinations then
Setting = tuple[int, ...]  # the index of each dial's value

_SVG = re.compile(
    r'^<img alt="(?P<alt>[^"]*)" width="(?P<width>\d+)" height="(?P<height>\d+)" '
    r'src="data:image/svg\+xml;base64,(?P<data>[^"]*)"'
)


@dataclass(frozen=True, slots=True)
class Dial:
    """One input of the page: a control of the widget, or one bit of a row of bits."""

    name: str
    control: Control
    texts: tuple[str, ...]
    start: int
    bit: int | None = None  # its place in a row of bits

    def put(self, setting: dict[str, object], index: int) -> None:
        """Write this dial's value into a setting of the widget."""
        if self.bit is None:
            setting[self.name] = self.control.values[index]
        else:
            pattern = str(setting[self.name])
            setting[self.name] = f"{pattern[: self.bit]}{index}{pattern[self.bit + 1 :]}"


def dials_of(controls: dict[str, Control]) -> list[Dial]:
    """The inputs that a page can offer: all controls but lines to type in, whose texts cannot be listed."""
    found = []
    for name, control in controls.items():
        if control.kind == "bits":
            found += [Dial(name, control, ("0", "1"), int(bit), place) for place, bit in enumerate(control.start)]
        elif control.kind != "text":
            texts = control.texts or ("no", "yes")
            found.append(Dial(name, control, texts, control.values.index(control.start)))
    return found


def chosen(dials: Sequence[Dial], most: int = MOST) -> Iterator[Setting]:
    """Settings to draw, the start first: each dial alone, and all combinations of those that fit together.

    Films come first among those that are combined, then the others in their order.
    """
    start = tuple(dial.start for dial in dials)
    yield start
    together: set[int] = set()
    for place in sorted(range(len(dials)), key=lambda place: dials[place].control.kind != "play"):
        sizes = [len(dials[other].texts) for other in together | {place}]
        if prod(sizes) <= most:
            together.add(place)
    for place, dial in enumerate(dials):
        for index in range(len(dial.texts)):
            yield (*start[:place], index, *start[place + 1 :])
    ranges = [range(len(dial.texts)) if place in together else (dial.start,) for place, dial in enumerate(dials)]
    yield from product(*ranges)


def frames(
    explorer: Explorer, most: int = MOST, pages: dict[Setting, tuple[str, str]] | None = None
) -> dict[str, object]:
    """The pictures of a widget, as its page's script reads them; those in `pages` are not drawn again, and new ones are
    added.

    `lines` are the distinct lines of all pictures. `pictures` are lists of places in `lines`, each with its text
    alternative and, for an image, its size; `off` are the dials that change nothing. `keys` says which picture belongs
    to which setting.
    """
    dials = dials_of(explorer.controls)
    lines: dict[str, int] = {}
    pictures: dict[str, int] = {}
    keys: dict[str, int] = {}
    made: list[dict[str, object]] = []
    before = dict(explorer.setting)
    pages = {} if pages is None else pages
    settings = dict.fromkeys(setting for setting in chosen(dials, most) if _exists(explorer, dials, setting))
    for setting in islice(settings, 4 * most):
        values, off = _values(explorer, dials, setting)
        idle = tuple(
            dial.start if place in off else index
            for place, (dial, index) in enumerate(zip(dials, setting, strict=True))
        )
        key, same = ",".join(map(str, setting)), ",".join(map(str, idle))
        if idle != setting and same in keys:
            keys[key] = keys[same]
            continue
        if setting not in pages:
            explorer.setting = values
            pages[setting] = explorer.page()
        page = pages[setting]
        content = json.dumps([page, off])
        if content not in pictures:
            pictures[content] = len(made)
            made.append({**_picture(*page, lines), **({"off": off} if off else {})})
        keys[key] = pictures[content]
    explorer.setting = before
    return {"keys": keys, "pictures": made, "lines": list(lines)}


def markup(explorer: Explorer) -> str:
    """HTML of a widget on a page without a kernel; its frames are written to the folder in the environment."""
    dials = dials_of(explorer.controls)
    pages: dict[Setting, tuple[str, str]] = {}
    for most in (MOST, FEWER):
        with _rare_collections():
            drawn = json.dumps(frames(explorer, most, pages), ensure_ascii=False, separators=(",", ":"))
        packed = base64.b64encode(gzip.compress(drawn.encode(), mtime=0)).decode()
        if len(packed) <= HEAVY:
            break
    name = hashlib.sha256(drawn.encode()).hexdigest()[:12]
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    # A script and not JSON: a page that is opened from a folder may load scripts, but may not fetch files.
    (folder / f"{name}.js").write_text(f'courseFrames("{name}","{packed}")\n', encoding="utf-8", newline="\n")
    first, _ = pages[tuple(dial.start for dial in dials)]
    rows = "".join(_row(name, place, dial) for place, dial in enumerate(dials))
    return (
        f'<div class="course-frames" data-frames="{name}"><div class="course-picture">{first}</div>'
        f'<form class="course-dials" hidden>{rows}</form>'
        f'<p class="course-said" role="status"></p></div>'
    )


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for garbage less often: with its usual threshold, that takes a fifth of drawing many figures."""
    usual = gc.get_threshold()
    gc.set_threshold(20_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _exists(explorer: Explorer, dials: Sequence[Dial], setting: Setting) -> bool:
    """Whether the widget has this setting: a film may be shorter at some settings than at others."""
    values, _ = _values(explorer, dials, setting)
    return all(
        dial.control.last is None or index <= min(dial.control.last(values), len(dial.texts) - 1)
        for dial, index in zip(dials, setting, strict=True)
    )


def _values(explorer: Explorer, dials: Sequence[Dial], setting: Setting) -> tuple[dict[str, object], list[int]]:
    """The values of a setting by control, and the places of the dials that change nothing there."""
    values = {name: control.start for name, control in explorer.controls.items()}
    for dial, index in zip(dials, setting, strict=True):
        dial.put(values, index)
    off = [place for place, dial in enumerate(dials) if dial.control.when and not dial.control.when(values)]
    return values, off


def _picture(page: str, said: str, lines: dict[str, int]) -> dict[str, object]:
    """One picture as places in `lines`, to which its new lines are added."""
    image = _SVG.match(page)
    text = base64.b64decode(image["data"]).decode() if image else page
    places = [lines.setdefault(line, len(lines)) for line in text.split("\n")]
    size = {"size": [int(image["width"]), int(image["height"])]} if image else {}
    return {"alt": said, **size, "lines": places}


def _row(widget: str, place: int, dial: Dial) -> str:
    """The HTML of one dial: a label, an input that works from the keyboard, and its value in words."""
    name, label, kind = f"{widget}-{place}", html.escape(dial.control.label), dial.control.kind
    texts = html.escape(json.dumps(dial.texts, ensure_ascii=False))
    data = f'data-dial="{place}" data-start="{dial.start}"'
    if dial.bit is not None:
        said = f"{label}: bit {len(dial.control.start) - 1 - dial.bit}"
        lead = f"<span>{label}</span>" if dial.bit == 0 else ""
        return (
            f'{lead}<button type="button" class="bit" {data} data-kind="bit" aria-label="{said}" '
            f'aria-pressed="{str(bool(dial.start)).lower()}">{dial.start}</button>'
        )
    if kind == "toggle":
        on = " checked" if dial.start else ""
        return (
            f'<div class="dial"><label for="{name}">{label}</label><input type="checkbox" id="{name}" {data} '
            f'data-kind="toggle"{on}></div>'
        )
    if kind in ("menu", "buttons"):
        options = "".join(
            f'<option value="{index}"{" selected" if index == dial.start else ""}>{html.escape(text)}</option>'
            for index, text in enumerate(dial.texts)
        )
        return (
            f'<div class="dial"><label for="{name}">{label}</label><select id="{name}" {data} '
            f'data-kind="menu">{options}</select></div>'
        )
    played = (
        f'<button type="button" class="play" data-plays="{place}" data-interval="{dial.control.interval}" '
        f'aria-label="Play: {label}">▶</button>'
        if kind == "play"
        else ""
    )
    return (
        f'<div class="dial"><label for="{name}">{label}</label><input type="range" id="{name}" min="0" '
        f'max="{len(dial.texts) - 1}" value="{dial.start}" {data} data-kind="{kind}" data-texts="{texts}" '
        f'aria-valuetext="{html.escape(dial.texts[dial.start])}">{played}<output '
        f'for="{name}">{html.escape(dial.texts[dial.start])}</output></div>'
    )
