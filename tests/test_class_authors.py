"""Exercises of one's own: scaffolded so that tests fail until they are written, and a class's own ones judged like the
course's."""

import ast
import shutil

import pytest

from course_app import cli
from course_grader import exercises
from course_grader.bank.answer_bank import read_answers
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import release_chapter
from course_grader.classroom.scaffold import new_exercise
from course_grader.course_notebooks import sources
from course_grader.exercises import class_exercises
from course_grader.judge import grade
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.judging import judging
from course_grader.notebooks import grade_meta, read, render
from course_grader.release import tidied_sources
from course_grader.service.grading import grade_class
from course_grader.service.task import cards_of
from course_grader.submission import rebuild
from course_grader.worker.runners import InProcess
from course_grader.worker.worker_pool import WorkerPool
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from tests.class_kit import NAME, as_bytes, class_at, course_at, saved, work
from tests.crash_kit import Made
from tests.grading_kit import cell_of, own
from tests.tables import each_alone

WRITTEN = {
    "card.py": [
        ("WRITE: a title", "A mean"),
        ("WRITE what is asked, with", "Return the mean of numbers, with"),
        ('    params={"count": 4},', '    params={"count": 4},\n    probe=twice,'),
        ("CARD = Card(", "def twice(answer, case, comm=None):\n    return 2 * answer(*case.args)\n\n\nCARD = Card("),
    ],
    "judging.py": [('unit="WRITE"', 'unit=""'), ("WRITE why it is right.", "A mean is a sum over a count.")],
}
BANK = """
# %% right: worked
def class_mean(numbers):
    return sum(numbers) / len(numbers)


# %% wrong: counted => values
# > this counts the numbers.
def class_mean(numbers):
    return len(numbers)
"""


@pytest.fixture(autouse=True)
def alone():
    """No test leaves exercises behind."""
    yield
    class_exercises.use(None)


@pytest.fixture
def folder(tmp_path):
    return class_at(tmp_path, course_at(tmp_path / "course"))


def write(top):
    """Fill a scaffold in, as an instructor would."""
    for name, changes in WRITTEN.items():
        text = (top / name).read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (top / name).write_text(text.partition("ANSWERS = ")[0] + f'ANSWERS = r"""{BANK}"""\n' * (name == "judging.py"))


def test_a_scaffold_in_a_class_fails_until_it_is_written(folder, capsys):
    arguments = ["exercise", "new", "1", "class-mean", "--class", str(folder.root)]
    assert cli.run(arguments) == 0
    assert "Next:" in capsys.readouterr().out
    top = folder.exercises.overlay / "class_mean"
    test = ["exercise", "test", "class-mean", "--class", str(folder.root)]
    assert cli.run(test) == 1 and "3 with another result than meant" in capsys.readouterr().out
    write(top)
    assert cli.run(test) == 0 and "2 answers, none" in capsys.readouterr().out
    judge = top / "judging.py"
    judge.write_text(judge.read_text().replace("wrong: counted => values", "wrong: counted => cost -"))
    assert cli.run(test) == 1 and "✗" in capsys.readouterr().out
    judge.write_text(judge.read_text().partition("ANSWERS = ")[0])
    assert cli.run(test) == 1 and "judging.py has no bank of answers" in capsys.readouterr().err
    assert cli.run(arguments) == 1 and "There is an exercise 'class-mean' already" in capsys.readouterr().err


def test_a_classs_own_exercise_is_released_judged_and_kept_from_the_worker(folder):
    new_exercise("01", "class-mean", folder.root)
    write(folder.exercises.overlay / "class_mean")
    folder = ClassFolder.open(folder.root)
    source = read(folder.sources.path("01"))
    cell_of(source, "class-mean")["source"] = (
        "def class_mean(numbers):\n    ### BEGIN SOLUTION\n    return sum(numbers) / len(numbers)\n    ### END SOLUTION"
    )
    folder.sources.path("01").write_text(render(source), encoding="utf-8")
    made = release_chapter(folder, "01")
    folder = ClassFolder.open(folder.root)
    assert "class-mean" in folder.exercises.chosen("01") and made.exercises == 5
    notebook = read(made.path / "01_small.ipynb")
    assert any("A mean" in cell["source"] for cell in notebook["cells"])
    cell_of(notebook, "class-mean")["source"] = "def class_mean(numbers):\n    return sum(numbers) / len(numbers)"
    spy = f"""import sys, os
held = [name for name in sys.modules if "judging" in name or "judges" in name]
try:
    import course_grader.judging.overlay_class_mean as stolen
except ImportError:
    stolen = None
answer = len(held) + (stolen is not None) + ({folder.secret!r} in str(os.environ))"""
    spied = "def class_mean(numbers):\n    return sum(numbers) / len(numbers) + answer"
    cards = folder.exercises.cards("01")
    with WorkerPool(chapters=("01",)) as workers:
        honest = grade_notebook(rebuild(source, notebook, cards), cards, workers, secret=folder.secret)
        notebook["cells"].insert(1, own(spy))
        cell_of(notebook, "class-mean")["source"] = spied
        looking = grade_notebook(rebuild(source, notebook, cards), cards, workers, secret=folder.secret)
    reports = [next(report for report in each.reports if report.exercise == "class-mean") for each in (honest, looking)]
    assert [report.points for report in reports] == [2.0, 2.0]  # what it looked for was not there: nothing was added


