"""Collecting: whose is what, which of several counts, when it came, and what is refused."""

import json
import os
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from course_grader.classroom import collect_student as collecting
from course_grader.classroom import exchange, unpack
from course_grader.classroom.collect import collect
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import Label, Who, label, read_times, scheme_of
from course_grader.classroom.release import start_gradebook
from course_grader.classroom.roster import Merged, Student, merged, read_roster, roster_text
from course_lib.messages import Trouble
from tests.class_kit import (
    CANVAS_ROSTER,
    NAME,
    SIX,
    Links,
    archive,
    at,
    class_at,
    copy_of,
    course_at,
    parse_here,
    saved,
    tiny,
)
from tests.tables import each_alone

NOW = at("2026-10-12 12:00")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("class")
    folder = class_at(root, course_at(root / "course"))
    start_gradebook(folder)  # the exchange's collector asks it for the due date
    return folder


@pytest.fixture
def folder(made, tmp_path) -> ClassFolder:
    return copy_of(made, tmp_path / "class")


@pytest.fixture
def take(folder, tmp_path):
    def take(files, **how):
        source = saved(tmp_path / "submissions.zip", archive(files))
        return collect(folder, source, parse=parse_here, now=how.pop("now", NOW), **how)

    return take


def there(folder, student):
    path = folder.submissions.notebook(student, "01")
    return json.loads(path.read_text())["cells"][0]["source"] if path else None


# ------------------------------------------------------------------------------------------------ the roster

MOODLE_PEOPLE = (
    "First name,Last name,ID number,Email "
    "address,Groups\nAda,Lovelace,m1,ada@uni.edu,A\nGrace,Hopper,,grace@uni.edu,B\n"
)
PLAIN = "student_id;first_name;last_name;email\nada;Ada;Lovelace;ada@uni.edu\n"


@each_alone(
    "text, ids, first",
    (CANVAS_ROSTER, ["ada", "alan", "barbara", "grace", "leslie", "zoe"], SIX[0]),
    (
        MOODLE_PEOPLE,
        ["grace", "m1"],
        Student(id="grace", first_name="Grace", last_name="Hopper", email="grace@uni.edu", section="B"),
    ),
    ("\ufeff" + PLAIN, ["ada"], Student(id="ada", first_name="Ada", last_name="Lovelace", email="ada@uni.edu")),
    ids=["Canvas's gradebook", "Moodle's participants", "a spreadsheet with semicolons"],
)
def test_a_roster_is_read_from_what_people_have(tmp_path, text, ids, first):
    students = read_roster(saved(tmp_path / "roster.csv", text.encode()))
    assert [student.id for student in students] == ids
    assert next(student for student in students if student.id == first.id) == (
        first if text != CANVAS_ROSTER else SIX[0]
    )
    assert read_roster(saved(tmp_path / "ours.csv", roster_text(students).encode())) == students


@each_alone(
    "text, words",
    ("student_id\nada\nAda\n", "line 3: the id 'Ada' is ada's already"),
    ("student_id,first_name\n,Nobody\n", "line 2 has no id"),
    ("student_id\n", "lists no students"),
    ("PK\x03\x04\x00\x00", "not a CSV file"),
    ("Etunimi,Sukunimi\nAda,Lovelace\n", "its columns are etunimi, sukunimi"),
)
def test_a_roster_that_cannot_be_used_is_told_by_line(tmp_path, text, words):
    with pytest.raises(Trouble, match=words):
        read_roster(saved(tmp_path / "roster.csv", text.encode() if "PK" not in text else b"student\n\x00"))


def test_a_newer_list_adds_and_updates_but_takes_nobody_out():
    newer = (
        Student(id="ada.l", first_name="Ada", last_name="King", lms_id="1001"),  # the number says that it is ada
        Student(id="edsger", last_name="Dijkstra", lms_id="2000"),
        SIX[1],
    )
    made = merged(SIX, newer)
    by = {student.id: student for student in made.students}
    assert (made.new, made.changed) == (("edsger",), ("ada",))
    assert set(made.gone) == {"barbara", "grace", "leslie", "zoe"}
    assert by["ada"].last_name == "King" and by["ada"].email == "ada@uni.edu" and len(by) == 7
    assert merged(SIX, SIX) == Merged(students=SIX, new=(), changed=(), gone=())


