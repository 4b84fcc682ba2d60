"""Pins, ranges and the conda environment say the same; doctor says in words what is missing."""

import ast
import json
import re
import sys
import tomllib
from importlib import metadata

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course_app.install import GB, PYTHONS, pins
from course_app.learner import environment
from course_app.learner.environment import Gpu
from course_lib.folders import PACKAGES, ROOT
from course_runs import machine
from course_runs.machine import Line
from tests.tables import each_alone, each_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DIRECT = [Requirement(line) for line in PROJECT["dependencies"]]
FOR_TESTS = [Requirement(line) for line in PROJECT["optional-dependencies"]["test"]]
FOR_SITE = [Requirement(line) for line in PROJECT["optional-dependencies"]["site"]]
LOCK = {group: [Requirement(line) for line in pins(group)] for group in ("torch", "learner", "test", "site")}
CONDA = {"torch": "pytorch"}  # names that differ there


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(each.name) for each in requirements}


def test_every_pin_is_exact():
    for each in [line for group in LOCK.values() for line in group]:
        assert [spec.operator for spec in each.specifier] == ["=="], each


@each_of("asked", DIRECT + FOR_TESTS + FOR_SITE, ids=lambda each: each.name)
def test_every_package_asked_for_is_pinned_within_its_range(asked):
    further = "test" if asked in FOR_TESTS else "site"
    group = LOCK["torch"] + LOCK["learner"] + (LOCK[further] if asked in FOR_TESTS + FOR_SITE else [])
    pinned = [each for each in group if canonicalize_name(each.name) == canonicalize_name(asked.name)]
    assert len(pinned) == 1
    (spec,) = pinned[0].specifier
    assert asked.specifier.contains(spec.version)


def test_a_learner_gets_no_test_tools_and_none_of_the_site():
    assert not names(FOR_TESTS + FOR_SITE) & names(LOCK["learner"])


def test_a_package_of_two_sections_has_one_version():
    versions = {}
    for each in [line for group in LOCK.values() for line in group]:
        versions.setdefault(canonicalize_name(each.name), set()).add((str(each.specifier), str(each.marker)))
    assert not {name: found for name, found in versions.items() if len(found) > 1 and name in names(LOCK["site"])}


