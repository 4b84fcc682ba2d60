"""Tables of the README, made from the tour's plan, the facts and the recorded evidence:
`python -m course_runs.tables README.md`."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from course_runs import budget as money
from course_runs import reading, tour

DEVICE = "H100 SXM"
RUNGS = (1, 2, 8)  # GPUs of one server
NODES, EACH = 2, 8  # what cloud/two_nodes.sbatch starts
TWO_NODES = ("links", "hsdp")  # its programs, by the stages that they are


class Rung(TypedDict):
    """What a machine of the ladder runs, in minutes and dollars."""

    machine: str
    gpus: int
    stages: tuple[str, ...]
    minutes: float
    dollars: float


def ladder(price: float | None = None) -> list[Rung]:
    """What each rung of the ladder runs, in minutes and dollars: one server of 1, 2 and 8 GPUs, then two servers.

    Minutes are those that the tour expects of its stages; the price of a GPU's hour is the facts', or yours.
    """
    hour = money.usual_price(DEVICE)[0] if price is None else price
    rungs = [(f"{gpus} × {DEVICE}", gpus, tour.stages(gpus, False)) for gpus in RUNGS]
    both = [stage for stage in tour.stages(EACH, False) if stage.name in TWO_NODES]
    rungs.append((f"{NODES} servers of {EACH}", NODES * EACH, both))
    return [_rung(machine, gpus, stages, hour) for machine, gpus, stages in rungs]


def _rung(machine: str, gpus: int, stages: Sequence[tour.Stage], hour: float) -> Rung:
    minutes = sum(stage.minutes for stage in stages)
    return {
        "machine": machine,
        "gpus": gpus,
        "stages": tuple(stage.name for stage in stages),
        "minutes": minutes,
        "dollars": money.dollars(60 * minutes, gpus, hour),
    }


def ladder_table() -> str:
    """The ladder in Markdown; each rung names what the one before it did not have."""
    lines = ["| Rent | Minutes | Dollars | What it adds |", "|---|---|---|---|"]
    known: set[str] = set()
    for row in ladder():
        new = [name for name in row["stages"] if name not in known] or [
            "the same across servers: " + ", ".join(row["stages"])
        ]
        known |= set(row["stages"])
        lines.append(f"| {row['machine']} | {row['minutes']:.0f} | {row['dollars']:,.2f} | {', '.join(new)} |")
    hour, source = money.usual_price(DEVICE)
    return "\n".join(
        [
            *lines,
            "",
            f"At ${hour:.2f} per GPU and hour, {source}; the time to start the machine is not included, and "
            f"is billed too.",
        ]
    )


def hardware_table() -> str:
    """What ran on which hardware, in Markdown, from the recorded evidence; that nothing ran on GPUs is a row too."""
    lines, rows = ["| Hardware | Processes | What ran | Last |", "|---|---|---|---|"], reading.hardware_rows()
    for row in sorted(rows, key=lambda row: (row["hardware"], row["processes"])):
        count = f"{row['processes']}, {row['backend']}" if row["backend"] else f"{row['processes']}"
        lines.append(
            f"| {row['hardware']}, torch {row['torch']} | {count} | {', '.join(row['runs'])} | {row['when']} |"
        )
    if not any("×" in row["hardware"] for row in rows):
        lines.append(
            "| GPUs | – | nothing yet: none was at hand. Analyses of many GPUs use published runs, and say so | – |"
        )
    return "\n".join(lines)


TABLES = {"ladder": ladder_table, "hardware": hardware_table}


def filled(text: str) -> str:
    """The text with each table between its marks made anew."""
    for name, make in TABLES.items():
        begin, end = f"<!-- table: {name} -->\n", f"\n<!-- end: {name} -->"
        parts = re.split(f"{begin}.*?{end}", text, flags=re.DOTALL)
        text = f"{begin}{make() if len(parts) > 1 else ''}{end}".join(parts)
    return text


def main(paths: Sequence[str]) -> int:
    """Write the tables into the files that have their marks; without a file, print them."""
    for path in map(Path, paths):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    if not paths:
        print("\n\n".join(make() for make in TABLES.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
