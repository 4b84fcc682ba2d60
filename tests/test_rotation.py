"""Which slow checks a run makes: what a change brings with it, whose turn it is, and what happens without history."""

import json
from types import SimpleNamespace

import pytest

from tests import rotation, run_costs, tiers
from tests.conftest import code_of, turn_of
from tests.rotation import CHAPTERS, MOST_FILES, REPOSITORY, SHARE
from tests.tables import each_alone, each_of


@pytest.fixture
def files(monkeypatch):
    """A function that makes these files the changed ones, in their code; None stands for a missing history."""

    def change(*paths, known=True, count=0):
        monkeypatch.setattr(rotation, "changed", lambda base: set(paths) if known else None)
        monkeypatch.setattr(rotation, "start_of_changes", lambda: "abc")
        monkeypatch.setattr(rotation, "turn", lambda: count)
        return rotation.rotation()

    return change


@each_alone(
    "path, chapter",
    ("solutions/06_rings/06_rings.ipynb", "06"),
    ("notebooks/10_pipelines/figures/one.svg", "10"),
    ("course_chapters/ch06/exercises/judges/ring_shift.py", "06"),
    ("course_chapters/ch00/course_map.py", "00"),
    ("course_chapters/ch00/widgets.py", "00"),
    ("course_chapters/ch06/exercises/ring_shift.py", "06"),
    ("course_lib/draw/explore.py", None),
    ("course_grader/judge.py", None),
)
def test_a_file_belongs_to_a_chapter_by_its_path(path, chapter):
    assert rotation.chapter_of(path) == chapter


def test_a_changed_chapter_runs_whole_beside_the_one_whose_turn_it_is(files):
    run = files("solutions/06_rings/06_rings.ipynb", "README.md", count=1)
    assert run.chapters == tuple(sorted({CHAPTERS[1], "06"})) and run.crossing == ("06",)


def test_a_change_of_words_is_no_change_of_code(files, monkeypatch, tmp_path):
    module = tmp_path / "course_grader" / "ranks.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(rotation, "REPOSITORY", tmp_path)
    monkeypatch.setattr(rotation, "git", lambda *words: '"""Ranks."""\ndef f(x):\n    """Twice x."""\n    return 2 * x')
    for now, differs in {
        '"""All ranks."""\n\n\ndef f(x):  # doubles\n    """Two times x."""\n    return 2 * x\n': False,
        '@pytest.mark.rotates("course_lib/parallel/pipeline/")\ndef f(x):\n    return 2 * x\n': False,
        "def f(x):\n    return 3 * x\n": True,
        "def f(x:\n": True,
    }.items():
        module.write_text(now)
        assert files("course_grader/ranks.py").touches(["course_grader/"]) is differs
    assert files("course_grader/new.py").touches(["course_grader/"]), "a file that is gone"


def test_a_picture_that_changed_counts_and_nobody_reads_it_as_text():
    assert rotation.differs_in_code("docs/chapter-01.png", "HEAD")


def test_among_many_changed_chapters_a_bounded_number_runs_and_each_has_its_turn(files):
    notebooks = [f"solutions/{chapter}_x/{chapter}_x.ipynb" for chapter in CHAPTERS]
    runs = [files(*notebooks, count=count) for count in range(len(CHAPTERS))]
    assert all(len(run.chapters) <= 2 and len(run.crossing) == 1 for run in runs)
    assert set().union(*(run.chapters for run in runs)) == set().union(*(run.crossing for run in runs)) == set(CHAPTERS)
    alone = {chapter for count in range(len(CHAPTERS)) for chapter in files(count=count).chapters}
    assert alone == set(CHAPTERS), "without changes too"


def test_where_much_changed_or_nobody_knows_what_no_test_is_singled_out(files):
    many = [f"course_grader/file{number}.py" for number in range(MOST_FILES + 1)]
    assert files(*many[:-1]).has_turn(1, ["course_grader/"])
    for run in (files(*many), files(known=False)):
        assert [run.has_turn(place, ["course_grader/"]) for place in range(SHARE)] == [True] + [False] * (SHARE - 1)
        assert "any out" in "\n".join(run.said())
    runs = [files(known=False, count=count) for count in range(len(CHAPTERS))]
    assert set().union(*(run.chapters for run in runs)) == set().union(*(run.crossing for run in runs)) == set(CHAPTERS)


