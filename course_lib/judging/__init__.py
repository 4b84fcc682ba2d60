"""How answers are judged: cases, oracle, bounds and named mistakes. A worker cannot import this package.

A chapter's module `chNN` holds `JUDGINGS` (id -> `Judging`) and `DRILLS` (id -> `DrillKey`). Everything here is a pure
function of the case, of the data that came back and of the meter; the learner's code is never called from here.
"""

import importlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib import exercises
from course_lib.exercises import overlay
from course_lib.records import VERDICT_KINDS, Case, Outcome, Verdict, VerdictKind

Params = Mapping[str, Any]


Oracle = Callable[[Params, Case, Outcome], Sequence[Verdict]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A case so large that the operating system's own count of an answer's memory confirms what was measured inside the worker.

    It is run where answers are in processes of their own that can be watched from outside: in a class. In a notebook it is not.
    """

    case: Case
    warm: Case  # a small one of the same kind, run just before: what is loaded or kept once and for all does not count
    most: float  # bytes that the answer's processes may come to use beyond what they have before
    done: Callable[
        [Outcome], bool
    ]  # whether the work was done at all: cheap to find out, not to be had without the work
    shares: tuple[str, ...] = ("cost:memory",)  # that are lost where it says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """One exercise's judge. `shares` splits the points: "values:state" -> 0.5, "cost:bytes" -> 0.25, ... (sum 1)."""

    shares: Mapping[str, float]
    cases: Callable[[Params, random.Random], Sequence[Case]]  # visible ones first
    verdicts: Oracle
    why: str  # shown with the worked answer: why it is right
    pytorch: str = ""  # where PyTorch does the same
    reveal: Callable[[Params], str] | None = None  # the truth behind a prediction, shown after it
    truth: Callable[[Params], float] | None = None  # the same as a number, for calibration
    alike: Callable[[Params], Any] | None = (
        None  # what is equal in all variants: which term decides, that a slip shows, ...
    )
    measured_by_worker: tuple[str, ...] = ()  # shares that rest on what the worker measured itself: at most 1/4
    weighed: Callable[[Params, random.Random], Weighed] | None = (
        None  # the case on which the operating system confirms them
    )

    def __post_init__(self) -> None:
        if not math.isclose(sum(self.shares.values()), 1.0):
            raise ValueError(f"Shares {dict(self.shares)} add up to {sum(self.shares.values())}; they must make 1.")
        if odd := [key for key in self.shares if key.split(":")[0] not in VERDICT_KINDS or ":" not in key]:
            raise ValueError(f"Share names {odd} are not of the form kind:part with kind in {VERDICT_KINDS}.")
        if sum(self.shares[key] for key in self.measured_by_worker) > 0.25:
            raise ValueError("More than a quarter of the points would rest on what the worker measures itself.")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong value that learners really reach, by name, and what to tell them."""

    name: str
    value: Any
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillKey:
    """The answer to a drill as a function of its parameters, with the known slips."""

    answer: Callable[[Params], float]
    how: str  # one sentence with placeholders, shown after the answer
    rel: float = 0.01
    slips: Callable[[Params], Sequence[Mistake]] = lambda params: ()


def judging(exercise: str) -> Judging:
    """The judge of one exercise."""
    if exercise in overlay.cards():
        return overlay.judging(exercise)
    module = importlib.import_module(f"course_lib.exercises.ch{exercises.card(exercise).chapter}.judges")
    return module.JUDGINGS[exercise]


def is_number(value: Any) -> bool:
    """Whether this is exactly a finite int or float: no bool, no object that pretends."""
    if type(value) is int:
        return abs(value) < 1e300  # a larger one overflows as soon as it meets a float
    return type(value) is float and math.isfinite(value)


def near(got: Any, want: float, rel: float) -> bool:
    """Whether `got` is a number within the relative tolerance of `want` (absolute below 1e-12)."""
    return is_number(got) and math.isclose(got, want, rel_tol=rel, abs_tol=1e-12)


_SHOWN = 100  # letters, or items, of which a few words show the first


def describe(value: Any) -> str:
    """A returned value in a few words, for messages."""
    if is_number(value):
        return f"{value:,.6g}"
    try:
        text = repr(value[:_SHOWN]) if isinstance(value, str | bytes) else str(_first(value, [_SHOWN]))
    except ValueError:  # Python prints no integer of more than 4,300 digits
        text = "with a number of thousands of digits"
    return f"{type(value).__name__} {text[:60]}{'…' if len(text) > 60 else ''}"


def _first(value: Any, left: list[int]) -> Any:
    """The first items of lists in lists, as many as are `left`: what is beyond is not shown, and may be millions."""
    pairs = type(value) is dict
    if not pairs and type(value) not in (list, tuple):
        return value
    kept: list[Any] = []
    for each in value.items() if pairs else value:
        if not left[0]:
            break
        left[0] -= 1
        kept.append((each[0], _first(each[1], left)) if pairs else _first(each, left))
    return type(value)(kept)


def number_verdict(
    part: str,
    case: Case,
    got: Any,
    want: float,
    *,
    unit: str,
    rel: float = 1e-6,
    kind: VerdictKind = "values",
    mistakes: Sequence[Mistake] = (),
    hint: str = "",
) -> Verdict:
    """Compare one number with the oracle's; a known mistake answers by its name and message, never by the answer."""
    base = Verdict(kind=kind, part=part, ok=True, case=case.name)
    if near(got, want, rel):
        return base
    if got is None:
        return replace(
            base, ok=False, mistake="returned-none", message="The function returned None: is a `return` missing?"
        )
    if not is_number(got):
        return replace(
            base, ok=False, mistake="not-a-number", message=f"Expected one number in {unit}, got {describe(got)}."
        )
    for mistake in mistakes:
        if near(got, mistake.value, max(rel, 1e-9)):
            return replace(base, ok=False, mistake=mistake.name, message=mistake.message)
    ratio = got / want if want else math.inf
    apart = f"{ratio:,.3g} times the right value" if want and 1e-9 < abs(ratio) < 1e9 else "far from the right value"
    return replace(base, ok=False, message=f"{case.name}: got {describe(got)} {unit}, {apart}. {hint}".strip())


def failed_run(case: Case, outcome: Outcome, shares: Mapping[str, float]) -> list[Verdict]:
    """The verdicts of a case that gave no value: each share of the case's kind is lost, a deadlock's protocol too."""
    kind: VerdictKind = case.kind
    if outcome.state == "deadlock" and any(key.startswith("protocol:") for key in shares):
        kind = "protocol"
    parts = [key.split(":", 1)[1] for key in shares if key.startswith(f"{kind}:")]
    if kind == case.kind and f"{kind}:{case.part}" in shares:
        parts = [case.part]
    return [
        Verdict(kind=kind, part=part, ok=False, message=outcome.error, mistake=outcome.state, case=case.name)
        for part in parts or [case.part]
    ]


def drill_verdict(drill: exercises.Drill, number: float) -> tuple[bool, str]:
    """Whether `number` answers the drill within its tolerance, and one sentence for the learner."""
    key: DrillKey = importlib.import_module(f"course_lib.exercises.ch{drill.chapter}.judges").DRILLS[drill.id]
    want = key.answer(drill.params)
    how = exercises.fill_text(key.how, {**drill.params, "answer": want})
    if near(number, want, key.rel):
        return True, how
    for slip in key.slips(drill.params):
        if near(number, slip.value, key.rel):
            return False, f"{slip.message} {how}"
    return False, how