def test_an_id_never_leads_out_of_the_class(tmp_path):
    students = read_roster(saved(tmp_path / "roster.csv", b"student_id\n../../etc\n.hidden\n"))
    assert [student.id for student in students] == ["etc", "hidden"]


# ------------------------------------------------------------------------------------------------ whose is what


def test_canvas_names_give_student_lateness_and_the_newest_upload(folder, take):
    done = take(
        {
            "lovelaceada_1001_500_01_small.ipynb": tiny("old"),
            "lovelaceada_LATE_1001_777_01_small-2.ipynb": tiny("newest"),
            "lovelaceada_1001_600_01_small-1.ipynb": tiny("between"),
            "hoppergrace_1002_501_my walls.ipynb": tiny("renamed"),
            "nunezangstromzoe_1004_502_01_small.ipynb": tiny("zoe"),
            "turingalan_9999_503_01_small.ipynb": tiny("a number that is not alan's"),
            "nobodyknown_4242_504_01_small.ipynb": tiny("?"),
        }
    )
    assert {taken.student: (there(folder, taken.student), taken.late, taken.state) for taken in done.taken} == {
        "ada": ("newest", False, "new"),
        "grace": ("renamed", False, "new"),
        "zoe": ("zoe", False, "new"),
    }
    assert folder.submissions.arrival_record("ada", "01")["file"] == "lovelaceada_LATE_1001_777_01_small-2.ipynb"
    assert len(done.unmatched) == 2 and done.exit_code == 1
    assert "their number in Canvas is 1003" in done.unmatched[0] and "no student of the roster" in done.unmatched[1]


def test_what_canvas_calls_late_is_late_and_what_it_does_not_is_in_time(folder, take):
    folder.settings.chapter("01")["due"] = at("2026-10-10 23:59")
    files = {"lovelaceada_LATE_1001_7_a.ipynb": tiny(), "hoppergrace_1002_8_a.ipynb": tiny()}
    done = take(files)
    assert {taken.student: taken.late for taken in done.taken} == {"ada": True, "grace": False}
    assert folder.submissions.arrival("grace", "01") == at("2026-10-10 23:59")
    assert folder.submissions.arrival("ada", "01") == NOW
    assert "2026-10-12" in (folder.submissions.folder("ada", "01") / "timestamp.txt").read_text()
    assert not folder.submissions.arrival_known("ada", "01")
    said = take(files, at=at("2026-10-10 08:00"))  # the instructor knows better
    assert not any(taken.late for taken in said.taken)
    assert folder.submissions.arrival("ada", "01") == at("2026-10-10 08:00")
    assert folder.submissions.arrival_known("ada", "01")


MOODLE_TIMES = """Identifier,Full name,Email address,Status,Grade,Last modified (submission)
Participant 9001,Ada Lovelace,ada@uni.edu,Submitted,,"Saturday, 10 October 2026, 8:15 AM"
Participant 9002,Grace Hopper,grace@uni.edu,Submitted,,"Sunday, 11 October 2026, 1:30 AM"
Participant 9003,Zoe Elsewhere,zoe@uni.edu,No submission,,-
"""


