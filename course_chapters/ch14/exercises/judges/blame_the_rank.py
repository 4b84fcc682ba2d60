from collections.abc import Mapping, Sequence
from typing import Any

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, describe, hidden, oracle, shown
from course_grader.judging.cases import Maker

Call = tuple[str, int, str, int, bool]
Hang = tuple[Mapping[str, Sequence[int]], dict[int, list[Call]]]  # groups, and the calls of each rank


right = Worked("blame-the-rank")


def _history(rng: Random, groups: Mapping[str, Sequence[int]], calls: int) -> dict[int, list[Call]]:
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


def _hangs(rng: Random, size: int) -> dict[str, Hang]:
    """A hang of each kind among `size` ranks, whose numbers are drawn and have gaps."""
    few, many = rng.sample(range(2, 10), size // 2), rng.sample(range(100, 200), size - size // 2)  # text: "100" < "2"
    ranks, (a, *more), (b, *less) = sorted(few + many), many, few
    rest = rng.sample(less + more, size - 2)
    everybody = {rng.choice("wxyz"): ranks}
    (world,) = everybody
    hangs: dict[str, Hang] = {}

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
    hang("one rank in two calls", {"s": [a, b], "t": [b, *rest]}, 2, ("s", [b]), ("t", [b]))
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


def _blame_cases(params: Params, rng: Random) -> list[Case]:
    absent = "one rank missing", "several missing", "nothing wrong"
    circles = "a chain of waits", "a circle", "two orders"
    beside = "a circle, and one missing", "two calls at once", "one is through", "finished with another count"
    later = "a finished call after an open one", "one is through, with another count", "waits in the call before"
    again = "another operation", "another operation, and finished", "few have entered", "few are in the group"
    first, second = _hangs(rng, params["ranks"]), _hangs(rng, params["ranks"] + 3)

    def case(make: Maker, name: str, share: str, *names: str, where: Mapping[str, object] | None = None) -> Case:
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
        case(
            hidden, "waits beside others", "generality:chains", *beside, *later, "one rank in two calls", where=second
        ),
    ]


def _blame_fault(case: Case, got: Sequence[tuple[str, Sequence[int]] | None]) -> Fault | None:
    want = right.value(case)
    said = [None if each is None else (each[0].strip().lower(), list(each[1])) for each in got]
    if said == want:
        return None
    at = next(at for at, pair in enumerate(zip(said, want, strict=True)) if pair[0] != pair[1])
    lead, mine, due = f"case {at + 1} of {len(want)}: ", said[at], want[at]
    if mine is None:
        return "overlooked", f"{lead}a call is not finished, and nothing is found."
    if due is None:
        return "false-alarm", f"{lead}every call is finished; return None."
    if mine[0] != due[0]:
        return Wrong("other-kind", f"{lead}it is not {mine[0]!r}. Go through the three kinds in order.", lead)
    if sorted(map(str, mine[1])) == sorted(map(str, due[1])):
        return "unsorted", f"{lead}the ranks are right; sort them."
    return Wrong("other-ranks", f"{lead}the kind is right, and ranks {describe(mine[1])} are not.", lead)


JUDGING = Judging(
    shares="values:missing 0.3, values:different 0.2, generality:chains 0.5",
    cases=_blame_cases,
    verdicts=oracle(lambda params, case, outcome: _blame_fault(case, outcome.value), named=True),
    why="""A rank that waits is a victim. Follow the waits to a rank that waits for no other: that one is
elsewhere in its code, or dead. If every rank that is waited for waits itself, the ranks entered their groups in
different orders.""",
    pytorch="`torchfrtrace` reads the dumps of the flight recorder of all ranks and names the calls that do not match.",
)