def test_a_commit_that_git_does_not_know_is_named(monkeypatch):
    monkeypatch.setattr(rotation, "changed", lambda base: None)
    with pytest.raises(ValueError, match="nonsense"):
        rotation.rotation("nonsense")


def test_a_wrong_answer_crosses_and_it_differs_from_commit_to_commit(files):
    answers = [SimpleNamespace(sort=sort, name=place) for place, sort in enumerate(["right", *["wrong"] * 9, "half"])]
    drawn = [files(count=count).sample("an-exercise", answers) for count in range(60)]
    assert {answer.name for (answer,) in drawn} == set(range(1, 11)), "each has its turn"
    assert files(count=7).sample("an-exercise", answers) == drawn[7], "the same for each process of a run"
    assert files(count=7).sample("a-prediction", answers[:1]) == answers[:1]


def test_tests_that_rotate_have_their_turn_and_all_run_whose_code_changed(files):
    turns = [{place for place in range(7) if files(count=count).has_turn(place)} for count in range(SHARE)]
    assert set().union(*turns) == set(range(7)) and max(map(len, turns)) == 2
    later, code = (
        files("course_lib/parallel/pipeline/ranks.py", count=1),
        ["course_lib/parallel/pipeline/", "course_lib/cluster/"],
    )
    assert all(later.has_turn(place, code) for place in range(7))
    assert not later.has_turn(0, ["course_lib/cluster/"]) and not later.has_turn(0)
    assert all(
        files("course_chapters/ch06/exercises/judges/ring_shift.py").has_turn(place, (), {"06"}) for place in range(7)
    )


@each_of("rows", [0, 1, 3, SHARE, SHARE + 2, 5 * SHARE])
def test_of_a_slow_table_some_rows_have_their_turn_and_each_has_one(rows):
    shares = [
        rotation.Rotation(**{**rotation.quick().plain(), "seed": seed}).share(range(rows), ["course_grader/"])
        for seed in range(SHARE)
    ]
    assert set().union(*shares) == set(range(rows)) and all(map(len, shares)) == (rows > 0)


def test_tests_that_share_a_slow_fixture_have_one_turn():
    def item(path, **options):
        return SimpleNamespace(
            path=path, iter_markers=lambda name: [pytest.mark.rotates("course_lib/", **options).mark]
        )

    one, two, other, alone = (
        item("a.py", together="x"),
        item("a.py", together="x"),
        item("b.py", together="x"),
        item("a.py"),
    )
    assert turn_of(one) == turn_of(two) != turn_of(other) and turn_of(alone) is alone


def test_a_solved_chapter_runs_whenever_its_own_code_changed(files):
    names = ("solutions/06_rings/06_rings.ipynb", "course_chapters/ch06/page.py")
    item = SimpleNamespace(
        iter_markers=lambda name: (),
        callspec=SimpleNamespace(params={"solved_chapter": "06"}),
        path=REPOSITORY / "tests/x.py",
    )
    assert all(files(name).has_turn(1, code_of(item)) for name in names)
    assert not files("course_chapters/ch07/page.py").has_turn(1, code_of(item))


def test_the_tests_of_single_chapters_run_whole():
    run = rotation.single(["06", "10"], "slower")
    assert run.chapters == run.crossing == ("06", "10") and run.tier == "slower"
    assert all(run.has_turn(place) for place in range(7)) and len(run.exercises(range(20))) == rotation.MOST_MUTATED


def test_what_a_test_that_rotates_depends_on_is_there(request):
    named = {path for item in request.session.items for mark in item.iter_markers("rotates") for path in mark.args}
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_what_is_left_to_later_runs_is_said(files):
    said = "\n".join(files("course_chapters/ch06/exercises/ring_shift.py").said())
    assert "left to later runs" in said and "--everything" in said and CHAPTERS[-1] in said
    assert "nothing is left out" in rotation.everything("asked for").said()[0]


