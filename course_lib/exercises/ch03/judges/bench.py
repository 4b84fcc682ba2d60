"""Judge of the fitted roofs: the truth is what the log was made with, and each way to be taken in leads elsewhere."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from course_lib.exercises.ch03.cards.bench import CHIPS, bench
from course_lib.judging import Judging, Mistake, Params, near
from course_lib.judging.named_columns import together
from course_lib.judging.old_columns import Column
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, TFLOP, number_text

WITHIN = 0.05

Runs = Sequence[Mapping[str, Any]]


def repeats(clock: str, seconds: Sequence[float]) -> list[float]:
    """Seconds of each repeat, from what the log holds."""
    return [after - before for before, after in pairwise(seconds)] if clock == "readings" else list(seconds)


def fit(
    clock: str,
    runs: Runs,
    cache: float,
    sheet_flops: float,
    sheet_bandwidth: float,
    *,
    middle: Callable[[Sequence[float]], float] = statistics.median,
    believe: bool = False,
    cached: bool = False,
    pick: Callable[[Sequence[float]], float] = max,
) -> tuple[float, float, float]:
    """(FLOP/s, bytes/s, ridge) of a log; the keywords are the ways in which people are taken in."""
    flops, bandwidths = [], []
    for run in runs:
        time = middle(repeats(clock, run["seconds"]))
        rate, passed, streams = run["flop"] / time, run["bytes"] / time, run["bytes"] > cache
        if not believe and (rate > sheet_flops or (streams and passed > sheet_bandwidth)):
            continue
        flops.append(rate)
        if streams or cached:
            bandwidths.append(passed)
    return pick(flops), pick(bandwidths), pick(flops) / pick(bandwidths)


_WAYS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    (
        "durations",
        "warm-up-counted",
        {"middle": statistics.fmean},
        "the warm-up and the disturbed repeats are in it: a mean tells of them.",
    ),
    (
        "durations",
        "first-repeat",
        {"middle": lambda seconds: seconds[0]},
        "this is the first repeat, which is a warm-up.",
    ),
    ("durations", "slowest-repeat", {"middle": max}, "this is the slowest repeat of each run."),
    (
        "durations",
        "hasty-run-believed",
        {"believe": True},
        "a run that is faster than the data sheet was believed; its clock stopped before its kernel did.",
    ),
    (
        "durations",
        "cache-for-memory",
        {"cached": True},
        "a kernel whose bytes fit into the cache never asked the memory.",
    ),
    (
        "durations",
        "both-believed",
        {"believe": True, "cached": True},
        "runs faster than the sheet, and kernels that fit into the cache, were believed.",
    ),
    (
        "durations",
        "mean-of-kernels",
        {"pick": statistics.fmean},
        "this is a mean over kernels, good and bad; a roof is what none exceeds.",
    ),
    (
        "durations",
        "middle-kernel",
        {"pick": statistics.median},
        "this is the middle kernel; a roof is what none exceeds.",
    ),
)


def _columns(clock: str, truths: Mapping[str, tuple[float, float]]) -> tuple[Column, Column, Column]:
    def truth(runs: Runs, *_: float) -> tuple[float, float, float]:
        flops, bandwidth = truths[_key(runs)]
        return flops, bandwidth, flops / bandwidth

    def slips(place: int) -> tuple[Mistake, ...]:
        def way(keywords: dict[str, Any], clock: str = clock) -> Callable[..., float | None]:
            def value(*row: Any) -> float | None:
                try:
                    wrong = fit(clock, *row, **keywords)[place]
                except (ValueError, ZeroDivisionError, statistics.StatisticsError):
                    return None
                return None if near(wrong, truth(*row)[place], 2 * WITHIN) else wrong

            return value

        known = [Mistake(name, way(keywords), message) for _, name, keywords, message in _WAYS]
        if clock == "readings":
            told = "the log holds what a running clock showed, not how long each repeat took."
            known.append(Mistake("readings-as-durations", way({}, "durations"), told))
        sheet = (lambda r, c, f, b: f, lambda r, c, f, b: b, lambda r, c, f, b: f / b)[place]
        known.append(Mistake("the-sheet", sheet, "that is what the data sheet says; the log is about this device."))
        scale = (TFLOP, GB, 1e3)[place]
        known.append(
            Mistake("scaled", lambda *row: truth(*row)[place] / scale, "give FLOP/s, bytes/s and FLOP per byte.")
        )
        if place == 2:
            known.append(Mistake("upside-down", lambda *row: 1 / truth(*row)[2], "this is bytes per FLOP."))
        return tuple(known)

    def words(runs: Runs, cache: float, flops: float, bandwidth: float) -> str:
        return f"a log of {len(runs)} runs, sheet {number_text(flops / TFLOP)} TFLOP/s"

    parts = (("flops", "FLOP/s"), ("bandwidth", "bytes/s"), ("ridge", "FLOP per byte"))
    return tuple(
        Column(
            part=part,
            unit=unit,
            want=lambda *row, place=place: truth(*row)[place],
            words=words,
            rel=WITHIN,
            slips=slips(place),
            hint="Which runs does it rest on, and which repeat of them?",
        )
        for place, (part, unit) in enumerate(parts)
    )


def _key(runs: Runs) -> str:
    """A name for a log that rests on nothing an answer can change."""
    return repr(sorted(run["seconds"][-1] for run in runs))


def _row(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values[name] for name in ("runs", "cache", "sheet_flops", "sheet_bandwidth"))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    drawn = [bench(rng, rng.choice(CHIPS), params["clock"]) for _ in range(10)]
    truths = {_key(values["runs"]): (values["true_flops"], values["true_bandwidth"]) for values in drawn}
    shown = _row(params)
    mine = {_key(shown[0]): fit(params["clock"], *shown)[:2]}
    rows = [_row(values) for values in drawn]
    more = [bench(rng, rng.choice(CHIPS), params["clock"]) for _ in range(2)]
    other = {_key(values["runs"]): (values["true_flops"], values["true_bandwidth"]) for values in more}
    return [
        Case(name=f"the log of one {params['device']}", args=(0, [shown]), secret=mine),
        Case(name="two more logs", args=(0, [_row(values) for values in more]), visible=False, secret=other),
        Case(name="other logs", args=(0, rows), kind="generality", visible=False, secret=truths),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    columns = _columns(params["clock"], case.secret)
    return together(columns, "a triple (FLOP/s, bytes/s, FLOP per byte)")(case, outcome)


FIT_ROOFS = Judging(
    shares={
        "values:flops": 0.15,
        "values:bandwidth": 0.15,
        "values:ridge": 0.1,
        "generality:flops": 0.2,
        "generality:bandwidth": 0.2,
        "generality:ridge": 0.2,
    },
    cases=_cases,
    verdicts=_verdicts,
    why="A roof is an upper bound, so the best honest run is the best estimate of it, and everything is in the word honest: one "
    "robust time per run (the median forgets warm-up and disturbances), no run that beats the data sheet, no kernel that lived in "
    "the cache. Means answer another question: how an average kernel fares.",
    pytorch="`torch.utils.benchmark.Timer(...).blocked_autorange()` warms up, waits for the GPU and reports median and quartiles.",
)
