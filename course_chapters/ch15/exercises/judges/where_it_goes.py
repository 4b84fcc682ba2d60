"""Judge of where-it-goes: where a step goes."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from course_chapters.ch15.exercises.judges.shared import Seconds
from course_chapters.ch15.exercises.work import parted
from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import FINE, Breakdown, Column, Word, one_verdict, table
from course_grader.judging.random_inputs import generality, plain
from course_grader.records import Case, Outcome, Verdict

Rows = Sequence[Mapping[str, Any]]
Alone = Mapping[str, float]  # seconds of each part of a step, timed by itself
THEORIES = ("sum", "max")


def where_it_goes(
    rows: Rows, warm_up: int, every: int, middle: Callable[..., float] = fmean, by_chance: bool = False
) -> Seconds:
    """Seconds per step by part, with the checkpoint spread over `every` steps, and the rest as "other".

    `by_chance` is for a checkpoint spread over the timed steps, however many of these wrote one.
    """
    timed = rows[warm_up:]
    names = sorted({name for row in timed for name in row["parts"]} - {"checkpoint"})
    found = {name: middle(row["parts"].get(name, 0.0) for row in timed) for name in names}
    found["other"] = middle(row["seconds"] - sum(row["parts"].values()) for row in timed)
    saved = [row["parts"]["checkpoint"] for row in timed if row["parts"].get("checkpoint")]
    found["checkpoint"] = middle(saved) / every if saved else 0.0
    return found | ({"checkpoint": middle(row["parts"].get("checkpoint", 0.0) for row in timed)} if by_chance else {})


def _in_other(*row: Any) -> Seconds:
    found = where_it_goes(*row, by_chance=True)
    return {"other": found["other"] + found["checkpoint"]}


def _where_present(rows: Rows, warm_up: int, every: int) -> Seconds:
    names = where_it_goes(rows, warm_up, every).keys() - {"other", "checkpoint"}
    return {name: fmean(row["parts"][name] for row in rows[warm_up:] if name in row["parts"]) for name in names}


def _totals(rows: Rows, warm_up: int, every: int) -> Seconds:
    return {name: value * len(rows[warm_up:]) for name, value in where_it_goes(rows, warm_up, every).items()}


MEDIANS, BY_CHANCE = (partial(where_it_goes, middle=middle, by_chance=True) for middle in (median, fmean))
WHERE = Breakdown(
    part="parts",
    unit="seconds",
    want=where_it_goes,
    words=lambda rows, warm_up, every: f"{len(rows)} steps, {warm_up} of warm-up, a checkpoint every {every}",
).knowing(
    Mistake("warm-up-counted", lambda rows, _, every: where_it_goes(rows, 0, every), "the warm-up was counted."),
    Mistake("medians", MEDIANS, "medians do not add up to the step, and they drop rare parts; return means."),
    Mistake("totals", _totals, "this is the total of all timed steps; return seconds per step."),
    Mistake("checkpoint-not-shared-out", lambda rows, n, _: where_it_goes(rows, n, 1), "this is a whole checkpoint."),
    Mistake("checkpoint-by-chance", BY_CHANCE, "this depends on how many checkpoints the log happens to hold."),
    Mistake("checkpoint-in-other", _in_other, "this includes the checkpoint, which is a part of its own."),
    Mistake("only-where-present", _where_present, "a row without the part counts too: it took no time there."),
)


def theories(alone: Alone, rest: bool = True) -> tuple[float, float]:
    """Seconds of a step if everything adds up, and if the shorter of computing and communicating is hidden."""
    compute, talk = alone["compute"], alone["communication"]
    more = sum(alone.values()) - compute - talk if rest else 0.0
    return compute + talk + more, max(compute, talk) + more


def nearer(alone: Alone, measured: float, rest: bool = True) -> str:
    both, longer = theories(alone, rest)
    return "sum" if abs(measured - both) <= abs(measured - longer) else "max"


def _unclipped(alone: Alone, measured: float, of: Callable[..., float] = min, rest: bool = True) -> float:
    over = of(alone["compute"], alone["communication"])
    return (theories(alone, rest)[0] - measured) / over if over else 0.0


def hidden_share(alone: Alone, measured: float, **how: Any) -> float:
    """The share of the shorter that was hidden, between 0 and 1."""
    return min(max(_unclipped(alone, measured, **how), 0.0), 1.0)


def _timed(alone: Alone, measured: float) -> str:
    return f"alone {dict(alone)}, measured {measured:g} s"


SHORTER = "only the shorter of the two can be hidden; return its share."
REST = "the other parts are missing; they take their time in both theories."
THEORY = Word(part="theory", choices=THEORIES, want=nearer, words=_timed).knowing(
    Mistake("rest-forgotten", partial(nearer, rest=False), REST),
    Mistake("other-theory", lambda *row: {"sum": "max", "max": "sum"}[nearer(*row)], "the other theory is nearer."),
)
HIDDEN = Column(part="hidden", unit="(a share)", want=hidden_share, words=_timed, rel=FINE).knowing(
    Mistake("of-communication", partial(hidden_share, of=lambda compute, talk: talk), SHORTER),
    Mistake("of-compute", partial(hidden_share, of=lambda compute, talk: compute), SHORTER),
    Mistake("of-the-longer", partial(hidden_share, of=max), SHORTER),
    Mistake("not-held", _unclipped, "a share lies between 0 and 1."),
    Mistake("exposed", lambda *row: 1 - hidden_share(*row), "this is the share that was not hidden."),
    Mistake("rest-forgotten", partial(hidden_share, rest=False), REST),
)


def _rate(parts: Alone, tokens: int, name: str = "") -> float:
    """Tokens per second of a step without this part."""
    return tokens / (sum(parts.values()) - parts.get(name, 0.0))


WITHOUT = Column(
    part="without",
    unit="tokens/s",
    want=_rate,
    words=lambda parts, tokens, name: f"{tokens:,} tokens without {name!r}",
    rel=FINE,
).knowing(
    Mistake("nothing-free", lambda p, n, one: _rate(p, n) if one in p else None, "this is the whole step's rate."),
    Mistake("part-alone", lambda p, n, name: n / p[name] if p.get(name) else None, "this is the part's own rate."),
    Mistake("factor", lambda p, n, name: _rate(p, n, name) / _rate(p, n), "return tokens per second."),
    Mistake("seconds", lambda p, n, name: n / _rate(p, n, name), "return tokens per second."),
    Mistake("gained", lambda p, n, name: _rate(p, n, name) - _rate(p, n), "this is the gain only."),
)


def log(rng: random.Random, first: int, count: int, every: int, saves_too: bool = True, gaps: bool = False) -> Rows:
    """Steps of a run: slow ones first, a loader that sometimes stalls, checkpoints; with `gaps` some parts are missing."""
    rows = []
    for step in range(first, first + count):
        slow = 1 + 4 * rng.random() * (step < first + 2)
        parts = {"data": rng.choice((0.004, 0.005, 0.006, 0.09)), "forward": rng.uniform(0.1, 0.12) * slow}
        parts |= {"backward": rng.uniform(0.2, 0.23) * slow, "communication": rng.uniform(0.04, 0.08)}
        parts["optimizer"] = rng.uniform(0.01, 0.02)
        if gaps and rng.random() < 0.4:
            del parts[rng.choice(("data", "communication"))]
        parts |= {"evaluation": 0.25} if gaps and step % 2 else {}
        if saves_too and (step + 1 + gaps) % every == 0:  # with `gaps`, in other steps
            parts["checkpoint"] = rng.uniform(1.5, 2.5)
        rows.append({"step": step, "seconds": sum(parts.values()) + rng.uniform(0.01, 0.03), "parts": parts})
    return rows


def alone(rng: random.Random, count: int) -> list[tuple[Seconds, float]]:
    """Parts timed alone with a real step; the two theories are never equally near."""
    rows: list[tuple[Seconds, float]] = []
    while len(rows) < count:
        parts = {"compute": rng.uniform(0.05, 1.0), "communication": rng.uniform(0.05, 1.0)}
        parts |= rng.choice(({}, {"optimizer": rng.uniform(0.01, 0.9)}, {"data": 0.3, "optimizer": 0.2}))
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


def _parts_cases(params: Params, rng: random.Random) -> list[Case]:
    warm, every = params["warm_up"], params["every"]
    first = 3 * every - 1 - warm  # the log holds three checkpoints in little more than two periods
    own = log(random.Random(1), first, warm + 2 * every + 1, every)
    steps = where_it_goes(own, warm, every)
    real = [(rows, min(3, len(rows) - 1), every) for rows in parted().values()]
    example = [(_alone(0.4, 0.1), 0.42), (_alone(0.2, 0.5, optimizer=0.4), 1.08), (_alone(0.3, 0.2), 0.6)]
    # the first is nearer to the longer in seconds, and to the sum in ratios
    edges = [(_alone(0.3, 0.3), 0.435), (_alone(0.5, 0.0), 0.5), (_alone(0.5, 0.0), 0.25), (_alone(0.5, 0.5), 0.4)]
    edges += [(_alone(0.5, 0.5), 0.9), (_alone(0.4, 0.2), 0.4995), (_alone(0.3, 0.2, loader=0.5), 0.95)]
    again = log(rng, 3, 20, 5)
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
        generality("logs", 0, "one log", [(again, 2, 5), (again, 5, 5), (again, 2, 7)]),
        generality("steps", 1, "other steps", [*alone(rng, 25), *edges]),
        generality("steps", 2, "other parts", [_other_parts(rng) for _ in range(15)]),
    ]


_judge = table(WHERE, (THEORY, HIDDEN), WITHOUT)


def _parts_verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.part == "hidden":
        return _judge(params, case, outcome)[1:]
    return (_judge if case.part == "theory" else one_verdict(_judge))(params, case, outcome)


JUDGING = Judging(
    shares="values:parts 0.3, values:theory 0.15, values:hidden 0.15, values:without 0.1, generality:logs 0.2, "
    "generality:steps 0.1",
    cases=_parts_cases,
    verdicts=_parts_verdicts,
    why="""Means add up and medians do not, so a breakdown of seconds consists of means plus a named remainder. What happens every K steps costs 1/K of its time
