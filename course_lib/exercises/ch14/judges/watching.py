"""Judges of chapter 14's detectors: stragglers, hangs and loss spikes."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median, median_high, median_low
from typing import Any

from course_lib.judging import Fault, Judging, Params, describe, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case

Table = Sequence[Sequence[float]]  # [step][rank]

# --- stragglers


def straggler(
    factor: float,
    compute: Table,
    data: Table,
    *,
    middle: Any = median,
    least: bool = False,
    half: bool = False,
    mean: bool = False,
) -> tuple[int, str] | None:
    """The straggler and its kind. The keywords are known mistakes: another middle, `>=` in place of `>`, means over steps."""
    own = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(compute, data, strict=True)]
    steps, ranks = len(own), range(len(own[0]) if own else 0)
    if mean:
        own = [[fmean(step[rank] for step in own) for rank in ranks]]
    late = {
        rank: sum(step[rank] > factor * middle(step) or (least and step[rank] == factor * middle(step)) for step in own)
        for rank in ranks
    }
    count = len(own)
    found = [rank for rank in ranks if late[rank] > count / 2 or (half and steps and late[rank] == count / 2)]
    if not found:
        return None
    worst = max(found, key=lambda rank: (sum(step[rank] for step in own), -rank))
    over = [sum(step[worst] - median(step) for step in table) for table in (compute, data)]
    return worst, "compute" if over[0] >= over[1] else "data"


def _whole(own: Table, base: float) -> list[list[float]]:
    """What is left of the slowest rank's time in each step, and a little for the collective itself."""
    return [[max(step) - each + base for each in step] for step in own]


def _steps(rng: random.Random, steps: int, ranks: int) -> tuple[list[list[float]], list[list[float]]]:
    """Compute and data times in eighths of a second, even but for a little."""
    compute = [[8 + rng.choice((0, 0, 0.125)) for _ in range(ranks)] for _ in range(steps)]
    data = [[1 + rng.choice((0, 0, 0.125)) for _ in range(ranks)] for _ in range(steps)]
    return compute, data


