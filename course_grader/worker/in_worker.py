"""The judge's side of a worker: it sends requests, checks every reply, and describes how a worker was lost.

`run_cell` runs one cell of the notebook; `InWorker` runs an exercise's cases on a clone of the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from course_grader.clean_text import clean
from course_grader.exercises import Card, call
from course_grader.records import Case, Outcome, State
from course_grader.worker.plain_values import NOT_ANSWERED, OUTPUT_CAP
from course_grader.worker.protocol import PATIENCE, Channel, Garbled, Gone, Late, Request, Unreadable
from course_grader.worker.rank_processes import RankProcesses, deciding
from course_grader.worker.second_call import CALLS
from course_grader.worker.worker_pool import WorkerHandle, end_in_words, pass_socket
from course_lib.cluster import errors

if TYPE_CHECKING:
    from course_lib.cluster.simulation import Run

CELL_SECONDS = 30.0
ANSWERS: tuple[State, ...] = ("answered", "not answered", "raised", "deadlock")  # states that a worker may report


class Lost(Exception):
    """The worker cannot go on. Carries the state of its exercise or cell, and the reason in words."""

    def __init__(self, state: State, words: str) -> None:
        super().__init__(words)
        self.state, self.words = state, words


def ask(channel: Channel, request: Request, seconds: float, limit: str) -> dict[str, object]:
    """The reply to a request; Lost, with the reason, if there is none."""
    try:
        answer = channel.ask(request, seconds)
    except Late as error:
        raise Lost("timed out", f"Your code ran longer than {limit}.") from error
    except Garbled as error:
        raise _refused(error) from error
    if type(answer) is not dict:
        raise Lost("refused", "Your code wrote into the connection to the judge (an answer of the wrong kind).")
    return answer


def _refused(error: Garbled) -> Lost:
    """Why a reply was refused: a result that cannot be read is no attempt to forge one."""
    if isinstance(error, Unreadable):
        return Lost("refused", f"The judge could not read what your code returned ({error}).")
    return Lost("refused", f"Your code wrote into the connection to the judge ({error}).")


def run_cell(worker: WorkerHandle, source: str, seconds: float = CELL_SECONDS) -> Outcome:
    """The outcome of one cell, without a value; Lost if the worker did not survive it."""
    try:
        answer = ask(worker.channel, {"do": "cell", "source": source}, seconds, f"{seconds:g} s")
    except Gone as error:
        raise Lost("crashed", worker.ended()) from error
    return outcome_of(answer)


def names_there(worker: WorkerHandle, names: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """The names that the worker's notebook defines, and which are its own functions; Lost if it does not reply."""
    try:
        answer = ask(worker.channel, {"do": "names", "names": list(names)}, PATIENCE, f"{PATIENCE:g} s")
    except Gone as error:
        raise Lost("crashed", worker.ended()) from error
    answers = answer.get("there"), answer.get("own")
    lists = [each for each in answers if type(each) is list and len(each) == len(names)]
    if len(lists) < 2:
        raise Lost("refused", "Your code wrote into the connection to the judge (an answer of the wrong kind).")
    there, own = ([each is True for each in flags] for flags in lists)
    return there, own


def outcome_of(answer: Mapping[str, object]) -> Outcome:
    """A worker's reply as an outcome: fields of the wrong type are refused, text is cleaned and capped."""
    state = next((each for each in ANSWERS if each == answer.get("state")), None)
    seconds = answer.get("seconds", 0.0)
    given = [answer.get(name, "") for name in ("error", "trace", "output", "changed")]
    texts = [text for text in given if type(text) is str]
    if state is None or len(texts) < len(given) or type(seconds) is not float:
        raise Lost("refused", "Your code wrote into the connection to the judge (an answer of the wrong kind).")
    caps = (600, 4000, OUTPUT_CAP, 80)
    error, trace, output, changed = (clean(text, cap) for text, cap in zip(texts, caps, strict=True))
    value = answer.get("value") if state == "answered" else None
    return Outcome(
        state=state,
        value=value,
        error=error,
        trace=trace,
        output=output,
        seconds=max(0.0, min(seconds, 3600.0)),
        changed=changed,
    )


