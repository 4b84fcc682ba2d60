"""The rooms of the course, their order and what they import, read from the code; and the picture of it in
`docs/architecture.svg`.

`./course bench architecture` draws the picture again. `ORDER` is the rule that a test holds: a module imports only from
its own row or from rows above it.
"""

import argparse
import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import wrap

from course_lib.folders import PACKAGES, ROOT

PICTURE = ROOT / "docs" / "architecture.svg"

TAUGHT, RUNS, GRADES, ASKS, APP = "taught", "real runs", "grades", "the chapters", "runs the course"

ORDER: Sequence[
    tuple[str, str]
] = (  # (what a row is for, its rooms): a room imports from its own row and from those above it
    (TAUGHT, "course_lib"),
    (TAUGHT, "course_lib.estimate"),
    (TAUGHT, "course_lib.model"),
    (TAUGHT, "course_lib.cluster"),
    (TAUGHT, "course_lib.parallel"),
    (TAUGHT, "course_lib.operate"),
    (TAUGHT, "course_lib.draw"),
    (RUNS, "course_runs"),
    (GRADES, "course_grader.exercises"),
    (GRADES, "course_grader.judging"),
    (GRADES, "course_grader"),
    (ASKS, "course_chapters"),
    (APP, "course_app"),
    (APP, "bench"),
)
RANK: Mapping[str, int] = {name: rank for rank, (_, rooms) in enumerate(ORDER) for name in rooms.split()}

EXCEPTIONS: Mapping[tuple[str, str], str] = {  # (room, a later one that it imports all the same) -> why
    ("course_lib", "course_app"): "the learner's six functions are resolved on first use",
    ("course_lib.draw", "course_app"): "a page without a kernel has its pictures drawn ahead by the site",
    ("course_lib.cluster", "course_lib.draw"): "Run.show draws when it is called",
    ("course_grader.exercises", "course_grader.judging"): "a drill asks for its key when it is answered",
    ("course_grader.exercises", "course_grader"): "cards and judges exchange the grader's plain records",
    ("course_grader.judging", "course_grader"): "shipped answers run as those of learners do",
}


def module_name(path: Path) -> str:
    """The dotted name of a file of the course."""
    names = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def files() -> list[Path]:
    """All modules of the course, the benches among them."""
    return [path for package in (*PACKAGES, "bench") for path in sorted((ROOT / package).rglob("*.py"))]


def part_of(module: str) -> str:
    """The room that a module belongs to, the longest name that fits."""
    names = module.split(".")
    candidates = (".".join(names[:count]) for count in range(len(names), 0, -1))
    return next((name for name in candidates if name in RANK), module)


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules of the course that a file imports, at its top or inside functions."""
    found, left = set[str](), list[ast.AST]([ast.parse(path.read_text(encoding="utf-8"))])
    for node in left:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        left += (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))  # none has an import
    return frozenset(name for name in found if name.split(".")[0] in (*PACKAGES, "bench"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One entry of ORDER as the code has it."""

    name: str
    purpose: str
    modules: int
    lines: int
    imports: frozenset[str]  # of other parts
    about: str  # the first line of its docstring


def parts() -> dict[str, Part]:
    """Every part that has code, in the order of `ORDER`."""
    of_room: dict[str, list[Path]] = {}
    for path in files():
        of_room.setdefault(part_of(module_name(path)), []).append(path)
    built = {}
    for name in sorted(of_room, key=lambda name: RANK.get(name, -1)):
        used = {part_of(module) for path in of_room[name] for module in imports(path)} - {name}
        built[name] = Part(
            name=name,
            purpose=ORDER[RANK[name]][0],
            modules=len(of_room[name]),
            lines=sum(path.read_text(encoding="utf-8").count("\n") for path in of_room[name]),
            imports=frozenset(used & set(RANK)),
            about=_about(min(of_room[name], key=lambda path: (path.name != "__init__.py", len(path.parts)))),
        )
    return built


