"""The command line: what a person types, reads and gets back as an exit code."""

import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from course_app import cli
from course_app.cli import bench, class_formgrader
from course_app.learner import lab, progress, work
from course_app.learner.work import Folders
from course_grader import notebooks
from course_lib.folders import PACKAGES, ROOT
from course_lib.messages import Trouble
from course_runs import processes
from tests.conftest import printed, small_chapter, tried
from tests.tables import each_alone, each_of

LEARNER = ["learn", "check", "update", "progress", "drill", "mine", "certificate", "doctor"]
STAFF = ["test", "release", "bench", "site", "class", "exercise"]
IN_A_CLASS = ["submit"]
RUNS = ["plan", "meter", "run", "explain", "evidence"]


@pytest.fixture
def course(where: Folders, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """The command line stands on a course in miniature."""
    monkeypatch.setenv("COURSE_ROOT", str(where.root))
    monkeypatch.setenv("COURSE_WORK", str(where.work))
    return where


def run(capsys: pytest.CaptureFixture, *arguments: str) -> tuple[int, str, str]:
    code = cli.run(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def given(monkeypatch: pytest.MonkeyPatch, name: str, **functions: object) -> None:
    """Put a module in the place of a part of the course."""
    module = ModuleType(name)
    module.__dict__.update(functions)
    monkeypatch.setitem(sys.modules, name, module)


# ------------------------------------------------------------------------------------------------------- help


def commands(panel: str) -> list[str]:
    return [
        line.split()[1] for line in panel.splitlines() if line.startswith("│ ") and "--" not in line and line[2] != " "
    ]


def test_help_shows_a_learner_six_commands_and_the_others_apart(capsys):
    code, out, _ = run(capsys, "--help")
    ours, theirs = out.split(cli.STAFF)
    ours, runs = ours.split(cli.ON_GPUS)
    staff, students = theirs.split(cli.IN_A_CLASS)
    assert commands(ours) == LEARNER
    assert commands(runs) == RUNS
    assert commands(staff) == STAFF
    assert commands(students) == IN_A_CLASS
    assert code == 0


@pytest.mark.parametrize("command", LEARNER + RUNS[:2] + STAFF + IN_A_CLASS)
def test_every_command_has_help_with_examples(command, capsys):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert "Examples" in out and f"course {command}" in out.split("Examples")[1]


@pytest.mark.parametrize(("words", "flag"), [(("run", "serve"), "--max-batch"), (("bench", "memory"), "--data")])
def test_help_after_the_name_of_a_program_is_the_programs(words, flag, capsys):
    code, out, _ = run(capsys, *words, "--help")
    assert code == 0 and flag in out and "Examples" not in out


def test_help_needs_no_torch_no_plots_and_no_jupyter():
    program = (
        "import sys; sys.argv = ['course', '--help']; from course_app.__main__ import main; main();print([name for "
        "name in ('torch', 'matplotlib', 'ipywidgets', 'IPython', 'nbgrader', 'numpy') if name in sys.modules])"
    )
    assert printed(program).splitlines()[-1] == "[]"


def test_an_unknown_command_is_answered_with_a_near_one_and_fails(capsys):
    code, _, err = run(capsys, "lern")
    assert code != 0 and "learn" in err


# ------------------------------------------------------------------------------------------------------ learn


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list:
    """What `learn` would have become."""
    calls: list = []
    monkeypatch.setattr(lab, "hand_over", lambda *given: calls.append(given))
    return calls


def test_learn_copies_the_chapters_and_opens_the_first(course, handed, capsys):
    code, out, _ = run(capsys, "learn")
    ((command, environment, folder),) = handed
    assert code == 0 and "00_start_here: copied" in out
    assert command[:4] == [sys.executable, "-P", "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={course.work}" in command
    assert "--LabApp.default_url=/lab/tree/00_start_here/00_start_here.ipynb" in command
    assert environment["COURSE_WORK"] == str(course.work) and folder == course.work
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_learn_passes_jupyterlabs_flags_through_in_their_order(course, handed, capsys):
    run(capsys, "learn", "--no-browser", "--port", "0", "--ip=0.0.0.0", "-y")
    assert handed[0][0][-5:] == ["--no-browser", "--port", "0", "--ip=0.0.0.0", "-y"]


def test_learn_opens_the_chapter_that_is_named(course, handed, capsys):
    run(capsys, "learn", "01", "--no-browser")
    assert "--LabApp.default_url=/lab/tree/01_three_walls/01_three_walls.ipynb" in handed[0][0]
    assert "01" not in handed[0][0]


def test_learn_opens_the_chapter_that_was_checked_last(course, handed, capsys):
    course.work.mkdir(exist_ok=True)
    progress.record({"id": "first-wall", "chapter": "01", "passed": True, "points": 5, "maximum": 5}, course.work)
    run(capsys, "learn")
    assert "--LabApp.default_url=/lab/tree/01_three_walls/01_three_walls.ipynb" in handed[0][0]


def test_learn_says_when_a_newer_chapter_waits_and_opens_anyway(course, handed, release, capsys):
    run(capsys, "learn")
    mine = course.work / "01_three_walls" / "01_three_walls.ipynb"
    book = notebooks.read(mine)
    book["cells"][3]["source"] = "f = 1"
    notebooks.write_whole(mine, notebooks.render(book))
    release("01_three_walls", small_chapter("01", intro="Better."))
    _, out, _ = run(capsys, "learn")
    assert "./course update 01" in out and len(handed) == 2


@pytest.mark.parametrize("flags", [("--port", "{}"), ("--port={}",), ("--ServerApp.port={}",)])
def test_a_port_that_is_taken_is_said_with_a_free_one(course, handed, capsys, flags):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "learn", *(flag.format(port) for flag in flags))
    assert code == 1 and f"Port {port} is taken" in err and "./course learn --port" in err
    assert handed == [] and not course.work.exists()


def test_a_work_folder_that_cannot_be_written_is_said(course, handed, capsys, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/mnt/work")

    monkeypatch.setattr(work, "copy_chapters", refused)
    code, _, err = run(capsys, "learn")
    assert code == 1 and "/mnt/work" in err and "Way out" in err and handed == []


def test_a_port_that_cannot_be_is_said(course, handed, capsys):
    code, _, err = run(capsys, "learn", "--port", "99999")
    assert code == 1 and "no port 99999" in err


@each_of(
    "flags, port",
    ((), None),
    (("--port", "1"), 1),
    (("--port=2",), 2),
    (("--port", "1", "--ServerApp.port=3"), 3),
    (("--report=4",), None),
)
def test_the_port_asked_for_is_the_last_one_named(flags, port):
    assert lab.port_asked(flags) == port


def test_a_learners_jupyterlab_shows_no_release_tools():
    import jupyter_core.paths
    from jupyter_server.extension.config import ExtensionConfigManager
    from jupyterlab_server.config import get_page_config

    folders = [str(lab.SETTINGS), *jupyter_core.paths.jupyter_config_path()]
    wanted = ExtensionConfigManager(read_config_path=folders).get_jpserver_extensions()
    theirs = {name: on for name, on in wanted.items() if name.startswith("nbgrader")}
    assert len(theirs) == 4 and not any(theirs.values())
    page = json.loads((lab.SETTINGS / "labconfig" / "page_config.json").read_text())
    assert page["disabledExtensions"]["@jupyter/nbgrader"] is True
    assert callable(get_page_config)


@pytest.mark.parametrize("of", ["a learner", "a class"])
def test_jupyterlab_asks_nothing_on_its_first_start(of, course, monkeypatch, tmp_path):
    from jupyter_server.services.config.manager import ConfigManager

    given = {"PATH": os.environ["PATH"], "JUPYTER_CONFIG_PATH": str(tmp_path)}
    theirs = lab.lab_environment(course, given) if of == "a learner" else class_formgrader.lab_environment(given)
    assert theirs["JUPYTER_CONFIG_PATH"].endswith(f"{os.pathsep}{tmp_path}")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", theirs["JUPYTER_CONFIG_PATH"])
    defaults = ConfigManager(config_dir_name="labconfig").get("default_setting_overrides")
    asked = defaults["@jupyterlab/apputils-extension:notification"]
    assert asked["fetchNews"] == "false" and asked["checkForUpdates"] is False


def test_a_learners_jupyterlab_wraps_long_lines_of_code():
    settings = json.loads((lab.DEFAULTS / "labconfig" / "default_setting_overrides.json").read_text())
    assert settings["@jupyterlab/notebook-extension:tracker"]["codeCellConfig"]["lineWrap"] is True


# ---------------------------------------------------------------------------------- update, check, release, test


def test_update_lists_what_waits_and_brings_it_in(course, handed, release, capsys):
    run(capsys, "learn")
    mine = course.work / "01_three_walls" / "01_three_walls.ipynb"
    book = notebooks.read(mine)
    book["cells"][3]["source"] = "f = 1"
    book["cells"][1]["source"] = "my words"
    notebooks.write_whole(mine, notebooks.render(book))
    assert "newest release" in run(capsys, "update")[1]
    release("01_three_walls", small_chapter("01", intro="Better."))
    assert "Newer releases: 01" in run(capsys, "update")[1]
    assert json.loads(run(capsys, "update", "--json")[1]) == {"newer": ["01"]}
    code, out, _ = run(capsys, "update", "01")
    assert code == 0
    assert "answer-f" in out and ".before-" in out and "below the release's" in out
    assert "already the newest" in run(capsys, "update", "01")[1]
    assert json.loads(run(capsys, "update", "--all", "--json")[1]) == {"updated": []}


def test_update_of_a_broken_notebook_fails_in_words(course, handed, release, capsys):
    run(capsys, "learn")
    (course.work / "01_three_walls" / "01_three_walls.ipynb").write_text("")
    release("01_three_walls", small_chapter("01", intro="Better."))
    code, _, err = run(capsys, "update", "01")
    assert code == 1 and "is empty" in err and "Way out" in err


@each_alone(
    "arguments, asked",
    (["01", "02"], (["01", "02"], False, False, False, False)),
    (["--all", "--solved"], ([], True, False, True, False)),
    (["--all", "--blank", "--json"], ([], False, True, True, True)),
)
def test_check_hands_over_to_the_grader_and_returns_its_code(arguments, asked, monkeypatch, capsys):
    calls = []

    def check_main(targets: list[str], solved: bool, blank: bool, all_: bool, as_json: bool) -> int:
        calls.append((targets, solved, blank, all_, as_json))
        return 3

    given(monkeypatch, "course_app.check.command", check_main=check_main)
    assert run(capsys, "check", *arguments)[0] == 3
    assert calls == [asked]


@pytest.mark.parametrize("arguments", [[], ["--all", "--solved", "--blank"]], ids=["nothing named", "both"])
def test_check_says_what_it_needs_to_know(arguments, capsys):
    code, _, err = run(capsys, "check", *arguments)
    assert code == 2 and "--" in err


@pytest.mark.parametrize("check", [True, False])
def test_release_hands_over_and_returns_the_code(check, monkeypatch, capsys):
    given(monkeypatch, "course_grader.release", release_main=lambda asked: 5 if asked is check else 0)
    assert run(capsys, "release", *(["--check"] if check else []))[0] == 5


def test_a_part_that_this_copy_does_not_have_is_said(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "course_grader.release", None)
    code, _, err = run(capsys, "release")
    assert code == 1 and "not part of this copy" in err


def _called(monkeypatch, codes: dict[str, int]) -> list[list[str]]:
    calls: list[list[str]] = []

    def call(command: list[str], *_: object, **__: object) -> int:
        calls.append(command)
        return codes.get(command[3], 0)

    monkeypatch.setattr("course_runs.processes.call", call)
    monkeypatch.setattr("course_app.install.add_group", lambda group: False)
    return calls


@pytest.mark.parametrize(
    ("codes", "code"), [({}, 0), ({"pytest": 1}, 1), ({"ruff": 1}, 1)], ids=["all well", "a test", "a line"]
)
def test_test_runs_the_suite_on_all_cores_and_the_linter_and_fails_with_either(monkeypatch, capsys, codes, code):
    monkeypatch.setattr("course_app.cli.test.os.cpu_count", lambda: 2)
    calls = _called(monkeypatch, codes)
    assert run(capsys, "test")[0] == code
    assert [command[3] for command in calls] == ["pytest", "ruff"]
    assert calls[0][-4:] == ["-n", "3", "--dist", "worksteal"]


@each_alone(
    "codes, said",
    ({}, ""),
    ({"mypy": 1}, "Failed: type checker.\n"),
    ({"pytest": 1, "ruff": 1, "mypy": 2}, "Failed: tests, linter, type checker.\n"),
    ids=["all well", "a type", "all three"],
)
@pytest.mark.parametrize("flag", ["--slower", "--everything"])
def test_the_slower_tier_checks_the_types_beside_the_tests_and_says_what_failed(monkeypatch, capsys, codes, said, flag):
    calls = _called(monkeypatch, codes)
    code, _, err = run(capsys, "test", flag)
    assert (code, err) == (1 if codes else 0, said)
    assert sorted(command[3] for command in calls) == ["mypy", "pytest", "ruff"]
    assert all(len(command) == 4 for command in calls if command[3] == "mypy")  # what it checks is in pyproject.toml


def test_test_passes_pytests_flags_through(monkeypatch, capsys):
    calls = _called(monkeypatch, {})
    run(capsys, "test", "-k", "merge", "-x", "-n0")
    assert calls[0][-4:] == ["-k", "merge", "-x", "-n0"][-4:] and "worksteal" not in calls[0]
    assert len(calls) == 1


def test_test_takes_chapters_by_their_numbers(monkeypatch, capsys):
    monkeypatch.setattr("course_app.cli.test.os.cpu_count", lambda: 2)
    calls = _called(monkeypatch, {})
    run(capsys, "test", "06", "10", "-k", "15")
    assert calls[0][-4:] == ["--chapter=06", "--chapter=10", "-k", "15"]
    assert calls[0][-8:-4] == ["-n", "2", "--dist", "worksteal"] and len(calls) == 1


def test_test_names_a_chapter_that_does_not_exist_before_it_runs_anything(monkeypatch, capsys):
    calls = _called(monkeypatch, {})
    code, _, err = run(capsys, "test", "42")
    assert code == 1 and "no chapter 42" in err and not calls


def test_test_prints_the_kill_matrix(monkeypatch, capsys):
    _called(monkeypatch, {})
    seen = []
    given(monkeypatch, "course_grader.bank.kill_matrix", main=lambda flags: seen.append(flags) or 4)
    assert run(capsys, "test", "--kill-matrix")[0] == 4
    assert run(capsys, "test", "--kill-matrix", "--chapter", "06")[0] == 4
    assert seen == [[], ["--chapter", "06"]]


def test_test_prints_the_mutants(monkeypatch, capsys):
    _called(monkeypatch, {})
    seen = []
    given(monkeypatch, "course_grader.bank.mutation", main=lambda flags: seen.append(flags) or 1)
    assert run(capsys, "test", "--mutants", "--exercise", "ring-shift", "--json")[0] == 1
    assert seen == [["--exercise", "ring-shift", "--json"]]


def test_sigterm_ends_the_suite_and_every_process_below_it(tmp_path):
    beside = tmp_path / "pid"
    (tmp_path / "test_waits.py").write_text(
        "import pathlib, subprocess, time\n"
        "def test_waits():\n"
        "    process = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"    path = pathlib.Path({str(beside)!r})\n"
        "    path.with_suffix('.part').write_text(str(process.pid))\n"
        "    path.with_suffix('.part').rename(path)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-P", "-m", "course_app", "test", str(tmp_path / "test_waits.py"), "-n0"]
    suite = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not beside.exists():
            assert suite.poll() is None, "the suite must wait for its test"
            time.sleep(0.05)
        suite.terminate()
        assert suite.wait(60) == 143 and processes.ended(int(beside.read_text()))
    finally:
        processes.kill([*processes.descendants(suite.pid), *([suite.pid] if suite.poll() is None else [])])


def test_a_chapter_that_the_site_does_not_have_is_refused_before_anything_is_installed(monkeypatch, capsys):
    installed = []
    monkeypatch.setattr("course_app.site.build.require", lambda: installed.append("the site's packages"))
    code, _, err = run(capsys, "site", "99")
    assert code == 1 and "no released chapter 99" in err and not installed


NEED_A_CLONE = {
    "learn": "notebooks/",
    "update": "notebooks/",
    "update 06": "notebooks/",
    "submit 06": "notebooks/",
    "site": "notebooks/",
    "check 06": "solutions/",
    "class init x --folder class": "solutions/",
    "class self-test": "solutions/",
    "exercise new 06 my-id": "solutions/",
    "release": "solutions/",
    "release --check": "solutions/",
    "test": "tests/",
    "doctor": "clone the course's repository",
}


@pytest.mark.slower
def test_an_installed_package_says_in_a_sentence_what_only_a_clone_has(tmp_path):
    for package in PACKAGES:  # what `pip install` puts into site-packages
        shutil.copytree(ROOT / package, tmp_path / package)
    told = tried(tmp_path, list(NEED_A_CLONE))
    for command, words in NEED_A_CLONE.items():
        code, said = told[command]
        assert code == 1 and words in said and "way out: " in said.lower() and "clone" in said, (command, said)
    assert not (tmp_path / "class").exists()


def test_plans_as_json_are_one_object(capsys):
    code, out, _ = run(capsys, "plan", "--model", "llama3-8b", "--gpus", "8xH100", "--json", "--top", "1")
    (plan,) = json.loads(out)["plans"]
    layout = plan["layout"]
    assert code == 0 and layout["replicas"] == layout["tp"] == 1
    assert plan["microbatch_sequences"] * layout["dp"] * layout["microbatches"] == 512


PLAN = ["plan", "--model", "llama3-8b", "--gpus", "8xH100"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], ["8,030,261,248 parameters", "2T tokens in steps of 512 sequences of 8,192 tokens", "without failures",
              "1. The quickest", "2. The", "Memory: ", "Time: matrix products", "most time goes to",
              "Megatron-LM core", "Megatron-Bridge v"]),
        (["--layout", "tp=2,zero=1"], ["2. Your layout: tp=2, dp=4", "slower than the quickest", "Command lines "
"of your layout"]),
        (["--serve"], ["Serving with 16-bit weights", "8 replicas of 1 device:", "1 replica of 8 devices:",
                       "alone: first token after"]),
        (["--model", "mixtral-8x7b", "--gpus", "64xH100"], ["12,879,925,248 of them used by a token", "ep="]),
        (["--model", "deepseek-v3", "--gpus", "2048xH100"], ["37,552,297,472 of them used by a token"]),
        (["--model", "gpt2"], ["512 sequences of 1,024 tokens"]),
    ],
)  # fmt: skip
def test_a_plan_says_its_conditions_its_parts_and_its_command_lines(capsys, more, said):
    code, out, err = run(capsys, *PLAN, *more)
    assert code == 0, err
    assert not [each for each in said if each not in out]


