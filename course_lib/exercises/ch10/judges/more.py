"""Judges of chapter 10's uneven layers, and of charts to read."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from operator import le
from typing import Any

from course_lib.exercises.ch10.cards.more import NAMES
from course_lib.judging import Fault, Judging, Params, describe, is_number, judged
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, breadth_first, cut, gpipe, interleaved, naive, one_f_one_b, zb_h1, zb_h2
from course_lib.timeline import Durations, play

# --- uneven layers


def _costs(rng: random.Random, layers: int) -> list[float]:
    blocks = [round(rng.uniform(0.8, 1.6), 2) for _ in range(layers - 2)]
    return [0.3, *blocks, round(rng.uniform(2.5, 4.5), 2)]


def _heavy(layers: int, stages: int) -> list[float]:
    """Equal blocks between a light embedding and a head so heavy that neither equal counts nor filling to the average will do."""
    drawn = [[0.2, *[1.0] * (layers - 2), head / 4] for head in range(5, 25)]
    even = [layers // stages + (stage < layers % stages) for stage in range(stages)]
    return next(
        costs
        for costs in drawn
        if max(_filled(costs, stages)) - min(_filled(costs, stages)) > 1
        and min(_slowest(costs, even), _slowest(costs, _filled(costs, stages)))
        > 1.05 * _slowest(costs, list(map(len, cut(costs, stages))))
    )


def _unlike(rng: random.Random, layers: int, stages: int) -> list[float]:
    """Drawn costs for which cutting nearest to equal shares is not the best: by luck it often is."""
    while True:
        costs = _costs(rng, layers)
        if _slowest(costs, _nearest(costs, stages)) > 1.02 * _slowest(costs, list(map(len, cut(costs, stages)))):
            return costs


def _no_cut_for_all(rng: random.Random, layers: int, stages: int, count: int = 3) -> list[list[float]]:
    """Such costs several times over, for all of which no one cut is the best: the same counts every time are no answer."""
    while True:
        drawn = [_unlike(rng, layers, stages) for _ in range(count)]
        best = [_slowest(costs, list(map(len, cut(costs, stages)))) * (1 + 1e-9) for costs in drawn]
        if not any(
            all(map(le, (_slowest(costs, counts) for costs in drawn), best)) for counts in _cuts(layers, stages)
        ):
            return drawn


def _cuts(layers: int, stages: int) -> Iterator[list[int]]:
    """Every way of cutting so many layers."""
    for ends in itertools.combinations(range(1, layers), stages - 1):
        yield [after - before for before, after in itertools.pairwise((0, *ends, layers))]


def _layer_cases(params: Params, rng: random.Random) -> list[Case]:
    layers, stages = params["layers"], params["stages"]
    cases = [
        Case(name=f"{layers} layers, a heavy head", args=(_heavy(layers, stages), stages), part="cut"),
        *(
            Case(name=f"{layers} layers of all sizes", args=(costs, stages), part="cut", visible=False)
            for costs in _no_cut_for_all(rng, layers, stages)
        ),
    ]
    more = {
        "one stage": ([1.0, 2.0, 3.0], 1),
        "as many stages as layers": ([3.0, 1.0, 2.0, 5.0], 4),
        "a giant in the middle": ([1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0], 4),
        "the heavy ones first": ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0], 3),
        "whole numbers": ([rng.randrange(1, 9) for _ in range(15)], 5),
        "a hundred layers": (_costs(rng, 100), 16),
        "a trap for averages": ([2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0], 4),
    }
    more |= {f"drawn layers, {s} stages": (_costs(rng, rng.randrange(10, 40)), s) for s in (3, 4, 6)}
    return cases + [
        Case(name=name, args=given, kind="generality", part="layers", visible=False) for name, given in more.items()
    ]


def _layer_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, _layer_fault(case, outcome.value))


def _layer_fault(case: Case, got: Any) -> Fault | None:
    costs, stages = case.args
    if got is None:
        return "returned-none", f"{case.name}: the function returned None: is a `return` missing?"
    if type(got) not in (list, tuple) or len(got) > 10_000:
        return "no-list", f"{case.name}: got {describe(got)}; return a list of counts, one per stage."
    counts = [int(each) if type(each) is float and each.is_integer() else each for each in got]
    if any(type(each) is not int for each in counts):
        odd = next(each for each in counts if type(each) is not int)
        return ("no-counts", f"{case.name}: got {describe(odd)} for a stage; how many layers it has is a whole number.")
    if len(counts) != stages:
        return ("other-stages", f"{case.name}: there are {len(counts)} counts; {stages} stages are to be filled.")
    if min(counts) < 1:
        return (
            "empty-stage",
            f"{case.name}: stage {counts.index(min(counts))} gets {min(counts)} layers; one is the least.",
        )
    if sum(counts) != len(costs):
        return ("layers-lost", f"{case.name}: the stages have {sum(counts)} layers together; there are {len(costs)}.")
    best, took = _slowest(costs, [len(each) for each in cut(costs, stages)]), _slowest(costs, counts)
    if took <= best * (1 + 1e-9):
        return None
    told = f"{case.name}: the slowest stage takes {took:.4g}, and {best:.4g} is possible."
    if max(counts) - min(counts) <= 1:
        return "equal-counts", f"{told} Equally many layers are not equally much work."
    if _filled(costs, stages) == counts:
        return ("filled-to-average", f"{told} Filling up to the average leaves to the last stage whatever is left.")
    return (
        "not-best",
        f"{told} Stage {_place(costs, counts)} is the slowest; can it give a layer away, or its neighbours move on?",
    )


def _sums(costs: Sequence[float], counts: Sequence[int]) -> list[float]:
    sums, at = [], 0
    for count in counts:
        sums.append(sum(costs[at : at + count]))
        at += count
    return sums


def _slowest(costs: Sequence[float], counts: Sequence[int]) -> float:
    return max(_sums(costs, counts))


def _place(costs: Sequence[float], counts: Sequence[int]) -> int:
    sums = _sums(costs, counts)
    return sums.index(max(sums))


def _filled(costs: Sequence[float], stages: int) -> list[int]:
    """Stages filled one after another until the next layer would pass the average."""
    average, counts, now, at = sum(costs) / stages, [0], 0.0, 0
    for place, cost in enumerate(costs):
        left = len(costs) - place
        if counts[at] and at < stages - 1 and (now + cost > average or left <= stages - 1 - at):
            counts.append(0)
            at, now = at + 1, 0.0
        counts[at] += 1
        now += cost
    return counts


def _nearest(costs: Sequence[float], stages: int) -> list[int]:
    """Stages cut where the running sum is nearest to equal shares."""
    sums, cuts = [0.0, *itertools.accumulate(costs)], [0]
    for stage in range(1, stages):
        room = range(cuts[-1] + 1, len(costs) - (stages - stage) + 1)
        cuts.append(min(room, key=lambda at: abs(sums[at] - stage * sums[-1] / stages)))
    return [after - before for before, after in itertools.pairwise([*cuts, len(costs)])]


# --- reading a chart

CHARTS = {
    "naive": naive,
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "breadth-first": breadth_first,
    "interleaved 1F1B": interleaved,
    "ZB-H1": zb_h1,
    "ZB-H2": zb_h2,
}


def _chart(schedule: Schedule, rng: random.Random) -> list[tuple[int, float, float, str, int]]:
    scale = 10 ** rng.uniform(-3, 2)
    each = [rng.uniform(0.8, 1.25) for _ in range(schedule.stages)]
    forward = [scale * x * schedule.share for x in each]
    times = Durations(
        forward=forward, backward=[2.1 * x for x in forward], communication=scale * rng.choice((0.0, 0.05, 0.1))
    )
    spans = [(span.rank, span.start, span.end, span.kind, int(span.label)) for span in play(schedule, times).spans()]
    rng.shuffle(spans)
    return spans


def _chart_case(which: str, p: int, m: int, v: int, rng: random.Random, **more: Any) -> Case:
    schedule = CHARTS[which](p, m, v) if which in ("breadth-first", "interleaved 1F1B") else CHARTS[which](p, m)
    return Case(args=(_chart(schedule, rng),), secret=(which, p, m, v), **more)


def _read_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m = params["ranks"], params["microbatches"]
    rounds = p * (m // p + 1)
    found = [
        _chart_case(
            name,
            p,
            rounds if "interleaved" in name else m,
            2 if name in ("breadth-first", "interleaved 1F1B") else 1,
            rng,
            name=f"chart {letter}",
            part="seven",
        )
        for letter, name in zip("ABCDEFG", rng.sample([*NAMES], len(NAMES)), strict=True)
    ]
    for number, name in enumerate(rng.sample([*NAMES] * 2, 2 * len(NAMES))):
        ranks, chunks = (
            rng.randrange(2, 7),
            rng.randrange(2, 5) if name in ("breadth-first", "interleaved 1F1B") else 1,
        )
        count = ranks * rng.randrange(2, 5) if "interleaved" in name else ranks + rng.randrange(1, 12)
        found.append(
            _chart_case(
                name,
                ranks,
                count,
                chunks,
                rng,
                name=f"unseen chart {number + 1}",
                kind="generality",
                part="charts",
                visible=False,
            )
        )
    return found


def _read_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got, (name, p, m, v) = outcome.value, case.secret
    if type(got) not in (tuple, list) or len(got) != 4:
        told = "returned-none" if got is None else "no-four"
        return judged(case, (told, f"{case.name}: got {describe(got)}; return (name, ranks, microbatches, chunks)."))
    said, *numbers = got
    if type(said) is not str or said not in NAMES:
        return judged(case, ("no-such-name", f"{case.name}: {describe(said)} is none of {', '.join(NAMES)}."))
    for what, label, number, want in (
        ("ranks", "other-ranks", numbers[0], p),
        ("micro-batches", "other-microbatches", numbers[1], m),
        ("chunks per rank", "other-chunks", numbers[2], v),
    ):
        if not is_number(number) or number != want:
            return judged(
                case,
                (
                    label,
                    f"{case.name}: {describe(number)} {what} is not what the chart shows. What can be counted directly?",
                ),
            )
    if said != name:
        return judged(
            case,
            (
                f"not-{said.replace(' ', '-').lower()}",
                f"{case.name}: it is not {said!r}. {_THINK.get(name, '')}".strip(),
            ),
        )
    return judged(case, None)


_THINK = {
    "naive": "How many micro-batches does rank 0 hold at once?",
    "GPipe": "On the last rank, what comes after the first forward?",
    "1F1B": "On the last rank, what comes after the first forward?",
    "breadth-first": "How many forwards of one micro-batch does a rank do, and when does its first backward come?",
    "interleaved 1F1B": "How many forwards of one micro-batch does a rank do, and when does its first backward come?",
    "ZB-H1": "How many forwards does rank 0 do before its first input gradient, against the number of ranks?",
    "ZB-H2": "How many forwards does rank 0 do before its first input gradient, against the number of ranks?",
}


MORE: Mapping[str, Judging] = {
    "uneven-layers": Judging(
        shares={"values:cut": 0.5, "generality:layers": 0.5},
        cases=_layer_cases,
        verdicts=_layer_verdicts,
        why="Every stage ends on a layer, so the best slowest stage is some run of neighbours; dynamic programming looks at all of them, or a greedy "
        "test answers “can it be done within t?” for each. Filling to the average leaves the head on top of a full last stage.",
        pytorch="`pipeline(module, mb_args, split_spec={...})` takes the cut as given; Llama 3 took one block from the first and the last stage.",
    ),
    "read-a-gantt": Judging(
        shares={"values:seven": 0.6, "generality:charts": 0.4},
        cases=_read_cases,
        verdicts=_read_verdicts,
        why="Ranks, micro-batches and chunks can be counted. Order tells the rest: how many forwards stand before the first backward on the first rank and "
        "on the last, and whether weight gradients stand by themselves.",
        pytorch="`torch.profiler` traces, one process per rank; the stages' names in `record_function` are such labels.",
    ),
}
