"""Accidents of honest learners: what editors, merges, copies and slips do to a notebook. Nothing that was earned may be
lost."""

from course_grader.attacks.sheet import Sheet, attack


@attack("accident")
def everything_right(sheet: Sheet) -> None:
    """A notebook with nothing wrong: every point."""


@attack("accident")
def nothing_done(sheet: Sheet) -> None:
    """An untouched notebook: no point, and every exercise "not answered"."""
    sheet.stub(*sheet.points)
    for exercise in sheet.points:
        sheet.expect(exercise, 0.0, "not answered")


@attack("accident")
def deleted_answer_cell(sheet: Sheet) -> None:
    """An answer cell deleted: its exercise is "not answered", with where it stood."""
    sheet.drop(sheet.target)
    sheet.expect(sheet.target, 0.0, "not answered")
    sheet.said.append("is missing")


@attack("accident")
def half_a_file(sheet: Sheet) -> None:
    """A file that was cut off on the way."""
    sheet.data = sheet.text()[:3000]
    sheet.refused = "not a whole notebook"


@attack("accident")
def crash_in_one_answer(sheet: Sheet) -> None:
    """Recursion without end in one answer, a native crash in another's cell: the rest counts."""
    sheet.cell(sheet.target)["source"] = (
        "def train_days(*args):\n    return train_days(*args)\n\n\ndef gpus_for_deadline(*args):\n    return 1\n"
    )
    sheet.expect(sheet.target, 0.0, "raised")
    sheet.said.append("RecursionError")


@attack("accident", chapter="00")
def everything_right_on_a_cluster(sheet: Sheet) -> None:
    """Cluster exercises answered rightly: every point, with a process for each rank."""
