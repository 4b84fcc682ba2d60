"""The parts of the library, their order and what they import, read from the code; and the picture of it in `docs/architecture.svg`.

`./course bench architecture` draws the picture again. `ORDER` is the rule that a test holds: a module imports only from its own
row or from rows above it.
"""

import argparse
import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import wrap

from course_lib.folders import ROOT

LIBRARY = ROOT / "course_lib"
PICTURE = ROOT / "docs" / "architecture.svg"

TAUGHT, SHOWN, ASKED, RUN = "taught", "shown", "asked and judged", "runs the course"

ORDER: Sequence[
    tuple[str, str]
] = (  # (what a row is for, its parts): a part imports from its own row and from those above it
    (RUN, "install lazy secrecy arithmetic"),
    (TAUGHT, "units facts records"),
    (TAUGHT, "memory compute walls roofline accounting precision optimizer packing scaling_laws"),
    (TAUGHT, "cluster"),
    (
        TAUGHT,
        "text transformer training ledger collectives parity overlap data_parallel sharding tensor_parallel context_parallel expert_parallel",
    ),
    (TAUGHT, "schedules timeline pipeline mesh planner faults checkpoint serving"),
    (TAUGHT, "capstone diagnosis"),
    (TAUGHT, "runs"),
    (SHOWN, "figures widgets"),
    (ASKED, "exercises"),
    (ASKED, "judging"),
    (ASKED, "judges"),
    (SHOWN, "chapters"),
    (RUN, "learner"),
    (RUN, "notebook own_trainer"),
    (RUN, "grading"),
    (ASKED, "exercises.killmatrix"),
    (ASKED, "exercises.mutation"),
    (RUN, "benchmarks site"),
    (RUN, "cli"),
    (RUN, "__main__"),
)
RANK: Mapping[str, int] = {name: rank for rank, (_, parts) in enumerate(ORDER) for name in parts.split()}

EXCEPTIONS: Mapping[tuple[str, str], str] = {  # (part, a later one that it imports all the same) -> why
    ("cluster", "figures"): "Run.show draws when it is called",
    ("judging", "grading"): "shipped answers run as those of learners do",
    ("exercises", "judging"): "a drill asks for its key when it is answered",
    ("notebook", "grading"): "a check asks the judge when it is called; a student's bundle has no judge",
    ("", "notebook"): "the learner's names are resolved on first use",
}


def module_name(path: Path) -> str:
    """The dotted name of a file below the library; "" is the library itself."""
    names = list(path.relative_to(LIBRARY).with_suffix("").parts)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def part_of(module: str) -> str:
    """The entry of ORDER that a module belongs to, the longest that fits; a chapter's judges have an entry of their own."""
    names = module.split(".")
    if "judges" in names:
        return "judges"
    candidates = (".".join(names[:count]) for count in range(len(names), 0, -1))
    return next((name for name in candidates if name in RANK), module)


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules of the course that a file imports, at its top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name.removeprefix("course_lib.") for name in found if name.startswith("course_lib."))


ABOUT = {
    "judges": "A chapter's judges: the cases of each exercise, its oracle and its verdicts. No worker can import them"
}


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
    files: dict[str, list[Path]] = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        if module_name(path):
            files.setdefault(part_of(module_name(path)), []).append(path)
    built = {}
    for name in sorted(files, key=lambda name: RANK.get(name, -1)):
        used = {part_of(module) for path in files[name] for module in imports(path)} - {name}
        built[name] = Part(
            name=name,
            purpose=ORDER[RANK[name]][0],
            modules=len(files[name]),
            lines=sum(path.read_text(encoding="utf-8").count("\n") for path in files[name]),
            imports=frozenset(used & set(RANK)),
            about=ABOUT.get(name) or _about(files[name][0]),
        )
    return built


def _about(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].split(". ")[0].rstrip(".")


COLORS = {TAUGHT: "#56B4E9", SHOWN: "#009E73", ASKED: "#E69F00", RUN: "#B9B9B9"}
ROW, GAP, LEFT, WIDTH = 0.62, 0.1, 0.25, 10.4  # inches


def draw(path: Path = PICTURE) -> None:
    """Write the picture: a row of boxes for each row of ORDER, as wide as their names, colored by what they are for."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    known = parts()
    rows = [[known[name] for name in names.split() if name in known] for _, names in ORDER]
    rows = [split for row in rows for split in _lines_of(row) if split]
    late = [f"{a} → {b}: {why}" for (a, b), why in EXCEPTIONS.items() if a]
    height = len(rows) * (ROW + GAP) + 1.3 + 0.2 * len(late)
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    axes.text(
        LEFT,
        0.3,
        "course_lib: a module imports only from its own row and the rows above it",
        fontsize=12,
        weight="bold",
    )
    for at, (purpose, color) in enumerate(COLORS.items()):
        axes.add_patch(FancyBboxPatch((LEFT + 2.4 * at, 0.48), 0.22, 0.16, "round,pad=0.02", fc=color, ec="none"))
        axes.text(LEFT + 2.4 * at + 0.32, 0.56, purpose, fontsize=10, va="center")
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
    return "exercises/chNN/judges" if part.name == "judges" else part.name.replace(".", "/")


def _box_width(part: Part) -> float:
    return max(1.65 if part.modules > 1 else 0.95, 0.115 * len(_title(part)) + 0.2)


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
            f"{part.name:22} {part.lines:7,} lines {part.modules:4} modules   imports {', '.join(sorted(part.imports)) or 'nothing'}"
        )
    draw(given.out)
    print(f"drawn: {given.out}")
    return 0