def test_moodles_folders_and_its_worksheet_say_who_and_when(folder, tmp_path, take):
    folder.settings.chapter("01")["due"] = at("2026-10-10 23:59")
    times = read_times(saved(tmp_path / "times.csv", MOODLE_TIMES.encode()), folder.roster.students())
    done = take(
        {
            "Ada Lovelace_9001_assignsubmission_file_/01_small.ipynb": tiny("ada"),
            "Ada Lovelace_9001_assignsubmission_file_/helper.py": b"x = 1",
            "Ada Lovelace_9001_assignsubmission_onlinetext_/onlinetext.html": b"<p>hello",
            "Grace Hopper_9002_assignsubmission_file_01_small.ipynb": tiny("grace"),
            "Somebody Else_9003_assignsubmission_file_/01_small.ipynb": tiny("zoe"),
        },
        times=times,
    )
    assert {taken.student: (there(folder, taken.student), taken.late) for taken in done.taken} == {
        "ada": ("ada", False),
        "grace": ("grace", True),
        "zoe": ("zoe", False),
    }
    assert folder.submissions.arrival("grace", "01") == at("2026-10-11 01:30")
    assert (folder.submissions.folder("ada", "01") / "helper.py").read_text() == "x = 1"
    assert not done.unmatched and not done.refused


@each_alone(
    "name, student",
    ("ada/01_small.ipynb", "ada"),
    ("submissions/grace/x/walls.ipynb", "grace"),
    ("barbara@uni.edu.ipynb", "barbara"),
    ("01_walls-zoe.ipynb", "zoe"),
    ("Leslie Lamport/a.ipynb", "leslie"),
    ("Turing, Alan.ipynb", "alan"),
)
def test_a_folder_is_read_by_id_login_address_or_name(folder, tmp_path, name, student):
    saved(tmp_path / "in" / name, tiny(name))
    done = collect(folder, tmp_path / "in", parse=parse_here, now=NOW)
    assert [taken.student for taken in done.taken] == [student] and there(folder, student) == name


def test_two_of_one_name_are_told_apart_by_number_only():
    twins = [
        Student(id="a1", first_name="Jo", last_name="Kim"),
        Student(id="a2", first_name="Jo", last_name="Kim", lms_id="7"),
    ]
    who = Who(twins)
    assert who.find(Label(by="canvas", who="kimjo", user="7")) == twins[1]
    assert "2 students have this name: a1, a2" in str(who.find(Label(by="moodle", who="Jo Kim", user="1")))


def test_a_name_scheme_is_seen_from_most_names():
    assert scheme_of(["a_1_2_x.ipynb", "b_LATE_1_2_x.ipynb", "odd.txt"]) == "canvas"
    assert scheme_of(["A B_1_assignsubmission_file_/x.ipynb"]) == "moodle"
    assert scheme_of(["ada/x.ipynb"]) == scheme_of([]) == "folder"
    assert label("o_brien_1_assignsubmission_file_/x.ipynb", "moodle").who == "o_brien"


def test_a_zip_that_a_student_made_is_looked_into_and_only_its_files_are_theirs(folder, take):
    inner = archive(
        {
            "01_small/01_small.ipynb": tiny("zipped"),
            "01_small/receipt.json": b"{}",
            "01_small/variant.json": b'{"mine": 1}',
            "01_small/data.csv": b"1",
            "deep.zip": archive({"a.ipynb": tiny()}),
        }
    )
    done = take({"lovelaceada_1001_7_06.zip": inner})
    assert there(folder, "ada") == "zipped"
    assert sorted(os.listdir(folder.submissions.folder("ada", "01"))) == ["01_small.ipynb", "data.csv", "timestamp.txt"]
    assert done.refused == ["lovelaceada_1001_7_06.zip → deep.zip: an archive in an archive in an archive"]


def test_our_numbers_lie_beside_the_notebook_never_the_students_own(folder, take):
    folder.variants.record({"ada": {"id": "v1", "exercises": {"state-13b": {"params": 1}}}}, "01")
    take({"ada/01_small.ipynb": tiny(), "ada/variant.json": b'{"id": "public", "exercises": {}}'})
    assert json.loads((folder.submissions.folder("ada", "01") / "variant.json").read_text())["id"] == "v1"


# ------------------------------------------------------------------------------------------------ again


