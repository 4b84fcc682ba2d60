"""Three pressures at the corners of a triangle: memory, compute and interconnect. Each strategy moves a run from one to
another."""

from collections.abc import Sequence

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, SOFT
from course_lib.draw.sheets import Sheet

CORNERS = {"memory": (3.7, 3.55), "compute": (1.0, 0.55), "interconnect": (6.4, 0.55)}
INKS = {"memory": BLUE, "compute": ORANGE, "interconnect": GREEN}
MOVES: Sequence[tuple[str, str, str]] = (  # what relieves the first corner and loads the second
    ("sharding (08)", "memory", "interconnect"),
    ("tensor (09)", "memory", "interconnect"),
    ("context (11)", "memory", "interconnect"),
    ("expert (12)", "compute", "interconnect"),
    ("data (07)", "compute", "interconnect"),
    ("recomputation (02)", "memory", "compute"),
    ("pipeline (10): idle time", "memory", "compute"),
)


def triangle() -> Sheet:
    """Arrows from the pressure that a strategy relieves to the one that it creates."""
    sheet = Sheet(4.35)
    sheet.text(0.15, 4.1, "Every strategy trades one pressure for another", size=style.LARGE, bold=True)
    sheet.polygon(CORNERS.values(), EMPTY, alpha=0.7, order=0)
    for name, (x, y) in CORNERS.items():
        sheet.dot((x, y), INKS[name], size=16)
        up = 0.2 if name == "memory" else -0.3
        sheet.text(x, y + up, name, size=style.NORMAL, ink=INK, ha="center", bold=True)
    sides: dict[tuple[str, str], list[str]] = {}
    for strategy, relieved, loaded in MOVES:
        sides.setdefault((relieved, loaded), []).append(strategy)
    for (relieved, loaded), strategies in sides.items():
        (x0, y0), (x1, y1) = CORNERS[relieved], CORNERS[loaded]
        sheet.arrow([(x0 + t * (x1 - x0), y0 + t * (y1 - y0)) for t in (0.1, 0.92)], SOFT, 2.2)
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        flat = y0 == y1
        ha = "center" if flat else "left" if x1 > x0 else "right"
        for row, words in enumerate(strategies):
            away = 0.0 if flat else 0.25 if x1 > x0 else -0.25
            high = -0.3 - 0.18 * row if flat else 0.22 - 0.19 * row
            sheet.text(middle[0] + away, middle[1] + high + (0.12 if flat else 0), words, ink=INK, ha=ha)
    sheet.text(3.7, 1.95, "An arrow leaves the pressure that is relieved", ink=SOFT, ha="center")
    sheet.text(3.7, 1.77, "and points at the one that is created.", ink=SOFT, ha="center")
    said = "; ".join(f"{strategy} relieves {relieved} and loads {loaded}" for strategy, relieved, loaded in MOVES)
    sheet.alt = f"Three pressures and the strategies that move a run between them: {said}."
    return sheet
