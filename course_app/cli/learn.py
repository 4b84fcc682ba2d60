"""`course learn`: released chapters into the work folder, then JupyterLab on it."""

import os

import typer

from course_app.cli.console import examples

EXAMPLES = examples(
    "course learn                             opens the chapter that you checked last, at first 00_start_here",
    "course learn 06                          opens chapter 06",
    "course learn --no-browser --port 8899    prints the address instead of opening a browser",
    "course learn --ip 0.0.0.0                JupyterLab's own flags pass through (jupyter lab --help)",
)


def learn(context: typer.Context) -> None:
    """Open the course in JupyterLab.

    It opens the chapter that you name, else the one whose exercise you checked last. Released chapters are copied to
    work/, where your work is and is never overwritten. A chapter that you changed is kept when a newer release comes,
    and a line says so. Flags that are not the course's own go to JupyterLab.
    """
    from course_app.learner import lab, progress, work

    flags = list(context.args)
    lab.check_port(flags)
    where = work.folders()
    said = work.copy_chapters(where)
    for line in said:
        typer.echo(line)
    known = work.chapters(where)
    at = progress.latest_chapter(progress.load(where.work))
    wanted = next((chapter for chapter in known if chapter.number == at), known[0])
    if flags and not flags[0].startswith("-"):
        wanted = work.find_chapter(flags.pop(0), where)
    command = lab.lab_command(where, wanted.mine, flags)
    lab.hand_over(command, lab.lab_environment(where, dict(os.environ)), where.work)
