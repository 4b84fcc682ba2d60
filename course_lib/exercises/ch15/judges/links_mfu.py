"""Judge of the honest MFU: raw steps of recorded and of made-up runs, and logs that allow no MFU at all."""

import copy
import random
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from course_lib.exercises.ch15.cards.links import REASONS
from course_lib.exercises.ch15.judges.diagnosis import plain
from course_lib.exercises.ch15.judges.links_logs import (
    DOCTORED,
    Run,
    close,
    gpu_run,
    honest,
    launched,
    mfu,
    step_seconds,
    typical,
)
from course_lib.exercises.ch15.links_work import as_run
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, is_number, matching, near, verdict
from course_lib.judging.columns import FINE, rows_fault
from course_lib.judging.draws import generality
from course_lib.records import Case, Outcome, Verdict
from course_lib.runs.reading import recorded, recorded_names

DEVICES = ("H100 SXM", "A100 SXM 80GB", "B200 SXM")


@cache
def recorded_runs() -> dict[str, Run]:
    """Recorded trainings as `honest_mfu` takes them, by name."""
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
        made = gpu_run(rng, rng.choice(DEVICES), rng.choice((1, 2, 4, 8)), narrow=rng.random() < 0.4)
        unseen += [made, rng.choice(list(DOCTORED.values()))(copy.deepcopy(made), rng)]
    unseen += [change(gpu_run(rng, "H100 SXM", used=rng.uniform(0.3, 0.9)), rng) for change in DOCTORED.values()]
    # launches alone: above the roof as well, but the clock comes first
    unseen.append(launched(gpu_run(rng, "H100 SXM"), rng, 0.01, 0.1))
    unseen += close(rng)
    return [
        Case(name="shown", args=(0, [(run,) for run in shown.values()]), secret=list(shown)),
        generality("", 0, "other runs", [(run,) for run in unseen]),
    ]


# --- verdicts


def _all_rows(run: Run) -> float:
    return mfu(run, statistics.median(row["seconds"] for row in run["rows"] if row["step"] >= run["warm_up"]))


def _in_bfloat16(run: Run) -> float | None:
    return typical(run | {"dtype": "bfloat16"}) if "bfloat16" in run["dense_flops"] else None


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
    Mistake("sparse-peak", partial(typical, peak="sparse_flops"), "this is relative to the sparse peak."),
    Mistake("recomputed", partial(typical, flops="hardware_flops_per_token"), "recomputed work is not a model FLOP."),
    Mistake("one-device", lambda run: typical(run) * run["ranks"], "the peak is that of one device."),
    Mistake("ranks-twice", lambda run: typical(run) / run["ranks"], "you divided by the ranks twice."),
    Mistake("percent", lambda run: 100 * typical(run), "return a fraction, not per cent."),
    Mistake("other-dtype", _in_bfloat16, "this is the peak of another dtype."),
)


def _evidence(run: Run) -> Mapping[str, str]:
    """What each question finds in a run."""
    t = step_seconds(run)
    n = len(t)
    return {
        "no warm-up": f"{run['warm_up']} steps are left out",
        "too few steps": f"{n} steps are timed",
        "clock did not wait": f"the timed steps add up to {sum(t) / run['wall_seconds']:.0%} of the wall clock's seconds",
        "not steady": f"the slow end takes {t[9 * n // 10] / t[n // 10]:.3g} times as long as the fast end",
        "above the roof": f"the median step uses {typical(run):.3g} of what all {run['ranks']} devices can do",
    }


COMPARE = {
    "no warm-up": "nothing was left out",
    "too few steps": "count the timed steps",
    "clock did not wait": "compare the steps with the wall clock",
    "not steady": "compare both ends",
    "above the roof": "compare it with the peak",
}


def _shape_fault(where: str, got: Any) -> Fault | None:
    """What keeps a value from being three values or one of the reasons."""
    if (type(got) in (tuple, list) and len(got) == 3) or (type(got) is str and plain(got) in REASONS):
        return None
    name = "returned-none" if got is None else "wrong-shape"
    return name, f"{where}: return (mfu, low, high) or one of {', '.join(map(repr, REASONS))}; got {describe(got)}."


def _mfu_fault(where: str, run: Run, got: Any, want: Sequence[float]) -> Fault | None:
    if type(got) is str:
        return "refuses-sound", f"{where}: you say {got!r}, but this log is sound: {_evidence(run)[plain(got)]}."
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
        return (
            "extremes",
            f"{where}: one end is the slowest or the fastest step; use the slow tenth and the fast tenth.",
        )
    ends = f"{describe(got[1])} and {describe(got[2])}"
    return "other-ends", f"{where}: the ends are those of t[9n // 10] and t[n // 10]; yours are {ends}."


def _refusal_fault(where: str, got: Any, want: str) -> Fault | None:
    if type(got) is not str:
        return f"accepts-{want.replace(' ', '-')}", f"{where}: this log has no MFU: {COMPARE[want]}."
    if plain(got) == want:
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
            faults["refusals"].append(shape or _refusal_fault(where, got, want))
        else:
            faults["mfu"].append(shape or _mfu_fault(where, run, got, want))
            faults["ends"].append(shape or _ends_fault(where, run, got, want))
    return [verdict(case.kind, part, case, first(*found)) for part, found in faults.items()]


RATES = {
    "honest-mfu": Judging(
        shares="values:mfu 0.25, values:ends 0.1, values:refusals 0.2, generality:mfu 0.2, generality:ends 0.05, "
        "generality:refusals 0.2",
        cases=_cases,
        verdicts=_verdicts,
        why="An MFU is a fraction of a peak, so use the right one: dense, of this dtype, of all devices. Ranks work in "
        "step, and the slowest one decides when a step is over. The first steps compile and allocate; they say nothing "
        "about the thousandth. A number above the peak, or steps that do not add up to the wall clock, say something "
        "about the clock and nothing about the machine: no MFU follows.",
        pytorch="Call `torch.cuda.synchronize()` before each reading; torchtitan's metrics and `course_lib.runs.gates` "
        "ask the same questions of a log.",
    )
}
