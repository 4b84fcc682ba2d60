"""The attack suite: nothing gets through on this machine, the attacks are real ones, and what got through would be
seen."""

import fcntl
import json
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_app.cli import app
from course_grader import dependencies
from course_grader.attacks import trial
from course_grader.attacks.limits import UNPROTECTED, WEAKER
from course_grader.attacks.sheet import ATTACKS, KINDS, MATERIALS, Attack, Sheet, small_source, solved
from course_grader.attacks.stage import Stage, strays
from course_grader.sandbox import Wall, best_level
from course_lib.messages import Trouble
from tests import attacks as more  # enters the attacks that do not ship

ALL = trial.every()
TRIED = ("course_grader/", "course_lib/cluster/", "tests/attacks/")  # whose change has all attacks tried
GROUPS = {  # what one marker tries
    "forgeries and accidents": lambda each: each.kind in ("forging", "accident") and each.chapter == "01",
    "leaks, tampering and exhaustion": lambda each: (
        each.kind in ("leak", "tampering", "exhaustion") and each.chapter == "01" and not each.brief
    ),
    "hangs": lambda each: each.chapter == "01" and each.brief,
    "chapter 02": lambda each: each.chapter == "02",
    "chapter 00": lambda each: each.chapter == "00",
    "chapter 06": lambda each: each.chapter == "06",
}


