"""Trainings that are started again: which ends are worth another try, what it costs, and one rank that is really
killed."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course_app import cli
from course_lib.messages import Trouble
from course_runs import evidence, retrying, torchrun, worker_start
from tests.tables import each_alone, each_of

HERE = Path(__file__).parent
KILLED = ("Root Cause (first observed failure):", "  exitcode  : -9 (pid: 4711)", "  traceback : Signal 9 (SIGKILL)")
SAVED = ("stopped by SIGTERM after step 40", "  exitcode  : 143 (pid: 4711)")


def ended(code=1, lines=(), seconds=10.0, timed_out=False):
    return torchrun.Ended(code=code, seconds=seconds, timed_out=timed_out, lines=tuple(lines))


GOOD, LOST = ended(0), ended(1, KILLED)


class Starter:
    """Ends as it is told, one try after the other; `saves` are the steps that each try leaves saved."""

    def __init__(self, *ends, folder=None, saves=()):
        self.ends, self.folder, self.saves = list(ends), folder, list(saves)
        self.words, self.timeouts = [], []

    def __call__(self, program, arguments, nproc, timeout):
        self.words.append(list(arguments))
        self.timeouts.append(timeout)
        if self.saves and (step := self.saves.pop(0)):
            checkpoint(self.folder, step)
        return self.ends.pop(0)


def checkpoint(folder, step):
    path = folder / "checkpoints" / f"{step:08d}"
    path.mkdir(parents=True)
    (path / "complete").write_text(json.dumps({"step": step, "total": 100}))


def words(folder, *more):
    return ["--device", "cpu", "--steps", "100", "--save-every", "20", "--out", str(folder), *more]


def start(starter, folder, retries=3, limits=None, more=()):
    waits = []
    code = worker_start.start(
        "train", words(folder, *more), 2, limits or worker_start.Limits(), starter, retries=retries, sleep=waits.append
    )
    return code, waits


def test_a_lost_process_is_followed_by_another_try_up_to_the_same_step(tmp_path, capsys):
    starter = Starter(LOST, LOST, GOOD, folder=tmp_path, saves=[0, 40, 0])
    code, waits = start(starter, tmp_path)
    assert code == 0 and waits == [5.0, 10.0], "a little longer each time"
    assert starter.words == [words(tmp_path), *2 * [[*words(tmp_path), "--resume", "--until", "100"]]]
    said = capsys.readouterr().out
    assert "try 1 ended after 10 s: a process was ended by signal 9 (SIGKILL); 0 of 100 steps are saved" in said
    assert "40 of 100 steps are saved; starting again in 10 s (retry 2 of 3)" in said


@each_of(
    "end, why",
    (LOST, "signal 9 (SIGKILL)"),
    (ended(-9), "signal 9 (SIGKILL)"),
    (ended(1, ["  exitcode  : -6 (pid: 1)"]), "signal 6 (SIGABRT)"),
    (ended(1, ["  exitcode  : 1 (pid: 2)", *KILLED]), "signal 9"),
    (ended(1, ["SignalException: Process 7 got signal: 15"]), "signal 15 (SIGTERM)"),
    (ended(143), "told to stop by SIGTERM, and saved"),
    (ended(1, SAVED), "told to stop by SIGTERM, and saved"),
    (GOOD, ""),
    (ended(1, ["RuntimeError: shapes", "  exitcode  : 1 (pid: 2)"]), ""),
    (ended(2, ["train: --layout makes 3 ranks", "  Way out: --nproc 3"]), ""),
    (ended(1, ["  Way out: --nproc 3", *KILLED]), ""),
    (ended(-2), ""),
    (ended(1, ["  exitcode  : -2 (pid: 1)", *KILLED]), ""),
    (ended(130), ""),
    (ended(-15, KILLED, timed_out=True), ""),
)
def test_only_what_another_try_can_mend_is_a_cause(end, why):
    assert (why in retrying.cause(end)) if why else retrying.cause(end) == ""


@each_alone(
    "end, code",
    (ended(1, ["RuntimeError: out of memory", "  exitcode  : 1 (pid: 2)"]), 1),
    (ended(1, ["  Way out: --nproc 3"]), 2),
    (ended(-15, timed_out=True), worker_start.STOPPED),
    (GOOD, 0),
    ids=["error", "refusal", "limit", "well"],
)
def test_other_ends_are_final(end, code, tmp_path):
    starter = Starter(end)
    assert start(starter, tmp_path) == (code, []) and len(starter.words) == 1


def test_tries_run_out_and_the_last_one_says_how_to_go_on(tmp_path, capsys):
    starter = Starter(LOST, ended(1, SAVED), folder=tmp_path, saves=[20, 40])
    code, waits = start(starter, tmp_path, retries=1)
    assert (code, waits) == (143, [5.0])
    assert "40 of 100 steps are saved; no try is left. The same command with --resume" in capsys.readouterr().out


def test_minutes_and_dollars_count_all_tries_and_waits(tmp_path, capsys):
    starter = Starter(LOST, LOST, LOST)
    limits = worker_start.Limits(dollars=0.07, price=3.6)  # two devices of a tenth of a cent a second: 35 s
    code, waits = start(starter, tmp_path, limits=limits)
    assert code == worker_start.STOPPED and waits == [5.0]
    assert starter.timeouts == [pytest.approx(35.0), pytest.approx(20.0)]
    said = capsys.readouterr().out
    assert "its limit leaves no time for another try" in said and "stopped after 0.4 minutes" in said
    starter = Starter(LOST, GOOD)
    start(starter, tmp_path / "other", limits=worker_start.Limits(dollars=1.0, price=3.6))
    assert "run: 25 s, about $0.05" in capsys.readouterr().out


def test_a_run_whose_last_step_is_saved_is_not_started_again(tmp_path, capsys):
    starter = Starter(LOST, folder=tmp_path, saves=[100])
    assert start(starter, tmp_path) == (1, []) and "nothing is left to train" in capsys.readouterr().out


def test_the_steps_of_a_resumed_run_are_counted_from_its_checkpoint(tmp_path):
    checkpoint(tmp_path, 60)
    with pytest.raises(Trouble, match="checkpoints of an earlier run"):
        start(Starter(), tmp_path)
    starter = Starter(LOST, GOOD)
    assert start(starter, tmp_path, more=["--resume"])[0] == 0
    assert starter.words[1][-2:] == ["--until", "160"]
    starter = Starter(LOST, GOOD)
    start(starter, tmp_path, more=["--resume", "--until", "90"])
    assert starter.words[1][-2:] == ["--until", "90"]


@each_of("lacking", [["--out", "x"], ["--save-every", "20"], ["--save-every", "0", "--out", "x"]])
def test_without_checkpoints_there_is_nothing_to_go_on_from(lacking):
    with pytest.raises(Trouble, match="writes none") as refused:
        worker_start.start("train", lacking, 2, worker_start.Limits(), Starter(), retries=1)
    assert "--save-every 100 and --out" in refused.value.way_out


def test_ctrl_c_and_sigterm_end_all_tries(tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def told(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        start(interrupted, tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left:
        start(told, tmp_path)
    assert left.value.code == retrying.SAVED == 143 and signal.getsignal(signal.SIGTERM) == before


def test_a_command_ended_by_sigterm_gives_its_processes_time_to_save(monkeypatch):
    graces, wait = [], torchrun.subprocess.Popen.wait

    def told(process, timeout=None):
        if timeout == 77.0:
            raise SystemExit(143)
        return wait(process, timeout)

    monkeypatch.setattr(torchrun.subprocess.Popen, "wait", told)
    end = torchrun.end
    monkeypatch.setattr(torchrun, "end", lambda process, grace: (graces.append(grace), end(process, 0.1)))
    with pytest.raises(SystemExit):
        torchrun.run("train", ["--help"], 1, timeout=77.0, say=None)
    assert graces == [torchrun.SAVING] and torchrun.SAVING > torchrun.GRACE


def test_other_programs_have_no_retries():
    done = CliRunner().invoke(cli.app, ["run", "collectives", "--retries", "2"])
    assert done.exit_code != 0 and "only `run train`" in str(done.exception or done.output)


@pytest.mark.rotates("course_runs/")
def test_a_killed_rank_costs_a_try_and_no_loss_differs_from_the_unbroken_run(tmp_path, capfd):
    def starter(program, arguments, nproc, timeout):
        return torchrun.run(str(HERE / "killed_once.py"), arguments, nproc, timeout=timeout)

    common = ["--device", "cpu", "--batch", "4", "--seq-len", "16", "--steps", "8", "--warmup", "3"]
    saving = ["--save-every", "3", "--out", str(tmp_path), "--name", "second"]
    code = worker_start.start(
        "train", [*common, *saving], 2, worker_start.Limits(minutes=5), starter, retries=2, sleep=lambda _: None
    )
    said = capfd.readouterr().out
    assert code == 0 and said.count("starting again") == 1, said
    assert "a process was ended by signal 9 (SIGKILL); 3 of 8 steps are saved" in said
    second, unbroken = (evidence.read(tmp_path / f"{name}.json")["raw"]["steps"] for name in ("second", "unbroken"))
    assert [row["step"] for row in second] == [3, 4, 5, 6, 7] and len(unbroken) == 8
    for row, other in zip(second, unbroken[3:], strict=True):
        assert {name: row[name] for name in ("step", "learning_rate")} == {
            name: other[name] for name in ("step", "learning_rate")
        }
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-5)
