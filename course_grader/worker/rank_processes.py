"""Ranks as processes, each in its own sandbox: these runs decide cluster exercises in a class.

The worker passes its answer by value. Every rank has a worker of its own, which runs nothing else of the submission: a
fresh fork loads the answer and gets its inputs over its own socket. Ranks share no memory, descriptor, folder, network
or process, so a rank has only what was sent to it. The judge runs the kernel with its meter and clock, as always.

Processes and workers are kept for the notebook's next exercise, because copying one costs as much as a few runs, and
entering the sandbox four times that. An exercise cannot harm the next one: if an answer fails in kept processes, it is
judged again in fresh ones. A worker is replaced, with its processes, if a rank left anything in its folder or broke a
limit.
"""

import select
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_grader.exercises import Card, call
from course_grader.records import Case
from course_grader.worker.protocol import PATIENCE, Garbled, Gone, Late
from course_grader.worker.worker_pool import WorkerHandle, end_in_words, pass_socket

if TYPE_CHECKING:
    from course_lib.cluster.simulation import Run

MOST = 16  # ranks of a run that has a process for each
_GRACE = 0.5  # s within which a process ends by itself
_TOKEN = b"0" * 16


def deciding(cases: Sequence[Case]) -> list[Case]:
    """The runs that get a process per rank: all with two or more ranks.

    An answer can detect whether its ranks are threads and be honest only when they are not, so runs with threads prove
    nothing. Processes cost less than twice as much time.
    """
    return [case for case in cases if case.ranks is not None and 2 <= case.ranks <= MOST]


class Rank:
    """The process of one rank: a fork of a worker that does nothing else."""

    def __init__(self, keeper: WorkerHandle) -> None:
        self.keeper = keeper
        self.status: int | None = None
        self.running = True
        self.loaded = False  # whether it has this exercise's answer
        try:
            if not keeper.apart:
                keeper.channel.ask({"do": "apart"}, PATIENCE)
                keeper.apart = True
            self.token, self.channel = pass_socket(keeper.channel, {"do": "clone"})
        except (Gone, Late, Garbled):
            keeper.close()  # the next exercise gets another
            raise

    def load(self, request: dict[str, object], answer: object) -> None:
        """Load the answer for a run; the run reports whether that worked."""
        self.channel.send(_TOKEN, {**request, "do": "load", "answer": None if self.loaded else answer}, PATIENCE)
        self.loaded = True

    def printed(self, until: float) -> str:
        """What the rank printed, once it has stopped; Late if it has not stopped by `until`."""
        try:
            _, answer = self.channel.receive(max(0.0, until - time.monotonic()))
        except (Gone, Garbled):
            return ""
        output = answer.get("output") if type(answer) is dict else ""
        return output if type(output) is str else ""

    def wait(self, seconds: float) -> bool:
        """Whether the process ended in time; Gone or Garbled if its worker cannot go on."""
        if self.running:
            try:
                back, answer = self.keeper.channel.receive(seconds)
            except Late:
                return False
            if back != self.token or type(answer) is not dict or type(answer.get("status")) is not int:
                raise Garbled("an answer to nothing that was asked")
            self.status, self.running = answer["status"], False
        return True

    def close(self, until: float) -> None:
        """End the process and everything it started, by force after `until`. If anything is left, end its worker
        too."""
        self.channel.close()
        try:
            self.wait(max(0.0, until - time.monotonic()))
            self.keeper.sweep()
            if (
                self.wait(PATIENCE)
                and not self.keeper.over
                and self.keeper.channel.ask({"do": "left"}, PATIENCE) == {"left": False}
            ):
                return
        except (Gone, Late, Garbled):
            pass
        self.keeper.close()


class RankProcesses:
    """The processes of a notebook's ranks: created when first needed, and kept for its next exercises."""

    def __init__(self, worker: WorkerHandle) -> None:
        self.worker = worker
        self.processes: list[Rank] = []

    def begin(self) -> None:
        """Start another exercise: its answer must be loaded before it runs."""
        for each in self.processes:
            each.loaded = False

    def run(self, card: Card, answer: object, case: Case) -> "tuple[Run, str]":
        """One run of a packed answer, and what its ranks printed; Gone if a process ended during the run.

        Late if ranks go on after the run; their processes are then not used again.
        """
        from course_grader.remote_ranks.remote_judge import Caps, judge_ranks
        from course_lib.cluster.adversary import Adversary

        ranks = case.ranks or 1
        while len(self.processes) < ranks:
            self.processes.append(Rank(self.worker.beside(len(self.processes))))
        processes = self.processes[:ranks]
        request = {
            "probe": "" if card.probe is call else card.id,
            "hides": list(card.hides),
            "args": tuple(case.args),
            "kwargs": dict(case.kwargs),
            "twice": case.twice,
        }
        for each in processes:
            each.load(request, answer)
        run = judge_ranks(
            [each.channel.sock for each in processes],
            ranks,
            per_rank=case.per_rank,
            adversary=case.adversary or Adversary(depth=case.buffering),
            caps=Caps(seconds=case.seconds, answer_seconds=case.seconds),
        )
        until = time.monotonic() + 2 * PATIENCE  # for all of them together
        return run, "".join(each.printed(until) for each in processes) if run.state in (
            "answered",
            "raised",
            "deadlock",
        ) else ""

    def ended(self) -> str:
        """How the process of a rank ended, in words."""
        first = self._first_to_end()
        processes = list(self.processes)
        self.close()
        over = next((each.keeper.over for each in processes if each.keeper.over), "")
        return f"Your code {over}." if over else end_in_words(first.status if first else None)

    def _first_to_end(self) -> Rank | None:
        """A rank whose process has ended by itself."""
        ready, _, _ = select.select([each.keeper.channel.sock for each in self.processes], [], [], _GRACE)
        for each in self.processes:
            try:
                if each.keeper.channel.sock in ready and each.wait(PATIENCE):
                    return each
            except (Gone, Garbled):
                continue
        return None

    def close(self) -> None:
        """End every process."""
        until = time.monotonic() + _GRACE
        for each in self.processes:
            each.channel.close()
        for each in self.processes:
            each.close(until)
        self.processes.clear()
