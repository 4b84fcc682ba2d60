"""A look at this machine: what the course needs, what is there, and the way out of what is missing. Standard library
only."""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from course_app import install
from course_app.install import GB
from course_lib.folders import ROOT
from course_lib.messages import Trouble, count_text
from course_runs import machine
from course_runs.machine import Line, output_of

PORT = 8888
_GIB = 2**30


def look(root: Path = ROOT, work: Path | None = None) -> list[Line]:
    """Everything there is to say about this machine, in the order in which it would be mended."""
    seen = _nvidia()
    declared, installed = _declared(root), _installed()
    set_up = not {"torch", "typer"}.isdisjoint(installed)
    return [
        python_line(sys.version_info[:2], sys.executable),
        packages_line(declared, installed, _pins(root)),
        chapters_line(root),
        *([torch_line(_torch(), seen)] if set_up else []),  # before the set-up it is one of the missing packages
        gpu_line(seen),
        disk_line(shutil.disk_usage(root).free, set_up="torch" in installed),
        memory_line(machine.memory()),
        cores_line(machine.cores()),
        *(write_line(folder) for folder in (root, work or root / "work") if folder.exists()),
        git_line(_git_version()),
        chromium_line(chromium()),
        port_line(PORT, port_is_free(PORT)),
    ]


# ------------------------------------------------------------------------------------------------ one line each


def python_line(version: tuple[int, ...], executable: str) -> Line:
    """Whether this Python fits."""
    found = f"{version[0]}.{version[1]} ({executable})"
    if tuple(version[:2]) in install.PYTHONS:
        return Line("Python", "ok", found)
    return Line(
        "Python",
        "fail",
        found,
        "install Python 3.11, 3.12 or 3.13 and name it: COURSE_PYTHON=python3.13 ./course learn",
    )


def packages_line(declared: dict[str, str], installed: dict[str, str], pinned: dict[str, str]) -> Line:
    """Whether what pyproject.toml asks for is there, in its ranges; and how much of it is exactly the lock's."""
    missing = sorted(name for name in declared if name not in installed)
    if missing:
        return Line(
            "packages",
            "fail",
            f"missing: {', '.join(missing)}",
            "`./course learn` sets everything up, about 2 GB in .venv, once (or: pip install -e . in an environment "
            "of your own)",
        )
    if wrong := sorted(
        f"{name} {installed[name]} (needs {r})" for name, r in declared.items() if not _fits(installed[name], r)
    ):
        return Line("packages", "fail", ", ".join(wrong), "delete .venv and run `./course learn`, or: pip install -e .")
    differ = sorted(
        f"{name} {installed[name]}" for name in declared if name in pinned and _public(installed[name]) != pinned[name]
    )
    if differ:
        way_out = "they are in the allowed ranges; `./course learn` in a fresh .venv gives the tested versions"
        return Line("packages", "warn", f"not the tested versions: {', '.join(differ)}", way_out)
    return Line("packages", "ok", f"{len(declared)} direct ones, all {'as tested' if pinned else 'in their ranges'}")


def chapters_line(root: Path) -> Line:
    """Whether this copy of the course has chapters: an installed package has none."""
    count = len(list(root.glob("notebooks/[0-9][0-9]_*")))
    if count:
        return Line("chapters", "ok", f"{count_text(count, 'chapter')} in {root / 'notebooks'}")
    return Line(
        "chapters",
        "fail",
        f"none in {root}: this is an installed package, which has the library alone",
        "clone the course's repository and start ./course learn there",
    )


def torch_line(torch: "Torch", gpu: "Gpu") -> Line:
    """Whether torch runs, and whether its build fits the machine."""
    if not torch:
        return Line(
            "torch",
            "fail",
            "does not import",
            "delete .venv and run `./course learn`; if it stays, report what python -c 'import torch' says",
        )
    found = f"{torch['version']}, {count_text(torch['threads'], 'thread')}" + (
        f", CUDA {torch['cuda']}" if torch["cuda"] else ""
    )
    if gpu.names and not torch["gpus"]:
        way_out = (
            "the course works on the CPU; for the GPU delete .venv and run `./course learn`, which chooses the "
            "build by the driver"
        )
        return Line("torch", "warn", f"{found}; does not see the GPU", way_out)
    return Line("torch", "ok", found)


