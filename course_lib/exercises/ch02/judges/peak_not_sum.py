"""Judge of peak-not-sum: the peak, not the sum."""

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from course_lib.exercises.ch02.peak_not_sum import KINDS, as_events, event, training_log
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, Word, one_verdict, table
from course_lib.judging.draws import plain, unseen
from course_lib.judging.mistakes import shifted
from course_lib.records import Case

Log = Sequence[Mapping[str, Any]]


def changes(log: Log) -> list[tuple[float, str, int, str]]:
    """(time, kind, signed bytes, name) in the order in which they happen, from events or from lifetimes."""
    alive: dict[str, tuple[str, int]] = {}
    found = []
    for row in as_events(log) if "born" in log[0] else log:
        if row["what"] == "alloc":
            alive[row["name"]] = row["kind"], row["bytes"]
            found.append((row["time"], row["kind"], row["bytes"], row["name"]))
        else:
            kind, nbytes = alive.pop(row["name"])
            found.append((row["time"], kind, -nbytes, row["name"]))
    return found


def levels(log: Log) -> list[tuple[float, int, dict[str, int]]]:
    """(time, bytes alive, bytes by kind) after each change."""
    total, kinds, found = 0, dict.fromkeys(KINDS, 0), []
    for time, kind, change, _ in changes(log):
        total += change
        kinds[kind] += change
        found.append((time, total, dict(kinds)))
    return found


def peak(log: Log) -> tuple[float, int, dict[str, int]]:
    """The highest level, at the time when it is first reached."""
    return max(levels(log), key=lambda each: each[1])


def _most(kinds: Mapping[str, int]) -> str:
    return max(kinds, key=lambda kind: kinds[kind])


def _allocated(log: Log) -> dict[str, int]:
    """Bytes ever allocated, by kind."""
    found = dict.fromkeys(KINDS, 0)
    for _, kind, change, _ in changes(log):
        found[kind] += max(change, 0)
    return found


def _largest_block(log: Log) -> tuple[float, str, int, str]:
    return max(changes(log), key=lambda each: each[2])


def _first_size_of_each_name(log: Log) -> int:
    first: dict[str, int] = {}
    return max(
        accumulate(first.setdefault(name, size) if size > 0 else -first[name] for _, _, size, name in changes(log))
    )


def _freed_late(log: Log) -> int:
    """The peak if blocks still count at the time when they die."""
    order = sorted(changes(log), key=lambda each: (each[0], each[2] < 0))
    return max(accumulate(change for _, _, change, _ in order))


def _kind_by_kind(log: Log) -> int:
    return sum(max(kinds[kind] for _, _, kinds in levels(log)) for kind in KINDS)


def _end_of_a_moment(log: Log) -> int:
    return max({time: total for time, total, _ in levels(log)}.values())


def _last_time(log: Log) -> float:
    return [time for time, total, _ in levels(log) if total == peak(log)[1]][-1]


def _last_allocated(log: Log) -> str:
    return next(kind for time, kind, change, _ in changes(log) if time == peak(log)[0] and change > 0)


def _position(log: Log) -> int:
    return levels(log).index(peak(log))


def _words(log: Log) -> str:
    return f"a log of {len(log)} rows"


BYTES = Column(
    part="bytes",
    unit="bytes",
    want=lambda log: peak(log)[1],
    rel=EXACT,
    words=_words,
    hint="Go through the moments in order with a running total.",
).knowing(
    Mistake("sum-not-peak", lambda log: sum(_allocated(log).values()), "this sums all allocations."),
    Mistake("last-level", lambda log: levels(log)[-1][1], "this is what is alive at the end."),
    Mistake("largest-block", lambda log: _largest_block(log)[2], "this is the largest single block."),
    Mistake("kind-by-kind", _kind_by_kind, "the kinds do not peak at the same time."),
    Mistake("largest-kind-only", lambda log: max(peak(log)[2].values()), "this is the largest kind alone."),
    Mistake("name-used-again", _first_size_of_each_name, "a name was reused with another size."),
    Mistake("end-of-a-moment", _end_of_a_moment, "between rows with the same time the level was higher."),
    Mistake("died-too-late", _freed_late, "a block that dies makes room for a block born at the same time."),
    Mistake("mebibytes", lambda log: peak(log)[1] / 2**20, "these are MiB; return bytes."),
)
TIME = Column(part="time", unit="(a time of the log)", want=lambda log: peak(log)[0], rel=EXACT, words=_words).knowing(
    Mistake("last-time", _last_time, "the same level was reached earlier; return the first time."),
    Mistake("position", _position, "this is a position in the log; return the time."),
    Mistake("position", shifted(_position, 1), "this is a position in the log; return the time."),
    Mistake("end-of-log", lambda log: levels(log)[-1][0], "this is the end of the log."),
)
KIND = Word(part="kind", choices=KINDS, want=lambda log: _most(peak(log)[2]), words=_words).knowing(
    Mistake("most-allocated", lambda log: _most(_allocated(log)), "this kind allocated most over the whole log."),
    Mistake("largest-block", lambda log: _largest_block(log)[1], "this is the kind of the largest block."),
    Mistake("last-allocated", _last_allocated, "it was allocated last; return the kind that holds most."),
    Mistake("at-the-end", lambda log: _most(levels(log)[-1][2]), "this kind holds most at the end."),
)
BY_PLACE = table((BYTES, TIME, KIND))


