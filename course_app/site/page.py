"""An executed chapter as a page: exercises without their checks, pictures as files, links between pages."""

import base64
import hashlib
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_grader import hosts

PICTURES = "pictures"  # the folder of pictures below the site's static files
_IMAGE = re.compile(r'src="data:image/(svg\+xml|png);base64,([^"]+)"')
_THEME = re.compile(r"<style>\[data-jp-theme-light=[^<]*</style>")
_CHAPTER = re.compile(r"(?:\.\./)(?P<folder>\d\d_\w+)/(?P=folder)\.ipynb")
_FIGURE = re.compile(r"\]\(figures/")
_SECTION = re.compile(r"(?<=\]\(#)[^)]+")  # a heading as JupyterLab names it; MyST drops signs and capitals


def page_of(book: NotebookNode, folder: str, static: Path, repository: str = "") -> NotebookNode:
    """The notebook of a page, changed in place: `folder` is the chapter's, `static` where its pictures are written.

    A check cell is left out and the cell for the answer is folded, with a line on how to be graded. Outputs keep
    pictures, tables and text; inputs that need a kernel are left out. Links to run the chapter are below its title.
    """
    cells: list[NotebookNode] = []
    for cell in book.cells:
        graded = cell.metadata.get("nbgrader", {})
        if graded.get("grade") or cell.id in (f"c{folder[:2]}-{hosts.OPEN}", f"c{folder[:2]}-{hosts.COLAB}"):
            continue
        if cell.cell_type == "markdown":
            if not cells and cell.source.startswith("# "):
                title, _, rest = cell.source.partition("\n")
                cell.source = f"{title}\n\n{open_line(repository, folder)}\n{rest}"
            cell.source = _FIGURE.sub(f"]({folder}/figures/", cell.source)
            cell.source = _SECTION.sub(lambda found: re.sub(r"[^\w-]", "", found[0].lower()), cell.source)
        else:
            cell.outputs = [_output(each, static) for each in cell.outputs if _stays(each)]
        if graded.get("solution"):
            words = dict.fromkeys(("code_prompt_show", "code_prompt_hide"), "Starting code of this exercise")
            cell.metadata = nbformat.from_dict({"tags": ["hide-input"], "mystnb": words})
            cell.outputs = []
            cells += [cell, _note(folder[:2], cell.id)]
            continue
        cell.metadata = nbformat.from_dict({})
        cells.append(cell)
    book.cells = cells
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
    return book


def open_line(repository: str, folder: str) -> str:
    """Where a chapter can be run, as a line of links."""
    elsewhere = hosts.links(repository, folder).items() if repository else ()
    here = f"[Run it on your machine](run.md#chapter-{folder[:2]})"
    return f"{{.course-open}}\n{' '.join([here, *(f'[{words}]({address})' for words, address in elsewhere)])}\n"


def _note(number: str, exercise: str) -> NotebookNode:
    """How the answer above is graded, as a cell."""
    text = f"[Run chapter {number}](run.md#chapter-{number}) to write your answer and have it graded."
    return nbformat.v4.new_markdown_cell(f"{{.course-run}}\n{text}", id=f"{exercise}-run"[-64:])


def _stays(output: NotebookNode) -> bool:
    """Whether a page can show this output."""
    if output.output_type == "stream":
        return output.name == "stdout"
    data = output.get("data", {})
    return output.output_type != "error" and "application/vnd.jupyter.widget-view+json" not in data


def _output(output: NotebookNode, static: Path) -> NotebookNode:
    """The output with its pictures moved to files, and links that lead to pages."""
    data = output.get("data", {})
    if "text/html" in data:
        text = _THEME.sub("", "".join(data["text/html"]))
        text = _IMAGE.sub(lambda found: f'loading="lazy" src="{_saved(found[1], found[2], static)}"', text)
        output.data = {"text/html": _CHAPTER.sub(r"\g<folder>.html", text)}
    return output


def _saved(kind: str, data: str, static: Path) -> str:
    """The address of a picture, written to a file named after its content."""
    content = base64.b64decode(data)
    name = f"{hashlib.sha256(content).hexdigest()[:16]}.{kind.removesuffix('+xml')}"
    folder = static / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return f"_static/{PICTURES}/{name}"
