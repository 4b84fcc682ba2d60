"""The GPUs of a cluster in their servers, with the groups of one rank along every axis, and what each axis costs."""

from collections.abc import Mapping

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PAPER, PURPLE, SOFT, ink_on
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import duration_text
from course_lib.parallel.mesh import Mesh

INKS = {"tp": BLUE, "cp": PURPLE, "dp": ORANGE, "pp": GREEN}
NAMES = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}
HEIGHT, PER_SERVER, ACROSS = 4.0, 8, 2
CELL, GAP = 0.3, 0.035  # inches


def placing(
    mesh: Mesh, rank: int, seconds: Mapping[str, float], wires: Mapping[str, str], title: str, more: str
) -> Sheet:
    """Servers of eight GPUs in rows of two; the chosen rank stands out, its group along each axis in the axis's color.

    `seconds` and `wires` say for each axis how long its groups communicate in a step, and over which wire.
    """
    sheet = Sheet(HEIGHT)
    sheet.head(title, more)
    member = {peer: axis for axis in mesh.axes for peer in mesh.group(rank, axis) if peer != rank}
    spots = {one: _spot(one) for one in range(mesh.size)}
    for server in range(mesh.size // PER_SERVER):
        left, low = _corner(server)
        sheet.boxes([(left - 0.07, left + PER_SERVER * CELL + 0.05, low - 0.07, low + CELL + 0.05)], EMPTY, order=0)
        outside = (
            left - 0.12 if server % ACROSS == 0 else left + PER_SERVER * CELL + 0.1
        )  # clear of lines between servers
        sheet.text(
            outside, low + CELL / 2, f"{server}", ink=SOFT, ha="left" if server % ACROSS else "right", va="center"
        )
    for axis in mesh.axes:
        group = mesh.group(rank, axis)
        if len(group) > 1:
            for one, other in zip(group, group[1:], strict=False):
                sheet.lines([(_middle(spots[one]), _middle(spots[other]))], INKS[axis], 1.6, order=1)
    for one, (left, low) in spots.items():
        fill = INK if one == rank else INKS[member[one]] if one in member else PAPER
        edge = SOFT if one not in member and one != rank else ""
        sheet.boxes([(left, left + CELL - GAP, low, low + CELL - GAP)], fill, edge=edge, thick=0.5, order=2)
        ink = SOFT if edge else (PAPER if one == rank else ink_on(fill))
        sheet.text(left + (CELL - GAP) / 2, low + (CELL - GAP) / 2, str(one), ink=ink, size=7, ha="center", va="center")
    sheet.text(0.35, 0.2, "Gray: a server, whose GPUs NVLink joins. All servers are joined by the network.", ink=SOFT)
    _bars(sheet, mesh, seconds, wires)
    return sheet


def _corner(server: int) -> tuple[float, float]:
    column, row = server % ACROSS, server // ACROSS
    return 0.35 + column * (PER_SERVER * CELL + 0.38), HEIGHT - 1.25 - 0.66 * row


def _spot(rank: int) -> tuple[float, float]:
    left, low = _corner(rank // PER_SERVER)
    return left + rank % PER_SERVER * CELL, low


def _middle(spot: tuple[float, float]) -> tuple[float, float]:
    return spot[0] + (CELL - GAP) / 2, spot[1] + (CELL - GAP) / 2


def _bars(sheet: Sheet, mesh: Mesh, seconds: Mapping[str, float], wires: Mapping[str, str]) -> None:
    """One bar per axis, as long as its share of the sum, over the wire that its groups cross."""
    left, wide = 5.95, 1.2
    total = sum(seconds.values()) or 1.0
    sheet.text(left, HEIGHT - 0.85, "seconds of a step", ink=SOFT)
    row = 0
    for axis in reversed(mesh.axes):
        if axis not in seconds:
            continue
        y = HEIGHT - 1.28 - 0.6 * row
        sheet.text(left, y + 0.17, f"{NAMES[axis]} ({axis} = {mesh.sizes[axis]})", ink=INK)
        sheet.boxes([(left, left + wide, y, y + 0.11)], EMPTY)
        sheet.boxes([(left, left + max(0.015, wide * seconds[axis] / total), y, y + 0.11)], INKS[axis])
        sheet.text(left, y - 0.14, f"{duration_text(seconds[axis])}, {wires[axis]}", ink=SOFT)
        row += 1
    y = HEIGHT - 1.28 - 0.6 * row
    sheet.text(left, y + 0.1, f"in all {duration_text(total)}", size=style.NORMAL, bold=True)