@pytest.fixture(autouse=True)
def stages(request):
    """Without a wall an attack removes all System V memory of the machine; no other stage may stand then, in any test
    process."""
    alone = request.function is test_what_gets_through_is_seen_and_without_a_wall_attacks_do
    with (Path(tempfile.gettempdir()) / "course-stages.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def tried(level, attacks):
    """Rows by name."""
    with Stage() as stage, trial.Range(stage, Wall(level=level)) as ground:
        return {row.attack.name: row for row in trial.try_all(attacks, ground)}


def through(rows):
    return {name: row.why for name, row in rows.items() if not row.held}


def test_there_are_many_attacks_of_every_kind_and_each_is_in_one_group():
    assert len(ALL) >= 250 and {each.kind for each in ALL} == set(KINDS) and len(more.__all__) == 12
    for each in ALL:
        assert sum(fits(each) for fits in GROUPS.values()) == 1, each.name
        assert each.words, each.name


def test_some_thirty_attacks_ship_and_they_are_of_every_kind():
    shipped = [each for each in ALL if each.make.__module__.startswith("course_grader.")]
    assert 25 <= len(shipped) <= 40 and {each.kind for each in shipped} == set(KINDS)
    assert all(each.make.__module__.startswith("tests.attacks.") for each in ALL if each not in shipped)


@pytest.fixture
def in_turn(the_rotation):
    """Attacks of a group of which this run tries a share, some of each kind."""

    def share(fits):
        kinds = ([each for each in trial.chosen() if each.kind == kind and fits(each)] for kind in KINDS)
        rows = [each for rows in kinds for each in the_rotation.share(rows, TRIED)]
        return [each for each in trial.chosen() if each in rows]

    return share


@pytest.mark.parametrize("group", [name for name in GROUPS if name != "chapter 06"])
def test_nothing_gets_through(group, in_turn):
    assert best_level() == "namespaces", (
        "the suite wants the strongest sandbox: run it as root, or where user namespaces are allowed"
    )
    assert through(tried("namespaces", in_turn(GROUPS[group]))) == {}


SHARED = (
    "shared-by-the-environment",
    "shared-by-an-attribute",
    "shared-by-pipes",
    "shared-by-a-helper",
    "whole-messages-without-content",
)


def test_no_rank_knows_what_nobody_sent_it_though_it_could_among_threads(monkeypatch, in_turn):
    real = dependencies.grade_notebook
    with Stage() as stage, trial.Range(stage, Wall()) as ground:
        rows = trial.try_all(in_turn(GROUPS["chapter 06"]), ground)
        monkeypatch.setattr(
            dependencies, "grade_notebook", lambda *given, **more: real(*given, **{**more, "deciding_ranks": False})
        )
        among_threads = trial.try_all(in_turn(lambda each: each.name in SHARED), ground)
    assert through({row.attack.name: row for row in rows}) == {}
    gained = {row.attack.name: row.gained for row in among_threads}
    assert all(gained.values()), gained


WITHOUT_A_PROCESS_SPACE = (
    "class-folder", "secret-by-its-path", "gradebook-by-sql", "judging-source", "memory-of-the-judge",
    "services-on-loopback", "sockets-without-a-network", "grades-in-the-database", "code-of-the-course",
    "end-of-another-process", "detached-process", "files-of-other-students", "objects-of-the-system-removed",
    "time-of-other-processes", "files-cut-short", "signals-by-a-descriptor", "counts-of-the-system",
    "memory-that-is-free", "pages-in-memory", "hints-on-files", "semaphores-and-queues", "numbers-of-the-kernel",
)  # fmt: skip


def test_the_weaker_sandbox_holds_too(in_turn):
    assert through(tried("contained", in_turn(lambda each: each.name in WITHOUT_A_PROCESS_SPACE))) == {}


REAL = {  # without a wall they succeed: what is seen of it
    "solutions": "read",
    "judging-by-import": "read",
    "class-folder": "read",
    "gradebook-by-sql": "read",
    "environment": "read",
    "memory-of-the-judge": "read",
    "services-on-loopback": "reached",
    "sockets-without-a-network": "reached",
    "shared-memory-of-the-host": "read",
    "grades-in-the-database": "touched",
    "files-of-other-students": "touched",
    "shared-memory-overwritten": "touched",
    "end-of-another-process": "touched",
    "objects-of-the-system-removed": "touched",
    "files-cut-short": "touched",
    "semaphores-and-queues": "read",
}


def entered(make, **more):
    return Attack(name="made-up", kind="forging", words="made up", make=make, **more)


def right_after_all(sheet):
    sheet.expect(sheet.target, 0.0)


def loses_honest_points(sheet):
    sheet.stub("mfu-waste")
    sheet.expect("mfu-waste", 10.0, "answered")
    sheet.said.append("a word that nobody says")


def is_not_refused(sheet):
    sheet.refused = "a reason"


def test_what_gets_through_is_seen_and_without_a_wall_attacks_do():
    with Stage() as stage, trial.Range(stage, Wall(level="none")) as ground:
        gained, lost, graded = (
            ground.trial(entered(make)) for make in (right_after_all, loses_honest_points, is_not_refused)
        )
        rows = {name: ground.trial(ATTACKS[name]) for name in REAL}
    assert gained.gained == 10 and not gained.held and "gained 10 points" in gained.why
    assert lost.lost == 10 and "mfu-waste is “not answered”" in lost.why and "nobody was told" in lost.why
    assert not graded.held and graded.gained > 0
    assert json.loads(json.dumps(gained.as_data()))["held"] is False
    assert {name: bool(getattr(rows[name], seen)) for name, seen in REAL.items()} == dict.fromkeys(REAL, True), through(
        rows
    )


def test_a_grader_that_marks_nothing_is_no_place_to_try_attacks(monkeypatch):
    monkeypatch.setattr(trial.Range, "hand_in", lambda *_: {"state": "failed", "why": "nothing starts", "points": 0.0})
    with (
        Stage() as stage,
        trial.Range(stage, Wall()) as ground,
        pytest.raises(Trouble, match="does not mark honest work here.*nothing starts"),
    ):
        ground.trial(ATTACKS["everything-right"])


def test_a_stage_sees_what_is_changed_planted_left_and_reached(tmp_path):
    import socket
    import subprocess

    with Stage() as stage:
        assert stage.touched() == []
        (stage.root / "class/.secret").write_text("mine")
        (stage.root / "class/new.txt").write_text("x")
        (stage.root / "class/roster.csv").unlink()
        (stage.shm.parent / f"planted-{stage.run}").write_text("x")
        child = subprocess.Popen(["sh", "-c", "sleep 60", f"stray-{stage.run}"])
        stage.victim.kill()
        stage.victim.wait()
        with socket.create_connection(("127.0.0.1", stage.about["tcp"])) as line:
            assert stage.leaked(line.recv(100).decode()) == ["a service of the host"]
        seen = " ".join(stage.touched())
        for words in (
            "changed: ",
            "new: ",
            "gone: ",
            "planted: ",
            f"left running: process {child.pid}",
            "ended: a process of the host",
        ):
            assert words in seen
        assert list(stage.reached) == ["TCP service on 127.0.0.1"]
        stage.restore()
        child.wait()
        assert strays(stage.run) == [] and stage.touched() == [] and not stage.reached
        assert stage.leaked("nothing") == [] and stage.leaked("LEAKED all")
    assert not stage.root.exists() and not stage.shm.exists()


@pytest.mark.parametrize("chapter", MATERIALS)
def test_a_small_chapter_is_whole(chapter):
    source = small_source(chapter)
    sheet = Sheet(chapter, {}, ())
    assert sheet.target in sheet.points and sheet.notebook == solved(source)
    assert all(points == card.points for points, card in zip(sheet.points.values(), sheet.cards, strict=True))


# ---------------------------------------------------------------------------- the command


def command(*words):
    return CliRunner().invoke(app, ["class", "self-test", *words])


@pytest.fixture
def untried(monkeypatch):
    """The command without its trials: every attack is held but those named "fork-bomb"."""

    def rows(attacks, ground, say=None):
        return [trial.Row(attack=each, kept=15.0, gained=7.5 * (each.name == "fork-bomb")) for each in attacks]

    monkeypatch.setattr(trial, "try_all", rows)


def test_the_command_prints_what_held_and_what_it_does_not_protect_from(untried):
    done = command("--only", "nothing-done", "--only", "empty-file")
    assert done.exit_code == 0, done.output
    assert "2 of 2 held" in done.output and "“namespaces”" in done.output
    assert all(each[:40] in done.output for each in UNPROTECTED)


def test_the_command_fails_where_something_gets_through(untried):
    done = command("exhaustion", "--json", "--level", "namespaces")
    data = json.loads(done.stdout)
    assert done.exit_code == 1 and data["held"] == data["tried"] - 1 and data["level"] == "namespaces"
    assert [each["gained"] for each in data["attacks"] if not each["held"]] == [7.5]
    assert "GOT THROUGH" in command("--only", "fork-bomb").output


def test_without_a_sandbox_the_command_says_so_and_fails(untried):
    done = command("--only", "empty-file", "--level", "none")
    assert done.exit_code == 1 and WEAKER["none"][:50] in done.output


def test_attacks_that_could_harm_the_machine_are_tried_behind_the_strongest_wall_only(untried):
    for level in ("contained", "none"):
        assert "fork-bomb" not in command("exhaustion", "accident", "--level", level).output


@pytest.mark.parametrize(
    ("words", "said"), [(("--only", "no-such-thing"), "No attack is named"), (("--level", "moat"), "no level 'moat'")]
)
def test_the_command_answers_words_that_it_does_not_know(words, said):
    done = command(*words)
    assert done.exit_code != 0 and said in str(done.exception)


def test_the_command_lists_every_attack():
    done = command("--list", "--json")
    assert {each["attack"] for each in json.loads(done.stdout)} == set(ATTACKS)
