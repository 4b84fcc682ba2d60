"""`python -m course_grader.sandbox.try_level LEVEL SCRATCH`: whether a child of this process can enter a sandbox of
that level.

The scratch folder is the caller's to delete: only where nothing is mounted in it may it be deleted.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from course_grader.sandbox import namespaces
from course_grader.sandbox.entry import Gate
from course_grader.sandbox.policy import Wall
from course_lib.folders import ROOT


def main(argv: Sequence[str] | None = None) -> int:
    """0 if it can; else 1, with the reason on stderr."""
    level, scratch = argv or sys.argv[1:]
    wall = Wall(level=level)
    try:
        if level == "namespaces":
            namespaces.separate()
        return _try(wall, Path(scratch))
    except (OSError, NotImplementedError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1


def _try(wall: Wall, scratch: Path) -> int:
    folder = scratch / "notebook"
    folder.mkdir()
    gate = Gate(wall, scratch)
    mine, theirs = os.pipe()
    pid = gate.fork()
    if pid == 0:
        try:
            gate.enter(folder, theirs)
            said = (
                "it can still see the chapters"
                if (ROOT / "solutions").exists() and _can_list(ROOT / "solutions")
                else "ok"
            )
        except BaseException as error:
            said = str(error)
        os.write(theirs, said.encode()[:4000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as pipe:
        said = pipe.read().decode() or "the child died"
    os.waitpid(pid, 0)
    if said != "ok":
        print(said, file=sys.stderr)
    return int(said != "ok")


def _can_list(folder: Path) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
