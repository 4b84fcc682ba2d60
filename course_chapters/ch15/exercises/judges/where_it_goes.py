import random
from collections.abc import Sequence

from course_chapters.ch15.exercises.work import parted
from course_grader.judging import Case, Judging, Outcome, Params, Verdict, Worked, draw_rows, generality, plain, shown
from course_grader.judging.per_row import FINE, Breakdown, Column, Word, one_verdict, table

Row = tuple[object, ...]
Steps = list[dict[str, object]]
right = Worked("where-it-goes")
TIMED = "alone {}, measured {:g} s".format


def log(rng: random.Random, first: int, count: int, every: int, saves: bool = True, gaps: bool = False) -> Steps:
    """Steps of a run: slow ones first, a loader that sometimes stalls, checkpoints; with `gaps` some parts are
    missing."""
    rows = []
    for step in range(first, first + count):
        slow = 1 + 4 * rng.random() * (step < first + 2)
        parts = {"data": rng.choice((0.004, 0.005, 0.006, 0.09)), "forward": rng.uniform(0.1, 0.12) * slow}
        parts |= {"backward": rng.uniform(0.2, 0.23) * slow, "communication": rng.uniform(0.04, 0.08)}
        parts["optimizer"] = rng.uniform(0.01, 0.02)
        if gaps and rng.random() < 0.4:
            del parts[rng.choice(("data", "communication"))]
        parts |= {"evaluation": 0.25} if gaps and step % 2 else {}
        if saves and (step + 1 + gaps) % every == 0:  # with `gaps`, in other steps
            parts["checkpoint"] = rng.uniform(1.5, 2.5)
        rows.append({"step": step, "seconds": sum(parts.values()) + rng.uniform(0.01, 0.03), "parts": parts})
    return rows


def _other_log(rng: random.Random) -> Row:
    every, warm_up = rng.choice((1, 3, 7, 10)), rng.randrange(0, 6)
    first, count = rng.randrange(0, 40), warm_up + rng.randrange(5, 30)
    return log(rng, first, count, every, rng.random() < 0.7, rng.random() < 0.6), warm_up, every


def _alone(compute: float, communication: float, measured: float, **more: float) -> Row:
    return {"compute": compute, "communication": communication, **more}, measured


NEAR = (-0.2, 0.45), (0.55, 1.1)  # shares hidden where the sum is nearer, and the longer


def _step(rng: random.Random, hidden: tuple[float, float]) -> Row:
    """Parts timed alone with a real step."""
    compute, talk = rng.uniform(0.05, 1.0), rng.uniform(0.05, 1.0)
    more = rng.choice(({}, {"optimizer": rng.uniform(0.01, 0.9)}, {"data": 0.3, "optimizer": 0.2}))
    both = compute + talk + sum(more.values())
    return _alone(compute, talk, both - rng.uniform(*hidden) * min(compute, talk), **more)


def _parts(rng: random.Random) -> dict[str, float]:
    return {name: rng.uniform(0.01, 1) for name in "abcd"}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    warm, every = params["warm_up"], params["every"]
    first = 3 * every - 1 - warm  # the log holds three checkpoints in little more than two periods
    own = log(random.Random(1), first, warm + 2 * every + 1, every)
    real = [(rows, min(3, len(rows) - 1), every) for rows in parted().values()]
    example = [_alone(0.4, 0.1, 0.42), _alone(0.2, 0.5, 1.08, optimizer=0.4), _alone(0.3, 0.2, 0.6)]
    # the first is nearer to the longer in seconds, and to the sum in ratios
    edges = [_alone(0.3, 0.3, 0.435), _alone(0.5, 0.0, 0.5), _alone(0.5, 0.0, 0.25), _alone(0.4, 0.2, 0.4995)]
    again = log(rng, 3, 20, 5)
    others = [_step(rng, near) for near in rng.sample(NEAR * 3, 6)]  # neither one name nor one share is right for all
    step, tokens = right[0](own, warm, every), params["tokens"]
    free = [(step, tokens, "communication"), (step, 2 * tokens, "checkpoint")]
    return [
        shown("a log of this run", "values:parts", 0, [(own, warm, every)]),
        *([shown("recorded runs", "values:parts", 0, real)] if real else []),
        shown("two theories", "values:theory", 1, example),
        shown("without a part", "values:without", 2, free),
        plain("theory", 1, "two theories of other steps", others),
        plain("hidden", 1, "what was hidden in other steps", others),  # a run that fails costs its case's part alone
        generality("logs", 0, "other logs", [_other_log(rng) for _ in range(12)]),
        generality("logs", 0, "one log", [(again, 2, 5), (again, 5, 5), (again, 2, 7)]),
        generality("steps", 1, "other steps", [*(_step(rng, near) for near in NEAR * 13), *edges]),
        generality("steps", 2, "other parts", draw_rows(rng, 15, _parts, range(1, 99_999), "abcde")),
    ]