@dataclass(frozen=True, slots=True)
class Gpu:
    """What nvidia-smi says: names of the GPUs, driver, and the newest CUDA that the driver supports."""

    names: tuple[str, ...] = ()
    driver: str = ""
    cuda: tuple[int, int] | None = None


def gpu_line(gpu: Gpu) -> Line:
    """Which GPUs are there, and whether the driver is new enough."""
    if gpu.cuda is None or not gpu.names:
        return Line("GPU", "ok", "none (the course does not need one)")
    kinds = ", ".join(f"{gpu.names.count(name)} × {name}" for name in dict.fromkeys(gpu.names))
    found = f"{kinds}, driver {gpu.driver}, CUDA up to {gpu.cuda[0]}.{gpu.cuda[1]}"
    if gpu.cuda < (12, 0):
        return Line(
            "GPU",
            "warn",
            found,
            "the driver is too old for this PyTorch: install driver 525 or newer (580 for the CUDA 13 build)",
        )
    return Line("GPU", "ok", found)


def disk_line(free: float, set_up: bool) -> Line:
    """Whether there is room for the environment, or, once it is there, for the work."""
    needs = 0.5 * GB if set_up else install.TorchChoice(build="cpu", index="", why="").disk
    found = f"{free / GB:.1f} GB free"
    if free < needs:
        return Line("disk", "fail", found, f"free some space: {needs / GB:.1f} GB are needed")
    return Line("disk", "ok", found)


def memory_line(memory: tuple[float, float]) -> Line:
    """Whether a chapter (2 GB) fits; `memory` is (total, available) in bytes, zeros where the system does not say."""
    total, available = memory
    if not total:
        return Line("memory", "ok", "this system does not say")
    found = f"{total / _GIB:.1f} GiB, {available / _GIB:.1f} available"
    if available < 2 * GB:
        return Line("memory", "warn", found, "close other programs: a chapter needs up to 2 GB")
    return Line("memory", "ok", found)


def cores_line(cores: float) -> Line:
    """How many cores this process may use."""
    found = f"{cores:g} usable"
    return (
        Line("cores", "ok", found)
        if cores >= 2
        else Line("cores", "warn", found, "all works, more slowly: two cores are what times are given for")
    )


def write_line(folder: Path) -> Line:
    """Whether `folder` can be written to."""
    try:
        install.check_writable(folder)
    except Trouble as trouble:
        return Line("writing", "fail", trouble.problem, trouble.way_out)
    return Line("writing", "ok", str(folder))


def git_line(version: str) -> Line:
    """Whether git is there to keep earlier states of the work."""
    if version:
        return Line("git", "ok", version)
    return Line(
        "git",
        "warn",
        "not installed",
        "everything works; with git, `./course learn` also keeps earlier states of your work",
    )


def chromium_line(path: str) -> Line:
    """Whether the browser tests can run."""
    if path:
        return Line("Chromium", "ok", path)
    return Line(
        "Chromium",
        "warn",
        "not found",
        "only the browser tests need it, and skip: .venv/bin/playwright install chromium",
    )


def port_line(port: int, free: bool) -> Line:
    """Whether JupyterLab's usual port is free."""
    if free:
        return Line("port", "ok", f"{port} is free")
    return Line("port", "warn", f"{port} is taken", "JupyterLab takes the next free one; --port chooses another")


# ------------------------------------------------------------------------------------------------ asking the system


