"""Releasing: one source, the same bytes whoever presses the button, and nothing in it that a learner must not see."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request

import pytest

from bench.lab import free_port
from course_grader import exercises, release_steps
from course_grader.blank_notebook import blank, with_values, without_values
from course_grader.committed_form import slug, tidy, tidy_text
from course_grader.hosts import Hosts
from course_grader.notebooks import grade_meta, is_answer, parse, render
from course_grader.release import release_main, released
from course_grader.release_steps import MARKERS, check_folder, check_release, fill
from course_lib.messages import Trouble
from tests.grading_kit import REPOSITORY, SMALL, cell_of, own, small_source
from tests.patience import patience
from tests.tables import each_of

POINTS = {card.id: card.points for card in exercises.cards("01")}
NAME = "01_small/01_small.ipynb"


@pytest.fixture
def root(tmp_path):
    """A course with one small chapter, not yet released."""
    folder = tmp_path / "solutions" / "01_small"
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "one.svg").write_text("<svg/>")
    (folder / "01_small.ipynb").write_text(render(small_source()))
    shutil.copy(REPOSITORY / "nbgrader_config.py", tmp_path)
    return tmp_path


def write(root, notebook):
    (root / "solutions" / NAME).write_text(render(notebook))


# ---------------------------------------------------------------------------- the release


def test_releasing_twice_gives_the_same_bytes(root):
    assert released(root) == released(root)
    assert release_main(root=root) == 0
    first = (root / "notebooks" / NAME).read_bytes()
    assert release_main(root=root) == 0 and (root / "notebooks" / NAME).read_bytes() == first
    assert release_main(check=True, root=root) == 0


def test_a_release_has_stubs_for_answers_and_no_hidden_tests(root):
    notebook = parse(released(root)[NAME].decode())
    stubs = fill(blank(small_source()), "01")
    for exercise in SMALL:
        for grade_id in (exercise, f"{exercise}-check"):
            assert cell_of(notebook, grade_id)["source"].rstrip() == cell_of(stubs, grade_id)["source"].rstrip()
        assert "raise NotImplementedError" in cell_of(notebook, exercise)["source"]
    text = json.dumps(notebook)
    assert not any(marker in text for marker in MARKERS) and "unseen=True" not in text
    assert all("outputs" not in cell or cell["outputs"] == [] for cell in notebook["cells"])


def test_check_cells_are_locked_and_answers_are_not(root):
    notebook = parse(released(root)[NAME].decode())
    check, answer = (cell_of(notebook, name)["metadata"] for name in ("state-13b-check", "state-13b"))
    assert check["editable"] is False and check["deletable"] is False
    assert "editable" not in answer and answer["deletable"] is False
    assert check["nbgrader"]["points"] == POINTS["state-13b"] and check["nbgrader"]["checksum"]


def test_prose_is_filled_and_says_which_variant_it_is(root):
    notebook = parse(released(root)[NAME].decode())
    assert notebook["metadata"]["course"]["chapter"] == "01"
    assert notebook["metadata"]["course"]["variant"] == "canonical"
    prose = "\n".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert "{{" not in prose and all(exercises.card(name).title in prose for name in SMALL)


def test_a_variant_changes_the_numbers_and_nothing_else(root):
    card = next(card for card in exercises.cards("01") if card.vary and card.id in SMALL)
    params = dict(card.variant("someone"))
    path = root / "variant.json"
    path.write_text(json.dumps({"id": "someone", "exercises": {card.id: params}}))
    plain, varied = parse(released(root)[NAME].decode()), parse(released(root, variant=path)[NAME].decode())
    assert varied["metadata"]["course"]["variant"] == "someone"
    changed = [
        old["id"] for old, new in zip(plain["cells"], varied["cells"], strict=True) if old["source"] != new["source"]
    ]
    assert changed == [f"c01-{card.id}-card"]


def test_release_puts_right_what_is_out_of_date_and_check_only_says_so(root, capsys):
    release_main(root=root)
    (root / "notebooks" / "01_small" / "stray.py").write_text("x")
    (root / "notebooks" / "02_gone").mkdir()
    (root / "notebooks" / "02_gone" / "02_gone.ipynb").write_text("{}")
    (root / "notebooks" / NAME).write_text("changed by hand")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert release_main(check=True, root=root) == 1
    said = capsys.readouterr().out
    assert all(name in said for name in ("stray.py", "02_gone", NAME, "out of date"))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert release_main(root=root) == 0 and release_main(check=True, root=root) == 0
    assert not (root / "notebooks" / "02_gone").exists()


def test_the_gradebook_is_left_alone(root):
    release_main(root=root)
    assert not (root / "gradebook.db").exists()


# ---------------------------------------------------------------------------- what is refused


def no_end(notebook):
    cell_of(notebook, "mfu-waste")["source"] += "\n### BEGIN SOLUTION\nx = 1"


def solution_in_a_plain_cell(notebook):
    notebook["cells"].append(own("### BEGIN SOLUTION\nx = 1\n### END SOLUTION"))


def hidden_in_a_plain_cell(notebook):
    notebook["cells"].append(own("### BEGIN HIDDEN TESTS\nx = 1\n### END HIDDEN TESTS"))


def twice_the_same_id(notebook):
    notebook["cells"].append(dict(cell_of(notebook, "mfu-waste")))


def reaches_the_judging(notebook):
    notebook["cells"].append(own("from course_grader.exercises import judging"))


def unknown_placeholder(notebook):
    notebook["cells"][0]["source"] += "\n\n{{state-13b.weight}}"


def unknown_format(notebook):
    notebook["cells"][0]["source"] += "\n\n{{state-13b.params:furlongs}}"


def no_region(notebook):
    cell_of(notebook, "mfu-waste")["source"] = "def money_lost(): pass"


def nested_regions(notebook):
    cell_of(notebook, "mfu-waste")["source"] = (
        "### BEGIN SOLUTION\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n### END SOLUTION"
    )


REFUSED = [
    (no_end, "'mfu-waste'"),
    (solution_in_a_plain_cell, "'mine'"),
    (hidden_in_a_plain_cell, "'mine'"),
    (twice_the_same_id, "'mfu-waste'"),
    (reaches_the_judging, "'mine' names the judging"),
    (unknown_placeholder, "'c01-title'"),
    (unknown_format, "'c01-title'"),
    (no_region, "'mfu-waste'"),
    (nested_regions, "'mfu-waste'"),
]


@pytest.mark.parametrize(("damage", "words"), REFUSED, ids=[damage.__name__ for damage, _ in REFUSED])
def test_a_source_that_would_leak_or_break_is_refused_in_words(root, damage, words, capsys):
    release_main(root=root)
    before = (root / "notebooks" / NAME).read_bytes()
    notebook = small_source()
    damage(notebook)
    write(root, notebook)
    capsys.readouterr()
    assert release_main(root=root) == 1
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said, said
    assert (root / "notebooks" / NAME).read_bytes() == before


@pytest.mark.parametrize("name", ["answers.py", "notes/plan.md", "data.csv", "figures.txt"])
def test_only_notebooks_and_figures_may_stand_in_a_chapters_folder(root, name):
    stray = root / "solutions" / "01_small" / name
    stray.parent.mkdir(exist_ok=True)
    stray.write_text("secret")
    with pytest.raises(ValueError, match=re.escape(name)):
        check_folder(root / "solutions" / "01_small")
    assert release_main(root=root) == 1 and not (root / "notebooks").exists()


def test_a_broken_source_is_named(root, capsys):
    (root / "solutions" / NAME).write_text("{")
    assert release_main(root=root) == 1 and "01_small" in capsys.readouterr().err


def test_a_folder_with_an_odd_name_is_no_chapter():
    with pytest.raises(ValueError, match="01_name"):
        release_steps.chapter_of("walls")


def test_outputs_and_leftover_markers_are_refused():
    for cell, words in (
        ({"id": "a", "cell_type": "code", "source": "1", "outputs": [{}]}, "outputs"),
        ({"id": "a", "cell_type": "markdown", "source": "### END " + "SOLUTION"}, "END SOLUTION"),
        ({"id": "a", "cell_type": "markdown", "source": "{{x.y}}"}, "placeholder"),
    ):
        with pytest.raises(ValueError, match=words):
            check_release({"cells": [cell]})


# ---------------------------------------------------------------------------- tidy


def untidied():
    notebook = small_source()
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"] |= {"collapsed": True, "execution": {"t": number}, "vscode": {"x": 1}}
        if cell["cell_type"] == "code":
            cell |= {"execution_count": number, "outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]}
        if not grade_meta(cell):
            cell["id"] = f"{number:08x}"
        elif grade_meta(cell).get("grade"):
            grade_meta(cell)["points"] = 99
            grade_meta(cell)["checksum"] = "0" * 32
    notebook["metadata"] |= {"widgets": {"state": {}}, "jupytext": {"formats": "ipynb"}}
    return notebook


def test_tidy_gives_readable_ids_and_the_cards_points_and_drops_the_rest():
    tidied = tidy(untidied(), "01", POINTS)
    ids = [cell["id"] for cell in tidied["cells"]]
    assert len(set(ids)) == len(ids) and ids[:3] == ["c01-01-small", "c01-import-math", "c01-state-13b-card"]
    for cell in tidied["cells"]:
        assert set(cell["metadata"]) <= {"nbgrader", "tags"} and not cell.get("outputs")
        assert cell.get("execution_count") is None
        if meta := grade_meta(cell):
            assert cell["id"] == meta["grade_id"] and "checksum" not in meta
            if meta["grade"]:
                assert meta["points"] == POINTS[meta["grade_id"].removesuffix("-check")]
    assert tidied["metadata"]["course"] == {"chapter": "01"} and "widgets" not in tidied["metadata"]


def test_tidying_twice_changes_nothing():
    once = tidy_text(render(untidied()), "01", POINTS)
    assert tidy_text(once, "01", POINTS) == once and once.endswith("}\n")


def test_one_changed_sentence_is_a_one_line_diff():
    notebook = tidy(small_source(), "01", POINTS)
    before = render(notebook).splitlines()
    notebook["cells"][0]["source"] = notebook["cells"][0]["source"].replace("Small", "Large")
    after = render(tidy(notebook, "01", POINTS)).splitlines()
    assert len(before) == len(after) and sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_tidy_agrees_with_nbformat():
    import nbformat

    text = tidy_text(render(untidied()), "01", POINTS)
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert nbformat.writes(notebook) + "\n" == text


@each_of(
    "source, want",
    ("## Why a ring?", "why-a-ring"),
    ("def ring(x):\n    pass", "ring"),
    ("", "empty"),
    ("$$\\alpha$$", "alpha"),
    ("—", "cell"),
    ("one two three four five six seven", "one-two-three-four-five"),
    ("{{state-13b.card}}", "state-13b-card"),
)
def test_a_slug_is_the_first_words(source, want):
    assert slug(source) == want


def test_fill_leaves_code_alone():
    notebook = {
        "cells": [{"cell_type": "code", "id": "x", "metadata": {}, "source": "f'{{state-13b.weight}}'"}],
        "metadata": {},
    }
    assert fill(notebook, "01")["cells"][0]["source"] == "f'{{state-13b.weight}}'"


def test_a_source_that_is_no_notebook_is_trouble():
    with pytest.raises(Trouble):
        tidy_text("<<<<<<< HEAD\n", "01", POINTS)


# ---------------------------------------------------------------------------- formgrader


def ask(port, path, method="GET"):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", method=method, headers={"Authorization": "token t"}
    )
    with urllib.request.urlopen(request, timeout=patience(60)) as answer:
        return answer.read().decode()


@pytest.fixture
def formgrader(root, tmp_path):
    """A Jupyter server on the course with nbgrader's formgrader, as an instructor opens it; its port."""
    port = free_port()
    # As from a desktop icon: the environment's bin folder is not on PATH.
    env = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "PATH": "/usr/bin:/bin",
    }
    command = [
        sys.executable,
        "-m",
        "jupyter_server",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.token=t",
        "--no-browser",
        "--allow-root",
        f"--ServerApp.root_dir={root}",
        "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}",
    ]
    with open(tmp_path / "server.log", "w") as log:
        server = subprocess.Popen(command, cwd=root, env=env, stdout=log, stderr=log)
    try:
        until = time.monotonic() + patience(60)
        while True:
            try:
                ask(port, "/formgrader/api/status")
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < until, (tmp_path / "server.log").read_text()[-3000:]
                time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slower
