"""Judge of chapter 10's validator: schedules that run, plain and odd, and schedules with one thing wrong each."""

import random
from collections.abc import Sequence

from course_lib.exercises.ch10.cards.core import COMPLAINTS
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import shown
from course_lib.records import Case, Outcome
from course_lib.schedules import Schedule, gpipe, naive, one_f_one_b, peak_activations, schedule_of, zb_h1

Op = tuple[str, int, int]  # kind, stage, micro-batch
Rows = list[list[Op]]


def plain(schedule: Schedule) -> Rows:
    """Rows of plain tuples."""
    return [[(op.kind, op.stage, op.microbatch) for op in row] for row in schedule.rows]


def whole(schedule: Schedule) -> Rows:
    """A split schedule with whole backwards in place of its input gradients: valid, and in an unusual order."""
    return [[("B" if kind == "I" else kind, s, m) for kind, s, m in row if kind != "W"] for row in plain(schedule)]


def shuffled(p: int, m: int, rng: random.Random, homes: Sequence[int] = ()) -> Rows:
    """A valid schedule of `p` stages in random order: each operation is drawn from those that are ready."""
    homes = homes or range(p)
    rows: Rows = [[] for _ in range(max(homes) + 1)]
    done: set[Op] = set()
    left = [(kind, stage, x) for kind in "FB" for stage in range(p) for x in range(m)]

    def ready(kind: str, s: int, x: int) -> bool:
        if kind == "F":
            return s == 0 or ("F", s - 1, x) in done
        return ("F", s, x) in done and (s == p - 1 or ("B", s + 1, x) in done)

    while left:
        op = rng.choice([op for op in left if ready(*op)])
        rows[homes[op[1]]].append(op)
        done.add(op)
        left.remove(op)
    return rows


def _earlier(rows: Rows, rank: int, op: Op, before: Op) -> Rows:
    """The same rows, but for an operation moved to the place just before another one of its rank."""
    row = rows[rank]
    if row.index(op) > row.index(before):
        row.insert(row.index(before), row.pop(row.index(op)))
    return rows


def _described(p: int, m: int, rng: random.Random) -> dict[str, tuple[str, Rows, int | None]]:
    """Good rows, and rows with one thing wrong each: name of the case -> (the right word, rows, limit)."""
    unplanned, alone = shuffled(p, m, rng), shuffled(1, m, rng)
    good, s, x, last = plain(one_f_one_b(p, m)), rng.randrange(p), rng.randrange(1, m), p - 1
    at = rng.randrange(len(good[s]))
    forward, backward = ("F", s, x), ("B", s, x)
    # a rank that starts micro-batch a + 1 before it ends a, where the rank before it does so afterward
    a, rank = rng.randrange(m - 1), rng.randrange(1, p)
    circle = _earlier(plain(naive(p, m)), rank, ("F", rank, a + 1), ("B", rank, a))
    # a first rank that waits for its first gradient before it sends micro-batch 1, which the next rank needs first
    early = _earlier(plain(one_f_one_b(p, m)), 0, ("B", 0, 0), good[0][1])
    impatient = _earlier(early, 1, ("F", 1, 1), ("B", 1, 0))

    rest = range(1, m)
    late = [[("F", 0, 0), ("B", 0, 0), *(("F", 0, each) for each in rest), *(("B", 0, each) for each in rest)]]

    def but(rank: int, ops: Sequence[Op]) -> Rows:
        """The good rows but for one."""
        return [list(ops if each == rank else row) for each, row in enumerate(good)]

    def swapped(rank: int, one: Op, other: Op) -> Rows:
        return but(rank, [{one: other, other: one}.get(op, op) for op in good[rank]])

    gone = [op for op in good[s] if op != backward]
    again = [("B", s, x - 1) if op == backward else op for op in good[s]]
    moved = but(s, gone)
    moved[(s + 1) % p].append(backward)
    turned, y = swapped(s, forward, backward), (x + 1) % m
    return {
        "1F1B": ("ok", plain(one_f_one_b(p, m)), min(p, m)),
        "GPipe": ("ok", plain(gpipe(p, m)), m),
        "naive": ("ok", plain(naive(p, m)), 1),
        "GPipe, no limit": ("ok", plain(gpipe(p, m)), None),
        "a zero-bubble order, backwards whole": ("ok", whole(zb_h1(p, m)), p),
        "an order without a plan": ("ok", unplanned, int(max(peak_activations(schedule_of(unplanned, m))))),
        "one stage": ("ok", alone, m),
        "no rows": ("empty", [], None),
        "rows without operations": ("empty", [[] for _ in range(p)], 2),
        "a backward left out": ("missing", but(s, gone), None),
        "a micro-batch left out on one stage": ("missing", but(s, [op for op in gone if op != forward]), None),
        "the last micro-batch left out everywhere": (
            "missing",
            [[op for op in r if op[2] < m - 1] for r in good],
            None,
        ),
        "a rank without work": ("missing", but(0, []), None),
        "a forward done again": ("duplicate", but(s, [*good[s][:at], forward, *good[s][at:]]), None),
        "one backward twice, another not at all": ("duplicate", but(s, again), None),
        "a backward on the neighbor": ("wrong rank", moved, None),
        "a backward before its forward": ("order", swapped(s, forward, backward), None),
        "the last stage's first two turned round": ("order", swapped(last, ("F", last, 0), ("B", last, 0)), None),
        "a circle of two ranks": ("deadlock", circle, None),
        "a first rank that waits too early": ("deadlock", impatient, None),
        "GPipe, one micro-batch too many": ("memory", plain(gpipe(p, m)), m - 1),
        "1F1B, one micro-batch too many": ("memory", good, min(p, m) - 1),
        "nothing may be held": ("memory", plain(naive(p, m)), 0),
        "too many after a first backward": ("memory", late, m - 2),
        "as many as fit after a first backward": ("ok", late, m - 1),
        "a micro-batch beyond the last": ("missing", plain(one_f_one_b(p, m + 1)), None),
        "micro-batch -1 in place of the last": (
            "missing",
            [[(kind, stage, -1 if each == m - 1 else each) for kind, stage, each in row] for row in good],
            None,
        ),
        "the last rank's stage called -1": ("wrong rank", [*good[:-1], [(o[0], -1, o[2]) for o in good[-1]]], None),
        # several faults at once: the first word counts
        "on the neighbor, and all else": ("wrong rank", [row[-1:] + row[:1] + row[2:] for row in moved], 0),
        "one twice, and all that comes later": ("duplicate", [row[-1:] + row[:1] + row[2:] for row in good], 0),
        "one left out, and all that comes later": ("missing", [[o for o in r if o[2] != y] for r in turned], 0),
        "one left out, and too many held": ("missing", but(s, gone), 1),
        "a backward too early, a circle, and too many held": (
            "order",
            [circle[0][1::-1] + circle[0][2:], *circle[1:]],
            0,
        ),
        "a circle, and too many held": ("deadlock", circle, 1),
        "a first rank that waits, and too many held": ("deadlock", impatient, 1),
    }