ANSWERS = r'''# %% right: worked
def blame(groups: dict[str, list[int]], records: dict[int, list[tuple]]) -> tuple[str, list[int]] | None:
    """What hangs the job and which ranks cause it; None if every call is finished."""
    entered = {rank: {call[:2] for call in calls} for rank, calls in records.items()}
    stuck = {call[:2] for calls in records.values() for call in calls if not call[4]}
    odd = set()
    for key in stuck:
        kinds = {rank: call[2:4] for rank, calls in records.items() for call in calls if call[:2] == key}
        usual = Counter(kinds.values()).most_common(1)[0][0]
        odd |= {rank for rank, kind in kinds.items() if kind != usual}
    if odd:
        return "different", sorted(odd)
    waited = {rank for group, number in stuck for rank in groups[group] if (group, number) not in entered[rank]}
    free = {rank for rank in waited if all(call[4] for call in records[rank])}
    if not waited:
        return None
    return ("missing", sorted(free)) if free else ("order", sorted(waited))
# %% right: the usual kind by a tally, in a list
# ~ Counter(kinds.values()).most_common(1)[0][0] ==> max(tally := Counter(kinds.values()), key=tally.get)
# ~ return "different", sorted(odd) ==> return ["different", sorted(odd)]
# %% wrong: blames the waiting => values
# > these ranks wait themselves; find the ranks that they wait for.
# ~ if all(call[4] for call in records[rank])}
# ~~ ==> if all(call[4] for call in records[rank])} and {rank for rank in records if not all(call[4] for call in
# ~~ records[rank])}
# %% wrong: blames a victim => generality
# > some of these ranks wait in another call themselves.
# ~ if all(call[4] for call in records[rank])} ==> }
# %% wrong: circles are overlooked => generality overlooked
# ~ ("missing", sorted(free)) if free else ("order", sorted(waited)) ==> ("missing", sorted(free)) if free else None
# %% wrong: sizes are not compared => values
# > calls that differ only in `count` are different, too.
# ~ call[2:4] ==> call[2:3]
# %% wrong: missing before different => generality
# > check for "different" first, even if a rank is missing.
# ~ if odd:
# ~~ ==> if odd and not any((group, number) not in entered[rank] and all(call[4] for call in records[rank]) for group,
# ~~ number in stuck for rank in groups[group]):
# %% wrong: the fewest calls => values false-alarm
#       entered = {rank: {call[:2] for call in calls} for rank, calls in records.items()}
# +     fewest = min(map(len, records.values()))
# +     return "missing", sorted(rank for rank, calls in records.items() if len(calls) == fewest)
# %% wrong: groups are not told apart => generality
# > a call waits only for the ranks of its own group.
# ~ rank in groups[group] ==> rank in records
# %% wrong: numbers are not told apart => values
# > another call of the group is not enough: the rank must have entered the call of this number.
# ~ if (group, number) not in entered[rank]} ==> if group not in {call[0] for call in records[rank]}}
# %% wrong: the first rank alone => values other-ranks
# ~ sorted(free) ==> sorted(free)[:1]
# %% wrong: the ranks are not sorted => values unsorted
# ~ sorted(free) ==> sorted(free, reverse=True)
# %% wrong: nothing wrong is missing => values false-alarm
# ~ if not waited: ==> if False:
# %% wrong: one rank differs at most => generality other-ranks
# ~ sorted(odd) ==> sorted(odd)[:1]
# %% wrong: the last call of each rank alone => generality overlooked
#       """What hangs the job and which ranks cause it; None if every call is finished."""
# +     records = {rank: calls[-1:] for rank, calls in records.items()}
# %% wrong: the first open call of each rank alone => generality
# > a rank may have several unfinished calls; this follows only the first.
# ~ for call in calls if not call[4]} ==> for call in [call for call in calls if not call[4]][:1]}
# %% wrong: only unfinished calls are compared => generality
# > a rank that has finished a call has entered it as well, so its record counts, too.
# ~ {call[:2] for call in calls} for rank ==> {call[:2] for call in calls if not call[4]} for rank
# ~ == key} ==> == key and not call[4]}
# %% wrong: a circle comes before a missing rank => generality other-kind
# > it is "missing" as soon as a call waits for a rank that has no unfinished call itself.
# ~ if free else ==> if free == waited else
# %% wrong: a rank is busy if its last call is open => generality ~
# ~ if all(call[4] for call in records[rank])} ==> if not records[rank] or records[rank][-1][4]}
# %% wrong: who waits is remembered by the numbers of calls => generality ~
# - def blame(groups: dict[str, list[int]], records: dict[int, list[tuple]]) -> tuple[str, list[int]] | None:
# + BUSY = {}
# + def blame(groups: dict[str, list[int]], records: dict[int, list[tuple]]) -> tuple[str, list[int]] | None:
# ~ if all(call[4] for call in records[rank])}
# ~~ ==> } - BUSY.setdefault(tuple((rank, len(calls)) for rank, calls in records.items()), {rank for rank in records if
# ~~ not all(call[4] for call in records[rank])})
'''
