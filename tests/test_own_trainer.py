"""A learner's own trainer: whose parts it takes, that it trains as the library does, and that a part that does not fit
is named."""

import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_app import cli
from course_app.learner import progress
from course_app.learner.work import Folders
from course_app.own_trainer import closing, show
from course_app.own_trainer.answers import Part, collected, course_parts, exercise_of, write_parts
from course_app.own_trainer.axes import AXES, new_in
from course_app.own_trainer.export import RECORD, export
from course_app.own_trainer.kit import gpus
from course_app.own_trainer.kit.model import initial_weights
from course_app.own_trainer.kit.parts import PARTS, load_parts
from course_app.own_trainer.kit.run import complaint, main, on_cluster, on_rank
from course_app.own_trainer.kit.settings import Settings
from course_app.own_trainer.processes import timed
from course_app.own_trainer.standalone import NotStandalone, standalone
from course_app.own_trainer.trials import Assembly, library_losses, objection, trial
from course_grader import exercises, notebooks
from course_grader.bank.kill_matrix import bank
from course_grader.submission import NOT_GRADED
from course_lib.cluster import simulate
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from course_runs.real_ranks import launch
from tests.conftest import printed
from tests.tables import each_alone

HALF_A_RING = """
def ring_all_reduce(comm, x):
    return x.clone()
"""
HANGS = """
def ring_all_reduce(comm, x):
    comm.recv(torch.empty_like(x), (comm.rank - 1) % comm.size)
    return x
"""


def another_right_answer(exercise: str) -> str:
    """The last right answer of the bank that stands alone: not the one that the chapter shows."""
    for answer in reversed(bank(exercises.card(exercise).chapter, exercise)):
        with suppress(NotStandalone):
            if answer.sort == "right" and standalone(exercise, PARTS[exercise.replace("-", "_")], [answer.source]):
                return answer.source
    raise AssertionError(exercise)


