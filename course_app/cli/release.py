"""`course release`: released chapters from their sources."""

from typing import Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.folders import ROOT, require

EXAMPLES = examples(
    "course release                           writes notebooks/ from solutions/",
    "course release --check                   changes nothing; exits non-zero if notebooks/ is not what it would write",
    "course release --repository owner/name   also links to Colab, Codespaces and Binder, from now on",
)


def release(
    check: Annotated[bool, typer.Option("--check", help="Only compare; exit non-zero on any difference.")] = False,
    repository: Annotated[
        str | None, typer.Option(help="owner/name on GitHub, kept in pyproject.toml; an empty name removes it.")
    ] = None,
) -> None:
    """Write released chapters from their sources.

    notebooks/ comes from solutions/ by machine, byte for byte the same each time. The picture of the course and the
    plan for a term in docs/ follow. With a repository, README and each notebook begin with links that open them on
    Colab, Codespaces and Binder, and a notebook's first cell installs the course on Colab.
    """
    releasing = part("course_grader.release", "releasing")
    require(ROOT, "solutions", "Releasing chapters")
    if repository is not None and not check:
        part("course_grader.hosts", "releasing").keep_repository(repository)
    code = releasing.release_main(check)
    if not check:
        part("course_app.site.docs", "the repository's pages").write()
    raise typer.Exit(code)
