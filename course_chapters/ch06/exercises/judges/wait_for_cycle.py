from collections.abc import Mapping, Sequence

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, judged

right = Worked("wait-for-cycle")
Entry = tuple[float, int, str, object]
State = tuple[str, int | None]  # what a rank does, and with which one
States = Mapping[int, State]


def _log(rng: Random, now: States, past: States) -> list[Entry]:
    """A shuffled log whose latest entries are the states `now`, with earlier entries from `past`."""
    log: list[Entry] = []
    for rank, state in now.items():
        start, count = rng.uniform(0, 200), rng.randrange(2, 4) if rank in past else rng.randrange(4)
        if not rank and rank not in past:  # one entry, at time 0
            log.append((0.0, rank, *state))
            continue
        before = past.get(rank, ("computes", None))
        log += [(round(start + rng.uniform(0, 9), 3), rank, *before) for _ in range(count)]
        log.append((round(start + rng.uniform(10, 20), 3), rank, *state))
    rng.shuffle(log)
    return log


def _waiting(rng: Random, circle: Sequence[int]) -> dict[int, State]:
    """States in which each rank of the cycle waits for the next; none of their messages match."""
    word = rng.choice(("sends", "receives"))
    return {rank: (word, circle[(place + 1) % len(circle)]) for place, rank in enumerate(circle)}


def _circle_logs(rng: Random, n: int) -> list[tuple[str, str, list[Entry]]]:
    """(name, part, log) of all logs: cycles, tails, slow ranks, old entries, messages in flight."""
    logs: list[tuple[str, str, list[Entry]]] = []

    def add(part: str, name: str, now: States, past: States | None = None, ranks: Sequence[int] = ()) -> None:
        ranks = ranks or rng.sample(range(max(now) + 1), max(now) + 1)  # the same situation with other rank numbers
        moved = [
            {ranks[r]: (what, None if peer is None else ranks[peer]) for r, (what, peer) in states.items()}
            for states in (now, past or {})
        ]
        logs.append((name, part, _log(rng, *moved)))

    work: dict[int, State] = dict.fromkeys(range(n), ("computes", None))
    chain = {rank: ("receives", rank + 1) for rank in range(n - 1)} | {n - 1: ("computes", None)}
    add("circle", "three ranks in a cycle", work | _waiting(rng, [0, 1, 2]))
    add("circle", "a chain behind a rank that computes", chain)
    add("circle", "two ranks in a cycle", work | _waiting(rng, [0, 1]))
    for length in (3, 4, n):
        add("circle", f"{length} ranks in a cycle", work | _waiting(rng, list(range(length))))
    add("circle", "all ranks compute", work)
    for _ in range(4):
        add("slow", "a chain behind a rank that computes", chain)
        add("slow", "a chain behind a rank that is done", chain | {n - 1: ("done", None)})
    for length in (2, 3, n - 2, n - 1):
        tail = {rank: ("receives", rank - 1) for rank in range(length, n)}
        for ranks in (range(n), range(n - 1, -1, -1)):  # the tail has the highest numbers once, and the lowest once
            now = work | _waiting(rng, list(range(length))) | tail
            add("tails", f"{length} ranks in a cycle, others waiting behind them", now, ranks=ranks)
    apart = work | _waiting(rng, [2, 3, 4]) | {1: ("receives", 0)}
    add("tails", "a cycle, and a rank that waits for one that computes", apart)
    silent = {rank: state for rank, state in apart.items() if rank}
    add("tails", "a cycle, and a rank that waits for one without entries", silent)
    many = {0: ("computes", None), 1: ("computes", None)} | _waiting(rng, range(2, 32))
    add("tails", "30 ranks in a cycle", many, ranks=[0, 1, *rng.sample(range(2 * n, 2 * n + 30), 30)])
    queue: dict[int, State] = {30: ("computes", None)} | dict.fromkeys(range(2, 30), ("receives", 30))
    for _ in range(2):
        add("tails", "a cycle, and 28 ranks that wait for one that computes", queue | _waiting(rng, [0, 1]))
    add("pairs", "a cycle, and one message in flight", apart | {0: ("sends", 1)})
    for length in (2, 3, n - 1):
        old = _waiting(rng, list(range(length)))
        behind = {rank: ("receives", rank - 1) for rank in range(length, n)}
        add("stale", "an earlier cycle that has been resolved", work | behind, old)
        now, before = work | _waiting(rng, list(range(length))), {r: ("receives", (r + 1) % n) for r in range(n)}
        add("stale", "a cycle now, other waits before", now, before)
    for _ in range(2):
        behind = {rank: ("receives", rank - 1) for rank in range(2, n)}
        add(
            "pairs",
            "one message in flight, others waiting behind it",
            work | {0: ("sends", 1), 1: ("receives", 0)} | behind,
        )
        mixed = {0: ("sends", 1), 1: ("sends", 2), 2: ("receives", 0)}
        add("pairs", "a cycle of sends and receives", work | mixed)
    add("pairs", "both send to each other", work | {0: ("sends", 1), 1: ("sends", 0)})
    return logs


def _circle_cases(params: Params, rng: Random) -> list[Case]:
    return [
        Case(name=name, args=(log,), kind="values" if part == "circle" else "generality", part=part, visible=index < 3)
        for index, (name, part, log) in enumerate(_circle_logs(rng, params["ranks"]))
    ]


def _circle_fault(case: Case, got: Sequence[int]) -> Fault | None:
    want, got, lead = right(case.args[0]), list(got), f"{case.name}: "
    if got == want:
        return None
    if not want:
        name, text = "no-circle", f"there is no cycle, but you report {got}."
    elif not got:
        name, text = "missed", "you report none, although some ranks wait for each other in a cycle."
    else:
        name, text = (
            "other-ranks",
            f"{got} is not the cycle, from its smallest rank on and each before the one it waits for.",
        )
    return Wrong(name, lead + text, lead)


