"""Judge of alpha-beta-regimes: what a message costs, and when to switch methods."""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_chapters.ch03.exercises.alpha_beta_regimes import points
from course_grader.exercises.result_schema import Number
from course_grader.judging import Fault, Judging, Mistake, Params, describe, first, is_number, matching, near, verdict
from course_grader.judging.cases import shown
from course_grader.judging.mistakes import scaled
from course_grader.judging.per_row import CLOSE, Column, one_verdict, shares, table
from course_grader.judging.random_inputs import generality, log_uniform, one_apart, unseen
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import GB, US, bytes_text, duration_text, number_text

Way = Sequence[float]  # α in seconds, β in bytes/s


def switch(small: Way, large: Way) -> float:
    """The smallest size from which the second method is at least as fast."""
    return max(0.0, _meeting(small, large)) if large[1] > small[1] else math.inf


def _meeting(small: Way, large: Way) -> float:
    """The size at which two lines meet, which may be negative."""
    return (large[0] - small[0]) / (1 / small[1] - 1 / large[1])


def _raw(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """α and β by least squares on raw seconds, which depend almost only on the largest messages."""
    slope, alpha = statistics.linear_regression(sizes, seconds)
    return alpha, 1 / slope


def _line_columns(truths: Mapping[float, tuple[float, float]]) -> tuple[Column, Column]:
    def truth(place: int) -> Callable[..., float]:
        return lambda sizes, seconds: truths[seconds[-1]][place]

    def apart(place: int, way: Callable[..., float]) -> Callable[..., float | None]:
        """A mistake's value where it is clearly off: by more than a tenth."""
        return lambda *row: None if near(value := way(*row), truth(place)(*row), 0.1) else value

    def words(sizes: Sequence[float], seconds: Sequence[float]) -> str:
        return f"{len(sizes)} messages"

    def mean_rate(sizes: Sequence[float], seconds: Sequence[float]) -> float:
        return statistics.fmean(size / time for size, time in zip(sizes, seconds, strict=True))

    return (
        Column(
            part="line",
            unit="s",
            want=truth(0),
            words=words,
            rel=0.08,
            hint="What does the smallest message cost?",
            mistakes=(
                Mistake("raw-seconds", apart(0, lambda *row: _raw(*row)[0]), "α: the largest messages dominate."),
                Mistake("microseconds", scaled(truth(0), 1 / US), "α is in microseconds; give seconds."),
                Mistake("turned-round", truth(1), "α comes first, then β."),
            ),
        ),
        Column(
            part="line",
            unit="bytes/s",
            want=truth(1),
            words=words,
            rel=0.08,
            hint="What does the largest message get?",
            mistakes=(
                Mistake("mean-rate", apart(1, mean_rate), "β: this mean of bytes over seconds includes α."),
                Mistake("seconds-per-byte", lambda *row: 1 / truth(1)(*row), "β: these are seconds per byte."),
                Mistake("gigabytes", scaled(truth(1), 1 / GB), "β is in GB/s; give bytes/s."),
            ),
        ),
    )


def _way(pair: Way) -> str:
    return f"({duration_text(pair[0])}, {number_text(pair[1] / GB)} GB/s)"


def _difference_of_rates(small: Way, large: Way) -> float:
    return (large[0] - small[0]) * (large[1] - small[1])


_SWITCHES = (
    Mistake("below-zero", _meeting, "the lines meet below size zero; which method is faster above it?"),
    Mistake("sign", scaled(switch, -1), "a size is positive."),
    Mistake("half-bandwidth", lambda small, large: large[0] * large[1], "there the second reaches half of its β."),
    Mistake("alpha-forgotten", lambda small, large: 0.0, "the second method is slower for small messages."),
    Mistake("never", lambda small, large: math.inf, "the second method does become faster."),
    Mistake("difference-of-rates", _difference_of_rates, "subtract seconds per byte, not bytes per second."),
)


def _switch_fault(small: Way, large: Way, value: Any) -> Fault | None:
    """What is wrong with a size, which may be infinite."""
    want, where = switch(small, large), f"{_way(small)} against {_way(large)}"
    infinite = type(value) is float and value in (math.inf, -math.inf)
    if not infinite and (fault := Number("bytes").find(value, where, Case(name=where))):
        return fault
    if value == want or near(value, want, CLOSE) or (want == 0 and is_number(value) and abs(value) < 1e-6):
        return None
    size = bytes_text(abs(value)) if 0 < abs(value) < 1e18 else describe(value)
    return matching(
        _SWITCHES, (small, large), lambda wrong: value == wrong or near(value, wrong, CLOSE), f"{where}: "
    ) or ("", f"{where}: got {size}. Where do the two lines meet?")


def _switch_verdicts(_: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults = (_switch_fault(*row, value) for row, value in zip(case.args[1], outcome.value, strict=True))
    return [verdict(case.kind, "switch", case, first(*faults))]


def _rate(nbytes: float, *ways: Way) -> float:
    """Bytes a second of a message by the fastest method."""
    return nbytes / min(alpha + nbytes / beta for alpha, beta in ways)


_BEST = Column(
    part="best",
    unit="bytes/s",
    want=_rate,
    words=lambda n, s, g: f"{bytes_text(n)} by {_way(s)} or {_way(g)}",
    mistakes=(
        Mistake("no-alpha", lambda n, s, g: max(s[1], g[1]), "this is β; a message of this size gets less."),
        Mistake("first-only", lambda n, s, g: _rate(n, s), "this is the first method; the second is faster here."),
        Mistake("second-only", lambda n, s, g: _rate(n, g), "this is the second method; the first is faster here."),
        Mistake("seconds", lambda n, s, g: n / _rate(n, s, g), "these are seconds; give bytes a second."),
        Mistake("both-ways-added", lambda n, s, g: n / (n / _rate(n, s) + n / _rate(n, g)), "it uses one method."),
    ),
)


def _ways(rng: random.Random) -> tuple[list[float], list[float]]:
    slow = [log_uniform(rng, 1e-6, 1e-5), log_uniform(rng, 2e9, 2e10)]
    return slow, [log_uniform(rng, 1.2e-5, 1e-4), log_uniform(rng, 2.5e10, 4e11)]


def _alpha_cases(params: Params, rng: random.Random) -> list[Case]:
    small, large, sizes, seconds = (params[name] for name in ("small", "large", "sizes", "seconds"))
    drawn = [(log_uniform(rng, 1e-6, 5e-5), log_uniform(rng, 5e9, 4e11)) for _ in range(8)]
    logs = [points(rng, *pair, count) for pair, count in zip(drawn, (12, 60, *[24] * 6), strict=True)]
    truths = {log[1][-1]: pair for log, pair in zip(logs, drawn, strict=True)}
    pairs = [_ways(rng) for _ in range(10)]
    always = [([large[0], small[1]], [small[0], large[1]]), ([1e-5, 1e10], [1e-5, 2e10])]
    never = [(large, small), ([1e-6, 4e10], [1e-5, 1e10])]
    four = [(float(f"{switch(small, large) * factor:.4g}"), small, large) for factor in (0.01, 0.5, 2, 100)]
    more = [(log_uniform(rng, 8, 1e9), *_ways(rng)) for _ in range(20)]
    more += one_apart(more, _rate)
    more += [(n, *ways) for ways in (*always, never[1]) for n in (64.0, 1e9)]
    pairs += one_apart(pairs, switch)
    example = {seconds[-1]: tuple(small)}
    return [
        shown("the measured messages", "values:line", 0, [(sizes, seconds)], secret=example),
        shown("the two ways", "values:switch", 1, [(small, large)]),
        shown("four sizes", "values:best", 2, four),
        generality("line", 0, "other logs", logs, truths),
        unseen(rng, "switch", 1, "other ways", [*pairs, *always, *never]),
        unseen(rng, "best", 2, "other messages", more),
    ]


def _alpha_verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.args[0] == 1:
        return _switch_verdicts(params, case, outcome)
    line = _line_columns(case.secret or {})
    return one_verdict(table(line, (), _BEST))(params, case, outcome)


JUDGING = Judging(
    shares=shares(line=(0.15, 0.2), switch=(0.1, 0.2), best=(0.15, 0.2)),
    cases=_alpha_cases,
    verdicts=_alpha_verdicts,
    why="Sizes span eight decades and every time has a relative error, so divide each equation by its own time. Otherwise the "
    "noise of one large message exceeds all of α. A second method with a higher α and more bandwidth pays above the size at "
    "which the two lines meet; a library that measures its links switches there. Below α·β a message gets less than half of β.",
    pytorch="`torch.distributed` leaves the choice to NCCL, which keeps such tables; `NCCL_PROTO` and `NCCL_ALGO` override it.",
)

ANSWERS = r"""import math

import numpy as np

from course_lib.estimate import roofline


# %% right: every equation divided by its time
def fit_line(sizes, seconds):
    n, t = np.array(sizes), np.array(seconds)
    alpha, per_byte = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)[0]
    return alpha, 1 / per_byte


def switch_size(small, large):
    gain = 1 / small[1] - 1 / large[1]
    if gain <= 0:
        return math.inf
    return max(0.0, (large[0] - small[0]) / gain)


def best_bandwidth(nbytes, small, large):
    return nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large))


# %% right: both ends of the log, plain Python
def fit_line(sizes, seconds):
    ordered = sorted(zip(sizes, seconds))
    alpha = sum(t for _, t in ordered[:5]) / 5
    rates = [n / (t - alpha) for n, t in ordered[-4:]]
    return [alpha, sum(rates) / 4]


def switch_size(small, large):
    (a1, b1), (a2, b2) = small, large
    if b2 <= b1:
        return float("inf")
    if a2 <= a1:
        return 0.0
    return (a2 - a1) * b1 * b2 / (b2 - b1)


def best_bandwidth(nbytes, small, large):
    (a1, b1), (a2, b2) = small, large
    return max(nbytes / (a1 + nbytes / b1), nbytes / (a2 + nbytes / b2))


# %% wrong: raw seconds => values raw-seconds  from: every equation divided by its time
# ~ np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)[0] ==> np.polyfit(n, t, 1)[::-1]

# %% wrong: a mean of rates => values mean-rate  from: every equation divided by its time
# ~ return alpha, 1 / per_byte ==> return min(seconds), sum(n / t) / len(t)

# %% wrong: seconds per byte for bandwidth => values seconds-per-byte  from: every equation divided by its time
# ~ return alpha, 1 / per_byte ==> return alpha, per_byte


# %% wrong: the sign of the switch => values sign  from: every equation divided by its time
def switch_size(small, large):
    return (large[0] - small[0]) / (1 / large[1] - 1 / small[1])


# %% wrong: no way always wins => generality -  from: the sign of the switch
# ~ large[1] - 1 / small ==> small[1] - 1 / large

# %% wrong: rates subtracted => values difference-of-rates  from: the sign of the switch
# ~ / (1 / large[1] - 1 / small[1]) ==> * (large[1] - small[1])

# %% wrong: the bandwidth that was bought => values no-alpha  from: every equation divided by its time
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> max(small[1], large[1])

# %% wrong: always the second way => values second-only  from: every equation divided by its time
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> nbytes / (large[0] + nbytes / large[1])

# %% wrong: None for never => generality returned-none  from: every equation divided by its time
# ~ math.inf ==> None

# %% wrong: asks the library => raised  from: every equation divided by its time
# ~ return alpha, 1 / per_byte ==> return roofline.fit_alpha_beta(sizes, seconds)

# %% half: the line alone => 2.25  from: the sign of the switch
# ~ (large[0] - small[0]) / (1 / large[1] - 1 / small[1]) ==> 0.0
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> 0.0
"""
