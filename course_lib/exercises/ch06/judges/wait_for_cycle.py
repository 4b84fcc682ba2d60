"""Judge of wait-for-cycle: who waits for whom?"""

import random
from collections.abc import Sequence
from typing import Any

from course_lib.judging import Fault, Judging, Params, judged
from course_lib.records import Case

Entry = tuple[float, int, str, Any]
States = dict[int, tuple[str, Any]]


def circle_of(log: Sequence[Entry]) -> list[int]:
    """The ranks of the deadlock cycle in a log, starting with the smallest; [] if there is none."""
    state: dict[int, tuple[str, Any]] = {}
    for _, rank, what, peer in sorted(log, key=lambda entry: entry[0]):
        state[rank] = (what, peer)
    other = {"sends": "receives", "receives": "sends"}
    waits = {
        rank: peer for rank, (what, peer) in state.items() if what in other and state.get(peer) != (other[what], rank)
    }
    for start in sorted(waits):
        path, rank = [], start
        while rank in waits and rank not in path:
            path.append(rank)
            rank = waits[rank]
        if rank in path:
            circle = path[path.index(rank) :]
            at = circle.index(min(circle))
            return circle[at:] + circle[:at]
    return []


def _log(rng: random.Random, now: States, past: States) -> list[Entry]:
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


def _waiting(rng: random.Random, circle: Sequence[int]) -> dict[int, tuple[str, Any]]:
    """States in which each rank of the cycle waits for the next; none of their messages match."""
    word = rng.choice(("sends", "receives"))
    return {rank: (word, circle[(place + 1) % len(circle)]) for place, rank in enumerate(circle)}


def _circle_logs(rng: random.Random, n: int) -> list[tuple[str, str, list[Entry]]]:
    """(name, part, log) of all logs: cycles, tails, slow ranks, old entries, messages in flight."""
    logs: list[tuple[str, str, list[Entry]]] = []

    def add(part: str, name: str, now: States, past: States | None = None, ranks: Sequence[int] = ()) -> None:
        ranks = ranks or rng.sample(range(max(now) + 1), max(now) + 1)  # the same situation with other rank numbers
        moved = [
            {ranks[r]: (what, None if peer is None else ranks[peer]) for r, (what, peer) in states.items()}
            for states in (now, past or {})
        ]
        logs.append((name, part, _log(rng, *moved)))

    work: dict[int, tuple[str, Any]] = dict.fromkeys(range(n), ("computes", None))
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
        for ranks in (
            range(n),
            range(n - 1, -1, -1),
        ):  # the tail has the highest rank numbers once, and the lowest once
            now = work | _waiting(rng, list(range(length))) | tail
            add("tails", f"{length} ranks in a cycle, others waiting behind them", now, ranks=ranks)
    apart = work | _waiting(rng, [2, 3, 4]) | {1: ("receives", 0)}
    add("tails", "a cycle, and a rank that waits for one that computes", apart)
    silent = {rank: state for rank, state in apart.items() if rank}
    add("tails", "a cycle, and a rank that waits for one without entries", silent)
    many = {0: ("computes", None), 1: ("computes", None)} | _waiting(rng, range(2, 32))
    add("tails", "30 ranks in a cycle", many, ranks=[0, 1, *rng.sample(range(2, 32), 30)])
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


def _circle_cases(params: Params, rng: random.Random) -> list[Case]:
    return [
        Case(name=name, args=(log,), kind="values" if part == "circle" else "generality", part=part, visible=index < 3)
        for index, (name, part, log) in enumerate(_circle_logs(rng, params["ranks"]))
    ]


NO_CIRCLE = {
    "stale": ("old-entries", "The latest entries no longer form one."),
    "pairs": ("about-to-meet", "A send and its receive match: that message is in flight."),
}


def _circle_fault(case: Case, got: Any) -> Fault | None:
    want, got = circle_of(case.args[0]), list(got)
    if got == want:
        return None
    if not want:
        name, why = NO_CIRCLE.get(case.part, ("slow-is-no-circle", "One rank is only slow, or is done."))
        return name, f"{case.name}: there is no cycle, but you report {got}. {why}"
    if not got:
        return "missed", f"{case.name}: you report none, although each of these ranks waits for another of them."
    if set(got) == set(want) and len(got) == len(want):
        turned = got[got.index(min(got)) :] + got[: got.index(min(got))]
        if turned == want:
            return "wrong-start", f"{case.name}: this is the cycle, but start with its smallest rank."
        return "wrong-order", f"{case.name}: these are the right ranks; follow each by the rank it waits for."
    if set(want) < set(got):
        return "tail-counted", f"{case.name}: some of these {len(got)} ranks wait for the cycle without being in it."
    return "other-ranks", f"{case.name}: these ranks do not form a cycle. Which entry of each rank is its latest?"


