"""The command line: `course --help`. One command, one module; each loads what it needs only when it runs."""

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from course_app.cli import (
    bench,
    certificate,
    check,
    class_,
    doctor,
    drill,
    evidence,
    exercise,
    explain,
    learn,
    meter,
    mine,
    plan,
    progress,
    release,
    site,
    submit,
    test,
    update,
)
from course_app.cli import run as run_
from course_app.cli.console import examples, words_of
from course_lib.messages import Trouble, in_words
from course_runs import processes

STAFF = "For instructors and contributors"
IN_A_CLASS = "For students of a class"
ON_GPUS = "Real runs, on this CPU or on GPUs"
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="course",
    help="Training at Scale: how large models are trained on many accelerators, as notebooks that grade what "
    "your code does.",
    epilog=examples("course learn", "course check 01", "course COMMAND --help   (every command has examples)"),
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from course_lib import __version__

        typer.echo(f"Training at Scale {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_LEARNER = (
    learn.learn,
    check.check,
    update.update,
    progress.progress,
    drill.drill,
    mine.mine,
    certificate.certificate,
    doctor.doctor,
)
_STAFF = (test.test, release.release, bench.bench, site.site)
_CLASS = (submit.submit,)
_RUNS = (plan.plan, meter.meter, run_.run, explain.explain)
_PASSING_ON = (learn.learn, test.test)  # their further flags go to JupyterLab or pytest
_USAGE: dict[Callable[..., None], str] = {
    learn.learn: "[CHAPTER] [OPTIONS]",
    test.test: "[CHAPTER]... [OPTIONS]",
}  # chapters come first among their flags
_OF_PROGRAMS = (bench.bench, run_.run)  # flags after a program's name are the program's, `--help` as well

_PANELS: dict[Callable[..., None], str] = {
    **dict.fromkeys(_STAFF, STAFF),
    **dict.fromkeys(_CLASS, IN_A_CLASS),
    **dict.fromkeys(_RUNS, ON_GPUS),
}

for command in (*_LEARNER, *_RUNS, *_STAFF, *_CLASS):
    app.command(
        command.__name__,
        help=words_of(command),
        epilog=sys.modules[command.__module__].EXAMPLES,
        options_metavar=_USAGE.get(command, "[OPTIONS]"),
        rich_help_panel=_PANELS.get(command),
        context_settings=_PASS_ON | {"help_option_names": []}
        if command in _OF_PROGRAMS
        else _PASS_ON | {"allow_interspersed_args": False}
        if command is meter.meter  # what follows the script is the script's
        else _PASS_ON
        if command in _PASSING_ON
        else None,
    )(command)
app.add_typer(evidence.app, rich_help_panel=ON_GPUS)
for group in (class_.app, exercise.app):
    app.add_typer(group, rich_help_panel=STAFF)


def run(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code, non-zero where what it reports has failed."""
    try:
        with processes.sigterm_as_exit():
            app(arguments, prog_name="course")
    except Trouble as trouble:
        print(f"course: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `course progress | head`
        sys.stderr.close()
        return 141
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) and (
            "the disk is full",
            "free some room, then the same command again",
        )
        known = full or in_words(str(error)) or (error.filename and (error.strerror, "name another file or folder"))
        if not known:
            raise
        print(
            f"course: {error.filename2 or error.filename or 'writing'}: {known[0]}.\n  Way out: {known[1]}",
            file=sys.stderr,
        )
        return 1
    except Exception as error:
        if (known := _of_a_gradebook(error)) is None:
            raise
        print(f"course: {known[0]}.\n  Way out: {known[1]}", file=sys.stderr)
        return 1
    except SystemExit as end:
        if isinstance(end, processes.Terminated):
            processes.kill(processes.descendants(os.getpid()))
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _of_a_gradebook(error: Exception) -> tuple[str, str] | None:
    """What a database's refusal means, and the way out; None for any other error."""
    if not type(error).__module__.startswith("sqlalchemy."):
        return None
    said = str(error).splitlines()[0]
    if "locked" in said or "could not obtain lock" in said:
        return (
            "the gradebook is locked by another program (formgrader, a grading run, a backup?)",
            "wait for it, then the same command again",
        )
    if "disk is full" in said or "No space left" in said:
        return "there is no room left for the gradebook", "free some room, then the same command again"
    return f"the gradebook cannot be used: {said}", "see whether the database runs, and db_url in class.toml"
