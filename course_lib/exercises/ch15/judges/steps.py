"""Judges of a predicted step, of exposed communication, and of where the time of a step goes."""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, median
from typing import Any

from course_lib.exercises.ch15.work import parted, traces
from course_lib.judging import Judging, Mistake, Params, prediction, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import FINE, Breakdown, Column, Word, one_verdict, rows_fault, table
from course_lib.judging.draws import generality, plain
from course_lib.records import Case, Outcome, Verdict
from course_lib.runs.intervals import Interval, length, union
from course_lib.runs.reading import recorded
from course_lib.units import duration_text


def measured_seconds(params: Params) -> float:
    return float(recorded(params["run"])["measured"]["step_seconds"])


def _reveal(params: Params) -> str:
    predicted, took = recorded(params["run"])["predicted"], measured_seconds(params)
    parts = ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in predicted["seconds"].items() if seconds)
    return (
        f"{duration_text(took)} at the median. The course's own tools predicted "
        f"{duration_text(predicted['step_seconds'])} ({parts}) from the same rates: measured over predicted is "
        f"{took / predicted['step_seconds']:.2f}."
    )


Kernel = tuple[str, int, float, float]
Spans = Sequence[Interval]
Row = tuple[Sequence[Kernel], float, float]  # kernels, begin and end of the step
Seconds = dict[str, float]
KEYS = ("compute", "exposed", "hidden", "idle")
TALK = {"neither": ("communication",), "talk": ("communication", "copy")}


def clipped(spans: Iterable[Interval], begin: float, end: float) -> list[Interval]:
    """What of the spans lies between `begin` and `end`."""
    inside = ((max(start, begin), min(stop, end)) for start, stop in spans)
    return [(start, stop) for start, stop in inside if stop > start]


def covered(spans: Iterable[Interval], begin: float = -math.inf, end: float = math.inf) -> float:
    """Seconds between `begin` and `end` in which at least one span runs."""
    return length(union(clipped(spans, begin, end)))


def of_kinds(kernels: Iterable[Kernel], kinds: Sequence[str]) -> list[Interval]:
    return [(start, end) for kind, _, start, end in kernels if kind in kinds]


def step_times(
    kernels: Sequence[Kernel], begin: float, end: float, copies: str = "neither", busy: Callable[..., float] = covered
) -> Seconds:
    """Seconds of computing, of exposed and of hidden communication, and of neither; `busy` measures a set of spans."""
    compute, talk = of_kinds(kernels, ("compute",)), of_kinds(kernels, TALK[copies])
    computing, talking, either = (busy(spans, begin, end) for spans in (compute, talk, [*compute, *talk]))
    hidden = computing + talking - either
    return {"compute": computing, "exposed": either - computing, "hidden": hidden, "idle": end - begin - either}


def _merged(spans: Spans, begin: float, end: float) -> float:
    """Neighbors merged with the end of the later one, even if the earlier one lasts longer."""
    total, last = 0.0, begin
    for start, stop in sorted(spans):
        start, stop = max(start, begin), min(stop, end)
        total += max(0.0, stop - max(start, last))
        last = stop
    return total


def _wall_less_computing(compute: Spans, talk: Spans, wall: float) -> Seconds:
    return {"exposed": wall - covered(compute), "hidden": covered(talk) + covered(compute) - wall, "idle": 0.0}


def _all(compute: Spans, talk: Spans, wall: float) -> Seconds:
    return dict.fromkeys(("exposed", "hidden"), covered(talk))


def _summed(compute: Spans, talk: Spans, wall: float) -> Seconds:
    one, two = length(compute), length(talk)
    return {"compute": one, "exposed": two, "hidden": min(one, two), "idle": wall - one - two}


def _one_by_one(compute: Spans, talk: Spans, wall: float) -> Seconds:
    hidden = sum(covered(compute, start, stop) for start, stop in talk)
    return {"exposed": length(talk) - hidden, "hidden": hidden}


def _pairs_summed(compute: Spans, talk: Spans, wall: float) -> Seconds:
    hidden = sum(length(clipped(compute, start, stop)) for start, stop in talk)
    return {"exposed": covered(talk) - hidden, "hidden": hidden}


def _copies_compute(kernels: Sequence[Kernel], *ends: float) -> Row:
    return [("compute" if kind == "copy" else kind, *rest) for kind, *rest in kernels], *ends


def _left_out(kernels: Sequence[Kernel], begin: float, end: float) -> Row:
    return [one for one in kernels if begin <= one[2] and one[3] <= end], begin, end


