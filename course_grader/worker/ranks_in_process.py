"""A cluster case in this process: the probe on every rank of a metered run, as an Outcome."""

from collections.abc import Callable
from typing import Any

from course_grader.exercises import Card
from course_grader.records import Case, Outcome
from course_grader.worker.plain_values import NOT_ANSWERED, OUTPUT_CAP, Given, NotPlain, plain
from course_grader.worker.second_call import called_again
from course_lib.cluster import Comm, attempt


def rank_program(card: Card, case: Case, answer: Any) -> Callable[..., Any]:
    """The function that a run calls on every rank: the card's probe around the answer, once or as `called_again`
    says."""
    probe, args, kwargs = card.probe, case.args, dict(case.kwargs)

    def program(comm: Comm, *mine: object) -> Any:
        return plain(probe(answer, Given((*args, *mine), kwargs), comm))

    def again(comm: Comm, *mine: Any) -> Any:
        own, *earlier = (Given((*each, *(mine[at] if mine else ())), dict(kwargs)) for at, each in enumerate(args))
        return called_again(lambda given: probe(answer, given, comm), answer, own, earlier)

    return again if case.twice else program


def run_here(card: Card, case: Case, answer: object) -> Outcome:
    """One metered run with threads of this process as ranks."""
    program = rank_program(card, case, answer)
    try:
        run = attempt(
            program,
            case.ranks,
            per_rank=case.per_rank,
            buffering=case.buffering,
            adversary=case.adversary,
            timeout=case.seconds,
            capture=OUTPUT_CAP,
        )
    except ValueError as error:  # an answer that cannot be copied to the ranks
        return Outcome(state="raised", error=str(error))
    original = getattr(run.error, "original", None)
    if isinstance(original, NotImplementedError):
        return Outcome(state="not answered", error=NOT_ANSWERED)
    if isinstance(original, NotPlain):
        return Outcome(state="raised", error=str(original))
    return Outcome.of(run)