def _nonsense(rng: random.Random, form: str) -> list[dict[str, Any]]:
    """A random log: any kind at any time, names reused, several rows at one time, a plateau at the peak."""
    clock, alive, moments = 0.0, dict[str, dict[str, Any]](), []
    for _ in range(rng.randint(20, 40)):
        clock += rng.choice((0.0, 1.0, 2.5))
        if alive and rng.random() < 0.45:
            block = alive.pop(rng.choice(list(alive)))
            block["died"] = clock
            moments.append((clock, "free", block))
        elif free := [name for name in "abcdefgh" if name not in alive]:
            block = {"name": rng.choice(free), "kind": rng.choice(KINDS), "bytes": rng.randint(1, 10**6) * 97}
            block |= {"born": clock, "died": None}
            alive[block["name"]] = block
            moments.append((clock, "alloc", block))
    if form == "events":
        return [event(*moment) for moment in moments]
    blocks = [block for _, what, block in moments if what == "alloc"]
    return rng.sample(blocks, len(blocks))


def _plateau(form: str) -> list[dict[str, Any]]:
    """A log that reaches its peak twice."""
    rows = (("a", "activations", 700, 1.0, 3.0), ("b", "weights", 300, 2.0, None), ("a", "gradients", 700, 4.0, 5.0))
    blocks = [dict(zip(("name", "kind", "bytes", "born", "died"), row, strict=True)) for row in rows]
    return as_events(blocks) if form == "events" else blocks[::-1]


def _clear(log: Log) -> bool:
    """Whether one kind clearly holds most at the peak, and no block was born and died at the same time."""
    if any("born" in row and row["born"] == row["died"] for row in log):
        return False
    first, second = sorted(peak(log)[2].values())[:-3:-1]
    return first > second


def _peak_cases(params: Params, rng: random.Random) -> list[Case]:
    form = params["log"]
    layers = [16, *(rng.randint(1, 6) for _ in range(5))]
    logs = [training_log(rng, count, form, unit=rng.choice((1, 1024, 2**20))) for count in layers]
    while len(logs) < 16:
        log = _nonsense(rng, form)
        logs += [log] if _clear(log) else []
    rows = [(each,) for each in [*logs, _plateau(form)] if _clear(each)]
    own = shown("the log shown", "values", 0, [(list(params["rows"]),)])
    other = unseen(rng, "log", 0, "other logs", rows)
    usual = [training_log(rng, 2, form) for _ in range(12)]
    return [own, plain("", 0, "three more logs", [(each,) for each in usual if _clear(each)][:3]), other]


JUDGING = Judging(
    shares={"values:bytes": 0.25, "values:time": 0.1, "values:kind": 0.15, "generality:log": 0.5},
    cases=_peak_cases,
    verdicts=lambda params, case, outcome: (BY_PLACE if case.kind == "values" else one_verdict(BY_PLACE))(
        params, case, outcome
    ),
    why="A run fails at its highest level, so what matters is which blocks are alive at the same time. Here the peak is in the second "
    "step's backward pass, when the optimizer's moments from the first step coexist with activations and the first gradients. The "
    "largest block is often not the cause, and the kind with the most allocations may hold least at the peak.",
    pytorch="`torch.cuda.memory._record_memory_history()` and `torch.cuda.memory._snapshot()` record such a log; "
    "`torch.cuda.max_memory_allocated()` is its peak, `torch.cuda.memory_allocated()` its last level.",
)

