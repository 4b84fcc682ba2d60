"""What comes out of an LMS, a spreadsheet or a browser, in the forms that real classes have, and what goes back into an
LMS."""

import contextlib
import csv
import errno
import functools
import io
import os
import sqlite3
import unicodedata
import zipfile

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI

from course_app.cli import run
from course_grader.classroom import csv_tables, lms
from course_grader.classroom.collect import collect
from course_grader.classroom.config import load
from course_grader.classroom.export import export
from course_grader.classroom.feedback import lms_name
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import Label, Who, read_times
from course_grader.classroom.release import release_chapter
from course_grader.classroom.roster import Student, merged, read_roster
from course_grader.service.grading import grade_class
from course_lib.messages import Trouble
from tests.class_kit import (
    NAME,
    SIX,
    archive,
    as_bytes,
    at,
    class_at,
    copy_of,
    course_at,
    parse_here,
    saved,
    tiny,
    work,
)
from tests.crash_kit import Made
from tests.tables import each_alone, each_of

NOW = at("2026-10-12 12:00")
ADA = ("ada", "Ada", "Lovelace", "1001")
HEAD = "Student,ID,SIS User ID,SIS Login ID,Section,Old (12)\n"
LINE = '"Lovelace, Ada",1001,u1,ada@uni.edu,A,9\n'

# ------------------------------------------------------------------------------------------------ lists of students

CANVAS = {
    "a line of notes above the points": (
        HEAD + ",,,,,Manual Posting\n    Points Possible,,,,,10\n" + LINE + '"Student, Test",9,,x,A,\n'
    ).encode(),
    "names in two columns": (
        b"LastName,FirstName,ID,SIS User ID,SIS Login ID,Section,Old (12)\n    Points Possible,,,,,,10\n"
        b"Lovelace,Ada,1001,u1,ada@uni.edu,A,9\nStudent,Test,9,,x,A,\n"
    ),
    "no number of the institution": b'Student,ID,SIS Login ID,Section\n"Lovelace, Ada",1001,ada@uni.edu,A\n',
    "semicolons, commas in a title": (
        b"Student;ID;SIS User ID;SIS Login ID;Section;Read, draw, write, count, sum (12)\n"
        b'"Lovelace, Ada";1001;u1;ada@uni.edu;A;9,5\n'
    ),
    "Excel's line that names the mark": (
        "sep=;\n" + (HEAD + LINE).replace('"Lovelace, Ada"', "Lovelace_ Ada").replace(",", ";").replace("_", ",")
    ).encode(),
    "Excel's Unicode text": (HEAD + LINE)
    .replace('"Lovelace, Ada"', "Lovelace_ Ada")
    .replace(",", "\t")
    .replace("_", ",")
    .encode("utf-16"),
    "empty lines, ends of lines of Windows": ("\n,,,,,\n" + HEAD + "\n" + LINE).replace("\n", "\r\n").encode(),
    "a comment with a picture in it": (HEAD + LINE.replace("9\n", "x" * 200_000 + "\n")).encode(),
    "small letters": (HEAD.lower() + LINE).encode(),
}


@pytest.mark.parametrize("name", CANVAS)
def test_every_form_of_canvass_gradebook_gives_the_same_student(tmp_path, name):
    (student,) = read_roster(saved(tmp_path / "canvas.csv", CANVAS[name]))
    assert (student.id, student.first_name, student.last_name, student.lms_id) == ADA and student.email == "ada@uni.edu"


@each_alone(
    "text, student",
    ("Vorname,Nachname,E-Mail-Adresse,ID-Nummer\nJörg,Müller,jm@uni.de,m77\n", ("m77", "Jörg", "Müller", "jm@uni.de")),
    (
        'ID,"Vollständiger Name",E-Mail-Adresse,Status\nTeilnehmer/in9001,Jörg Müller,jm@uni.de,x\n',
        ("jm", "Jörg", "Müller", "jm@uni.de"),
    ),
    (
        "Prénom,Nom,Numéro d’identification,Adresse de courriel\nZoé,Núñez,,zoe@u.fr\n",
        ("zoe", "Zoé", "Núñez", "zoe@u.fr"),
    ),
    ("Nombre;Apellido(s);Dirección de correo\nZoé;Núñez;zoe@u.es\n", ("zoe", "Zoé", "Núñez", "zoe@u.es")),
    ids=["German", "German worksheet", "French", "Spanish"],
)
def test_moodles_lists_are_read_in_other_languages(tmp_path, text, student):
    (found,) = read_roster(saved(tmp_path / "moodle.csv", text.encode()))
    assert (found.id, found.first_name, found.last_name, found.email) == student


