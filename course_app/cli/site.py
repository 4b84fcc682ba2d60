"""`course site`: the course as static pages."""

from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.messages import count_text

EXAMPLES = examples(
    "course site                              writes all chapters to build/site; open build/site/index.html",
    "course site 06 10                        writes only these chapters, which is quicker",
    "course site --repository owner/name      adds links that run a chapter on Colab, Codespaces and Binder",
    "course site --zip                        also writes all pages as one zip, which the start page offers",
)


def site(
    chapters: Annotated[
        list[str] | None, typer.Argument(help="Two digits each; all released chapters if none.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the pages; an older site in it is replaced.")] = Path(
        "build/site"
    ),
    repository: Annotated[
        str | None, typer.Option(help="owner/name on GitHub, for links that run a chapter; as released if not given.")
    ] = None,
    packed: Annotated[bool, typer.Option("--zip", help="Also write a zip of all pages, to read offline.")] = False,
) -> None:
    """Write the course as static pages that need no server and no other host.

    Runs every released chapter without answers, draws the pictures of its widgets at many settings, and writes HTML
    pages with search, glossary and sources. Installs the site's tools on first use.
    """
    build = part("course_app.site.build", "the site")
    address = part("course_grader.hosts", "the site").repository() if repository is None else repository
    build.refuse(out, chapters or [], address)
    build.require()
    made = build.build(out, chapters or [], repository=address, packed=packed, say=typer.echo)
    for line in made.warnings:
        typer.echo(f"  warning: {line}")
    took = ", ".join(f"{step} {seconds:.0f} s" for step, seconds in made.seconds.items())
    typer.echo(
        f"{count_text(made.pages, 'page')}, {made.bytes / 1e6:.1f} MB of which {made.frame_bytes / 1e6:.1f} MB are "
        f"frames ({took})"
    )
    typer.echo(f"Open {made.folder / 'index.html'}")
