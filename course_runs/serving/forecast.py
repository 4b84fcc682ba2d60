"""What a server will do under a plan of requests: the engine's own rules on a clock that adds predicted seconds.

Seconds of an iteration are a sum over what it computes, fitted to iterations of a calibration before the run. Nothing
is fitted to the run that is forecast.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.model import text
from course_runs.serving.engine import FINISHED, Engine, Generation, Iteration, Limits, Overloaded
from course_runs.serving.load import CUT, OK, REFUSED, Planned, Seen

TERMS = ("fixed", "prompt_token", "prompt_chunk", "decode", "context")


@dataclass(frozen=True, slots=True)
class Timed:
    """An iteration that a server computed."""

    iteration: Iteration
    begun: float  # s, by the server's clock
    seconds: float  # of the computation
    busy: bool  # whether there was more to compute after it


@dataclass(frozen=True)
class IterationCost:
    """Seconds of an iteration by what it computes, and what a server adds to it."""

    fixed: float  # each iteration
    prompt_token: float
    prompt_chunk: float  # each prompt that has tokens in it
    decode: float  # each sequence that computes one token
    context: float  # each token in the cache that is attended to
    request: float = 0.0  # reading a request
    turn: float = 0.0  # what a server does between two iterations
    delivery: float = 0.0  # sending a token to its client
    stretch: float = 1.0  # how much other programs lengthened an iteration on average; the terms above include it

    def seconds(self, iteration: Iteration) -> float:
        """The iteration's computation, without delivery."""
        return sum(getattr(self, term) * count for term, count in zip(TERMS, _counts(iteration), strict=True))


def _counts(iteration: Iteration) -> tuple[int, ...]:
    return 1, iteration.prompt_tokens, iteration.prompt_chunks, iteration.decodes, iteration.context


def fit(measured: Sequence[Timed]) -> IterationCost:
    """The cost that a server's own iterations show, given in their order.

    The sum of squared relative errors is least, and no term is negative. Iterations far from a first fit are left out
    of a second one, since another program had the processor. All terms are then stretched so that the fit has the mean
    of all iterations: on a busy machine that interruption will happen again.
    """
    if len(measured) < 4 * len(TERMS):
        raise ValueError(f"{len(measured)} iterations are too few to fit {len(TERMS)} terms; measure more.")
    seconds = np.array([each.seconds for each in measured])
    counts = np.array([_counts(each.iteration) for each in measured], dtype=float)
    found = _least_squares(counts, seconds)
    close = np.abs(np.log2(counts @ found / seconds)) < 1
    if close.sum() >= 2 * len(TERMS):
        found = _least_squares(counts[close], seconds[close])
    stretch = seconds.sum() / (counts @ found).sum()
    pairs = zip(measured, measured[1:], strict=False)
    busy = [(len(one.iteration.new), after.begun - one.begun - one.seconds) for one, after in pairs if one.busy]
    sent, gaps = np.array([(1.0, count) for count, _ in busy]), np.array([gap for _, gap in busy])
    turn, delivery = (between := _least_squares(sent, gaps)) * (gaps.sum() / (sent @ between).sum())
    terms = dict(zip(TERMS, map(float, stretch * found), strict=True))
    return IterationCost(**terms, turn=float(turn), delivery=float(delivery), stretch=float(stretch))


def _least_squares(counts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Terms, none negative, with the least squared relative error over rows of counts (rows, terms)."""
    used, found = list(range(counts.shape[1])), np.zeros(counts.shape[1])
    while used:
        values = np.linalg.lstsq(counts[:, used] / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
        if (values >= 0).all():
            found[used] = values
            break
        del used[int(values.argmin())]
    return found


def forecast(plan: Sequence[Planned], limits: Limits, cost: IterationCost) -> tuple[list[Seen], list[Iteration]]:
    """What each client will see, and the iterations. Cut requests are cut at the token that their plan says."""
    engine = Engine(limits, lambda work: [0] * len(work))
    seen = [Seen(each.arrival) for each in plan]
    owner: dict[Generation, int] = {}
    now, following, iterations = 0.0, 0, []
    while following < len(plan) or engine.busy:
        if not engine.busy:
            now = max(now, plan[following].arrival)
        while following < len(plan) and plan[following].arrival <= now:
            now += cost.request
            _submit(engine, plan[following], following, seen, owner)
            following += 1
        iteration = engine.step()
        if iteration is None:
            continue
        iterations.append(iteration)
        now += cost.seconds(iteration)
        for generation in iteration.new:
            now += cost.delivery
            _deliver(engine, generation, plan[owner[generation]], seen[owner[generation]], now)
        now += cost.turn
    return seen, iterations


def _submit(engine: Engine, planned: Planned, number: int, seen: list[Seen], owner: dict[Generation, int]) -> None:
    try:
        generation = engine.submit(text.encode(planned.prompt).tolist(), planned.max_tokens)
    except Overloaded as refused:
        seen[number].status, seen[number].said = REFUSED, str(refused)
        return
    owner[generation] = number
    if planned.cut == 0:
        engine.cancel(generation)
        seen[number].status = CUT


def _deliver(engine: Engine, generation: Generation, planned: Planned, seen: Seen, now: float) -> None:
    seen.times.append(now)
    if len(seen.times) == planned.cut and engine.cancel(generation):
        seen.status = CUT
    elif generation.state == FINISHED:
        seen.status = OK
