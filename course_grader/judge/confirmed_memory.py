"""Confirm memory measured inside a worker by the operating system's own figure.

Peak bytes are counted where the answer runs, so a dishonest answer could report any number. In a class, where answers
have their own processes, one more case of tens of megabytes is run, large enough to show in the system's figure. The
points for memory are kept only if the two agree.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from course_grader.arithmetic import same_everywhere
from course_grader.judge.decision import as_it_is, earned_fraction
from course_grader.judge.exercise import Exercise
from course_grader.judging import Weighed
from course_grader.records import Outcome, Report, Verdict, VerdictKind
from course_grader.worker.in_worker import InWorker, Lost
from course_grader.worker.protocol import Garbled, Gone, Late

UNCONFIRMED = "memory-unconfirmed"  # measured bytes that the operating system does not confirm


def needs_confirmation(exercise: Exercise, report: Report) -> bool:
    """Whether the report has points to confirm: all values are right, and a share measured by the worker held."""
    if exercise.contract.weighed is None or report.state != "answered":
        return False
    held = {f"{v.kind}:{v.part}" for v in report.verdicts if v.ok} - {
        f"{v.kind}:{v.part}" for v in report.verdicts if not v.ok
    }
    return all(v.ok for v in report.verdicts if v.kind == "values") and any(
        key in held for key in exercise.contract.measured_by_worker
    )


def weighed_case(exercise: Exercise) -> Weighed:
    """The large case. It is the same for every repeat under one secret. ValueError if the exercise has none."""
    make = exercise.contract.weighed
    if make is None:
        raise ValueError(
            f"{exercise.card.id} rests on no memory that a worker measures, so none of its cases is weighed."
        )
    return make(exercise.params, random.Random(f"{exercise.seed}:weighed"))


@same_everywhere()
def confirm_memory(
    exercise: Exercise, runner: InWorker, report: Report, words: Callable[..., str] = as_it_is
) -> Report:
    """The report with a verdict for each share that the operating system was asked about, and its points recomputed.

    `words` gives what is told of a text that an answer controls, such as an exception's.
    """
    large = weighed_case(exercise)
    try:
        outcome, grown = runner.weigh(exercise.card, large.warm, large.case)
    except (Lost, Gone, Late, Garbled) as error:
        outcome, grown = Outcome(state="crashed", error=str(error)), 0
    if outcome.state in ("raised", "deadlock"):
        outcome = replace(outcome, error=words(outcome.error))
    fault = _fault(large, outcome, grown)
    found = [
        Verdict(
            kind=cast(VerdictKind, kind),
            part=part,
            ok=not fault,
            mistake=UNCONFIRMED if fault else "",
            message=fault,
            case=large.case.name,
        )
        for kind, _, part in (share.partition(":") for share in large.shares)
    ]
    verdicts = (*report.verdicts, *found)
    points = round(min(report.points, earned_fraction(exercise.contract, verdicts) * exercise.card.points), 2)
    return replace(
        report, verdicts=verdicts, points=points, cases=report.cases + 1, seconds=report.seconds + outcome.seconds
    )


def _fault(large: Weighed, outcome: Outcome, grown: int) -> str:
    """Why the operating system contradicts the measured bytes; "" if it does not."""
    name = large.case.name
    if outcome.state != "answered":
        return f"On {name}, where the operating system counts memory, your code gave no answer: {outcome.error}"
    if grown > large.most:
        return (
            f"On {name}, your code used {float(f'{grown / 1e6:.1e}'):,.0f} MB by the operating system's figure; "
            f"{large.most / 1e6:,.0f} MB are enough. The notebook counts only tensors, but lists, sets and numpy "
            "arrays take memory too."
        )
    try:
        done = large.done(outcome)
    except Exception:  # what an answer returns must never end the marking of the others
        done = False
    return "" if done else f"On {name}, where the operating system counts memory, the result is not the right one."
