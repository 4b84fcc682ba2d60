"""Judge of honest-mfu: an honest MFU, or none."""

import copy
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from course_chapters.ch15.exercises.honest_mfu import LEAST, REASONS, ROOF, SPREAD, WAITED
from course_chapters.ch15.exercises.work import as_run, peaks_of
from course_grader.judging import Fault, Judging, Mistake, Params, describe, first, is_number, matching, near, verdict
from course_grader.judging.diagnoses import plain_word
from course_grader.judging.per_row import FINE, rows_fault
from course_grader.judging.random_inputs import generality
from course_grader.records import Case, Outcome, Verdict
from course_runs.reading import recorded, recorded_names

Run = dict[str, Any]
Found = tuple[float, float, float] | str
Pick = Callable[[Sequence[float]], float]  # one of several seconds


def step_seconds(run: Run, of: Pick = max, warm: bool = False) -> list[float]:
    """Sorted seconds of the timed steps, each `of` its ranks' seconds; with `warm`, of all steps."""
    steps: dict[int, list[float]] = {}
    for row in sorted(run["rows"], key=lambda row: row["rank"]):
        steps.setdefault(row["step"], []).append(row["seconds"])
    return sorted(of(ranks) for step, ranks in steps.items() if warm or step >= run["warm_up"])


def mfu(run: Run, seconds: float, flops: str = "model_flops_per_token", peak: str = "dense_flops") -> float:
    """The fraction of the peak that a step of these seconds uses."""
    return run[flops] * run["tokens_per_step"] / seconds / (run["ranks"] * run[peak][run["dtype"]])


def typical(run: Run, middle: Pick = statistics.median, rate: Callable[..., float] = mfu, **how: Any) -> float:
    """The MFU of the middle step; `how` changes what `step_seconds` takes of the ranks and steps."""
    return rate(run, middle(step_seconds(run, **how)))


