"""What is handed in beside and inside the file: odd names and kinds of files, odd JSON, twofold cells, and what a user
shares with the host."""

import json

from course_grader.attacks.sheet import Sheet, as_json, attack
from course_grader.notebooks import grade_meta

LIBC = """
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
"""


@attack("tampering", before=LIBC)
def objects_of_the_system_removed(sheet: Sheet) -> None:
    """Shared memory, semaphores and queues of the host: found by number and removed, and own ones left behind."""
    sheet.answer("""
def attempt(*args):
    kept = ctypes.create_string_buffer(512)
    for number in range(64):
        found = libc.shmctl(number, 13, kept)  # SHM_STAT: by place, not by key
        for each in {found, number}:
            libc.shmctl(each, 0, None)
            libc.semctl(each, 0, 0)
            libc.msgctl(each, 0, None)
    if libc.semget(0xBAD, 3, 0o1666) >= 0 and str(AT["judge"]) in os.listdir("/proc"):
        loot("semaphores of the host", whole=True)
    return 0.0
""")


@attack("tampering", before=LIBC)
def time_of_other_processes(sheet: Sheet) -> None:
    """Another process's processors, schedule and priority at the disk: it is left to wait for ever."""
    sheet.answer("""
def attempt(*args):
    for pid in (AT["victim"], AT["judge"]):
        for change in (lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(pid))}),
            lambda: os.sched_setscheduler(pid, 5, os.sched_param(0)),
                       lambda: libc.syscall(251, 1, pid, 3 << 13) and 1 / 0):
            try:
                change()
            except (OSError, ZeroDivisionError):
                continue
            loot(f"the schedule of process {pid}", whole=True)
    return 0.0
""")


@attack("tampering")
def files_cut_short(sheet: Sheet) -> None:
    """Files of the class cut to nothing, by path and by opening them to read."""
    sheet.answer("""
        import os


        def attempt(*args):
            for name in ("gradebook.db", ".secret", "roster.csv", "reports/other/01_three_walls/latest.json"):
                path = f"{AT['class']}/{name}"
                for change in (lambda: os.truncate(path, 0), lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
                    lambda: os.utime(path, (1, 1)),
                               lambda: os.chmod(path, 0)):
                    try:
                        change()
                    except OSError:
                        continue
            return 0.0""")


@attack("tampering", states=("answered", "raised", "crashed"))
def signals_by_a_descriptor(sheet: Sheet) -> None:
    """A descriptor whose owner is another process, which then gets a deadly signal whenever something is written."""
    sheet.answer("""
        import fcntl, os, socket, signal


        def attempt(*args):
            for pid in (AT["victim"], AT["judge"]):
                ours, theirs = socket.socketpair()
                for change in (lambda: fcntl.fcntl(ours, 10, signal.SIGKILL),
                    lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, pid if pid == AT["victim"] else 0),
                               lambda: fcntl.fcntl(ours, fcntl.F_SETFL,
                                   os.O_ASYNC | os.O_NONBLOCK), lambda: theirs.send(b"x")):
                    try:
                        change()
                    except OSError:
                        continue
            return 0.0""")


@attack("tampering")
def files_with_hostile_names(sheet: Sheet) -> None:
    """Names with line ends, terminal codes, options, formulas, quotes, letters of no alphabet and 250 bytes, beside the
    notebook."""
    names = (
        "-rf", "--help", "=HYPERLINK(1)", "a\nb.csv", "\x1b[2J.txt", "'; drop table grade; --", "\u202egnp.exe",
        "x" * 250, "~", "$(touch x)", "con.txt", ".git/config", "..%2f..%2fetc%2fpasswd",
        "data/__pycache__/json.cpython-311.pyc", " ", "*",
    )  # fmt: skip
    sheet.files |= dict.fromkeys(names, b"x")


@attack("tampering")
def archives_beside_the_notebook(sheet: Sheet) -> None:
    """Archives that unpack to a hundred times their size, and one with paths that climb, beside the notebook: nobody
    opens them."""
    import io
    import zipfile

    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * 20_000_000)
        archive.writestr("../../../../var/tmp/planted-" + sheet.about["run"], b"x")
    sheet.files |= {"more.zip": kept.getvalue(), "inner/again.zip": kept.getvalue()}


@attack("accident")
def numbers_that_json_has_not(sheet: Sheet) -> None:
    """NaN, infinities, twofold keys and numbers of thousands of digits in the metadata of a whole notebook."""
    text = sheet.text().decode()
    sheet.data = text.replace(
        '"metadata": {', '"metadata": {"x": NaN, "y": -Infinity, "z": 1e999, "n": ' + "7" * 4000 + ', "x": 2,', 1
    ).encode()
    sheet.refused = "perhaps"


@attack("forging")
def grade_id_of_another_twice(sheet: Sheet) -> None:
    """A solved exercise's cell under the target's id, the target's under the solved one's, and each once more under one
    cell id."""
    sheet.stub()
    cells, solved = sheet.notebook["cells"], sheet.cell("mfu-waste")
    for name in (sheet.target, sheet.target, "mfu-waste"):
        again = json.loads(json.dumps(solved))
        again["metadata"]["nbgrader"]["grade_id"] = name
        again["id"] = "same"
        cells.append(again)
    cells.append({**solved, "id": sheet.cell(sheet.target)["id"]})


@attack("forging")
def locked_cells_changed(sheet: Sheet) -> None:
    """Cells of the chapter, and locked ones, rewritten to define the answers of all exercises."""
    sheet.stub()
    for cell in sheet.notebook["cells"]:
        meta = grade_meta(cell)
        if cell["cell_type"] == "markdown" or meta.get("locked") or not meta:
            cell["source"] = (
                cell["source"] + "\n"
                if cell["cell_type"] == "markdown"
                else cell["source"] + "\ntrain_days = gpus_for_deadline = lambda *a: 74\n"
            )
            cell["metadata"]["nbgrader"] = {**meta, "locked": False, "editable": True} if meta else {"points": 10}


@attack("accident")
def half_letters_everywhere(sheet: Sheet) -> None:
    """Half surrogate pairs, zeros and line ends of all kinds in sources, metadata, ids and outputs."""
    cells = [
        *sheet.notebook["cells"],
        {
            "cell_type": "code",
            "id": "odd\ud800",
            "metadata": {"tags": ["\udfff"], "\ud83d": "\0"},
            "source": "# \udc80\n1",
            "outputs": [{"output_type": "stream", "name": "stdout\ud800", "text": ["\ud83d"]}],
            "execution_count": None,
        },
    ]
    sheet.data = as_json({**sheet.notebook, "cells": cells})
