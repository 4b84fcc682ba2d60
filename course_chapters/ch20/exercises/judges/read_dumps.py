from collections.abc import Iterable, Mapping
from functools import partial

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, describe, hidden, oracle, shown
from course_grader.records import Outcome

right = Worked("read-dumps")
Dump = dict[str, object]
CALLS = (  # of a step: description, operation, sizes
    ("tp", "all_reduce", [[16, 8]]),
    ("tp", "all_reduce", [[16, 8]]),
    ("dp", "_reduce_scatter_base", [[64]]),
    ("default_pg", "all_reduce", [[1]]),
)
STEPS = 3


def _dumps(
    rng: Random,
    *spoiled: tuple[str, int, Iterable[int]],
    over: tuple[int, int],
    dead: Iterable[int] = (),
    ahead: int = 4,
    late: Mapping[int, int] | None = None,
) -> tuple[dict[int, Dump]]:
    """What the ranks of a job over (TP, DP) write after three steps of calls, or where these hang. Each of `spoiled`,
    (word, place, ranks), spoils that call of these ranks: "lost" is never issued, "busy" never started, and of one that
    does not end, "past" ends on its rank. Ranks issue `ahead` calls more, and do so `late`."""
    (tp, dp), faults = over, {(rank, place): word for word, place, ranks in spoiled for rank in ranks}
    size, end = tp * dp, STEPS * len(CALLS)
    names = ["0", *map(str, rng.sample(range(1, 90), tp + dp))]
    members = [[*range(size)], *([*range(at * tp, at * tp + tp)] for at in range(dp))]
    members += [[*range(at, size, tp)] for at in range(tp)]
    stands, played = [0] * size, set[tuple[int, int]]()

    def call(rank: int, place: int) -> tuple[int, int]:
        step, kind = divmod(place, len(CALLS))
        if kind < 2:
            return 1 + rank // tp, 2 * step + kind
        return (1 + dp + rank % tp, step) if kind == 2 else (0, step)

    def runs(rank: int) -> tuple[int, int] | None:
        waits = stands[rank] == end or faults.get((rank, stands[rank])) in ("lost", "busy")
        return None if waits else call(rank, stands[rank])

    def ready() -> Iterable[tuple[int, int]]:
        now = {each for rank in range(size) if (each := runs(rank))} - played
        return sorted(each for each in now if all(runs(rank) == each for rank in members[each[0]]))

    while calls := ready():
        played.update(calls)
        for group, _ in calls:
            words = {rank: faults.get((rank, stands[rank])) for rank in members[group]}
            for rank, word in words.items():
                stands[rank] += word == "past" or set(words.values()) == {None}
    dumps: dict[int, Dump] = {}
    for rank in {*range(size)} - {*dead}:
        lost = min((place for (one, place), word in faults.items() if (one, word) == (rank, "lost")), default=end)
        entries, delay = [], (late or {}).get(rank, rng.randrange(4000))
        for place in range(min(lost, stands[rank] + ahead + 1, end)):
            (group, number), word = call(rank, place), faults.get((rank, place))
            label, operation, sizes = CALLS[place % len(CALLS)]
            here = "scheduled" if place > stands[rank] or word == "busy" else "started"
            entries.append(
                {
                    "record_id": place,
                    "process_group": (names[group], label),
                    "collective_seq_id": number,
                    "profiling_name": f"nccl:{'broadcast' if word == 'operation' else operation}",
                    "input_sizes": {"sizes": [[9]], "turned": [sizes[0][::-1]]}.get(word or "", sizes),
                    "state": "completed" if place < stands[rank] else here,
                    "time_created_ns": (place * 10_000 + delay + rng.randrange(4000)) * size + rank,
                }
            )
        inside = [at for at, ranks in enumerate(members) if rank in ranks]
        config = {names[at]: {"desc": "", "ranks": str(members[at])} for at in inside}
        dumps[rank] = {"version": "2.10", "pg_config": config, "entries": entries}
    return (dumps,)