def _straggler_cases(params: Params, rng: random.Random) -> list[Case]:
    factor = params["factor"]

    def row(compute: list[list[float]], data: list[list[float]]) -> tuple[Any, ...]:
        own = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(compute, data, strict=True)]
        return compute, data, _whole(own, 0.5)

    def slow(ranks: int, who: int, kind: str, when: Sequence[bool], by: float = 3.0) -> tuple[Any, ...]:
        tables = dict(zip(("compute", "data"), _steps(rng, len(when), ranks), strict=True))
        for step, late in enumerate(when):
            tables[kind][step][who] += 9 * (factor - 1) + by if late else 0
        return row(tables["compute"], tables["data"])

    def exactly(late: float) -> tuple[Any, ...]:
        compute = [[8.0] * 5 for _ in range(4)]
        for step in compute:
            step[3] = 8 * factor + late
        return row(compute, [[0.0] * 5 for _ in range(4)])

    half, more = [True, False] * 3, [True, False, True, True, False, True]
    two = slow(6, 2, "compute", [True] * 5)
    for step in two[1]:
        step[4] += 9 * (factor - 1) + 5
    both = row(*_steps(rng, 4, 4))
    for compute, data in zip(both[0], both[1], strict=True):
        compute[1], data[1] = 8 + 9 * factor, 1 + 9 * factor + 2
    equal = row([[8.0, 8, 8 * factor + 9, 8, 8 * factor + 9]] * 3, [[1.0] * 5] * 3)
    crowd = row([[8.0, 8, 8, 8 * 4, 8 * 4]] * 3, [[1.0] * 5] * 3)  # the mean is far above the median
    # the two in the middle are 8 and 8.5; a rank at 8.125 or 8.375 times the factor is on either side of their mean
    middles = [row([[8.0, 8.5, 8.0, each * factor]] * 3, [[0.0] * 4] * 3) for each in (8.125, 8.375)]
    middles.append(row([[8.0, 8.5, 2.0, 8.375 * factor]] * 3, [[0.0] * 4] * 3))  # the mean is below the median
    more_by = 9 * (factor - 1)  # from here on a rank is late
    totals = [  # late more often and less in all, and the reverse
        row([[8.0, 9 + more_by, 8, 8.0 + by * (at < 3), 8] for at in range(5)], [[1.0] * 5] * 5)
        for by in (more_by + 8, more_by + 1)
    ]
    totals.append(row([[8.0, 13 + more_by, 8, 8.0 + (more_by + 8) * (at < 3), 8] for at in range(5)], [[1.0] * 5] * 5))
    # data exceeds by more where the rank is late, computation in all; then a large computation; then others' slow data
    late_data = row(
        [[8.0, 8, 8 + (more_by + 3 if at > 2 else more_by / 2), 8] for at in range(9)],
        [[1.0, 1, 1 + (more_by + 3.125 if at > 2 else 0.0), 1] for at in range(9)],
    )
    large = row([[8.0, 8, 8, 9 + 2 * more_by]] * 3, [[1.0, 1, 1, 1.5 + more_by]] * 3)
    others = row([[8.0, 8, 8, 8, 8 + more_by + 3]] * 3, [[1.0, 1 + more_by + 4, 1, 1, 1 + more_by + 3.5]] * 3)
    # In `uneven` the lower median, 8 instead of 8.5, would blame computation. In `alternate` another rank loads slowly in each step.
    uneven = row([[8.0, 8, 9, 12 + more_by]] * 3, [[1.0, 1, 1, 4.75 + more_by]] * 3)
    turns = [[4.0 if rank == at else 1.0 for rank in range(3)] + [5.5 + more_by, 1.0] for at in range(3)]
    alternate = row([[8.0, 8, 8, 12 + more_by, 8]] * 3, turns)
    kinds = late_data, large, others, uneven, alternate
    zeros = [[0.0] * 5] * 3
    many = slow(40, 33, "compute", [True] * 11 + [False] * 10)
    tie = row([[8.0, 8, 12 + more_by, 8]] * 3, [[1.0, 1, 5 + more_by, 1]] * 3)  # both times exceed by the same
    accident = slow(5, 3, "compute", [False, False, True, False, False], by=400.0)

    elsewhere = slow(7, 5, "data", [True] * 3), slow(3, 0, "data", [True] * 5), slow(9, 8, "compute", more)
    halves = slow(5, 1, "data", half), slow(5, 1, "data", more)

    def case(make: Any, name: str, share: str, *given: tuple[Any, ...]) -> Case:
        return make(name, share, 0, list(given))

    return [
        case(shown, "one rank computes slowly", "values:found", slow(4, 2, "compute", [True] * 4)),
        case(hidden, "slow data, other ranks", "values:found", *elsewhere),
        case(hidden, "nobody is slow", "values:found", row(*_steps(rng, 5, 6)), accident, slow(4, 1, "compute", half)),
        case(hidden, "late in half of the steps, and in more", "generality:limits", *halves),
        case(hidden, "at the limit, and just above it", "generality:limits", exactly(0.0), exactly(2**-13)),
        case(hidden, "an even number of ranks", "generality:limits", *middles),
        case(hidden, "one late more often, another more in all", "generality:several", *totals),
        case(hidden, "which of its times exceeds by more", "generality:several", *kinds),
        case(
            hidden,
            "two stragglers, equal ones, both kinds",
            "generality:several",
            two,
            equal,
            row(*both[:2]),
            crowd,
            tie,
        ),
        case(
            hidden,
            "one rank, one step, no step, many, and times again",
            "generality:several",
            many,
            slow(5, 3, "data", [True, False, True, False, True, False, True]),
            row(zeros, [[0.0, 0.0, 0.0, 2.0, 0.0]] * 3),
            row(others[0], zeros),  # the same computation as above
            row(others[1], others[0]),  # the same waiting
            ([[5.0]], [[9.0]], [[0.0]]),
            slow(3, 2, "data", [True]),
            row([[8.0, 8 * (4 * factor)]] * 3, [[0.0, 0.0]] * 3),  # of two ranks, one is late if the factor allows it
            ([], [], []),
        ),
    ]


