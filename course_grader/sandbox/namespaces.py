"""The level "namespaces": a worker has its own file tree, network, shared memory, process space and user.

The fork server builds the tree once (`build`), in its own mount namespace: the system's programs and Python, read-only,
the worker's side of this library, a few devices, and nothing else. A worker gets a copy of the namespace, adds its own
folder and /proc, and detaches everything else (`enter`).
"""

import os
import secrets
import shutil
import sys
from pathlib import Path

from course_grader.sandbox import linux
from course_grader.sandbox.policy import Wall, copy_plain, course_files, trees
from course_lib.folders import PACKAGES, ROOT, installed

HOME = "/home/learner"
_FIRST_USER, _USERS = 1_879_048_192, 2**28  # ids that no system assigns to users (systemd's list)
_DEVICES = ("null", "full", "random", "urandom")  # not /dev/zero: mapped, it is memory that no limit counts
_TEXTS = {
    "etc/hosts": "127.0.0.1 localhost worker\n::1 localhost worker\n",
    "etc/passwd": "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/resolv.conf": "",
}


def separate() -> None:
    """Continue in a child with its own mount and PID namespaces. This process waits for the child and ends as it does.

    Without the right to create namespaces, it first enters a user namespace that has it.
    """
    if not linux.has_rights_over_namespaces():
        linux.own_user()
    linux.unshare(linux.NEWNS | linux.NEWPID)
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    linux.prctl(1, 9)  # PR_SET_PDEATHSIG
    linux.private_mounts()
    linux.mount("proc", "/proc", flags=linux.NOSUID | linux.NODEV | linux.NOEXEC)


def build(wall: Wall, scratch: Path) -> Path:
    """Build the file tree that workers get, read-only, below `scratch`."""
    root = scratch / "root"
    root.mkdir()
    linux.mount("tmpfs", root, "size=64m,mode=755", linux.NOSUID | linux.NODEV)
    shown = trees()
    for path in sorted({*shown, ROOT}):
        _show(path, root) if path != ROOT else _show_course(
            root, covered=any(ROOT.is_relative_to(tree) for tree in shown)
        )
    for hidden in wall.hidden:
        _cover(root / hidden.lstrip("/"))
    _furnish(root)
    linux.lock(root)
    for name in _DEVICES:
        linux.bind(f"/dev/{name}", root / "dev" / name)
    return root


def _show(path: Path, root: Path) -> None:
    """Show one folder, file or link of the system at its own path in the tree."""
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        target.symlink_to(os.readlink(path))
    elif path.is_dir():
        target.mkdir(exist_ok=True)
        linux.bind(path, target)
        linux.lock(target)  # at once, so that no mistake of ours can write to the system through it
    else:
        target.touch()
        linux.bind(path, target)
        linux.lock(target)


def _show_course(root: Path, covered: bool) -> None:
    """Show the worker's side of the course at its own path, and nothing else of that folder, or, if it is installed, of
    its packages."""
    target = root / str(ROOT).lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    for each in ([target / package for package in PACKAGES] if installed() else [target]) if covered else []:
        linux.mount("tmpfs", each, "size=64m,mode=755", linux.NOSUID | linux.NODEV)
    for path in course_files():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path)


def _cover(path: Path) -> None:
    if path.is_dir():
        linux.mount("tmpfs", path, "size=4k,mode=755", linux.NOSUID | linux.NODEV)
    elif path.exists():
        linux.bind("/dev/null", path)


def _furnish(root: Path) -> None:
    for folder in ("etc", "dev", "proc", HOME.lstrip("/")):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in _TEXTS.items():
        (root / name).write_text(text)
    if Path("/etc/ld.so.cache").is_file():
        shutil.copy("/etc/ld.so.cache", root / "etc")
    for name in _DEVICES:
        (root / "dev" / name).touch()
    (root / "dev/shm").symlink_to(f"{HOME}/shm")
    (root / "dev/fd").symlink_to("/proc/self/fd")
    if not (root / "tmp").exists():  # else the course or Python lies in it, and `_own_tmp` joins the two
        (root / "tmp").symlink_to(f"{HOME}/tmp")


def enter(wall: Wall, root: Path, folder: Path) -> None:
    """Leave the system for the tree at `root`, with a copy of `folder` in it, as a user that no one else is.

    The caller must be the first process of a new PID namespace.
    """
    linux.unshare(linux.NEWNS | linux.NEWNET | linux.NEWIPC | linux.NEWUTS)
    linux.raise_loopback()
    linux.call("sethostname", b"worker", 6)
    user = None if os.getuid() else _stranger()
    home = root / HOME.lstrip("/")
    linux.mount("tmpfs", home, f"size={wall.folder_bytes},nr_inodes=50000,mode=700", linux.NOSUID | linux.NODEV)
    for name in ("tmp", "shm"):
        (home / name).mkdir(0o700)
    copy_plain(folder, home / "notebook")
    if not (root / "tmp").is_symlink():
        _own_tmp(root / "tmp", home / "tmp")
    linux.mount("proc", root / "proc", flags=linux.NOSUID | linux.NODEV | linux.NOEXEC)
    if user is not None:
        for path in (home, *home.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
    linux.become_root(root)
    if user is not None:
        os.setgroups([])
        linux.empty_bounding_set()
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    else:
        linux.empty_bounding_set()
    os.chdir(f"{HOME}/notebook")


def _own_tmp(shown: Path, own: Path) -> None:
    """The worker's own folder in place of /tmp, if something below /tmp is shown; what is shown appears in it."""
    kept = {path.name: os.open(path, os.O_PATH) for path in shown.iterdir()}
    linux.bind(own, shown)
    for name, fd in kept.items():
        (shown / name).mkdir()
        linux.bind(f"/proc/self/fd/{fd}", shown / name)
        os.close(fd)


def _stranger() -> int:
    """A user id that nothing else on this machine has; a common one where ids are few, as in some containers."""
    user = _FIRST_USER + secrets.randbelow(_USERS)
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = (int(part) for part in line.split())
        if first <= user < first + count:
            return user
    return 65534


def variables() -> dict[str, str]:
    """The environment variables that describe the tree to a worker."""
    path = os.pathsep.join(dict.fromkeys((f"{sys.prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin")))
    return {
        "HOME": HOME,
        "TMPDIR": "/tmp",
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "PATH": path,
        "USER": "learner",
        "LOGNAME": "learner",
    }