per step, however many of them the log has. The measured step lies between the sum and the longer part. Without a part, Amdahl's law applies: making a fifth of
a step free gains at most a quarter.""",
    pytorch="""`torch.profiler.record_function` names parts; `torch.cuda.Event(enable_timing=True)` times them on the device. The course's own clock is
`course_runs.step_breakdown`.""",
)

ANSWERS = r"""from collections import Counter
from statistics import fmean, median


# %% right: means
def where_it_goes(rows, warm_up, every):
    timed = rows[warm_up:]
    names = {name for row in timed for name in row["parts"]} - {"checkpoint"}
    found = {name: fmean(row["parts"].get(name, 0.0) for row in timed) for name in names}
    found["other"] = fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)
    saved = [row["parts"]["checkpoint"] for row in timed if row["parts"].get("checkpoint")]
    found["checkpoint"] = fmean(saved) / every if saved else 0.0
    return found


def closer_model(alone, measured):
    compute, talk = alone["compute"], alone["communication"]
    rest = sum(alone.values()) - compute - talk
    both, longer, shorter = compute + talk + rest, max(compute, talk) + rest, min(compute, talk)
    name = "sum" if abs(measured - both) <= abs(measured - longer) else "max"
    return name, min(max((both - measured) / shorter, 0.0), 1.0) if shorter else 0.0


