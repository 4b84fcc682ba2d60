"""The level "contained": a worker that may not create namespaces permanently gives up what it does not need.

Landlock leaves it the files of the worker's side. seccomp leaves it only connected socket pairs and, before Linux 6.12,
no signals.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from course_grader.sandbox import filters, landlock, linux
from course_grader.sandbox.policy import copy_plain, course_files, trees
from course_lib.folders import PACKAGES, ROOT

_READABLE = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/filesystems",
    "/sys/devices/system/cpu",
)
_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
_TRUNCATE_SINCE = 3  # the version that prevents truncating files
_SIGNALS_SINCE = 6  # the version of Landlock that confines signals


class Keep:
    """What the fork server prepares for all workers: hundreds of rules in one ruleset."""

    def __init__(self, scratch: Path) -> None:
        if landlock.version() < _TRUNCATE_SINCE:
            raise OSError(errno.ENOSYS, "this Landlock does not keep files from being cut short")
        self.rooms = scratch / "rooms"
        self.rooms.mkdir()
        self.readable = list(_readable())
        self.common = landlock.ruleset([*self.readable, *_of_course()], [self.rooms])
        self.count = 0

    def next_room(self) -> Path:
        """A folder for one more worker."""
        self.count += 1
        return self.rooms / str(self.count)

    def enter(self, folder: Path, room: Path) -> dict[str, str]:
        """Confine this process and its descendants to a copy of `folder` in `room`. Returns the environment variables
        to set.
        """
        for name in ("home", "tmp"):
            (room / name).mkdir(parents=True)
        copy_plain(folder, room / "notebook")
        os.chdir(room / "notebook")
        linux.empty_bounding_set()
        linux.drop_capabilities()
        own = landlock.ruleset(
            [*self.readable, *((ROOT / package, landlock.READ) for package in PACKAGES)], [room]
        )  # only what both allow is allowed
        for rules in (self.common, own):
            landlock.restrict(rules)
            os.close(rules)
        signals = () if landlock.version() >= _SIGNALS_SINCE else filters.SIGNALS
        filters.install(filters.program((*filters.DENIED, *signals), sockets=False, ignored=filters.MARKS))
        home, temporary = str(room / "home"), str(room / "tmp")
        return {"HOME": home, "TMPDIR": temporary, "MPLCONFIGDIR": temporary, "USER": "learner", "LOGNAME": "learner"}


def _readable() -> Iterator[tuple[Path, int]]:
    for path in (*trees(), *map(Path, _READABLE)):
        yield path, landlock.READ
    for name in _DEVICES:
        yield Path(name), landlock.READ | landlock.WRITE


def _of_course() -> Iterator[tuple[Path, int]]:
    """The worker's side of the course: its files, and the right to list folders, which Python's imports need."""
    for package in PACKAGES:
        yield ROOT / package, landlock.LIST
    for path in course_files():
        yield ROOT / path, landlock.READ
