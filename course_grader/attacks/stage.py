"""What stands around a submission while it is attacked: a class with secrets, services on loopback, a process to kill.

Every secret holds a canary, a text that nothing but the secret holds. After each attack the stage tells what was
touched or reached; whether something was read shows in the reports. Linux.
"""

import contextlib
import ctypes
import hashlib
import os
import resource
import secrets
import selectors
import shutil
import site
import socket
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from course_lib.folders import ROOT

SERVICES = (
    "TCP service on 127.0.0.1",
    "TCP service on ::1",
    "UDP service on 127.0.0.1",
    "abstract socket",
    "socket in the file system",
)
_ENVIRONMENT = "COURSE_CLASS_SECRET"


class Stage:
    """A context manager; `about` is what every attacker is told, `canaries` what none may learn."""

    def __init__(self) -> None:
        self.run = secrets.token_hex(6)
        self.canaries: dict[str, str] = {}
        self.reached: dict[str, int] = {}
        self.about: dict[str, object] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Stage":
        with contextlib.ExitStack() as stack:
            self._set(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- setting

    def _set(self, stack: contextlib.ExitStack) -> None:
        self.root = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="course-stage-", dir="/var/tmp"))
        ).resolve()
        self.root.chmod(0o755)
        self.secret = self.canary("the judge's memory")
        self._class_folder()
        self._home(stack)
        self._neighbor(stack)
        self._environment(stack)
        self._shared_memory(stack)
        self._descriptor(stack)
        self._victim(stack)
        ports = self._services(stack)
        self.about = {
            "run": self.run,
            "root": str(self.root),
            "class": str(self.root / "class"),
            "home": str(self.root / "home"),
            "course": str(ROOT),
            "tmp": tempfile.gettempdir(),
            "neighbor": str(self.neighbor),
            "shm": f"course-{self.run}",
            "shm_key": self.shm_key,
            "variable": _ENVIRONMENT,
            "victim": self.victim.pid,
            "judge": os.getpid(),
            "fd": self.fd,
            "site": site.getsitepackages()[0],
            **ports,
        }
        self.clean = self._digests()

    def canary(self, name: str) -> str:
        """A new canary."""
        self.canaries[name] = f"canary-{secrets.token_hex(16)}"
        return self.canaries[name]

    def _write(self, name: str, path: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{self.canary(name)}\n", encoding="utf-8")

    def _class_folder(self) -> None:
        self._write("the class's secret", "class/.secret")
        self._write("another student's submission", "class/submitted/other/01_three_walls/01_three_walls.ipynb")
        self._write("another student's report", "class/reports/other/01_three_walls/latest.json")
        self._write("who got which variant", "class/variants.json")
        self._write("an instructor's own judging", "class/exercises/judging/own.py")
        self._write("the roster", "class/roster.csv")
        book = sqlite3.connect(self.root / "class/gradebook.db")
        with book:
            book.execute("create table grade (student text, manual_score real, comment text)")
            book.execute("insert into grade values ('other', 3.0, ?)", (self.canary("the gradebook"),))
        book.close()
        for path in (self.root / "class").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)  # no wall but the grader's own

    def _home(self, stack: contextlib.ExitStack) -> None:
        self._write("a key in the home folder", "home/.ssh/id_ed25519")
        self._write("a password in the home folder", "home/.netrc")
        (self.root / "home/.ipython/profile_default/startup").mkdir(parents=True)
        self._put_variable(stack, "HOME", str(self.root / "home"))

    def _neighbor(self, stack: contextlib.ExitStack) -> None:
        """What a marker beside this one has open for another student."""
        self.neighbor = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="course-worker-"))).resolve()
        self.neighbor.chmod(0o755)
        (self.neighbor / "notebook").mkdir()
        (self.neighbor / "notebook/answer.txt").write_text(
            self.canary("what another student's worker has open"), encoding="utf-8"
        )

    def _environment(self, stack: contextlib.ExitStack) -> None:
        self._put_variable(stack, _ENVIRONMENT, self.canary("the judge's environment"))

    @staticmethod
    def _put_variable(stack: contextlib.ExitStack, name: str, value: str) -> None:
        old = os.environ.get(name)
        os.environ[name] = value
        stack.callback(lambda: os.environ.pop(name, None) if old is None else os.environ.__setitem__(name, old))

    def _shared_memory(self, stack: contextlib.ExitStack) -> None:
        """Shared memory of both kinds, each with a text of its own."""
        self.shm_key = 1 + secrets.randbits(30)  # one's own: two stages may stand at the same time
        self.shm = Path("/dev/shm") / f"course-{self.run}"
        self.shm.write_text(self.canary("shared memory of the host"), encoding="utf-8")
        self.shm.chmod(0o666)
        stack.callback(self.shm.unlink, missing_ok=True)
        stack.callback(lambda: ctypes.CDLL(None).shmctl(self.shmid, 0, None))
        self._system_v()

    def _system_v(self) -> None:
        text = self.canary("System V shared memory of the host").encode()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        self.shmid = libc.shmget(self.shm_key, 4096, 0o1666)
        if self.shmid >= 0:
            place = libc.shmat(self.shmid, None, 0)
            ctypes.memmove(place, text, len(text))
            libc.shmdt(ctypes.c_void_p(place))

    def _lost_system_v(self) -> bool:
        return self.shmid >= 0 and ctypes.CDLL(None).shmget(self.shm_key, 1, 0) != self.shmid

    def _descriptor(self, stack: contextlib.ExitStack) -> None:
        """An open, inheritable descriptor of a secret file, which a careless fork would hand down."""
        self._write("an open file of the judge", "open.txt")
        self.fd = os.open(self.root / "open.txt", os.O_RDWR)
        os.set_inheritable(self.fd, True)
        stack.callback(os.close, self.fd)

    def _victim(self, stack: contextlib.ExitStack) -> None:
        """A process of the host that is not to be seen, signalled or changed."""
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "VICTIM": self.canary("the environment of a process of the host"),
        }
        self.victim = subprocess.Popen(["sleep", "3600"], env=environment, close_fds=True)
        self.limits = resource.prlimit(self.victim.pid, resource.RLIMIT_NOFILE)

        victim = self.victim

        def end() -> None:
            victim.kill()
            victim.wait()

        stack.callback(end)

    def _services(self, stack: contextlib.ExitStack) -> dict[str, object]:
        self._poll = stack.enter_context(selectors.DefaultSelector())
        abstract, path = f"\0course-{self.run}", str(self.root / "service.sock")
        ports: dict[str, object] = {"abstract": abstract, "socket": path}
        for name, family, kind, address in (
            (SERVICES[0], socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            (SERVICES[1], socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            (SERVICES[2], socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            (SERVICES[3], socket.AF_UNIX, socket.SOCK_STREAM, abstract),
            (SERVICES[4], socket.AF_UNIX, socket.SOCK_STREAM, path),
        ):
            service = stack.enter_context(socket.socket(family, kind))
            try:
                service.bind(address)
            except OSError:  # a machine without ::1
                continue
            if kind == socket.SOCK_STREAM:
                service.listen(64)
            service.setblocking(False)
            self._poll.register(service, selectors.EVENT_READ, name)
            if isinstance(address, tuple):
                ports[{SERVICES[0]: "tcp", SERVICES[1]: "tcp6", SERVICES[2]: "udp"}[name]] = service.getsockname()[1]
        os.chmod(path, 0o777)
        self._answer = self.canary("a service of the host").encode()
        self._stopped = threading.Event()
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        stack.callback(thread.join, 5.0)
        stack.callback(self._stopped.set)
        return ports

    def _serve(self) -> None:
        while not self._stopped.is_set():
            for key, _ in self._poll.select(0.2):
                with contextlib.suppress(OSError):
                    self._answer_one(key.fileobj, key.data)  # type: ignore[arg-type]

    def _answer_one(self, service: socket.socket, name: str) -> None:
        """Counted before it is answered: who has read the answer finds it counted."""
        if service.type == socket.SOCK_DGRAM:
            _, sender = service.recvfrom(2048)
            self.reached[name] = self.reached.get(name, 0) + 1
            service.sendto(self._answer, sender)
        else:
            caller, _ = service.accept()
            self.reached[name] = self.reached.get(name, 0) + 1
            caller.settimeout(0.2)
            with caller, contextlib.suppress(OSError):
                caller.sendall(self._answer)

    # --- looking

    def _digests(self) -> dict[str, str]:
        places = [
            *(self.root / "class").rglob("*"),
            *(self.root / "home").rglob("*"),
            *self.neighbor.rglob("*"),
            self.shm,
            self.root / "open.txt",
            self.root / "class",
        ]
        return {str(path): _digest(path) for path in places}

    def touched(self) -> list[str]:
        """What is not as it was: changed, planted and vanished files, the other process, processes left behind. Mends
        what it can."""
        now = self._digests()
        found = [f"changed: {path}" for path in self.clean if path in now and now[path] != self.clean[path]]
        found += [f"gone: {path}" for path in self.clean if path not in now]
        found += [f"new: {path}" for path in now if path not in self.clean]
        found += [f"planted: {path}" for path in self.planted()]
        found += [f"left running: process {pid}" for pid in strays(self.run)]
        if self._lost_system_v():
            found.append("gone: System V shared memory of the host")
        if self.victim.poll() is not None:
            found.append("ended: a process of the host")
        elif resource.prlimit(self.victim.pid, resource.RLIMIT_NOFILE) != self.limits:
            found.append("changed: the limits of a process of the host")
        return found

    def planted(self) -> list[Path]:
        """Files with the run's name in places where something might later start or read them; takes them away."""
        places = (
            Path(tempfile.gettempdir()),
            Path("/tmp"),
            Path("/var/tmp"),
            Path("/dev/shm"),
            Path.home(),
            Path("/root"),
            Path("/etc/cron.d"),
            Path("/var/spool/cron"),
            Path("/var/spool/cron/crontabs"),
            Path("/etc/profile.d"),
            ROOT,
            ROOT / "course_lib",
            ROOT / "course_grader",
            ROOT / "course_grader/worker",
            ROOT / "course_grader/exercises",
            ROOT / "course_lib/__pycache__",
            ROOT / "notebooks",
            Path(str(self.about["site"])),
            Path.home() / ".ipython/profile_default/startup",
            Path.home() / ".local",
            Path.home() / ".config",
            *Path(tempfile.gettempdir()).glob("course-ipython-*"),
            *Path(tempfile.gettempdir()).glob("course-ipython-*/profile_default/startup"),
        )
        found = []
        for place in dict.fromkeys(places):
            with contextlib.suppress(OSError):
                for path in place.iterdir():
                    if f"planted-{self.run}" in path.name:
                        found.append(path)
                        shutil.rmtree(
                            path, ignore_errors=True
                        ) if path.is_dir() and not path.is_symlink() else path.unlink()
        return found

    def restore(self) -> None:
        """Set the stage anew, as far as an attack that succeeded has broken it."""
        if self.victim.poll() is not None or resource.prlimit(self.victim.pid, resource.RLIMIT_NOFILE) != self.limits:
            with contextlib.ExitStack() as stack:
                self._victim(stack)
                self._stack.push(stack.pop_all())
            self.about["victim"] = self.victim.pid
        if self._lost_system_v():
            self._system_v()
        for pid in strays(self.run):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        self.clean = self._digests()
        self.reached.clear()

    def leaked(self, text: str) -> list[str]:
        """The secrets that stand in a text."""
        names = [
            name for name, canary in self.canaries.items() if canary in text or canary.removeprefix("canary-") in text
        ]
        return names + (
            ["what must not be readable: " + text[text.index("LEAKED") :][:160]]
            if "LEAKED" in text and not names
            else []
        )


def strays(run: str) -> list[int]:
    """Processes anywhere on the machine that an attack of this run has started by name, or in which it has named a
    thread."""
    return [
        pid
        for pid, line in _commands()
        if f"stray-{run}".encode() in line or f"stray-{run}".encode()[:15] in line.split(b"\n")
    ]


def _commands() -> Iterable[tuple[int, bytes]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                names = [
                    Path(f"/proc/{entry}/task/{thread}/comm").read_bytes()
                    for thread in os.listdir(f"/proc/{entry}/task")
                ]
                yield (
                    int(entry),
                    b"\n".join((Path(f"/proc/{entry}/cmdline").read_bytes(), *(name.strip() for name in names))),
                )


def _digest(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link to {os.readlink(path)}"
        info = path.stat()
        if path.is_dir():
            return f"folder {info.st_mode:o}"
        return f"{info.st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        return f"unreadable: {error.strerror}"