JUDGING = Judging(
    shares="values:circle 0.4, generality:slow 0.15, generality:tails 0.15, generality:stale 0.15, "
    "generality:pairs 0.15",
    cases=_circle_cases,
    verdicts=lambda params, case, outcome: judged(case, _circle_fault(case, outcome.value)),
    why="In these states every rank waits for at most one other, so from any rank there is one path. It ends at a "
    "rank that computes or is done, or it enters a cycle. Ranks behind a cycle wait too, but they continue once "
    "the cycle is broken.",
    pytorch="`TORCH_NCCL_TRACE_BUFFER_SIZE` and the flight recorder provide the log; its analyzer looks for "
    "the same cycle.",
)

ANSWERS = r'''# %% right: worked
def find_cycle(log):
    """The ranks that wait for each other in a cycle, smallest first; [] if there is none."""
    meets, state = {"sends": "receives", "receives": "sends"}, {}
    for _, rank, what, peer in sorted(log, key=lambda entry: entry[0]):
        state[rank] = (what, peer)
    waits = {
        rank: peer
        for rank, (what, peer) in state.items()
        if what in meets and state.get(peer) != (meets[what], rank)  # that message is in flight
    }
    for start in sorted(waits):
        path, rank = [], start
        while rank in waits and rank not in path:
            path.append(rank)
            rank = waits[rank]
        if path and rank == start:
            return path
    return []
# %% right: strike out whoever waits for one that is free, and whoever none waits for
#       }
# +     while free := [rank for rank in waits if waits[rank] not in waits]:
# +         waits = {rank: peer for rank, peer in waits.items() if rank not in free}
# +     while tail := [rank for rank in waits if rank not in waits.values()]:
# +         waits = {rank: peer for rank, peer in waits.items() if rank not in tail}
# %% wrong: a message in flight is no deadlock => generality missed
# ~ return path ==> return path * all(state.get(p) != (meets.get(what), r) for r, (what, p) in state.items())
# %% wrong: every rank has entries => generality raised
# ~ state.get(peer) ==> state[peer]
# %% wrong: last in the list => values
# > this takes the last entry of a rank in the list; entries are in no order, so look at their times.
# ~ sorted(log, key=lambda entry: entry[0]) ==> log
# %% wrong: the latest entries are those after the first ten seconds => values missed
# -     for _, rank, what, peer in sorted(log, key=lambda entry: entry[0]):
# -         state[rank] = (what, peer)
# +     state = {entry[1]: entry[2:] for entry in log if entry[0] >= 10}
# %% wrong: a slow rank is reported => values slow-is-no-circle
# > these are all ranks that wait. Those that wait for a slow rank, or for one that is done, are not deadlocked.
#       }
# +     return sorted(waits)
# %% wrong: counts the tail in => generality tail-counted
# > ranks that wait for the cycle without being in it are counted in.
# ~ for start in sorted(waits): ==> for start in sorted(waits, reverse=True):
# -         if path and rank == start:
# -             return path
# +         if rank in path:
# +             at = path.index(min(path))
# +             return path[at:] + path[:at]
# %% wrong: counts in the ranks before the circle => generality tail-counted
# ~ if path and rank == start: ==> if rank in path:
# %% wrong: any two that name each other => values named-each-other
# > two ranks that name each other count as a message in flight here, even if both send or both receive.
# ~ state.get(peer) != (meets[what], rank)  # that message is in flight ==> state.get(peer, (0, 0))[1] != rank
# %% wrong: a send and its receive count as a circle of two => generality about-to-meet
# > a send and its receive match: that message is in flight, and neither rank waits.
# ~ in meets and state.get(peer) != (meets[what], rank)  # that message is in flight ==> in meets
# %% wrong: any entry counts, not the latest => generality old-entries
# > an entry counts here although its rank has begun something else since; a rank's state is its latest entry.
# -         state[rank] = (what, peer)
# +         if what in meets:
# +             state[rank] = (what, peer)
# +         elif what == "done":
# +             state.pop(rank, None)
# %% wrong: begins where it happened to look => values wrong-start  from: counts the tail in
# > this is the cycle, but it does not start with its smallest rank.
# -             at = path.index(min(path))
# -             return path[at:] + path[:at]
# +             return path[path.index(rank) :]
# %% wrong: the path from one waiting rank alone => generality
# > the path was followed from one waiting rank, and ends outside the cycle; follow it from each.
# ~ in sorted(waits): ==> in list(waits)[:1]:
# -         if path and rank == start:
# -             return path
# +         if rank in path:
# +             path = path[path.index(rank) :]
# +             at = path.index(min(path))
# +             return path[at:] + path[:at]
# %% wrong: the ranks in order of number => values
# > these are the ranks of the cycle in order of number; each must come before the one it waits for.
# ~ return path ==> return sorted(path)
# %% wrong: each before the one that waits for it => values
# > the cycle is reversed; each rank must come before the one it waits for.
# ~ return path ==> return path[:1] + path[:0:-1]
# %% wrong: its first rank again at the end => values
# > the first rank of the cycle comes once.
# ~ return path ==> return [*path, start]
# %% wrong: never finds any => values missed
# ~ return path ==> return []
# %% wrong: says whether there is one => values wrong-shape
# ~ return path ==> return True
# %% half: pairs about to meet are taken for circles => 6.8  from: a send and its receive count as a circle of two
'''