def test_formgrader_opens_on_the_repository_and_generates_the_same_bytes(root, formgrader):
    assert "Formgrader" in ask(formgrader, "/formgrader") or "formgrader" in ask(formgrader, "/formgrader")
    [chapter] = json.loads(ask(formgrader, "/formgrader/api/assignments"))
    assert chapter["name"] == "01_small" and chapter["source_path"] == "solutions/01_small"
    answer = json.loads(ask(formgrader, "/formgrader/api/assignment/01_small/assign", "POST"))
    assert answer["success"], answer
    made = {
        str(path.relative_to(root / "notebooks")): path.read_bytes()
        for path in (root / "notebooks").rglob("*")
        if path.is_file()
    }
    assert made == released(root)
    [chapter] = json.loads(ask(formgrader, "/formgrader/api/assignments"))
    assert chapter["max_score"] == sum(POINTS[name] for name in SMALL)
    assert chapter["release_path"] == "notebooks/01_small"
    [notebook] = json.loads(ask(formgrader, "/formgrader/api/notebooks/01_small"))
    assert notebook["name"] == "01_small"


def test_the_configuration_lists_our_steps_around_nbgraders_own():
    from nbgrader.converters import GenerateAssignment
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(REPOSITORY)).load_config()
    steps = config.GenerateAssignment.preprocessors
    theirs = GenerateAssignment.class_traits()["preprocessors"].default()
    assert steps == [release_steps.Tidy, release_steps.FillPlaceholders, *theirs, Hosts, release_steps.CheckRelease]


