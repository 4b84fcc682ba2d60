"""`course mine`: a trainer of one's own, assembled from passed answers."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from course_app.cli.console import examples, part
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_app.own_trainer.axes import Axis
    from course_app.own_trainer.closing import Compared
    from course_app.own_trainer.processes import Timed
    from course_app.own_trainer.trials import Assembly

EXAMPLES = examples(
    "course mine                                  whose part is whose; every axis on 1, 2 and 4 ranks",
    "course mine tensor pipeline --ranks 2,4      two axes only",
    "course mine data --processes --ranks 2,4     also on processes of this machine, by torchrun: losses and speed",
    "course mine sharded --gpus --ranks 8         on this machine's GPUs",
    'course mine --out ~/trainer --name "Ada"     a folder to take away, with a README',
    "course mine --json                           for a program",
)


class TimedRow(NamedTuple):
    """An axis on so many real processes, with the learner's parts or the course's."""

    axis: str
    ranks: int
    parts: str
    timed: "Timed"
    difference: float | None
    reason: str


def mine(
    axes: Annotated[
        list[str] | None,
        typer.Argument(
            help="What the ranks share: data, half, zero, sharded, tensor, pipeline, context, experts, mesh, "
            "checkpoint; all by default."
        ),
    ] = None,
    ranks: Annotated[str, typer.Option("--ranks", help="Numbers of ranks, separated by commas.")] = "1,2,4",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Updates of each run.")] = 6,
    processes: Annotated[
        bool, typer.Option("--processes", help="Also on as many processes of this machine, by torchrun.")
    ] = False,
    gpus: Annotated[bool, typer.Option("--gpus", help="Also on this machine's GPUs, by torchrun.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the trainer to this folder.")] = None,
    name: Annotated[str, typer.Option("--name", help="Your name, for the README of that folder.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Assemble your own trainer from the exercises that you passed.

    Where you have no part yet, the course's own part is used. The losses of every run are compared with the library's,
    and a part of yours that does not fit is named and left out. Exits with 1 if there is such a part, or if a run's
    losses differ.
    """
    answers = part("course_app.own_trainer.answers", "your own trainer")
    trials = part("course_app.own_trainer.trials", "your own trainer")
    from course_app.learner import work

    chosen, counts = _axes(axes or []), _counts(ranks)
    parts = answers.collected(work.folders())
    with tempfile.TemporaryDirectory() as folder:
        assembly = trials.Assembly(parts, Path(folder))
        compared, differs = _trained(assembly, chosen, counts, steps)
        timed = _timed(assembly, chosen, counts, steps, gpus) if processes or gpus else []
        _report(assembly, compared, timed, as_json)
        if out is not None:
            export = part("course_app.own_trainer.export", "your own trainer")
            written = export.export(assembly.parts, out.expanduser(), name, [each.yours for each in compared])
            typer.echo(f"Written to {written}; its README says how to run it.", err=as_json)
    raise typer.Exit(1 if differs or any(row.reason for row in timed) or assembly.left_out else 0)


def _axes(names: list[str]) -> "list[Axis]":
    known = part("course_app.own_trainer.axes", "your own trainer").AXES
    if any(name.isdigit() for name in names):
        raise Trouble(
            "How many ranks or processes there are is said by --ranks.", "give, as in `--processes --ranks 2,4`"
        )
    if unknown := [name for name in names if name not in known]:
        raise Trouble(f"There is no axis {unknown[0]!r}.", f"choose from {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def _counts(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip() in ("1", "2", "4", "8") for word in words):
        raise Trouble(
            f"--ranks {text}: eight sequences are shared evenly.", "give some of 1, 2, 4 and 8, as in --ranks 1,2,4"
        )
    return [int(word) for word in words]


def _trained(assembly: "Assembly", axes: "list[Axis]", counts: list[int], steps: int) -> "tuple[list[Compared], bool]":
    """Every run on the metered cluster, and whether one of them is not the library's training."""
    from course_app.own_trainer.axes import AXES
    from course_app.own_trainer.closing import compared
    from course_app.own_trainer.trials import objection

    found = [
        each
        for axis in axes
        for each in compared(assembly, axis, [count for count in counts if count <= axis.most_ranks], steps)
    ]
    return found, any(objection(each.yours, AXES[each.yours.axis]) for each in found)


def _timed(assembly: "Assembly", axes: "list[Axis]", counts: list[int], steps: int, gpus: bool) -> list[TimedRow]:
    """Every axis on real processes, with the learner's parts and with the course's, each held against the library."""
    from dataclasses import replace

    from course_app.own_trainer.export import export
    from course_app.own_trainer.processes import timed
    from course_app.own_trainer.trials import Trial, library_losses, objection

    if gpus:
        import torch

        if not torch.cuda.is_available():
            raise Trouble("This machine has no GPU that torch can use.", "leave --gpus out, or give --processes")
    home, rows = export(assembly.parts, assembly.folder / "exported"), []
    for axis in axes:
        s = axis.settings(max(steps, 3))
        want = library_losses(replace(s, stop=0))
        own = any(assembly.parts[file].yours for file in axis.parts)
        for count in [count for count in counts if count <= axis.most_ranks]:
            for whose, folder in [("yours", assembly.mine)] * own + [("the course's", assembly.course)]:
                got = timed(axis, count, home, folder, s, gpus)
                made = Trial(axis=axis.name, ranks=count, losses=got.losses, library=want, error=got.error)
                difference = made.difference if got.losses else None
                rows.append(TimedRow(axis.name, count, whose, got, difference, objection(made, axis)))
    return rows


def _report(assembly: "Assembly", compared: "list[Compared]", timed: Sequence[TimedRow], as_json: bool) -> None:
    from dataclasses import asdict

    from course_app.own_trainer import report
    from course_app.own_trainer.export import record

    if as_json:
        runs = [{**asdict(each.yours), "course_sent": each.course and each.course.sent} for each in compared]
        real = [{**row._asdict(), "timed": asdict(row.timed)} for row in timed]
        typer.echo(json.dumps({**record(assembly.parts, ""), "runs": runs, "processes": real}, indent=1))
        return
    _table(report.part_rows(assembly.parts))
    typer.echo(report.summary(assembly.parts) + "\n")
    _table(report.trial_rows(compared))
    if timed:
        typer.echo("")
        _table([_timed_row(row) for row in timed])


def _timed_row(row: TimedRow) -> dict[str, str]:
    got = row.timed
    return {
        "axis": row.axis,
        "processes": str(row.ranks),
        "parts": row.parts,
        "last loss": f"{got.losses[-1]:.4f}" if got.losses else "—",
        "largest difference from the library, nats": row.reason or f"{row.difference:.0e}",
        "tokens/s, fastest step": f"{got.tokens_per_second:,.0f}" if got.losses else "—",
        "on": got.device,
    }


def _table(rows: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*(rows[0] if rows else ()), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    console = Console(highlight=False)
    console.width = max(console.width, 100)
    console.print(table)