def _cases(params: Params, rng: Random) -> list[Case]:
    tp = params["tp"]
    job = partial(_dumps, rng, over=(tp, 3))
    one, other = rng.sample(range(tp), 2)
    group = range(tp, 2 * tp)  # the second TP group
    causes = [job((word, 5, [tp + one])) for word in ("lost", "operation", "sizes", "turned", "busy")]
    causes += [job(("lost", 5, [tp + one]), dead=[tp + one]), job(("network", 5, group)), job(), job(ahead=0)]
    causes += [job((word, 6, [tp + one])) for word in ("lost", "operation", "sizes", "busy")]
    causes += [job(("network", 6, range(one, 3 * tp, tp))), job(("network", 7, range(3 * tp)))]
    both = [job(("operation", 1, [5]), ("lost", 1, [6]), over=(5, 2)), job(("sizes", 5, [tp]), ("busy", 5, [tp + 2]))]
    both += [job(("lost", 5, [tp, tp + 1]), dead=[tp + 1]), job(("operation", 5, [tp]), ("sizes", 5, [tp + 1]))]
    both += [job(("operation", 3, [other]), ("busy", 3, [one + tp])), job(("lost", 5, group[:-1]), dead=group[1:-1])]
    both += [job(("operation", 1, [1]), over=(2, 2)), job(("sizes", 1, [2]), over=(2, 2)), job(("busy", 0, [0]))]
    both += [job(("operation", 1, [0, 1]), over=(4, 2)), job(("sizes", 1, [4, 6]), over=(4, 3))]
    past = [job(("network", 5, group[1:]), ("past", 5, group[:1])), job(("network", 3, [5]), ("past", 3, range(5)))]
    past += [job(("network", 3, group), ("past", 3, {*range(3 * tp)} - {*group}))]
    past += [job(("operation", 5, [tp]), ("past", 5, group[1:]))]
    several = [job((word, 5, [one]), ("network", 4, group)) for word in ("lost", "sizes", "busy") for _ in range(2)]
    several += [job(("lost", 5, [one]), ("busy", at, [tp + other])) for at in (1, 5, 6)]
    slow = [dict.fromkeys(each, 4500) | {later: 9500} for each, later in ((group, 0), (range(tp), tp))]
    several += [
        job(("busy", 1, [1]), ("sizes", 1, [tp + 1]), late={**each, at: 0})
        for each, at in zip(slow, (1, tp + 1), strict=True)
    ]
    behind = dict.fromkeys(group, 40_000)  # their call is the cause, and has the latest times
    several += [job((word, 5, [tp + one]), late=behind) for word in ("lost", "busy")]
    several += [job(("lost", at, [one]), dead=[one]) for at in (0, 4, 5)]
    several += [job(("busy", 0, [tp + other]), ("lost", 1, [one]), dead=[one])]  # dead in a later call
    several += [job(("lost", 9, [one]), ("busy", 6, [2 * tp + other]), over=(tp, 5), ahead=each) for each in (0, 1, 6)]
    return [
        shown("a rank never comes", "values:cause", 0, [job(("lost", 5, [1]), over=(tp, 2))]),
        hidden("each cause, in groups of TP, of DP, and of all", "values:cause", 0, causes),
        hidden("two things in one call, and no majority", "generality:call", 0, both),
        hidden("ranks that are past the call", "generality:call", 0, past),
        hidden("several hangs at once", "generality:several", 0, several),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for at, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        lead = f"job {at + 1} of {len(outcome.value)}: "
        if got is None or want is None:
            if got is not want:
                said = "no rank stands; return None." if want is None else "a rank stands, and nothing is found."
                return Wrong("", lead + said, lead)
            continue
        cause, ranks, call = got[0].strip().lower(), list(got[1]), list(got[2:])
        if call != list(want[2:]):
            return Wrong("", f"{lead}it began in another call than number {call[1]} of {describe(call[0])}.", lead)
        if cause != want[0]:
            return Wrong("", f"{lead}the call is right; its cause is not {cause!r}.", lead)
        if ranks != want[1]:
            return Wrong("", f"{lead}call and cause are right; the ranks are not {describe(ranks)}.", lead)
    return None


JUDGING = Judging(
    shares="values:cause 0.4, generality:call 0.3, generality:several 0.3",
    cases=_cases,
    verdicts=oracle(_fault, named=True),
    why="""A timeout is reported wherever a rank waits, most often in the largest group: everybody waits there. The call
that waits for no other one is where to look. Its entries then say what to look at: a log that ends, a branch of the
program, a shape, a kernel, or a link.""",
    pytorch="`torchfrtrace` compares the dumps call by call; `TORCH_FR_BUFFER_SIZE` says how many entries are kept.",
)

ANSWERS = r'''import json
import math
from collections import Counter


# %% right: worked
def first_cause(dumps: dict[int, dict]) -> tuple[str, list[int], str, int] | None:
    """Where a job's hang began: the cause, its ranks, and the call's group and number."""
    ### BEGIN SOLUTION
    groups, calls, stands = {}, {}, {}
    for rank, dump in dumps.items():
        groups |= {name: json.loads(about["ranks"]) for name, about in dump["pg_config"].items()}
        for entry in dump["entries"]:
            call = entry["process_group"][0], entry["collective_seq_id"]
            calls.setdefault(call, {})[rank] = entry
            if entry["state"] != "completed":
                stands.setdefault(rank, call)

    def behind(call):
        done = {rank for rank, entry in calls[call].items() if entry["state"] == "completed"}
        return sorted(set(groups[call[0]]) - done)

    first = [call for call in stands.values() if all(stands.get(rank, call) == call for rank in behind(call))]
    if not first:
        return None
    call = min(first, key=lambda each: min(entry["time_created_ns"] for entry in calls[each].values()))
    entries, late = calls[call], behind(call)

    def odd(name):
        told = {rank: str(entry[name]) for rank, entry in entries.items()}
        usual, count = Counter(told.values()).most_common(1)[0]
        return sorted(rank for rank in told if told[rank] != usual or 2 * count <= len(told))

    found = {
        "dead": [rank for rank in late if rank not in dumps],
        "absent": [rank for rank in late if rank not in entries],
        "operation": odd("profiling_name"),
        "sizes": odd("input_sizes"),
        "busy": [rank for rank in late if entries.get(rank, {}).get("state") == "scheduled"],
        "network": late,
    }
    cause = next(cause for cause in found if found[cause])
    return cause, found[cause], *call
    ### END SOLUTION

# %% right: all causes with ranks, and the first of them
# ~ str(entry[name]) for ==> repr(entry[name]) for
# ~ cause = next(cause for cause in found if found[cause]) ==> cause = [cause for cause in found if found[cause]][0]
# %% right: past is asked of each rank
# -         done = {rank for rank, entry in calls[call].items() if entry["state"] == "completed"}
# ~ sorted(set(groups[call[0]]) - done)
# ~~ ==> [rank for rank in groups[call[0]] if calls[call].get(rank, {}).get("state") != "completed"]
# %% wrong: a rank stands in its last call => values
# > a rank stands in its *first* entry that is not completed; the later ones are queued behind it.
# ~ stands.setdefault(rank, call) ==> stands[rank] = call
# %% wrong: a call that waits for another one => generality
# > a rank of this group stands in another call, so this call is a consequence.
# ~ if all(stands.get(rank, call) == call for rank in behind(call))] ==> ]
# %% wrong: a queued call is a call that runs => values
# > a scheduled call has not begun on that rank's GPU: the rank is not in it.
# ~ == "scheduled"] ==> == ""]
# %% wrong: no dump is absence => values
# > a rank without a dump is dead; "absent" is a rank whose dump lacks the call.
# ~ if rank not in dumps], ==> if False],
# %% wrong: only ranks with a dump => values
# > groups contain ranks without a dump, too.
# ~ sorted(set(groups[call[0]]) - done) ==> sorted(set(groups[call[0]]) & set(dumps) - done)
# %% wrong: every dead rank counts => generality
# > a rank without a dump explains only calls of its own groups.
# ~ "dead": [rank for rank in late if rank not in dumps],
# ~~ ==> "dead": sorted({rank for each in groups.values() for rank in each} - set(dumps)),
# %% wrong: sizes do not matter => values
# > the entries of this call differ in their sizes.
# ~ odd("input_sizes"), ==> [],
# %% wrong: numbers of elements are compared => values
# > two shapes with the same number of elements are different sizes.
# ~ str(entry[name]) for ==> str(math.prod(entry[name][0]) if name == "input_sizes" else entry[name]) for
# %% wrong: sizes before operation => generality
# > where operations differ, sizes are not asked any more.
# ~ "operation": odd("profiling_name"), ==> "sizes": odd("input_sizes"),
# ~ "sizes": odd("input_sizes"), ==> "operation": odd("profiling_name"),
# %% wrong: absent ranks come after those that differ => generality
# > where a rank of the group is absent, the entries of the others are not compared.
# ~ "absent": [rank for rank in late if rank not in entries], ==> "operation": odd("profiling_name"),
# ~ "operation": odd("profiling_name"), ==> "sizes": odd("input_sizes"),
# ~ "sizes": odd("input_sizes"), ==> "absent": [rank for rank in late if rank not in entries],
# %% wrong: no majority is needed => generality
# > there is no majority here: each of the entries may be the wrong one.
# ~ or 2 * count <= len(told)) ==> )
# %% wrong: everybody is behind => generality
# > some of these ranks have completed the call.
# ~ sorted(set(groups[call[0]]) - done) ==> sorted(groups[call[0]])
# %% wrong: the smallest number is first => values
# > numbers of different groups say nothing about the order in time.
# ~ min(first, key=lambda each: min(entry["time_created_ns"] for entry in calls[each].values()))
# ~~ ==> min(first, key=lambda each: each[1])
# %% wrong: the last creation counts => generality
# > of several calls, the one whose earliest entry is the smallest came first.
# ~ min(entry["time_created_ns"] ==> max(entry["time_created_ns"]
# %% wrong: groups by description => values
# > a description such as "tp" belongs to several groups; the name tells them apart.
# ~ groups |= {name: json.loads(about["ranks"]) for name, about in dump["pg_config"].items()}
# ~~ ==> groups |= {label: [*dumps] for label in ("tp", "dp", "default_pg")}
# ~ call = entry["process_group"][0], ==> call = entry["process_group"][1],
# %% wrong: left as it is => not-answered
# ~ groups, calls, stands = {}, {}, {} ==> raise NotImplementedError
'''
