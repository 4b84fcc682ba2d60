"""Does a certificate hold? It is compared with the work folder: every answer is judged again."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from course_app.certificate.issued import objections
from course_app.certificate.page import page
from course_app.certificate.record import FORM, Record, gather
from course_app.check.command import Say
from course_app.learner.work import Folders
from course_lib.messages import Trouble, count_text

_DATA = re.compile(r'<script type="application/json" id="record">\n(.*?)\n</script>', re.DOTALL)


def read(path: Path) -> Record:
    """The record in a certificate; Trouble for a file that is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(f"{path} cannot be read.", "give the page that `./course certificate` wrote") from error
    found = _DATA.search(text)
    try:
        record = json.loads(found[1].replace("<\\/", "</")) if found else None
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("chapters"), list):
        raise Trouble(f"{path} is not a certificate of this course.", "give the page that `./course certificate` wrote")
    if record.get("form") != FORM:
        raise Trouble(
            f"{path} was written by another version of the course ({record.get('course')}).",
            "verify it with that version",
        )
    return record


def differences(path: Path, where: Folders, say: Say | None = None) -> list[str]:
    """What a certificate says that the work folder does not confirm, one sentence each; none if it holds."""
    record = read(path)
    found = []
    try:
        same = path.read_text(encoding="utf-8") == page(record)
        found += objections(record, where.work)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Trouble(
            f"The data in {path} are incomplete.", "give the page that `./course certificate` wrote"
        ) from None
    if not same:
        found.append("The page's text is not what its own data says: it was edited, or written by another version.")
    chapters = [each["chapter"] for each in record["chapters"]]
    now = gather(where, record["name"], record["date"], chapters, say)
    return [*found, *_of_exercises(record, now), *_of_the_rest(record, now)]


def _of_exercises(record: Record, now: Record) -> Iterator[str]:
    there = {each["id"]: each for chapter in now["chapters"] for each in chapter["exercises"]}
    for chapter in record["chapters"]:
        for said in chapter["exercises"]:
            got = there.pop(said["id"], None)
            if got is None:
                yield f"{said['id']}: the course has no such exercise."
            elif said["answer"] != got["answer"]:
                yield (
                    f"{said['id']}: the answer in the work folder is another one; it now earns {got['points']:g} of "
                    f"{count_text(got['maximum'], 'point')}."
                )
            elif {**said} != got:
                yield f"{said['id']}: the page says {_words(said)}; judged again, it has {_words(got)}."
    for left in there.values():
        yield f"{left['id']}: the page does not mention it."


def _words(exercise: Record) -> str:
    verdicts = ", ".join(f"{kind} {'holds' if ok else 'fails'}" for kind, ok in exercise["verdicts"].items())
    return f"{exercise['points']:g} of {count_text(exercise['maximum'], 'point')} ({verdicts or 'no verdict'})"


def _of_the_rest(record: Record, now: Record) -> Iterator[str]:
    if record["predictions"] != now["predictions"]:
        yield "The predictions are not those that the work folder recorded, or their truths are others."
    if record["trainer"] != now["trainer"]:
        yield (
            f"The page says that {record['trainer']['yours']} parts of the trainer are the learner's; the work "
            f"folder has {now['trainer']['yours']}."
        )