def tokens_without(parts, tokens, name):
    return tokens / (sum(parts.values()) - parts.get(name, 0.0))


# %% right: running totals and other names
def where_it_goes(rows, warm_up, every):
    totals, saves = Counter(), []
    for row in rows[warm_up:]:
        parts = dict(row["parts"])
        totals["other"] += row["seconds"] - sum(parts.values())
        saves += filter(None, [parts.pop("checkpoint", None)])
        totals.update(parts)
    found = {name: total / (len(rows) - warm_up) for name, total in totals.items()}
    return {**found, "checkpoint": sum(saves) / len(saves) / every if saves else 0.0}


def closer_model(alone, measured):
    short, long = sorted((alone["compute"], alone["communication"]))
    over = measured - sum(each for name, each in alone.items() if name not in ("compute", "communication")) - long
    share = 1 - over / short if short else 0.0
    return ["sum" if over >= short / 2 or short == 0 else "max", sorted((0.0, share, 1.0))[1]]


def tokens_without(parts, tokens, name):
    return tokens / sum(seconds for part, seconds in parts.items() if part != name)


# %% wrong: with the warm-up => values warm-up-counted  from: means
# ~ rows[warm_up:] ==> rows


# %% wrong: medians => values medians  from: means
# ~ - {"checkpoint"} ==> | {"checkpoint"}
# ~ {name: fmean ==> {name: median
# ~ fmean(row["seconds"] ==> median(row["seconds"]
# -     saved = [row["parts"]["checkpoint"] for row in timed if row["parts"].get("checkpoint")]
# -     found["checkpoint"] = fmean(saved) / every if saved else 0.0

