"""Ranks as processes, each behind a wall of its own: the runs of a cluster exercise that decide in a class.

The worker hands its answer over by value. Every rank is a fresh fork of the warm process that loads it there and gets its
inputs over its own socket: no memory, descriptor, folder, network or process is shared, so what one rank does not send
another does not have. The kernel, with its meter and clock, is the judge's as always.
"""

from collections.abc import Sequence
from typing import Any

from course_lib.cluster.kernel import Adversary
from course_lib.cluster.remote import Caps, judge_ranks
from course_lib.cluster.simulation import Run
from course_lib.grading.channel import Garbled, Gone, Late
from course_lib.grading.seats import PATIENCE, Seat
from course_lib.records import Case

MOST = 16  # ranks of a run that has a process for each


def deciding(cases: Sequence[Case]) -> list[Case]:
    """The runs that have a process for each rank: all with two or more.

    An answer can tell whether its ranks are threads, and be honest only where they are not: what is asked of threads is not
    proved. It costs less than twice the time of the same runs with threads.
    """
    return [case for case in cases if case.ranks is not None and 2 <= case.ranks <= MOST]


class RankProcesses:
    """The processes of one exercise's ranks: made when first needed, ended with the exercise."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.seats: list[Seat] = []

    def run(self, program: Any, hides: tuple[str, ...], case: Case) -> tuple[Run, str]:
        """One run of a program that the worker has packed, and what its ranks printed; Gone if a process ended meanwhile."""
        ranks = case.ranks or 1
        while len(self.seats) < ranks:
            self.seats.append(self.seat.beside())
        seats = self.seats[:ranks]
        for seat in seats:
            seat.channel.send(b"0" * 16, {"do": "load", "program": program, "hides": list(hides)}, PATIENCE)
        for seat in seats:
            seat.channel.receive(case.seconds)  # whatever it says: the run itself will tell
        run = judge_ranks(
            [seat.channel.sock for seat in seats], ranks, per_rank=case.per_rank,
            adversary=case.adversary or Adversary(depth=case.buffering), caps=Caps(seconds=case.seconds, answer_seconds=case.seconds),
        )
        return run, "".join(self._printed(seat) for seat in seats) if run.state in ("answered", "raised", "deadlock") else ""

    def _printed(self, seat: Seat) -> str:
        """What a rank printed, once it has stopped."""
        try:
            _, answer = seat.channel.receive(2 * PATIENCE)
        except (Late, Gone, Garbled):
            return ""
        output = answer.get("output") if type(answer) is dict else ""
        return output if type(output) is str else ""

    def ended(self) -> str:
        """How the process of a rank ended, in words."""
        words = [seat.ended() for seat in self.seats]
        self.seats.clear()
        return next((each for each in words if "closed its connection" not in each), words[0] if words else "")

    def close(self) -> None:
        """End every process."""
        for seat in self.seats:
            seat.close()
        self.seats.clear()
