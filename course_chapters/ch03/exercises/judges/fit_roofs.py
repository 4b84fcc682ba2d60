from collections.abc import Mapping, Sequence
from functools import partial

from course_chapters.ch03.exercises.fit_roofs import bench
from course_chapters.ch03.exercises.shared import CHIPS
from course_grader.judging import Case, Column, Judging, Params, Random, Worked, generality, plain, shares, table
from course_lib.estimate.units import TFLOP, number_text

Runs = Sequence[Mapping[str, object]]

right = Worked("fit-roofs")


def _words(runs: Runs, cache: float, flops: float, bandwidth: float) -> str:
    return f"a log of {len(runs)} runs, sheet {number_text(flops / TFLOP)} TFLOP/s"


_HINT = "Compare your time of each run, and the runs that you keep, with the list of flaws."
_column = partial(Column, words=_words, hint=_HINT, rel=0.05)


def _row(values: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(values[name] for name in ("runs", "cache", "sheet_flops", "sheet_bandwidth"))


def _drawn(clock: str, rng: Random, count: int) -> list[tuple[object, ...]]:
    return [_row(bench(rng, rng.choice(CHIPS), clock, subtle=bool(number % 2))) for number in range(count)]


def _cases(params: Params, rng: Random) -> list[Case]:
    *rows, (runs, *sheet) = _drawn(params["clock"], rng, 10)
    assert isinstance(runs, list)
    slow = [{**run, "seconds": [20 * each for each in run["seconds"]]} for run in runs]
    rows.append((slow + runs, *sheet))  # a long log, poorly written kernels first
    return [
        Case(name=f"the log of one {params['device']}", args=(0, [_row(params)])),
        plain("", 0, "two more logs", _drawn(params["clock"], rng, 2)),
        generality("", 0, "other logs", rows),
    ]


JUDGING = Judging(
    shares=shares(flops=(0.15, 0.2), bandwidth=(0.15, 0.2), ridge=(0.1, 0.2)),
    cases=_cases,
    verdicts=table(
        (_column("flops", "FLOP/s"), _column("bandwidth", "bytes/s"), _column("ridge", "FLOP per byte")), right=right
    ),
    why="A roof is an upper bound, so the best honest run is the best estimate of it. Honest means: one robust time "
    "per run (the median ignores warm-up and disturbances), no run that beats the data sheet, no kernel that "
    "stayed in the cache. A mean describes an average kernel instead.",
    pytorch="`torch.utils.benchmark.Timer(...).blocked_autorange()` warms up, waits for the GPU and reports median "
    "and quartiles.",
)

ANSWERS = r'''# %% right: worked
clock = params("fit-roofs").clock  # leave as is: "durations" or "readings": what `seconds` holds in your variant


def fit_roofs(runs: list[dict], cache: float, sheet_flops: float, sheet_bandwidth: float) -> tuple[float, float, float]:
    """The roofs from the valid runs: (FLOP/s, bytes/s, FLOP per byte where both meet)."""
    best_flops = best_bandwidth = 0.0
    for run in runs:
        spent = run["seconds"] if clock == "durations" else np.diff(run["seconds"])
        took = statistics.median(spent)
        flops, bandwidth, streams = run["flop"] / took, run["bytes"] / took, run["bytes"] > cache
        if flops > sheet_flops or (streams and bandwidth > sheet_bandwidth):
            continue  # faster than the sheet: its clock did not wait
        best_flops = max(best_flops, flops)
        if streams:
            best_bandwidth = max(best_bandwidth, bandwidth)
    return float(best_flops), float(best_bandwidth), float(best_flops / best_bandwidth)
# %% right: numpy, the fastest repeat, a list  from: worked
def fit_roofs(runs, cache, sheet_flops, sheet_bandwidth):
    least = np.array([min(run["seconds"] if clock == "durations" else np.diff(run["seconds"])) for run in runs])
    flop, nbytes = (np.array([run[key] for run in runs]) for key in ("flop", "bytes"))
    rates, passed, beyond = flop / least, nbytes / least, nbytes > cache
    # a repeat may be a little quicker than the middle one: leave the sheet some room
    honest = (rates <= 1.1 * sheet_flops) & (~beyond | (passed <= 1.1 * sheet_bandwidth))
    peak, wide = rates[honest].max(), passed[honest & beyond].max()
    return [peak, wide, peak / wide]
# %% wrong: warm-up counted => values
# > a mean includes the warm-up and the disturbed repeats.
# ~ median(spent) ==> fmean(spent)
# %% wrong: disturbed repeats counted => values
# > a mean without the warm-up still includes the disturbed repeats.
# ~ median(spent) ==> fmean(spent[3:])
# %% wrong: first repeat => values
# > this is the first repeat, which is a warm-up.
# ~ statistics.median(spent) ==> spent[0]
# %% wrong: slowest repeat => values
# > this is the slowest repeat of each run.
# ~ statistics.median(spent) ==> max(spent)
# %% wrong: readings as durations => values  unless clock=durations
# > the log holds clock readings, not the duration of each repeat.
# ~ run["seconds"] if clock == "durations" else np.diff(run["seconds"]) ==> run["seconds"]
# %% wrong: hasty run believed => values
# > one run beats the data sheet; its clock stopped before its kernel did.
# ~ if flops > sheet_flops or (streams and bandwidth > sheet_bandwidth): ==> if flops < 0:
# %% wrong: hasty arithmetic believed => values hasty-run-believed
# ~ flops > sheet_flops or (streams ==> (streams
# %% wrong: arithmetic in the cache => values
# > a kernel in the cache measures no bandwidth, but its arithmetic counts.
# ~ (streams and bandwidth > sheet_bandwidth) ==> bandwidth > sheet_bandwidth
# %% wrong: cache for memory => values
# > a kernel whose bytes fit into the cache does not use the memory.
# ~ if streams: ==> if bandwidth:
# %% wrong: both believed => values
# > this uses runs above the sheet and kernels in the cache.
# ~ if flops > sheet_flops or (streams and bandwidth > sheet_bandwidth): ==> if flops < 0:
# ~ if streams: ==> if bandwidth:
# %% wrong: mean of kernels => values
# > this is a mean over kernels; a roof is the highest rate.
# ~ best_flops = best_bandwidth = 0.0 ==> rates, passed = [], []
# ~ best_flops = max(best_flops, flops) ==> rates.append(flops)
# -             best_bandwidth = max(best_bandwidth, bandwidth)
# +             passed.append(bandwidth)
# +     best_flops, best_bandwidth = statistics.fmean(rates), statistics.fmean(passed)
# %% wrong: middle kernel => values  from: mean of kernels
# > this is the median kernel; a roof is the highest rate.
# ~ statistics.fmean(rates), statistics.fmean(passed) ==> statistics.median(rates), statistics.median(passed)
# %% wrong: the sheet => values
# > that is what the data sheet says; the log is about this device.
# ~ float(best_flops), float(best_bandwidth), float(best_flops / best_bandwidth)
# ~~ ==> sheet_flops, sheet_bandwidth, sheet_flops / sheet_bandwidth
# %% wrong: scaled => values
# > give FLOP/s, bytes/s and FLOP per byte.
# ~ float(best_flops), float(best_bandwidth), float(best_flops / best_bandwidth)
# ~~ ==> best_flops / 1e12, best_bandwidth / 1e9, best_flops / best_bandwidth / 1e3
# %% wrong: upside down => values
# > this is bytes per FLOP.
# ~ float(best_flops / best_bandwidth) ==> float(best_bandwidth / best_flops)
# %% half: the ridge upside down => 6  from: upside down
# %% wrong: a pair => values wrong-shape
# ~ float(best_flops), float(best_bandwidth), float(best_flops / best_bandwidth) ==> best_flops, best_bandwidth
# %% wrong: the shown log by heart => values only-the-example
# ~ float(best_flops), float(best_bandwidth), float(best_flops / best_bandwidth)
# ~~ ==> fit_roofs.__dict__.setdefault("seen", (best_flops, best_bandwidth, best_flops / best_bandwidth))
# %% wrong: names tell which kernels use the memory => values ~
# ~ run["bytes"] > cache ==> "large" in run["name"]
# %% wrong: a full cache => values
# > bytes that fill the cache exactly fit into it.
# ~ > cache ==> >= cache
# %% wrong: sixteen runs at most => generality -
# ~ for run in runs: ==> for run in runs[:16]:
'''
