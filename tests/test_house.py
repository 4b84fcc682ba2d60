"""The order of the library: a module imports only from the parts above it, and starting stays light."""

import ast
import json
import os
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module

import pytest

from bench.architecture import EXCEPTIONS, ORDER, PICTURE, RANK, draw, files, imports, module_name, part_of, parts
from course_lib.folders import ROOT
from tests.conftest import printed
from tests.tables import each_of, each_row

HEAVY = ("torch", "matplotlib", "ipywidgets")


MODULES = {module_name(path): path for path in files()}


@each_row("name", lambda: MODULES)
def test_a_module_imports_only_from_those_above_it(name):
    own = part_of(name)
    assert own in RANK, f"{name} has no room"
    for other in {part_of(each) for each in imports(MODULES[name])}:
        if other == own or other not in RANK or (own, other) in EXCEPTIONS:
            continue
        assert RANK[other] <= RANK.get(own, -1), f"{name} imports {other}, a later part"


def chapter_of(name: str) -> str:
    """The chapter whose exercises a module belongs to, or ""."""
    found = re.match(r"course_chapters\.(ch\d\d)\.exercises\b", name)
    return found[1] if found else ""


def test_no_chapter_imports_from_another_chapters_exercises():
    """What two chapters share lies in the toolkit (`judging`) or in `exercises` itself."""
    wrong = [
        f"{name} imports {other}"
        for name, path in MODULES.items()
        for other in sorted(imports(path))
        if chapter_of(other)
        and chapter_of(other) != chapter_of(name)
        and (chapter_of(name) or name.startswith("course_grader"))
    ]
    assert not wrong, wrong


def test_no_files_import_each_other_in_a_circle():
    """A package's own modules aside: its `__init__` hands their names on, and they may use what it defines."""

    def file_of(name: str) -> str:
        return name if name in MODULES or "." not in name else file_of(name.rpartition(".")[0])

    used = {
        name: {other for other in map(file_of, imports(path)) if not name.startswith(f"{other}.") and other != name}
        for name, path in MODULES.items()
    }
    try:
        TopologicalSorter(used).prepare()
    except CycleError as error:
        pytest.fail(f"{' is imported by '.join(error.args[1])}: a circle")


def test_the_order_names_nothing_twice():
    names = [name for _, parts in ORDER for name in parts.split()]
    assert len(names) == len(set(names))


def test_the_shipped_picture_shows_the_parts_of_today_and_about_how_long_they_are():
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", PICTURE.read_text(encoding="utf-8"))
    shown = {name: below for name, below in zip(texts, texts[1:], strict=False) if below.startswith("about ")}
    known = {name.replace(".", "/"): each for name, each in parts().items()}
    again = "draw it again: ./course bench architecture"
    assert shown.keys() == known.keys(), again
    for name, part in known.items():
        lines = int(re.match(r"about ([\d,]+) lines", shown[name])[1].replace(",", ""))
        assert 0.75 < part.lines / lines < 1.33, (
            f"{name}: {lines} lines in the picture, {part.lines} in the code; {again}"
        )


