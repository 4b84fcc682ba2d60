"""The same answer has the same verdict whatever the process is like: its threads, torch's defaults, its environment."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from course_chapters import one_thread
from course_grader import exercises
from course_grader.arithmetic import ONE_THREAD, same_everywhere
from course_grader.judge.decision import grade
from course_grader.records import Case
from course_grader.worker.fork_server_process import environment
from course_grader.worker.runners import InProcess
from tests.left_behind import LEFT, PLAIN, left_behind, settings
from tests.patience import patience
from tests.rotation import REPOSITORY

BITS = "14"  # the chapter whose judge compares trainings bit by bit


def test_settings_are_plain_inside_and_as_they_were_afterwards():
    with left_behind():
        with torch.inference_mode(), same_everywhere():
            assert settings() == PLAIN and (2 * torch.ones(1, requires_grad=True)).grad_fn
            torch.set_default_dtype(torch.float16)
            torch.set_default_device("meta")
        assert settings() == LEFT


def test_a_check_may_stand_where_another_device_is_chosen():
    with torch.device("meta"):
        with same_everywhere():
            assert torch.zeros(1).device.type == "cpu"
        assert torch.zeros(1).device.type == "meta"


@pytest.mark.parametrize("ranks", [None, 2])
def test_what_an_answer_leaves_unwritten_is_no_number(ranks):
    def unwritten(*comm: object) -> list[bool]:
        return torch.empty(2).isnan().tolist()

    card = replace(exercises.card("ring-shift"), hides=(), probe=exercises.call)
    outcome = InProcess(unwritten).run(card, Case(name="two", ranks=ranks))
    assert outcome.value == ([[True, True]] * ranks if ranks else [True, True])


def test_a_check_neither_uses_nor_moves_the_notebooks_generators():
    card = exercises.card("mfu-waste")
    drawn = []
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for _ in range(2):
        grade(card, InProcess(lambda *_: drawn.append(torch.rand(())) or {}))
    assert drawn[0] == drawn[len(drawn) // 2] and torch.equal(before, torch.get_rng_state())


# ------------------------------------------------------------------------------------------------ as a learner types it


def typed(*words: str, threads: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a command prints in a process that has this many threads, or as many as it likes."""
    env = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    env |= variables | ({} if threads is None else {"OMP_NUM_THREADS": threads})
    command = [sys.executable, "-P", *words]
    encoding = variables.get("PYTHONIOENCODING", "utf-8")
    return subprocess.run(
        command, capture_output=True, encoding=encoding, env=env, cwd=REPOSITORY, timeout=patience(240)
    )


@pytest.mark.slower
def test_check_compares_bits_on_any_number_of_threads():
    ran = typed("-m", "course_app", "check", BITS, "--solved", threads="4", TZ="Asia/Kathmandu", LC_ALL="C")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slower
def test_a_certificate_counts_what_check_counts(tmp_path):
    (source,) = (REPOSITORY / "solutions").glob(f"{BITS}_*")
    shutil.copytree(source, tmp_path / source.name)
    ran = typed("-m", "course_app", "certificate", BITS, "--name", "Ada", "--json", COURSE_WORK=str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [chapter] = json.loads(ran.stdout)["chapters"]
    assert [each["id"] for each in chapter["exercises"] if not each["passed"]] == []


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_that_cannot_encode_a_mark_shows_another(encoding, tmp_path):
    ran = typed("-m", "course_app", "progress", PYTHONIOENCODING=encoding, COURSE_WORK=str(tmp_path))
    assert ran.returncode == 0 and "....." in ran.stdout and not ran.stderr
    ran = typed("-m", "course_app", "check", "Łódź ✓", PYTHONIOENCODING=encoding, COURSE_WORK=str(tmp_path))
    assert ran.returncode == 1 and r"\u0141" in ran.stdout and "+" in ran.stdout and not ran.stderr


def test_json_stays_json_in_any_encoding():
    said = {"message": "✗ “three” … Łódź 𝛑"}
    code = (
        f"import json; from course_app.install import streams; streams.show_every_character(); "
        f"print(json.dumps({said!r}, ensure_ascii=False))"
    )
    ran = typed("-c", code, PYTHONIOENCODING="ascii")
    assert json.loads(ran.stdout) == {"message": "x 'three' ... Łódź 𝛑"}


def test_a_kernel_that_has_imported_a_chapter_uses_one_thread_and_what_it_starts_its_own():
    code = "import os, course_chapters.one_thread, torch; print(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])"
    assert typed("-c", code, threads="4").stdout.split() == ["1", "4"]


def test_a_chapter_that_is_imported_after_torch_uses_one_thread_too():
    with left_behind():
        importlib.reload(one_thread)
        assert torch.get_num_threads() == 1


def test_a_judge_that_loads_torch_only_for_a_verdict_uses_one_thread_too():
    code = (
        "from course_grader.arithmetic import same_everywhere as s\nwith s(): import torch; "
        "print(torch.get_num_threads())"
    )
    assert typed("-c", code, threads="4").stdout.split() == ["1"]


def test_a_worker_has_the_judges_instructions_but_not_its_threads(monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert environment()["ATEN_CPU_CAPABILITY"] == "default" and environment()["MKL_NUM_THREADS"] == "1"
