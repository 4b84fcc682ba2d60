"""Judge of the honest MFU: raw steps of recorded and of made-up runs, and logs that show no MFU at all."""

from __future__ import annotations

import copy
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from course_lib.exercises.ch15.cards.links import LEAST, REASONS, ROOF, SPREAD, WAITED
from course_lib.exercises.ch15.links_work import as_run, peaks_of
from course_lib.judging import Fault, Judging, Params, describe, is_number, near, verdict
from course_lib.judging.optional_columns import results, told
from course_lib.records import Case, Outcome, Verdict
from course_lib.runs.reading import recorded, recorded_names

CLOSE = 1e-6
Run = dict[str, Any]
Found = tuple[float, float, float] | str


def step_seconds(run: Run, of: Callable[[Sequence[float]], float] = max, warm: bool = False) -> list[float]:
    """Seconds of the timed steps, sorted; of each step what `of` makes of its ranks."""
    steps: dict[int, list[float]] = {}
    for row in sorted(run["rows"], key=lambda row: row["rank"]):
        steps.setdefault(row["step"], []).append(row["seconds"])
    return sorted(of(ranks) for step, ranks in steps.items() if warm or step >= run["warm_up"])


def mfu(run: Run, seconds: float, flops: str = "model_flops_per_token", peak: str = "dense_flops") -> float:
    """The fraction of the peak that a step of these seconds uses."""
    return run[flops] * run["tokens_per_step"] / seconds / (run["ranks"] * run[peak][run["dtype"]])


