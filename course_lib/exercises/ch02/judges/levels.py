"""Judge of the peak of a log: levels after every change, for logs of events and of lifetimes."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.exercises.ch02.cards.core import KINDS, training_log
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import EXACT, Column, Word, one_verdict, table
from course_lib.judging.draws import plain, unseen
from course_lib.records import Case, Outcome, Verdict

Log = Sequence[Mapping[str, Any]]


def steps_of(form: str, log: Log) -> list[tuple[float, str, int, Any]]:
    """(time, kind, signed bytes, name) in the order in which they happen."""
    if form == "lifetimes":
        born = [(row["born"], 1, row["kind"], row["bytes"], row["name"]) for row in log]
        died = [(row["died"], 0, row["kind"], -row["bytes"], row["name"]) for row in log if row["died"] is not None]
        return [
            (time, kind, change, name) for time, _, kind, change, name in sorted(born + died, key=lambda each: each[:2])
        ]
    alive: dict[str, tuple[str, int]] = {}
    found = []
    for row in log:
        if row["what"] == "alloc":
            alive[row["name"]] = row["kind"], row["bytes"]
            found.append((row["time"], row["kind"], row["bytes"], row["name"]))
        else:
            kind, nbytes = alive.pop(row["name"])
            found.append((row["time"], kind, -nbytes, row["name"]))
    return found


def levels(form: str, log: Log) -> list[tuple[float, int, dict[str, int]]]:
    """(time, bytes alive, bytes by kind) after each change."""
    total, kinds, found = 0, dict.fromkeys(KINDS, 0), []
    for time, kind, change, _ in steps_of(form, log):
        total += change
        kinds[kind] += change
        found.append((time, total, dict(kinds)))
    return found


def highest(form: str, log: Log) -> tuple[int, float, str]:
    """The peak, when it is first reached, and the kind that holds most of it."""
    time, total, kinds = max(levels(form, log), key=lambda each: each[1])
    return total, time, max(kinds, key=lambda kind: kinds[kind])


def _allocated(form: str, log: Log) -> dict[str, int]:
    found = dict.fromkeys(KINDS, 0)
    for _, kind, change, _ in steps_of(form, log):
        found[kind] += max(change, 0)
    return found


def _row_words(log: Log) -> str:
    return f"a log of {len(log)} rows"


def _peak_columns(form: str) -> tuple[Column | Word, ...]:
    def by_name_once(log: Log) -> int | None:
        """Every name holds what it got first."""
        first: dict[str, int] = {}
        total = best = 0
        for _, _, change, name in steps_of(form, log):
            total += first.setdefault(name, change) if change > 0 else -first[name]
            best = max(best, total)
        return best

    def at_once(log: Log) -> int:
        found: dict[float, int] = {}
        for time, total, _ in levels(form, log):
            found[time] = total
        return max(found.values())

    def late(log: Log) -> int:
        """Dead blocks counted until the end of the moment at which they died."""
        moments = steps_of(form, log)
        order = sorted(moments, key=lambda each: (each[0], each[2] < 0))
        total = best = 0
        for _, _, change, _ in order:
            total += change
            best = max(best, total)
        return best

    def index_of_peak(log: Log) -> int:
        found = [total for _, total, _ in levels(form, log)]
        return found.index(max(found))

    return (
        Column(
            part="bytes",
            unit="bytes",
            want=lambda log: highest(form, log)[0],
            rel=EXACT,
            words=_row_words,
            hint="Walk through the moments with a running total.",
            mistakes=(
                Mistake(
                    "sum-not-peak",
                    lambda log: sum(_allocated(form, log).values()),
                    "this is the sum of everything ever allocated.",
                ),
                Mistake("last-level", lambda log: levels(form, log)[-1][1], "this is what is alive at the end."),
                Mistake(
                    "largest-block",
                    lambda log: max(change for _, _, change, _ in steps_of(form, log)),
                    "this is the largest single block.",
                ),
                Mistake(
                    "kind-by-kind",
                    lambda log: sum(max(k[kind] for _, _, k in levels(form, log)) for kind in KINDS),
                    "this adds each kind's own peak; they do not all come at the same time.",
                ),
                Mistake(
                    "largest-kind-only",
                    lambda log: max(levels(form, log), key=lambda e: e[1])[2][highest(form, log)[2]],
                    "these are the bytes of the largest kind alone.",
                ),
                Mistake("name-used-again", by_name_once, "a name was used again with another size."),
                Mistake(
                    "end-of-a-moment",
                    at_once,
                    "several rows at one time each count: a level inside the moment was higher.",
                ),
                Mistake("died-too-late", late, "what dies at a time makes room for what is born at that time."),
                Mistake(
                    "mebibytes", lambda log: highest(form, log)[0] / 2**20, "these seem to be MiB; bytes are asked for."
                ),
            ),
        ),
        Column(
            part="time",
            unit="(a time of the log)",
            want=lambda log: highest(form, log)[1],
            rel=EXACT,
            words=_row_words,
            mistakes=(
                Mistake(
                    "last-time",
                    lambda log: [t for t, total, _ in levels(form, log) if total == highest(form, log)[0]][-1],
                    "that many were alive before as well; the first time is asked for.",
                ),
                Mistake("position", index_of_peak, "this is a position; the time is asked for."),
                Mistake("position", lambda log: index_of_peak(log) + 1, "this is a position; the time is asked for."),
                Mistake("end-of-log", lambda log: levels(form, log)[-1][0], "this is the end of the log."),
            ),
        ),
        Word(
            part="kind",
            choices=KINDS,
            want=lambda log: highest(form, log)[2],
            words=_row_words,
            mistakes=(
                Mistake(
                    "most-allocated",
                    lambda log: max(_allocated(form, log), key=lambda k: _allocated(form, log)[k]),
                    "this kind was allocated most in all, but it does not hold most at the peak.",
                ),
                Mistake(
                    "largest-block",
                    lambda log: max(((c, k) for _, k, c, _ in steps_of(form, log)), key=lambda e: e[0])[1],
                    "this is the kind of the largest block.",
                ),
                Mistake(
                    "last-allocated",
                    lambda log: next(k for t, k, c, _ in steps_of(form, log) if t == highest(form, log)[1] and c > 0),
                    "this is what was allocated last; which kind holds most?",
                ),
                Mistake(
                    "at-the-end",
                    lambda log: max(levels(form, log)[-1][2], key=lambda k: levels(form, log)[-1][2][k]),
                    "this kind holds most at the end, not at the peak.",
                ),
            ),
        ),
    )


def _shuffled_moments(rng: random.Random, form: str) -> list[dict[str, Any]]:
    """A log without sense: any kind at any time, names used again, several rows at one time, a plateau at the peak."""
    clock, alive, log, number = 0.0, {}, [], 0
    for _ in range(rng.randint(20, 40)):
        clock += rng.choice((0.0, 1.0, 2.5))
        if alive and rng.random() < 0.45:
            name = rng.choice(list(alive))
            row = alive.pop(name)
            row["died"] = clock
            log.append({"time": clock, "what": "free", "name": name})
            continue
        free = [name for name in "abcdefgh" if name not in alive]
        if not free:
            continue
        number += 1
        name = rng.choice(free)
        block = {
            "name": name,
            "kind": rng.choice(KINDS),
            "bytes": rng.randint(1, 10**6) * 97,
            "born": clock,
            "died": None,
        }
        alive[name] = block
        log.append({"time": clock, "what": "alloc", "block": block})
    blocks = [row["block"] for row in log if row["what"] == "alloc"]
    if form == "lifetimes":
        return rng.sample(blocks, len(blocks))
    keys = ("name", "kind", "bytes")
    return [
        {"time": r["time"], "what": "alloc", **{k: r["block"][k] for k in keys}} if r["what"] == "alloc" else r
        for r in log
    ]


def _plateau(form: str) -> list[dict[str, Any]]:
    """A log that reaches its peak twice."""
    blocks = [
        ("a", "activations", 700, 1.0, 3.0),
        ("b", "weights", 300, 2.0, None),
        ("a", "activations", 700, 4.0, 5.0),
    ]
    if form == "lifetimes":
        return [dict(zip(("name", "kind", "bytes", "born", "died"), block, strict=True)) for block in reversed(blocks)]
    rows: list[tuple[float, dict[str, Any]]] = []
    for name, kind, nbytes, born, died in blocks:
        rows.append((born, {"time": born, "what": "alloc", "name": name, "kind": kind, "bytes": nbytes}))
        rows += [(died, {"time": died, "what": "free", "name": name})] if died else []
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def _clear(form: str, log: Log) -> bool:
    """Whether one kind clearly holds most at the peak, and no block was born and died at one time."""
    if not log or (form == "lifetimes" and any(row["born"] == row["died"] for row in log)):
        return False
    at = max(levels(form, log), key=lambda each: each[1])[2]
    first, second = sorted(at.values())[:-3:-1]
    return first > second


def _peak_cases(params: Params, rng: random.Random) -> list[Case]:
    form = params["log"]
    logs = [training_log(rng, rng.randint(1, 6), form, unit=rng.choice((1, 1024, 2**20))) for _ in range(6)]
    while len(logs) < 16:
        log = _shuffled_moments(rng, form)
        logs += [log] if _clear(form, log) else []
    rows = [(each,) for each in [*logs, _plateau(form)] if _clear(form, each)]
    own = Case(name="the log shown", args=(0, [(list(params["rows"]),)]))
    other = unseen(rng, "log", 0, "other logs", rows)
    usual = [training_log(rng, 2, form) for _ in range(12)]
    return [own, plain("", 0, "three more logs", [(each,) for each in usual if _clear(form, each)][:3]), other]


def _peak_verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    by_place = table(_peak_columns(params["log"]))
    return (by_place if case.kind == "values" else one_verdict(by_place))(params, case, outcome)


PEAK_NOT_SUM = Judging(
    shares={"values:bytes": 0.25, "values:time": 0.1, "values:kind": 0.15, "generality:log": 0.5},
    cases=_peak_cases,
    verdicts=_peak_verdicts,
    why="A run dies at its highest moment, not by its sum: what matters is who is alive together. Here that moment lies in the second "
    "step's backward pass, when the moments that the first step made meet activations and the first gradients. The largest block is "
    "often innocent, and a kind that comes and goes all the time can allocate most and hold least.",
    pytorch="`torch.cuda.memory._record_memory_history()` and `torch.cuda.memory._snapshot()` keep such a log; "
    "`torch.cuda.max_memory_allocated()` is its peak, `torch.cuda.memory_allocated()` its last level.",
)
