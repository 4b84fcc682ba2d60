"""`course test`: the test suite. CI runs it without arguments."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import Annotated

import typer

from course_app.cli.console import examples, part

EXAMPLES = examples(
    "course test                              the quick tests, in a few minutes, then the linter",
    "course test --slower                     what CI runs after them: browsers, workers, attacks, real runs, whole "
    "notebooks, types",
    "course test 06                           the quick tests of chapter 06; course test 06 --slower the others",
    "course test --everything                 leave no slow check to a later run: before a release",
    "course test --since v1.2                 count what changed since a commit as changed",
    "course test -k merge -x                  pytest's own flags pass through",
    "course test tests/test_memory.py         one file",
    "course test --kill-matrix                every wrong answer against its exercise, as a table",
    "course test --kill-matrix --exercise ring-shift    of one exercise; --chapter 06 of one chapter",
    "course test --mutants --chapter 06       every right answer with one small change, which must lose points",
)


def test(
    context: typer.Context,
    kill_matrix: Annotated[
        bool, typer.Option("--kill-matrix", help="Print which verdict rejects which wrong answer.")
    ] = False,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Print which small changes of a right answer keep full points.")
    ] = False,
) -> None:
    """Run the test suite and the linter.

    Every shipped answer is judged each time, and everything that is quick is run. CI then runs --slower: browsers,
    notebooks that run whole, answers judged in worker processes, attacks on the grader, real runs, and the type checker
    beside them. Of these, some rotate: a sixth of them runs, another one with each commit, and so do those whose code
    changed since the branch left main (on main itself: in the last day; or since the commit given with --since). A run
    ends with its slowest parts; --everything leaves nothing out, and single files run whole.

    Two digits name a chapter and come first: its quick tests, or with --slower its slower ones. There all its answers
    are judged in a worker process too, and small changes of the right answers to four exercises must lose points; with
    --everything this holds for all exercises. Any other flags or paths go to pytest. With any of them neither linter
    nor type checker runs.

    Installs the test tools on first use.
    """
    from course_app.install import add_group
    from course_chapters import course
    from course_lib.folders import ROOT, require
    from course_lib.messages import Trouble
    from course_runs.processes import call

    require(ROOT, "tests", "The test suite")
    chapters = list(takewhile(re.compile(r"\d\d").fullmatch, context.args))
    if unknown := [chapter for chapter in chapters if chapter not in course.chapters()]:
        raise Trouble(f"There is no chapter {', '.join(unknown)}.", f"choose from {', '.join(course.chapters())}")
    for group in ("test", "site"):
        add_group(group)
    if kill_matrix:
        matrix = part("course_grader.bank.kill_matrix", "the kill matrix")
        raise typer.Exit(int(matrix.main(context.args) or 0))
    if mutants:
        mutation = part("course_grader.bank.mutation", "the mutation table")
        raise typer.Exit(int(mutation.main(context.args) or 0))
    flags = [*(f"--chapter={chapter}" for chapter in chapters), *context.args[len(chapters) :]]
    chosen = [flag for flag in flags if not flag.startswith("-") and os.path.exists(flag.split("::")[0])]
    processes = min(os.cpu_count() or 1, 4) + (not chapters)  # one more than cores: some tests mostly wait
    workers = (
        []
        if any(flag.startswith(("-n", "--numprocesses", "--pdb", "-p")) for flag in flags)
        else ["-n", str(processes), "--dist", "worksteal"]  # chapters take a minute, most tests milliseconds
    )
    pytest = ["pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *workers, *flags]
    whole = not flags or flags in (["--everything"], ["--slower"])
    with ThreadPoolExecutor(1) as beside:  # a minute without its cache, while tests wait
        typed = beside.submit(call, [sys.executable, "-P", "-m", "mypy"], cwd=ROOT) if whole and flags else None
        tests = call(
            [sys.executable, "-P", "-m", *pytest],
            cwd=None if chosen else ROOT,
            env={"OMP_NUM_THREADS": "1", **os.environ},
        )
        lint = call([sys.executable, "-P", "-m", "ruff", "check", "--quiet", "."], cwd=ROOT) if whole else 0
        types = typed.result() if typed else 0
    if failed := [what for what, code in (("tests", tests), ("linter", lint), ("type checker", types)) if code]:
        typer.echo(f"Failed: {', '.join(failed)}.", err=True)
    raise typer.Exit(tests or lint or types)