def test_answers_in_the_source_are_runnable_python():
    for cell in small_source()["cells"]:
        if is_answer(cell):
            compile(cell["source"], grade_meta(cell)["grade_id"], "exec")


PARAMETER = (
    'way = params("ring-all-reduce").direction  # 1: up; -1: down\nop = params("pair-exchange").op  # your variant\n'
)


@each_of("given, lines", [({}, ("way = 1", 'op = "sum"')), ({"direction": -1}, ("way = -1", 'op = "sum"'))])
def test_an_answer_cell_holds_the_values_of_its_variant(given, lines):
    cards = {card.id: card.params for card in exercises.cards("06")}
    cards["ring-all-reduce"] = {**cards["ring-all-reduce"], **given}
    filled = with_values(PARAMETER + "def f():\n    pass", cards.get)
    assert filled.splitlines()[:2] == [
        f"{lines[0]}  # 1: up; -1: down",
        f"{lines[1]}  # leave as is: the exercise sets it",
    ]
    assert without_values(filled, PARAMETER) == without_values(PARAMETER + "def f():\n    pass", PARAMETER)


def test_parameters_that_are_no_plain_value_stay_with_params():
    source = (
        'parts = params("some").parts\nwhole = params("some")\n    inside = params("some").n\nn = '
        'params("some").n + 1\n'
    )
    assert with_values(source, lambda name: {"parts": [1], "n": 2}) == source
