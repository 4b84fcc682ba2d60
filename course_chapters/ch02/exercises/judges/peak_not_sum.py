from collections import Counter
from collections.abc import Iterator, Sequence

from course_chapters.ch02.exercises.peak_not_sum import KINDS, Row, as_events, event, training_log
from course_grader.judging import Case, Judging, Params, Random, Worked, plain, shown, unseen
from course_grader.judging.per_row import EXACT, Column, Word, one_verdict, table

Log = Sequence[Row]
right = Worked("peak-not-sum")


def _levels(log: Log) -> Iterator[Counter[str]]:
    """Bytes alive by kind after each change."""
    names, kinds = dict[str, Row](), Counter[str]()
    for row in as_events(log) if "born" in log[0] else log:
        block = row if row["what"] == "alloc" else names[row["name"]]
        names[row["name"]] = block
        kinds[block["kind"]] += block["bytes"] if row is block else -block["bytes"]
        yield Counter(kinds)


def _words(log: Log) -> str:
    return f"a log of {len(log)} rows"


BY_PLACE = table(
    (
        Column("bytes", "bytes", rel=EXACT, words=_words, hint="Go through the moments in order with a running total."),
        Column("time", "(a time of the log)", rel=EXACT, words=_words),
        Word("kind", KINDS, words=_words),
    ),
    right=right,
)


def _nonsense(rng: Random, form: str) -> list[Row]:
    """A random log: any kind at any time, names reused, several rows at one time, a plateau at the peak."""
    clock, alive, moments = 0.0, dict[str, Row](), []
    for _ in range(rng.randint(20, 40)):
        clock += rng.choice((0.0, 1.0, 2.5))
        if alive and rng.random() < 0.45:
            block = alive.pop(rng.choice(list(alive)))
            block["died"] = clock
            moments.append((clock, "free", block))
        elif free := [name for name in "abcdefgh" if name not in alive]:
            block = {"name": rng.choice(free), "kind": rng.choice(KINDS), "bytes": rng.randint(1, 10**6) * 97}
            block |= Row(born=clock, died=None)
            alive[block["name"]] = block
            moments.append((clock, "alloc", block))
    if form == "events":
        return [event(*moment) for moment in moments]
    blocks = [block for _, what, block in moments if what == "alloc"]
    return rng.sample(blocks, len(blocks))


def _plateau(form: str) -> list[Row]:
    rows = (("a", "activations", 700, 1.0, 3.0), ("b", "weights", 300, 2.0, None), ("a", "gradients", 700, 4.0, 5.0))
    blocks = [Row(name=name, kind=kind, bytes=size, born=born, died=died) for name, kind, size, born, died in rows]
    return as_events(blocks) if form == "events" else blocks[::-1]


def _clear(log: Log) -> bool:
    """Whether one kind clearly holds most at the peak, and no block was born and died at the same time."""
    if any("born" in row and row["born"] == row["died"] for row in log):
        return False
    kinds = max(_levels(log), key=Counter.total)
    *_, second, most = 0, *sorted(kinds.values())
    return most > second


def _peak_cases(params: Params, rng: Random) -> list[Case]:
    form = params["log"]
    layers = [16, *(rng.randint(1, 6) for _ in range(5))]
    logs = [training_log(rng, count, form, unit=rng.choice((1, 1024, 2**20))) for count in layers]
    while len(logs) < 16:
        log = _nonsense(rng, form)
        logs += [log] if _clear(log) else []
    rows = [(each,) for each in [*logs, _plateau(form)] if _clear(each)]
    own = shown("the log shown", "values", 0, [(list(params["rows"]),)])
    other = unseen(rng, "log", 0, "other logs", rows)
    usual = [each for each in (training_log(rng, 2, form) for _ in range(12)) if _clear(each)]
    usual.sort(key=lambda log: right(log)[2] == "moments")  # what holds most at the end
    return [own, plain("", 0, "three more logs", [(each,) for each in usual[:3]]), other]


JUDGING = Judging(
    shares={"values:bytes": 0.25, "values:time": 0.1, "values:kind": 0.15, "generality:log": 0.5},
    cases=_peak_cases,
    verdicts=lambda params, case, outcome: (BY_PLACE if case.kind == "values" else one_verdict(BY_PLACE))(
        params, case, outcome
    ),
    why="A run fails at its highest level, so what matters is which blocks are alive at the same time. Here the peak "
    "is in the second step's backward pass, when the optimizer's moments from the first step coexist with "
    "activations and the first gradients. The largest block is often not the cause, and the kind with the most "
    "allocations may hold least at the peak.",
    pytorch="`torch.cuda.memory._record_memory_history()` and `torch.cuda.memory._snapshot()` record such a log; "
    "`torch.cuda.max_memory_allocated()` is its peak, `torch.cuda.memory_allocated()` its last level.",
)

