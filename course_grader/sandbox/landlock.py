"""Landlock: a process gives up all files except those that it names, and signals and sockets to others. Needs no
rights. Linux 5.13.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from course_grader.sandbox.linux import call

_EXECUTE, _READ_FILE, _READ_DIR = 1, 4, 8
_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # number of file rights in each version
_FILE_RIGHTS = 1 | 2 | 4 | 1 << 14 | 1 << 15  # those that apply to a plain file
READ = _EXECUTE | _READ_FILE | _READ_DIR
WRITE = 2
LIST = _READ_DIR
_TOPS = tuple(Path(each.path) for each in os.scandir("/"))


def version() -> int:
    """The Landlock version of this system; OSError if there is none."""
    return call("landlock_create_ruleset", None, 0, 1)


def ruleset(rules: Iterable[tuple[Path, int]], write: Iterable[Path]) -> int:
    """A descriptor of a ruleset that allows only what the rules name, and everything in the folders to write to.

    From version 4 it also forbids TCP connections; from version 6, abstract sockets and signals to processes outside.
    """
    known = version()
    every = (1 << _BY_VERSION[min(known, 5)]) - 1
    attributes = struct.pack("QQQ", every, 3 if known >= 4 else 0, 3 if known >= 6 else 0)
    made = call("landlock_create_ruleset", attributes, 8 if known < 4 else 16 if known < 6 else 24, 0)
    for path, rights in [*rules, *((path, every) for path in write)]:
        _allow(made, path, rights & every)
    return made


def restrict(made: int) -> None:
    """Put a ruleset in force for this process and its descendants, permanently and in addition to earlier ones."""
    call("landlock_restrict_self", made, 0)


def leave(place: str) -> None:
    """Give up one folder of the root permanently, where there is Landlock. Other folders are not affected."""
    with contextlib.suppress(OSError):
        made = ruleset([], [each for each in _tops() if str(each) != place])
        restrict(made)
        os.close(made)


def _tops() -> Iterable[Path]:
    """The folders of the root; the list read earlier if the process may no longer list it."""
    try:
        return [Path(each.path) for each in os.scandir("/")]
    except OSError:
        return _TOPS


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # does not exist: nothing to allow
        return
    try:
        if not os.path.isdir(path):
            rights &= _FILE_RIGHTS
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, fd))
        call("landlock_add_rule", ruleset, 1, rule, 0)
    finally:
        os.close(fd)
