"""The whole course, chapter by chapter: every one that stands in `solutions/`, with nothing to register anywhere."""

import ast
import json
import os
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch

from course_app.check import command
from course_app.check.command import Graded, check_main, grade_all
from course_app.learner.work import Folders
from course_grader import exercises
from course_grader.bank.kill_matrix import BankAnswer, bank, names_of
from course_grader.blank_notebook import STUB, blank
from course_grader.course_notebooks import sources
from course_grader.dependencies import needed
from course_grader.judge import grade
from course_grader.notebooks import Notebook, grade_meta, is_answer, is_by_hand, is_check, parse, render
from course_grader.records import VERDICT_KINDS
from course_grader.release import release_main
from course_grader.release_steps import MARKERS, fill
from course_grader.submission import rebuild
from course_grader.worker.runners import InProcess
from tests.grading_kit import REPOSITORY, solved_copy

SOURCES = sources(REPOSITORY)
WHERE = Folders(root=REPOSITORY, work=REPOSITORY / "work")
each_chapter = pytest.mark.parametrize("chapter", SOURCES)


@cache
def source_text(chapter: str) -> str:
    return SOURCES[chapter].read_text(encoding="utf-8")


def source(chapter: str) -> Notebook:
    return parse(source_text(chapter))


def path_of_release(chapter: str) -> Path:
    """The notebook as it is committed: one test of `./course release` says that it is what the source makes."""
    return REPOSITORY / "notebooks" / SOURCES[chapter].parent.name / SOURCES[chapter].name


def release_of(chapter: str) -> Notebook:
    return parse(path_of_release(chapter).read_text(encoding="utf-8"))


def by_grade_id(notebook: Notebook) -> dict[str, dict]:
    return {grade_meta(cell)["grade_id"]: cell for cell in notebook["cells"] if grade_meta(cell)}


def test_there_are_chapters_and_each_has_exercises():
    assert SOURCES and set(SOURCES) <= set(exercises.chapters())
    assert all(path.stem == path.parent.name for path in SOURCES.values())


# ---------------------------------------------------------------------------- what is committed


def test_sources_are_tidy_and_notebooks_are_what_they_make(capsys):
    code = release_main(check=True)
    assert code == 0, capsys.readouterr().out + "run `./course release`"


@each_chapter
def test_nothing_of_answers_judging_or_hidden_tests_is_released(chapter):
    solved, open_ = source(chapter), release_of(chapter)
    text = "\n".join(cell["source"] for cell in open_["cells"])
    assert not any(marker in text for marker in MARKERS) and "judging" not in text
    code = "\n".join(cell["source"] for cell in open_["cells"] if cell["cell_type"] == "code")
    given = {line.strip() for cell in blank(solved)["cells"] for line in cell["source"].splitlines()}
    for cell in solved["cells"]:
        for kind in ("SOLUTION", "HIDDEN TESTS"):
            for region in re.findall(rf"### BEGIN {kind}\n(.*?)\n[^\n]*### END {kind}", cell["source"], re.DOTALL):
                # A line that the frame itself shows is nobody's secret: a prediction's check is the same in both
                # places.
                secret = [line.strip() for line in region.splitlines() if line.strip() not in given]
                assert not secret or region.strip() not in text, (
                    f"{cell['id']}: a whole {kind} region is in the release"
                )
                for line in secret:
                    assert len(line) < 30 or line not in code, f"{cell['id']}: {line!r} is in the release"


@each_chapter
def test_a_release_is_the_source_without_answers_and_hidden_tests(chapter):
    released_cells, stubs = by_grade_id(release_of(chapter)), by_grade_id(fill(blank(source(chapter)), chapter))
    assert released_cells.keys() == stubs.keys()
    for name, cell in stubs.items():
        assert released_cells[name]["source"].rstrip() == cell["source"].rstrip(), name
    assert len(release_of(chapter)["cells"]) == len(source(chapter)["cells"])


# ---------------------------------------------------------------------------- the exercises of a chapter


