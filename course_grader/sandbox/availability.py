"""Which levels of the sandbox this machine supports, and what would enable the others."""

import functools
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_grader.sandbox.policy import LEVELS
from course_lib.folders import ROOT
from course_runs.machine import Line

_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """One level on this machine: whether it works, what it does or why it fails, and what to do about it."""

    level: str
    ok: bool
    why: str
    fix: str = ""


_IS = {
    "namespaces": "own files, network, processes and user for each submission",
    "contained": "Landlock, seccomp and limits: no files but its own, no network, no signals",
    "none": "limits on memory, time and files only: for work that you trust",
}


def availabilities() -> tuple[Availability, ...]:
    """Every level, strongest first. Each is tried once, in a process of its own."""
    return tuple(_availability(level) for level in LEVELS)


def sandbox_lines(seen: Sequence[Availability]) -> list[Line]:
    """The strongest sandbox that submissions of a class would have here, and what keeps each stronger one away."""
    first = next(place for place, look in enumerate(seen) if look.ok)
    best = Line("sandbox", "ok", f"{seen[first].level}: {seen[first].why}")
    return [
        best,
        *(
            Line("sandbox", "warn", f"not {look.level}: {look.why}", f"only a class needs it: {look.fix}")
            for look in seen[:first]
        ),
    ]


def best_level() -> str:
    """The strongest level that works here."""
    return next(each.level for each in availabilities() if each.ok)


@functools.cache
def _availability(level: str) -> Availability:
    if level == "none":
        return Availability(level=level, ok=True, why=_IS[level])
    if sys.platform != "linux":
        return Availability(
            level=level, ok=False, why=f"{platform.system()} has no such means", fix=f"grade on Linux; {_ELSEWHERE}"
        )
    problem = _tried(level)
    if not problem:
        return Availability(level=level, ok=True, why=_IS[level])
    why, fix = explained(level, problem)
    return Availability(level=level, ok=False, why=why, fix=fix)


_ELSEWHERE = "on Windows in WSL 2, on a Mac in a virtual machine"


def _tried(level: str) -> str:
    """ "" if a child could enter a sandbox of this level, else the reason."""
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="course-trial-", ignore_cleanup_errors=True) as scratch:
        command = [sys.executable, "-P", "-m", "course_grader.sandbox.try_level", level, scratch]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd="/", env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    said = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else said[-1] if said else f"it ended with {done.returncode}"


def explained(level: str, problem: str) -> tuple[str, str]:
    """A failed trial in words, with a one-line remedy derived from the system's own messages."""
    if "knows" in problem:
        return problem.split(": ", 1)[-1], "grade on an x86-64 or 64-bit Arm machine"
    if level == "contained":
        return (
            f"this kernel lacks Landlock or seccomp ({problem})",
            "Linux 6.2 or newer with landlock among lsm= at boot",
        )
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1" and os.geteuid():
        return (
            "AppArmor forbids user namespaces to unconfined programs (Ubuntu 23.10 and newer)",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or grade as root",
        )
    if _setting("kernel/unprivileged_userns_clone") == "0" and os.geteuid():
        return (
            "user namespaces are switched off for users",
            "sudo sysctl kernel.unprivileged_userns_clone=1, or grade as root",
        )
    if _setting("user/max_user_namespaces") == "0":
        return "user namespaces are switched off", "sudo sysctl user.max_user_namespaces=10000, or grade as root"
    if "mount_setattr" in problem and "not implemented" in problem:
        return "the kernel is older than Linux 5.12", "a newer kernel; the level “contained” needs 6.2"
    if _in_container():
        return (
            f"this container may not create namespaces ({problem})",
            "docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined …, or the level “contained”",
        )
    return (
        f"namespaces cannot be created ({problem})",
        "grade as root, or on a machine where users may create user namespaces",
    )


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _in_container() -> bool:
    """Whether this is a container: it says so, or runs under a seccomp filter."""
    try:
        filtered = "\nSeccomp:\t2" in Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        filtered = False
    return filtered or any(Path(each).exists() for each in ("/.dockerenv", "/run/.containerenv"))