def test_the_picture_of_the_parts_is_drawn_from_the_code(tmp_path):
    picture = tmp_path / "parts.svg"
    draw(picture)
    text = picture.read_text(encoding="utf-8")
    missing = [name for name in parts() if name.replace(".", "/") not in text]
    assert not missing and picture.stat().st_size < 400_000
    draw(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == picture.read_bytes()


def loaded(*modules: str) -> set[str]:
    """Everything that importing these modules loads, in a fresh process."""
    program = f"import sys, json; import {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(printed(program)))


def test_importing_the_course_loads_the_standard_library_only():
    new = {name.split(".")[0] for name in loaded("course_lib") - loaded("json")}
    assert new - set(sys.stdlib_module_names) == {"course_lib"}


@each_of(
    "name",
    "course_app.install",
    "course_app.learner.work",
    "course_app.learner.progress",
    "course_app.learner.drill",
    "course_app.learner.environment",
)
def test_what_runs_before_anything_is_installed_needs_the_standard_library_only(name):
    new = {each.split(".")[0] for each in loaded(name) - loaded("json")}
    assert new - set(sys.stdlib_module_names) <= {"course_lib", "course_grader", "course_app", "course_runs"}


MATHS = [
    *(f"course_lib.estimate.{name}" for name in ("units", "facts", "memory", "compute", "roofline")),
    "course_lib.parallel.planner",
    "course_lib.cluster.records",
    "course_lib.parallel.schedules",
    "course_lib.parallel.timeline",
    "course_grader.records",
]


@each_of("name", MATHS)
def test_a_module_of_arithmetic_loads_no_torch_no_plots_and_no_widgets(name):
    assert not loaded(name) & set(HEAVY)


def test_the_learners_names_come_from_one_module_and_an_unknown_one_is_answered():
    import course_lib
    from course_app import notebook

    for name in ("check", "hint", "predict", "answer", "params", "use"):
        assert getattr(course_lib, name) is getattr(notebook, name)
        assert name in dir(course_lib)
    with pytest.raises(AttributeError, match="it offers answer, check"):
        _ = course_lib.grade


CHAPTERS = sorted((ROOT / "solutions").glob("*/*.ipynb"))


@each_of("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_imports_nothing_from_the_grader(path):
    code = [
        "".join(each["source"])
        for each in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if each["cell_type"] == "code"
    ]
    assert not [
        text for text in code if "course_grader" in text or "course_grader.judging" in text or ".judges" in text
    ]


SKIPPING = """
import pytest

def test_passes() -> None:
    assert True

@pytest.mark.browser
def test_needs_a_browser() -> None:
    raise AssertionError("ran without a browser")

@pytest.mark.browser
def test_needs_one_too() -> None:
    raise AssertionError("ran without a browser")
"""


@pytest.mark.parametrize("processes", ["0", "1"])
@pytest.mark.parametrize(("variable", "code"), [("", 0), ("1", 1)], ids=["a person's machine", "CI"])
def test_a_missing_browser_is_one_line_for_a_person_and_a_failure_in_ci(tmp_path, variable, code, processes):
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name in ("conftest.py", "patience.py", "rotation.py", "run_costs.py", "tiers.py", "weights.json"):
        (folder / name).write_text((ROOT / "tests" / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_small.py").write_text(SKIPPING, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    environment = {
        **os.environ,
        "COURSE_CHROMIUM": str(tmp_path / "none"),
        "COURSE_NO_SKIP": variable,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", processes, "--everything"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.count("no Chromium here") == 1
    assert ("Nothing may be skipped" in done.stdout) is (variable == "1")


def test_the_linter_of_a_commit_is_the_one_of_the_lock():
    locked = re.search(r"^ruff==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    hook = re.search(r"ruff-pre-commit\n    rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert locked and hook and locked[1] == hook[1]


def test_the_version_is_told_before_and_after_the_set_up(tmp_path):
    import course_lib

    for venv in (tmp_path / "none", ROOT / ".venv"):
        told = subprocess.run(
            ["sh", str(ROOT / "course"), "--version"],
            env={**os.environ, "COURSE_VENV": str(venv)},
            capture_output=True,
            text=True,
        )
        assert told.stdout == f"Training at Scale {course_lib.__version__}\n", told.stderr


def test_what_is_taught_has_at_most_30_000_lines():
    files = [path for path in (ROOT / "course_lib").rglob("*.py*") if path.suffix in (".py", ".pyi")]
    lines = {path: path.read_bytes().count(b"\n") for path in files}
    assert lines and sum(lines.values()) <= 30_000


@each_of("stub", sorted(ROOT.glob("course_*/**/__init__.pyi")), ids=lambda path: path.parent.name)
def test_every_name_of_a_stub_is_there(stub):
    """A package that loads its names on first use has those of its stub, each from the module that the stub names."""
    package = import_module(".".join(stub.parent.relative_to(ROOT).parts))
    listed = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    names = [(node.module, alias.name) for node in listed for alias in node.names]
    assert names and {name for _, name in names} <= set(package.__all__)
    for module, name in names:
        assert getattr(package, name) is getattr(import_module(f"{package.__name__}.{module}"), name), name