def test_a_second_collection_keeps_the_newer_and_puts_the_older_aside(folder, take):
    first = {"lovelaceada_1001_7_a.ipynb": tiny("first"), "hoppergrace_1002_9_a.ipynb": tiny("same")}
    take(first)
    done = take(
        {"lovelaceada_1001_8_a-1.ipynb": tiny("second"), "hoppergrace_1002_9_a.ipynb": tiny("same")},
        now=NOW + timedelta(days=1),
    )
    assert {taken.student: taken.state for taken in done.taken} == {"ada": "newer", "grace": "unchanged"}
    back = take(first)
    assert {taken.student: taken.state for taken in back.taken} == {"ada": "older", "grace": "unchanged"}
    assert there(folder, "ada") == "second" and folder.submissions.arrival("grace", "01") == NOW
    kept = list((folder.root / "collected" / "ada").iterdir())
    assert len(kept) == 1 and "first" in (kept[0] / f"{NAME}.ipynb").read_text()
    assert ClassFolder.open(folder.root).submissions.arrival_record("ada", "01")["order"] == [8, 1]


def test_of_two_that_nothing_tells_apart_neither_is_taken(folder, take):
    done = take(
        {
            "ada/one.ipynb": tiny("1"),
            "ada/two.ipynb": tiny("2"),
            "grace/one.ipynb": tiny("1"),
            f"grace/{NAME}.ipynb": tiny("2"),
        }
    )
    assert [taken.student for taken in done.taken] == ["grace"] and there(folder, "grace") == "2"
    assert "are both chapter 01" in done.refused[0] and "--student" in done.refused[0]


def test_a_notebook_of_another_chapter_is_named_and_a_silent_one_is_what_was_asked_for(take):
    files = {
        "ada/a.ipynb": tiny(chapter="06"),
        "grace/a.ipynb": tiny(chapter=""),
        "zoe/a.ipynb": b"{ not json",
        "alan/notes.txt": b"I am ill",
    }
    plain = take(files)
    assert not plain.taken and len(plain.unmatched) == 4
    assert any("of ada" in line for line in plain.unmatched)
    assert any("handed in no notebook" in line for line in plain.unmatched)
    asked = take(files, chapter="01")
    assert sorted(taken.student for taken in asked.taken) == ["grace", "zoe"]
    # handed in all the same: grading says why
    assert "cannot be read" in next(taken for taken in asked.taken if taken.student == "zoe").notes[0]


ODD = [
    b'{"cells": [{"cell_type": "code", "id": ["list"], "metadata": {"nbgrader": {"grade_id": {}}}, "source": ""}], '
    b'"metadata": {"course": [1]}}',
    b'{"cells": [{"cell_type": "code", "source": 3}], "metadata": {}}',
    b"[" * 100_000,
    b'{"cells": ' + b"9" * 5000 + b"}",
    b"\xff\xfe\x00",
    b"",
]


def test_no_notebook_stops_the_others(take):
    done = take(
        {f"{student.id}/a.ipynb": data for student, data in zip(SIX[1:], ODD, strict=False)}
        | {"ada/a.ipynb": tiny("honest")}
    )
    assert [taken.student for taken in done.taken] == ["ada"] and len(done.unmatched) == 5
    asked = take({"ada/a.ipynb": ODD[-1], "zoe/a.ipynb": tiny("honest")}, chapter="01")
    assert len(asked.taken) == 2


def test_one_notebook_by_mail_is_taken_by_the_instructors_word(folder, tmp_path):
    path = saved(tmp_path / "from mail (3).ipynb", tiny("by mail"))
    done = collect(folder, path, student="leslie", chapter="01", at=at("2026-10-01 09:00"), parse=parse_here)
    assert done.taken[0].at == at("2026-10-01 09:00") and there(folder, "leslie") == "by mail"
    with pytest.raises(Trouble, match="did you mean leslie"):
        collect(folder, path, student="lesli", chapter="01")
    with pytest.raises(Trouble, match="has no chapter '07'"):
        collect(folder, path, student="leslie", chapter="07")


# ------------------------------------------------------------------------------------------------ what is refused