def _to_the_last(kernels: Sequence[Kernel], begin: float, end: float) -> Row:
    return kernels, begin, max([begin, *(min(stop, end) for *_, stop in kernels)])


RULES = {"neither": "leave copies out here.", "talk": "copies count as communication here."}


def asked(copies: str) -> Breakdown:
    """The four times, under one rule for copies."""
    other, public = ("talk", "other-form") if copies == "neither" else ("neither", "public-form")
    lead = "" if copies == "neither" else "this solves the public form of the exercise: "
    right = partial(step_times, copies=copies)

    def times(name: str, message: str, row: Callable[..., Row] = lambda *row: row, **how: Any) -> Mistake:
        """The times of another row, or with another rule or measure."""
        return Mistake(name, lambda *given: step_times(*row(*given), **{"copies": copies, **how}), message)

    def spans(name: str, way: Callable[[Spans, Spans, float], Seconds], message: str) -> Mistake:
        """A mistake that is a way to work on the clipped spans of computing and communicating."""

        def value(kernels: Sequence[Kernel], begin: float, end: float) -> Seconds:
            compute, talk = (clipped(of_kinds(kernels, kinds), begin, end) for kinds in (("compute",), TALK[copies]))
            return way(compute, talk, end - begin)

        return Mistake(name, value, message)

    return Breakdown(
        part="steps",
        unit="seconds",
        want=right,
        words=lambda kernels, begin, end: f"{len(kernels)} kernels between {begin:g} s and {end:g} s",
    ).knowing(
        times(public, lead + RULES[copies], copies=other),
        times("copies-compute", RULES[copies], _copies_compute),
        spans("wall-less-computing", _wall_less_computing, "an idle GPU does not communicate."),
        spans("all-communication", _all, "this is all communication, hidden or not."),
        spans("kernels-summed", _summed, "kernels that run at once were added up; each moment counts once."),
        spans("one-by-one", _one_by_one, "a moment in which two kernels communicate is counted twice here."),
        spans("pairs-summed", _pairs_summed, "the overlaps of all pairs were added up; a moment is hidden once."),
        times("not-cut", "time outside `begin` to `end` was counted.", busy=lambda spans, *ends: covered(spans)),
        times("left-out", "a kernel that crosses `begin` or `end` counts with its part inside.", _left_out),
        times("to-the-last-kernel", "after its last kernel the GPU is idle until `end`.", _to_the_last),
        Mistake("milliseconds", lambda *row: {of: 1e3 * s for of, s in right(*row).items()}, "return seconds."),
        times("end-forgotten", "a kernel inside an earlier one does not end that one.", busy=_merged),
    )


def made(rng: random.Random, count: int, wall: float = 10.0) -> list[Kernel]:
    """Kernels of a step: short ones that compute on two streams, longer ones that communicate on two others, copies."""
    kernels: list[Kernel] = []
    for place in range(count):
        kind = ("compute", "compute", "communication", "copy", "communication")[place % 5]
        longest = wall / count * (14 if kind == "communication" else 5)
        start = rng.uniform(-0.04, 1.0) * wall
        stream = {"compute": (7, 9), "communication": (13, 21), "copy": (2,)}[kind]
        kernels.append((kind, rng.choice(stream), start, start + rng.random() * longest))
    rng.shuffle(kernels)
    return kernels


def whole(rng: random.Random, count: int) -> list[Kernel]:
    """Kernels that begin and end at half seconds, so that many touch, nest and coincide; some without length."""
    kinds, lengths = ("compute", "communication", "communication", "copy"), (0, 0.5, 1, 1, 4)
    return [
        (rng.choice(kinds), rng.randrange(3), start := rng.randrange(0, 20) / 2, start + rng.choice(lengths))
        for _ in range(count)
    ]


C, T, H = "compute", "communication", "copy"
HIDDEN_ONCE = [(C, 7, 0.0, 4.0), (C, 9, 1.0, 3.0), (T, 13, 2.0, 6.0), (T, 21, 5.0, 7.0), (H, 2, 7.5, 8.0)]
HIDDEN_ONCE.append((C, 7, 8.0, 9.0))
NESTED = [(C, 7, 0.0, 5.0), (C, 9, 1.0, 2.0), (C, 7, 4.0, 6.0), (T, 13, 1.0, 9.0), (T, 21, 2.0, 3.0), (T, 13, 8.5, 9.5)]
EDGES: list[Row] = [
    ([], 0.0, 3.0),
    ([(C, 0, 1.0, 1.0)], 0.0, 2.0),
    ([(C, 300, -2.0, 1.0)], -3.0, 2.0),
    ([(T, 300, 0.0, 2.0)], 0.0, 2.0),
    ([(C, 0, 0.0, 1.0), (T, 1, 1.0, 2.0)], 0.0, 3.0),
    ([(T, 1, 0.0, 4.0), (T, 1, 0.0, 4.0), (C, 0, 1.0, 2.0)], 0.0, 4.0),
    ([(H, 2, 0.5, 1.5)], 0.0, 2.0),
]


