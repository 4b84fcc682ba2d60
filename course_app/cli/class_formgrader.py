"""`course class formgrader`: JupyterLab on the class, with nbgrader's formgrader in it."""

import os
import sys
from pathlib import Path

import typer

from course_app.cli.class_words import HERE, Folder, opened
from course_app.cli.console import examples

EXAMPLES = examples(
    "course class formgrader                          opens a browser: menu Nbgrader, then Formgrader",
    "course class formgrader --no-browser --port 8899   prints the address instead",
)


def formgrader(context: typer.Context, folder: Folder = HERE) -> None:
    """Open JupyterLab on the class: look at graded notebooks, grade by hand, write comments.

    Formgrader and these commands share the folder and the gradebook; what you set by hand stays when work is graded
    again. Flags that are not the course's own go to JupyterLab.
    """
    from course_app.learner import lab

    place = opened(folder)
    flags = list(context.args)
    lab.check_port(flags)
    typer.echo(f"{place.settings.name}: in JupyterLab, menu Nbgrader, then Formgrader. Ctrl-C here ends it.")
    lab.hand_over(lab_command(place.root, flags), lab_environment(dict(os.environ)), place.root)


def lab_command(root: Path, flags: list[str]) -> list[str]:
    """The command that opens JupyterLab on a class's folder; later flags win over ours."""
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        sys.executable,
        "-P",
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={root}",
        "--LabApp.default_url=/lab",
        *as_root,
        *flags,
    ]


def lab_environment(environment: dict[str, str]) -> dict[str, str]:
    """This environment's variables, its own programs first (nbgrader starts some by name), and JupyterLab's
    settings."""
    from course_app.learner import lab

    path = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    ours = {"PATH": path, "JUPYTER_CONFIG_PATH": lab.config_path(environment, lab.DEFAULTS)}
    return {name: value for name, value in environment.items() if name != "PYTHONHOME"} | ours