@each_chapter
def test_every_card_has_its_statement_answer_and_check_in_order(chapter):
    notebook = source(chapter)
    answers = [cell for cell in notebook["cells"] if is_answer(cell) and not is_by_hand(cell)]
    order = [grade_meta(cell)["grade_id"] for cell in answers]
    cards = exercises.cards(chapter)
    assert sorted(order) == sorted(card.id for card in cards)
    assert order == [card.id for card in cards], "the cards of a chapter stand in the order of the chapter"
    cells = notebook["cells"]
    for card in cards:
        answer = next(i for i, cell in enumerate(cells) if grade_meta(cell).get("grade_id") == card.id)
        check = next(i for i, cell in enumerate(cells) if grade_meta(cell).get("grade_id") == f"{card.id}-check")
        statement = next(i for i, cell in enumerate(cells) if cell["source"].strip() == f"{{{{{card.id}.card}}}}")
        assert statement < answer < check, card.id


@each_chapter
def test_points_in_the_metadata_are_the_cards(chapter):
    for notebook in (source(chapter), release_of(chapter)):
        points = {
            grade_meta(cell)["grade_id"]: grade_meta(cell)["points"] for cell in notebook["cells"] if is_check(cell)
        }
        assert points == {f"{card.id}-check": card.points for card in exercises.cards(chapter)}


@each_chapter
def test_check_cells_end_with_the_points_in_both_regions(chapter):
    for card in exercises.cards(chapter):
        cell = by_grade_id(source(chapter))[f"{card.id}-check"]
        meta = grade_meta(cell)
        assert meta["grade"] and meta["locked"] and not meta["solution"]
        shown, hidden = re.fullmatch(
            r"(.*?)### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS\s*", cell["source"], re.DOTALL
        ).groups()
        for text, unseen in ((shown, False), (hidden, True)):
            last = ast.parse(text).body[-1]
            assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call), (
                f"{card.id}: the points are the last expression"
            )
            call = last.value
            wanted = "predict" if card.form == "prediction" else "check"
            assert call.func.id == wanted, f"{card.id}: {wanted}(…) checks it"
            assert call.args[0].value == card.id and [name.id for name in call.args[1:]] == list(card.answers)
            if wanted == "check" and unseen:
                assert [(word.arg, word.value.value) for word in call.keywords] == [("unseen", True)]


