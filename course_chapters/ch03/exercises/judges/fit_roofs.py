"""Judge of fit-roofs: two roofs from a noisy log."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from course_chapters.ch03.exercises.fit_roofs import CHIPS, bench
from course_grader.judging import Judging, Mistake, Params, near
from course_grader.judging.mistakes import scaled
from course_grader.judging.per_row import Column, shares, table
from course_grader.judging.random_inputs import generality
from course_grader.records import Case
from course_lib.estimate.units import GB, TFLOP, number_text

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
    """(FLOP/s, bytes/s, ridge) of a log; the keywords are careless ways to fit."""
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


def _first(seconds: Sequence[float]) -> float:
    return seconds[0]


WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "warm-up-counted": ({"middle": statistics.fmean}, "a mean includes the warm-up and the disturbed repeats."),
    "first-repeat": ({"middle": _first}, "this is the first repeat, which is a warm-up."),
    "slowest-repeat": ({"middle": max}, "this is the slowest repeat of each run."),
    "hasty-run-believed": ({"believe": True}, "one run beats the data sheet; its clock stopped before its kernel did."),
    "cache-for-memory": ({"cached": True}, "a kernel whose bytes fit into the cache does not use the memory."),
    "both-believed": ({"believe": True, "cached": True}, "this uses runs above the sheet and kernels in the cache."),
    "mean-of-kernels": ({"pick": statistics.fmean}, "this is a mean over kernels; a roof is the highest rate."),
    "middle-kernel": ({"pick": statistics.median}, "this is the median kernel; a roof is the highest rate."),
}
_READINGS = "the log holds clock readings, not the duration of each repeat."
_UNITS = (("flops", "FLOP/s", TFLOP), ("bandwidth", "bytes/s", GB), ("ridge", "FLOP per byte", 1e3))


def _columns(clock: str, truths: Mapping[str, tuple[float, float]]) -> tuple[Column, ...]:
    return tuple(_column(clock, truths, place) for place in range(3))


def _column(clock: str, truths: Mapping[str, tuple[float, float]], place: int) -> Column:
    part, unit, scale = _UNITS[place]

    def truth(runs: Runs, *_: float) -> float:
        flops, bandwidth = truths[_key(runs)]
        return (flops, bandwidth, flops / bandwidth)[place]

    def fitted(clock: str, **ways: Any) -> Callable[..., float | None]:
        """What a way of fitting leads to; None where it fails or is nearly right."""

        def value(*row: Any) -> float | None:
            try:
                wrong = fit(clock, *row, **ways)[place]
            except (ValueError, ZeroDivisionError, statistics.StatisticsError):
                return None
            return None if near(wrong, truth(*row), 2 * WITHIN) else wrong

        return value

    def sheet(runs: Runs, cache: float, flops: float, bandwidth: float) -> float:
        return (flops, bandwidth, flops / bandwidth)[place]

    return Column(
        part=part,
        unit=unit,
        want=truth,
        words=_words,
        mistake_rel=1e-6,  # means, first repeats and sheets can lie within the tolerance of one another
        hint="Compare your time of each run, and the runs that you keep, with the list of flaws.",
        rel=WITHIN,
        mistakes=(
            *(Mistake(name, fitted(clock, **ways), message) for name, (ways, message) in WAYS.items()),
            *([Mistake("readings-as-durations", fitted("durations"), _READINGS)] if clock == "readings" else []),
            Mistake("the-sheet", sheet, "that is what the data sheet says; the log is about this device."),
            Mistake("scaled", scaled(truth, 1 / scale), "give FLOP/s, bytes/s and FLOP per byte."),
            *([Mistake("upside-down", lambda *row: 1 / truth(*row), "this is bytes per FLOP.")] if place == 2 else []),
        ),
    )


def _words(runs: Runs, cache: float, flops: float, bandwidth: float) -> str:
    return f"a log of {len(runs)} runs, sheet {number_text(flops / TFLOP)} TFLOP/s"


def _key(runs: Runs) -> str:
    """A name for a log that rests on nothing an answer can change."""
    return repr(sorted(run["seconds"][-1] for run in runs))


def _row(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values[name] for name in ("runs", "cache", "sheet_flops", "sheet_bandwidth"))


def _drawn(clock: str, rng: random.Random, count: int) -> tuple[list[tuple[Any, ...]], dict[str, tuple[float, float]]]:
    """The rows of so many logs, and their true roofs."""
    logs = [bench(rng, rng.choice(CHIPS), clock, subtle=bool(number % 2)) for number in range(count)]
    if count > 2:  # a long log, poorly written kernels first
        slow = [{**run, "seconds": [20 * each for each in run["seconds"]]} for run in logs[-1]["runs"]]
        logs[-1]["runs"] = slow + logs[-1]["runs"]
    return list(map(_row, logs)), {_key(log["runs"]): (log["true_flops"], log["true_bandwidth"]) for log in logs}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    clock, shown = params["clock"], _row(params)
    mine = {_key(shown[0]): fit(clock, *shown)[:2]}
    rows, truths = _drawn(clock, rng, 10)
    more, other = _drawn(clock, rng, 2)
    return [
        Case(name=f"the log of one {params['device']}", args=(0, [shown]), secret=mine),
        Case(name="two more logs", args=(0, more), visible=False, secret=other),
        generality("", 0, "other logs", rows, truths),
    ]


JUDGING = Judging(
    shares=shares(flops=(0.15, 0.2), bandwidth=(0.15, 0.2), ridge=(0.1, 0.2)),
    cases=_cases,
    verdicts=lambda params, case, outcome: table(_columns(params["clock"], case.secret))(params, case, outcome),
    why="A roof is an upper bound, so the best honest run is the best estimate of it. Honest means: one robust time per run (the "
    "median ignores warm-up and disturbances), no run that beats the data sheet, no kernel that stayed in the cache. A mean "
    "describes an average kernel instead.",
    pytorch="`torch.utils.benchmark.Timer(...).blocked_autorange()` warms up, waits for the GPU and reports median and quartiles.",
)

ANSWERS = r"""import statistics