EVIL = {
    "../../outside.ipynb": (tiny(), "leads out of the archive"),
    "/etc/ada.ipynb": (tiny(), "leads out of the archive"),
    "ada\\..\\x.ipynb": (tiny(), "leads out of the archive"),
    "ada/link.ipynb": (Links("/etc/passwd"), "a link to another file"),
    "ada/bomb.ipynb": ("a bomb", "not unpacked"),
}


@pytest.mark.parametrize("name", EVIL)
def test_an_archive_leads_nowhere_else(folder, tmp_path, take, name):
    data, words = EVIL[name]
    data = b"0" * 30_000_000 if data == "a bomb" else data
    before = set(tmp_path.rglob("*"))
    done = take({"grace/01_small.ipynb": tiny("honest"), name: data})
    assert len(done.refused) == 1 and words in done.refused[0]
    assert there(folder, "grace") == "honest" and folder.submissions.notebook("ada", "01") is None
    new = set(tmp_path.rglob("*")) - before
    assert all(path.is_relative_to(folder.root) or path.name == "submissions.zip" for path in new)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_nobodys(folder, tmp_path):
    path = tmp_path / "s.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("ada/a.ipynb", tiny("shown"))
        made.writestr("ada/./A.ipynb", tiny("meant"))
    done = collect(folder, path, parse=parse_here)
    assert not done.taken and "is in the archive 2 times" in done.refused[0]