def test_letters_of_windows_are_read_as_such(tmp_path):
    (found,) = read_roster(
        saved(tmp_path / "roster.csv", "student_id,last_name\nzoe,O’Neill-Müller\n".encode("cp1252"))
    )
    assert found.last_name == "O’Neill-Müller"


def test_a_quotation_mark_without_an_end_is_told_and_swallows_nobody(tmp_path):
    with pytest.raises(Trouble, match="near line 3"):
        read_roster(saved(tmp_path / "r.csv", (HEAD + '"Lovelace, Ada,1,,ada,A,\n"Hopper, G",2,,grace,A,\n').encode()))


def test_two_who_would_have_one_id_have_their_addresses_and_keep_them(tmp_path):
    text = HEAD + '"Smith, J",1,,j.smith@uni.edu,A,\n"Smith, Jo",2,,j.smith@gmail.com,A,\n'
    assert [each.id for each in read_roster(saved(tmp_path / "r.csv", text.encode()))] == [
        "j.smith@gmail.com",
        "j.smith@uni.edu",
    ]
    with pytest.raises(Trouble, match="'ada' is Ada Lovelace's already"):  # the same line twice is no second person
        read_roster(saved(tmp_path / "twice.csv", (HEAD + LINE + LINE).encode()))


def test_somebody_new_never_takes_over_the_folder_of_one_of_the_same_id():
    first = Student(id="j.smith", last_name="Smith", email="j.smith@uni.edu", lms_id="1")
    other = Student(id="j.smith", last_name="Smith", email="j.smith@gmail.com", lms_id="2")
    made = merged([first], [other])
    assert made.new == ("j.smith@gmail.com",) and made.gone == ("j.smith",) and made.students[0] == first
    # the same person in a list without numbers
    apart = [Student(id="j.smith@uni.edu", last_name="Smith", email="j.smith@uni.edu")]
    assert merged([first], apart).students == (first,)


# ------------------------------------------------------------------------------------------------ times


@each_of(
    "text, moment",
    ("Montag, 12. Oktober 2026, 09:30", "2026-10-12 09:30"),
    ("lundi 12 octobre 2026, 09:30", "2026-10-12 09:30"),
    ("lunes, 12 de octubre de 2026, 21:30", "2026-10-12 21:30"),
    ("Monday, 12 October 2026, 9:30 PM", "2026-10-12 21:30"),
    ("12.10.2026 09:30", "2026-10-12 09:30"),
    ("25/10/2026 09:30", "2026-10-25 09:30"),
    ("2026-10-12 09:30:00.5 UTC", "2026-10-12 09:30:00.5+00:00"),
    ("-", None),
    ("", None),
)
def test_a_moment_is_read_in_the_languages_of_moodle(text, moment):
    assert csv_tables.moment_in(text) == (at(moment) if moment else None)


@each_of("text", ["12/10/2026 09:30", "soon", "12 Oct 2026 09:30 CST"])
def test_a_moment_that_could_be_another_is_not_guessed(text):
    with pytest.raises(Trouble, match="2026-10-12 23:59"):
        csv_tables.moment_in(text)


