"""Enter the sandbox: the fork server creates `Gate` once and calls `enter` in each child before anything else."""

import contextlib
import json
import os
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

from course_grader.sandbox import contained, filters, linux, namespaces
from course_grader.sandbox.policy import Wall, too_wide

_THREADS = 1100  # in addition to processes: a run of a thousand ranks has as many
_STACKS = 1_000_000_000  # bytes of address space that they may reserve


class Gate:
    """The fork server's side of the sandbox."""

    def __init__(self, wall: Wall, scratch: Path) -> None:
        self.wall = wall
        self.root: Path | None = None
        self.keep: contained.Keep | None = None
        self.room: Path | None = None  # the room of the next worker
        self.base = data_bytes()  # what every child inherits
        if wall.level == "namespaces":
            self.root = namespaces.build(wall, scratch)
            self.space = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        if wall.level == "contained":
            if inside := too_wide(wall.hidden):
                raise OSError(f"{inside} lies in a folder that workers may read")
            self.keep = contained.Keep(scratch)

    def fork(self) -> int:
        """`os.fork`; the child is in its own PID namespace if the level has one."""
        self.room = self.keep.next_room() if self.keep else None
        if self.root is None:
            return os.fork()
        linux.unshare(linux.NEWPID)
        pid = os.fork()
        if pid:
            linux.join(self.space, linux.NEWPID)  # later children are ours again
        return pid

    def enter(self, folder: Path, *descriptors: int) -> None:
        """Confine this process permanently. It is a child that has not run any code of a submission yet.

        Keeps the named descriptors, and input, output and error, which lead nowhere. OSError if the sandbox cannot be
        entered.
        """
        close_all_but([*descriptors, *([self.keep.common] if self.keep else [])])
        set_limits(self.wall, self.base)
        variables: dict[str, str] = {}
        if self.root is not None:
            namespaces.enter(self.wall, self.root, folder)
            linux.drop_capabilities()
            linux.prctl(4, 1)  # PR_SET_DUMPABLE: it may read its own /proc again after the change of user
            filters.install(filters.program(filters.DENIED, sockets=True))
            variables = namespaces.variables()
        elif self.keep is not None and self.room is not None:
            variables = self.keep.enter(folder, self.room)
        else:
            os.chdir(folder)
        os.environ.update(variables)
        tempfile.tempdir = None


def close_all_but(keep: Sequence[int]) -> None:
    """Close every descriptor except 0, 1, 2 and those in `keep`."""
    start = 3
    for fd in sorted(fd for fd in keep if fd > 2):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, 2**20)


def set_limits(wall: Wall, base: int) -> None:
    """Set the system's own limits, which cannot be raised again. The fork server watches the totals."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, this process is killed first
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: wall.cpu_seconds,
        resource.RLIMIT_FSIZE: wall.file_bytes,
        resource.RLIMIT_NOFILE: wall.open_files,
        resource.RLIMIT_DATA: base + wall.memory_bytes + _STACKS,
        resource.RLIMIT_MEMLOCK: 2**20,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 512,
    }
    if wall.level == "namespaces":
        limits[resource.RLIMIT_NPROC] = wall.processes + _THREADS
    for name, value in limits.items():
        hard = resource.getrlimit(name)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (most, most))


def data_bytes() -> int:
    """The private writable memory of this process, in bytes, as the system counts it for its limit."""
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(next(line for line in text.splitlines() if line.startswith("VmData")).split()[1]) * 1024


def wall_of(text: str) -> Wall:
    """The `Wall` that `text_of` described."""
    given = json.loads(text)
    return Wall(**{**given, "hidden": tuple(given["hidden"])})
