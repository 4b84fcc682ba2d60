"""`course update`: a newer release of a chapter with the learner's work in it."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.console import examples
from course_lib.installation import called_here

if TYPE_CHECKING:
    from course_app.learner.work import Updated

EXAMPLES = examples(
    "course update                            which chapters have a newer release",
    "course update 06                         chapter 06, with your answers and your own cells in it",
    "course update --all                      every chapter that has one",
)


def update(
    targets: Annotated[list[str] | None, typer.Argument(help="Chapters, such as 06.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every chapter that has a newer release.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Move your work into a newer release of a chapter.

    Your answers and your own cells move into the newer release; what moved is listed. The file as it was stays beside
    the new one, with the date in its name. Nothing that you wrote is ever lost.
    """
    from course_app.learner import work

    where = work.folders()
    work.require(where.root, "notebooks", "Updating a chapter")
    newest = "Your chapters are those of the newest release."
    if not any(chapter.mine for chapter in work.chapters(where)):
        newest = called_here(f"No chapter is in {where.work} yet. `./course learn` lays them out.")
    waiting = [chapter.number for chapter in work.newer(where)]
    if not targets and not all_:
        if as_json:
            typer.echo(json.dumps({"newer": waiting}))
        elif waiting:
            one = called_here(f"`./course update {waiting[0]}`")
            typer.echo(f"Newer releases: {', '.join(waiting)}. {one} brings one in, --all all of them.")
        else:
            typer.echo(newest)
        return
    done = [work.update(number, where) for number in (waiting if all_ else targets or [])]
    if as_json:
        typer.echo(json.dumps({"updated": [_plain(each) for each in done]}, indent=1))
        return
    for each in done:
        _tell(each)
    if not done:
        typer.echo(newest)


def _plain(each: "Updated") -> dict:
    merged = each.merged
    told = {"kept": merged.kept, "moved": merged.moved, "notes": merged.notes} if merged else {}
    return {
        "chapter": each.chapter,
        "updated": merged is not None,
        "path": str(each.path),
        "old": str(each.old or ""),
        **told,
    }


def _tell(each: "Updated") -> None:
    if each.merged is None or each.old is None:
        typer.echo(f"{each.chapter}: already the newest release.")
        return
    answers = ", ".join(each.merged.kept) or "none yet"
    typer.echo(f"{each.chapter}: updated. Your answers in it: {answers}.")
    for sentence in (*each.merged.moved, *each.merged.notes, *filter(None, [each.note])):
        typer.echo(f"  - {sentence}")
    typer.echo(
        f"  The file as it was: {each.old.name}, beside it. If JupyterLab has it open: File → Reload "
        f"Notebook from Disk."
    )
