"""A cluster case in this process: the probe on every rank of a metered run, as an Outcome."""

from collections.abc import Callable, Sequence

from course_grader.records import Case, Outcome
from course_grader.worker.plain_values import NOT_ANSWERED, OUTPUT_CAP, Given, NotPlain, plain
from course_grader.worker.second_call import called_again
from course_lib.cluster import Comm, attempt


def rank_program(probe: Callable[..., object], case: Case, answer: object) -> Callable[..., object]:
    """The function that a run calls on every rank: the probe around the answer, once or as `called_again` says."""
    args, kwargs = case.args, dict(case.kwargs)

    def program(comm: Comm, *mine: object) -> object:
        return plain(probe(answer, Given((*args, *mine), kwargs), comm))

    def again(comm: Comm, *mine: Sequence[object]) -> object:
        own, *earlier = (Given((*each, *(mine[at] if mine else ())), dict(kwargs)) for at, each in enumerate(args))
        return called_again(lambda given: probe(answer, given, comm), answer, own, earlier)

    return again if case.twice else program


def run_here(probe: Callable[..., object], case: Case, answer: object) -> Outcome:
    """One metered run with threads of this process as ranks."""
    assert case.ranks is not None
    program = rank_program(probe, case, answer)
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
