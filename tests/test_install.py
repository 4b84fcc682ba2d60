"""Setting up: which torch for which machine, the steps and their interruptions, and failures in words."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_app.install import (
    GB,
    PYTHONS,
    Machine,
    Place,
    add_group,
    check_writable,
    nvidia_smi,
    pins,
    set_up,
    torch_choice,
)
from course_app.install.setting_up import behind_links
from course_app.install.setting_up import main as install_main
from course_lib.folders import PACKAGES, ROOT
from course_lib.messages import Trouble, in_words
from tests.patience import patience
from tests.tables import each_of

CPU, CU126, CU130 = (f"https://download.pytorch.org/whl/{name}" for name in ("cpu", "cu126", "cu130"))


def linux(**more: object) -> Machine:
    return Machine(**{"system": "Linux", "arch": "x86_64", **more})


@each_of(
    "machine, build, index, fallback",
    (linux(), "cpu", CPU, True),
    (linux(arch="aarch64"), "cpu", CPU, True),
    (linux(cuda=(13, 0), capability=9.0), "cu130", CU130, True),
    (linux(cuda=(13, 2), capability=12.0), "cu130", CU130, True),
    (linux(cuda=(13, 0), capability=7.5), "cu130", CU130, True),
    (linux(cuda=(13, 0), capability=7.0), "cu126", CU126, False),
    (linux(cuda=(13, 0)), "cu130", CU130, True),
    (linux(cuda=(12, 4), capability=9.0), "cu126", CU126, False),
    (linux(cuda=(12, 0), capability=8.0), "cu126", CU126, False),
    (linux(cuda=(12, 8), capability=10.0), "cpu", CPU, True),
    (linux(cuda=(11, 8), capability=8.0), "cpu", CPU, True),
    (linux(cuda=(12, 4), capability=3.7), "cpu", CPU, True),
    (linux(cuda=(12, 8), capability=10.0, own_torch="2.9.0+cu128"), "environment", "", False),
    (linux(own_torch="2.9.0"), "cpu", CPU, True),
    (Machine(system="Darwin", arch="arm64"), "plain", "", False),
    (Machine(system="Windows", arch="AMD64"), "plain", "", False),
    (Machine(system="Windows", arch="AMD64", cuda=(13, 0), capability=8.9), "cu130", CU130, False),
    (Machine(system="Windows", arch="AMD64", cuda=(11, 4), capability=8.6), "cpu", "", False),
)
def test_which_torch(machine, build, index, fallback):
    choice = torch_choice(machine)
    assert (choice.build, choice.index, choice.fallback) == (build, index, fallback)


@each_of(
    "machine, words",
    (linux(cuda=(11, 8), capability=8.0), "driver is too old .* install driver 525"),
    (linux(cuda=(12, 8), capability=10.0), "driver is too old .* install driver 580"),
    (linux(cuda=(12, 4), capability=3.7), "GPU .* is too old"),
)
def test_a_gpu_that_cannot_be_used_is_explained(machine, words):
    import re

    assert re.search(words, torch_choice(machine).warning)


@each_of("machine", [linux(musl=True), Machine(system="Darwin", arch="x86_64")], ids=["musl", "Intel Mac"])
def test_a_machine_without_any_build_is_told_before_anything_is_downloaded(machine):
    with pytest.raises(Trouble, match="no .*build"):
        torch_choice(machine)


@given(
    system=st.sampled_from(["Linux", "Windows", "Darwin"]),
    cuda=st.none() | st.tuples(st.integers(9, 14), st.integers(0, 9)),
    capability=st.sampled_from([0.0, 3.5, 5.0, 6.1, 7.0, 7.5, 8.0, 9.0, 10.0, 12.0]),
)
def test_a_cuda_build_is_never_newer_than_the_driver_and_the_gpu_is_always_in_it(system, cuda, capability):
    choice = torch_choice(Machine(system=system, arch="arm64", cuda=cuda, capability=capability))
    if choice.build.startswith("cu"):
        toolkit, oldest, newest = {"cu126": (12, 5.0, 9.0), "cu130": (13, 7.5, 99.0)}[choice.build]
        assert cuda[0] >= toolkit
        assert capability == 0.0 or oldest <= capability <= newest
    assert choice.why


BANNER = """
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
"""


@each_of(
    "banner, capabilities, seen",
    (BANNER, "9.0\n9.0\n", ((12, 4), 9.0)),
    (BANNER.replace("CUDA Version: 12.4 ", "CUDA UMD Version: 13.1"), "8.0\n12.0\n", ((13, 1), 8.0)),
    (BANNER, 'Field "compute_cap" is not a valid field to query.', ((12, 4), 0.0)),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "", (None, 0.0)),
    ("", "", (None, 0.0)),
    ids=["two H100s", "newer banner, mixed GPUs", "old nvidia-smi", "no driver loaded", "no nvidia-smi"],
)
def test_what_nvidia_smi_says_is_understood(banner, capabilities, seen):
    assert nvidia_smi(banner, capabilities) == seen


# ----------------------------------------------------------------------------------------------------- the steps


class World:
    """Stands in for pip and the disk: notes what was run, fails where it is told to."""

    def __init__(self, root: Path, fail: dict[str, str] | None = None, free: float = 100 * GB) -> None:
        self.calls: list[list[str]] = []
        self.fail = fail or {}
        self.place = Place(root=root, venv=root / ".venv", run=self.run, free=lambda _: int(free))
        self.stop_at = ""

    def run(self, command, detail) -> tuple[int, str]:
        line = " ".join(map(str, command))
        self.calls.append(list(map(str, command)))
        if self.stop_at and self.stop_at in line:
            raise KeyboardInterrupt
        if "-m venv" in line:
            self.place.python.parent.mkdir(parents=True, exist_ok=True)
            self.place.python.unlink(missing_ok=True)
            os.symlink(sys.executable, self.place.python)
        for part, log in self.fail.items():
            if part in line:
                return 1, log
        detail("numpy")
        return 0, "torch 2.13.0+cpu computes\n"

    def installs(self) -> list[str]:
        """What was given to pip, without its flags."""
        return [" ".join(call[call.index("install") + 1 :]) for call in self.calls if "install" in call]


@pytest.fixture
def world(tmp_path):
    root = tmp_path / "the course"  # with a space in it, as folders have
    root.mkdir()
    shutil.copy(ROOT / "requirements.lock", root)
    return World(root)


def test_a_set_up_shows_a_line_per_step_and_leaves_the_stamp_that_the_script_compares(world):
    out = io.StringIO()
    set_up(world.place, linux(), out)
    lines = [line for line in out.getvalue().splitlines() if line.startswith("[")]
    assert [line[:5] for line in lines] == [f"[{n}/6]" for n in range(1, 7)]
    assert all(" s  " in line for line in lines)
    lock = (world.place.root / "requirements.lock").read_text()
    assert world.place.stamp.read_text() == f"{world.place.root}\n{lock}"


def test_packages_come_before_torch_and_tests_are_left_out(world):
    set_up(world.place, linux(), io.StringIO())
    packages, torch, course = world.installs()
    assert "learner.txt" in packages and "--no-deps" in packages
    assert f"--index-url {CPU}" in torch and torch.endswith(pins("torch")[0])
    assert "--editable" in course
    assert not any("pytest" in line for line in (world.place.venv / "course" / "learner.txt").read_text().splitlines())


def test_a_silent_cpu_index_is_followed_by_the_package_index_and_said(world):
    world.fail = {CPU: "ERROR: No matching distribution found for torch==2.13.0"}
    out = io.StringIO()
    set_up(world.place, linux(), out)
    first, second = world.installs()[1:3]
    assert CPU in first and "--retries 0" in first
    assert "--index-url" not in second and second.endswith("torch==2.13.0")
    assert "did not answer" in out.getvalue() and "package index" in out.getvalue()


def test_a_build_that_only_one_index_has_is_not_replaced_by_another(world):
    world.fail = {CU126: "ReadTimeout"}
    with pytest.raises(Trouble, match="index cannot be reached"):
        set_up(world.place, linux(cuda=(12, 4), capability=9.0), io.StringIO())


def test_the_cuda_build_is_not_begun_where_it_does_not_fit(world):
    world.fail = {CPU: "ReadTimeout"}
    world.place = Place(root=world.place.root, venv=world.place.venv, run=world.run, free=lambda _: int(5 * GB))
    with pytest.raises(Trouble, match="does not fit on this disk"):
        set_up(world.place, linux(), io.StringIO())


def test_a_disk_that_fills_while_torch_is_installed_is_not_told_as_a_silent_index(world):
    world.fail = {CPU: "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"}
    with pytest.raises(Trouble, match="The disk is full"):
        set_up(world.place, linux(), io.StringIO())
    assert len(world.installs()) == 2, "the package index's torch is larger still"


def test_an_environment_behind_a_link_is_made_where_the_link_leads(world, tmp_path):
    real = tmp_path / "large disk"
    real.mkdir()
    world.place.venv.symlink_to(real)
    assert behind_links(world.place.venv) == real.resolve()
    world.place = Place(
        root=world.place.root, venv=behind_links(world.place.venv), run=world.run, free=world.place.free
    )
    set_up(world.place, linux(), io.StringIO())
    assert (real / "course" / "stamp").exists() and any(str(real) in call for call in world.calls[0])


def test_a_link_to_a_disk_that_is_not_there_is_named_with_the_way_out(tmp_path, capsys):
    (tmp_path / ".venv").symlink_to(tmp_path / "disk" / "venv")
    assert install_main([str(tmp_path / ".venv")]) == 1
    said = capsys.readouterr().err
    assert f"is a link to {tmp_path}/disk/venv" in said and f"rm {tmp_path}/.venv" in said


def test_the_environments_own_torch_is_used_and_none_installed(world):
    set_up(world.place, linux(cuda=(12, 8), capability=10.0, own_torch="2.9.0+cu128"), io.StringIO())
    assert any("--system-site-packages" in call for call in world.calls)
    assert not any("torch==" in line for line in world.installs())


@pytest.mark.parametrize("step", ["learner.txt", "torch==", "--editable", "torch.ones"])
def test_a_set_up_stopped_anywhere_goes_on_with_the_same_environment(world, step):
    world.stop_at = step
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        set_up(world.place, linux(), out)
    assert "stopped" in out.getvalue()
    assert not world.place.stamp.exists()
    half = world.place.venv / "lib" / "python3.11" / "site-packages" / "numpy-2.4.6.dist-info"
    whole = half.with_name("scipy-1.dist-info")
    for info in (half, whole):
        info.mkdir(parents=True)
    (whole / "RECORD").touch()
    world.stop_at = ""
    set_up(world.place, linux(), io.StringIO())
    assert world.place.stamp.exists()
    assert sum("-m venv" in " ".join(call) for call in world.calls) == 1
    assert whole.exists() and not half.exists()  # what was cut off is installed again


def test_a_renewal_cut_off_is_not_taken_for_whole_even_where_the_old_lock_returns(world):
    set_up(world.place, linux(), io.StringIO())
    world.stop_at = "torch=="
    with pytest.raises(KeyboardInterrupt):
        set_up(world.place, linux(), io.StringIO())
    assert not world.place.stamp.exists()


def test_a_moved_folder_is_set_up_afresh(world):
    set_up(world.place, linux(), io.StringIO())
    moved = World(world.place.root.rename(world.place.root.with_name("elsewhere")))
    (moved.place.venv / "old").touch()
    set_up(moved.place, linux(), io.StringIO())
    assert any("venv" in call for call in moved.calls)
    assert not (moved.place.venv / "old").exists()


def test_an_environment_that_only_serves_another_folder_now_is_kept(world, tmp_path):
    set_up(world.place, linux(), io.StringIO())
    other = tmp_path / "another clone"
    other.mkdir()
    shutil.copy(ROOT / "requirements.lock", other)
    second = World(other)
    second.place = Place(root=other, venv=world.place.venv, run=second.run, free=lambda _: int(100 * GB))
    set_up(second.place, linux(), io.StringIO())
    assert not any("venv" in call for call in second.calls)
    assert second.place.stamp.read_text().startswith(f"{other}\n")


def test_a_folder_that_the_course_did_not_make_is_never_removed(world):
    world.place.venv.mkdir()
    (world.place.venv / "thesis.tex").touch()
    with pytest.raises(Trouble, match="is there already") as trouble:
        set_up(world.place, linux(), io.StringIO())
    assert (world.place.venv / "thesis.tex").exists() and "COURSE_VENV" in trouble.value.way_out


def test_a_working_environment_of_ones_own_is_used_as_it_is(world):
    subprocess.run([sys.executable, "-m", "venv", str(world.place.venv)], check=True)
    set_up(world.place, linux(), io.StringIO())
    assert not any("venv" in call for call in world.calls)


def test_an_environment_cut_off_while_it_was_made_is_made_again(world):
    world.stop_at = "-m venv"
    with pytest.raises(KeyboardInterrupt):
        set_up(world.place, linux(), io.StringIO())
    world.stop_at = ""
    set_up(world.place, linux(), io.StringIO())
    assert world.place.stamp.exists()


def test_too_small_a_disk_is_said_before_anything_is_installed(world):
    small = World(world.place.root, free=1.2 * GB)
    with pytest.raises(Trouble, match=r"1\.2 GB are free .* needs 2\.5 GB") as trouble:
        set_up(small.place, linux(), io.StringIO())
    assert small.calls == [] and "COURSE_VENV" in trouble.value.way_out


def test_a_folder_that_cannot_be_written_to_is_said_with_the_way_out():
    with pytest.raises(Trouble, match="cannot be written to") as trouble:
        check_writable(Path("/proc"))  # refuses root too
    assert "COURSE_VENV" in trouble.value.way_out


@each_of(
    "log, words",
    ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
    (
        "ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/x'",
        "cannot be written",
    ),
    (
        "NewConnectionError: Failed to establish a new connection: [Errno -2] Name or service not known",
        "cannot be reached",
    ),
    (
        "ERROR: Could not find a version that satisfies the requirement numpy==2.4.6 (from versions: none)",
        "cannot be reached",
    ),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]", "certificate"),
)
def test_what_pip_says_is_put_in_words(log, words):
    problem, way_out = in_words(f"Collecting numpy\n{log}\n")
    assert words in problem and way_out


def test_a_failure_of_no_known_kind_shows_pips_last_lines_and_where_the_log_is(world):
    world.fail = {"learner.txt": "one\ntwo\nsomething nobody has seen"}
    with pytest.raises(Trouble, match="something nobody has seen") as trouble:
        set_up(world.place, linux(), io.StringIO())
    assert "pip.log" in trouble.value.way_out
    assert (world.place.venv / "course" / "pip.log").read_text().endswith("nobody has seen")


def test_test_tools_are_added_once_and_again_when_their_pins_change(world):
    set_up(world.place, linux(), io.StringIO())
    assert add_group("test", world.place, io.StringIO()) is True
    assert "test.txt" in world.installs()[-1]
    assert add_group("test", world.place, io.StringIO()) is False
    (world.place.venv / "course" / "test.done").write_text("pytest==1")
    assert add_group("test", world.place, io.StringIO()) is True


# ------------------------------------------------------------------------------------------- the script, for real


def clone(folder: Path) -> Path:
    """The few files of a fresh clone that the script and the set-up read."""
    for name in ("course", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "README.md").touch()
    (folder / "LICENSE").touch()
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def course(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "COURSE_"))}
    command = [str(folder / "course"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**kept, **environment}, timeout=patience(120))


def only(*names: str, folder: Path) -> str:
    """A PATH with a few plain tools and what `folder` holds, so that no other Python is found."""
    for name in names:
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.symlink_to(shutil.which(name))
    return str(folder)


TOOLS = ("sh", "cat", "dirname", "readlink", "sed", "echo")


def test_too_old_a_python_is_said_with_the_way_out(tmp_path):
    folder = clone(tmp_path)
    path = only(*TOOLS, folder=tmp_path / "bin")
    old = 'case "$2" in *print\\(\\"fits*) exit 0;; *) echo "Python 3.9";; esac'
    program(tmp_path / "bin" / "python3", old)
    done = course(folder, "learn", PATH=path)
    assert done.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13; here is Python 3.9 (python3)" in done.stderr
    assert "Way out" in done.stderr


def test_no_python_at_all_is_said(tmp_path):
    folder = clone(tmp_path)
    done = course(folder, "learn", PATH=only(*TOOLS, folder=tmp_path / "bin"))
    assert done.returncode == 1 and "no Python was found" in done.stderr


def test_a_python_without_its_venv_module_is_said(tmp_path):
    folder = clone(tmp_path)
    path = only(*TOOLS, folder=tmp_path / "bin")
    program(tmp_path / "bin" / "python3", 'case "$2" in *ensurepip*) exit 1;; *) echo "Python 3.12";; esac')
    done = course(folder, "learn", PATH=path)
    assert done.returncode == 1 and "apt install python3.12-venv" in done.stderr


def test_a_name_that_does_not_run_is_passed_over(tmp_path):
    folder = clone(tmp_path)
    path = only(*TOOLS, folder=tmp_path / "bin")
    program(tmp_path / "bin" / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    program(
        tmp_path / "bin" / "python3.12", 'case "$2" in *fits*) echo fits;; *) echo "set up with $0 $*"; exit 3;; esac'
    )
    done = course(folder, "learn", PATH=path)
    assert done.returncode == 3 and "python3.12 -m course_app.install" in done.stdout


def test_help_before_anything_is_set_up_installs_nothing(tmp_path):
    folder = clone(tmp_path)
    done = course(folder, "--help")
    assert done.returncode == 0 and "./course learn" in done.stdout
    assert not (folder / ".venv").exists()


def test_without_a_network_the_set_up_ends_in_words_and_the_next_start_goes_on(tmp_path):
    folder = clone(tmp_path)
    away = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": os.devnull,
        "COURSE_PYTHON": sys.executable,
    }
    done = course(folder, "learn", **away)
    assert done.returncode == 1
    assert "package index cannot be reached" in done.stderr and "Way out" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / ".venv" / "course" / "busy").exists()


def test_doctor_works_before_anything_is_set_up(tmp_path):
    folder = clone(tmp_path)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = course(folder, "doctor", COURSE_PYTHON=str(bare / "bin" / "python"))
    assert done.returncode == 1
    assert "missing: cloudpickle" in done.stdout and "way out: `./course learn` sets everything up" in done.stdout
    assert "sandbox" in done.stdout and "delete .venv" not in done.stdout
    assert not (folder / ".venv").exists()


def set_up_with(folder: Path, text: str) -> Path:
    """A clone that counts as set up, whose Python is a program of these lines."""
    venv = clone(folder) / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "course").mkdir()
    program(venv / "bin" / "python", text)
    (venv / "course" / "stamp").write_text(f"{folder}\n{(folder / 'requirements.lock').read_text()}")
    return folder


def test_byte_code_is_kept_even_where_the_environment_forbids_it(tmp_path):
    folder = set_up_with(tmp_path, 'echo "${PYTHONDONTWRITEBYTECODE-kept}"')
    assert course(folder, "check", PYTHONDONTWRITEBYTECODE="1").stdout == "kept\n"


def test_a_set_up_folder_goes_straight_to_the_command_line_from_anywhere(tmp_path):
    folder = set_up_with(tmp_path, 'echo "$@"')
    link = tmp_path / "elsewhere" / "course"
    link.parent.mkdir()
    link.symlink_to(folder / "course")
    done = course(link.parent, "check", "a b")
    assert done.stdout == "-P -m course_app check a b\n"


def test_a_script_that_lost_its_mode_in_an_archive_can_be_run_from_the_second_time_on(tmp_path):
    folder = set_up_with(tmp_path, 'echo "$@"')
    (folder / "course").chmod(0o644)
    done = subprocess.run(["sh", "course", "check"], capture_output=True, text=True, cwd=folder)
    assert done.stdout == "-P -m course_app check\n"
    assert course(folder, "check").stdout == done.stdout


def test_every_supported_python_is_named_by_the_script_and_the_package():
    script = (ROOT / "course").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    for major, minor in PYTHONS:
        assert f"python{major}.{minor}" in script
    assert f'">={PYTHONS[0][0]}.{PYTHONS[0][1]},<{PYTHONS[-1][0]}.{PYTHONS[-1][1] + 1}"' in project


def test_a_read_only_folder_ends_in_words(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("course_app.install.setting_up.this_machine", linux)
    assert install_main(["/proc/course-venv"]) == 1
    assert "cannot be written to" in capsys.readouterr().err