def test_broken_and_locked_archives_are_told(folder, tmp_path):
    whole = archive({"ada/a.ipynb": tiny("x" * 2000)})
    with pytest.raises(Trouble, match="not a whole zip"):
        collect(folder, saved(tmp_path / "cut.zip", whole[: len(whole) // 2]))
    flagged = bytearray(whole)
    for place in (flagged.index(b"PK\x03\x04") + 6, flagged.index(b"PK\x01\x02") + 8):
        flagged[place] |= 1
    assert "encrypted" in collect(folder, saved(tmp_path / "locked.zip", bytes(flagged)), parse=parse_here).refused[0]
    spoilt = bytearray(whole)
    spoilt[50:60] = b"\xff" * 10
    assert (
        "cannot be unpacked"
        in collect(folder, saved(tmp_path / "spoilt.zip", bytes(spoilt)), parse=parse_here).refused[0]
    )
    with pytest.raises(Trouble, match="There is no"):
        collect(folder, tmp_path / "nothing.zip")


def test_floods_are_told_before_anything_is_unpacked(take, monkeypatch):
    monkeypatch.setattr(unpack, "MAX_FILES", 3)
    with pytest.raises(Trouble, match="says that it holds 4 files"):
        take({f"ada/{n}.txt": b"x" for n in range(4)})
    monkeypatch.setattr(unpack, "MAX_FILES", 1000)
    monkeypatch.setattr(collecting, "_BESIDE_FILES", 2)
    done = take({"ada/a.ipynb": tiny(), **{f"ada/{n}.txt": b"x" for n in range(4)}})
    assert len(done.taken) == 1 and len(done.refused) == 2


def test_a_folders_links_pipes_and_large_files_are_refused_unread(folder, tmp_path, monkeypatch):
    top = tmp_path / "in"
    saved(top / "grace" / "a.ipynb", tiny("honest"))
    (top / "ada").mkdir()
    (top / "ada" / "a.ipynb").symlink_to(folder.root / ".secret")
    (top / "all").symlink_to("/")
    os.mkfifo(top / "ada" / "pipe.ipynb")
    monkeypatch.setattr(unpack, "MAX_BYTES", 2000)
    saved(top / "zoe" / "a.ipynb", tiny("x" * 3000))
    done = collect(folder, top, parse=parse_here)
    assert [taken.student for taken in done.taken] == ["grace"]
    assert sorted(line.split(": ", 1)[1].split(";")[0] for line in done.refused) == [
        "0 MB",
        "a link to another file",
        "a link to another folder",
        "not a plain file",
    ]


def test_files_beside_that_no_disk_takes_are_left_out(folder, take):
    done = take(
        {
            "ada/a.ipynb": tiny(),
            "ada/data": b"1",
            "ada/data/inside": b"2",
            f"ada/{'n' * 300}": b"3",
            "ada/nbgrader_config.py": b"evil",
        }
    )
    assert len(done.taken[0].notes) == 2 and all("left out" in note for note in done.taken[0].notes)
    assert sorted(os.listdir(folder.submissions.folder("ada", "01"))) == ["01_small.ipynb", "data", "timestamp.txt"]


# ------------------------------------------------------------------------------------------------ nbgrader's exchange


@pytest.fixture
def inbound(folder, tmp_path, monkeypatch):
    """The exchange's folder of what came in, every submission there made by the account that its name says."""
    folder.settings.data["exchange_root"] = str(tmp_path / "exchange")
    folder.settings.save()
    top = tmp_path / "exchange" / folder.settings.name / "inbound"
    top.mkdir(parents=True)
    monkeypatch.setattr(exchange, "_owner", lambda path: path.name.split("+")[0])
    return top


def hand_in_at(inbound, login, moment, text, name=f"{NAME}.ipynb"):
    utc = moment.astimezone(UTC)
    place = inbound / f"{login}+{NAME}+{utc:%Y-%m-%d %H:%M:%S.%f} UTC+abc"
    saved(place / name, tiny(text))
    saved(place / "timestamp.txt", b"1999-01-01 00:00:00.0 UTC\n")
    return place


def test_the_exchange_gives_the_newest_of_each_with_a_time_that_nobody_can_set_back(folder, inbound):
    now = at("2026-10-12 12:00").replace(year=2036)  # later than any file of this test: then the names are right
    recent = datetime.now().astimezone().replace(microsecond=0)
    hand_in_at(inbound, "ada", recent - timedelta(seconds=60), "first")
    hand_in_at(inbound, "ada", recent - timedelta(seconds=5), "second", name="renamed.ipynb")
    hand_in_at(inbound, "grace", recent - timedelta(days=30), "says that it came a month ago")
    hand_in_at(inbound, "stranger", recent, "?")
    done = exchange.collect_exchange(folder, ("01",), now=now, parse=parse_here)
    assert there(folder, "ada") == "second" and folder.submissions.arrival("ada", "01") == recent - timedelta(seconds=5)
    assert abs(folder.submissions.arrival("grace", "01") - recent) < timedelta(minutes=2)
    assert "the file system's time counts" in done.notes[0]
    assert folder.submissions.arrival_record("ada", "01")["by"] == "exchange"
    assert "1999" not in (folder.submissions.folder("ada", "01") / "timestamp.txt").read_text()
    assert len(done.unmatched) == 1 and "stranger" in done.unmatched[0]


def test_nobody_hands_in_for_another_and_a_link_is_not_followed(folder, inbound, monkeypatch):
    hand_in_at(inbound, "ada", NOW, "forged by grace")
    (hand_in_at(inbound, "zoe", NOW, "honest") / "gift.txt").symlink_to(folder.root / ".secret")
    (inbound / f"alan+{NAME}+2026-10-01 00:00:00.0 UTC+x").symlink_to(folder.root)
    monkeypatch.setattr(
        exchange, "_owner", lambda path: "grace" if path.name.startswith("ada") else path.name.split("+")[0]
    )
    done = exchange.collect_exchange(folder, ("01",), parse=parse_here)
    assert [taken.student for taken in done.taken] == ["zoe"]
    assert not (folder.submissions.folder("zoe", "01") / "gift.txt").exists()
    assert len(done.refused) == 3 and sum("grace's account created it" in line for line in done.refused) == 1
    shared = exchange.collect_exchange(folder, ("01",), any_owner=True, parse=parse_here)
    assert "ada" in [taken.student for taken in shared.taken]


def test_an_exchange_that_is_not_there_is_told(folder, tmp_path):
    folder.settings.data["exchange_root"] = str(tmp_path / "nowhere")
    folder.settings.save()
    with pytest.raises(Trouble, match="The exchange cannot be read"):
        exchange.collect_exchange(folder, ("01",))