def chromium() -> str:
    """Path of a Chromium or Chrome for the browser tests, "" if there is none. COURSE_CHROMIUM names one."""
    if given := os.environ.get("COURSE_CHROMIUM"):
        return given if Path(given).exists() else ""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"):
        if path := shutil.which(name):
            return path
    home = Path.home()
    folders = [
        home / ".cache/ms-playwright",
        home / "Library/Caches/ms-playwright",
        home / "AppData/Local/ms-playwright",
    ]
    if given := os.environ.get("PLAYWRIGHT_BROWSERS_PATH"):
        folders.insert(0, Path(given))
    programs = ("chrome", "chrome.exe", "Chromium", "Google Chrome for Testing")
    found = (
        path
        for folder in folders
        for path in folder.glob("chromium-*/**/*")
        if path.name in programs and path.is_file()
    )
    return str(next(found, ""))


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on `port` of `host`."""
    with socket.socket() as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _declared(root: Path) -> dict[str, str]:
    """What pyproject.toml asks for, or an installed package's metadata: {name: range}."""
    file = root / "pyproject.toml"
    if file.is_file():
        wanted = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        wanted = [line for line in metadata.requires("training-at-scale") or () if "extra ==" not in line]
    pairs = (re.match(r"([\w.-]+)(.*)", line) for line in wanted)
    return {_plain(found[1]): found[2] for found in pairs if found}


def _installed() -> dict[str, str]:
    return {_plain(d.metadata["Name"]): d.version for d in metadata.distributions() if d.metadata["Name"]}


def _pins(root: Path) -> dict[str, str]:
    """The lock's versions of packages that have one version only; none without a lock."""
    file = root / "requirements.lock"
    lock = file.read_text(encoding="utf-8") if file.is_file() else ""
    lines = re.findall(r"^([\w.-]+)==([\w.+!]+)\s*$", lock, flags=re.MULTILINE)
    return {_plain(name): version for name, version in lines}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _public(version: str) -> str:
    return version.split("+")[0]


def _fits(version: str, wanted: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # a bare Python: everything is missing and has been said
        return True
    return SpecifierSet(wanted).contains(_public(version), prereleases=True)


class Torch(TypedDict, total=False):
    """What torch says of itself; empty if it does not run."""

    version: str
    cuda: str | None
    gpus: int
    threads: int


def _torch() -> Torch:
    """What torch says of itself, asked in another process; {} if it does not run."""
    program = (
        "import json, torch; gpus = torch.cuda.device_count() if torch.cuda.is_available() else "
        "0;print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda, 'gpus': gpus, 'threads': "
        "torch.get_num_threads()}))"
    )
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}


def _nvidia() -> Gpu:
    banner = output_of("nvidia-smi")
    rows = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").strip().splitlines()
    pairs = [row.rsplit(", ", 1) for row in rows if ", " in row]
    cuda, _ = install.nvidia_smi(banner, "")
    return Gpu(tuple(name for name, _ in pairs), pairs[0][1] if pairs else "", cuda)


def _git_version() -> str:
    return output_of("git", "--version").strip().removeprefix("git version ")


# ------------------------------------------------------------------------------------------------ plain text


def worst(lines: Iterable[Line]) -> int:
    """Exit code: 1 if something is missing that the course needs."""
    return int(any(line.state == "fail" for line in lines))


def as_json(lines: Iterable[Line]) -> str:
    """The lines as JSON text."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    rows = [asdict(line) for line in lines]
    return json.dumps({"system": system, "ok": not worst(Line(**row) for row in rows), "lines": rows}, indent=1)


def main(arguments: Sequence[str], more: Sequence[Line] = ()) -> int:
    """`course doctor` where the command line's libraries are not installed yet; `more` lines end the table."""
    lines = [*look(), *more]
    if "--json" in arguments:
        print(as_json(lines))
        return worst(lines)
    for line in lines:
        print(
            f"{line.state:4}  {line.what:9} {line.found}" + (f"\n      way out: {line.way_out}" if line.way_out else "")
        )
    return worst(lines)
