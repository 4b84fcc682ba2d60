"""A moment of a sharded step as a grid: a column is a unit of the model, a row is a rank.

The width of a column is the unit's number of parameters. A rank's boxes are its weights, gradients, moments and
activations; their height is bytes per parameter, and they are filled where the rank holds those elements.
`python -m course_chapters.ch08.who_holds_when` writes chapter 08's still picture again.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from course_chapters.ch08 import sharded_film
from course_chapters.ch08.sharded_film import GATHERED, MOVING, OWN, UNITS, WHOLE, Film, Moment
from course_lib.draw import panels, style
from course_lib.draw.palette import COLOR, EMPTY, INK, SOFT, color
from course_lib.draw.sheets import Box, Plot, Sheet
from course_lib.estimate.units import KB, MB, bytes_text

CHAPTER_COPY = (
    Path(__file__).resolve().parents[2] / "solutions" / "08_sharded_data_parallel" / "figures" / "who_holds_when.svg"
)
ROLES = {"weights": 4, "grads": 4, "moments": 8}  # bytes per parameter of the run: 32 bits, and two moments
_STACK = (*ROLES, "activations", "temporary")
_LANE = 0.026  # inches of height per byte per parameter
_GATHERED = "#8fc1e3"  # a lighter blue: weights of other ranks, held temporarily
_COLOR_OF = {(name, how): color(name) for name in ROLES for how in (OWN, WHOLE)} | {("weights", GATHERED): _GATHERED}
_SAID = {
    "start": "before the step",
    "averaged": "gradients are averaged",
    "stepped": "the optimizer has stepped",
    "end": "after the step",
}


def said(moment: Moment) -> str:
    """What happens at this moment, in words."""
    return (
        _SAID.get(moment.phase)
        or f"{moment.phase} of {'the ' * (moment.unit in (0, len(UNITS) - 1))}{UNITS[moment.unit]}"
    )


def peak_of(film: Film) -> int:
    """The recorded moment at which rank 0 holds the most."""
    totals = [sum(ranks[0].nbytes.values()) for ranks in film.moments]
    return totals.index(max(totals))


def draw_moment(film: Film, moment: int) -> Sheet:
    """All ranks at one moment; below, what rank 0 holds over the step, with this moment framed."""
    moment = min(moment, len(film.moments) - 1)
    now = film.moments[moment]
    sheet = Sheet(5.3)
    grid = _Grid(film.elements, left=1.0, width=5.2, top=4.38, bottom=1.86)
    grid.draw(sheet, now, heads=True)
    most = max(sum(each.nbytes.values()) for ranks in film.moments for each in ranks)
    for rank, each in enumerate(now):
        total = sum(each.nbytes.values())
        low, high = grid.band(rank)
        sheet.text(6.3, (low + high) / 2, bytes_text(total), size=style.NORMAL, va="center", bold=True)
    sheet.text(6.3, 4.44, "holds", ink=SOFT, va="bottom")
    _strip(sheet, film, moment, most)
    _legend(sheet, legend_entries())
    total, peak = sum(now[0].nbytes.values()), peak_of(film)
    title = f"{film.way[0].upper()}{film.way[1:]}: {said(now[0])}"
    highest = sum(film.moments[peak][0].nbytes.values())
    more = (
        f"Rank 0 holds {bytes_text(total)}. Its peak is {bytes_text(highest)}, during the "
        f"{said(film.moments[peak][0])}."
    )
    sheet.head(title, more)
    sheet.alt = f"{title}. {more} {_words(now)}"
    return sheet


def _words(now: Sequence[Moment]) -> str:
    """The grid in words: for each role, the share of the model that the ranks hold."""
    parts = []
    for role in ROLES:
        found = [_share(each, role) for each in now]
        parts.append(
            f"{role} {_percent(min(found))}"
            + (f" to {_percent(max(found))}" if max(found) - min(found) > 0.005 else "")
        )
    return f"Share of the model on each of {len(now)} ranks: {', '.join(parts)}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _share(moment: Moment, role: str) -> float:
    """The share of all units that a rank holds in this role, counting overlapping boxes once."""
    total = 0.0
    for place in range(len(UNITS)):
        spans = sorted((start, stop) for unit, start, stop, _ in moment.boxes[role] if unit == place)
        end = 0.0
        for start, stop in spans:
            total += max(0.0, stop - max(start, end))
            end = max(end, stop)
    return total / len(UNITS)


class _Grid:
    """Positions of ranks and units on a sheet, in inches."""

    def __init__(
        self, elements: Sequence[int], left: float, width: float, top: float, bottom: float, gap: float = 0.05
    ) -> None:
        self.left, self.top, self.bottom, self.width = left, top, bottom, width
        room = width - gap * (len(elements) - 1)
        wide = [room * count / sum(elements) for count in elements]
        starts = [left + each for each in (0.0, *accumulate(one + gap for one in wide))]
        self.columns = [(start, start + each) for start, each in zip(starts, wide, strict=False)]

    def band(self, rank: int, ranks: int = sharded_film.RANKS) -> tuple[float, float]:
        """The lower and the upper end of a rank's row."""
        high = (self.top - self.bottom) / ranks
        return self.top - (rank + 1) * high + 0.07, self.top - rank * high

    def lanes(self, rank: int) -> dict[str, tuple[float, float]]:
        """The lower and the upper end of each role's boxes."""
        low, high = self.band(rank)
        heights = {name: per * _LANE * (high - low) / 0.56 for name, per in ROLES.items()} | {
            "activations": 0.1 * (high - low) / 0.56
        }
        spare = (high - low - sum(heights.values())) / 3
        found, at = {}, high
        for name, tall in heights.items():
            found[name] = (at - tall, at)
            at -= tall + spare
        return found

    def draw(self, sheet: Sheet, now: Sequence[Moment], heads: bool = False, names: bool = True) -> None:
        """Draw every rank's boxes, and a background behind the unit that computes."""
        areas: dict[str, list[Box]] = {}
        unit = now[0].unit
        if unit >= 0:
            left, right = self.columns[unit]
            band = (left - 0.025, right + 0.025, self.bottom, self.top + 0.06)
            sheet.boxes([band], color(now[0].phase), alpha=0.3, order=0.5)
        for rank, moment in enumerate(now):
            lanes = self.lanes(rank)
            areas.setdefault(EMPTY, []).extend((*column, *lane) for column in self.columns for lane in lanes.values())
            for role in ROLES:
                for place, start, stop, how in moment.boxes[role]:
                    left, right = self.columns[place]
                    fill = COLOR["communication"] if how == MOVING else _COLOR_OF[role, how]
                    areas.setdefault(fill, []).append(
                        (left + start * (right - left), left + stop * (right - left), *lanes[role])
                    )
            for place, share in enumerate(activations(now, rank)):
                left, right = self.columns[place]
                if share:
                    areas.setdefault(color("activations"), []).append(
                        (left, left + share * (right - left), *lanes["activations"])
                    )
        order = [EMPTY, _GATHERED, COLOR["communication"]]
        for fill in sorted(areas, key=lambda one: (order.index(one) if one in order else len(order), one)):
            sheet.boxes(areas[fill], fill, order=1)
        for rank in range(len(now) if names else 0):
            low, high = self.band(rank)
            sheet.text(self.left - 0.1, (low + high) / 2, f"rank {rank}", size=style.NORMAL, ha="right", va="center")
        if heads:
            for name, (left, right) in zip(UNITS, self.columns, strict=True):
                sheet.text((left + right) / 2, self.top + 0.06, name, ha="center", va="bottom")