SHOWN = ("1F1B", "GPipe", "rows without operations", "a backward left out")
SHOWN += ("a backward before its forward", "a circle of two ranks", "GPipe, one micro-batch too many")

HARDER = ("a micro-batch beyond the last", "micro-batch -1 in place of the last", "the last rank's stage called -1")
HARDER += (
    "on the neighbor, and all else",
    "one twice, and all that comes later",
    "one left out, and all that comes later",
)
HARDER += ("one left out, and too many held", "a backward too early, a circle, and too many held")
HARDER += ("a circle, and too many held", "a first rank that waits, and too many held")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def drawn(share: str, p: int, m: int, more: str = "") -> list[Case]:
        return [
            shown(
                name + more,
                "generality:sizes" if name in HARDER else share,
                rows,
                m,
                limit,
                secret=word,
                visible=not more and name in SHOWN,
            )
            for name, (word, rows, limit) in _described(p, m, rng).items()
        ]

    cases = drawn("values:found", params["stages"], params["microbatches"])
    for p, m in (rng.randrange(2, 6), rng.randrange(3, 9)), (rng.randrange(7, 10), 3), (2, rng.randrange(13, 16)):
        cases += drawn("generality:sizes", p, m, f" ({p} ranks, {m} micro-batches)")
    return sorted(cases, key=lambda case: (not case.visible, case.kind != "values"))


def _passed_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    """A good schedule rejected, or a bad one accepted."""
    word, want = outcome.value.strip().lower(), case.secret
    if want == "ok" != word:
        return "rejects-good", f"this schedule runs within its limit; it was called {word!r}."
    if word == "ok" != want:
        return f"accepts-{want.replace(' ', '-')}", f"this schedule was accepted. Look for this: {COMPLAINTS[want]}."
    return None


def _word_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    word = outcome.value.strip().lower()
    told = f"something is wrong, but {word!r} is not the first word that is true. Is this? {COMPLAINTS.get(word)}."
    return None if word == case.secret else ("other-word", told)


VALIDATOR = {
    "schedule-validator": Judging(
        shares="values:found 0.5, generality:words 0.25, generality:sizes 0.25",
        cases=_cases,
        verdicts=oracle(_passed_fault, {"generality:words": _word_fault}, named=True),
        why="""A check of the operations that are there cannot see the ones that are not, so compare with what must be there. No single row
shows whether rows can run. To find out, run them without times until all are through or nothing moves.""",
        pytorch="`_validate_schedule` in `torch/distributed/pipelining/schedules.py` marks the faulty step in the printed grid.",
    )
}
