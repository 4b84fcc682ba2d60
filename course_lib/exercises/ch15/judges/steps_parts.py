"""Judge of where the time of a step goes: means that add up, occasional checkpoints, two theories, a part that takes no time."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from course_lib.exercises.ch15.steps_runs import parted
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import FINE, Breakdown, Column, Word, one_verdict, table
from course_lib.judging.draws import generality, plain
from course_lib.records import Case, Outcome, Verdict

Rows = Sequence[Mapping[str, Any]]
Alone = Mapping[str, float]  # seconds of each part of a step, timed by itself
Seconds = dict[str, float]
THEORIES = ("sum", "max")


# --- where a step goes


def where_it_goes(rows: Rows, warm_up: int, every: int, middle: Callable[..., float] = fmean) -> Seconds:
    """Seconds per step by part, with the checkpoint spread over `every` steps, and the rest as "other"."""
    timed = rows[warm_up:]
    names = sorted({name for row in timed for name in row["parts"]} - {"checkpoint"})
    found = {name: middle(row["parts"].get(name, 0.0) for row in timed) for name in names}
    found["other"] = middle(row["seconds"] - sum(row["parts"].values()) for row in timed)
    found["checkpoint"] = middle(saved) / every if (saved := saves(timed)) else 0.0
    return found


def saves(rows: Rows) -> list[float]:
    """Seconds of each checkpoint."""
    return [row["parts"]["checkpoint"] for row in rows if row["parts"].get("checkpoint")]


def _every_checkpoint(rows: Rows, middle: Callable[..., float]) -> float:
    return middle(row["parts"].get("checkpoint", 0.0) for row in rows)


def _in_other(rows: Rows, warm_up: int, every: int) -> Seconds:
    found = where_it_goes(rows, warm_up, every)
    return {**found, "other": found["other"] + _every_checkpoint(rows[warm_up:], fmean)}


def _where_present(rows: Rows, warm_up: int, every: int) -> Seconds:
    names = where_it_goes(rows, warm_up, every).keys() - {"other", "checkpoint"}
    return {name: fmean(row["parts"][name] for row in rows[warm_up:] if name in row["parts"]) for name in names}


def _totals(rows: Rows, warm_up: int, every: int) -> Seconds:
    return {name: value * len(rows[warm_up:]) for name, value in where_it_goes(rows, warm_up, every).items()}


def _medians(rows: Rows, warm_up: int, every: int) -> Seconds:
    checkpoint = _every_checkpoint(rows[warm_up:], median)
    return {**where_it_goes(rows, warm_up, every, median), "checkpoint": checkpoint}


def _checkpoint(of: Callable[[Rows], float]) -> Callable[[Rows, int, int], Seconds]:
    return lambda rows, warm_up, every: {"checkpoint": of(rows[warm_up:])}


_whole = _checkpoint(lambda timed: fmean(saves(timed) or [0.0]))
_by_chance = _checkpoint(lambda timed: sum(saves(timed)) / len(timed))
WHERE = Breakdown(
    part="parts",
    unit="seconds",
    want=where_it_goes,
    words=lambda rows, warm_up, every: f"{len(rows)} steps, {warm_up} of warm-up, a checkpoint every {every}",
    mistakes=(
        Mistake("warm-up-counted", lambda rows, _, every: where_it_goes(rows, 0, every), "the warm-up was counted."),
        Mistake("medians", _medians, "medians do not add up to the step, and they drop rare parts; return means."),
        Mistake("totals", _totals, "this is the total of all timed steps; return seconds per step."),
        Mistake("checkpoint-not-shared-out", _whole, "this is a whole checkpoint; one is written every few steps."),
        Mistake("checkpoint-by-chance", _by_chance, "this depends on how many checkpoints the log happens to hold."),
        Mistake("checkpoint-in-other", _in_other, "this includes the checkpoint, which is a part of its own."),
        Mistake("only-where-present", _where_present, "a row without the part counts too: it took no time there."),
    ),
)


# --- two theories of a step


def theories(alone: Alone, rest: bool = True) -> tuple[float, float]:
    """Seconds of a step if everything adds up, and if the shorter of computing and communicating is hidden."""
    compute, talk = alone["compute"], alone["communication"]
    more = sum(alone.values()) - compute - talk if rest else 0.0
    return compute + talk + more, max(compute, talk) + more


def nearer(alone: Alone, measured: float, rest: bool = True) -> str:
    """The theory whose seconds are nearer."""
    both, longer = theories(alone, rest)
    return "sum" if abs(measured - both) <= abs(measured - longer) else "max"


def _unclipped(alone: Alone, measured: float, of: Callable[..., float] = min, rest: bool = True) -> float:
    over = of(alone["compute"], alone["communication"])
    return (theories(alone, rest)[0] - measured) / over if over else 0.0


def hidden(alone: Alone, measured: float, **how: Any) -> float:
    """The share of the shorter that was hidden, between 0 and 1."""
    return min(max(_unclipped(alone, measured, **how), 0.0), 1.0)


def _timed(alone: Alone, measured: float) -> str:
    return f"alone {dict(alone)}, measured {measured:g} s"


SHORTER = "only the shorter of the two can be hidden; return its share."
REST = "the other parts are missing; they take their time in both theories."
THEORY = Word(
    part="theory",
    choices=THEORIES,
    want=nearer,
    words=_timed,
    mistakes=(
        Mistake("rest-forgotten", partial(nearer, rest=False), REST),
        Mistake("other-theory", lambda *row: {"sum": "max", "max": "sum"}[nearer(*row)], "the other theory is nearer."),
    ),
)
HIDDEN = Column(
    part="hidden",
    unit="(a share)",
    want=hidden,
    words=_timed,
    rel=FINE,
    mistakes=(
        Mistake("of-communication", partial(hidden, of=lambda compute, talk: talk), SHORTER),
        Mistake("of-compute", partial(hidden, of=lambda compute, talk: compute), SHORTER),
        Mistake("of-the-longer", partial(hidden, of=max), SHORTER),
        Mistake("not-held", _unclipped, "a share lies between 0 and 1."),
        Mistake("exposed", lambda *row: 1 - hidden(*row), "this is the share that was not hidden."),
        Mistake("rest-forgotten", partial(hidden, rest=False), REST),
    ),
)


# --- a part that is free


def _rate(parts: Alone, tokens: int) -> float:
    return tokens / sum(parts.values())


def _rate_without(parts: Alone, tokens: int, name: str) -> float:
    return tokens / (sum(parts.values()) - parts.get(name, 0.0))


WITHOUT = Column(
    part="without",
    unit="tokens/s",
    want=_rate_without,
    words=lambda parts, tokens, name: f"{tokens:,} tokens without {name!r}",
    rel=FINE,
    mistakes=(
        Mistake(
            "nothing-free", lambda p, n, name: _rate(p, n) if name in p else None, "this is the whole step's rate."
        ),
        Mistake("part-alone", lambda p, n, name: n / p[name] if p.get(name) else None, "this is the part's own rate."),
        Mistake("factor", lambda p, n, name: _rate_without(p, n, name) / _rate(p, n), "return tokens per second."),
        Mistake("seconds", lambda p, n, name: n / _rate_without(p, n, name), "return tokens per second."),
        Mistake("gained", lambda p, n, name: _rate_without(p, n, name) - _rate(p, n), "this is the gain only."),
    ),
)


# --- the cases


def log(
    rng: random.Random, first: int, count: int, every: int, saves_too: bool = True, gaps: bool = False
) -> list[dict[str, Any]]:
    """Steps of a run: slow ones first, a loader that sometimes stalls, checkpoints; with `gaps` some parts are missing."""
    rows = []
    for step in range(first, first + count):
        slow = 1 + 4 * rng.random() * (step < first + 2)
        parts = {
            "data": rng.choice((0.004, 0.005, 0.006, 0.09)),
            "forward": rng.uniform(0.1, 0.12) * slow,
            "backward": rng.uniform(0.2, 0.23) * slow,
            "communication": rng.uniform(0.04, 0.08),
            "optimizer": rng.uniform(0.01, 0.02),
        }
        if gaps and rng.random() < 0.4:
            del parts[rng.choice(("data", "communication"))]
        if saves_too and (step + 1) % every == 0:
            parts["checkpoint"] = rng.uniform(1.5, 2.5)
        rows.append({"step": step, "seconds": sum(parts.values()) + rng.uniform(0.01, 0.03), "parts": parts})
    return rows


def alone(rng: random.Random, count: int) -> list[tuple[Seconds, float]]:
    """Parts timed alone with a real step; the two theories are never equally near."""
    rows: list[tuple[Seconds, float]] = []
    while len(rows) < count:
        parts = {"compute": rng.uniform(0.05, 1.0), "communication": rng.uniform(0.05, 1.0)} | rng.choice(
            ({}, {"optimizer": rng.uniform(0.01, 0.9)}, {"data": 0.3, "optimizer": 0.2})
        )
        measured = theories(parts)[0] - rng.uniform(-0.2, 1.1) * min(parts["compute"], parts["communication"])
        if abs(_unclipped(parts, measured) - 0.5) > 0.05:
            rows.append((parts, measured))
    return rows


def _of_both(rng: random.Random) -> list[tuple[Seconds, float]]:
    """Six steps of both theories: neither one name nor one share is right for all."""
    while True:
        rows = alone(rng, 6)
        if len({nearer(*row) for row in rows}) == len(THEORIES):
            return rows


def _other_log(rng: random.Random) -> tuple[Any, ...]:
    every, warm_up = rng.choice((1, 3, 7, 10)), rng.randrange(0, 6)
    first, count = rng.randrange(0, 40), warm_up + rng.randrange(5, 30)
    return log(rng, first, count, every, rng.random() < 0.7, rng.random() < 0.6), warm_up, every


def _other_parts(rng: random.Random) -> tuple[Any, ...]:
    parts = dict(zip("abcd", (rng.uniform(0.01, 1) for _ in range(4)), strict=True))
    return parts, rng.randrange(1, 99_999), rng.choice("abcde")


def _alone(compute: float, communication: float, **more: float) -> Seconds:
    return {"compute": compute, "communication": communication, **more}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    warm, every = params["warm_up"], params["every"]
    first = 3 * every - 1 - warm  # the log holds three checkpoints in little more than two periods
    own = log(random.Random(1), first, warm + 2 * every + 1, every)
    steps = where_it_goes(own, warm, every)
    real = [(rows, min(3, len(rows) - 1), every) for rows in parted().values()]
    example = [(_alone(0.4, 0.1), 0.42), (_alone(0.2, 0.5, optimizer=0.4), 1.08), (_alone(0.3, 0.2), 0.6)]
    # the first is nearer to the longer in seconds, and to the sum in ratios
    edges = [(_alone(0.3, 0.3), 0.435), (_alone(0.5, 0.0), 0.5), (_alone(0.5, 0.0), 0.25), (_alone(0.5, 0.5), 0.4)]
    free = [(steps, params["tokens"], name) for name in ("communication", "checkpoint")]
    others = _of_both(rng)
    return [
        shown("a log of this run", "values:parts", 0, [(own, warm, every)]),
        *([shown("recorded runs", "values:parts", 0, real)] if real else []),
        shown("two theories", "values:theory", 1, example),
        shown("without a part", "values:without", 2, free),
        plain("theory", 1, "two theories of other steps", others),
        plain("hidden", 1, "what was hidden in other steps", others),  # a run that fails costs its case's part alone
        generality("logs", 0, "other logs", [_other_log(rng) for _ in range(12)]),
        generality("steps", 1, "other steps", [*alone(rng, 25), *edges]),
        generality("steps", 2, "other parts", [_other_parts(rng) for _ in range(15)]),
    ]


_judge = table(WHERE, (THEORY, HIDDEN), WITHOUT)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.part == "hidden":
        return _judge(params, case, outcome)[1:]
    return (_judge if case.part == "theory" else one_verdict(_judge))(params, case, outcome)


PARTS = {
    "where-it-goes": Judging(
        shares="values:parts 0.3, values:theory 0.15, values:hidden 0.15, values:without 0.1, generality:logs 0.2, "
        "generality:steps 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="Means add up and medians do not, so a breakdown of seconds consists of means plus a named remainder. What "
        "happens every K steps costs 1/K of its time per step, however many of them the log has. The measured step lies "
        "between the sum and the longer part; the hidden share says where. Without a part, Amdahl's law applies: "
        "making a fifth of a step free gains at most a quarter.",
        pytorch="`torch.profiler.record_function` names parts; `torch.cuda.Event(enable_timing=True)` times them on "
        "the device. The course's own clock is `course_lib.runs.clock`.",
    )
}