# %% wrong: a whole checkpoint in every step => values checkpoint-not-shared-out  from: means
# ~ / every if ==> if

# %% wrong: as many checkpoints as the log holds => values checkpoint-by-chance  from: means
# ~ fmean(saved) / every ==> sum(saved) / len(timed)

# %% wrong: the checkpoint twice => values checkpoint-in-other  from: means
# ~ - sum(row["parts"].values()) for ==> - sum(s for n, s in row["parts"].items() if n != "checkpoint") for

# %% wrong: seconds of the whole run => values totals  from: means
# ~ return found ==> return {name: seconds * len(timed) for name, seconds in found.items()}

# %% wrong: nothing is left over => values missing-part  from: means
# -     found["other"] = fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)

# %% wrong: only rows that have the part => generality only-where-present  from: means
# ~ .get(name, 0.0) for row in timed ==> [name] for row in timed if name in row["parts"]

# %% wrong: the rest forgotten in both theories => values rest-forgotten  from: means
# ~ sum(alone.values()) - compute - talk ==> 0.0

# %% wrong: the other theory => values other-theory  from: means
# ~ (measured - both) <= abs ==> (measured - both) > abs

# %% wrong: always the sum => values always-the-same  from: means
# ~ "sum" if abs(measured - both) <= abs(measured - longer) else "max" ==> "sum"

# %% wrong: a share of the longer => values of-the-longer  from: means
# ~ + rest, min(compute, talk) ==> + rest, max(compute, talk)

# %% wrong: a share of communication => values of-communication  from: means
# ~ min(compute, talk) ==> talk

# %% wrong: a share above one => values not-held  from: means
# ~ min(max((both - measured) / shorter, 0.0), 1.0) ==> (both - measured) / shorter

# %% wrong: what is exposed => values exposed  from: means
# ~ min(max ==> 1 - min(max

# %% wrong: the part alone => values part-alone  from: means
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> parts[name]

# %% wrong: what is gained => values gained  from: means
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> (sum(parts.values()) - parts.get(name, 0.0)) - tokens / sum(parts.values())

# %% wrong: a part that is not there => generality raised  from: means
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> (sum(parts.values()) - parts[name])

# %% wrong: nearer in ratio => generality -  from: means
# ~ abs(measured - both) <= abs(measured - longer) ==> both / measured <= measured / longer


# %% half: the account only => 2.1  from: means
def closer_model(alone, measured):
    raise NotImplementedError


def tokens_without(parts, tokens, name):
    raise NotImplementedError
"""