def work_with(folder: Path, answers: dict[str, str]) -> Folders:
    """A work folder in which these exercises are passed, with these answers."""
    where = Folders(root=ROOT, work=folder / "work")
    (where.work / ".course" / "released").mkdir(parents=True)
    chapters: dict[str, list[str]] = {}
    for exercise in answers:
        chapters.setdefault(exercises.card(exercise).chapter, []).append(exercise)
    for chapter, named in chapters.items():
        name = next(path.name for path in ROOT.glob(f"notebooks/{chapter}_*"))
        cells = [
            {
                "cell_type": "code",
                "id": exercise,
                "metadata": {"nbgrader": {"grade_id": exercise, "solution": True}},
                "source": answers[exercise],
                "outputs": [],
                "execution_count": None,
            }
            for exercise in named
        ]
        text = notebooks.render({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        notebooks.write_whole(where.work / name / f"{name}.ipynb", text)
    for exercise in answers:
        card = exercises.card(exercise)
        report = {
            "id": exercise,
            "passed": True,
            "points": card.points,
            "maximum": card.points,
            "chapter": card.chapter,
        }
        progress.record(report, where.work)
    return where


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Part]:
    """Every part from an answer that is not the course's."""
    answers = {exercise_of(file): another_right_answer(exercise_of(file)) for file in PARTS}
    return collected(work_with(tmp_path_factory.mktemp("learner"), answers))


def test_the_model_starts_as_the_courses_does():
    from course_lib.model import transformer

    s = Settings(layers=2, hidden=16, seq=8)
    config = transformer.Config(layers=2, hidden=16, seq_len=8, gated=False, positions="learned")
    want = dict(transformer.build(config).named_parameters())
    got = initial_weights(s)
    assert list(got) == list(want) and all(torch.equal(got[name], want[name]) for name in want)


@pytest.mark.parametrize("name", ["half", "zero", "pipeline", "experts", "checkpoint"])
def test_the_courses_parts_train_as_the_library_does(name, tmp_path):
    """The other axes run with the course's parts in tests below."""
    axis = AXES[name]
    write_parts(course_parts(), tmp_path)
    s = axis.settings(2 + axis.stop // 2, small=True)
    made = trial(axis, 2, [tmp_path], s)
    assert not objection(made, axis), objection(made, axis)


@pytest.mark.parametrize("axis", AXES.values(), ids=list(AXES))
def test_a_learners_parts_train_as_the_library_does_and_none_is_replaced(axis, tmp_path, theirs):
    assert all(part.yours for part in theirs.values())
    assembly = Assembly(theirs, tmp_path)
    (made,) = assembly.run(axis, [4], axis.settings(2 + axis.stop // 2, small=True))
    assert not objection(made, axis), objection(made, axis)
    assert not assembly.left_out and all(assembly.parts[file].yours for file in axis.parts)
    assert made.sent > 0


def test_an_exercise_that_is_not_passed_stays_the_courses(tmp_path):
    where = work_with(tmp_path, {"ring-all-reduce": another_right_answer("ring-all-reduce")})
    parts = collected(where)
    assert [part.exercise for part in parts.values() if part.yours] == ["ring-all-reduce"]
    assert parts["ring_all_reduce"].source != course_parts()["ring_all_reduce"].source
    assert parts["ring_all_reduce"].passed


@pytest.mark.parametrize(
    "ring, says", [(HALF_A_RING, "the loss of step 1 is"), (HANGS, "Deadlock")], ids=["wrong", "hangs"]
)
def test_a_part_that_does_not_fit_is_named_and_the_courses_takes_its_place(tmp_path, capsys, monkeypatch, ring, says):
    """The answer was passed once and is wrong now; the other answer of the learner stays."""
    answers = {"ring-all-reduce": f"import torch\n{ring}", "write-adamw": another_right_answer("write-adamw")}
    where = work_with(tmp_path, answers)
    assembly = Assembly(collected(where), tmp_path)
    axis = AXES["tensor"]
    (made,) = assembly.run(axis, [2], axis.settings(2, small=True))
    assert assembly.left_out == ["ring-all-reduce"]
    assert says in assembly.parts["ring_all_reduce"].why
    assert assembly.parts["write_adamw"].yours and not objection(made, axis)
    monkeypatch.setenv("COURSE_WORK", str(where.work))
    code = cli.run(["mine", "tensor", "--ranks", "2", "--steps", "2", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert code == 1 and says in data["parts"]["ring-all-reduce"]["why"]
    assert data["parts"]["write-adamw"]["yours"] and not data["parts"]["ring-all-reduce"]["yours"]


@each_alone(
    "cell, says",
    ("def ring_all_reduce(comm, x):\n    return helper(comm, x)", "`helper`"),
    ("from course_lib.cluster.collectives import ring_all_reduce", "imports course_lib.cluster.collectives"),
    ("def ring_all_reduce(comm, x)", "`ring_all_reduce`"),
    ("def ring_all_reduce(comm, x):\n    raise NotImplementedError", "was not saved"),
    ids=["a name from elsewhere", "the library's own", "does not parse", "passed but not saved"],
)
def test_an_answer_that_cannot_stand_alone_is_left_to_the_course_with_the_reason(tmp_path, cell, says):
    part = collected(work_with(tmp_path, {"ring-all-reduce": cell}))["ring_all_reduce"]
    assert not part.yours and says in part.why


def test_an_answer_brings_its_helpers_and_not_what_comes_after_it():
    cells = [
        "import torch\nK = 2",
        "def helper(x):\n    return K * x",
        "print(1)\ndef f(x: torch.Tensor):\n    return helper(x) + params('ring-shift').direction",
    ]
    module = standalone("ring-shift", ["f"], cells)
    space: dict = {}
    exec(module, space)
    assert space["f"](torch.ones(1)).item() == 2 + exercises.card("ring-shift").params["direction"]
    with pytest.raises(NotStandalone, match="`g`"):
        standalone("ring-shift", ["g"], cells)


def test_a_resumed_run_equals_the_undisturbed_one_bit_for_bit(tmp_path, theirs):
    write_parts(theirs, tmp_path)
    s = AXES["checkpoint"].settings(4, small=True)
    resumed = on_cluster(s, 1, [str(tmp_path)])
    assert resumed["losses"] == on_cluster(replace(s, stop=0), 1, [str(tmp_path)])["losses"]


def test_each_rank_loads_parts_of_its_own(tmp_path):
    write_parts(course_parts(), tmp_path)
    before = set(sys.modules)
    one, other = load_parts(tmp_path), load_parts(tmp_path)
    assert one.ring_all_reduce.__globals__ is not other.ring_all_reduce.__globals__
    assert not {name for name in sys.modules if "trainer_parts" in name} and before <= set(sys.modules)


def test_messages_of_ranks_on_gpus_travel_through_host_memory(tmp_path, monkeypatch):
    """No GPU here: every tensor counts as far, so that each operation works on copies and must bring its results
    back."""
    write_parts(course_parts(), tmp_path)
    monkeypatch.setattr(gpus, "is_far", lambda value: True)
    for name in ("context", "sharded", "mesh"):
        s = AXES[name].settings(2, small=True)
        losses = simulate(_staged, 2, args=(s, [str(tmp_path)])).results[0]["losses"]
        assert losses == pytest.approx(library_losses(s), abs=1e-4)


def _staged(comm, s, folders):
    return on_rank(gpus.OnGpus(comm, shared=True), s, folders)


@pytest.mark.rotates("course_app/own_trainer/")
@pytest.mark.parametrize("name", ["data", "experts"])
def test_torchrun_trains_alike(tmp_path, theirs, name):
    home = export(theirs, tmp_path / "home")
    s = AXES[name].settings(3, small=True)
    got = timed(AXES[name], 2, home, home / "parts", s)
    assert not got.error and got.losses == pytest.approx(library_losses(s), abs=1e-4)
    assert got.tokens_per_second > 0 and got.device == "CPU"


def test_four_processes_have_the_librarys_losses(tmp_path, theirs):
    """On gloo; two replicas of two tensor-parallel ranks use groups of both axes."""
    write_parts(theirs, tmp_path)
    s = AXES["mesh"].settings(2, small=True)
    losses = launch(on_rank, 4, args=(s, [str(tmp_path)])).results[0]["losses"]
    assert losses == pytest.approx(library_losses(s), abs=1e-5)


def test_a_part_that_raises_is_named_with_its_line(tmp_path, capsys):
    write_parts(course_parts(), tmp_path)
    path = tmp_path / "ring_all_reduce.py"
    path.write_text("def ring_all_reduce(comm, x):\n    raise KeyError('no such chunk')\n")
    arguments = ["--parts", str(tmp_path), "--ranks", "2", "--steps", "1", "--layout", "tensor"]
    assert main(arguments) == 1
    assert "trainer: RankError: ring_all_reduce.py, line 2" in capsys.readouterr().err
    try:
        load_parts(tmp_path).ring_all_reduce(None, None)
    except KeyError as error:
        assert complaint(error, [str(tmp_path)]).startswith("ring_all_reduce.py, line 2: KeyError")


@pytest.mark.parametrize(
    "layout, ranks, says",
    [("data", 3, "8 sequences"), ("tensor", 8, "4 heads"), ("experts", 8, "4 experts"), ("pipeline", 8, "4 layers")],
)
def test_ranks_that_cannot_share_the_model_are_refused_in_words(layout, ranks, says, capsys):
    with pytest.raises(SystemExit):
        main(["--layout", layout, "--ranks", str(ranks)])
    assert says in capsys.readouterr().err


def test_the_folder_runs_with_no_course_but_the_cluster(tmp_path, theirs):
    mixed = {**course_parts(), "ring_all_reduce": theirs["ring_all_reduce"]}
    home = export(mixed, tmp_path / "mine", "Ada Lovelace")
    export(mixed, home, "Ada Lovelace")  # again, over itself
    readme = (home / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("# Ada Lovelace's trainer") and "1 of its 28 parts" in " ".join(readme.split())
    kept = json.loads((home / RECORD).read_text(encoding="utf-8"))
    assert kept["name"] == "Ada Lovelace" and kept["parts"]["ring-all-reduce"]["yours"]
    program = (
        "import sys; from trainer.run import main; main(['--ranks', '2', '--steps', '2', '--hidden', '16', '--seq', "
        "'16']); print(sorted(name for name in sys.modules if name.startswith('course_lib.')))"
    )
    said = printed(program, home, PYTHONPATH=f"{home}{os.pathsep}{ROOT}")
    want = library_losses(Settings(steps=2, hidden=16, seq=16))
    assert f"loss {want[0]:.4f}" in said and f"loss {want[1]:.4f}" in said
    loaded = {name.split(".")[1] for name in eval(said.splitlines()[-1])}
    assert "cluster" in loaded and not loaded & {"own_trainer", "exercises", "text", "transformer", "collectives"}


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(Trouble, match="not empty"):
        export(course_parts(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_chapters_07_to_17_end_with_the_trainer():
    for path in sorted(ROOT.glob("notebooks/*/*.ipynb")):
        chapter = path.name[:2]
        cells = {cell["id"]: cell for cell in notebooks.read(path)["cells"]}
        shown = cells.get(f"c{chapter}-mine-cell")
        assert (shown is not None) == ("07" <= chapter <= "17"), chapter  # later chapters add no part to it
        if shown:
            assert f'own_trainer.show("{chapter}")' in shown["source"]
            assert NOT_GRADED in shown["metadata"]["tags"], "no grade may depend on what it trains"


def test_after_training_the_model_answers_alike_with_every_cache(tmp_path):
    assembly = Assembly(course_parts(), tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing, "ANSWERING_STEPS", 4)
        rows = closing._rows("16", assembly, closing._axes_of("16"))
    assert len(rows) == 3 and len({row["the model's answer"] for row in rows}) == 1


def test_two_processes_are_beside_the_library(tmp_path, theirs):
    """The closing cell of chapter 15: with the learner's parts, and with the course's."""
    rows = closing._rows("15", Assembly(theirs, tmp_path), [AXES["data"]])
    assert [row["parts"] for row in rows] == ["yours", "the course's"]
    assert all(row["last loss"] == row["the library's"] for row in rows)


def test_every_part_has_an_axis_and_every_axis_a_chapter():
    used = {file for axis in AXES.values() for file in axis.parts}
    assert used == set(PARTS)
    for number in range(7, 15):
        assert new_in(f"{number:02}"), f"chapter {number} adds no axis"
    for axis in AXES.values():
        assert all(exercises.card(exercise_of(file)).chapter <= max(axis.chapter, "14") for file in axis.parts)


def test_a_chapters_closing_cell_runs_where_nothing_is_passed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_WORK", str(tmp_path / "nowhere"))
    show("07")
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    show("07")  # a copy without the course's own answers
    said = capsys.readouterr().out
    assert said.count("<IPython.core.display.Markdown object>") == 4


@each_alone(
    "arguments, says",
    (["mine", "tensors"], "choose from data"),
    (["mine", "data", "--ranks", "3"], "1, 2, 4 and 8"),
    (["mine", "data", "--processes", "2"], "--processes --ranks 2,4"),
)
def test_what_cannot_be_done_is_said_in_words(capsys, arguments, says):
    assert cli.run(arguments) == 1
    assert says in capsys.readouterr().err