def activations(now: Sequence[Moment], rank: int) -> list[float]:
    """1.0 for each unit whose activations a rank holds: forward up to the computing unit, backward those below it."""
    unit, phase = now[rank].unit, now[rank].phase
    upto = {"forward": unit + 1, "backward": unit}.get(phase, 0)
    return [float(place < upto) for place in range(len(UNITS))]


def _strip(sheet: Sheet, film: Film, moment: int, most: float) -> None:
    """Rank 0's bytes at every moment, stacked by role."""
    panel = Plot(1.0, 0.72, 5.2, 0.86, (0, len(film.moments)), (0, 1.06 * most))
    unit, name = (MB, "MB") if most >= MB else (KB, "kB")
    panel.frame(
        sheet,
        {},
        {value * unit: words for value, words in panels.marks(1.06 * most / unit, 3).items()},
        y=f"rank 0 ({name})",
    )
    for role in _STACK:
        boxes = []
        for place, ranks in enumerate(film.moments):
            parts = ranks[0].nbytes
            low = sum(parts[each] for each in _STACK[: _STACK.index(role)])
            (left, down), (right, up) = panel.at((place + 0.08, place + 0.92), (low, low + parts[role]))
            boxes.append((left, right, down, up))
        sheet.boxes(boxes, color(role))
    (left, down), (right, up) = panel.at((moment, moment + 1), (0, 1.06 * most))
    sheet.boxes([(left, right, down, up)], "none", edge=INK, thick=1.4, order=4)
    phases = [ranks[0].phase for ranks in film.moments]
    for phase in ("forward", "backward"):
        first, last = phases.index(phase), len(phases) - phases[::-1].index(phase)
        sheet.text(panel.at((first + last) / 2, 0)[0], 0.66, phase, ink=SOFT, ha="center", va="top")
    sheet.text(panel.at(len(phases) - 1.5, 0)[0], 0.66, "step", ink=SOFT, ha="center", va="top")


