from collections.abc import Sequence

from course_grader.judging import (
    WHOLE,
    Case,
    Fault,
    Judging,
    Params,
    Random,
    Worked,
    Wrong,
    describe,
    hidden,
    oracle,
    shown,
)
from course_grader.judging.cases import Maker

Table = Sequence[Sequence[float]]  # [step][rank]


right = Worked("find-straggler")


def _whole(own: Table, base: float) -> list[list[float]]:
    """What is left of the slowest rank's time in each step, and a little for the collective itself."""
    return [[max(step) - each + base for each in step] for step in own]


def _steps(rng: Random, steps: int, ranks: int) -> tuple[list[list[float]], list[list[float]]]:
    """Compute and data times in eighths of a second, even but for a little."""
    compute = [[8 + rng.choice((0, 0, 0.125)) for _ in range(ranks)] for _ in range(steps)]
    data = [[1 + rng.choice((0, 0, 0.125)) for _ in range(ranks)] for _ in range(steps)]
    return compute, data


def _straggler_cases(params: Params, rng: Random) -> list[Case]:
    factor = params["factor"]

    def row(compute: list[list[float]], data: list[list[float]]) -> tuple[list[list[float]], ...]:
        own = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(compute, data, strict=True)]
        return compute, data, _whole(own, 0.5)

    def slow(ranks: int, who: int, kind: str, when: Sequence[bool], by: float = 3.0) -> tuple[list[list[float]], ...]:
        tables = dict(zip(("compute", "data"), _steps(rng, len(when), ranks), strict=True))
        for step, late in enumerate(when):
            tables[kind][step][who] += 9 * (factor - 1) + by if late else 0
        return row(tables["compute"], tables["data"])

    def exactly(late: float) -> tuple[object, ...]:
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
    zeros = [[0.0] * 5] * 3
    # the two in the middle are 8 and 8.5; a rank at 8.125 or 8.375 times the factor is on either side of their mean
    middles = [row([[8.0, 8.5, 8.0, each * factor]] * 3, [[0.0] * 4] * 3) for each in (8.125, 8.375)]
    middles.append(row([[8.0, 8.5, 2.0, 8.375 * factor]] * 3, [[0.0] * 4] * 3))  # the mean is below the median
    middles.append(row([[8.0, 8.5, 9, 8, 8.375 * factor]] * 3, zeros))  # of the other ranks, the median is 8.25
    middles.append(row([[at, at, at * factor + 1, at] for at in (8.0, 40.0)], [[0.0] * 4] * 2))
    middles.append(row([[8.0, 8, 8, 24, 24]] * 3, [[17.0, 17, 1, 1, 1]] * 3))  # medians of 8 and 1, and of 25 together
    more_by = 9 * (factor - 1)  # from here on a rank is late
    totals = [  # late more often and less in all, and the reverse
        row([[8.0, 9 + more_by, 8, 8.0 + by * (at < 3), 8] for at in range(5)], [[1.0] * 5] * 5)
        for by in (more_by + 8, more_by + 1)
    ]
    totals.append(row([[8.0, 13 + more_by, 8, 8.0 + (more_by + 8) * (at < 3), 8] for at in range(5)], [[1.0] * 5] * 5))
    totals.append(row([step[::-1] for step in totals[0][0]], [[1.0] * 5] * 5))
    # data exceeds by more where the rank is late, computation in all; then a large computation; then others' slow data
    late_data = row(
        [[8.0, 8, 8 + (more_by + 3 if at > 2 else more_by / 2), 8] for at in range(9)],
        [[1.0, 1, 1 + (more_by + 3.125 if at > 2 else 0.0), 1] for at in range(9)],
    )
    large = row([[8.0, 8, 8, 9 + 2 * more_by]] * 3, [[1.0, 1, 1, 1.5 + more_by]] * 3)
    others = row([[8.0, 8, 8, 8, 8 + more_by + 3]] * 3, [[1.0, 1 + more_by + 4, 1, 1, 1 + more_by + 3.5]] * 3)
    # In `uneven` the lower median, 8 instead of 8.5, would blame computation. In `alternate` another rank loads slowly
    # in each step.
    uneven = row([[8.0, 8, 9, 12 + more_by]] * 3, [[1.0, 1, 1, 4.75 + more_by]] * 3)
    turns = [[4.0 if rank == at else 1.0 for rank in range(3)] + [5.5 + more_by, 1.0] for at in range(3)]
    alternate = row([[8.0, 8, 8, 12 + more_by, 8]] * 3, turns)
    kinds = late_data, large, others, uneven, alternate
    many = slow(40, 33, "compute", [True] * 11 + [False] * 10)
    tie = row([[8.0, 8, 12 + more_by, 8]] * 3, [[1.0, 1, 5 + more_by, 1]] * 3)  # both times exceed by the same
    stragglers = two, equal, row(*both[:2]), crowd, tie
    accident = slow(5, 3, "compute", [False, False, True, False, False], by=400.0)

    elsewhere = slow(7, 5, "data", [True] * 3), slow(3, 0, "data", [True] * 5), slow(9, 8, "compute", more)
    halves = slow(5, 1, "data", half), slow(5, 1, "data", more)

    own, loads, waits = slow(4, 2, "compute", [True] * 4)
    longer = [[[each + 1000 for each in step] for step in table] for table in (own, loads)]
    beside = (own, loads, waits), (longer[0], loads, waits), (own, longer[1], waits)  # the same waits

    def case(make: Maker, name: str, share: str, *given: tuple[object, ...]) -> Case:
        return make(name, share, 0, list(given))

    return [
        case(shown, "one rank computes slowly", "values:found", slow(4, 2, "compute", [True] * 4)),
        case(hidden, "slow data, other ranks", "values:found", *elsewhere),
        case(hidden, "nobody is slow", "values:found", row(*_steps(rng, 5, 6)), accident, slow(4, 1, "compute", half)),
        case(hidden, "late, and beside more work of all ranks not late", "generality:limits", *beside),
        case(hidden, "late in half of the steps, and in more", "generality:limits", *halves),
        case(hidden, "at the limit, and just above it", "generality:limits", exactly(0.0), exactly(2**-13)),
        case(hidden, "an even number of ranks, an odd one, steps unlike each other", "generality:limits", *middles),
        case(hidden, "one late more often, another more in all", "generality:several", *totals),
        case(hidden, "which of its times exceeds by more", "generality:several", *kinds),
        case(hidden, "two stragglers, equal ones, both kinds", "generality:several", *stragglers),
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


def _straggler_fault(case: Case, got: Sequence[tuple[int, str] | None]) -> Fault | None:
    rows, want = case.args[1], right.value(case)
    said = [None if each is None else (each[0], each[1].strip().lower()) for each in got]
    if said == want:
        return None
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    lead = f"case {at + 1} of {len(rows)}, {len(rows[at][0])} steps: "
    if want[at] and (pair := said[at]) and pair[0] == want[at][0]:
        return "other-kind", f"{lead}the rank is right. Which of its two times exceeds the median by more?"
    return Wrong("", f"{lead}got {describe(said[at])}, which is not right.", lead, WHOLE)


JUDGING = Judging(
    shares="values:found 0.4, generality:limits 0.3, generality:several 0.3",
    cases=_straggler_cases,
    verdicts=oracle(lambda params, case, outcome: _straggler_fault(case, outcome.value), named=True),
    why="""The slow rank is the one that waits least: the others wait for it. Its own time within a step shows it. It
does not move the median, and counting steps keeps a single long step, such as a checkpoint, from being blamed on a
rank.""",
    pytorch="`torch.profiler` traces give the three times per rank; MegaScale and others compare them across ranks in "
    "the same way.",
)

ANSWERS = r'''from statistics import mean
# %% right: worked
factor = params("find-straggler").factor  # leave as is


def straggler(compute, data, wait) -> tuple[int, str] | None:
    """The rank that makes the others wait, and what makes it slow; None where there is none."""
    own = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(compute, data, strict=True)]
    ranks = range(len(own[0])) if own else []
    late = [rank for rank in ranks if sum(step[rank] > factor * median(step) for step in own) > len(own) / 2]
    if not late:
        return None
    rank = max(late, key=lambda each: (sum(step[each] for step in own), -each))
    above = [sum(step[rank] - median(step) for step in table) for table in (compute, data)]
    return rank, "compute" if above[0] >= above[1] else "data"
# %% right: counts on which steps each rank is late
# ~ sum(step[rank] > factor * median(step) for step in own) > len(own) / 2
# ~~ ==> 2 * [step[rank] - factor * median(step) > 0 for step in own].count(True) > len(own)
# ~ max(late, key=lambda each: (sum(step[each] for step in own), -each))
# ~~ ==> sorted(late, key=lambda each: (-sum(step[each] for step in own), each))[0]
# %% wrong: blames the waiting => values
# > the rank that waits longest finishes first, so the others do not wait for it.
# ~ [rank for rank in ranks if sum(step[rank] > factor * median(step) for step in own) > len(own) / 2]
# ~~ ==> sorted(ranks, key=lambda each: -sum(step[each] for step in wait))[:1]
# %% wrong: mean of ranks => generality
# > a slow rank raises the mean of the ranks; take the median.
# ~ factor * median(step) ==> factor * mean(step)
# %% wrong: one long step => values
# > this takes the mean over the steps, which one long step decides; count the steps.
#       ranks = range(len(own[0])) if own else []
# +     own = [[mean(step[rank] for step in own) for rank in ranks]] if own else []
# %% wrong: half is enough => values
# > late in half of the steps is not more than half.
# ~ > len(own) / 2 ==> >= len(own) / 2
# %% wrong: in all steps => values
# > more than half of the steps are enough, not all of them.
# ~ > len(own) / 2 ==> == len(own)
# %% wrong: at the limit => generality
# > a rank exactly at the limit is not late.
# ~ step[rank] > factor ==> step[rank] >= factor
# %% wrong: always compute => values other-kind
# > the rank is right. Which of its two times exceeds the median by more?
# ~ "compute" if above[0] >= above[1] else "data" ==> "compute"
# %% wrong: the larger time is the kind => values other-kind
# > the rank is right, and `kind` is not the larger of its times: which of them exceeds the median by more?
# ~ sum(step[rank] - median(step) for step in table) ==> sum(step[rank] for step in table)
# %% wrong: lowest of several => generality
# > of several stragglers this takes the lowest rank; take the one with the largest own time in all.
# ~ max(late, key=lambda each: (sum(step[each] for step in own), -each)) ==> min(late)
# %% wrong: highest of equals => generality
# > of equals, take the lowest rank.
# ~ , -each) ==> , each)
# %% wrong: computation alone => values
# > a rank's own time is computation and waiting for its data together.
# ~ [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(compute, data, strict=True)] ==> compute
# %% wrong: never anybody => values -
# ~ if not late: ==> if late or not late:
# %% wrong: the lower of the middle => generality one-of-the-middle
# > this takes the lower of the two in the middle, not their mean.
# ~ factor * median(step) ==> factor * median_low(step)
# %% wrong: the upper of the middle => generality one-of-the-middle
# > this takes the upper of the two in the middle, not their mean.
# ~ factor * median(step) ==> factor * median_high(step)
# %% wrong: median of the others => generality
# > this takes the median of the other ranks; that of all ranks counts.
# ~ factor * median(step) for ==> factor * median(step[:rank] + step[rank + 1 :] or step) for
# %% wrong: one median for all steps => generality
# > this takes one median over all steps; each step has its own.
# ~ factor * median(step) for ==> factor * median(sum(own, [])) for
# %% wrong: the medians are added => generality
# > this adds the medians of both tables; take the median of the ranks' own times.
# ~ factor * median(step) for step in own)
# ~~ ==> factor * sum(map(median, pair)) for step, *pair in zip(own, compute, data, strict=True))
# %% wrong: late most often => generality
# > of several stragglers this takes the one that is late most often; take the one with the largest own time in all.
# ~ [each] for ==> [each] > factor * median(step) for
# %% wrong: the kind of the last step => generality other-kind
# > the rank is right; for its kind, sum over all steps what each of its times exceeds the median by.
# ~ sum(step[rank] - median(step) for step in table) ==> table[-1][rank] - median(table[-1])
# %% wrong: two ranks have no straggler => generality ~
# ~ if not late: ==> if not late or len(ranks) < 3:
# %% wrong: a median of zero makes nobody late => generality ~
# ~ factor * median(step) for ==> factor * median(step) > 0 for
'''
