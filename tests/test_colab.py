"""A released notebook alone in a folder, with only the wheel installed beside Google Colab's versions of packages."""

import importlib.util
import json
import os
import shutil
import subprocess
import venv
from pathlib import Path

import nbformat
import pytest
import torch
from fake_gpu import Properties

from course_app import colab
from course_app.notebook import worked_source
from course_app.site import docs
from course_grader import exercises, hosts
from course_grader.release import released
from course_lib import __version__
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from tests.tables import each_of
from tests.test_wheel import wheel as wheel  # a fixture

NAME = "someone/course"
FOLDER = "00_start_here"
VERSIONS = ("ipython==7.34.0", "ipykernel==6.17.1", "ipywidgets==7.7.1", "numpy==2.0.2", "matplotlib==3.10.0")
OTHERS = ("cloudpickle", "jsonschema", "rich", "typer", "sympy", "networkx", "jinja2", "filelock", "fsspec")
GOOGLE = {  # what Colab has of its own, as far as the course calls it
    "__init__": "",
    "output": "def enable_custom_widget_manager(): print('widgets on')",
    "drive": "import os\ndef mount(place): os.makedirs(place + '/MyDrive', exist_ok=True)",
    "_message": "def blocking_request(_): return {'ipynb': {'metadata': {'course': {'chapter': '00'}}, 'cells': []}}",
    "files": "def download(path): print('downloaded', path)",
}


@pytest.fixture
def root(tmp_path):
    """A course with one chapter, and with its repository's address."""
    shutil.copytree(ROOT / "solutions" / FOLDER, tmp_path / "solutions" / FOLDER)
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    hosts.keep_repository(NAME, tmp_path)
    return tmp_path


def cells(root: Path) -> list[dict]:
    return json.loads(released(root)[f"{FOLDER}/{FOLDER}.ipynb"])["cells"]


def test_a_release_for_a_repository_adds_links_and_a_cell_and_no_other_release_does(root):
    with_links = cells(root)
    assert [cell["id"] for cell in with_links[:4]] == ["c00-open", "c00-title", "c00-colab", "c00-imports"]
    for host in ("colab.research.google.com", "codespaces.new", "mybinder.org"):
        assert host in "".join(with_links[0]["source"])
    compile("".join(with_links[2]["source"]), "cell", "exec")
    hosts.keep_repository("", root)
    assert (root / "pyproject.toml").read_bytes() == (ROOT / "pyproject.toml").read_bytes()
    assert cells(root) == [*with_links[1:2], *with_links[3:]]


def test_readme_has_the_links_of_the_repository():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert hosts.badges(NAME, FOLDER) in docs.opened(text, NAME) and docs.opened(docs.opened(text, NAME), "") == text


def test_what_is_no_repository_is_refused(root):
    with pytest.raises(Trouble, match="owner/name"):
        hosts.keep_repository("https://github.com/someone/course", root)


@each_of("major, word", [(7, "fp16"), (9, "bf16")])
def test_a_gpu_without_bf16_computes_in_fp16_and_says_so(monkeypatch, major, word):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: Properties(major=major))
    assert f"Tesla T4: the cells under On GPUs use it, in {word}" in colab.processor()


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment like Colab's, with this environment's torch and a `google.colab`."""
    home = tmp_path_factory.mktemp("colab")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *VERSIONS, *OTHERS], check=True, timeout=500)
    (packages,) = home.glob("lib/python*/site-packages")
    for name in ("torch", "torchgen", "functorch"):
        if found := importlib.util.find_spec(name):
            (packages / name).symlink_to(Path(found.origin).parent)
    for name, text in GOOGLE.items():
        file = packages / "google" / "colab" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (packages / "google.pth").write_text("import google.colab\n")
    return python


@pytest.mark.whole
def test_one_notebook_alone_installs_the_course_and_judges_an_answer(
    python, wheel, root, tmp_path_factory, monkeypatch
):
    from nbclient import NotebookClient

    here, answered = tmp_path_factory.mktemp("alone"), "two-ranks-wait"
    kernel = here.parent / "kernels" / "colab"
    kernel.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "Colab", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(here.parent))
    for name in [name for name in os.environ if name.startswith(("COURSE_", "PYTHONPATH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COURSE_WORK", str(here.parent / "kept"))
    book = nbformat.reads(released(root)[f"{FOLDER}/{FOLDER}.ipynb"].decode(), 4)
    book.cells.append(nbformat.v4.new_code_cell("colab.save()"))
    named = {cell.id: cell for cell in book.cells}
    address = f"https://github.com/{NAME}/releases/download/v{__version__}/{wheel.name}"
    assert address in named["c00-colab"].source
    named["c00-colab"].source = named["c00-colab"].source.replace(address, str(wheel))
    named[answered].source = worked_source(exercises.card(answered))
    NotebookClient(
        book, kernel_name="colab", timeout=300, resources={"metadata": {"path": str(here)}}, allow_errors=True
    ).execute()
    failed = {
        cell.id: output.evalue
        for cell in book.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error" and output.ename != "NotImplementedError"
    }
    assert not failed and not list(here.iterdir())
    text = json.dumps([cell.get("outputs") for cell in book.cells])
    assert "widgets on" in text and "No GPU" in text and "downloaded" in text and "<svg" in text
    assert "model_id" in text and "image/svg" in text
    points = [output for output in named[f"{answered}-check"].outputs if output.output_type == "execute_result"]
    assert float(points[0].data["text/plain"]) == exercises.card(answered).points
    assert (here.parent / "kept" / FOLDER / f"{FOLDER}.ipynb").is_file()
    versions = "import numpy, ipywidgets; print(numpy.__version__, ipywidgets.__version__)"
    kept = subprocess.run([python, "-c", versions], capture_output=True, text=True, check=True)
    assert kept.stdout.split() == ["2.0.2", "7.7.1"]