_judge = table(
    Breakdown(
        "parts",
        "seconds",
        words=lambda rows, warm_up, every: f"{len(rows)} steps, {warm_up} of warm-up, a checkpoint every {every}",
    ),
    (Word("theory", ("sum", "max"), words=TIMED), Column("hidden", "(a share)", words=TIMED, rel=FINE)),
    Column("without", "tokens/s", words="{1:,} tokens without {2!r}".format, rel=FINE),
    right=right,
)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.part == "hidden":
        return _judge(params, case, outcome)[1:]
    return (_judge if case.part == "theory" else one_verdict(_judge))(params, case, outcome)


JUDGING = Judging(
    shares="values:parts 0.3, values:theory 0.15, values:hidden 0.15, values:without 0.1, generality:logs 0.2, "
    "generality:steps 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""Means add up and medians do not, so a breakdown of seconds consists of means plus a named remainder. What
happens every K steps costs 1/K of its time per step, however many of them the log has. The measured step lies between
the sum and the longer part. Without a part, Amdahl's law applies: making a fifth of a step free gains at most a
quarter.""",
    pytorch="""`torch.profiler.record_function` names parts; `torch.cuda.Event(enable_timing=True)` times them on the
device. The course's own clock is `course_runs.step_breakdown`.""",
)

