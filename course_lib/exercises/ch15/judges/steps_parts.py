"""Judge of where a step goes: means that add up, a checkpoint now and then, two theories of a step, and a part that is free."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from course_lib.exercises.ch15.judges.steps_rows import Parts, fault_of_parts
from course_lib.exercises.ch15.steps_runs import parted
from course_lib.judging import Fault, Judging, Mistake, Params, describe, verdict
from course_lib.judging.draws import plain
from course_lib.judging.optional_columns import Column, judge, results, told, tuples
from course_lib.records import Case, Outcome, Verdict

Rows = Sequence[Mapping[str, Any]]
THEORIES = ("sum", "max")


def where_it_goes(rows: Rows, warm_up: int, every: int, middle: Callable[..., float] = fmean) -> dict[str, float]:
    """Seconds per step by part, with the checkpoint shared out over `every` steps, and what no part explains."""
    timed = rows[warm_up:]
    names = sorted({name for row in timed for name in row["parts"]} - {"checkpoint"})
    found = {name: middle(row["parts"].get(name, 0.0) for row in timed) for name in names}
    found["other"] = middle(row["seconds"] - sum(row["parts"].values()) for row in timed)
    found["checkpoint"] = middle(saved) / every if (saved := saves(timed)) else 0.0
    return found


def saves(rows: Rows) -> list[float]:
    """Seconds of each checkpoint."""
    return [row["parts"]["checkpoint"] for row in rows if row["parts"].get("checkpoint")]


def _medians(rows: Rows, warm_up: int, every: int) -> dict[str, float]:
    timed = rows[warm_up:]
    return {
        **where_it_goes(rows, warm_up, every, median),
        "checkpoint": median(row["parts"].get("checkpoint", 0.0) for row in timed),
    }


def _in_other(rows: Rows, warm_up: int, every: int) -> dict[str, float]:
    found = where_it_goes(rows, warm_up, every)
    return {**found, "other": found["other"] + fmean(row["parts"].get("checkpoint", 0.0) for row in rows[warm_up:])}


def _where_present(rows: Rows, warm_up: int, every: int) -> dict[str, float]:
    found = where_it_goes(rows, warm_up, every)
    return {
        name: fmean(row["parts"][name] for row in rows[warm_up:] if name in row["parts"])
        for name in found
        if name not in ("other", "checkpoint")
    }


def _checkpoint(of: Callable[[Rows, int], float]) -> Callable[..., dict[str, float]]:
    return lambda rows, warm_up, every: {"checkpoint": of(rows[warm_up:], every)}


WHERE = Parts(
    unit="seconds",
    want=where_it_goes,
    words=lambda rows, warm_up, every: f"{len(rows)} steps, {warm_up} of warm-up, a checkpoint every {every}",
    slips=(
        Mistake(
            "warm-up-counted",
            lambda rows, warm_up, every: where_it_goes(rows, 0, every),
            "the steps of the warm-up were counted.",
        ),
        Mistake(
            "medians", _medians, "medians do not add up to the step, and leave out what is rare. Means are asked for."
        ),
        Mistake(
            "totals",
            lambda rows, warm_up, every: {
                name: value * len(rows[warm_up:]) for name, value in where_it_goes(rows, warm_up, every).items()
            },
            "this is of all timed steps together; a step's is asked for.",
        ),
        Mistake(
            "checkpoint-not-shared-out",
            _checkpoint(lambda timed, every: fmean(saves(timed) or [0.0])),
            "that is a whole checkpoint; it is written every few steps.",
        ),
        Mistake(
            "checkpoint-by-chance",
            _checkpoint(lambda timed, every: sum(saves(timed)) / len(timed)),
            "how many checkpoints the log happens to hold decides here. One is shared out over `every` steps.",
        ),
        Mistake("checkpoint-in-other", _in_other, "the checkpoint is in here as well; it is a part of its own."),
        Mistake(
            "only-where-present",
            _where_present,
            "a part that is not in a row took no time there; that row counts, too.",
        ),
    ),
)


def theories(alone: Mapping[str, float], rest: bool = True) -> tuple[float, float]:
    """Seconds of a step if everything adds up, and if the shorter of computing and communicating is hidden."""
    compute, talk = alone["compute"], alone["communication"]
    more = sum(alone.values()) - compute - talk if rest else 0.0
    return compute + talk + more, max(compute, talk) + more


def nearer(alone: Mapping[str, float], measured: float, rest: bool = True) -> str:
    """The theory whose seconds are nearer."""
    both, longer = theories(alone, rest)
    return "sum" if abs(measured - both) <= abs(measured - longer) else "max"


def hidden(alone: Mapping[str, float], measured: float) -> float:
    """The share of the shorter that was hidden."""
    return min(max(_unheld(alone, measured), 0.0), 1.0)


def _unheld(alone: Mapping[str, float], measured: float, of: Callable[..., float] = min, rest: bool = True) -> float:
    over = of(alone["compute"], alone["communication"])
    return (theories(alone, rest)[0] - measured) / over if over else 0.0


def _share(value: float) -> dict[str, float]:
    return {"hidden": value}


def _held(value: float) -> float:
    return min(max(value, 0.0), 1.0)


HIDDEN = Parts(
    unit="(a share)",
    want=lambda *row: _share(hidden(*row)),
    words=lambda alone, measured: f"alone {dict(alone)}, measured {measured:g} s",
    slips=(
        Mistake(
            "of-the-longer",
            lambda alone, measured: _share(_held(_unheld(alone, measured, max))),
            "only the shorter of the two can be hidden: it is its share that is asked for.",
        ),
        Mistake(
            "of-communication",
            lambda alone, measured: _share(_held(_unheld(alone, measured, lambda compute, talk: talk))),
            "communication is the longer one here; what can hide is the shorter.",
        ),
        Mistake(
            "of-compute",
            lambda alone, measured: _share(_held(_unheld(alone, measured, lambda compute, talk: compute))),
            "computing is the longer one here; what can hide is the shorter.",
        ),
        Mistake("not-held", lambda *row: _share(_unheld(*row)), "a share lies between 0 and 1."),
        Mistake(
            "exposed",
            lambda alone, measured: _share(1 - hidden(alone, measured)),
            "that is the share that was not hidden.",
        ),
        Mistake(
            "rest-forgotten",
            lambda alone, measured: _share(_held(_unheld(alone, measured, rest=False))),
            "the other parts are missing: they take their time in both theories.",
        ),
    ),
)

WITHOUT = Column(
    part="without",
    unit="tokens/s",
    want=lambda parts, tokens, name: tokens / (sum(parts.values()) - parts.get(name, 0.0)),
    words=lambda parts, tokens, name: f"{tokens:,} tokens without {name!r}",
    slips=(
        Mistake(
            "nothing-free",
            lambda parts, tokens, name: tokens / sum(parts.values()) if name in parts else None,
            "this is the step as it is.",
        ),
        Mistake(
            "part-alone",
            lambda parts, tokens, name: tokens / parts[name] if parts.get(name) else None,
            "this is as if the step had nothing but this part.",
        ),
        Mistake(
            "factor",
            lambda parts, tokens, name: sum(parts.values()) / (sum(parts.values()) - parts.get(name, 0.0)),
            "this is how many times faster; tokens per second are asked for.",
        ),
        Mistake(
            "seconds",
            lambda parts, tokens, name: sum(parts.values()) - parts.get(name, 0.0),
            "these are seconds of a step; tokens per second are asked for.",
        ),
        Mistake(
            "gained",
            lambda parts, tokens, name: (
                tokens / (sum(parts.values()) - parts.get(name, 0.0)) - tokens / sum(parts.values())
            ),
            "this is what is gained; the rate is asked for.",
        ),
    ),
)


def _theory(case: Case, found: Sequence[Any]) -> Fault | None:
    """What is wrong with the names of the theories."""
    names, table = [row[0] for row in found], case.args[1]
    if odd := [each for each in names if type(each) is not str or each not in THEORIES]:
        return "no-theory", f'{case.name}: the name is {describe(odd[0])}; it is "sum" or "max".'
    wrong = next((place for place, row in enumerate(table) if names[place] != nearer(*row)), None)
    if wrong is None:
        return None
    lead = f"alone {dict(table[wrong][0])}, measured {table[wrong][1]:g} s: "
    if names == [nearer(*row, rest=False) for row in table]:
        return "rest-forgotten", lead + "the other parts are missing: they take their time in both theories."
    if len(table) > 1 and len(set(names)) == 1:
        return "one-theory", f"{case.name}: {names[0]!r} comes back every time."
    return "other-theory", lead + "the other theory is nearer."


# --- the cases


def log(
    rng: random.Random, first: int, count: int, every: int, saves_too: bool = True, gaps: bool = False
) -> list[dict[str, Any]]:
    """Steps of a run: slow ones first, a loader that sometimes stalls, a checkpoint in every `every`-th step; with `gaps` parts that are not always there."""
    found = []
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
        found.append({"step": step, "seconds": sum(parts.values()) + rng.uniform(0.01, 0.03), "parts": parts})
    return found


def alone(rng: random.Random, count: int) -> list[tuple[dict[str, float], float]]:
    """Parts timed alone with a real step, no theory as near as the other."""
    found: list[tuple[dict[str, float], float]] = []
    while len(found) < count:
        parts = {"compute": rng.uniform(0.05, 1.0), "communication": rng.uniform(0.05, 1.0)} | rng.choice(
            ({}, {"optimizer": rng.uniform(0.01, 0.9)}, {"data": 0.3, "optimizer": 0.2})
        )
        measured = theories(parts)[0] - rng.uniform(-0.2, 1.1) * min(parts["compute"], parts["communication"])
        if abs(_unheld(parts, measured) - 0.5) > 0.05:
            found.append((parts, measured))
    return found


def _of_both(rng: random.Random) -> list[tuple[dict[str, float], float]]:
    """Six other steps, some nearer to the sum and some to the longer: neither one name nor one share is right for all."""
    while True:
        found = alone(rng, 6)
        if len({nearer(*row) for row in found}) == len(THEORIES):
            return found


def _cases(params: Params, rng: random.Random) -> list[Case]:
    warm, every = params["warm_up"], params["every"]
    own = log(
        random.Random(1), 3 * every - 1 - warm, warm + 2 * every + 1, every
    )  # three checkpoints in little more than two periods
    steps = where_it_goes(own, warm, every)
    real = [(rows, min(3, len(rows) - 1), every) for rows in parted().values()]
    held = [
        ({"compute": 0.4, "communication": 0.1}, 0.42),
        ({"compute": 0.2, "communication": 0.5, "optimizer": 0.4}, 1.08),
        ({"compute": 0.3, "communication": 0.2}, 0.6),
    ]

    def other() -> tuple[Any, ...]:
        often, warm_up = rng.choice((1, 3, 7, 10)), rng.randrange(0, 6)
        return (
            log(
                rng, rng.randrange(0, 40), warm_up + rng.randrange(5, 30), often, rng.random() < 0.7, rng.random() < 0.6
            ),
            warm_up,
            often,
        )

    edges = [
        ({"compute": 0.3, "communication": 0.3}, 0.435),  # nearer to the longer in seconds, to the sum in ratios
        ({"compute": 0.5, "communication": 0.0}, 0.5),
        ({"compute": 0.5, "communication": 0.5}, 0.4),
    ]
    others = _of_both(rng)
    return [
        Case(name="a log of this run", args=(0, [(own, warm, every)]), part="parts"),
        *([Case(name="recorded runs", args=(0, real), part="parts")] if real else []),
        Case(name="two theories", args=(1, held), part="theory"),
        Case(
            name="without a part",
            args=(2, [(steps, params["tokens"], name) for name in ("communication", "checkpoint")]),
            part="without",
        ),
        plain("theory", 1, "two theories of other steps", others),
        plain(
            "hidden", 1, "what was hidden in other steps", others
        ),  # for a run that fails costs the part of its case alone
        Case(name="other logs", args=(0, [other() for _ in range(12)]), kind="generality", part="logs", visible=False),
        Case(name="other steps", args=(1, [*alone(rng, 25), *edges]), kind="generality", part="steps", visible=False),
        Case(
            name="other parts",
            args=(
                2,
                [
                    (
                        dict(zip("abcd", (rng.uniform(0.01, 1) for _ in range(4)), strict=True)),
                        rng.randrange(1, 99_999),
                        rng.choice("abcde"),
                    )
                    for _ in range(15)
                ],
            ),
            kind="generality",
            part="steps",
            visible=False,
        ),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    which = case.args[0]
    parts = ("theory", "hidden") if case.part == "theory" else (case.part,)
    found = results(case, outcome.value, parts)
    if told(found):
        return found
    if which == 0:
        return [verdict(case.kind, case.part, case, fault_of_parts(WHERE, case, found))]
    if which == 2:
        return [judge(WITHOUT, case, found, part=case.part)]
    if wrong := tuples(case, found, ("name", "share that was hidden"), parts):
        return wrong
    shares = verdict(case.kind, parts[-1], case, fault_of_parts(HIDDEN, case, [_share(row[1]) for row in found]))
    name = verdict(case.kind, parts[0], case, _theory(case, found))
    if case.part == "hidden":
        return [shares]
    return [name, shares] if len(parts) == 2 else [shares if name.ok else name]


PARTS = {
    "where-it-goes": Judging(
        shares={
            "values:parts": 0.3,
            "values:theory": 0.15,
            "values:hidden": 0.15,
            "values:without": 0.1,
            "generality:logs": 0.2,
            "generality:steps": 0.1,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="Means add up and medians do not, so an account of seconds is made of means, with what is left named rather than lost. What happens every K steps costs its K-th part, "
        "however many of it a log holds. Between sum and longer lies what overlap has won: on real steps neither is met, and the share says how far one is from either. Without a part, "
        "Amdahl: a part of a fifth, made free, wins a quarter at the most.",
        pytorch="`torch.profiler.record_function` names parts; `torch.cuda.Event(enable_timing=True)` times them on the device. The course's own clock is `course_lib.runs.clock`.",
    )
}