ANSWERS = r"""# %% right: a running total
def peak(log):
    alive, best = {}, (0, None, None)
    for row in log:
        if row["what"] == "alloc":
            alive[row["name"]] = row["kind"], row["bytes"]
        else:
            del alive[row["name"]]
        kinds = {}
        for kind, nbytes in alive.values():
            kinds[kind] = kinds.get(kind, 0) + nbytes
        if sum(kinds.values()) > best[0]:
            best = sum(kinds.values()), row["time"], max(kinds, key=kinds.get)
    return best


# %% right: any variant  from: a running total
#   def peak(log):
# +     if "born" in log[0]:
# +         moments = [(row["born"], 1, {**row, "what": "alloc", "time": row["born"]}) for row in log]
# +         dead = [row for row in log if row["died"] is not None]
# +         moments += [(row["died"], 0, {"what": "free", "time": row["died"], "name": row["name"]}) for row in dead]
# +         log = [row for *_, row in sorted(moments, key=lambda each: each[:2])]


# %% wrong: the sum => values sum-not-peak
def peak(log):
    rows = [row for row in log if row["what"] == "alloc"]
    return sum(row["bytes"] for row in rows), log[-1]["time"], "activations"


# %% wrong: what is alive at the end => values last-level  from: a running total
# ~ sum(kinds.values()) > best[0] ==> kinds


# %% wrong: the largest block => values largest-block
def peak(log):
    row = max((row for row in log if row["what"] == "alloc"), key=lambda row: row["bytes"])
    return row["bytes"], row["time"], row["kind"]


# %% wrong: each kind's own peak => values kind-by-kind
def peak(log):
    alive, best, when = {}, {}, 0
    for row in log:
        if row["what"] == "alloc":
            alive[row["name"]] = row["kind"], row["bytes"]
        else:
            del alive[row["name"]]
        for kind in {kind for kind, _ in alive.values()}:
            level = sum(nbytes for k, nbytes in alive.values() if k == kind)
            if level > best.get(kind, 0):
                best[kind], when = level, row["time"]
    return sum(best.values()), when, max(best, key=best.get)


# %% wrong: a name keeps its first size => values name-used-again  from: a running total
# ~ alive, best = {}, (0, None, None) ==> alive, best, first = {}, (0, None, None), {}
# ~ row["kind"], row["bytes"] ==> row["kind"], first.setdefault(row["name"], row["bytes"])

# %% wrong: the position for the time => values position  from: a running total
# ~ row["time"] ==> log.index(row)

# %% wrong: the kind of the largest block => values -  from: a running total
# ~ max(kinds, key=kinds.get) ==> max(alive.values(), key=lambda each: each[1])[0]

# %% wrong: the kind that allocated most => values most-allocated  from: a running total
# ~ alive, best = {}, ==> total, alive, best = {}, {},
#               alive[row["name"]] = row["kind"], row["bytes"]
# +             total[row["kind"]] = total.get(row["kind"], 0) + row["bytes"]
# ~ return best ==> return *best[:2], max(total, key=total.get)

# %% wrong: the kind allocated last => values last-allocated  from: a running total
# ~ max(kinds, key=kinds.get) ==> row["kind"]

# %% wrong: mebibytes => values mebibytes  from: a running total
# ~ return best ==> return best[0] / 2**20, *best[1:]

# %% wrong: the bytes alone => values wrong-shape  from: a running total
# ~ return best ==> return best[0]

# %% wrong: the last time of the peak => generality last-time  from: a running total
# ~ if sum(kinds.values()) > best[0]: ==> if sum(kinds.values()) >= best[0]:

# %% wrong: a level for each time => generality end-of-a-moment  from: a running total
# ~ row in log ==> number, row in enumerate(log)
# ~ if sum ==> if (number + 1 == len(log) or log[number + 1]["time"] != row["time"]) and sum


# %% wrong: the log shown, by heart => values only-the-example
def peak(log):
    return 414187520, 23.5, "moments"


# %% half: bytes and time => 3.5  from: a running total
# ~ max(kinds, key=kinds.get) ==> "weights"
"""