ANSWERS = r'''# %% right: worked
form = params("peak-not-sum").log  # leave as is: "events" or "lifetimes": the rows of your variant


def peak(log: list[dict]) -> tuple[int, float, str]:
    """(most bytes alive, first time at that level, kind that holds most of them)."""

    def by_kind(blocks):
        kinds = {}
        for block in blocks:
            kinds[block["kind"]] = kinds.get(block["kind"], 0) + block["bytes"]
        return kinds

    best, alive = (0, None, None), {}
    for row in log if form == "events" else sorted(log, key=lambda block: block["born"]):
        now = row["time"] if form == "events" else row["born"]
        if form == "lifetimes":
            kinds = by_kind(b for b in log if b["born"] <= now and (b["died"] is None or b["died"] > now))
        else:
            alive = {name: block for name, block in alive.items() if name != row["name"]}
            alive |= {row["name"]: row} if row["what"] == "alloc" else {}
            kinds = by_kind(alive.values())
        if sum(kinds.values()) > best[0]:
            best = sum(kinds.values()), now, max(kinds, key=kinds.get)
    return best
# %% right: a running total of changes  from: worked
def peak(log):
    changes, named = [], {}
    for row in log:
        if form == "events":
            named[row["name"]] = block = row if row["what"] == "alloc" else named[row["name"]]
            changes.append((row["time"], 0, block["kind"], block["bytes"] if row is block else -block["bytes"]))
        else:
            changes.append((row["born"], 1, row["kind"], row["bytes"]))
            changes += [(row["died"], 0, row["kind"], -row["bytes"])] if row["died"] is not None else []
    best, alive = (0, None, None), {}
    for time, _, kind, change in sorted(changes, key=lambda each: each[:2]):
        alive[kind] = alive.get(kind, 0) + change
        if sum(alive.values()) > best[0]:
            best = sum(alive.values()), time, max(alive, key=alive.get)
    return best
# %% wrong: sum not peak => values
# > this sums all allocations.
# ~ return best ==> return sum(row["bytes"] for row in log if "bytes" in row), *best[1:]
# %% wrong: last level => values
# > this is what is alive at the end.
# ~ return best
# ~~ ==> return sum(block["bytes"] for block in log if form == "lifetimes" and block["died"] is None) or
# ~~ sum(kinds.values()), *best[1:]
# %% wrong: largest block => values
# > this looks at the largest single block alone.
# -     return best
# +     row = max((row for row in log if "bytes" in row), key=lambda row: row["bytes"])
# +     return row["bytes"], row["time"] if form == "events" else row["born"], row["kind"]
# %% wrong: kind by kind => values
# > the kinds do not peak at the same time.
# ~ best, alive = (0, None, None), {} ==> best, alive, tops = (0, None, None), {}, {}
# -         if sum(kinds.values()) > best[0]:
# +         tops |= {kind: max(size, tops.get(kind, 0)) for kind, size in kinds.items()}
# +         if sum(kinds.values()) > best[0]:
# ~ return best ==> return sum(tops.values()), *best[1:]
# %% wrong: largest kind only => values
# > this is the largest kind alone.
# ~ now, max(kinds, key=kinds.get) ==> now, max(kinds, key=kinds.get), max(kinds.values())
# ~ return best ==> return best[3], *best[1:3]
# %% wrong: name used again => values
# > a name was reused with another size.
#       best, alive = (0, None, None), {}
# +     first = {}
# +     log = [row | {"bytes": first.setdefault(row["name"], row["bytes"])} if "bytes" in row else row for row in log]
# %% wrong: end of a moment => generality end-of-a-moment unless log=lifetimes
# > between rows with the same time the level was higher.
# -     for row in log if form == "events" else sorted(log, key=lambda block: block["born"]):
# +     for at, row in enumerate(log if form == "events" else sorted(log, key=lambda block: block["born"])):
# ~ best[0] ==> best[0] and now not in [later.get("time") for later in log[at + 1 :]]
# %% wrong: died too late => generality
# > a block that dies makes room for a block born at the same time.
# ~ log if form ==> sorted(log, key=lambda row: (row["time"], row["what"] == "free")) if form
# ~ ["died"] > ==> ["died"] >=
# %% wrong: last time => generality
# > the same level was reached earlier; return the first time.
# ~ > best[0] ==> >= best[0]
# %% wrong: position => values
# > this is a position in the log; return the time.
# ~ now, max( ==> log.index(row), max(
# %% wrong: position counted from one => values position
# ~ now, max( ==> log.index(row) + 1, max(
# %% wrong: end of log => values
# > this is the end of the log.
# ~ return best ==> return best[0], max(row.get(key) or 0 for row in log for key in ("time", "born", "died")), best[2]
# %% wrong: most allocated => values
# > this kind allocated most over the whole log.
# -     return best
# +     kinds = by_kind(row for row in log if "bytes" in row)
# +     return *best[:2], max(kinds, key=kinds.get)
# %% wrong: last allocated => values
# > it was allocated last; return the kind that holds most.
# ~ max(kinds, key=kinds.get) ==> row["kind"]
# %% wrong: at the end => values
# > this kind holds most at the end.
# -     return best
# +     kinds = kinds if form == "events" else by_kind(block for block in log if block["died"] is None)
# +     return *best[:2], max(kinds, key=kinds.get, default="weights")
# %% wrong: the kind of the largest block alive => values largest-block-alive
# > this is the kind of the largest single block; add up all blocks of a kind.
# -             kinds = by_kind(b for b in log if b["born"] <= now and (b["died"] is None or b["died"] > now))
# +             alive = {at: b for at, b in enumerate(log) if b["born"] <= now and (b["died"] is None or b["died"] >
# ~~ now)}
# +             kinds = by_kind(alive.values())
# ~ max(kinds, key=kinds.get) ==> max(alive.values(), key=lambda block: block["bytes"], default=row)["kind"]
# %% wrong: the bytes alone => values wrong-shape
# ~ return best ==> return best[0]
# %% wrong: the log shown, by heart => values only-the-example
# ~ params("peak-not-sum").log ==> "events"
# ~ best, alive = (0, None, None), {} ==> return 414187520, 23.5, "moments"
# %% half: bytes and time => 3.5
# ~ max(kinds, key=kinds.get) ==> "weights"
'''
