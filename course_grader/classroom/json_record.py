"""A JSON record in a class's folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_grader.notebooks import write_whole
from course_lib.messages import Trouble


def read_record(path: Path) -> dict[str, Any]:
    """The record's data; {} if it does not exist yet. Trouble if it cannot be read."""
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Trouble(f"{path} cannot be read: {error}.", "restore an earlier copy of the file") from error


def write_record(path: Path, record: Mapping[str, object]) -> None:
    """Write the record atomically, with sorted keys."""
    write_whole(path, json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
