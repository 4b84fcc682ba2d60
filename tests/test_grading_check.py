"""`course check`: what a learner reads, what a program reads, and the exit code."""

import json

import pytest

from course_app.check.command import check_main, grade_all, variant_params
from course_app.check.results import Graded
from course_app.check.table import mark_of, next_step, show, why_not
from course_app.learner import progress
from course_grader import exercises
from course_grader.notebooks import parse, render
from course_grader.records import Report, Verdict
from course_lib.messages import Trouble
from tests.grading_kit import as_released, cell_of, mine, small_course, small_source
from tests.tables import each_alone


@pytest.fixture
def where(tmp_path, monkeypatch):
    """A course with the small chapter, solved; commands find it."""
    made = small_course(tmp_path)
    monkeypatch.setenv("COURSE_ROOT", str(made.root))
    monkeypatch.setenv("COURSE_WORK", str(made.work))
    return made


def edit(where, grade_id, change):
    notebook = parse(mine(where).read_text())
    cell_of(notebook, grade_id)["source"] = change(cell_of(notebook, grade_id)["source"])
    mine(where).write_text(render(notebook))


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_solved_chapter_exits_with_0_and_says_what_comes_next(where, capsys):
    assert check_main(["01"], False, False, False, False) == 0
    text = said(capsys)
    assert "28 of 28 points" in text and "everything here is solved" in text and "work/01_small/01_small.ipynb" in text


def test_a_wrong_answer_exits_with_1_shows_its_message_and_the_next_step(where, capsys):
    edit(where, "train-days-7b", lambda text: text.replace("6 * params", "2 * params"))
    assert check_main(["01"], False, False, False, False) == 1
    text = said(capsys)
    assert "18 of 28" in text or "of 28 points" in text
    assert "Next: mend “One GPU, in days”" in text and "hint('train-days-7b')" in text and "✗" in text


def test_a_prediction_counts_for_calibration_as_in_the_notebook_and_the_first_guess_stays(where):
    for low in (10, 1000):
        edit(where, "predict-weeks", lambda _, low=low: f"def weeks_interval():\n    return {low}, {3 * low}")
        assert check_main(["01"], False, False, False, False) == 0
        kept = progress.load(where.work)["exercises"]["predict-weeks"]
        assert kept["interval"] == [10.0, 30.0] and kept["held"] is (10 <= kept["truth"] <= 30)
    assert progress.calibration(progress.load(where.work))[1] == 1


def test_half_right_earns_its_share(where):
    edit(where, "state-13b", lambda text: text.replace("return gpu_memory - nbytes / gpus", "return 0.0"))
    [result] = grade_all(["01"], where)
    report = next(report for report in result.reports if report.exercise == "state-13b")
    assert 0 < report.points < report.maximum and report.state == "answered"


def test_an_untouched_chapter_says_where_to_start(where, capsys):
    mine(where).write_text(render(as_released()))
    assert check_main(["01"], False, False, False, False) == 1
    text = said(capsys)
    assert "0 of 28 points" in text and "Not answered yet" in text and "Next: start with “The state" in text


def test_what_an_answer_says_is_shown_as_it_stands(where, capsys):
    hostile = (
        "def train_days(*_): raise ValueError('[red]bold[/] [link=http://x]\\x1b[2J\\u202e')\ndef "
        "gpus_for_deadline(*_): pass"
    )
    edit(where, "train-days-7b", lambda _: hostile)
    assert check_main(["01"], False, False, False, False) == 1
    text = capsys.readouterr().out
    assert "[red]bold[/]" in text and "\x1b" not in text and "\u202e" not in text


def test_solved_and_blank_grade_the_courses_own(where, capsys):
    mine(where).unlink()
    assert check_main(["01"], True, False, False, False) == 0 and "28 of 28" in said(capsys)
    assert check_main(["01"], False, True, False, False) == 0 and "0 of 28" in said(capsys)
    assert not (where.work / ".course").exists(), "the course's own answers are nobody's progress"


def test_blank_fails_when_a_stub_earns_points_or_crashes(where, capsys):
    notebook = small_source()
    cell_of(notebook, "predict-weeks")["source"] = (
        "def weeks_interval():\n    return 10, 20\n    ### BEGIN SOLUTION\n    ### END SOLUTION"
    )
    (where.root / "solutions/01_small/01_small.ipynb").write_text(render(notebook))
    assert check_main(["01"], False, True, False, False) == 1
    capsys.readouterr()


def test_all_takes_every_chapter_with_a_copy(where, capsys):
    assert check_main([], False, False, True, True) == 0
    assert [chapter["chapter"] for chapter in json.loads(capsys.readouterr().out)["chapters"]] == ["01"]
    mine(where).unlink()
    assert check_main([], False, False, True, True) == 1
    assert "course learn" in json.loads(capsys.readouterr().out)["chapters"][0]["trouble"]["way_out"]


