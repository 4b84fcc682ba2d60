"""`course explain`: what the recordings of a real job say, and which chapter explains it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.messages import count_text

if TYPE_CHECKING:
    from course_app.recordings.explaining import Explained
    from course_app.recordings.report import Finding, Report

EXAMPLES = examples(
    "course explain nccl_trace_rank_*      flight recorders: who waits for whom",
    "course explain traces/ --html t.html  torch.profiler's traces: what is exposed",
    "course explain dump_snapshot.pickle   a GPU's memory: what fills it",
    "course explain slurm-4711.out --json  a job's log: who failed first",
)


def explain(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Dumps, traces (.json, .json.gz), snapshots, logs; or a folder of them."),
    ],
    page: Annotated[
        Path | None, typer.Option("--html", help="Write a page with pictures, to send to a colleague.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Explain what a real job left behind: who waits, what is exposed, what fills the memory, who failed first.

    Files of one kind are explained together, so give those of all ranks. Nothing in a file is run: a pickle that would
    import or call something is refused. Exits with 1 if a file cannot be read, and says what was found in it.
    """
    recordings = part("course_app.recordings", "explaining recordings")
    found = recordings.explain(files)
    if page is not None and found.reports:
        page.write_text(part("course_app.explain_page", "the page").page(found.reports), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(_as_json(found), indent=1))
    else:
        for report in found.reports:
            typer.echo("\n".join([*lines(report), ""]))
        if page is not None and found.reports:
            typer.echo(f"The page with pictures: {page}\n")
    for name, trouble in found.refused.items():
        typer.echo(f"{name} {trouble}", err=True)
    if found.refused:
        raise typer.Exit(1)


def lines(report: "Report") -> list[str]:
    """A report as lines of text: findings by chapter number, notes, and the chapters' names."""
    said = [f"{heading(report)}"]
    for finding in report.findings:
        said.append(f"  {finding.chapter}  {finding.what}")
        said += [f"      {cause(finding)}"] if finding.fault else []
    said += [f"  Note: {note}" for note in report.notes]
    return [*said, f"  Chapters: {'; '.join(chapters(report))}."]


def heading(report: "Report") -> str:
    """What was read: the kind, and the files."""
    names = [Path(name).name for name in report.files]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"{report.kind[0].upper()}{report.kind[1:]}, {count_text(len(names), 'file')} ({shown})"


def cause(finding: "Finding") -> str:
    """The cause that a finding suggests, and what to look at."""
    fault = part("course_chapters.ch17.diagnosis", "explaining recordings").FAULTS[finding.fault]
    return f"Possible cause ({fault.name}): {fault.cause} Look at {fault.look}."


def chapters(report: "Report") -> list[str]:
    """The chapters that explain a report, with the commands that open them."""
    course = part("course_chapters.course", "explaining recordings")
    numbers = dict.fromkeys(finding.chapter for finding in report.findings)
    return [f"{course.chapter(number).title} (course learn {number})" for number in numbers]


def _as_json(found: "Explained") -> dict[str, object]:
    return {
        "reports": [
            {
                "kind": report.kind,
                "files": report.files,
                "findings": [{"what": one.what, "chapter": one.chapter, "fault": one.fault} for one in report.findings],
                "notes": report.notes,
                "numbers": report.numbers,
            }
            for report in found.reports
        ],
        "refused": {name: {"found": one.problem, "way_out": one.way_out} for name, one in found.refused.items()},
    }
