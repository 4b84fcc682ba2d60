"""`course class`: a class from its roster to its grades."""

import sys

import typer

from course_app.cli import (
    class_collect,
    class_export,
    class_extend,
    class_feedback,
    class_formgrader,
    class_grade,
    class_init,
    class_push,
    class_regrade,
    class_release,
    class_report,
    class_roster,
    class_selftest,
    class_status,
)
from course_app.cli.console import examples, words_of

app = typer.Typer(
    name="class",
    help="Teach a class: release chapters, collect and grade submissions, return feedback.",
    epilog=examples(
        "course class init autumn-26 --roster canvas.csv",
        "course class release 06 --due 2026-10-12",
        "course class collect submissions.zip",
        "course class grade",
        "course class export 06 --to canvas",
        "course class COMMAND --help     (every command has examples)",
    ),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = (
    class_init.init,
    class_roster.roster,
    class_release.release,
    class_collect.collect,
    class_status.status,
    class_grade.grade,
    class_regrade.regrade,
    class_extend.extend,
    class_formgrader.formgrader,
    class_feedback.feedback,
    class_export.export,
    class_push.push,
    class_report.report,
)

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}  # formgrader's further flags are JupyterLab's

for command in COMMANDS:
    settings = PASS_ON if command is class_formgrader.formgrader else None
    app.command(
        command.__name__,
        help=words_of(command),
        epilog=sys.modules[command.__module__].EXAMPLES,
        context_settings=settings,
    )(command)
app.command("self-test", help=words_of(class_selftest.self_test), epilog=class_selftest.EXAMPLES)(
    class_selftest.self_test
)
