"""An answer that never ends ends its check, not the notebook."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from course_grader import exercises
from course_grader.judge.decision import decide
from course_grader.judge.exercise import resolve
from course_grader.worker import time_limit
from course_grader.worker.runners import InProcess
from course_grader.worker.time_limit import OutOfTime, limited
from course_lib.async_errors import unreported
from course_lib.cluster.errors import Unfinished
from course_lib.cluster.simulation import attempt
from tests.patience import patience

CARD = exercises.card("mfu-waste")


def counts() -> None:
    number = 0
    while True:
        number += 1


def catches_exceptions() -> None:
    while True:
        try:
            counts()
        except Exception:
            continue


def catches_everything() -> None:
    number = 0
    while True:
        try:
            number += sum(range(100))
        except:  # noqa: E722
            continue


def catches_everything_of_a_call() -> None:
    def work() -> int:
        return sum(range(1000))

    while True:
        try:
            work()
        except:  # noqa: E722
            continue


def sleeps() -> None:
    time.sleep(3600)


def waits() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


in_main_thread = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="what waits cannot be woken on this system"
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """What has caught it is ended soon."""
    monkeypatch.setattr(time_limit, "_TIDYING", 0.05)


def ended(work: Callable[[], None]) -> bool:
    """Whether the work was ended."""
    try:
        limited(work, 0.05)
    except OutOfTime:
        return True
    return False


@in_main_thread
@pytest.mark.parametrize(
    "work", [counts, catches_exceptions, catches_everything, catches_everything_of_a_call, sleeps, waits]
)
def test_what_never_ends_is_ended_and_the_process_is_as_before(work):
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL), sys.gettrace()
    assert ended(work)
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL), sys.gettrace()) == before
    assert sys.exception() is None  # or each later error in this notebook would be told as a second one


@pytest.mark.parametrize("work", [counts, catches_exceptions])
def test_it_is_ended_in_any_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(ended(work)))
    thread.start()
    thread.join(30)
    assert found == [True]


def test_a_result_and_an_error_pass_through():
    assert limited(lambda: 7, 5.0) == 7
    with pytest.raises(KeyError):
        limited(lambda: {}["none"], 5.0)


@in_main_thread
def test_a_busy_computer_takes_nothing_of_the_time_to_compute(monkeypatch):
    computed = iter([0.0, *[0.1] * 9])
    monkeypatch.setattr(time_limit.time, "process_time", lambda: next(computed, 0.1))
    assert limited(lambda: time.sleep(0.3) or "done", 0.2) == "done"


def looping(*_: object) -> None:
    print("kept out of the notebook")
    catches_exceptions()


def test_its_exercise_is_told_so_and_the_rest_of_the_cases_are_left_out():
    resolved = resolve(CARD)
    cases = [replace(case, seconds=0.1) for case in resolved.cases]
    report = decide(replace(resolved, cases=cases), InProcess(looping))
    assert (report.state, report.points, report.cases) == ("timed out", 0, 1)
    assert report.note == (
        f"Your code ran longer than 0.1 s on “{cases[0].name}” and was ended. Does a loop never end, or grow too fast?"
    )
    assert decide(resolved, InProcess(lambda *_: {})).state != "timed out"


# ---------------------------------------------------------------------------------------------------- in a real kernel

LIMIT = """
from course_lib import check
from course_grader.worker import runners, time_limit
runners.limited = lambda work, seconds: time_limit.limited(work, 0.2)
mine = [1, 2, 3]
def looping(*_):
    while True:
        try:
            mine[:] = mine[:3]
        except Exception:
            pass
"""
STARTED = """
runners.limited = time_limit.limited
def looping(*_, flag={flag!r}):
    open(flag, "w").close()
    while True:
        pass
"""


def test_a_kernel_lives_on_with_all_its_variables_and_ctrl_c_works(tmp_path):
    manager, client = start_new_kernel(kernel_name="python3")
    shown: list[str] = []

    def keep(message: dict) -> None:
        content = message["content"]
        shown.extend([content.get("text", ""), *map(str, content.get("data", {}).values())])

    def cell(source: str) -> str:
        shown.clear()
        client.execute_interactive(source, output_hook=keep, timeout=patience(60))
        return "".join(shown)

    try:
        assert cell(LIMIT) == ""
        assert "ran out of time" in cell("check('mfu-waste', looping)")
        assert cell("mine") == "[1, 2, 3]"
        flag = tmp_path / "started"
        assert cell(STARTED.format(flag=str(flag))) == ""
        threading.Thread(target=interrupt_once, args=(flag, manager), daemon=True).start()
        assert "You stopped the check" in cell("check('mfu-waste', looping)")
        assert cell("mine") == "[1, 2, 3]"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def interrupt_once(flag: Path, manager: object) -> None:
    """Ctrl-C once the answer runs."""
    while not flag.exists():
        time.sleep(0.02)
    manager.interrupt_kernel()


class Slow:
    """Its collection outlasts the time limit: the error raised meanwhile is lost."""

    def __del__(self) -> None:
        counts()


def collects_and_goes_on(*_: object) -> None:
    Slow()
    counts()


def ended_as_a_rank(work: Callable[..., None]) -> bool:
    """Whether the run was ended, and the rank with it."""
    return isinstance(attempt(work, 1, timeout=0.05).error, Unfinished)


@pytest.mark.parametrize("stop", [ended, ended_as_a_rank])
def test_an_error_lost_during_collection_is_raised_again_and_not_reported(stop, monkeypatch):
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    before = sys.unraisablehook
    assert stop(collects_and_goes_on)
    assert told == [] and sys.unraisablehook == before


@pytest.mark.parametrize("error, said", [(OutOfTime, []), (KeyError, [KeyError])])
def test_only_the_error_that_ends_a_thread_goes_unreported(error, said, monkeypatch):
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda lost: told.append(lost.exc_type))
    before = threading.excepthook

    def fails() -> None:
        raise error

    with unreported(OutOfTime):
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
    assert told == said and threading.excepthook is before


UNSEEN = """
import ctypes, sys, threading
from course_lib.async_errors import settle
ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)
settle(KeyError)
sys.settrace(lambda *_: None)
(lambda: None)()
"""


def test_a_debugger_works_after_a_thread_was_ended():
    """CPython 3.11 hangs at the first traced call while it looks for an error whose thread has ended."""
    subprocess.run([sys.executable, "-c", UNSEEN], check=True, timeout=patience(60))