def honest(run: Run) -> Found:
    """(MFU, low end, high end), or the first reason why there is none."""
    t = step_seconds(run)
    n = len(t)
    if run["warm_up"] < 1:
        return "no warm-up"
    if n < LEAST:
        return "too few steps"
    if sum(t) < WAITED * run["wall_seconds"]:
        return "clock did not wait"
    fast, slow = t[n // 10], t[9 * n // 10]
    if slow > SPREAD * fast:
        return "not steady"
    middle = mfu(run, statistics.median(t))
    return "above the roof" if middle > ROOF else (middle, mfu(run, slow), mfu(run, fast))


# --- runs


def gpu_run(rng: random.Random, device: str, ranks: int = 8, *, narrow: bool = False, used: float | None = None) -> Run:
    """A run that used this share of the device: warm-up, steps, a rank behind the others now and then."""
    peaks = peaks_of(device)
    dtype = "float8" if narrow and "float8" in peaks["dense_flops"] else "bfloat16"
    params, per_rank = rng.choice((1.2e9, 7e9, 13e9)), rng.choice((8192, 16_384, 32_768))
    used = used or rng.uniform(0.25, 0.45)
    work = 6 * params
    step = work * per_rank / (used * peaks["dense_flops"][dtype])
    warm_up, count = rng.choice((2, 3, 5)), rng.choice((11, 16, 20, 30))
    late = rng.randrange(1, ranks) if ranks > 1 else 0  # never the first rank: whose log is easiest to read
    rows = []
    for number in range(warm_up + count):
        pace = step * (
            rng.uniform(2, 6) if number < warm_up else rng.choice((1, 1, 1, 1, 1.3)) * rng.uniform(0.98, 1.02)
        )
        rows += [
            {
                "step": number,
                "rank": rank,
                "seconds": pace * (rng.uniform(1.06, 1.12) if rank == late else rng.uniform(0.9, 0.97)),
            }
            for rank in range(ranks)
        ]
    rng.shuffle(rows)
    run = {
        "rows": rows,
        "warm_up": warm_up,
        "wall_seconds": 0.0,
        "tokens_per_step": per_rank * ranks,
        "model_flops_per_token": work,
        "hardware_flops_per_token": work * 4 / 3,
        "ranks": ranks,
        "dtype": dtype,
        **peaks,
    }
    return _waited(run)


def _waited(run: Run) -> Run:
    """The run, its wall time that of its steps."""
    return run | {"wall_seconds": 1.01 * sum(step_seconds(run))}


def _cold(run: Run, rng: random.Random) -> Run:
    return _waited(run | {"warm_up": 0})


def _short(run: Run, rng: random.Random) -> Run:
    return _of_length(run, rng.choice((2, LEAST - 1)))


def _launched(run: Run, rng: random.Random, low: float = 0.5, high: float = 0.8) -> Run:
    """The clock missed a part of each step, for which the device was still busy: too little to reach the roof."""
    share = rng.uniform(low, high)
    return run | {"rows": [row | {"seconds": row["seconds"] * share} for row in run["rows"]]}


def _shaken(run: Run, rng: random.Random) -> Run:
    """A quarter of the steps and more take far longer."""
    slow = {step for step in range(run["warm_up"], 10**4) if step % 3 == 0}
    return _waited(
        run
        | {
            "rows": [
                row | {"seconds": row["seconds"] * (rng.uniform(5, 9) if row["step"] in slow else 1)}
                for row in run["rows"]
            ]
        }
    )


def _above(run: Run, rng: random.Random) -> Run:
    """Steps that the clock saw whole, and a count of FLOPs that no device can have done."""
    return _used(run, rng.uniform(1.3, 3))


def _used(run: Run, share: float) -> Run:
    """The run with so many FLOPs that its median step uses this share of the peak."""
    return run | {
        "model_flops_per_token": run["model_flops_per_token"] * share / mfu(run, statistics.median(step_seconds(run)))
    }


def _of_length(run: Run, steps: int) -> Run:
    """The run with so many timed steps."""
    return _waited(run | {"rows": [row for row in run["rows"] if row["step"] < run["warm_up"] + steps]})


def _close(rng: random.Random) -> list[Run]:
    """Runs at the edge of a question, and some to which two questions apply."""
    one, two, three, four = (gpu_run(rng, "H100 SXM", used=rng.uniform(0.3, 0.5)) for _ in range(4))
    return [
        _used(one, 1.01),
        _of_length(two, LEAST),
        _of_length(three, LEAST + 1),
        _of_length(_cold(two, rng), 3),
        _launched(_shaken(one, rng), rng),
        _launched(_of_length(four, 3), rng),
        _used(_shaken(three, rng), 2.0),
    ]


DOCTORED: Mapping[str, Callable[[Run, random.Random], Run]] = {
    "no warm-up": _cold,
    "too few steps": _short,
    "clock did not wait": _launched,
    "not steady": _shaken,
    "above the roof": _above,
}


@cache
def recorded_runs() -> dict[str, Run]:
    """Recorded trainings as `honest_mfu` takes them, by name."""
    return {
        name: as_run(recorded(name))
        for name in recorded_names("train")
        if recorded(name)["measured"].get("model_flops_per_step")
    }


def _cases(params: Params, rng: random.Random) -> list[Case]:
    device = params["device"]
    own = next(iter(recorded_runs().items()))
    eight = gpu_run(rng, device)
    shown = {
        f"recorded, {own[0]}": own[1],
        f"eight {device}": eight,
        "one of them": gpu_run(rng, device, 1),
        **{f"the eight: {reason}": change(copy.deepcopy(eight), rng) for reason, change in DOCTORED.items()},
    }
    unseen = list(recorded_runs().values())
    for _ in range(12):
        made = gpu_run(
            rng,
            rng.choice(("H100 SXM", "A100 SXM 80GB", "B200 SXM")),
            rng.choice((1, 2, 4, 8)),
            narrow=rng.random() < 0.4,
        )
        unseen += [made, rng.choice(list(DOCTORED.values()))(copy.deepcopy(made), rng)]
    unseen += [change(gpu_run(rng, "H100 SXM", used=rng.uniform(0.3, 0.9)), rng) for change in DOCTORED.values()]
    unseen.append(
        _launched(gpu_run(rng, "H100 SXM"), rng, 0.01, 0.1)
    )  # launches alone: above the roof, too, but the clock comes first
    unseen += _close(rng)
    return [
        Case(name="shown", args=(0, [(run,) for run in shown.values()]), secret=list(shown)),
        Case(name="other runs", args=(0, [(run,) for run in unseen]), kind="generality", visible=False),
    ]


# --- verdicts

_SLIPS: Sequence[tuple[str, Callable[[Run], float], str]] = (
    (
        "warm-up-counted",
        lambda run: mfu(run, statistics.median(step_seconds(run, warm=True))),
        "the warm-up is among the steps.",
    ),
    (
        "low-median",
        lambda run: mfu(run, statistics.median_low(step_seconds(run))),
        "with an even number of steps the median lies between the two in the middle.",
    ),
    (
        "low-median",
        lambda run: mfu(run, statistics.median_high(step_seconds(run))),
        "with an even number of steps the median lies between the two in the middle.",
    ),
    (
        "mean",
        lambda run: mfu(run, statistics.fmean(step_seconds(run))),
        "that is the mean step; the median one is asked for.",
    ),
    ("fastest", lambda run: mfu(run, step_seconds(run)[0]), "that is the fastest step."),
    (
        "mean-rank",
        lambda run: mfu(run, statistics.median(step_seconds(run, statistics.fmean))),
        "a step lasts until its slowest rank is through, not the mean one.",
    ),
    (
        "first-rank",
        lambda run: mfu(run, statistics.median(step_seconds(run, lambda ranks: ranks[0]))),
        "that is rank 0's clock; another rank was still at work.",
    ),
    (
        "fastest-rank",
        lambda run: mfu(run, statistics.median(step_seconds(run, min))),
        "that is the first rank to be through; another was still at work.",
    ),
    (
        "all-rows",
        lambda run: mfu(run, statistics.median(row["seconds"] for row in run["rows"] if row["step"] >= run["warm_up"])),
        "that is the median of all ranks' rows; first one number for each step.",
    ),
    (
        "sparse-peak",
        lambda run: mfu(run, statistics.median(step_seconds(run)), peak="sparse_flops"),
        "that is against the sparse peak.",
    ),
    (
        "recomputed",
        lambda run: mfu(run, statistics.median(step_seconds(run)), flops="hardware_flops_per_token"),
        "what is computed again is no model FLOP: that would be HFU.",
    ),
    (
        "one-device",
        lambda run: mfu(run, statistics.median(step_seconds(run))) * run["ranks"],
        "the tokens are those of all ranks, the peak that of one device.",
    ),
    (
        "ranks-twice",
        lambda run: mfu(run, statistics.median(step_seconds(run))) / run["ranks"],
        "the tokens of all ranks were divided by the ranks twice.",
    ),
    ("percent", lambda run: 100 * mfu(run, statistics.median(step_seconds(run))), "give a fraction, not per cent."),
    (
        "other-dtype",
        lambda run: (
            mfu(run | {"dtype": "bfloat16"}, statistics.median(step_seconds(run)))
            if "bfloat16" in run["dense_flops"]
            else 0.0
        ),
        "the peak is that of another dtype.",
    ),
)


def _is_triple(got: Any) -> bool:
    return type(got) in (tuple, list) and len(got) == 3


def _shape_fault(where: str, got: Any) -> Fault:
    name = "returned-none" if got is None else "wrong-shape"
    return name, f"{where}: return (mfu, low, high) or one of {', '.join(REASONS)}; got {describe(got)}."


def _seen(run: Run) -> Mapping[str, str]:
    """What each question finds in a run."""
    t = step_seconds(run)
    n = len(t)
    return {
        "no warm-up": f"{run['warm_up']} steps are left out",
        "too few steps": f"{n} steps are timed",
        "clock did not wait": f"with every step as long as its slowest rank they add up to {sum(t) / run['wall_seconds']:.0%} of the wall clock's seconds",
        "not steady": f"the slow end takes {t[9 * n // 10] / t[n // 10]:.3g} times as long as the fast end",
        "above the roof": f"the median step uses {mfu(run, statistics.median(t)):.3g} of what all {run['ranks']} devices could do",
    }


def _mfu_fault(where: str, run: Run, got: Any, want: tuple[float, float, float]) -> Fault | None:
    if type(got) is str and got.strip().lower() in REASONS:
        return (
            "refuses-sound",
            f"{where}: {got!r} is said, and this log has nothing of that: {_seen(run)[got.strip().lower()]}.",
        )
    if not _is_triple(got):
        return _shape_fault(where, got)
    if not is_number(got[0]):
        return "not-a-number", f"{where}: the MFU is a fraction; got {describe(got[0])}."
    if near(got[0], want[0], CLOSE):
        return None
    for name, way, message in _SLIPS:
        if near(got[0], way(run), CLOSE):
            return name, f"{where}: {message}"
    return "other-number", f"{where}: your MFU is {got[0] / want[0]:.4g} times ours."


def _ends_fault(where: str, run: Run, got: Any, want: tuple[float, float, float]) -> Fault | None:
    if not _is_triple(got):
        return (
            _shape_fault(where, got)
            if type(got) is not str
            else ("refuses-sound", f"{where}: there is an MFU here, and an interval.")
        )
    if all(near(one, other, CLOSE) for one, other in zip(got[1:], want[1:], strict=True)):
        return None
    if near(got[1], want[2], CLOSE) and near(got[2], want[1], CLOSE):
        return "turned-round", f"{where}: slow steps make the low end."
    t = step_seconds(run)
    if near(got[1], mfu(run, t[-1]), CLOSE) or near(got[2], mfu(run, t[0]), CLOSE):
        return (
            "extremes",
            f"{where}: one end is that of the slowest or the fastest step; the slow tenth and the fast tenth are asked for.",
        )
    return (
        "other-ends",
        f"{where}: the ends are those of t[9n // 10] and t[n // 10]; yours are {describe(got[1])} and {describe(got[2])}.",
    )


def _refusal_fault(where: str, got: Any, want: str) -> Fault | None:
    if type(got) is str and got.strip().lower() == want:
        return None
    if _is_triple(got):
        messages = {
            "no warm-up": "nothing was left out",
            "too few steps": "count the timed steps",
            "clock did not wait": "compare the steps with the wall clock",
            "not steady": "compare both ends",
            "above the roof": f"{describe(got[0])} of the peak",
        }
        return f"accepts-{want.replace(' ', '-')}", f"{where}: there is no MFU to give here: {messages[want]}."
    if type(got) is str and got.strip().lower() in REASONS:
        return "other-reason", f"{where}: {got!r} is said; the first reason in the order of the list counts."
    return _shape_fault(where, got)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    parts = ("mfu", "ends", "refusals")
    found = results(case, outcome.value, parts)
    if told(found):
        return list(found)
    faults: dict[str, Fault | None] = dict.fromkeys(parts)
    for place, ((run,), got) in enumerate(zip(case.args[1], found, strict=True)):
        where, want = (case.secret or {})[place] if case.secret else case.name, honest(run)
        if isinstance(want, str):
            faults["refusals"] = faults["refusals"] or _refusal_fault(where, got, want)
        else:
            faults["mfu"] = faults["mfu"] or _mfu_fault(where, run, got, want)
            faults["ends"] = faults["ends"] or _ends_fault(where, run, got, want)
    return [verdict(case.kind, part, case, fault) for part, fault in faults.items()]


RATES = {
    "honest-mfu": Judging(
        shares={
            "values:mfu": 0.25,
            "values:ends": 0.1,
            "values:refusals": 0.2,
            "generality:mfu": 0.2,
            "generality:ends": 0.05,
            "generality:refusals": 0.2,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="An MFU is a fraction of a roof, so it takes the right roof: dense, of this dtype, of all devices. Ranks work in step, and the slowest one says when a step is "
        "over. First steps compile and allocate; they say nothing of the thousandth. And a number above the roof, or steps that do not add up to the wall clock, "
        "are a finding about the clock, not about the machine: no MFU follows.",
        pytorch="`torch.cuda.synchronize()` before each reading; torchtitan's metrics and `course_lib.runs.gates` ask the same questions of a log.",
    )
}