JUDGING = Judging(
    shares="values:circle 0.4, generality:slow 0.15, generality:tails 0.15, generality:stale 0.15, "
    "generality:pairs 0.15",
    cases=_circle_cases,
    verdicts=lambda params, case, outcome: judged(case, _circle_fault(case, outcome.value)),
    why="In these states every rank waits for at most one other, so from any rank there is one path. It ends at a rank that computes or "
    "is done, or it enters a cycle. Ranks behind a cycle wait too, but they continue once the cycle is broken.",
    pytorch="`TORCH_NCCL_TRACE_BUFFER_SIZE` and the flight recorder provide the log; its analyzer looks for the same cycle.",
)

ANSWERS = r"""MEETS = {"sends": "receives", "receives": "sends"}


def latest(log):
    state = {}
    for time, rank, what, peer in sorted(log):
        state[rank] = (what, peer)
    return state


# %% right: follow the path from every rank
def find_cycle(log):
    state = latest(log)
    waits = {r: p for r, (what, p) in state.items() if what in MEETS and state.get(p) != (MEETS[what], r)}
    for start in sorted(waits):
        path, rank = [], start
        while rank in waits and rank not in path:
            path.append(rank)
            rank = waits[rank]
        if rank == start:
            return path
    return []


# %% right: strike out whoever waits for one that is free, until nothing changes
def find_cycle(log):
    state = latest(log)
    waits = {rank: peer for rank, (what, peer) in state.items() if what in MEETS}
    waits = {rank: peer for rank, peer in waits.items() if state.get(peer) != (MEETS[state[rank][0]], rank)}
    while free := [rank for rank in waits if waits[rank] not in waits]:
        for rank in free:
            del waits[rank]
    while tail := [rank for rank in waits if rank not in waits.values()]:
        for rank in tail:
            del waits[rank]
    circle = [min(waits)] if waits else []
    while circle and waits[circle[-1]] != circle[0]:
        circle.append(waits[circle[-1]])
    return circle


# %% wrong: a message in flight is no deadlock => generality missed  from: follow the path from every rank
# ~ return path ==> return path * all(state.get(p) != (MEETS.get(what), r) for r, (what, p) in state.items())

# %% wrong: every rank has entries => generality raised  from: follow the path from every rank
# ~ state.get(p) ==> state[p]

# %% wrong: the latest entries are those after the first ten seconds => values -  from: follow the path from every rank
# ~ state = latest(log) ==> state = {entry[1]: entry[2:] for entry in log if entry[0] >= 10}


# %% wrong: a slow rank is reported => values slow-is-no-circle
def find_cycle(log):
    state = latest(log)
    waits = {r: p for r, (what, p) in state.items() if what in MEETS}
    return sorted(waits)


# %% wrong: counts the tail in => generality tail-counted  from: follow the path from every rank
# ~ for start in sorted(waits): ==> for start in sorted(waits, reverse=True):
# -         if rank == start:
# -             return path
# +         if rank in path:
# +             at = path.index(min(path))
# +             return path[at:] + path[:at]

# %% wrong: a send and its receive count as a circle of two => generality about-to-meet  from: follow the path from every rank
# ~ MEETS and state.get(p) != (MEETS[what], r) ==> MEETS

# %% wrong: any entry counts, not the latest => generality old-entries  from: follow the path from every rank
# -     state = latest(log)
# -     waits = {r: p for r, (what, p) in state.items() if what in MEETS and state.get(p) != (MEETS[what], r)}
# +     ever = {}
# +     for time, rank, what, peer in sorted(log, key=lambda entry: entry[0]):
# +         if what in MEETS:
# +             ever[rank] = (what, peer)
# +         elif what == "done":
# +             ever.pop(rank, None)
# +     waits = {r: p for r, (what, p) in ever.items() if ever.get(p) != (MEETS[what], r)}

# %% wrong: begins where it happened to look => values wrong-start  from: counts the tail in
# -             at = path.index(min(path))
# -             return path[at:] + path[:at]
# +             return path[path.index(rank) :]

# %% wrong: the ranks in order of number => values -  from: follow the path from every rank
# ~ return path ==> return sorted(path)[:1] + sorted(path, reverse=True)[:-1]

# %% wrong: never finds any => values missed  from: says whether there is one
# ~ True ==> []


# %% wrong: says whether there is one => values wrong-shape
def find_cycle(log):
    return True


# %% half: pairs about to meet are taken for circles => 6.8  from: a send and its receive count as a circle of two
"""