from course_lib.estimate import roofline


# %% right: medians, honest runs, the best of each kind
def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
    flops = bandwidth = 0.0
    for run in runs:
        time = statistics.median(run["seconds"])
        streams = run["bytes"] > cache
        if run["flop"] / time > sheet_flops or (streams and run["bytes"] / time > sheet_bandwidth):
            continue
        flops = max(flops, run["flop"] / time)
        if streams:
            bandwidth = max(bandwidth, run["bytes"] / time)
    return flops, bandwidth, flops / bandwidth


# %% right: numpy, the fastest repeat, a list
import numpy as np


def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
    least = np.array([min(run["seconds"]) for run in runs])
    flop = np.array([run["flop"] for run in runs])
    nbytes = np.array([run["bytes"] for run in runs])
    rates, passed = flop / least, nbytes / least
    beyond = nbytes > cache
    # a repeat may be a little quicker than the middle one: leave the sheet some room
    honest = (rates <= 1.1 * sheet_flops) & (~beyond | (passed <= 1.1 * sheet_bandwidth))
    peak, wide = rates[honest].max(), passed[honest & beyond].max()
    return [peak, wide, peak / wide]


# %% right: any variant  from: medians, honest runs, the best of each kind
# - def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
# + from course_lib import params
# + READINGS = params("fit-roofs").clock == "readings"
# + def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
# -         time = statistics.median(run["seconds"])
# +         seconds = run["seconds"]
# +         if READINGS:
# +             seconds = [after - before for before, after in zip(seconds, seconds[1:])]
# +         time = statistics.median(seconds)

# %% wrong: means with the warm-up => values warm-up-counted  from: medians, honest runs, the best of each kind
# ~ median ==> fmean

# %% wrong: believes everything => values hasty-run-believed  from: medians, honest runs, the best of each kind
# -         if run["flop"] / time > sheet_flops or (streams and run["bytes"] / time > sheet_bandwidth):
# -             continue

# %% wrong: the cache is taken for memory => values cache-for-memory  from: medians, honest runs, the best of each kind
# -         if streams:
# -             bandwidth = max(bandwidth, run["bytes"] / time)
# +         bandwidth = max(bandwidth, run["bytes"] / time)

# %% wrong: a mean over kernels => values mean-of-kernels  from: medians, honest runs, the best of each kind
# ~ flops = bandwidth = 0.0 ==> rates, passed = [], []
# ~ flops = max(flops, run["flop"] / time) ==> rates.append(run["flop"] / time)
# -             bandwidth = max(bandwidth, run["bytes"] / time)
# +             passed.append(run["bytes"] / time)
# +     flops, bandwidth = statistics.fmean(rates), statistics.fmean(passed)

# %% wrong: the first repeat => values first-repeat  from: medians, honest runs, the best of each kind
# ~ statistics.median(run["seconds"]) ==> run["seconds"][0]

# %% wrong: the data sheet => values the-sheet  from: medians, honest runs, the best of each kind
# ~ return flops, bandwidth, flops / bandwidth ==> return sheet_flops, sheet_bandwidth, sheet_flops / sheet_bandwidth

# %% wrong: teraflops and gigabytes => values scaled  from: medians, honest runs, the best of each kind
# ~ flops, bandwidth, flops / bandwidth ==> flops / 1e12, bandwidth / 1e9, flops / bandwidth / 1e3

# %% wrong: a pair => values wrong-shape  from: medians, honest runs, the best of each kind
# ~ return flops, bandwidth, flops / bandwidth ==> return flops, bandwidth

# %% wrong: the shown log by heart => values -  from: medians, honest runs, the best of each kind
# ~ def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth): ==> def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth, seen=[]):
# ~ return flops, bandwidth, flops / bandwidth ==> return (seen or seen.append((flops, bandwidth, flops / bandwidth)) or seen)[0]

# %% wrong: asks the library => raised  from: medians, honest runs, the best of each kind
# -     return flops, bandwidth, flops / bandwidth
# +     runs = [roofline.Run(run["name"], run["flop"], run["bytes"], tuple(run["seconds"])) for run in runs]
# +     found = roofline.fit_roofs(runs, cache)
# +     return found.flops, found.bandwidth, found.ridge

# %% half: the ridge upside down => 6  from: medians, honest runs, the best of each kind
# ~ flops / bandwidth ==> bandwidth / flops

# %% wrong: names tell which kernels use the memory => values raised  from: medians, honest runs, the best of each kind
# ~ run["bytes"] > cache ==> "large" in run["name"]

# %% wrong: bytes that fill the cache are taken to miss it => values -  from: medians, honest runs, the best of each kind
# ~ > cache ==> >= cache

# %% wrong: sixteen runs at most => generality -  from: medians, honest runs, the best of each kind
# ~ for run in runs: ==> for run in runs[:16]:
"""
