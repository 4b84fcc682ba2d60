"""Starts a training again from its newest checkpoint, if it ended for a reason that another try can overcome.

A lost process, a signal, and SIGTERM after saving are such reasons: spot machines end runs this way. A refusal, an
error of the program, Ctrl-C and the run's own limit are not. Minutes and dollars are counted over all tries and the
waits between them.
"""

import json
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.messages import Trouble
from course_runs.torchrun import Ended

SAVED = 128 + signal.SIGTERM  # exit code of a run that saved and stopped because of SIGTERM, as a shell gives it
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0  # s; each wait is twice the one before
_EXIT_CODE = re.compile(r"exitcode\s*: (-?\d+)")  # in torchrun's report, one for each process that failed
_SIGNALED = re.compile(r"got signal: (\d+)")  # torchrun itself


@dataclass(frozen=True)
class Goal:
    """What all tries together must train: up to `steps`, saved in `checkpoints`."""

    steps: int
    checkpoints: Path

    @property
    def saved(self) -> int:
        """The step of the newest whole checkpoint; 0 without one."""
        marks = sorted(self.checkpoints.glob("*/complete"))
        return int(json.loads(marks[-1].read_text(encoding="utf-8"))["step"]) if marks else 0


def goal_of(arguments: Sequence[str]) -> Goal:
    """The goal of a training's command line; Trouble where its tries could not go on from one another."""
    from course_runs import options  # loads torch

    given = options.arguments(arguments)
    if not given.save_every or not given.out:
        raise Trouble(
            "--retries goes on from checkpoints, and this run writes none.",
            "add --save-every 100 and --out work/evidence",
        )
    goal = Goal(0, Path(given.out) / "checkpoints")
    if goal.saved and not given.resume:
        raise Trouble(
            f"{goal.checkpoints} holds the checkpoints of an earlier run, and a second try would go on from them.",
            "add --resume to go on from them now, or give another --out",
        )
    return replace(goal, steps=given.until or goal.saved + given.steps)


def codes(ended: Ended) -> set[int]:
    """Exit codes of the processes that failed, and of the one that started them; a signal is negative."""
    text = "\n".join(ended.lines)
    return {
        ended.code,
        *(int(code) for code in _EXIT_CODE.findall(text)),
        *(-int(number) for number in _SIGNALED.findall(text)),
    }


def cause(ended: Ended) -> str:
    """Why a run died, where another try can help; "" where it cannot."""
    seen = codes(ended)
    if ended.ok or ended.timed_out or seen & set(INTERRUPTED) or any("Way out:" in line for line in ended.lines):
        return ""
    if SAVED in seen:
        return "it was told to stop by SIGTERM, and saved"
    signals = sorted(-code for code in seen if code < 0)
    if not signals:
        return ""
    # Once one process is lost, the others fail with signals of their own; SIGKILL is the first cause where it occurs.
    number = signal.SIGKILL if signal.SIGKILL in signals else signals[0]
    return f"a process was ended by signal {number:d} ({signal.Signals(number).name})"


def run(
    starter: Callable[..., Ended],
    program: str,
    arguments: Sequence[str],
    nproc: int,
    timeout: float | None,
    retries: int,
    sleep: Callable[[float], object] = time.sleep,
) -> Ended:
    """Start it, and up to `retries` times again; how the last try ended, with the seconds of all of them and of the
    waits."""
    goal, spent = goal_of(arguments), 0.0
    words = list(arguments)
    for number in range(1, retries + 2):
        ended = starter(program, words, nproc, timeout=None if timeout is None else timeout - spent)
        spent += ended.seconds
        last = replace(ended, seconds=spent)
        if ended.ok or ended.timed_out:
            return last
        why = cause(ended)
        if not why:
            _say(f"try {number} ended with an error of its own, which another try would meet again")
            return last
        saved, wait = goal.saved, min(FIRST_WAIT * 2 ** (number - 1), LONGEST_WAIT)
        found = f"try {number} ended after {ended.seconds:,.0f} s: {why}; {saved} of {goal.steps} steps are saved"
        if saved >= goal.steps:
            _say(f"{found}, so nothing is left to train; only its evidence is missing")
            return last
        if number > retries:
            _say(f"{found}; no try is left. The same command with --resume goes on from there")
            return last
        if timeout is not None and spent + wait >= timeout:
            _say(f"{found}; its limit leaves no time for another try")
            return replace(last, timed_out=True)
        _say(f"{found}; starting again in {wait:,.0f} s (retry {number} of {retries})")
        sleep(wait)
        spent += wait
        words = [*arguments, "--resume", "--until", str(goal.steps)]
    raise AssertionError("the last try returns")


def _say(text: str) -> None:
    print(f"run: {text}", flush=True)
