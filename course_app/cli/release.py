"""`course release`: released chapters from their sources."""

from typing import Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.folders import ROOT, require

EXAMPLES = examples(
    "course release                           writes notebooks/ from solutions/",
    "course release --check                   changes nothing; exits non-zero if notebooks/ is not what it would write",
)


def release(
    check: Annotated[bool, typer.Option("--check", help="Only compare; exit non-zero on any difference.")] = False,
) -> None:
    """Write released chapters from their sources.

    notebooks/ comes from solutions/ by machine, byte for byte the same each time. The picture of the course and the
    plan for a term in docs/ follow.
    """
    releasing = part("course_grader.release", "releasing")
    require(ROOT, "solutions", "Releasing chapters")
    code = releasing.release_main(check)
    if not check:
        part("course_app.site.docs", "the repository's pages").write()
    raise typer.Exit(code)
