"""The contract of an exercise: its cases, its oracle and the shares of its points. A worker cannot import this
package."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from course_grader import exercises
from course_grader.exercises import Params, class_exercises
from course_grader.exercises.probes import CHANGED
from course_grader.judging.mistakes import Fault, verdict
from course_grader.judging.shipped import judge_module
from course_grader.judging.worked import judged_variant
from course_grader.records import VERDICT_KINDS, Case, Outcome, Verdict, VerdictKind

Oracle = Callable[[Params, Case, Outcome], Sequence[Verdict]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A case so large that the operating system's count of an answer's memory confirms what was measured inside the
    worker.

    It runs only in a class, where answers are in processes of their own that can be watched from outside.
    """

    case: Case
    warm: Case  # a small one of the same kind, run just before: what is loaded or kept once does not count
    most: float  # bytes by which the answer's processes may grow
    done: Callable[[Outcome], bool]  # whether the work was done: cheap to check, impossible to fake without the work
    shares: tuple[str, ...] = ("cost:memory",)  # lost where the system disagrees


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """One exercise's judge.

    `shares` splits the points (sum 1): {"values:state": 0.5, "cost:bytes": 0.5}, or the same as the text
    "values:state 0.5, cost:bytes 0.5".
    """

    shares: Mapping[str, float] | str  # a mapping once it is made
    cases: Callable[[Params, random.Random], Sequence[Case]]  # visible ones first
    verdicts: Oracle
    why: str  # shown with the worked answer: why it is right
    pytorch: str = ""  # where PyTorch does the same
    reveal: Callable[[Params], str] | None = None  # the truth behind a prediction, shown after it
    truth: Callable[[Params], float] | None = None  # the same as a number, for calibration
    alike: Callable[[Params], object] | None = None  # what is equal in all variants, such as which term decides
    many_right: bool = (
        False  # several values are right, as for schedules: a mistake is known by what the judge finds in them
    )
    point: tuple[str, ...] = ()  # shares without which an answer misses the point: it earns at most half
    measured_by_worker: tuple[str, ...] = ()  # shares that rest on what the worker measured itself: at most 1/4
    within: float = 1e-3  # relative: how close numbers must be to those of a mistake to be called after it
    weighed: Callable[[Params, random.Random], Weighed] | None = None  # the case on which the system confirms them

    @property
    def split(self) -> Mapping[str, float]:
        """The shares, which are a mapping by now."""
        assert not isinstance(self.shares, str)
        return self.shares

    def __post_init__(self) -> None:
        if isinstance(self.shares, str):
            object.__setattr__(self, "shares", read_shares(self.shares))
        if not math.isclose(sum(self.split.values()), 1.0):
            raise ValueError(f"Shares {dict(self.split)} add up to {sum(self.split.values())}; they must make 1.")
        if odd := [key for key in self.shares if key.split(":")[0] not in VERDICT_KINDS or ":" not in key]:
            raise ValueError(f"Share names {odd} are not of the form kind:part with kind in {VERDICT_KINDS}.")
        if odd := [key for key in self.point if key not in self.shares]:
            raise ValueError(f"The point {odd} is no share of this exercise; its shares are {sorted(self.shares)}.")
        if sum(self.split[key] for key in self.measured_by_worker) > 0.25:
            raise ValueError("More than a quarter of the points would rest on what the worker measures itself.")


def read_shares(text: str) -> dict[str, float]:
    """The shares of a text such as "values:state 0.5, cost:bytes 0.5"; ValueError names an entry that is no such
    pair."""
    shares: dict[str, float] = {}
    for entry in text.split(","):
        name, _, share = entry.strip().rpartition(" ")
        if not name or name in shares:
            raise ValueError(f"{entry.strip()!r} is not a new share and a number, such as 'values:state 0.5'.")
        shares[name] = float(share)
    return shares


def judging(exercise: str) -> Judging:
    """The judge of one exercise; where its card declares what is returned, that is checked first."""
    if exercise in class_exercises.cards():
        return _checked(class_exercises.cards()[exercise], class_exercises.judging(exercise))
    return _of_the_course(exercise)


@cache
def _of_the_course(exercise: str) -> Judging:
    return _checked(exercises.card(exercise), judge_module(exercise).JUDGING)


def _checked(card: exercises.Card, contract: Judging) -> Judging:
    weighed = contract.weighed and partial(_weighed, card.id, contract.weighed)
    return replace(
        contract, verdicts=partial(_judge, card, contract), cases=partial(_cases, card.id, contract), weighed=weighed
    )


def _cases(exercise: str, contract: Judging, params: Params, rng: random.Random) -> Sequence[Case]:
    with judged_variant(exercise, params):
        return contract.cases(params, rng)


def _weighed(
    exercise: str, make: Callable[[Params, random.Random], Weighed], params: Params, rng: random.Random
) -> Weighed:
    """The large case; what it asks of the worked answer is asked on these numbers."""
    with judged_variant(exercise, params):
        large = make(params, rng)

    def done(outcome: Outcome) -> bool:
        with judged_variant(exercise, params):
            return large.done(outcome)

    return replace(large, done=done)


def _judge(card: exercises.Card, contract: Judging, params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    """The oracle's verdicts, or those on a value that is not what the card says is returned."""
    fault = _written_to(case, outcome.value)
    if not fault and card.returns is not None:
        fault = card.returns.find(outcome.value, case.name, case)
    if fault:
        return lost(case, contract.split, fault)
    with judged_variant(card.id, params):
        return contract.verdicts(params, case, outcome)


def _written_to(case: Case, value: object) -> Fault | None:
    """The fault of an answer that wrote to an argument, as the probe `watched` found it, on any rank."""
    by_rank = value if case.ranks is not None and type(value) is list else [value]
    rank = next((at for at, each in enumerate(by_rank) if type(each) is str and each == CHANGED), None)
    where = case.name if case.ranks is None else f"{case.name}, rank {rank}"
    return None if rank is None else ("changed", f"{where}: {CHANGED}, which the caller still needs.")


def lost(case: Case, shares: Mapping[str, float], fault: Fault, kind: VerdictKind | None = None) -> list[Verdict]:
    """The verdicts of a case that gave nothing to judge: its own share is lost, or all of its kind where it names
    none."""
    kind = kind or case.kind
    parts = [key.split(":", 1)[1] for key in shares if key.startswith(f"{kind}:")]
    if kind == case.kind and f"{kind}:{case.part}" in shares:
        parts = [case.part]
    return [verdict(kind, part, case, fault) for part in parts or [case.part]]


def failed_run(case: Case, outcome: Outcome, shares: Mapping[str, float]) -> list[Verdict]:
    """The verdicts of a case that gave no value; a deadlock costs the protocol where that is asked."""
    deadlock = outcome.state == "deadlock" and any(key.startswith("protocol:") for key in shares)
    told = f"{case.name}: {outcome.error}" if outcome.state == "raised" else outcome.error
    return lost(case, shares, (outcome.state, told), "protocol" if deadlock else None)