def _straggler_fault(params: Params, case: Case, got: Any) -> Fault | None:
    rows, factor = case.args[1], params["factor"]
    want = [straggler(factor, compute, data) for compute, data, _ in rows]
    said = [None if each is None else (each[0], each[1].strip().lower()) for each in got]
    if said == want:
        return None
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    compute, data, wait = rows[at]
    waits = [sum(step[rank] for step in wait) for rank in range(len(wait[0]) if wait else 0)]
    lead = f"case {at + 1} of {len(rows)}, {len(compute)} steps: "
    if want[at] and said[at] and said[at][0] == want[at][0]:
        return "other-kind", f"{lead}the rank is right. Which of its two times exceeds the median by more?"
    known = [
        ("one-of-the-middle", {"middle": median_low}, "this takes the lower of the two in the middle, not their mean."),
        (
            "one-of-the-middle",
            {"middle": median_high},
            "this takes the upper of the two in the middle, not their mean.",
        ),
        (
            "mean-of-ranks",
            {"middle": lambda step: fmean(step)},
            "a slow rank raises the mean of the ranks; take the median.",
        ),
        (
            "one-long-step",
            {"mean": True},
            "this takes the mean over the steps, which one long step decides; count the steps.",
        ),
        ("half-is-enough", {"half": True}, "late in half of the steps is not more than half."),
        ("at-the-limit", {"least": True}, "exactly at the limit is not late."),
    ]
    for name, change, message in known:
        if said == [straggler(factor, *row[:2], **change) for row in rows]:  # type: ignore[arg-type]
            return name, lead + message
    if said[at] and said[at][0] in range(len(waits)) and waits[int(said[at][0])] == max(waits) > min(waits):
        return "blames-the-waiting", f"{lead}rank {said[at][0]} waits longest, so it is done first."
    return "", f"{lead}got {describe(said[at])}, which is not right."


# --- hangs

Call = tuple[str, int, str, int, bool]


def blame(
    groups: Mapping[str, Sequence[int]], records: Mapping[int, Sequence[Call]], *, victims: bool = False
) -> tuple[str, list[int]] | None:
    """What hangs a job and which ranks cause it; `victims` blames ranks that wait elsewhere, too."""
    entered = {rank: {(group, number) for group, number, *_ in calls} for rank, calls in records.items()}
    unfinished = {(rank, call[:4]) for rank, calls in records.items() for call in calls if not call[4]}
    kinds: dict[tuple[str, int], dict[int, tuple[str, int]]] = {}
    for group, number in {call[:2] for _, call in unfinished}:
        kinds[group, number] = {r: c[2:4] for r, calls in records.items() for c in calls if c[:2] == (group, number)}
    odd: set[int] = set()
    for calls in kinds.values():
        most = Counter(calls.values()).most_common(1)[0][0]
        odd |= {rank for rank, call in calls.items() if call != most}
    if odd:
        return "different", sorted(odd)
    waited = {rank for group, number in kinds for rank in groups[group] if (group, number) not in entered[rank]}
    free = waited - {rank for rank, _ in unfinished}
    if victims and waited:
        return "missing", sorted(waited)
    if free:
        return "missing", sorted(free)
    return ("order", sorted(waited)) if waited else None


def _history(rng: random.Random, groups: Mapping[str, Sequence[int]], calls: int) -> dict[int, list[Call]]:
    """Finished calls in groups drawn at random."""
    records: dict[int, list[Call]] = {rank: [] for ranks in groups.values() for rank in ranks}
    numbers = dict.fromkeys(groups, 0)
    for _ in range(calls):
        group = rng.choice(sorted(groups))
        operation, count = rng.choice(("all_reduce", "all_gather", "broadcast")), 2 ** rng.randrange(4, 12)
        for rank in groups[group]:
            records[rank].append((group, numbers[group], operation, count, True))
        numbers[group] += 1
    return records