def recorded_steps() -> list[Row]:
    rows: list[Row] = []
    for one in traces().values():
        kernels = [(kind, s, *map(float, span)) for s, kind in enumerate((C, T)) for span in one.get(kind, ())]
        if kernels:
            rows.append((kernels, min(each[2] for each in kernels), max(each[3] for each in kernels)))
    return rows


def _cases(params: Params, rng: random.Random) -> list[Case]:
    example = [(HIDDEN_ONCE, 0.0, 10.0), (NESTED, 0.0, 10.0), *recorded_steps()]
    ends = [(HIDDEN_ONCE, params["begin"], params["end"]), (NESTED, 4.5, 8.75)]
    other = [(made(rng, 20), 0.0, 10.0), (whole(rng, 12), 0.0, 12.0)]
    touching = "kernels that touch, nest, coincide"
    return [
        shown("two steps by hand, and what was recorded", "values:steps", 0, example),
        shown("cut by the ends of the step", "values:ends", 0, ends),
        hidden("two other steps", "values:steps", 0, other),
        hidden("another step, cut by its ends", "values:ends", 0, [(made(rng, 30), 3.0, 7.5)]),
        generality("overlaps", 0, "other steps", [(made(rng, rng.randrange(10, 120)), 0.0, 10.0) for _ in range(12)]),
        generality("overlaps", 0, touching, [(whole(rng, rng.randrange(2, 15)), 0.0, 12.0) for _ in range(20)]),
        generality("edges", 0, "nothing, no length, one kind", EDGES),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, times = rows_fault(case, outcome.value), asked(params["copies"])
    by_part = {key: replace(times, only=[key]) for key in KEYS} if case.part == "steps" else {case.part: times}
    faults = {part: fault or column.fault(case, outcome.value) for part, column in by_part.items()}
    return [verdict(case.kind, part, case, fault) for part, fault in faults.items()]


Rows = Sequence[Mapping[str, Any]]
Alone = Mapping[str, float]  # seconds of each part of a step, timed by itself
THEORIES = ("sum", "max")


# --- where a step goes


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


STEPS = {
    "predict-real-step": prediction(
        unit="seconds",
        why="""A roofline is not a forecast. Large matmuls alone give a floor. Everything that is not a matmul, waiting for the slowest process, library calls and
shared cores come on top, and on a small model they dominate. The ratio of measured to predicted says how much remains to be explained.""",
        pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs; `torch.utils.benchmark.Timer` times it.",
        reveal=_reveal,
        truth=measured_seconds,
    ),
    "exposed-seconds": Judging(
        shares="values:compute 0.1, values:exposed 0.2, values:hidden 0.1, values:idle 0.1, values:ends 0.1, "
        "generality:overlaps 0.3, generality:edges 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="""Kernels are intervals, and what counts is the length of a union. Exposed communication is union(both) − union(computing), so you need not find any
overlap. Sums of kernel times count moments twice; wall time less computing mistakes idle time, for instance behind a slow data loader, for communication.""",
        pytorch="""`torch.profiler` gives events of device type CUDA with a `time_range`; the names of NCCL's kernels contain `nccl`. `course_lib.runs.tracing`
reads them, and `course_lib.runs.intervals` adds them up.""",
    ),
    "where-it-goes": Judging(
        shares="values:parts 0.3, values:theory 0.15, values:hidden 0.15, values:without 0.1, generality:logs 0.2, "
        "generality:steps 0.1",
        cases=_parts_cases,
        verdicts=_parts_verdicts,
        why="""Means add up and medians do not, so a breakdown of seconds consists of means plus a named remainder. What happens every K steps costs 1/K of its time
per step, however many of them the log has. The measured step lies between the sum and the longer part. Without a part, Amdahl's law applies: making a fifth of
a step free gains at most a quarter.""",
        pytorch="""`torch.profiler.record_function` names parts; `torch.cuda.Event(enable_timing=True)` times them on the device. The course's own clock is
`course_lib.runs.clock`.""",
    ),
}