def test_json_says_what_the_table_says(where, capsys):
    edit(where, "train-days-7b", lambda text: text.replace("6 * params", "2 * params"))
    assert check_main(["01", "nowhere.ipynb"], False, False, False, True) == 1
    data = json.loads(capsys.readouterr().out)
    chapter, missing = data["chapters"]
    assert chapter["name"] == "01_small" and chapter["maximum"] == 28 and chapter["trouble"] is None
    wrong = next(each for each in chapter["exercises"] if each["id"] == "train-days-7b")
    assert set(wrong) >= {"id", "state", "points", "maximum", "passed", "verdicts"} and not wrong["passed"]
    assert any(not verdict["ok"] and verdict["message"] for verdict in wrong["verdicts"])
    assert "nowhere.ipynb" in missing["trouble"]["problem"] and missing["exercises"] == []


def test_one_bad_notebook_does_not_stop_the_others(where):
    (where.work / "broken.ipynb").write_text("{")
    broken, fine = grade_all([str(where.work / "broken.ipynb"), "01"], where)
    assert broken.trouble is not None and fine.points == fine.maximum


def test_a_variant_beside_the_notebook_is_judged_by_its_own_numbers(where):
    card = exercises.card("state-13b")
    variant = {"id": "v", "exercises": {card.id: dict(card.variant("someone")), "no-such-exercise": {"x": 1}}}
    (mine(where).parent / "variant.json").write_text(json.dumps(variant))
    assert variant_params(mine(where).parent)[card.id] == dict(card.variant("someone"))
    [result] = grade_all(["01"], where)
    assert result.points == result.maximum, [report for report in result.reports if not report.passed]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"exercises": 3}', '{"exercises": {"state-13b": 3}}'])
def test_a_variant_file_that_is_none_is_the_canonical_variant(tmp_path, text):
    (tmp_path / "variant.json").write_text(text)
    assert variant_params(tmp_path) == {}


def test_a_judge_that_fails_costs_one_exercise_and_says_so(where, monkeypatch):
    from course_grader.judge import grade_notebook

    def fails(exercise, *given):
        if exercise.card.id == "train-days-7b":
            raise ZeroDivisionError("in the oracle")
        return honest(exercise, *given)

    honest = grade_notebook.decide
    monkeypatch.setattr(grade_notebook, "decide", fails)
    [result] = grade_all(["01"], where)
    lost = next(report for report in result.reports if report.exercise == "train-days-7b")
    assert lost.state == "refused" and "report it" in lost.note and result.points == result.maximum - lost.maximum


# ---------------------------------------------------------------------------- small parts


def report(state="answered", points=0.0, verdicts=(), note="", exercise="train-days-7b"):
    return Report(exercise=exercise, state=state, points=points, maximum=10.0, verdicts=tuple(verdicts), note=note)


WRONG = Verdict(kind="values", part="days", ok=False, message="a year has 365 days")
WASTEFUL = Verdict(kind="cost", part="bytes", ok=True)


def test_marks_say_what_counts():
    both = report(verdicts=[WRONG, WASTEFUL])
    assert [mark_of(both, kind) for kind in ("values", "cost", "protocol", "generality")] == ["✗", "–", "", ""]
    assert mark_of(report("crashed", verdicts=[WASTEFUL]), "cost") == ""


@each_alone(
    "what, words",
    (report(verdicts=[WRONG]), "a year has 365 days"),
    (
        report("not answered", note="Not answered yet: fill in the cell above and run this one again."),
        "Not answered yet",
    ),
    (report("not answered", note="The answer cell of “x” is missing."), "is missing"),
    (report("crashed", note="Your code ended the process: exit(3)."), "exit(3)"),
    (report("timed out", note="Your code ran longer than 10 s."), "longer than 10 s"),
    (report("raised", note="ValueError: no"), "stopped with an error: ValueError: no"),
    (report(points=10.0), ""),
)
def test_the_first_failure_in_words(what, words):
    assert words in why_not(what) and bool(words) == bool(why_not(what))


def test_the_next_step_goes_from_core_to_more_to_the_next_chapter():
    core, more = report(exercise="train-days-7b"), report(exercise="mfu-bug")
    done = [report(points=10.0, exercise=name) for name in ("train-days-7b", "mfu-bug")]

    def step(*reports):
        return next_step(Graded(chapter="01", name="01", reports=reports))

    assert "“One GPU, in days”" in step(core, more)
    assert "all core exercises are solved" in step(done[0], more) and "mfu-bug" in step(done[0], more)
    assert "everything here is solved" in step(*done)


def test_trouble_is_shown_with_its_way_out(capsys):
    show(Graded(chapter="01", name="01_x", trouble=Trouble("It is [bold]broken[/bold].", "mend it")))
    assert "It is [bold]broken[/bold]. Way out: mend it." in said(capsys)