@each_of("python", [f"{a}.{b}" for a, b in PYTHONS] + ["3.11.2"])
@each_of("system", ["linux", "darwin", "win32"])
def test_on_every_python_and_system_each_package_has_one_version(python, system):
    full = python if python.count(".") == 2 else f"{python}.9"
    here = {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": full,
        "sys_platform": system,
        "os_name": "nt" if system == "win32" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    for group in LOCK.values():
        seen = [each.name for each in group if each.marker is None or Marker(str(each.marker)).evaluate(here)]
        assert len(seen) == len(set(seen))
    assert all(each.marker is None for each in LOCK["torch"])


def test_the_lock_holds_everything_that_its_packages_need_here():
    pinned = names([line for group in LOCK.values() for line in group])
    for name in sorted(pinned):
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another system
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert canonicalize_name(need.name) in pinned, f"{name} needs {need}"


def conda() -> tuple[list[str], list[str]]:
    """(packages, pip's packages) of environment.yml."""
    import yaml

    told = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    return [each for each in told if isinstance(each, str)], next(
        each["pip"] for each in told if isinstance(each, dict)
    )


def test_conda_and_pip_ask_for_the_same_packages_in_the_same_ranges():
    ours = {CONDA.get(each.name, each.name): str(each.specifier) for each in DIRECT}
    ours["python"] = str(Requirement(f"python{PROJECT['requires-python']}").specifier)
    packages, pip = conda()
    theirs = {each.name: str(each.specifier) for each in map(Requirement, packages) if each.name != "pip"}
    assert theirs == ours
    assert pip == ["-e ."]


def test_every_library_that_the_course_imports_is_asked_for():
    ours = {each.name.replace("-", "_") for each in DIRECT + FOR_SITE} | {*PACKAGES, "bench"}
    comes_along = {
        "IPython",
        "nbformat",
        "nbconvert",
        "nbclient",
        "jupyter_client",
        "jupyter_server",
        "traitlets",
        "packaging",
        "psutil",
        "PIL",
        "jsonschema",  # these with nbformat and nbconvert
        "bleach",
        "jinja2",
        "markupsafe",
        "pygments",
        "dateutil",
        "sqlalchemy",  # with nbgrader
        "babel",  # with JupyterLab's server
        "docutils",  # with Sphinx
        "httpx",
        "tornado",  # with JupyterLab
    }
    tools = {"playwright", "pytest"}  # benchmarks only, and they say so
    optional = {  # in one file each, which says so where it is missing
        ROOT / "course_grader/service/dask_workers.py": {"distributed"},
        ROOT / "course_runs/loggers.py": {"wandb"},
        ROOT / "course_app/colab.py": {"google"},  # which Colab has of its own
        ROOT / "course_chapters/ch18/triton_kernel.py": {"triton"},
    }
    for path in sorted(path for package in (*PACKAGES, "bench") for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                found = [node.module]
            for name in {each.split(".")[0] for each in found} - set(sys.stdlib_module_names):
                allowed = (
                    ours
                    | comes_along
                    | (tools if path.is_relative_to(ROOT / "bench") else set())
                    | optional.get(path, set())
                )
                assert name in allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_the_version_is_written_once_and_has_its_entry_in_the_changelog():
    from course_lib import __version__

    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT
    assert re.search(
        rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_readme_shows_the_two_commands_first():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```\w*\n(.*?)```", text, re.DOTALL)[1]
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == ["./course learn", "./course test"]


# ------------------------------------------------------------------------------------------------------- doctor


@each_of(
    "line, state, words",
    (environment.python_line((3, 12, 1), "python"), "ok", "3.12"),
    (environment.python_line((3, 10, 0), "python"), "fail", "3.10"),
    (environment.python_line((3, 14, 0), "python"), "fail", "3.14"),
    (environment.packages_line({"numpy": ">=2"}, {}, {}), "fail", "missing: numpy"),
    (environment.packages_line({"numpy": ">=2"}, {"numpy": "1.26"}, {}), "fail", "numpy 1.26 (needs >=2)"),
    (environment.packages_line({"numpy": ">=2"}, {"numpy": "2.1"}, {"numpy": "2.4"}), "warn", "numpy 2.1"),
    (environment.packages_line({"torch": ">=2"}, {"torch": "2.13.0+cpu"}, {"torch": "2.13.0"}), "ok", "as tested"),
    (environment.torch_line({}, Gpu()), "fail", "does not import"),
    (
        environment.torch_line({"version": "2.13.0+cpu", "cuda": None, "gpus": 0, "threads": 2}, Gpu()),
        "ok",
        "2.13.0+cpu",
    ),
    (
        environment.torch_line(
            {"version": "2.13.0+cpu", "cuda": None, "gpus": 0, "threads": 2}, Gpu(("H100",), "580", (13, 0))
        ),
        "warn",
        "does not see the GPU",
    ),
    (environment.gpu_line(Gpu()), "ok", "none"),
    (environment.gpu_line(Gpu(("H100", "H100"), "580.65", (13, 0))), "ok", "2 × H100, driver 580.65, CUDA up to 13.0"),
    (environment.gpu_line(Gpu(("V100",), "470.1", (11, 4))), "warn", "CUDA up to 11.4"),
    (environment.disk_line(1 * GB, set_up=False), "fail", "1.0 GB free"),
    (environment.disk_line(1 * GB, set_up=True), "ok", "1.0 GB free"),
    (environment.memory_line((8 * 2**30, 1 * 2**30)), "warn", "1.0 available"),
    (environment.memory_line((0, 0)), "ok", "does not say"),
    (environment.cores_line(1), "warn", "1 usable"),
    (environment.write_line(ROOT / "tests"), "ok", "tests"),
    (environment.write_line(__import__("pathlib").Path("/proc")), "fail", "cannot be written to"),
    (environment.git_line(""), "warn", "not installed"),
    (environment.chromium_line(""), "warn", "not found"),
    (environment.port_line(8888, False), "warn", "8888 is taken"),
    ids=lambda each: each.what if isinstance(each, Line) else None,
)
def test_doctor_says_what_is_missing_and_the_way_out(line, state, words):
    assert line.state == state and words in line.found
    assert bool(line.way_out) is (state != "ok")


def test_doctor_fails_only_where_the_course_cannot_run(capsys, monkeypatch):
    from course_app import cli

    lines = [Line("a", "ok", "fine"), Line("b", "warn", "so so [bold]", "mend it")]
    monkeypatch.setattr(environment, "look", lambda *_: lines)
    monkeypatch.setattr("course_runs.preflight.gpus", list)
    assert cli.run(["doctor"]) == 0
    assert "so so [bold]" in capsys.readouterr().out
    lines.append(Line("c", "fail", "gone", "buy one"))
    assert cli.run(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False and [each["state"] for each in told["lines"]][:3] == ["ok", "warn", "fail"]
    assert {each["what"] for each in told["lines"][3:]} == {
        "shared memory",
        "open files",
        "host name",
        "launcher",
        "sandbox",
    }


def test_doctor_finds_this_very_environment_whole():
    lines = {line.what: line for line in environment.look(ROOT)}
    assert lines["Python"].state == lines["torch"].state == "ok"
    assert lines["packages"].state != "fail"


def test_a_browser_may_be_named_and_a_wrong_name_is_not_believed(monkeypatch, tmp_path):
    program = tmp_path / "chrome"
    program.touch()
    monkeypatch.setenv("COURSE_CHROMIUM", str(program))
    assert environment.chromium() == str(program)
    monkeypatch.setenv("COURSE_CHROMIUM", str(tmp_path / "nothing"))
    assert environment.chromium() == ""


def test_a_browser_of_playwrights_own_is_found(monkeypatch, tmp_path):
    program = tmp_path / "chromium-1200" / "chrome-linux" / "chrome"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.delenv("COURSE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert environment.chromium() == str(program)


@each_alone(
    "quota, limit, cores, memory",
    ("50000 100000", 1000.0, 0.5, (1000.0, 400.0)),  # half a core, and what the container has not used yet
    ("max 100000", "max", machine.cores(), None),  # a container without limits
)
def test_a_container_leaves_less_than_the_machine_has(quota, limit, cores, memory, tmp_path, monkeypatch):
    free = machine.memory()
    for name, text in (("cpu.max", quota), ("memory.max", limit), ("memory.current", 600)):
        (tmp_path / name).write_text(f"{text}\n", encoding="ascii")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert machine.cores() == cores
    assert machine.memory()[0] == (free[0] if memory is None else memory[0])
    assert memory is None or machine.memory()[1] == memory[1]