class InWorker:
    """Runs the cases of one exercise on a clone of the worker, or on the worker itself if there are no clones or none
    is wanted.
    """

    def __init__(
        self,
        worker: WorkerHandle,
        *,
        ranks: RankProcesses | None = None,
        most_seconds: float = 60.0,
        clone: bool = True,
    ) -> None:
        self.worker = worker
        self.clones = worker.forks and clone
        self.most_seconds = most_seconds  # of one case
        self.ranks = ranks  # where runs with a process for each decide
        self.decides: list[Case] = []
        self.packed: object = None  # the answer by value, for those processes
        self.lost: Lost | None = None
        self.heard = False  # whether the clone's end was told
        self.token = b""
        self.channel = worker.channel

    def __enter__(self) -> InWorker:
        if self.clones:
            try:
                self.token, self.channel = pass_socket(self.worker.channel, {"do": "clone"})
            except (Gone, Late) as error:
                raise Lost("crashed", self.worker.ended()) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self.clones:
            self.channel.close()
            if not self.heard:  # a rank's process may have crashed, and the clone lives
                self._clone_status(PATIENCE if self.lost is None else 0.0)
            self.worker.sweep()

    def plan(self, cases: Sequence[Case]) -> None:
        """Take note of the cases to come: some are run with one process per rank, and those decide."""
        if self.ranks is not None and (decides := deciding(cases)):
            self.decides = decides
            self.ranks.begin()

    def run(self, card: Card, case: Case) -> Outcome:
        """The outcome of one case. Once a worker is lost, all later outcomes say so."""
        if self.lost is None:
            try:
                most = self.most_seconds * (CALLS if case.twice else 1)
                return self._run(card, replace(case, seconds=min(case.seconds, most)))
            except Lost as lost:
                self.lost = lost
        return Outcome(state=self.lost.state, error=self.lost.words)

    def weigh(self, card: Card, warm: Case, case: Case) -> tuple[Outcome, int]:
        """The outcome of a case, and the bytes by which its processes grew according to the system; `warm` is run
        before.
        """
        if self.packed is None:
            self.plan((warm, case))
        else:  # and loaded in ranks that have run it: `plan` would have it loaded again
            self.decides = deciding((warm, case))
        outcome = self.run(card, warm)
        if outcome.state != "answered":
            return outcome, 0
        channels = (
            [each.channel for each in self.ranks.processes]
            if self.ranks is not None and self.decides
            else [self.channel]
        )
        for channel in channels:
            channel.ask({"do": "exact"}, PATIENCE)
        self.worker.gauge(True)
        try:
            outcome = self.run(card, case)
        finally:
            grown = self.worker.gauge(False)
        return outcome, grown

    def _run(self, card: Card, case: Case) -> Outcome:
        request: Request = {
            "do": "probe" if case.ranks is None else "ranks",
            "probe": "" if card.probe is call else card.id,
            "names": list(card.answers),
            "hides": list(card.hides),
            "args": tuple(case.args),
            "kwargs": dict(case.kwargs),
            "twice": case.twice,
        }
        limit = f"{case.seconds:g} s on “{case.name}”"
        try:
            if case.ranks is not None:
                return self._run_ranks(card, case, request, limit)
            return outcome_of(ask(self.channel, request, case.seconds, limit))
        except Gone as error:
            raise Lost("crashed", self._ended()) from error

    def _run_ranks(self, card: Card, case: Case, request: Request, limit: str) -> Outcome:
        """A cluster run whose kernel, meter and clock are here, with the worker's threads as ranks."""
        from course_grader.remote_ranks.remote_judge import Caps, judge_ranks
        from course_lib.cluster.adversary import Adversary

        if any(case.name == each.name and case.per_rank is each.per_rank for each in self.decides):
            return self._run_processes(card, case, request, limit)
        ready = outcome_of(ask(self.channel, request, case.seconds, limit))
        if ready.state != "answered":
            return ready
        run = judge_ranks(
            self.channel.sock,
            case.ranks or 1,
            per_rank=case.per_rank,
            adversary=case.adversary or Adversary(depth=case.buffering),
            caps=Caps(seconds=case.seconds, answer_seconds=case.seconds),
        )
        if run.state == "crashed":
            raise Gone
        return _told(run, case, limit, lambda: outcome_of(self._after_ranks(limit)).output)

    def _run_processes(self, card: Card, case: Case, request: Request, limit: str) -> Outcome:
        """A cluster run in which every rank is a process in its own sandbox."""
        if self.packed is None:
            packed = outcome_of(ask(self.channel, {**request, "do": "pack"}, case.seconds, limit))
            if packed.state != "answered":
                return packed
            self.packed = packed.value
        assert self.ranks is not None
        try:
            run, printed = self.ranks.run(card, self.packed, case)
        except Late:
            self.ranks.close()
            raise Lost("timed out", f"Your code ran longer than {limit}.") from None
        except (Gone, Garbled):
            raise Lost("crashed", self.ranks.ended()) from None
        if run.state == "crashed":
            raise Lost("crashed", self.ranks.ended())
        return _told(run, case, limit, lambda: printed)

    def _after_ranks(self, limit: str) -> dict[str, object]:
        """The worker's report once its ranks have stopped."""
        try:
            _, answer = self.channel.receive(2 * PATIENCE)
        except Late as error:
            raise Lost("timed out", f"Your code ran longer than {limit}.") from error
        except Garbled as error:
            raise _refused(error) from error
        return answer if type(answer) is dict else {}

    def settle(self) -> None:
        """Call this when an exercise is done; Lost if the worker has sent more than was asked."""
        if self.lost is None:
            try:
                ask(self.channel, {"do": "settle"}, PATIENCE, f"{PATIENCE:g} s after it had answered")
            except Gone:
                self.lost = Lost("crashed", self._ended())
            except Lost as lost:
                self.lost = lost

    def _ended(self) -> str:
        if not self.clones:
            return self.worker.ended()
        status = self._clone_status(0.5)
        self.worker.sweep()
        over, self.worker.over = self.worker.over, ""
        return f"Your code {over}." if over else end_in_words(status)

    def _clone_status(self, seconds: float) -> int | None:
        """The clone's wait status. Ends the clone if it does not end by itself."""
        self.heard = True
        for patience, last in ((seconds, False), (PATIENCE, True)):
            try:
                back, answer = self.worker.channel.receive(patience)
                if back != self.token or type(answer) is not dict or type(answer.get("status")) is not int:
                    raise Lost("refused", "Your code wrote into the connection to the judge.")
                return answer["status"] if not last else None
            except Late:
                self.worker.sweep()
            except (Gone, Garbled):
                break
        raise Lost("crashed", self.worker.ended())


def _told(run: Run, case: Case, limit: str, printed: Callable[[], str]) -> Outcome:
    """A run of the cluster as an outcome, in words for the author; Lost where the worker is of no more use."""
    outcome = Outcome.of(run)
    if outcome.state == "timed out":
        raise Lost(
            "timed out",
            f"Your code ran longer than {limit}." if run.wall_seconds >= case.seconds else clean(outcome.error),
        )
    if isinstance(run.error, errors.Unreadable):
        raise Lost("refused", "The judge could not read what your code sent or returned on one of the ranks.")
    if outcome.state == "refused":
        raise Lost("refused", "Your code wrote into the connection to the judge (a call that no rank makes).")
    output, kind = printed(), getattr(run.error, "kind", "")
    if kind == "NotImplementedError":
        return Outcome(state="not answered", error=NOT_ANSWERED)
    error = str(run.error.args[0]) if kind == "NotPlain" and run.error is not None else outcome.error
    return replace(
        outcome, error=clean(error, 2000), trace=clean(outcome.trace, 4000), output=clean(output, OUTPUT_CAP)
    )