@each_alone(
    "more, said",
    (["--model", "llama3"], "Near it: llama3-"),
    (["--model", "meta-llama/Llama-3.1-8B"], "The course downloads nothing"),
    (["--gpus", "16xMI300X"], "The nearest with such runs is H200 SXM"),
    (["--layout", "tp=3"], "does not divide the 8 devices"),
    (["--layout", "tp=8,zero=0,microbatch=64"], "does not fit"),
    (["--model", "gpt2", "--seq", "4096"], "1024 learned positions"),
    (["--model", "llama3-405b"], "Nothing fits"),
    (["--model", "llama3-405b", "--layout", "tp=8"], "This layout cannot run"),
    (["--model", "llama3-405b", "--serve", "--gpus", "8xA100-40GB"], "does not fit on a server"),
    (["--deadline", "1d"], "The quickest layout needs"),
    (["--max-cost", "nan"], "write dollars above zero"),
)
def test_a_plan_that_cannot_be_made_says_why_and_what_is_nearest(capsys, more, said):
    code, out, err = run(capsys, *PLAN, *more)
    assert code == 1 and said in err and not out


def test_a_plan_is_a_page_that_needs_nothing_else(capsys, tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "vocab_size": 32000,
    }
    config |= {"num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048}
    (tmp_path / "my<model>").mkdir()
    (tmp_path / "my<model>" / "config.json").write_text(json.dumps(config))
    page = tmp_path / "plan.html"
    code, out, _ = run(capsys, *PLAN[:1], "--model", str(tmp_path / "my<model>"), *PLAN[3:], "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert code == 0 and str(page) in out and "1,100,048,384 parameters" in text
    assert "my&lt;model&gt; on 8 x H100 SXM" in text and "<model>" not in text
    assert text.count("<img ") == 2 and "http://" not in text.replace("http://www.w3.org", "")
    assert 'src="http' not in text
    assert all(
        each in text
        for each in ("prefers-color-scheme: dark", "Seconds of a step", "Memory of the fullest device", "torchtitan")
    )


# ---------------------------------------------------------------------------------------------- progress, drill


def card(id: str, chapter: str = "00", kind: str = "core") -> SimpleNamespace:
    return SimpleNamespace(id=id, chapter=chapter, kind=kind, points=2)


@pytest.fixture
def exercises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A course of three exercises and one drill question."""

    class Question(SimpleNamespace):
        def variant(self, seed: str) -> "Question":
            return self

        def question(self) -> str:
            return "1 + 1?"

    def drills(chapter: str) -> list:
        if chapter not in ("00", "01"):
            raise ValueError(f"There is no chapter {chapter!r} with exercises; there are 00, 01.")
        return [Question(id=f"sum-{chapter}", chapter=chapter, unit="")]

    given(
        monkeypatch,
        "course_grader.exercises",
        cards=lambda: (card("a"), card("b", "01"), card("c", "01", "more")),
        drills=drills,
    )
    given(monkeypatch, "course_grader.judging", drill_verdict=lambda question, number: (number == 2, "It is 2."))


def passed(where: Folders, id: str, chapter: str, **more: object) -> None:
    report = {"id": id, "chapter": chapter, "state": "answered", "points": 2, "maximum": 2, "passed": True, **more}
    progress.record(report, where.work)


def test_progress_shows_chapters_points_calibration_and_what_is_next(course, exercises, capsys):
    work.copy_chapters(course)
    passed(course, "a", "00", interval=[1, 2], truth=1.5, held=True)
    code, out, _ = run(capsys, "progress")
    assert code == 0
    assert "1 of 1" in out and "passed" in out and "Next: b in chapter 01" in out and "1 of 1 intervals" in out
    data = json.loads(run(capsys, "progress", "--json")[1])
    assert [row["core_done"] for row in data["chapters"]] == [1, 0]
    assert data["predictions"] == {"held": 1, "made": 1}


def test_progress_works_before_the_first_start(course, exercises, capsys):
    code, out, _ = run(capsys, "progress")
    assert code == 0 and "Next: a" in out


def test_drill_waits_for_a_passed_chapter_and_names_the_way(course, exercises, capsys):
    code, _, err = run(capsys, "drill")
    assert code == 1 and "none yet" in err and "--chapter 01" in err
    code, out, _ = run(capsys, "drill", "--json")
    assert code == 0 and json.loads(out) == {"chapters": [], "questions": 0, "due": []}


def test_drill_refuses_where_nobody_types_and_says_what_is_due_to_a_program(course, exercises, capsys, monkeypatch):
    work.copy_chapters(course)
    passed(course, "a", "00")
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115
    code, _, err = run(capsys, "drill")
    assert code == 1 and "terminal" in err
    assert json.loads(run(capsys, "drill", "--json")[1])["due"] == ["sum-00"]


def test_drill_asks_and_keeps_the_answers(course, exercises, capsys, monkeypatch):
    work.copy_chapters(course)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda prompt: "2")
    code, out, _ = run(capsys, "drill", "--chapter", "1")
    assert code == 0 and "Right. It is 2." in out and "1 of 1 right" in out
    assert "Nothing is due" in run(capsys, "drill", "--chapter", "01")[1]


def test_drill_of_an_unknown_chapter_lists_those_that_exist(course, exercises, capsys):
    code, _, err = run(capsys, "drill", "--chapter", "9")
    assert code == 1 and "there are 00, 01" in err


# ------------------------------------------------------------------------------------------------ doctor, bench


def test_bench_lists_what_can_be_measured(capsys):
    code, out, _ = run(capsys, "bench")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == list(bench.BENCHES)


def test_bench_hands_over_the_flags_and_returns_the_code(monkeypatch, capsys):
    given(monkeypatch, "course_app.learner.bench_start", main=lambda flags: len(flags))
    assert run(capsys, "bench", "start", "--json", "--x")[0] == 2


def test_an_unknown_measurement_is_answered_with_those_that_exist(capsys):
    code, _, err = run(capsys, "bench", "nope")
    assert code == 1 and ", ".join(bench.BENCHES) in err


@each_of("name", list(bench.BENCHES))
def test_a_measurement_that_is_there_can_be_called(name):
    if importlib.util.find_spec("bench") is None and name == "widgets":
        assert not bench.there(name)
    elif bench.there(name):
        module = importlib.import_module(bench.BENCHES[name][0])
        assert callable(module.main)


def test_trouble_anywhere_ends_in_words_and_a_code(monkeypatch, capsys):
    def broken() -> None:
        raise Trouble("The moon is full.", "wait")

    monkeypatch.setattr(work, "folders", broken)
    code, _, err = run(capsys, "update")
    assert (code, err) == (1, "course: The moon is full.\n  Way out: wait\n")