def legend_entries() -> Mapping[str, str]:
    """The color of each kind of memory."""
    return {
        "weights": color("weights"),
        "gathered weights": _GATHERED,
        "gradients": color("grads"),
        "moments": color("moments"),
        "activations": color("activations"),
        "in transit": color("communication"),
        "temporary": color("temporary"),
    }


def _legend(sheet: Sheet, entries: Mapping[str, str], left: float = 0.2, height: float = 0.24) -> None:
    at = left
    for words, fill in entries.items():
        sheet.boxes([(at, at + 0.13, height - 0.06, height + 0.07)], fill)
        sheet.text(at + 0.19, height, words, va="center")
        at += 0.33 + 0.066 * len(words)


def draw_still(way: str = "stage 3", moments: Sequence[int] = (0, 2, 4, 8, 10, 13)) -> Sheet:
    """Six moments of one step in two rows of three, for pages without a kernel."""
    film = sharded_film.film(way)
    sheet = Sheet(5.6)
    for place, moment in enumerate(moments):
        across, down = place % 3, place // 3
        now, left, top = film.moments[moment], 0.75 + 2.25 * across, 4.72 - 2.28 * down
        grid = _Grid(film.elements, left=left, width=1.98, top=top, bottom=top - 1.78, gap=0.03)
        grid.draw(sheet, now, names=not across)
        sheet.text(left, top + 0.1, f"{place + 1}. {said(now[0])}", size=style.NORMAL, bold=True, va="bottom")
    _legend(sheet, {name: fill for name, fill in legend_entries().items() if name != "temporary"}, left=0.7)
    sheet.head(
        "One step, four ranks, six units",
        "A box is filled where a rank holds those elements; rank r owns the r-th quarter of every unit.",
    )
    sheet.alt = " ".join(
        f"{place + 1}. {said(film.moments[each][0])}: {_words(film.moments[each])}"
        for place, each in enumerate(moments)
    )
    return sheet


if __name__ == "__main__":
    picture = draw_still()
    CHAPTER_COPY.parent.mkdir(parents=True, exist_ok=True)
    CHAPTER_COPY.write_text(picture.svg(outlines=True), encoding="utf-8", newline="\n")
    print(CHAPTER_COPY)