def test_a_machine_that_does_not_see_the_class_folder_grades_nothing_without_its_exercises(folder, tmp_path):
    new_exercise("01", "class-mean", folder.root)
    write(folder.exercises.overlay / "class_mean")
    task = {"overlay": str(folder.exercises.overlay), "points": {"class-mean": 2}, "chapter": "01"}
    assert [card.id for card in cards_of(task)] == ["class-mean"]
    class_exercises.use(None)
    with pytest.raises(Trouble, match="there is no such folder") as trouble:
        cards_of({**task, "overlay": str(tmp_path / "elsewhere")})
    assert "every worker see the class folder under the same path" in trouble.value.way_out


def test_once_somebody_is_graded_a_chapter_takes_no_further_exercise_and_the_way_out_is_told(folder):
    release_chapter(folder, "01")
    saved(folder.submissions.folder("ada", "01") / f"{NAME}.ipynb", as_bytes(work(folder, "ada")))
    released = folder.sources.path("01").read_bytes()
    new_exercise("01", "class-mean", folder.root)
    with_cells = folder.sources.path("01").read_bytes()
    folder.sources.path("01").write_bytes(released)
    assert grade_class(ClassFolder.open(folder.root), no_sandbox=True, crew=Made(0.0)).graded == 1
    with pytest.raises(Trouble, match="already graded for at least one student"):
        new_exercise("01", "class-mode", folder.root)
    assert folder.sources.path("01").read_bytes() == released and not (folder.exercises.overlay / "class_mode").exists()
    folder.sources.path("01").write_bytes(with_cells)
    with pytest.raises(Trouble, match="cells that give points cannot change"):
        release_chapter(ClassFolder.open(folder.root), "01")


def test_another_class_does_not_know_it_and_the_course_is_as_it_was(folder, tmp_path):
    new_exercise("01", "class-mean", folder.root)
    write(folder.exercises.overlay / "class_mean")
    ClassFolder.open(folder.root)
    assert exercises.card("class-mean").title == "A mean"
    report = grade(exercises.card("class-mean"), InProcess(lambda numbers: len(numbers)))
    assert report.points == 0 and report.verdicts[0].mistake == "counted" and judging("class-mean").why
    ClassFolder.open(class_at(tmp_path, tmp_path / "course", "other").root)
    with pytest.raises(ValueError, match="no exercise 'class-mean'"):
        exercises.card("class-mean")


@each_alone(
    "text, words",
    ("CARD = 1 +", "SyntaxError"),
    ("x = 1", "does not define CARD"),
    ("from course_grader.exercises import card\nCARD = card('state-13b')", "already"),
)
def test_a_card_that_cannot_be_used_is_told(folder, text, words):
    (folder.exercises.overlay / "odd").mkdir()
    (folder.exercises.overlay / "odd" / "card.py").write_text(text)
    with pytest.raises(Trouble, match=words):
        ClassFolder.open(folder.root)


def test_a_scaffold_in_the_course_is_registered_and_stands_in_the_notebook(tmp_path):
    for name in ("course_chapters/ch06/exercises", "solutions/06_collectives"):
        shutil.copytree(ROOT / name, tmp_path / name)
    made = new_exercise("06", "shift-twice", root=tmp_path)
    chapter = tmp_path / "course_chapters/ch06/exercises"
    cards = (chapter / "__init__.py").read_text()
    parts = [path.read_text() for path in made.written if path.suffix == ".py" and path.name != "__init__.py"]
    assert len(parts) == 2 and sum(len(text.splitlines()) for text in parts) <= 60
    for text in (cards, *parts):
        ast.parse(text)
    assert {chapter / "shift_twice.py", chapter / "judges/shift_twice.py"} < set(made.written)
    assert [each.sort for each in read_answers(chapter / "judges/shift_twice.py", "shift-twice")] == [
        "right",
        "right",
        "wrong",
    ]
    assert cards.endswith('    "shift-twice",\n)\n')
    source = read(sources(tmp_path)["06"])
    ids = [grade_meta(cell).get("grade_id") for cell in source["cells"]]
    assert ids.index("shift-twice-check") == ids.index("shift-twice") + 1
    points = grade_meta(cell_of(source, "shift-twice-check"))["points"]
    assert f"Worth(points={points}, " in parts[0], "the card and its check cell give the same points"
    # the card is not known in this process: the release says which is missing
    with pytest.raises(ValueError, match="shift-twice"):
        tidied_sources(tmp_path)
    with pytest.raises(Trouble, match="is there already"):
        new_exercise("06", "shift-twice", root=tmp_path)


def test_every_chapter_takes_a_further_exercise(tmp_path):
    for name in ("course_chapters", "solutions"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for chapter in exercises.chapters():
        folder = tmp_path / f"course_chapters/ch{chapter}/exercises"
        new_exercise(chapter, "shift-twice", root=tmp_path)
        assert (folder / "shift_twice.py").is_file() and (folder / "judges/shift_twice.py").is_file(), chapter
        calls = [
            each for each in ast.walk(ast.parse((folder / "__init__.py").read_text())) if isinstance(each, ast.Call)
        ]
        (names,) = ([ast.literal_eval(name) for name in call.args[1:]] for call in calls)
        assert names == [*(card.id for card in exercises.chapter_module(chapter).CARDS), "shift-twice"]


@each_alone(
    "chapter, name, words",
    ("06", "Bad Id", "cannot be an exercise's id"),
    ("77", "fine", "no chapter '77'"),
    ("06", "ring-all-reduce", "already"),
)
def test_an_id_that_cannot_be_is_told(chapter, name, words):
    with pytest.raises(Trouble, match=words):
        new_exercise(chapter, name)