def _enter(
    records: dict[int, list[Call]],
    group: str,
    ranks: Sequence[int],
    operation: str = "all_reduce",
    count: int = 64,
    finished: bool = False,
) -> None:
    """The ranks enter the group's next call, which finishes for none, or for these alone."""
    number = 1 + max(
        (call[1] for calls in records.values() for call in calls if call[0] == group and call[4]), default=-1
    )
    for rank in ranks:
        records[rank].append((group, number, operation, count, finished))


def _hangs(rng: random.Random, size: int) -> dict[str, tuple[Any, Any]]:
    """A hang of each kind among `size` ranks, whose numbers are drawn and have gaps."""
    few, many = rng.sample(range(2, 10), size // 2), rng.sample(range(100, 200), size - size // 2)  # text: "100" < "2"
    ranks, (a, *more), (b, *less) = sorted(few + many), many, few
    rest = rng.sample(less + more, size - 2)
    everybody = {rng.choice("wxyz"): ranks}
    (world,) = everybody
    hangs: dict[str, tuple[Any, Any]] = {}

    def hang(name: str, groups: Mapping[str, Sequence[int]], calls: int, *entries: tuple[Any, ...]) -> None:
        records = _history(rng, groups, calls)
        for entry in entries:
            _enter(records, *entry)
        hangs[name] = (dict(groups), records)

    others = [rank for rank in ranks if rank != a]
    hang("one rank missing", everybody, 3, (world, others))
    hang("several missing", everybody, 2, (world, rest[:1]))
    hang("nothing wrong", everybody, 4)
    hang("another operation", everybody, 1, (world, ranks[1:]), (world, ranks[:1], "broadcast"))
    hang("another count", everybody, 0, (world, ranks[:-1]), (world, ranks[-1:], "all_reduce", 65))
    pairs = {"row": [a, b], "column": [b, rest[0]], "all": ranks}
    hang("a chain of waits", pairs, 3, ("row", [a]), ("column", [b]))
    hang("two orders", pairs, 2, ("row", [a]), ("all", [b]), ("column", [rest[0]]), ("all", rest[1:]))
    circle = {"tp0": [a, b], "tp1": [a, b]}
    hang("a circle", circle, 2, ("tp0", [a]), ("tp1", [b]))
    hang("different beats missing", everybody, 2, (world, rest), (world, [a], "broadcast"))
    two, three = {"dp0": ranks[:3], "dp1": ranks[3:]}, {**circle, "tp2": rest}
    hang("two differ", everybody, 1, (world, rest), (world, [a, b], "broadcast"))
    hang(
        "two groups differ", two, 1, *((g, r[1:]) for g, r in two.items()), *((g, r[:1], "sum") for g, r in two.items())
    )
    hang("a circle, and one missing", three, 2, ("tp0", [a]), ("tp1", [b]), ("tp2", rest[1:]))
    hang("two calls at once", {"s": [a, b], "t": [b, *rest]}, 2, ("s", [b]), ("t", [b, *rest]))
    groups, records = hangs["one rank missing"]  # a finished call says nothing, whatever its counts
    hangs["finished with another count"] = (
        groups,
        {
            rank: [(*call[:3], 65, True) if rank == a and call[4] else call for call in calls]
            for rank, calls in records.items()
        },
    )
    hangs["waits in the call before"] = groups, {**records, a: [*records[a][:-1], (*records[a][-1][:4], False)]}
    finished = {rank: [(*call[:4], True) for call in calls] for rank, calls in hangs["another operation"][1].items()}
    hangs["another operation, and finished"] = (everybody, finished)
    hang("few have entered", everybody, 0, (world, rest[:1]))
    hangs["few are in the group"] = ({world: [rest[0], a]}, hangs["few have entered"][1])
    third = {"dp0": [a, b], "dp1": [a, rest[0]], world: ranks}
    done = ("dp1", [a, rest[0]], "all_reduce", 64, True)
    hang("a finished call after an open one", third, 2, ("dp0", [a]), done, (world, others))
    hang("one is through, with another count", everybody, 2, (world, rest), (world, [a], "all_reduce", 65, True))
    hang("one is through", everybody, 2, (world, rest), (world, [a], "all_reduce", 64, True))
    return hangs


def _blame_cases(params: Params, rng: random.Random) -> list[Case]:
    absent, circles = (
        ("one rank missing", "several missing", "nothing wrong"),
        ("a chain of waits", "a circle", "two orders"),
    )
    beside = "a circle, and one missing", "two calls at once", "one is through", "finished with another count"
    beside += "a finished call after an open one", "one is through, with another count", "waits in the call before"
    again = "another operation", "another operation, and finished", "few have entered", "few are in the group"
    first, second = _hangs(rng, params["ranks"]), _hangs(rng, params["ranks"] + 3)

    def case(make: Any, name: str, share: str, *names: str, where: Any = None) -> Case:
        return make(name, share, 0, [(where or first)[each] for each in names])

    return [
        case(shown, "one rank is missing", "values:missing", "one rank missing"),
        case(hidden, "one or more ranks are missing, or none", "values:missing", *absent, where=second),
        case(hidden, "another operation or size", "values:different", "another operation", "another count"),
        case(hidden, "a chain of waits", "generality:chains", "a chain of waits"),
        case(hidden, "a longer chain, and a circle", "generality:chains", *circles, where=second),
        case(hidden, "the same calls", "generality:chains", *again, where=second),
        case(hidden, "two things at once", "generality:chains", "different beats missing", where=second),
        case(hidden, "two ranks, two groups", "generality:chains", "two differ", "two groups differ", where=second),
        case(hidden, "waits beside others", "generality:chains", *beside, where=second),
    ]


def _blame_fault(case: Case, got: Any) -> Fault | None:
    rows = case.args[1]
    want = [blame(*row) for row in rows]
    said = [None if each is None else (each[0].strip().lower(), list(each[1])) for each in got]
    if said == want:
        return None
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    groups, records = rows[at]
    lead, mine, right = f"case {at + 1} of {len(rows)}: ", said[at], want[at]
    busy = sorted(rank for rank, calls in records.items() if any(not call[4] for call in calls))
    if mine is None:
        return "overlooked", f"{lead}a call is not finished, and nothing is found."
    if right is None:
        return "false-alarm", f"{lead}every call is finished; return None."
    if mine == blame(groups, records, victims=True):
        return "blames-a-victim", f"{lead}of ranks {mine[1]} some wait in another call themselves."
    if mine[1] == busy and right[1] != busy:
        return "blames-the-waiting", f"{lead}ranks {mine[1]} are those that wait."
    if mine[0] != right[0]:
        return "other-kind", f"{lead}it is not {mine[0]!r}. Go through the three kinds in order."
    if mine[1] != right[1] and sorted(map(str, mine[1])) == sorted(map(str, right[1])):
        return "unsorted", f"{lead}the ranks are right; sort them."
    return "other-ranks", f"{lead}the kind is right, and ranks {describe(mine[1])} are not."


# --- spikes


def guard(
    rule: str,
    window: int,
    factor: float,
    patience: int,
    losses: Sequence[float],
    *,
    middle: Any = median,
    joins: bool = False,  # whether spikes join the window
    forever: bool = False,  # whether all accepted losses count
    resets: bool = True,  # whether a rollback sets the count back
    total: bool = False,  # whether spikes that are not in a row count
    least: bool = False,  # whether a loss at the limit is a spike
    finite: bool = True,  # whether NaN is a spike
    late: int = 0,
) -> list[str]:
    """What the guard says of each loss; the keywords are known mistakes."""
    kept: list[float] = []
    said, row = [], 0
    for loss in losses:
        recent = kept if forever else kept[-window:]
        limit = math.inf
        if len(kept) >= window:
            center = middle(recent)
            limit = factor * center if rule == "ratio" else center + factor * middle([abs(x - center) for x in recent])
        spike = (finite and not math.isfinite(loss)) or loss > limit or (least and loss == limit)
        row = row + 1 if spike else row if total else 0
        if not spike or joins:
            kept.append(loss)
        back = spike and row >= patience + late
        said.append("rollback" if back else "skip" if spike else "go")
        row = 0 if back and resets else row
    return said


def _guard_cases(params: Params, rng: random.Random) -> list[Case]:
    def noisy(count: int, *spikes: int) -> list[float]:
        return [3.0 + rng.randrange(-8, 9) / 64 + (6.0 if at in spikes else 0.0) for at in range(count)]

    def case(make: Any, name: str, share: str, window: int, factor: float, patience: int, losses: list[float]) -> Case:
        return make(name, share, window, factor, patience, losses)

    falling = [8 - each / 8 for each in range(40)]
    falling[30] = 6.0  # above what is usual by now, and below what was usual at first
    # a window of 0, 1, 2 has median 1; one of 1, 2, 3 has median 2 and deviation 1
    limits = {"ratio": [0.0, 1.0, 2.0, 2.0, 4.0001, 4.0, 1.0], "deviation": [1.0, 2.0, 3.0, 4.0, 6.0, 6.0001, 2.0]}
    zero = [0.0, 0.0, 0.0, 0.0, 0.25, 0.0, -0.5, 0.0, 2e4, math.nan]
    usual = noisy(40, *range(10, 30))
    pauses = noisy(24, 6, 7, 9, 10, 12, 14, 15, 16, 17, 18, 19)
    odd = [math.nan, 2.0, 2.125, math.inf, 2.0, 2.0, -math.inf, 2.0, math.nan]
    edges: dict[str, tuple[int, float, int, list[float]]] = {
        "a rollback at every spike": (3, 2.0, 1, [*noisy(12, 5, 6, 10), math.nan]),
        "at the limit, and just above it": (3, 2.0, 2, limits[params["rule"]]),
        "an even window": (2, 2.0, 2, [1.0, 3.0, 3.5, 6.75, 3.875, 3.0]),
        "a median of zero": (3, 2.0, 2, zero),
        "a window of one": (1, 2.0, 2, [2.0, 4.0, 1.0, 3.0, 1.0, 5.0, 6.0, 1.0]),
        "a window of eleven": (11, 2.0, 2, [1.0] * 6 + [2e4] * 5 + [3.0, 1.0]),
        "NaN in a row of spikes": (3, 2.0, 3, [2.0, 2, 2, 9, math.nan, 9, math.inf, 2]),
        "NaN at a rollback": (3, 2.0, 3, [2.0, 2, 2, 9, 9, math.nan, math.inf, math.nan, 9]),
        "not finite from the first loss on": (3, 2.0, 2, [math.nan, math.inf, 2.0, 2.0]),
        "NaN, a good loss and NaN at the start": (4, 2.0, 2, [math.nan, 2.0, math.nan, 2.0]),
        "a falling loss": (6, 1.2 if params["rule"] == "ratio" else 3.0, 2, falling),
        "a long plateau that would become usual": (4, 2.0, 50, usual),
        "2,100 losses": (8, 2.0, 3, noisy(2100, 400, 401, 402, 1999)),
    }
    return [
        case(shown, "one spike", "values:skips", 5, 2.0, 3, noisy(12, 8)),
        case(shown, "a plateau of spikes", "values:rollbacks", 4, 2.0, 3, noisy(20, *range(9, 13))),
        case(hidden, "spikes at the start are accepted", "values:skips", 4, 1.5, 2, noisy(14, 1, 6, 9)),
        case(hidden, "NaN and infinity, from the first loss on", "values:skips", 4, 3.0, 5, odd),
        case(hidden, "spikes with a pause", "values:rollbacks", 4, 2.0, 3, pauses),
        *[case(hidden, name, "generality:edges", *given) for name, given in edges.items()],
    ]


def _guard_fault(params: Params, case: Case, got: Any) -> Fault | None:
    rule = params["rule"]
    want, said = guard(rule, *case.args), [each.strip().lower() for each in got]
    if len(said) != len(want):
        return "wrong-shape", f"one word for each of the {len(want)} losses; got {len(said)}."
    if said[-1:] == ["grows"]:
        return "grows", "the guard keeps far more losses than the last `window`, which are enough."
    if said == want:
        return None
    other = "deviation" if rule == "ratio" else "ratio"
    lead = "this solves the public form of the exercise: " if rule != "ratio" else ""
    known: list[tuple[str, str, dict[str, Any], str]] = [
        ("public-form" if lead else "other-rule", other, {}, f"{lead}the limit is computed in another way."),
        ("spikes-join", rule, {"joins": True}, "spikes join the losses that set the limit, so that they become usual."),
        ("mean", rule, {"middle": lambda kept: fmean(kept)}, "this is the mean of the losses, not the median."),
        ("one-of-the-middle", rule, {"middle": median_low}, "this takes the lower of the two losses in the middle."),
        ("one-of-the-middle", rule, {"middle": median_high}, "this takes the upper of the two losses in the middle."),
        ("all-losses", rule, {"forever": True}, "all accepted losses set the limit, not the last `window`."),
        ("not-reset", rule, {"resets": False}, "after a rollback the count of spikes begins again."),
        ("not-in-a-row", rule, {"total": True}, "a loss that is no spike sets the count back to zero."),
        ("late", rule, {"late": 1}, "the rollback comes one spike too late."),
        ("at-the-limit", rule, {"least": True}, "a loss at the limit is no spike."),
        ("nan-accepted", rule, {"finite": False}, "NaN is no number to compare with; test for it first."),
    ]
    for name, kind, change, message in known:
        if said == guard(kind, *case.args, **change):
            return name, message
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    return "other-word", f"loss {at + 1} of {len(want)} is {case.args[3][at]:g}, and {said[at]!r} is not right."


WATCHING = {
    "find-straggler": Judging(
        shares="values:found 0.4, generality:limits 0.3, generality:several 0.3",
        cases=_straggler_cases,
        verdicts=oracle(lambda params, case, outcome: _straggler_fault(params, case, outcome.value), named=True),
        why="""The slow rank is the one that waits least: the others wait for it. Own time within a step tells it apart, the median is not moved by it, and
counting steps keeps a single long step, such as a checkpoint, from being blamed on a rank.""",
        pytorch="`torch.profiler` traces give the three times per rank; MegaScale and others compare them across ranks in the same way.",
    ),
    "blame-the-rank": Judging(
        shares="values:missing 0.3, values:different 0.2, generality:chains 0.5",
        cases=_blame_cases,
        verdicts=oracle(lambda params, case, outcome: _blame_fault(case, outcome.value), named=True),
        why="""A rank that waits is a witness. Follow who waits for whom to the rank that waits for nobody: that one is elsewhere in its code, or dead. If every
rank that is waited for waits itself, the ranks entered their groups in different orders.""",
        pytorch="`torchfrtrace` reads the dumps of the flight recorder of all ranks and names the calls that do not match.",
    ),
    "spike-guard": Judging(
        shares="values:skips 0.3, values:rollbacks 0.3, generality:edges 0.4",
        cases=_guard_cases,
        verdicts=oracle(lambda params, case, outcome: _guard_fault(params, case, outcome.value), named=True),
        why="""A median over accepted losses is not moved by the spikes that it is to find. One bad batch is skipped; several in a row mean that the weights
are already hurt, and only an older checkpoint helps. PaLM's authors did both: they went back and left out the batches around the spike.""",
        pytorch="There is no such guard in PyTorch; `torch.nn.utils.clip_grad_norm_(…, error_if_nonfinite=True)` stops at NaN.",
    ),
}