# ------------------------------------------------------------------------------------------------ whose is what


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return course_at(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def made(tmp_path_factory, course):
    folder = class_at(tmp_path_factory.mktemp("class"), course)
    release_chapter(folder, "01")
    return folder


@pytest.fixture
def folder(made, tmp_path) -> ClassFolder:
    return copy_of(made, tmp_path / "class")


@pytest.fixture
def take(folder, tmp_path):
    def take(data, **how):
        return collect(folder, saved(tmp_path / "s.zip", data), parse=parse_here, now=NOW, **how)

    return take


def taken(done):
    return {each.student: each.file for each in done.taken}


def test_canvas_names_of_groups_typed_text_and_lengthened_files_are_understood(take):
    done = take(
        archive(
            {
                "team_blue_1005_78_01_small.ipynb": tiny(),
                "hoppergrace_1002_77_01_small.ipynb-1.txt": tiny(),
                "liskovbarbara_1006_79_walls.IPYNB": tiny(),
                "turingalan_1003_text.html": b"see above",
                "LATE_anon_1001_79_01_small.ipynb": tiny(),
            }
        )
    )
    assert set(taken(done)) == {"leslie", "grace", "barbara"}
    assert any("team_blue" in note and "leslie" in note for note in done.notes)
    assert not any("hoppergrace" in note for note in done.notes)
    assert any("alan handed in no notebook" in line for line in done.unmatched)
    assert any("anonymous" in line for line in done.unmatched)


def test_feedback_on_a_zip_that_was_handed_in_goes_back_under_canvass_numbers(folder, take):
    inner = archive({"01_small/01_small.ipynb": tiny(), "01_small/receipt.json": b"{}"})
    take(
        archive(
            {
                "lovelaceada_1001_71_01_small-2026-10-12-0930.zip": inner,
                "hoppergrace_LATE_1002_77_a.b.ipynb.txt": tiny(),
            }
        )
    )
    names = {
        student: lms_name("canvas", folder.submissions.arrival_record(student, "01")["file"], "x.html")
        for student in ("ada", "grace")
    }
    assert {student: name and name[1].split("_")[:4] for student, name in names.items()} == {
        "ada": ["lovelaceada", "1001", "71", "01"],
        "grace": ["hoppergrace", "LATE", "1002", "77"],
    }
    assert all(name[0] == "canvas" and name[1].endswith(".html") and "/" not in name[1] for name in names.values())


def test_a_page_that_was_asked_for_and_cannot_be_is_told(folder, capsys):
    assert run(["class", "feedback", "01", "--student", "ada", "-C", str(folder.root)]) == 1
    assert "ada, 01: handed in nothing" in capsys.readouterr().out


def test_before_anything_is_handed_in_every_command_says_so(folder, capsys):
    for words, code, said in (
        ("grade", 0, "Nothing is handed in yet"),
        ("report", 1, "Nothing is graded yet"),
        ("report 01", 1, "Nothing is graded yet"),
        ("regrade --exercise mfu-waste", 1, "Nothing of chapter 01 is graded yet"),
        ("status", 0, "0 of 6"),
    ):
        assert run(["class", *words.split(), "-C", str(folder.root)]) == code
        told = capsys.readouterr()
        assert said in told.out + told.err


def test_two_notebooks_of_one_upload_are_told(take):
    done = take(archive({"lovelaceada_1001_7_01_small.ipynb": tiny("a"), "lovelaceada_1001_8_draft.ipynb": tiny("b")}))
    assert any("draft.ipynb counts, 01_small.ipynb not" in note for note in done.notes)
    again = take(
        archive({"lovelaceada_1001_9_01_small-1.ipynb": tiny("c"), "lovelaceada_1001_8_01_small.ipynb": tiny("b")})
    )
    assert len(again.taken) == 1 and not any("several notebooks" in note for note in again.notes)


def test_moodles_number_is_never_taken_for_canvass(folder):
    assert isinstance(Who(SIX).find(Label(by="moodle", who="Somebody Else", user="1001")), str)
    assert Who(SIX).find(Label(by="canvas", who="lovelaceada", user="1001")) == SIX[0]


def test_a_worksheet_in_german_says_who_and_when(folder, tmp_path):
    sheet = (
        'ID,"Vollständiger Name",E-Mail-Adresse,Status,"Zuletzt geändert (Abgabe)"\n'
        'Teilnehmer/in9001,Ada Lovelace,ada@uni.edu,x,"Montag, 12. Oktober 2026, 09:30"\nTeilnehmer/in9002,Grace '
        "Hopper,grace@uni.edu,x,-\n"
    )
    times = read_times(saved(tmp_path / "t.csv", sheet.encode()), folder.roster.students())
    assert times.users == {"9001": "ada", "9002": "grace"} and times.at == {"ada": at("2026-10-12 09:30")}


ZOE = "Zoë Núñez Ångström_9_assignsubmission_file/01_small.ipynb"


def zipped(name: str, data: bytes, encoding: str) -> bytes:
    """A zip whose name is in an encoding that it does not tell."""
    raw = name.encode(encoding)
    stand_in = "".join(chr(65 + number % 26) for number in range(len(raw)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr(stand_in, data)
    return out.getvalue().replace(stand_in.encode(), raw)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [(ZOE, "utf-8"), (unicodedata.normalize("NFD", ZOE), "utf-8"), (ZOE, "cp437"), ("zoe\\01_small.ipynb", "ascii")],
    ids=["macOS's Finder", "macOS's letters", "Windows", "older Windows"],
)
def test_names_that_other_systems_wrote_into_a_zip_are_read(take, name, encoding):
    files = taken(take(zipped(name, tiny(), encoding)))
    assert set(files) == {"zoe"} and files["zoe"].split("/")[-1] == "01_small.ipynb"


def test_a_notebook_that_cannot_be_read_is_its_chapters_by_its_name(take):
    done = take(archive({"ada/01_small.ipynb": b"{\n<<<<<<< HEAD\n", "grace/mine.ipynb": b"{\n<<<<<<< HEAD\n"}))
    assert [(each.student, each.chapter) for each in done.taken] == [("ada", "01")]
    assert "merge" in done.taken[0].notes[0]
    assert len(done.unmatched) == 1 and "use --chapter" in done.unmatched[0]


def test_an_archive_of_nothing_is_told(take):
    with pytest.raises(Trouble, match="no file in"):
        take(archive({}))


# ------------------------------------------------------------------------------------------------ back into the LMS


@pytest.fixture
def graded(folder) -> ClassFolder:
    """Ada and Zoë handed in; the others did not."""
    for student in ("ada", "zoe"):
        saved(folder.submissions.folder(student, "01") / f"{NAME}.ipynb", as_bytes(work(folder, student)))
        folder.submissions.remember_arrival(student, "01", {"at": NOW.isoformat(), "by": "canvas"})
    folder.submissions.save_arrivals()
    assert grade_class(ClassFolder.open(folder.root), no_sandbox=True, crew=Made(0.0)).graded == 2
    return ClassFolder.open(folder.root)


def rows(made):
    return list(csv.reader(io.StringIO(made.path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("to", ["canvas", "moodle"])
def test_who_has_no_grade_keeps_what_the_lms_has(graded, to):
    made = export(graded, to, ["01"])
    text = made.path.read_text(encoding="utf-8")
    assert text.count("uni.edu") == 2 and "grace" not in text and not text.startswith("\ufeff") and "\r" not in text
    assert any("grace" in note and "--missing-as-zero" in note for note in made.notes)
    zero = export(graded, to, ["01"], missing_as_zero=True)
    assert zero.path.read_text(encoding="utf-8").count("uni.edu") == 6 and not zero.notes


def test_canvass_column_is_remembered_and_points_beyond_the_maximum_go_there_too(graded):
    with Gradebook(graded.settings.db_url, graded.settings.name) as book:
        book.find_grade("mfu-waste-check", NAME, NAME, "ada").extra_credit = 50.25
        book.db.commit()
    head = rows(export(graded, "canvas", ["01"], column="Walls (77)"))[0]
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Walls (77)"]
    table = rows(export(ClassFolder.open(graded.root), "canvas", ["01"]))
    assert table[0] == head and table[1][0].strip() == "Points Possible"
    assert table[2][:3] == ["Lovelace, Ada", "1001", "u1"] and float(table[2][5]) > float(table[1][5])


def test_what_nobody_graded_by_hand_yet_is_told_and_never_exported_as_0(graded):
    with Gradebook(graded.settings.db_url, graded.settings.name) as book:
        book.find_grade("mfu-waste-check", NAME, NAME, "zoe").auto_score = None
        book.db.commit()
    for to in ("csv", "exercises", "canvas", "moodle"):
        for zero in (False, True):
            made = export(graded, to, ["01"], missing_as_zero=zero)
            assert any("Waiting for a person" in note and "zoe" in note for note in made.notes)
            found = [dict(zip(rows(made)[0], row, strict=True)) for row in rows(made)[1:] if "zoe" in "".join(row)]
            assert [row["01 mfu-waste"] for row in found] == [""] if to == "exercises" else not found


def test_a_file_of_no_grades_is_not_written(folder):
    with pytest.raises(Trouble, match="No student has a grade"):
        export(folder, "canvas", ["01"])


def test_a_place_that_cannot_be_written_is_told_in_a_line(graded, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "x.csv"):
        assert run(["class", "export", "01", "-C", str(graded.root), "-o", str(place)]) == 1
        said = capsys.readouterr().err
        assert str(place.parent if place.name == "x.csv" else place) in said and "Way out" in said
        assert len(said.splitlines()) == 2


def test_a_full_disk_is_told_without_the_course_being_set_up_anew(graded, capsys, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("course_grader.classroom.export.write_whole", full)
    assert run(["class", "export", "01", "-C", str(graded.root)]) == 1
    assert capsys.readouterr().err.splitlines()[1].strip() == "Way out: free some room, then the same command again"


def test_names_are_notebooks_whatever_a_browser_hung_on_them():
    names = ["a.ipynb", "a.IPYNB", "a.ipynb.txt", "a.ipynb-1.txt", "a.ipynb (2).json", "a-1.ipynb"]
    assert all(map(lms.is_notebook, names))
    assert not any(map(lms.is_notebook, ["a.html", "ipynb", "a.ipynb.zip", "a.ipynb.html"]))


# ------------------------------------------------------------------------------------------------ formgrader's list


def test_formgrader_calls_collected_work_graded_and_its_own_autograder_is_turned_away(folder, tmp_path):
    notebook = as_bytes(work(folder, "ada"))
    collect(
        folder,
        saved(tmp_path / "s.zip", archive({"lovelaceada_1001_7_01_small.ipynb": notebook})),
        parse=parse_here,
        now=NOW.replace(microsecond=123456),
    )
    assert grade_class(ClassFolder.open(folder.root), no_sandbox=True, crew=Made(0.0)).graded == 1
    shown = folder.root / "autograded" / "ada" / NAME / f"{NAME}.ipynb"
    before = shown.read_bytes()
    with contextlib.chdir(folder.root):
        api = NbGraderAPI(config=load(folder))
        assert api.get_autograded_students(NAME) == {"ada"}
        said = api.autograde(NAME, "ada")
        assert not api.exchange_missing and api.get_assignment(NAME)["status"] == "released"
    assert "error" not in said
    assert not said["success"] and "class grade" in said["log"] and shown.read_bytes() == before


# ------------------------------------------------------------------------------------------ a gradebook that others use


@each_alone(
    "words",
    ("extend", "ada", "01", "--until", "2999-01-01"),
    ("export", "01"),
    ("feedback", "01"),
    ("release", "01"),
    ("roster", "r.csv"),
)
def test_a_gradebook_that_another_program_holds_is_told_in_a_line(graded, words, capsys, monkeypatch):
    folder = ClassFolder.open(graded.root)
    folder.settings.chapter("01")["due"] = at("2026-10-12 12:00")
    folder.settings.save()
    (folder.root / "r.csv").write_text("student_id\nnew\n")
    monkeypatch.chdir(folder.root)
    monkeypatch.setattr("sqlite3.dbapi2.connect", functools.partial(sqlite3.connect, timeout=0.05), raising=True)
    with contextlib.closing(sqlite3.connect(folder.root / "gradebook.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert run(["class", *words]) == 1
        other.execute("ROLLBACK")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "locked by another program" in said[0] and "same command" in said[1]
    assert run(["class", *words]) == 0
