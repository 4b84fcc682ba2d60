"""Training logs as the judge of the honest MFU draws them: sound and doctored ones, and the right answer to each."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch15.cards.links import LEAST, ROOF, SPREAD, WAITED
from course_lib.exercises.ch15.links_work import peaks_of

Run = dict[str, Any]
Found = tuple[float, float, float] | str


def step_seconds(run: Run, of: Callable[[Sequence[float]], float] = max, warm: bool = False) -> list[float]:
    """Sorted seconds of the timed steps, each `of` its ranks' seconds; with `warm`, of all steps."""
    steps: dict[int, list[float]] = {}
    for row in sorted(run["rows"], key=lambda row: row["rank"]):
        steps.setdefault(row["step"], []).append(row["seconds"])
    return sorted(of(ranks) for step, ranks in steps.items() if warm or step >= run["warm_up"])


def mfu(run: Run, seconds: float, flops: str = "model_flops_per_token", peak: str = "dense_flops") -> float:
    """The fraction of the peak that a step of these seconds uses."""
    return run[flops] * run["tokens_per_step"] / seconds / (run["ranks"] * run[peak][run["dtype"]])


def typical(
    run: Run,
    middle: Callable[..., float] = statistics.median,
    flops: str = "model_flops_per_token",
    peak: str = "dense_flops",
    **how: Any,
) -> float:
    """The MFU of the middle step; `how` changes what `step_seconds` takes of the ranks and steps."""
    return mfu(run, middle(step_seconds(run, **how)), flops, peak)


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
    """A run that used this share of the device: warm-up, steps, one rank slower than the others."""
    peaks = peaks_of(device)
    dtype = "float8" if narrow and "float8" in peaks["dense_flops"] else "bfloat16"
    work, per_rank = 6 * rng.choice((1.2e9, 7e9, 13e9)), rng.choice((8192, 16_384, 32_768))
    step = work * per_rank / ((used or rng.uniform(0.25, 0.45)) * peaks["dense_flops"][dtype])
    warm_up, count = rng.choice((2, 3, 5)), rng.choice((11, 16, 20, 30))
    late = rng.randrange(1, ranks) if ranks > 1 else 0  # never the first rank, whose log is easiest to read
    rows = []
    for number in range(warm_up + count):
        usual = number >= warm_up
        pace = step * (rng.choice((1, 1, 1, 1, 1.3)) * rng.uniform(0.98, 1.02) if usual else rng.uniform(2, 6))
        for rank in range(ranks):
            seconds = pace * (rng.uniform(1.06, 1.12) if rank == late else rng.uniform(0.9, 0.97))
            rows.append({"step": number, "rank": rank, "seconds": seconds})
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


def _scaled(run: Run, factor: Callable[[int], float]) -> Run:
    """The run with each row's seconds times a factor of its step."""
    return run | {"rows": [row | {"seconds": row["seconds"] * factor(row["step"])} for row in run["rows"]]}


def launched(run: Run, rng: random.Random, low: float = 0.5, high: float = 0.8) -> Run:
    """The clock missed a part of each step, in which the device was still busy; the roof alone does not show it."""
    share = rng.uniform(low, high)
    return _scaled(run, lambda step: share)


def _shaken(run: Run, rng: random.Random) -> Run:
    """A third of the steps take far longer."""
    return _waited(_scaled(run, lambda step: rng.uniform(5, 9) if step >= run["warm_up"] and step % 3 == 0 else 1))


def _used(run: Run, share: float) -> Run:
    """The run with so many FLOPs that its median step uses this share of the peak."""
    return run | {"model_flops_per_token": run["model_flops_per_token"] * share / typical(run)}


def _of_length(run: Run, steps: int) -> Run:
    """The run with so many timed steps."""
    return _waited(run | {"rows": [row for row in run["rows"] if row["step"] < run["warm_up"] + steps]})


def _at_a_limit(seconds: Sequence[float], wall: float, share: float) -> Run:
    """One warm-up step, then steps of these seconds, the median a power of two, in numbers that no product rounds."""
    peak, ranks, tokens = 1e15, 4, 2**16
    rows = [{"step": step, "rank": 0, "seconds": each} for step, each in enumerate([64.0, *seconds])]
    work = share * peak * statistics.median(seconds) * ranks / tokens
    run = {"rows": rows, "warm_up": 1, "wall_seconds": wall, "tokens_per_step": tokens, "ranks": ranks}
    flops = {"model_flops_per_token": work, "hardware_flops_per_token": 1.5 * work}
    return (
        run | flops | {"dtype": "bfloat16", "dense_flops": {"bfloat16": peak}, "sparse_flops": {"bfloat16": 2 * peak}}
    )


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
    ]


DOCTORED: Mapping[str, Callable[[Run, random.Random], Run]] = {
    "no warm-up": lambda run, rng: _waited(run | {"warm_up": 0}),
    "too few steps": lambda run, rng: _of_length(run, rng.choice((2, LEAST - 1))),
    "clock did not wait": launched,
    "not steady": _shaken,
    "above the roof": lambda run, rng: _used(run, rng.uniform(1.3, 3)),  # more FLOPs than any device can do
}