def questions(run: Run, t: Sequence[float]) -> dict[str, tuple[bool, str]]:
    """For each reason, in order, whether it refuses an MFU, and what the log says to it; `t` are its step seconds."""
    n, share, middle = len(t), sum(t) / run["wall_seconds"], mfu(run, statistics.median(t))
    spread = t[9 * n // 10] / t[n // 10]
    return {
        "no warm-up": (run["warm_up"] < 1, f"{run['warm_up']} steps are left out"),
        "too few steps": (n < LEAST, f"{n} steps are timed"),
        "clock did not wait": (share < WAITED, f"the timed steps add up to {share:.0%} of the wall clock's seconds"),
        "not steady": (spread > SPREAD, f"the slow end takes {spread:.3g} times as long as the fast end"),
        "above the roof": (
            middle > ROOF,
            f"the median step uses {middle:.0%} of what all {run['ranks']} devices can do",
        ),
    }


def honest(run: Run) -> Found:
    """(MFU, low end, high end), or the first reason why there is none."""
    t = step_seconds(run)
    found = mfu(run, statistics.median(t)), mfu(run, t[9 * len(t) // 10]), mfu(run, t[len(t) // 10])
    return next((reason for reason, (refuses, _) in questions(run, t).items() if refuses), found)


def gpu_run(rng: random.Random, device: str, ranks: int = 8, *, narrow: bool = False, used: float | None = None) -> Run:
    """A run that used this share of the device: warm-up, steps, one rank slower than the others."""
    peaks = peaks_of(device)
    dtype = "float8" if narrow and "float8" in peaks["dense_flops"] else "bfloat16"
    work, per_rank = 6 * rng.choice((1.2e9, 7e9, 13e9)), rng.choice((8192, 16_384, 32_768))
    step = work * per_rank / ((used or rng.uniform(0.25, 0.45)) * peaks["dense_flops"][dtype])
    warm_up, count = rng.choice((2, 3, 5)), rng.choice((11, 16, 20, 50))
    late = rng.randrange(1, ranks) if ranks > 1 else 0  # never the first rank, whose log is easiest to read
    rows = []
    for number in range(warm_up + count):
        usual = number >= warm_up
        pace = step * (rng.choice((1, 1, 1, 1, 1.3)) * rng.uniform(0.98, 1.02) if usual else rng.uniform(2, 6))
        for rank in range(ranks):
            seconds = pace * (rng.uniform(1.06, 1.12) if rank == late else rng.uniform(0.9, 0.97))
            rows.append({"step": number, "rank": rank, "seconds": seconds})
    rng.shuffle(rows)
    run = {"rows": rows, "warm_up": warm_up, "tokens_per_step": per_rank * ranks, "ranks": ranks, "dtype": dtype}
    return _waited(run | {"model_flops_per_token": work, "hardware_flops_per_token": work * 4 / 3} | peaks)


def _waited(run: Run) -> Run:
    return run | {"wall_seconds": 1.01 * sum(step_seconds(run))}


def _scaled(run: Run, factor: Callable[[int], float]) -> Run:
    return run | {"rows": [row | {"seconds": row["seconds"] * factor(row["step"])} for row in run["rows"]]}


def launched(run: Run, rng: random.Random, low: float = 0.5, high: float = 0.8) -> Run:
    """The clock missed a part of each step, in which the device was still busy; the roof alone does not show it."""
    share = rng.uniform(low, high)
    return _scaled(run, lambda step: share)


def _shaken(run: Run, rng: random.Random) -> Run:
    return _waited(_scaled(run, lambda step: rng.uniform(5, 9) if step >= run["warm_up"] and step % 3 == 0 else 1))


def _used(run: Run, share: float) -> Run:
    return run | {"model_flops_per_token": run["model_flops_per_token"] * share / typical(run)}


def _of_length(run: Run, steps: int) -> Run:
    return _waited(run | {"rows": [row for row in run["rows"] if row["step"] < run["warm_up"] + steps]})


def _at_a_limit(seconds: Sequence[float], wall: float, share: float) -> Run:
    """One warm-up step, then steps of these seconds, the median a power of two, in numbers that no product rounds."""
    peak, ranks, tokens = 1e15, 4, 2**16
    rows = [{"step": step, "rank": 0, "seconds": each} for step, each in enumerate([64.0, *seconds])]
    work = share * peak * statistics.median(seconds) * ranks / tokens
    run = {"rows": rows, "warm_up": 1, "wall_seconds": wall, "tokens_per_step": tokens, "ranks": ranks}
    run |= {"model_flops_per_token": work, "hardware_flops_per_token": 1.5 * work, "dtype": "bfloat16"}
    return run | {"dense_flops": {"bfloat16": peak}, "sparse_flops": {"bfloat16": 2 * peak}}


def close(rng: random.Random) -> list[Run]:
    """Runs at the limit of a question, and some that fail two questions."""
    one, two, three, four = (gpu_run(rng, "H100 SXM", used=rng.uniform(0.3, 0.5)) for _ in range(4))
    return [
        _used(one, 1.01),
        _of_length(two, LEAST),
        _of_length(three, LEAST + 1),
        _of_length(two | {"warm_up": 0}, 3),
        launched(_shaken(one, rng), rng),
        launched(_of_length(four, 3), rng),
        _used(_shaken(three, rng), 2.0),
        _at_a_limit([1.0] * 9, 10.0, 0.4),  # nine tenths of the wall clock's seconds
        _at_a_limit([2.0, *[1.0] * 8, 3.0], 13.0, 0.4),
        _at_a_limit([2.0, 0.5, *[1.0] * 7, 3.0], 12.5, 0.4),  # the fastest step is not the fast end
        _at_a_limit([2.0, *[1.0] * 8, 3.25], 13.25, 0.4),  # just above the limit
        _at_a_limit([1.0, *[1.25] * 7, 3.25], 13.0, 0.4),  # of nine steps, the fastest and the slowest are the ends
        _at_a_limit([1.0, *[1.25] * 7, 1.5], 11.25, 0.4),
        _at_a_limit([1.0] * 9, 9.0, ROOF),
        _at_a_limit([1.0] * 9, 9.0, ROOF + 1e-3),
        _at_a_limit([1.0] * 9, 10.01, 0.4),
    ]


DOCTORED: Mapping[str, Callable[[Run, random.Random], Run]] = {
    "no warm-up": lambda run, rng: _waited(run | {"warm_up": 0}),
    "too few steps": lambda run, rng: _of_length(run, rng.choice((2, LEAST - 1))),
    "clock did not wait": launched,
    "not steady": _shaken,
    "above the roof": lambda run, rng: _used(run, rng.uniform(1.3, 3)),  # more FLOPs than any device can do
}

DEVICES = ("H100 SXM", "A100 SXM 80GB", "B200 SXM")


@cache
def recorded_runs() -> dict[str, Run]:
    found = {name: recorded(name) for name in recorded_names("train")}
    return {name: as_run(run) for name, run in found.items() if run["measured"].get("model_flops_per_step")}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    device, own = params["device"], next(iter(recorded_runs().items()))
    eight = gpu_run(rng, device)
    shown = {
        f"recorded, {own[0]}": own[1],
        f"eight {device}": eight,
        "one of them": gpu_run(rng, device, 1),
        **{f"the eight: {reason}": change(copy.deepcopy(eight), rng) for reason, change in DOCTORED.items()},
    }
    unseen = list(recorded_runs().values())
    for _ in range(12):
        made = gpu_run(rng, rng.choice(DEVICES), rng.choice((1, 2, 8, 16)), narrow=rng.random() < 0.4)
        unseen += [made, rng.choice(list(DOCTORED.values()))(copy.deepcopy(made), rng)]
    unseen += [change(gpu_run(rng, "H100 SXM", used=rng.uniform(0.3, 0.9)), rng) for change in DOCTORED.values()]
    # launches alone: above the roof as well, but the clock comes first
    unseen.append(launched(gpu_run(rng, "H100 SXM"), rng, 0.01, 0.1))
    unseen += close(rng)
    return [
        Case(name="shown", args=(0, [(run,) for run in shown.values()]), secret=list(shown)),
        generality("", 0, "other runs", [(run,) for run in unseen]),
    ]


def _all_rows(run: Run) -> float:
    return mfu(run, statistics.median(row["seconds"] for row in run["rows"] if row["step"] >= run["warm_up"]))


def _in_bfloat16(run: Run) -> float | None:
    return typical(run | {"dtype": "bfloat16"}) if "bfloat16" in run["dense_flops"] else None


SPARSE, HARDWARE = partial(mfu, peak="sparse_flops"), partial(mfu, flops="hardware_flops_per_token")
MIDDLE = "for an even number of steps, the median lies between two."
MISTAKES = (
    Mistake("warm-up-counted", partial(typical, warm=True), "the warm-up is among the steps."),
    Mistake("low-median", partial(typical, middle=statistics.median_low), MIDDLE),
    Mistake("high-median", partial(typical, middle=statistics.median_high), MIDDLE),
    Mistake("mean", partial(typical, middle=statistics.fmean), "this is the mean step; use the median one."),
    Mistake("fastest", partial(typical, middle=min), "this is the fastest step."),
    Mistake("mean-rank", partial(typical, of=statistics.fmean), "a step lasts until its slowest rank has finished."),
    Mistake("first-rank", partial(typical, of=lambda ranks: ranks[0]), "another rank was still working."),
    Mistake("fastest-rank", partial(typical, of=min), "this is the first rank to finish; others were still working."),
    Mistake("all-rows", _all_rows, "this is the median of all ranks' rows; first find one number for each step."),
    Mistake("sparse-peak", partial(typical, rate=SPARSE), "this is relative to the sparse peak."),
    Mistake("recomputed", partial(typical, rate=HARDWARE), "recomputed work is not a model FLOP."),
    Mistake("one-device", lambda run: typical(run) * run["ranks"], "the peak is that of one device."),
    Mistake("ranks-twice", lambda run: typical(run) / run["ranks"], "you divided by the ranks twice."),
    Mistake("percent", lambda run: 100 * typical(run), "return a fraction, not per cent."),
    Mistake("other-dtype", _in_bfloat16, "this is the peak of another dtype."),
)


def _shape_fault(where: str, got: Any) -> Fault | None:
    """What keeps a value from being three values or one of the reasons."""
    if (type(got) in (tuple, list) and len(got) == 3) or (type(got) is str and plain_word(got) in REASONS):
        return None
    name = "returned-none" if got is None else "wrong-shape"
    return name, f"{where}: return (mfu, low, high) or one of {', '.join(map(repr, REASONS))}; got {describe(got)}."


def _mfu_fault(where: str, run: Run, got: Any, want: Sequence[float]) -> Fault | None:
    if type(got) is str:
        return (
            "refuses-sound",
            f"{where}: you say {got!r}, but this log is sound: {questions(run, step_seconds(run))[plain_word(got)][1]}.",
        )
    if not is_number(got[0]):
        return "not-a-number", f"{where}: the MFU is a fraction; got {describe(got[0])}."
    if near(got[0], want[0], FINE):
        return None
    known = matching(MISTAKES, (run,), lambda way: near(got[0], way, FINE), f"{where}: ")
    return known or ("other-number", f"{where}: your MFU is {got[0] / want[0]:.4g} times the right one.")


def _ends_fault(where: str, run: Run, got: Any, want: Sequence[float]) -> Fault | None:
    if type(got) is str:
        return "refuses-sound", f"{where}: this log has an MFU and an interval."
    if near(got[1], want[1], FINE) and near(got[2], want[2], FINE):
        return None
    if near(got[1], want[2], FINE) and near(got[2], want[1], FINE):
        return "turned-round", f"{where}: slow steps give the low end."
    t = step_seconds(run)
    if near(got[1], mfu(run, t[-1]), FINE) or near(got[2], mfu(run, t[0]), FINE):
        return "extremes", f"{where}: one end is the slowest or the fastest step, not that of a tenth."
    return "other-ends", f"{where}: take t[9n // 10] and t[n // 10]; got {describe(got[1])} and {describe(got[2])}."


def _refusal_fault(where: str, run: Run, got: Any, want: str) -> Fault | None:
    if type(got) is not str:
        return (
            f"accepts-{want.replace(' ', '-')}",
            f"{where}: this log has no MFU: {questions(run, step_seconds(run))[want][1]}.",
        )
    if plain_word(got) == want:
        return None
    return "other-reason", f"{where}: you say {got!r}; the first reason in the order of the list counts."


PARTS = ("mfu", "ends", "refusals")


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if fault := rows_fault(case, outcome.value):
        return [verdict(case.kind, part, case, fault) for part in PARTS]
    faults: dict[str, list[Fault | None]] = {part: [] for part in PARTS}
    names = case.secret or [case.name] * len(outcome.value)
    for where, (run,), got in zip(names, case.args[1], outcome.value, strict=True):
        want, shape = honest(run), _shape_fault(where, got)
        if isinstance(want, str):
            faults["refusals"].append(shape or _refusal_fault(where, run, got, want))
        else:
            faults["mfu"].append(shape or _mfu_fault(where, run, got, want))
            faults["ends"].append(shape or _ends_fault(where, run, got, want))
    return [verdict(case.kind, part, case, first(*found)) for part, found in faults.items()]


JUDGING = Judging(
    shares="values:mfu 0.25, values:ends 0.1, values:refusals 0.2, generality:mfu 0.2, generality:ends 0.05, "
    "generality:refusals 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="""An MFU is a fraction of a peak, so use the right one: dense, of this dtype, of all devices. Ranks work in step, and the slowest one decides when a
step is over. The first steps compile and allocate. A number above the peak, or steps that do not add up to the wall clock, describe the clock and not the
machine: no MFU follows.""",
    pytorch="Call `torch.cuda.synchronize()` before each reading; torchtitan's metrics and `course_runs.evidence_checks` ask the same questions of a log.",
)

ANSWERS = r"""import statistics


# %% right: step by step
def honest_mfu(run):
    steps = {}
    for row in run["rows"]:
        steps[row["step"]] = max(row["seconds"], steps.get(row["step"], 0.0))
    timed = sorted(seconds for step, seconds in steps.items() if step >= run["warm_up"])
    n, middle = len(timed), statistics.median(timed)
    rate = run["model_flops_per_token"] * run["tokens_per_step"] / run["ranks"] / run["dense_flops"][run["dtype"]]
    if run["warm_up"] < 1:
        return "no warm-up"
    if n < 5:
        return "too few steps"
    if sum(timed) < 0.9 * run["wall_seconds"]:
        return "clock did not wait"
    if timed[9 * n // 10] > 3 * timed[n // 10]:
        return "not steady"
    if rate / middle > 1.02:
        return "above the roof"
    return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10]


# %% right: rates in an array
def honest_mfu(run):
    import numpy as np

    clock = np.zeros((1 + max(row["step"] for row in run["rows"]), 1 + max(row["rank"] for row in run["rows"])))
    for row in run["rows"]:
        clock[row["step"], row["rank"]] = row["seconds"]
    t = np.sort(clock.max(1)[run["warm_up"] :])
    n = len(t)
    per_device = run["tokens_per_step"] / run["ranks"] * run["model_flops_per_token"] / run["dense_flops"][run["dtype"]]
    used = per_device / np.array([np.median(t), t[9 * n // 10], t[n // 10]])
    reasons = {
        "no warm-up": run["warm_up"] <= 0,
        "too few steps": n <= 4,
        "clock did not wait": t.sum() / run["wall_seconds"] < 0.9,
        "not steady": t[n * 9 // 10] / t[n // 10] > 3,
        "above the roof": used[0] > 1.02,
    }
    return next((why for why, holds in reasons.items() if holds), used.tolist())


# %% wrong: with the warm-up => values warm-up-counted  from: step by step
# ~ return rate / middle ==> return rate / statistics.median(steps.values())

# %% wrong: the mean step => values mean  from: step by step
# ~ return rate / middle ==> return rate / statistics.fmean(timed)

# %% wrong: the lower of the two in the middle => values low-median  from: step by step
# ~ return rate / middle ==> return rate / statistics.median_low(timed)

# %% wrong: the log of rank 0 => values first-rank  from: step by step
#           return "above the roof"
# +     timed = sorted(row["seconds"] for row in run["rows"] if row["rank"] == 0 and row["step"] >= run["warm_up"])
# +     middle = statistics.median(timed)

# %% wrong: the mean of the ranks => values mean-rank  from: step by step
#           return "above the roof"
# +     steps = {step: [row["seconds"] for row in run["rows"] if row["step"] == step] for step in steps}
# +     timed = sorted(statistics.fmean(ranks) for step, ranks in steps.items() if step >= run["warm_up"])
# +     middle = statistics.median(timed)

# %% wrong: the first rank to be through => values fastest-rank  from: the mean of the ranks
# ~ statistics.fmean(ranks) ==> min(ranks)

# %% wrong: the sparse peak => values sparse-peak  from: step by step
#           return "above the roof"
# +     rate *= run["dense_flops"][run["dtype"]] / run["sparse_flops"][run["dtype"]]

# %% wrong: what the hardware computes => values recomputed  from: step by step
#           return "above the roof"
# +     rate *= run["hardware_flops_per_token"] / run["model_flops_per_token"]

# %% wrong: one device's peak for all tokens => values one-device  from: step by step
#           return "above the roof"
# +     rate *= run["ranks"]

# %% wrong: divided by the ranks twice => values ranks-twice  from: one device's peak for all tokens
# ~ rate *= ==> rate /=

# %% wrong: in per cent => values percent  from: one device's peak for all tokens
# ~ rate *= run["ranks"] ==> rate *= 100

# %% wrong: whatever comes out => values accepts-clock-did-not-wait  from: step by step
# ~ sum(timed) < 0.9 * run["wall_seconds"] ==> False

# %% wrong: shaky runs pass => values accepts-not-steady  from: step by step
# ~ timed[9 * n // 10] > 3 * timed[n // 10] ==> False

# %% wrong: above the roof is fine => values accepts-above-the-roof  from: step by step
# ~ rate / middle > 1.02 ==> False

# %% wrong: nothing is refused => values accepts-no-warm-up  from: step by step
#       rate = run["model_flops_per_token"] * run["tokens_per_step"] / run["ranks"] / run["dense_flops"][run["dtype"]]
# +     return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10]

# %% wrong: the roof is asked first => generality other-reason  from: step by step
#       rate = run["model_flops_per_token"] * run["tokens_per_step"] / run["ranks"] / run["dense_flops"][run["dtype"]]
# +     if rate / middle > 1.02:
# +         return "above the roof"

# %% wrong: too few steps before the warm-up => generality other-reason  from: step by step
# ~ if run["warm_up"] < 1: ==> if run["warm_up"] < 1 and n >= 5:

# %% wrong: steadiness before the clock => generality other-reason  from: step by step
# ~ 0.9 * run["wall_seconds"] ==> 0.9 * run["wall_seconds"] and timed[9 * n // 10] <= 3 * timed[n // 10]

# %% wrong: the fast end above the roof => generality refuses-sound  from: step by step
# ~ if rate / middle > 1.02 ==> if rate / timed[n // 10] > 1.02

# %% wrong: five steps are too few => generality refuses-sound  from: step by step
# ~ if n < 5 ==> if n < 6

# %% wrong: None for a refusal => values returned-none  from: step by step
# ~ return "not steady" ==> return None

# %% wrong: low and high exchanged => values turned-round  from: step by step
# ~ rate / timed[9 * n // 10], rate / timed[n // 10] ==> rate / timed[n // 10], rate / timed[9 * n // 10]

# %% wrong: the slowest and the fastest step => values extremes  from: step by step
# ~ rate / timed[9 * n // 10], rate / timed[n // 10] ==> rate / timed[-1], rate / timed[0]

# %% wrong: everything is refused => values refuses-sound  from: step by step
# ~ return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10] ==> return "not steady"

# %% wrong: always bf16 => generality other-dtype  from: step by step
#   def honest_mfu(run):
# +     run = run | {"dtype": "bfloat16" if "bfloat16" in run["dense_flops"] else run["dtype"]}

# %% wrong: one number => values wrong-shape  from: step by step
# ~ return rate / middle, rate / timed[9 * n // 10], rate / timed[n // 10] ==> return rate / middle
"""
