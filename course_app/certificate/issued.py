"""The certificates that a work folder has written: whose name, which day and which chapters. `verify` asks here for
what judging cannot show."""

import hashlib
import json
from pathlib import Path
from typing import TypedDict

from course_app.certificate.record import Record
from course_app.learner.progress import change, read_store
from course_lib.installation import called_here

FILE = Path(".course") / "certificates.json"


class Entry(TypedDict):
    """A certificate that was written."""

    name: str
    date: str
    chapters: list[str]
    sha256: str


class Store(TypedDict):
    """All certificates."""

    written: list[Entry]


_EMPTY: Store = {"written": []}


def note(record: Record, work: Path) -> None:
    """Remember in the work folder that this certificate was written."""
    entry = _entry(record)

    def add(store: Store) -> None:
        if entry not in store["written"]:
            store["written"].append(entry)

    change(work / FILE, add, _EMPTY)


def objections(record: Record, work: Path) -> list[str]:
    """What a page says that no certificate written from this work folder said, one sentence each."""
    written, mine = read_store(work / FILE, _EMPTY)["written"], _entry(record)
    if mine in written:
        return []
    if not written:
        return [
            called_here("This work folder has no record of a certificate; `./course certificate` there writes one.")
        ]
    last = min(reversed(written), key=lambda each: sum(each.get(name) != value for name, value in mine.items()))
    found = []
    if last["name"] != mine["name"]:
        found.append(
            f"The page names {record['name'] or 'nobody'}; this work folder wrote its certificate for "
            f"{last['name'] or 'nobody'}."
        )
    if last["date"] != mine["date"]:
        found.append(f"The page is dated {mine['date']}; this work folder wrote its certificate on {last['date']}.")
    if dropped := [chapter for chapter in last["chapters"] if chapter not in mine["chapters"]]:
        found.append(f"The page leaves out chapter {', '.join(dropped)}, which the certificate of {last['date']} has.")
    if added := [chapter for chapter in mine["chapters"] if chapter not in last["chapters"]]:
        found.append(
            f"The page adds chapter {', '.join(added)}, which the certificate of {last['date']} does not have."
        )
    return found or ["The page says something else than the certificate that this work folder wrote."]


def _entry(record: Record) -> Entry:
    """What is kept of a certificate; the digest covers the whole record."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=False)
    chapters = [each["chapter"] for each in record["chapters"]]
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"name": record["name"], "date": record["date"], "chapters": chapters, "sha256": digest}
