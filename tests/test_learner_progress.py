"""What is recorded of a learner's progress survives crashes, other kernels and damaged files."""

import json
import multiprocessing
from pathlib import Path

import pytest

from course_app.learner import progress
from course_app.learner.progress import Exercise, calibration, load, record, table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".course" / "released").mkdir(parents=True)
    return tmp_path


def report(id: str = "state-13b", points: float = 2.0, passed: bool = True, **more: object) -> dict:
    return {"id": id, "state": "answered", "points": points, "maximum": 2.0, "passed": passed, "chapter": "01", **more}


def test_nothing_is_written_outside_a_work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(report())
    assert list(tmp_path.iterdir()) == []
    assert load() == {"exercises": {}}


def test_a_check_is_recorded_from_anywhere_inside_the_work_folder(folder, monkeypatch):
    (folder / "01_three_walls").mkdir()
    monkeypatch.chdir(folder / "01_three_walls")
    record(report())
    entry = load()["exercises"]["state-13b"]
    assert (entry["passed"], entry["points"], entry["tries"], entry["chapter"]) == (True, 2.0, 1, "01")


def test_the_work_folder_may_be_named_by_the_environment(folder, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setenv("COURSE_WORK", str(folder))
    record(report())
    assert "state-13b" in load()["exercises"]


def test_a_later_failure_does_not_take_a_pass_away(folder):
    record(report(points=2.0), folder)
    first = load(folder)["exercises"]["state-13b"]["first_pass"]
    record(report(points=0.5, passed=False), folder)
    entry = load(folder)["exercises"]["state-13b"]
    assert (entry["points"], entry["passed"], entry["tries"], entry["first_pass"]) == (2.0, True, 2, first)


def test_only_the_first_guess_counts_for_calibration(folder):
    record(report("guess", interval=[1, 3], truth=10.0, held=False), folder)
    record(report("guess", interval=[9, 11], truth=10.0, held=True), folder)
    record(report("other", interval=[9, 11], truth=10.0, held=True), folder)
    assert calibration(load(folder)) == (1, 2)
    assert load(folder)["exercises"]["guess"]["interval"] == [1, 3]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"exercises": 3}', "\0\0\0"])
def test_a_damaged_file_is_moved_aside_and_recording_goes_on(folder, content):
    path = folder / progress.FILE
    path.write_text(content)
    record(report(), folder)
    assert "state-13b" in load(folder)["exercises"]
    (aside,) = path.parent.glob("progress.json.damaged-*")
    assert aside.read_text() == content


def _many(folder: str, name: str) -> None:
    for number in range(25):
        record(report(f"{name}-{number}"), Path(folder))


def test_kernels_that_record_at_once_lose_nothing(folder):
    context = multiprocessing.get_context("spawn")
    kernels = [context.Process(target=_many, args=(str(folder), name)) for name in "abc"]
    for kernel in kernels:
        kernel.start()
    for kernel in kernels:
        kernel.join()
    assert len(load(folder)["exercises"]) == 75


def test_a_crash_while_writing_leaves_the_last_whole_state(folder, monkeypatch):
    record(report("one"), folder)

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("course_grader.notebooks.os.replace", power_cut)
    with pytest.raises(KeyboardInterrupt):
        record(report("two"), folder)
    assert list(json.loads((folder / progress.FILE).read_text())["exercises"]) == ["one"]


COURSE = [
    Exercise(id="a", chapter="00", core=True, points=2),
    Exercise(id="b", chapter="01", core=True, points=2),
    Exercise(id="c", chapter="01", core=False, points=4),
    Exercise(id="d", chapter="01", core=True, points=2),
]


def test_the_table_counts_core_and_more_apart_and_names_what_is_next(folder):
    record(report("a"), folder)
    record(report("b", points=1.0, passed=False), folder)
    record(report("c", points=99.0), folder)
    record(report("gone"), folder)
    zero, one = table(COURSE, load(folder))
    assert (zero.core_done, zero.core, zero.passed, zero.next) == (1, 1, True, "")
    assert (one.core_done, one.core, one.more_done, one.more, one.passed, one.next) == (0, 2, 1, 1, False, "b")
    assert (one.points, one.maximum) == (1.0 + 4.0, 8.0)


def test_one_goes_on_where_one_was_and_not_at_the_first_gap(folder):
    course = [Exercise(id=f"e{number}", chapter=number, core=True, points=5) for number in ("00", "12", "13", "14")]

    def after(number: str | None = None) -> str | None:
        if number:
            record({"id": f"e{number}", "chapter": number, "passed": True, "points": 5, "maximum": 5}, folder)
        found = progress.where_one_was(table(course, load(folder)), load(folder))
        return found and found.next

    assert progress.latest_chapter(load(folder)) is None
    assert [after(number) for number in (None, "12", "13", "14", "00")] == ["e00", "e13", "e14", "e00", None]


def test_an_untouched_course_has_a_table_too():
    assert [row.core_done for row in table(COURSE, {"exercises": {}})] == [0, 0]
