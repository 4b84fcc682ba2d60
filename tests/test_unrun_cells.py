"""A check whose answer's cell has not run says what to run, in IPython itself."""

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course_app import unrun_cells
from course_grader.exercises import card

ANSWER = "def training_state(params):\n    return 1.0\nfewest_gpus = training_state\nheadroom = training_state\n"
CHECK = 'check("state-13b", training_state, fewest_gpus, headroom)'


@pytest.fixture
def shell(monkeypatch):
    """A shell that is watched, with a check that takes its answers."""
    monkeypatch.setattr(unrun_cells, "_unread", set())
    shell = InteractiveShell()
    unrun_cells.watch(shell)
    shell.user_ns["check"] = lambda exercise, *answers: unrun_cells.outdated(card(exercise).answers)
    yield shell
    shell.history_manager.end_session()


def run(shell, source, capsys):
    found = shell.run_cell(source, store_history=True)
    return found, capsys.readouterr().out


def test_a_check_before_its_answer_says_which_cell_to_run(shell, capsys):
    found, said = run(shell, CHECK, capsys)
    assert isinstance(found.error_in_exec, NameError)
    assert "Your cell of training_state has not run since the kernel started" in said and "Traceback" not in said


def test_an_answer_that_cannot_be_read_is_named_before_and_after_a_sound_one(shell, capsys):
    run(shell, ANSWER + "x = (", capsys)
    assert "Your cell of training_state has a syntax error" in run(shell, CHECK, capsys)[1]
    run(shell, ANSWER, capsys)
    assert run(shell, CHECK, capsys)[0].result == ""
    run(shell, ANSWER + "x = (", capsys)
    said = run(shell, CHECK, capsys)[0].result
    assert said.startswith("The newest cell of training_state, fewest_gpus, headroom has a syntax error")
    run(shell, ANSWER, capsys)
    assert run(shell, CHECK, capsys)[0].result == ""


def test_any_other_name_is_told_by_python_itself(shell, capsys):
    for source in ("nothing_here", 'check("state-13b", nothing_here)', 'check("no-such-exercise", nothing_here)'):
        said = run(shell, source, capsys)[1]
        assert "name 'nothing_here' is not defined" in said and "Traceback" in said and "Your cell" not in said


@pytest.mark.parametrize("call", ["dist.all_reduce(torch.ones(1))", 'dist.init_device_mesh("cpu", (2,))'])
def test_torchs_error_without_a_group_says_where_there_is_one(shell, capsys, call):
    found, shown = run(shell, f"import torch, torch.distributed as dist\n{call}", capsys)
    said = re.sub(r"\x1b\[[\d;]*m", "", shown)  # without colors
    assert isinstance(found.error_in_exec, ValueError) and found.error_in_exec.args
    assert said.rstrip().endswith("simulate(fn, ranks=4), or run a script with `./course meter --ranks 4 train.py`.")
    assert "Traceback" in said and call in said
    assert "simulate" not in run(shell, "dist.ReduceOp.SUM; int('one')", capsys)[1]