def test_changes_begin_where_a_branch_left_main_and_on_main_a_day_before(tmp_path, monkeypatch):
    monkeypatch.setattr(rotation, "REPOSITORY", tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a person")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@person.edu")

    def commit(date):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{date} +0000")
        assert rotation.git("commit", "--allow-empty", "--quiet", "--message", date) is not None
        return rotation.git("rev-parse", "HEAD")

    assert rotation.git("init", "--quiet", "--initial-branch=main") is not None
    commit("2026-10-01 12:00:00")
    assert rotation.start_of_changes() == "HEAD^" and rotation.changed("HEAD^") is None
    landed = commit("2026-10-03 11:00:00")
    commit("2026-10-04 20:00:00")
    last = commit("2026-10-04 21:00:00")
    assert landed.startswith(rotation.start_of_changes())
    rotation.git("checkout", "--quiet", "-b", "work")
    commit("2026-10-09 12:00:00")
    (tmp_path / "new.py").touch()
    assert last.startswith(rotation.start_of_changes())
    assert rotation.changed(rotation.start_of_changes()) == {"new.py"} and rotation.turn() == 5


def test_the_changes_of_this_repository_can_be_read():
    if first := rotation.git("rev-list", "--max-count=1", "--skip=20", "HEAD"):
        assert rotation.changed(first)
    assert rotation.changed("no-such-commit") is None
    assert rotation.turn() > 0


@each_of(
    "file, marks, arguments, slower",
    ("tests/test_units.py", (), ("tmp_path",), False),
    ("tests/test_units.py", ("rotates",), (), True),
    ("tests/test_course.py", (), ("rotating_chapter",), True),
    ("tests/test_class_term.py", (), (), True),
)
def test_what_needs_a_browser_a_rotation_or_processes_belongs_to_the_slower_tier(file, marks, arguments, slower):
    """A test whose argument has no values would be skipped in the quick tier, and CI allows no skipped test."""
    given = [getattr(pytest.mark, mark).mark for mark in marks]
    item = SimpleNamespace(nodeid=f"{file}::test", fixturenames=arguments, iter_markers=given.__iter__)
    assert tiers.is_slower(item) is slower


@each_of(
    "file, tier, chapters, none",
    ("test_site.py", "quick", (), True),
    ("test_site.py", "slower", (), False),
    ("test_kill_matrix.py", "slower", (), False),
    ("test_packing.py", "slower", (), True),
    ("test_packing.py", "quick", (), False),
    ("test_packing.py", "", ("06",), True),
    ("test_course.py", "", ("06",), False),
    ("exercises/test_ch06.py", "", ("06", "07"), False),
    ("exercises/test_ch06.py", "", ("07",), True),
)
def test_a_file_is_loaded_unless_it_has_no_test_that_was_asked_for(file, tier, chapters, none):
    assert tiers.has_none(REPOSITORY / "tests" / file, tier, chapters) is none


REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_house" name="test_quick" time="0.02"/>
<testcase classname="tests.test_house" name="test_slow[a]" time="30.0"/>
<testcase classname="tests.test_house" name="test_slow[b]" time="10.0"/>
<testcase classname="tests.test_rotation" name="test_other" time="59.98"/>
</testsuite></testsuites>"""


def test_durations_are_updated_from_a_report_and_others_stay(tmp_path, monkeypatch):
    report, noted = tmp_path / "report.xml", tmp_path / "tests" / "weights.json"
    noted.parent.mkdir()
    for name in ("test_house.py", "test_rotation.py", "test_stays.py"):
        (noted.parent / name).touch()
    report.write_text(REPORT, encoding="utf-8")
    before = {"tests/test_house.py::test_slow[a]": 9, "tests/test_gone.py": 8, "tests/test_stays.py": 7}
    monkeypatch.setattr(run_costs, "WEIGHTS", before)
    monkeypatch.setattr(run_costs, "NOTED", noted)
    run_costs.note_weights([str(report)])
    slow = "tests/test_house.py::test_slow"
    wanted = {slow: 2000, f"{slow}[a]": 3000, f"{slow}[b]": 1000, "tests/test_house.py": 2, "tests/test_stays.py": 7}
    wanted |= {"tests/test_rotation.py::test_other": 5998}
    assert json.loads(noted.read_text(encoding="utf-8")) == wanted
    assert [run_costs.weight(name) for name in (f"{slow}[a]", f"{slow}[c]", "tests/test_house.py::test_new")] == [
        3000,
        2000,
        2,
    ]
