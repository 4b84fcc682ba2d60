"""A training step that was counted: bytes alive by role, moment after moment, with the phases and the peak marked."""

from dataclasses import dataclass

import numpy as np

from course_lib.draw import panels
from course_lib.draw.palette import EMPTY, GREY, INK, SOFT, VERMILION, color, label, role
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import MiB
from course_lib.model.accounting import Accounting

_ORDER = ("parameters", "gradients", "optimizer state", "saved for backward", "communication", "temporary")
FRAMES = 72


@dataclass(frozen=True, slots=True)
class Film:
    """Bytes alive by role at chosen moments of a recorded run, and the names of its marked moments."""

    moments: tuple[int, ...]
    levels: dict[str, tuple[float, ...]]  # role -> bytes, one for each moment
    marks: tuple[tuple[int, str], ...]  # the moment at which the named phase ended

    @property
    def totals(self) -> np.ndarray:
        """Bytes of all roles together at each moment."""
        return np.sum(list(self.levels.values()), axis=0)

    @property
    def peak(self) -> int:
        """The first frame at the highest level."""
        return int(np.argmax(self.totals))

    def phase(self, frame: int, otherwise: str) -> str:
        """The name of the phase that a frame belongs to."""
        return next((words for moment, words in self.marks if self.moments[frame] <= moment), otherwise)


def film(account: Accounting, frames: int = FRAMES) -> Film:
    """The timeline of an `Accounting(history=True)`, thinned to about `frames` moments; marks and the peak are kept."""
    levels = account.timeline()
    total = np.sum(list(levels.values()), axis=0)
    last = len(total) - 1
    chosen = {round(place) for place in np.linspace(0, last, min(frames, last + 1))}
    chosen |= {int(np.argmax(total)), *(min(moment, last) for moment, _ in account.marks)}
    moments = tuple(sorted(chosen))
    kept = {name: tuple(float(values[moment]) for moment in moments) for name, values in levels.items() if any(values)}
    return Film(moments, {name: kept[name] for name in _ORDER if name in kept}, tuple(account.marks))


def draw_film(shown: Film, frame: int = 10**6) -> Sheet:
    """Bytes by role from the start up to a frame, the rest in gray; phases along the top."""
    frame = min(frame, len(shown.moments) - 1)
    across, totals = np.array(shown.moments, float), shown.totals
    unit, said = (MiB, "MiB") if totals.max() >= 2 * MiB else (1024.0, "KiB")
    sheet, top, now = Sheet(3.7), 1.12 * totals.max() / unit, frame + 1
    panel = Plot(0.75, 0.55, 4.65, 2.2, (across[0], across[-1]), (0, top))
    names = "allocations, in order", f"bytes alive ({said})"
    panel.frame(sheet, panels.marks(across[-1], 4), panels.marks(top, 4), *names)
    panel.fill(sheet, across, 0 * across, totals / unit, EMPTY, alpha=1.0)
    floor, key = np.zeros(now), 2.55 - 0.36 * len(shown.levels)
    for name, values in shown.levels.items():
        up, key = floor + np.array(values[:now]) / unit, key + 0.36
        panel.fill(sheet, across[:now], floor, up, _fill(name), alpha=1.0)
        floor = up
        sheet.key(5.6, key, _fill(name), _words(name))
        sheet.text(5.7, key - 0.14, f"{values[frame] / unit:,.2f} {said}", va="center")
    ends = [moment for moment, _ in shown.marks]
    for x, ink, width in (*((x, GREY, 0.9) for x in ends), (across[frame], INK, 1.4)):
        panel.line(sheet, (x, x), (0, top), ink, width)
    for before, (moment, words) in zip((across[0], *ends), shown.marks, strict=False):
        sheet.text(*panel.place((before + moment) / 2, top), words, ink=SOFT, ha="center", va="bottom")
    if frame >= shown.peak:
        x, y = panel.at(across[shown.peak], totals[shown.peak] / unit)
        sheet.polygon([(x - 0.06, y + 0.08), (x + 0.06, y + 0.08), (x, y - 0.02)], VERMILION, order=4)
    title = f"{shown.phase(frame, 'after the last mark')}: {totals[frame] / unit:,.2f} {said} alive"
    most = max(shown.levels, key=lambda name: shown.levels[name][shown.peak])
    where = shown.phase(shown.peak, "the end")
    more = f"The peak of {totals[shown.peak] / unit:,.2f} {said} is in {where}; most of it is {_words(most)}."
    sheet.head(title[0].upper() + title[1:], more)
    parts = ", ".join(f"{_words(name)} {values[frame] / unit:,.2f} {said}" for name, values in shown.levels.items())
    sheet.alt = f"Memory over a training step. {title}: {parts}. {more}"
    return sheet


def _words(name: str) -> str:
    known = {"saved for backward": "activations", "optimizer state": "optimizer state", "temporary": "temporaries"}
    return known.get(name) or label(role(name))


def _fill(name: str) -> str:
    return color("activations" if name == "saved for backward" else name)
