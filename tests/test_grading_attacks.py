"""The attack suite: nothing gets through on this machine, the attacks are real ones, and what got through would be seen."""

import json

import pytest
from typer.testing import CliRunner

from course_lib.cli import app
from course_lib.grading.attacks import trial
from course_lib.grading.attacks.limits import UNPROTECTED, WEAKER
from course_lib.grading.attacks.sheet import ATTACKS, KINDS, MATERIALS, Attack, Sheet, small_source, solved
from course_lib.grading.attacks.stage import Stage, strays
from course_lib.grading.sandbox import Wall, best
from course_lib.grading.service import task

ALL = trial.every()
GROUPS = {  # what one marker tries; about the same time each
    "forgeries": lambda each: each.kind == "forging" and each.chapter == "01",
    "leaks": lambda each: each.kind == "leak",
    "tampering and exhaustion": lambda each: each.kind in ("tampering", "exhaustion") and each.chapter == "01" and not each.brief,
    "hangs": lambda each: each.chapter == "01" and each.brief,
    "accidents": lambda each: each.kind == "accident" and each.chapter == "01",
    "chapter 00": lambda each: each.chapter == "00",
    "chapter 06": lambda each: each.chapter == "06",
}


def tried(level, attacks):
    """Rows by name."""
    with Stage() as stage, trial.Range(stage, Wall(level=level)) as ground:
        return {row.attack.name: row for row in trial.try_all(attacks, ground)}


def through(rows):
    return {name: row.why for name, row in rows.items() if not row.held}


def test_there_are_many_attacks_of_every_kind_and_each_is_in_one_group():
    assert len(ALL) >= 200 and {each.kind for each in ALL} == set(KINDS)
    for each in ALL:
        assert sum(fits(each) for fits in GROUPS.values()) == 1, each.name
        assert each.words, each.name


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_gets_through(group):
    assert best() == "namespaces", "the suite wants the strongest sandbox: run it as root, or where user namespaces are allowed"
    attacks = [each for each in trial.chosen() if GROUPS[group](each)]
    assert through(tried("namespaces", attacks)) == {}


WITHOUT_A_PROCESS_SPACE = ("class-folder", "secret-by-its-path", "gradebook-by-sql", "judging-source", "memory-of-the-judge", "services-on-loopback",
                           "sockets-without-a-network", "grades-in-the-database", "code-of-the-course", "end-of-another-process",
                           "detached-process")  # fmt: skip


def test_the_weaker_sandbox_holds_too():
    assert through(tried("contained", [ATTACKS[name] for name in WITHOUT_A_PROCESS_SPACE])) == {}


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
}


def test_attacks_succeed_where_there_is_no_wall_and_that_is_seen():
    rows = tried("none", [ATTACKS[name] for name in REAL])
    assert {name: bool(getattr(rows[name], seen)) for name, seen in REAL.items()} == dict.fromkeys(REAL, True), through(rows)


SHARED = ("shared-by-the-environment", "shared-by-an-attribute", "shared-by-a-mapping", "shared-by-pipes", "shared-by-a-helper",
          "whole-messages-without-content")  # fmt: skip


def test_ranks_that_share_a_process_can_cheat_so_those_that_decide_share_none(monkeypatch):
    real = task.mark
    monkeypatch.setattr(task, "mark", lambda *given, **more: real(*given, **{**more, "deciding_ranks": False}))
    rows = tried("namespaces", [ATTACKS[name] for name in SHARED])
    assert all(row.gained >= 4 for row in rows.values()), {name: row.gained for name, row in rows.items()}


# ---------------------------------------------------------------------------- the trial itself


def entered(make, **more):
    return Attack(name="made-up", kind="forging", words="made up", make=make, **more)


def test_what_gets_through_is_seen_and_what_was_promised_is_asked_for():
    def right_after_all(sheet):
        sheet.expect(sheet.target, 0.0)

    def loses_honest_points(sheet):
        sheet.stub("mfu-waste")
        sheet.expect("mfu-waste", 10.0, "answered")
        sheet.said.append("a word that nobody says")

    def is_not_refused(sheet):
        sheet.refused = "a reason"

    with Stage() as stage, trial.Range(stage, Wall(level="none")) as ground:
        gained, lost, graded = (ground.trial(entered(make)) for make in (right_after_all, loses_honest_points, is_not_refused))
    assert gained.gained == 10 and not gained.held and "gained 10 points" in gained.why
    assert lost.lost == 10 and "mfu-waste is “not answered”" in lost.why and "nobody was told" in lost.why
    assert not graded.held and graded.gained > 0
    assert json.loads(json.dumps(gained.as_data()))["held"] is False


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
        for words in ("changed: ", "new: ", "gone: ", "planted: ", f"left running: process {child.pid}", "ended: a process of the host"):
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


def test_the_command_prints_what_held_and_what_it_does_not_protect_from():
    done = command("--only", "nothing-done", "--only", "empty-file")
    assert done.exit_code == 0, done.output
    assert "2 of 2 held" in done.output and "“namespaces”" in done.output
    assert all(each[:40] in done.output for each in UNPROTECTED)


def test_the_command_fails_where_something_gets_through(monkeypatch):
    monkeypatch.setitem(ATTACKS, "made-up", entered(lambda sheet: sheet.expect(sheet.target, 0.0)))
    done = command("--only", "made-up", "--json", "--level", "namespaces")
    data = json.loads(done.stdout)
    assert done.exit_code == 1 and data["held"] == 0 and data["tried"] == 1
    assert data["attacks"][0]["gained"] == 10 and data["level"] == "namespaces" and data["does_not_protect_from"]


def test_without_a_sandbox_the_command_says_so_and_fails():
    done = command("--only", "empty-file", "--level", "none")
    assert done.exit_code == 1 and WEAKER["none"][:50] in done.output


@pytest.mark.parametrize(("words", "said"), [(("--only", "no-such-thing"), "No attack is named"), (("--level", "moat"), "no level 'moat'")])
def test_the_command_answers_words_that_it_does_not_know(words, said):
    done = command(*words)
    assert done.exit_code != 0 and said in str(done.exception)


def test_the_command_lists_every_attack():
    done = command("--list", "--json")
    assert {each["attack"] for each in json.loads(done.stdout)} == set(ATTACKS)
