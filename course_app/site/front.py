"""The pages around the chapters: the start, how to run a chapter, the glossary, the sources and a plan for a term."""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from course_app.site import api, syllabus
from course_app.site.glossary import anchor
from course_app.site.page import open_line
from course_chapters import course
from course_chapters.course import Chapter
from course_chapters.running_example import core_minutes, reading_minutes, whole_hours
from course_grader import hosts
from course_lib.estimate import facts
from course_lib.estimate.facts.fact import rows
from course_lib.folders import ROOT

LEDE = (
    "How large models are trained on many accelerators: a notebook course in which every exercise is graded on what "
    "your code *does*: the numbers it returns, the bytes it moves, the memory it holds, the order of its messages."
)


ZIP = "training-at-scale-pages.zip"
MOVING = "figures/ring_moving.svg"  # of chapter 00
RING = "Eight ranks on a circle pass eight colored numbers clockwise, all at once, until rank 0 has seen all eight."


def write(
    source: Path, chapters: Sequence[Chapter], repository: str = "", *, library: bool = False, packed: bool = False
) -> None:
    """Write all pages into Sphinx's source folder; `repository` is GitHub's owner/name, or empty. With `library` also
    its pages, and with `packed` a link to the zip."""
    pages = {
        "index": start(chapters, library, repository, packed),
        "run": run(chapters, repository),
        "syllabus": "# Six or twelve weeks\n\n" + syllabus.text(),
        "glossary": glossary(chapters),
        "sources": sources(),
        **(api.pages() if library else {}),
    }
    (source / api.FOLDER).mkdir(exist_ok=True)
    for name, text in pages.items():
        (source / f"{name}.md").write_text(text, encoding="utf-8", newline="\n")


def name_of(chapter: Chapter) -> str:
    """A chapter's name for a menu: "06 Collectives"."""
    words = chapter.name
    return f"{chapter.number} {words[0].upper()}{words[1:]}"


def start(chapters: Sequence[Chapter], library: bool = False, repository: str = "", packed: bool = False) -> str:
    """The first page: what the course is, what one learns, its chapters and the tree of pages."""
    about = [("Run it", "run"), ("Six or twelve weeks", "syllabus"), ("Glossary", "glossary"), ("Sources", "sources")]
    about += [("The library", f"{api.FOLDER}/index")] if library else []
    rows = "\n".join(
        f"| [{name_of(chapter)}]({chapter.folder}.ipynb) | {chapter.question} | "
        f"{reading_minutes(chapter.number)} + {core_minutes(chapter.number)} | {whole_hours(chapter.number)} |"
        for chapter in chapters
    )
    first = chapters[0]
    moving = f"![{RING}]({first.folder}/{MOVING})" if first.number == "00" else ""
    can = "\n".join(f"- **{one.outcome.capitalize()}.** {one.you_can}" for one in course.outcomes().values())
    offline = f' To read without a network, <a href="{ZIP}">download all pages</a> and unpack them.' if packed else ""
    return f"""# Training at Scale

{LEDE} It runs on a laptop's CPU, without an account or a GPU.

{moving}

{{.course-open}}
[Read {name_of(first)}]({first.folder}.ipynb) {open_line(repository, first.folder).partition(chr(10))[2]}

You can read every chapter on these pages, move its pictures and search all of them. To solve the exercises and have
them judged, [run the chapters](run.md).{offline}

## What you will be able to do

{can}

## The course in one picture

![{_alt()}](_static/course.svg)

## Chapters

| chapter | question | minutes | hours |
|---|---|---:|---:|
{rows}

Minutes are those for reading the core and for its exercises, hours those for everything in a chapter.

A class takes [six or twelve weeks](syllabus.md). The [glossary](glossary.md) explains the terms, and the
[sources](sources.md) are listed with the numbers that they support.

```{{toctree}}
:hidden:
:caption: Chapters

{_tree((name_of(chapter), chapter.folder) for chapter in chapters)}
```

```{{toctree}}
:hidden:
:caption: About

{_tree(about)}
```
"""


def _alt() -> str:
    from course_app.site.course_picture import course_picture

    return course_picture().alt


def _tree(pages: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{name} <{page}>" for name, page in pages)


def run(chapters: Sequence[Chapter], repository: str) -> str:
    """How to run a chapter: the command of each, and links where the repository is known."""
    parts = []
    for chapter in chapters:
        others = hosts.links(repository, chapter.folder) if repository else {}
        links = " · ".join(f"[{words}]({address})" for words, address in others.items())
        parts.append(
            f"(chapter-{chapter.number})=\n### {name_of(chapter)}\n\n```sh\n./course learn "
            f"{chapter.number}\n```\n\n{links}\n"
        )
    clone = f"git clone https://github.com/{repository}\ncd {repository.split('/')[-1]}\n" if repository else ""
    where = "Run" if repository else "Whoever gave you this address has the course's folder; copy it, and run in it"
    return f"""# Run it

You need Python 3.11, 3.12 or 3.13 and about 2 GB of disk. No GPU and no account is necessary. {where}:

```sh
{clone}./course learn    # sets everything up and opens chapter 00 in JupyterLab
./course test     # runs the test suite
```

The first start takes two or three minutes. In a notebook, a check below each exercise runs your code on seen and unseen
cases and shows the result at once. `./course progress` shows what you have done, and `./course drill` asks short
questions about it.

## Other places

{places(bool(repository))}

## A single chapter

{chr(10).join(parts)}"""


def places(linked: bool = True) -> str:
    """The table of places where the course runs, as docs/where-it-runs.md has it; `linked`: with those that a link of
    the page opens."""
    text = (ROOT / "docs" / "where-it-runs.md").read_text(encoding="utf-8")
    lines = text.partition("<!-- places -->\n")[2].partition("<!-- end: places -->")[0].splitlines(keepends=True)
    return "".join(line for line in lines if linked or "| the link *Open " not in line)


def glossary(chapters: Sequence[Chapter]) -> str:
    """All terms, with their chapters."""
    pages = {chapter.number: chapter.folder for chapter in chapters}
    parts = []
    for term in sorted(course.glossary().values(), key=lambda term: term.term.casefold()):
        number = (
            f"chapter [{term.chapter}]({pages[term.chapter]}.ipynb)"
            if term.chapter in pages
            else f"chapter {term.chapter}"
        )
        note = f" ({term.note})" if term.note else ""
        parts.append(f"({anchor(term.term)})=\n{term.term}\n: {term.meaning}{note} See {number}.\n")
    return "# Glossary\n\n" + "\n".join(parts)


def sources() -> str:
    """All sources that a number of the course rests on, with what each supports; those without an address come last."""
    entries: dict[tuple[bool, str], str] = {}
    for one in facts.references().values():
        title = f"{one.authors}, [{one.title}]({one.url}), {one.year}" if one.url else one.short
        supported = "".join(f"\n  - {number}" for number in one.supports)
        entries[not one.url, one.short.casefold()] = f"- {title}.{supported}"
    for source, url in _of_tables():
        entries.setdefault((False, source.casefold()), f"- [{source}]({url})")
    lead = "Every number in the course is computed, or it is read from one of these sources."
    return f"# Sources\n\n{lead}\n\n" + "\n".join(entries[key] for key in sorted(entries)) + "\n"


def _of_tables() -> set[tuple[str, str]]:
    """Sources that data files name with their own addresses."""
    data = files("course_lib.estimate.facts").joinpath("data")
    tables = [rows(file.name) for file in data.iterdir() if file.name.endswith(".csv")]
    found = [row for table in tables for row in table if row.get("source") and row.get("url")]
    return {(row["source"], row["url"]) for row in found}