@each_chapter
def test_answers_are_functions_with_a_docstring_outside_the_region(chapter):
    for card in exercises.cards(chapter):
        cell = by_grade_id(blank(source(chapter)))[card.id]
        defined = {
            node.name: node
            for node in ast.parse(cell["source"]).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        for name in card.answers:
            assert name in defined, f"{card.id}: `{name}` is a function of the answer cell"
            assert ast.get_docstring(defined[name]), f"{card.id}: `{name}` says in a docstring what it returns"
        assert STUB in cell["source"]


# ---------------------------------------------------------------------------- how a chapter reads


@each_chapter
def test_headings_tell_the_chapter(chapter):
    lines = [
        line
        for cell in release_of(chapter)["cells"]
        if cell["cell_type"] == "markdown"
        for line in re.sub(r"```.*?```", "", cell["source"], flags=re.DOTALL).splitlines()
        if re.match(r"#+ ", line)
    ]
    levels = [len(line) - len(line.lstrip("#")) for line in lines]
    assert lines[0].startswith(f"# {chapter}"), "a chapter begins with its number"
    assert levels.count(1) == 1 and max(levels) <= 4
    assert all(deeper - level <= 1 for level, deeper in zip(levels, levels[1:], strict=False)), "no level is left out"
    assert len(set(lines)) == len(lines), "no heading stands twice"


@each_chapter
def test_ids_are_readable_and_unique(chapter):
    ids = [cell["id"] for cell in source(chapter)["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in source(chapter)["cells"]:
        assert (
            cell["id"] == grade_meta(cell)["grade_id"] if grade_meta(cell) else cell["id"].startswith(f"c{chapter}-")
        ), cell["id"]


@each_chapter
def test_nothing_that_ran_is_in_git(chapter):
    for name in ("solutions", "notebooks"):
        for path in (REPOSITORY / name).glob(f"{chapter}_*/*.ipynb"):
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells), path


@each_chapter
def test_figures_that_prose_shows_are_there(chapter):
    folder = SOURCES[chapter].parent
    text = "\n".join(cell["source"] for cell in source(chapter)["cells"] if cell["cell_type"] == "markdown")
    shown = set(re.findall(r"!\[[^\]]*\]\((figures/[^)\s]+)", text)) | set(re.findall(r'src="(figures/[^"]+)"', text))
    present = {str(path.relative_to(folder)) for path in folder.glob("figures/*") if path.is_file()}
    assert shown == present, "every figure is shown, and every one that is shown is there"


# ---------------------------------------------------------------------------- graded as `./course check` grades


@pytest.fixture(scope="module")
def untouched(pytestconfig, the_rotation) -> dict[str, Graded]:
    """The chapters of the rotation without their answers, graded in the same way."""
    chapters = pytestconfig.option.chapter or the_rotation.chapters
    return {result.chapter: result for result in grade_all(chapters, WHERE, blank_=True)}


@pytest.mark.rotates(
    "course_app/check/", "course_app/notebook.py", "course_grader/", "course_lib/", "requirements.lock"
)
def test_solved_has_full_points_through_check(solved_chapter, warm):
    """As `./course check --all --solved` grades it, where the judge has the threads that the machine gives."""
    [job] = command.jobs([solved_chapter], WHERE, solved=True, blank_=False, all_=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        result = command._graded(job, warm, WHERE, record=False)
    finally:
        torch.set_num_threads(threads)
    failing = [
        (report.exercise, report.points, report.maximum, report.note, [v.message for v in report.verdicts if not v.ok])
        for report in result.reports
        if not report.passed
    ]
    assert result.trouble is None and not failing and not result.notes
    assert result.points == sum(card.points for card in exercises.cards(solved_chapter))


def test_untouched_has_none_and_does_not_crash_through_check(rotating_chapter, untouched):
    result = untouched[rotating_chapter]
    assert result.trouble is None and not result.notes and result.points == 0
    assert {report.exercise for report in result.reports} == {card.id for card in exercises.cards(rotating_chapter)}
    assert {report.state for report in result.reports} == {"not answered"}


@each_chapter
def test_every_answer_cell_as_it_is_released_has_no_points(chapter):
    space = {"__name__": "__main__"}
    cells = release_of(chapter)["cells"]
    exec(next(cell["source"] for cell in cells if cell["id"] == f"c{chapter}-imports"), space)
    for card in exercises.cards(chapter):
        exec(by_grade_id(release_of(chapter))[card.id]["source"], space)
        report = grade(card, InProcess(*(space[name] for name in card.answers)))
        assert (report.state, report.points) == ("not answered", 0), card.id


@pytest.mark.slower
def test_json_gives_ids_verdicts_points_and_maximum(capsys):
    chapter = next(iter(SOURCES))
    assert check_main([chapter], True, False, False, True) == 0
    [graded] = json.loads(capsys.readouterr().out)["chapters"]
    assert graded["chapter"] == chapter and graded["points"] == graded["maximum"] > 0
    for exercise in graded["exercises"]:
        assert exercise["points"] == exercise["maximum"] and exercise["passed"]
        assert exercise["id"]
        assert all(verdict["kind"] in VERDICT_KINDS and verdict["ok"] for verdict in exercise["verdicts"])


# ---------------------------------------------------------------------------- graded as plain nbgrader grades


def hand_ins(chapter: str) -> tuple[dict[str, Notebook], dict[str, dict[str, float]]]:
    """Student -> notebook, and student -> exercise -> the points that the contract gives.

    The mixed notebook lacks what only shows something: a student may delete it, and the other two run it.
    """
    release, cards = release_of(chapter), exercises.cards(chapter)
    shipped = bank(chapter)
    right = solved_copy(release, source(chapter))

    def first(exercise: str, sort: str) -> BankAnswer | None:
        found = (
            each
            for each in shipped
            if each.exercise == exercise and each.sort == sort and (sort != "wrong" or each.expected in VERDICT_KINDS)
        )
        return next(found, None)

    mixed, earned = parse(render(right)), {card.id: float(card.points) for card in cards}
    # of three exercises one half-right where there is such an answer, one wrong, one right
    for place, card in enumerate(cards):
        sorts = (("half", "wrong"), ("wrong",), ())[place % 3]
        if answer := next(filter(None, (first(card.id, sort) for sort in sorts)), None):
            by_grade_id(mixed)[card.id]["source"] = answer.source
            earned[card.id] = grade(card, InProcess(*names_of(answer.source, card.answers))).points
    kept = {step.source for step in needed(rebuild(source(chapter), mixed, cards), source(chapter)).steps}
    mixed["cells"] = [
        cell
        for cell in mixed["cells"]
        if cell["cell_type"] != "code"
        or grade_meta(cell)
        or cell["source"] in kept
        or cell["id"] == f"c{chapter}-imports"
    ]
    full = {card.id: float(card.points) for card in cards}
    nothing = {card.id: 0.0 for card in cards}
    return {"right": right, "mixed": mixed, "untouched": release}, {
        "right": full,
        "mixed": earned,
        "untouched": nothing,
    }


@dataclass(frozen=True)
class Classroom:
    """A class of plain nbgrader's: its folder, and nbgrader itself."""

    root: Path
    api: object  # nbgrader's


@pytest.fixture(scope="module")
def classroom(tmp_path_factory) -> Classroom:
    """One course folder and one gradebook for all chapters."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    root = tmp_path_factory.mktemp("nbgrader")
    config = PyFileConfigLoader("nbgrader_config.py", path=str(REPOSITORY)).load_config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.db_url = f"sqlite:///{root}/gradebook.db"
    config.Exchange.root = str(root / "exchange")
    config.ExecutePreprocessor.timeout = config.Execute.timeout = 120
    config.Execute.shutdown_kernel = "immediate"
    return Classroom(root, NbGraderAPI(config=config))


def test_plain_nbgrader_finds_the_contracts_points(rotating_chapter, classroom, monkeypatch):
    """Stock nbgrader, its own engine, on a right copy, one of right, half-right and wrong answers, and an untouched
    one."""
    from nbgrader.api import Gradebook

    chapter = rotating_chapter
    name, root, api = SOURCES[chapter].parent.name, classroom.root, classroom.api
    shutil.copytree(SOURCES[chapter].parent, root / "solutions" / name)
    students, wanted = hand_ins(chapter)
    for student, notebook in students.items():
        folder = root / "submitted" / student / name
        folder.mkdir(parents=True)
        (folder / f"{name}.ipynb").write_text(render(notebook), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("COURSE_WORK", str(root / "nowhere"))
    made = api.generate_assignment(name)
    assert made["success"], made
    assert (root / "notebooks" / name / f"{name}.ipynb").read_bytes() == path_of_release(chapter).read_bytes()
    for student in students:
        done = api.autograde(name, student, create=True)
        assert done["success"], done
    with Gradebook(api.coursedir.db_url, api.coursedir.course_id) as gradebook:
        for student, points in wanted.items():
            grades = gradebook.find_submission(name, student).notebooks[0].grades
            names = {each: each.cell.name for each in grades if each.cell.name.endswith("-check")}
            got = {name.removesuffix("-check"): each.auto_score for each, name in names.items()}
            assert got == pytest.approx(points, abs=0.005), student
    maximum = {card.id: card.points for card in exercises.cards(chapter)}
    fractions = {points / maximum[name] for name, points in wanted["mixed"].items()}
    assert 1.0 in fractions and min(fractions) < 1.0, "the mixed copy holds right and wrong answers"
    untouched = parse((root / "autograded" / "untouched" / name / f"{name}.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in untouched["cells"] for output in cell.get("outputs", [])]
    errors = [output for output in outputs if output["output_type"] == "error"]
    assert not errors, f"Run All stops in an untouched chapter: {errors[0]['ename']}: {errors[0]['evalue']}"
    assert not any(output.get("name") == "stderr" for output in outputs), "an untouched chapter is quiet on stderr"


def test_no_secret_paths_are_written_into_sources():
    for path in SOURCES.values():
        text = path.read_text(encoding="utf-8")
        assert str(REPOSITORY) not in text and os.path.expanduser("~") + "/" not in text and "/home/" not in text, path


def test_the_work_folder_of_the_repository_is_nobodys_in_tests():
    assert Path(os.environ.get("COURSE_WORK", "")).resolve() != REPOSITORY / "work"


@each_chapter
def test_no_answer_cell_takes_one_parameter_from_params(chapter):
    """What a variant sets is written into the learner's cell as a value; `params` is left to cells that need
    several."""
    for cell in release_of(chapter)["cells"]:
        if is_answer(cell):
            assert not re.search(r'^\w+ = params\("[\w-]+"\)\.\w+', cell["source"], re.MULTILINE), cell["id"]
