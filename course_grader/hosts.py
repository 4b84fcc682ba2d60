"""Where else a chapter runs: links that open it on Google Colab, Codespaces and Binder, and its first cell on Colab.

All of it needs the address of the repository, which `./course release --repository owner/name` keeps in pyproject.toml.
Without one there are no links.
"""

import re
from pathlib import Path

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from course_lib import __version__
from course_lib.folders import ROOT
from course_lib.messages import Trouble

OPEN, COLAB = "open", "colab"  # how the ids of the two cells end
_URL = re.compile(r'^(?:# )?Repository = "(?:https://github\.com/([^"]*))?".*$', re.MULTILINE)
_BADGES = {
    "Open in Colab": "https://colab.research.google.com/assets/colab-badge.svg",
    "Open in Codespaces": "https://github.com/codespaces/badge.svg",
    "Open on Binder": "https://mybinder.org/badge_logo.svg",
}


def repository(root: Path = ROOT) -> str:
    """The course's repository on GitHub as owner/name; "" where pyproject.toml names none."""
    project = root / "pyproject.toml"
    found = _URL.search(project.read_text(encoding="utf-8")) if project.is_file() else None
    return found[1] or "" if found and not found[0].startswith("#") else ""


def named(name: str) -> str:
    """The name itself; Trouble if it is neither empty nor owner/name."""
    if name and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise Trouble(f"{name!r} is not a repository on GitHub", "give it as owner/name")
    return name


def keep_repository(name: str, root: Path = ROOT) -> None:
    """Write the repository's address into pyproject.toml; Trouble if it is not owner/name."""
    line = f'Repository = "https://github.com/{named(name)}"' if name else '# Repository = ""'
    project = root / "pyproject.toml"
    project.write_text(_URL.sub(line, project.read_text(encoding="utf-8"), count=1), encoding="utf-8", newline="\n")


def links(name: str, folder: str) -> dict[str, str]:
    """The addresses that open a chapter: Colab and Binder as it was released, Codespaces with the whole repository."""
    notebook, tag = f"notebooks/{folder}/{folder}.ipynb", f"v{__version__}"
    addresses = (
        f"https://colab.research.google.com/github/{name}/blob/{tag}/{notebook}",
        f"https://codespaces.new/{name}?quickstart=1",
        f"https://mybinder.org/v2/gh/{name}/{tag}?labpath={notebook.replace('/', '%2F')}",
    )
    return dict(zip(_BADGES, addresses, strict=True))


def badges(name: str, folder: str) -> str:
    """The links as a line of badges."""
    return " ".join(f"[![{words}]({_BADGES[words]})]({address})" for words, address in links(name, folder).items())


def set_up(name: str, chapter: str) -> str:
    """The code of a chapter's first cell on Colab, which installs the wheel of this release."""
    wheel = (
        f"https://github.com/{name}/releases/download/v{__version__}/training_at_scale-{__version__}-py3-none-any.whl"
    )
    return f"""# @title On Google Colab, run this cell first. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    wheel = "{wheel}"
    get_ipython().run_line_magic("pip", f"install --quiet --no-deps {{wheel}}")
    from course_app import colab

    colab.begin("{chapter}", drive=False)  # True keeps your progress in Google Drive"""


class Hosts(NbGraderPreprocessor):
    """A step of the release: the links above the title, and below it the first cell for Colab."""

    repository = Unicode("", help="owner/name on GitHub; nothing is added without one.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The notebook with both cells, if the repository is known."""
        if self.repository:
            folder = resources["nbgrader"]["assignment"]
            head = new_markdown_cell(badges(self.repository, folder), id=f"c{folder[:2]}-{OPEN}")
            first = new_code_cell(set_up(self.repository, folder[:2]), id=f"c{folder[:2]}-{COLAB}")
            first.metadata = {"cellView": "form", "jupyter": {"source_hidden": True}}
            nb.cells = [head, nb.cells[0], first, *nb.cells[1:]]
        return nb, resources