ANSWERS = r'''from statistics import fmean
# %% right: worked
def where_it_goes(rows: list[dict], warm_up: int, every: int) -> dict[str, float]:
    """Seconds per step by part, "checkpoint" and "other" among them; together they are the time per step."""
    timed = rows[warm_up:]
    names = {name for row in timed for name in row["parts"]} - {"checkpoint"}
    found = {name: fmean(row["parts"].get(name, 0.0) for row in timed) for name in sorted(names)}
    found["other"] = fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)
    saved = [row["parts"]["checkpoint"] for row in timed if row["parts"].get("checkpoint")]
    found["checkpoint"] = fmean(saved) / every if saved else 0.0
    return found


def closer_model(alone: dict[str, float], measured: float) -> tuple[str, float]:
    """("sum" or "max", share of the shorter of the two that was hidden, from 0 to 1)."""
    compute, talk = alone["compute"], alone["communication"]
    rest = sum(alone.values()) - compute - talk
    both, longer = compute + talk + rest, max(compute, talk) + rest
    name = "sum" if abs(measured - both) <= abs(measured - longer) else "max"
    shorter = min(compute, talk)
    hidden = (both - measured) / shorter if shorter else 0.0
    return name, min(max(hidden, 0.0), 1.0)


def tokens_without(parts: dict[str, float], tokens: int, name: str) -> float:
    """Tokens per second if the part `name` took no time."""
    return tokens / (sum(parts.values()) - parts.get(name, 0.0))
# %% right: running totals, a list, and what is over
# -     found = {name: fmean(row["parts"].get(name, 0.0) for row in timed) for name in sorted(names)}
# +     totals = sum((Counter(row["parts"]) for row in timed), Counter())
# +     found = {name: totals[name] / len(timed) for name in names}
# ~ fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)
# ~~ ==> fmean(row["seconds"] for row in timed) - sum(totals.values()) / len(timed)
# ~ (both - measured) / shorter if shorter else 0.0 ==> 1 - (measured - longer) / shorter if shorter else 0.0
# ~ return name, min(max(hidden, 0.0), 1.0) ==> return [name, sorted((0.0, hidden, 1.0))[1]]
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> sum(seconds for part, seconds in parts.items() if part != name)
# %% wrong: with the warm-up => values warm-up-counted
# > the warm-up was counted.
# ~ timed = rows[warm_up:] ==> timed = rows
# %% wrong: medians => values
# > medians do not add up to the step, and they drop rare parts; return means.
# ~ - {"checkpoint"} ==> | {"checkpoint"}
# ~ {name: fmean ==> {name: median
# ~ fmean(row["seconds"] ==> median(row["seconds"]
# -     found["checkpoint"] = fmean(saved) / every if saved else 0.0
# %% wrong: a whole checkpoint in every step => values checkpoint-not-shared-out
# > this is a whole checkpoint.
# ~ / every if ==> if
# %% wrong: as many checkpoints as the log holds => values checkpoint-by-chance
# > this depends on how many checkpoints the log happens to hold.
# ~ fmean(saved) / every ==> sum(saved) / len(timed)
# %% wrong: the checkpoint twice => values checkpoint-in-other
# > this includes the checkpoint, which is a part of its own.
# ~ - sum(row["parts"].values()) for ==> - sum(s for n, s in row["parts"].items() if n != "checkpoint") for
# %% wrong: a checkpoint at its share => values checkpoint-by-share
# > a step's share of a checkpoint was taken off a mean in which the log's own checkpoints are.
#       found["checkpoint"] = fmean(saved) / every if saved else 0.0
# +     found["other"] = fmean(row["seconds"] for row in timed) - sum(found.values()) + found["other"]
# %% wrong: seconds of the whole run => values totals
# > this is the total of all timed steps; return seconds per step.
# ~ return found ==> return {name: seconds * len(timed) for name, seconds in found.items()}
# %% wrong: nothing is left over => values missing-part
# -     found["other"] = fmean(row["seconds"] - sum(row["parts"].values()) for row in timed)
# %% wrong: only rows that have the part => generality only-where-present
# > a row without the part counts too: it took no time there.
# ~ .get(name, 0.0) for row in timed ==> [name] for row in timed if name in row["parts"]
# %% wrong: the rest forgotten in both theories => values rest-forgotten
# > the other parts are missing; they take their time in both theories.
# ~ sum(alone.values()) - compute - talk ==> 0.0
# %% wrong: the longest of all parts is a theory => values longest-of-all
# > parts besides computing and communication follow them in both theories; none of them overlaps.
# ~ max(compute, talk) + rest ==> max(alone.values())
# %% wrong: the other theory => values other-theory
# > the other theory is nearer.
# ~ "sum" if abs(measured - both) <= abs(measured - longer) else "max"
# ~~ ==> "max" if abs(measured - both) <= abs(measured - longer) else "sum"
# %% wrong: always the sum => values always-the-same
# ~ "sum" if abs(measured - both) <= abs(measured - longer) else "max" ==> "sum"
# %% wrong: a share of the longer => values of-the-longer
# > only the shorter of the two can be hidden; this is a share of the longer.
# ~ min(compute, talk) ==> max(compute, talk)
# %% wrong: a share of communication => values of-communication
# > only the shorter of the two can be hidden; this is always a share of the communication.
# ~ min(compute, talk) ==> talk
# %% wrong: a share of computing => values of-compute
# > only the shorter of the two can be hidden; this is always a share of computing.
# ~ min(compute, talk) ==> compute
# %% wrong: a share above one => values not-held
# > a share lies between 0 and 1.
# ~ min(max(hidden, 0.0), 1.0) ==> hidden
# %% wrong: what is exposed => values exposed
# > this is the share that was not hidden.
# ~ min(max(hidden ==> 1 - min(max(hidden
# %% wrong: the whole step's rate => values nothing-free
# > this is the whole step's rate.
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> sum(parts.values())
# %% wrong: the part alone => values part-alone
# > this is the part's own rate.
# ~ (sum(parts.values()) - parts.get(name, 0.0)) ==> parts[name]
# %% wrong: how much faster => values factor
# > this is a ratio of two rates; return tokens per second.
# ~ tokens / (sum(parts.values()) ==> sum(parts.values()) / (sum(parts.values())
# %% wrong: how long a step is then => values step-seconds
# > these are the seconds of a step; return tokens per second.
# ~ tokens / (sum(parts.values()) ==> (sum(parts.values())
# %% wrong: what is gained => values gained
# > this is the gain only.
# ~ (sum(parts.values()) - parts.get(name, 0.0))
# ~~ ==> (sum(parts.values()) - parts.get(name, 0.0)) - tokens / sum(parts.values())
# %% wrong: a part that is not there => generality raised
# ~ parts.get(name, 0.0)) ==> parts[name])
# %% wrong: nearer in ratio => generality -
# ~ abs(measured - both) <= abs(measured - longer) ==> both / measured <= measured / longer
# %% half: the account only => 2.1
# ~ compute, talk = alone["compute"], alone["communication"] ==> raise NotImplementedError
# ~ return tokens / (sum(parts.values()) - parts.get(name, 0.0)) ==> raise NotImplementedError
'''