def _about(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].split(". ")[0].rstrip(".")


COLORS = {TAUGHT: "#56B4E9", RUNS: "#009E73", GRADES: "#CC79A7", ASKS: "#E69F00", APP: "#B9B9B9"}
ROW, GAP, LEFT, WIDTH = 0.62, 0.1, 0.25, 10.4  # inches


def draw(path: Path = PICTURE) -> None:
    """Write the picture: a row of boxes for each row of ORDER, as wide as their names, colored by what they are for."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    known = parts()
    rows = [[known[name] for name in names.split() if name in known] for _, names in ORDER]
    rows = [split for row in rows for split in _lines_of(row) if split]
    late = [f"{a} → {b}: {why}" for (a, b), why in EXCEPTIONS.items()]
    height = len(rows) * (ROW + GAP) + 1.3 + 0.2 * len(late)
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    axes.text(LEFT, 0.3, "A module imports only from its own room and the rooms above it", fontsize=12, weight="bold")
    for at, (purpose, color) in enumerate(COLORS.items()):
        axes.add_patch(FancyBboxPatch((LEFT + 2.0 * at, 0.48), 0.22, 0.16, "round,pad=0.02", fc=color, ec="none"))
        axes.text(LEFT + 2.0 * at + 0.32, 0.56, purpose, fontsize=10, va="center")
    for index, row in enumerate(rows):
        x, y = LEFT, 0.85 + index * (ROW + GAP)
        for part in row:
            width = _box_width(part)
            box = FancyBboxPatch(
                (x, y), width, ROW, "round,pad=0,rounding_size=0.07", fc=COLORS[part.purpose], ec="#333333", lw=0.8
            )
            axes.add_patch(box)
            axes.text(x + width / 2, y + 0.24, _title(part), fontsize=10.5, ha="center", va="center", weight="bold")
            size = f"about {rounded(part.lines):,} lines"
            count = size if part.modules == 1 else f"{size}, {rounded(part.modules)} modules"
            axes.text(x + width / 2, y + 0.45, count, fontsize=8, ha="center", va="center")
            x += width + GAP
        if len(row) == 1 and row[0].about:
            lines = wrap(row[0].about, int((WIDTH - x - LEFT) / 0.072))
            axes.text(x + 0.1, y + ROW / 2, "\n".join(lines[:2]), fontsize=8.5, va="center", color="#333333")
    notes = "\n".join(["Imported late, against the order:", *late])
    axes.text(LEFT, height - 0.2, notes, fontsize=8, va="bottom", linespacing=1.4)
    with rc_context({"svg.hashsalt": "course", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def rounded(count: int) -> int:
    """A count with its first two digits, so that the picture stays true while the code changes."""
    return int(f"{count:.1e}".partition("e")[0].replace(".", "")) * 10 ** (len(str(count)) - 2) if count > 9 else count


def _title(part: Part) -> str:
    return part.name.replace(".", "/")


def _box_width(part: Part) -> float:
    return max(2.0 if part.modules > 1 else 0.95, 0.115 * len(_title(part)) + 0.2)


def _lines_of(row: Sequence[Part]) -> list[list[Part]]:
    """A row of parts broken where the picture ends."""
    broken: list[list[Part]] = [[]]
    x = LEFT
    for part in row:
        if x + _box_width(part) > WIDTH - LEFT:
            broken.append([])
            x = LEFT
        broken[-1].append(part)
        x += _box_width(part) + GAP
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the picture, and print a line for each part."""
    parser = argparse.ArgumentParser(
        prog="course bench architecture", description="Draw the parts of the library from its code."
    )
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture to write")
    given = parser.parse_args(arguments)
    for part in parts().values():
        print(
            f"{part.name:22} {part.lines:7,} lines {part.modules:4} modules   imports "
            f"{', '.join(sorted(part.imports)) or 'nothing'}"
        )
    draw(given.out)
    print(f"drawn: {given.out}")
    return 0
