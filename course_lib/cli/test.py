"""`course test`: the whole suite, what CI runs."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from course_lib.cli.words import examples, part

EXAMPLES = examples(
    "course test                              everything: tests on two processes, then ruff",
    "course test -k merge -x                  pytest's own flags pass through",
    "course test tests/test_memory.py         one file",
    "course test --kill-matrix                every wrong answer against its exercise, as a table",
)


def test(
    context: typer.Context,
    kill_matrix: Annotated[
        bool, typer.Option("--kill-matrix", help="Print which verdict rejects which wrong answer.")
    ] = False,
) -> None:
    """Run the whole test suite and the linter.

    Installs the test tools on first use. Any flags or paths go to pytest; the linter then stays out of it.
    """
    from course_lib.install import ROOT, add_group

    add_group("test")
    if kill_matrix:
        matrix = part("course_lib.exercises.killmatrix", "the kill matrix")
        raise typer.Exit(int(matrix.main() or 0))
    flags = list(context.args)
    chosen = [flag for flag in flags if not flag.startswith("-") and os.path.exists(flag.split("::")[0])]
    workers = (
        []
        if any(flag.startswith(("-n", "--numprocesses", "--pdb", "-p")) for flag in flags)
        else ["-n", "2", "--dist", "worksteal"]  # chapters take minutes, most tests milliseconds
    )
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    folder = None if chosen else ROOT
    tests = subprocess.call(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-c",
            str(ROOT / "pyproject.toml"),
            "--rootdir",
            str(ROOT),
            *workers,
            *flags,
        ],
        cwd=folder,
        env=environment,
    )
    lint = subprocess.call([sys.executable, "-P", "-m", "ruff", "check", "--quiet", "."], cwd=ROOT) if not flags else 0
    raise typer.Exit(tests or lint)
