"""Grades into Canvas and Moodle through their web services: what is sent, what stays, what is said when it fails."""

import json

import pytest
from nbgrader.api import Gradebook

from course_app.cli import run
from course_grader.classroom import lms_services
from course_grader.classroom.export import grades
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.push import RECORD, push
from course_grader.classroom.release import release_chapter
from course_grader.classroom.roster import Student
from course_grader.service.grading import grade_class
from course_lib.messages import Trouble
from tests.class_kit import NAME, SIX, as_bytes, class_at, copy_of, course_at, saved, work
from tests.crash_kit import Made
from tests.fake_lms import CANVAS, MOODLE, TOKEN, Fake
from tests.guide_kit import blocks
from tests.tables import each_alone

HANDED_IN = ("ada", "alan", "leslie", "zoe")
NUMBER = {each.id: each.lms_id for each in SIX}


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Four of the six handed in, and are graded."""
    root = tmp_path_factory.mktemp("push")
    folder = ClassFolder.open(class_at(root, course_at(root / "course")).root)
    release_chapter(folder, "01")
    for student in HANDED_IN:
        saved(folder.submissions.folder(student, "01") / f"{NAME}.ipynb", as_bytes(work(folder, student)))
        folder.submissions.remember_arrival(student, "01", {"at": "2026-10-12T12:00:00+00:00", "by": "canvas"})
    folder.submissions.save_arrivals()
    assert grade_class(ClassFolder.open(folder.root), no_sandbox=True, crew=Made(0.0)).graded == 4
    return folder


@pytest.fixture
def folder(four, tmp_path):
    return copy_of(four, tmp_path / "class")


@pytest.fixture
def waited(monkeypatch):
    """Seconds that were waited: none really are."""
    spans = []
    monkeypatch.setattr(lms_services.time, "sleep", spans.append)
    monkeypatch.setattr(lms_services, "PAGE", 2)
    monkeypatch.setenv("CANVAS_TOKEN", TOKEN)
    monkeypatch.setenv("MOODLE_TOKEN", f" {TOKEN}\n")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return spans


@pytest.fixture
def fake(folder, waited):
    students = [{"id": each.lms_id, "login_id": each.login, "email": each.email} for each in SIX]
    return Fake(students, folder.exercises.maximum("01"))


@pytest.fixture(params=[CANVAS, MOODLE], ids=["canvas", "moodle"])
def address(fake, request):
    with fake.serving() as site:
        yield site + request.param


def scores(folder):
    return {each.student.id: each.score for each in grades(folder, ["01"]) if each.handed_in}


def told(made):
    return {line.student: line.does for line in made.lines}


def test_the_guides_commands_work(folder, fake, waited, capsys):
    with fake.serving() as site:
        for line in blocks("push"):
            words = line.replace("https://canvas.example.edu", site).split()
            assert words[0] == "export" or run([*words[1:], "-C", str(folder.root)]) == 0
    assert len(fake.sent) == 1 and "4 sent" in capsys.readouterr().out


def set_by_hand(folder, student, points):
    with Gradebook(folder.settings.db_url, folder.settings.name) as book:
        book.find_grade("mfu-waste-check", NAME, NAME, student).manual_score = points
        book.db.commit()


def test_a_dry_run_sends_nothing_then_all_is_sent_and_then_nothing_is_left(folder, fake, address, capsys):
    command = ["class", "push", "01", "-C", str(folder.root)]
    assert run([*command, "--to", address + "?x=1#y"]) == 0 and not fake.sent
    assert "4 to send, 0 there already" in capsys.readouterr().out
    assert run([*command, "--send"]) == 0
    assert "4 sent" in capsys.readouterr().out
    assert {NUMBER[student]: score for student, score in scores(folder).items()} == {
        number: entry["score"] for number, entry in fake.entries.items() if entry["score"] is not None
    }
    assert run(["class", "push", "--send", "-C", str(folder.root), "--json"]) == 0 and len(fake.sent) == 1
    assert {line["does"] for line in json.loads(capsys.readouterr().out)["chapters"][0]["lines"]} == {"there", "kept"}
    assert address in (folder.root / "class.toml").read_text()
    assert all(TOKEN.encode() not in path.read_bytes() for path in folder.root.rglob("*") if path.is_file())


@each_alone(
    "there, does",
    ({"score": None}, "send"),
    ({"score": 3.0}, "kept"),
    ({"score": 0.0}, "kept"),
    ({"score": 2.0, "entered_score": 3.0}, "kept"),  # Canvas deducts for lateness
    ({"score": 0.0, "missing": True, "grader_id": None}, {CANVAS: "send", MOODLE: "kept"}),  # Canvas's own 0
    ({"score": None, "excused": True}, {CANVAS: "kept", MOODLE: "send"}),
    ({"score": None, "gradeislocked": True}, {CANVAS: "send", MOODLE: "kept"}),
    ({"score": None, "gradeisoverridden": True}, {CANVAS: "send", MOODLE: "kept"}),
)
def test_what_a_person_set_stays(folder, fake, address, there, does):
    fake.entries[NUMBER["zoe"]] = dict(there)
    wanted = does if isinstance(does, str) else next(what for end, what in does.items() if address.endswith(end))
    assert told(push(folder, "01", to=address))["zoe"] == wanted
    sent = push(folder, "01", to=address, send=True)
    assert (NUMBER["zoe"] in fake.sent[0]) is (wanted == "send") and told(sent)["ada"] == "sent"
    if wanted == "kept" and not {"excused", "gradeislocked", "gradeisoverridden"} & {*there}:
        assert told(push(folder, "01", send=True, overwrite=["zoe"]))["zoe"] == "sent"


def test_a_new_grade_replaces_ours_but_not_what_a_person_made_of_it(folder, fake, address):
    push(folder, "01", to=address, send=True)
    for student in ("ada", "alan", "zoe"):
        set_by_hand(folder, student, 1.25)
    fake.entries[NUMBER["alan"]] = {"score": 5.0}
    fake.entries[NUMBER["zoe"]] = {"score": None}  # a person took it away
    does = told(push(folder, "01", send=True))
    assert (does["ada"], does["alan"], does["zoe"], does["leslie"]) == ("sent", "kept", "kept", "there")
    assert fake.sent[1] == {NUMBER["ada"]: scores(folder)["ada"]}


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_connection_that_ends_while_grades_are_set_costs_nothing(folder, fake, address, dies, waited):
    fake.dies = dies
    with pytest.raises(Trouble, match="does not answer.*also after 6 tries"):
        push(folder, "01", to=address, send=True)
    assert waited == [1, 2, 4, 8, 16]
    fake.dies = ""
    set_by_hand(folder, "ada", 1.25)  # what was sent to her last is ours, although nobody confirmed it
    does = told(push(folder, "01", send=True))
    assert does["ada"] == "sent" and does["zoe"] == ("sent" if dies == "before" else "there")
    assert set(json.loads((folder.root / RECORD).read_text())[address]) == {"ada", *HANDED_IN}


@each_alone(
    "status, headers, text, seconds",
    (429, {"Retry-After": "9"}, "", 9),
    (403, {}, "403 Forbidden (Rate Limit Exceeded)", 1),
    (503, {"Retry-After": "Wed, 21 Oct 2026"}, "", 1),
)
def test_a_busy_lms_is_asked_again(folder, fake, address, waited, status, headers, text, seconds):
    fake.first = [(part, status, headers, text) for part in ("users", "update_grades")]
    push(folder, "01", to=address, send=True)
    assert waited[:1] == [seconds] and len(fake.sent) == 1 and not fake.first


def test_a_jobs_failure_and_a_grade_that_was_not_taken_are_said(folder, fake, address):
    fake.job = {"workflow_state": "failed", "message": "no such student", "state": 4}
    with pytest.raises(Trouble, match="no such student|the item is locked"):
        push(folder, "01", to=address, send=True)
    fake.job, fake.give = {"workflow_state": "completed"}, fake.sent.append  # nothing is set
    made = push(folder, "01", send=True, overwrite=HANDED_IN)
    if fake.entries[NUMBER["ada"]]["score"] is None:
        assert {told(made)[student] for student in HANDED_IN} == {"problem"} and made.exit_code == 1


def test_who_cannot_be_told_apart_gets_no_grade(folder, fake, address):
    fake.students[0]["login_id"] = fake.students[0]["email"] = "alan@uni.edu"  # ada's number, alan's address
    fake.students = [each for each in fake.students if each["id"] != NUMBER["zoe"]]
    made = push(folder, "01", to=address, send=True)
    does = {line.student: (line.does, line.why) for line in made.lines}
    assert does["zoe"][0] == "problem" and "no student of this course" in does["zoe"][1]
    assert does["alan"][0] == "problem" and does["leslie"][0] == "sent" and made.exit_code == 1


def test_what_waits_for_a_person_or_could_not_be_read_is_left_out(folder, fake, address, capsys):
    with Gradebook(folder.settings.db_url, folder.settings.name) as book:
        book.find_grade("mfu-waste-check", NAME, NAME, "zoe").auto_score = None
        book.db.commit()
    for report in (folder.root / "reports" / "ada").rglob("*.json"):
        report.write_text(report.read_text().replace('"graded"', '"refused"'))
    folder = ClassFolder.open(folder.root)
    assert run(["class", "push", "01", "--to", address, "--send", "-C", str(folder.root)]) == 1
    assert sorted(fake.sent[0]) == sorted(NUMBER[student] for student in ("alan", "leslie"))
    said = capsys.readouterr().out
    assert "waits for a person's grade" in said and "could not be read" in said


HTML = "<!doctype html><title>Log in</title>"


@each_alone(
    "change, words, way",
    ({"CANVAS_TOKEN": "", "MOODLE_TOKEN": ""}, "_TOKEN is not set", "export"),
    ({"CANVAS_TOKEN": "a b", "MOODLE_TOKEN": "ä"}, "characters that no token has", "export"),
    ({"CANVAS_TOKEN": "old", "MOODLE_TOKEN": "old"}, "nvalid .*token", "_TOKEN"),
    ((404, {}, '{"errors":[{"message":"The specified resource does not exist."}]}'), "404", "copy the address"),
    ((302, {"Location": "https://sso.uni.edu/"}, ""), "sends on to https://sso.uni.edu/", "after logging in"),
    ((500, {}, f"oops {TOKEN}"), "500", "export"),
    ((200, {}, HTML), "does not answer like", "check the address"),
    ({"points_possible": 100, "grademax": 100}, "gives 100 points", "set the assignment's points"),
    ({"grading_type": "pass_fail", "scaleid": 3}, "no points|by a scale", "export"),
    ({"published": False, "scaleid": 3}, "not published|by a scale", "export"),
)
def test_what_goes_wrong_is_said_with_a_way_out(folder, fake, address, monkeypatch, change, words, way):
    if isinstance(change, tuple):
        fake.first = [("", *change)]
    for name, value in change.items() if isinstance(change, dict) else ():
        if name.endswith("TOKEN"):
            monkeypatch.setenv(name, value)
        fake.about[name] = fake.item[name] = value
    with pytest.raises(Trouble, match=words) as found:
        push(folder, "01", to=address, send=True)
    assert way in found.value.way_out and TOKEN not in str(found.value) and not fake.sent


@each_alone(
    "to, words",
    ("", "not known which assignment"),
    ("https://canvas.uni.edu/courses/12", "not the address of an assignment"),
    ("https://ada:pw@canvas.uni.edu/courses/12/assignments/3", "not the address"),
    ("http://canvas.uni.edu/courses/12/assignments/3", "not encrypted"),
    ("http://127.0.0.1:9/courses/12/assignments/3", "cannot be reached"),
    ("https://no-such-host.invalid/moodle/mod/assign/view.php?forceview=1&id=3", "cannot be reached"),
)
def test_an_address_that_cannot_be_is_said_at_once(folder, waited, to, words):
    with pytest.raises(Trouble, match=words):
        push(folder, "01", to=to)
    assert not waited and "lms" not in folder.settings.chapter("01")


def test_a_page_of_another_site_does_not_get_the_token(folder, fake, waited):
    fake.first = [("users", 200, {"Link": '<https://evil.example/x>; rel="next"'}, "[]")]
    with fake.serving() as site, pytest.raises(Trouble, match="another site: https://evil.example"):
        push(folder, "01", to=site + CANVAS)


def test_a_student_of_another_name_in_the_lms_is_found_by_number_alone(folder, fake, waited):
    folder.roster.save([*folder.roster.students(), Student(id="new", lms_id="2001")])
    fake.students.append({"id": "2001", "login_id": "", "email": ""})
    fake.entries["2001"] = {"score": None}
    with fake.serving() as site:
        made = push(folder, "01", to=site + CANVAS)
    assert [line.why for line in made.lines if line.student == "new"] == ["no graded work"]
