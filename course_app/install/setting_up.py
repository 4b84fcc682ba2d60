"""The steps that make `.venv`. Standard library only.

Every step may be cut off at any instant: the stamp that `./course` compares is written last, and the next start goes on
from what is already installed.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from course_app.install.steps import Runner, Steps, run_quietly
from course_lib.folders import ROOT
from course_lib.messages import FULL, NO_WRITING, Trouble, in_words
from course_runs.machine import output_of
from course_runs.torch_choice import GB, Machine, TorchChoice, this_machine, torch_choice

PYTHONS = ((3, 11), (3, 12), (3, 13))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where things go, and what stands for the outside world (so that tests can stand in for it)."""

    root: Path = ROOT
    venv: Path = ROOT / ".venv"
    run: Runner = run_quietly
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def stamp(self) -> Path:
        """What `./course` compares: the folder's place and the lock that was installed."""
        return self.venv / "course" / "stamp"

    def wanted_stamp(self) -> str:
        """The stamp of a finished set-up, as `./course` computes it."""
        return f"{self.root}\n{(self.root / 'requirements.lock').read_text(encoding='utf-8')}"


def set_up(place: Place, machine: Machine | None = None, out: IO[str] | None = None) -> None:
    """Make `.venv` whole: the environment, the pinned packages, torch, the course. Raises Trouble in words."""
    steps = Steps(6, out)
    steps.say(f"Setting up the course in {place.venv} (once).")
    with steps.step(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"):
        machine = this_machine() if machine is None else machine
        choice = torch_choice(machine)
        check_writable(place.venv.parent)
        check_disk(place, choice)
    if choice.warning:
        steps.say(f"      note: {choice.warning}.")
    with steps.step("environment"):
        make_environment(place, choice)
    packages = _applicable(pins("learner"))
    with steps.step(f"{packages} packages (JupyterLab, nbgrader, numpy, matplotlib, …)") as step:
        pip_install(place, ["--no-deps", *_requirements(place, "learner")], step.show)
    with steps.step(f"torch: {choice.why}") as step:
        note = install_torch(place, choice, step.show)
    if note:
        steps.say(f"      note: {note}.")
    with steps.step("the course's own library") as step:
        pip_install(place, ["--no-deps", "--no-build-isolation", "--editable", str(place.root)], step.show)
    with steps.step("a first look") as step:
        step.text = f"a first look: {first_look(place, step.show)}"
    (place.venv / "course" / "busy").unlink(missing_ok=True)
    place.stamp.write_text(place.wanted_stamp(), encoding="utf-8")
    steps.say(f"Set up in {steps.seconds():.0f} s.")


def check_writable(folder: Path) -> None:
    """Trouble in words if nothing can be written into `folder`."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise Trouble(f"{folder} cannot be written to ({error.strerror}).", NO_WRITING) from error


def check_disk(place: Place, choice: TorchChoice) -> None:
    """Trouble in words if what is still to be installed will not fit."""
    free = place.free(place.venv.parent)
    if not place.python.exists() and free < choice.disk:
        raise Trouble(
            f"{free / GB:.1f} GB are free where {place.venv} goes; the course with this torch needs "
            f"{choice.disk / GB:.1f} GB.",
            "free some space, or put the environment on another disk: COURSE_VENV=/other/disk/course-venv "
            "./course learn",
        )


def behind_links(venv: Path) -> Path:
    """Where an environment's folder really is: Python makes none through a link. Trouble where a link leads nowhere."""
    real = venv.resolve()
    if venv.is_symlink() and not real.parent.is_dir():
        raise Trouble(
            f"{venv} is a link to {real}, and {real.parent} is not there.",
            f"make that folder (is its disk mounted?), or delete the link: rm {venv}",
        )
    return real


def make_environment(place: Place, choice: TorchChoice) -> None:
    """A working environment at `place.venv`; one that works is kept, so that an interrupted set-up goes on.

    Only an environment that this set-up made is ever removed. One that moved is: its scripts point at the old place.
    """
    mark, busy = place.venv / "course" / "place", place.venv / "course" / "busy"
    ours = mark.exists()
    moved = ours and Path(mark.read_text(encoding="utf-8")).resolve() != place.venv.resolve()
    if moved or not _works(place):
        if ours:
            shutil.rmtree(place.venv)
        elif place.venv.exists() and any(place.venv.iterdir()):
            raise Trouble(
                f"{place.venv} is there already, and is not an environment that the course can use.",
                "rename or delete it, or name another place: COURSE_VENV=~/course-venv ./course learn",
            )
        mark.parent.mkdir(parents=True)
        mark.write_text(str(place.venv), encoding="utf-8")
        flags = ["--system-site-packages"] if choice.build == "environment" else []
        code, log = place.run([sys.executable, "-m", "venv", *flags, str(place.venv)], lambda _: None)
        if code:
            way_out = "Debian and Ubuntu: sudo apt install python3-venv; then the same command again"
            unknown = (f"Python could not make an environment: {log.strip()[-300:]}", way_out)
            problem, way = in_words(log) or unknown
            raise Trouble(problem[0].upper() + problem[1:], way)
    elif busy.exists():
        _drop_half_installed(place)
    busy.parent.mkdir(exist_ok=True)
    place.stamp.unlink(missing_ok=True)
    busy.touch()


def _works(place: Place) -> bool:
    """Whether the environment runs, has pip, and a Python that fits."""
    version = output_of(str(place.python), "-c", "import sys, pip; print(*sys.version_info[:2])")
    return version.split() in [[str(part) for part in each] for each in PYTHONS]


def _drop_half_installed(place: Place) -> None:
    """Forget packages whose installation was cut off: pip writes RECORD last, so they have none."""
    for info in place.venv.glob("[Ll]ib/**/site-packages/*.dist-info"):
        if not (info / "RECORD").exists():
            shutil.rmtree(info, ignore_errors=True)


def _requirements(place: Place, group: str) -> list[str]:
    path = place.venv / "course" / f"{group}.txt"
    path.write_text("\n".join(pins(group)) + "\n", encoding="utf-8")
    return ["--requirement", str(path)]


def _applicable(requirements: Sequence[str]) -> int:
    """How many of the pins are for this system, near enough for a progress line."""
    other = {"Linux": "win32|darwin|'nt'", "Darwin": "win32|'nt'", "Windows": "darwin"}.get(platform.system(), "^$")
    return sum(not re.search(rf"== '?({other})", each) for each in requirements)


def pip_install(place: Place, arguments: Sequence[str], detail: Callable[[str], None], wait: int = 15) -> None:
    """Install; Trouble in words where that fails. `wait`: seconds to wait for a silent network."""
    flags = ["--no-input", "--no-compile", "--progress-bar", "off", "--retries"]
    flags += ["2" if wait > 10 else "0", "--timeout", str(wait)]
    code, log = place.run([str(place.python), "-m", "pip", "install", *flags, *arguments], detail)
    if code:
        _keep_log(place, log)
        ending = "\n    ".join(log.strip().splitlines()[-8:])
        problem, way_out = in_words(log) or (f"pip could not install {arguments[-1]}:\n    {ending}", "see the log")
        raise Trouble(
            problem[0].upper() + problem[1:] + ".", f"{way_out}.\n  The whole log: {place.venv / 'course' / 'pip.log'}"
        )


def _keep_log(place: Place, log: str) -> None:
    with suppress(OSError):
        (place.venv / "course" / "pip.log").write_text(log, encoding="utf-8")


def install_torch(place: Place, choice: TorchChoice, detail: Callable[[str], None]) -> str:
    """Install the chosen torch; the value is a note for the reader, "" if all went as chosen."""
    if choice.build == "environment":
        return ""
    constraints = _requirements(place, "learner")[1]
    arguments = ["--constraint", constraints, *pins("torch")]
    if not choice.index:
        pip_install(place, arguments, detail)
        return ""
    try:
        pip_install(place, ["--index-url", choice.index, *arguments], detail, wait=8)
        return ""
    except Trouble as trouble:
        if not choice.fallback or FULL in trouble.problem.lower():
            raise
    cuda = choice.build == "cpu" and platform.machine() in ("x86_64", "aarch64")
    detail("from the package index")
    if cuda and place.free(place.venv.parent) < 12 * GB:
        raise Trouble(
            f"PyTorch's CPU index ({choice.index}) did not answer, and the package index's CUDA build does not fit "
            f"on this disk.",
            "let this machine reach download.pytorch.org, or free 12 GB; then the same command",
        )
    pip_install(place, arguments, detail)
    version = output_of(
        str(place.python), "-c", "from importlib.metadata import version as v; print(v('torch'))"
    ).strip()
    size = (
        ""
        if version.endswith("+cpu")
        else ": the CUDA build, several GB larger than the CPU build and just as good without a GPU"
    )
    return f"{choice.index} did not answer, so torch {version} came from the package index{size}"


def first_look(place: Place, detail: Callable[[str], None]) -> str:
    """What was seen: torch computes and JupyterLab is there. Trouble in words if not.

    pip leaves the byte code out (most of it is never imported); what a first start imports is compiled here.
    """
    program = (
        "import importlib.metadata as m, torch, matplotlib.pyplot, ipywidgets, ipykernel.kernelapp, "
        "jupyterlab.labapp, typer;assert torch.ones(3).sum() == 3;gpus = torch.cuda.device_count() if "
        "torch.cuda.is_available() else 0;print('torch', torch.__version__, 'computes' + (f' and sees {gpus} GPU(s)' "
        "if gpus else '') + ', JupyterLab', m.version('jupyterlab'), 'is there')"
    )
    code, log = place.run([str(place.python), "-c", program], detail)
    if code:
        last = (log.strip().splitlines() or ["no output"])[-1]
        raise Trouble(
            f"torch does not run here: {last}", f"delete {place.venv} and start again; if it stays, report this line"
        )
    return log.strip().splitlines()[-1]


FURTHER = {"test": "tests", "site": "the site"}  # sections of the lock that a command adds, and what they are for


def add_group(group: str, place: Place | None = None, out: IO[str] | None = None) -> bool:
    """Install a further section of the lock ("test" or "site") if it is not there yet; whether anything was done."""
    place = Place(venv=Path(sys.prefix)) if place is None else place
    done = place.venv / "course" / f"{group}.done"
    wanted = "\n".join(pins(group))
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return False
    done.parent.mkdir(exist_ok=True)
    steps = Steps(1, out)
    with steps.step(f"{len(pins(group))} more packages for {FURTHER[group]}") as step:
        pip_install(place, ["--no-deps", *_requirements(place, group)], step.show)
    done.write_text(wanted, encoding="utf-8")
    return True


def pins(group: str, lock: str | None = None) -> list[str]:
    """The pinned requirements of one section of requirements.lock: "torch", "learner", "test" or "site"."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8") if lock is None else lock
    sections = re.split(r"^# --- (\w+).*$", text, flags=re.MULTILINE)
    named = dict(zip(sections[1::2], sections[2::2], strict=True))
    return [line.strip() for line in named[group].splitlines() if line.strip() and not line.startswith("#")]


@contextmanager
def one_at_a_time(venv: Path) -> Iterator[None]:
    """Let a second set-up of the same environment wait for the first."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    name = f"course-{os.getuid()}-{zlib.crc32(bytes(venv)):08x}.lock"
    with open(Path(tempfile.gettempdir()) / name, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("Another ./course is setting this up; waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str]) -> int:
    """Set up the environment named by the first argument; the exit code. What `./course` calls."""
    try:
        place = Place(venv=behind_links(Path(arguments[0]) if arguments else ROOT / ".venv"))
        with one_at_a_time(place.venv):
            if not (place.stamp.exists() and place.stamp.read_text(encoding="utf-8") == place.wanted_stamp()):
                set_up(place)
    except Trouble as trouble:
        print(f"course: {trouble}", file=sys.stderr)
        return 1
    except OSError as error:
        problem, way_out = in_words(str(error)) or (str(error), "see the message above")
        print(f"course: {problem}.\n  Way out: {way_out}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What is installed stays; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


def begin(arguments: Sequence[str]) -> int:
    """Set up `.venv`, then run the command in it: the way in where there is no POSIX shell."""
    place = Place(venv=Path(os.environ.get("COURSE_VENV", ROOT / ".venv")).absolute())
    code = main([str(place.venv)])
    if code:
        return code
    return subprocess.call([str(place.python), "-P", "-m", "course_app", *arguments])
