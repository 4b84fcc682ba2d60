"""Judge of chapter 10's validator: schedules that run, plain and odd, and schedules with one thing wrong each."""

from __future__ import annotations

import random

from course_lib.exercises.ch10.cards.core import COMPLAINTS
from course_lib.exercises.ch10.judges.rows import judged
from course_lib.judging import Fault, Judging, Params, describe
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import Schedule, gpipe, naive, one_f_one_b, peak_activations, schedule_of, zb_h1

Rows = list[list[tuple[str, int, int]]]


def plain(schedule: Schedule) -> Rows:
    """Rows of plain tuples."""
    return [[(op.kind, op.stage, op.microbatch) for op in row] for row in schedule.rows]


def whole(schedule: Schedule) -> Rows:
    """A split schedule with whole backwards where its input gradients stand: valid, and nobody's textbook order."""
    return [
        [("B" if kind == "I" else kind, stage, m) for kind, stage, m in row if kind != "W"] for row in plain(schedule)
    ]


def shuffled(p: int, m: int, rng: random.Random, homes: tuple[int, ...] | None = None) -> Rows:
    """A valid schedule without any plan: of all operations that are ready, a random one is next."""
    homes = homes or tuple(range(p))
    rows: Rows = [[] for _ in range(max(homes) + 1)]
    last, done = len(homes) - 1, set()
    left = [(kind, stage, each) for kind in "FB" for stage in range(last + 1) for each in range(m)]
    while left:
        ready = [
            (kind, s, x)
            for kind, s, x in left
            if (kind == "F" and (s == 0 or ("F", s - 1, x) in done))
            or (kind == "B" and ("F", s, x) in done and (s == last or ("B", s + 1, x) in done))
        ]
        op = rng.choice(ready)
        rows[homes[op[1]]].append(op)
        done.add(op)
        left.remove(op)
    return rows


def _most(rows: Rows, m: int) -> float:
    return max(peak_activations(schedule_of(rows, m)))


def _swapped(rows: Rows, rank: int, one: tuple, other: tuple) -> Rows:
    made = [list(row) for row in rows]
    a, b = made[rank].index(one), made[rank].index(other)
    made[rank][a], made[rank][b] = made[rank][b], made[rank][a]
    return made


def _circle(p: int, m: int, rng: random.Random) -> Rows:
    """Each row is in order, and rank r wants the gradient of micro-batch a before it lets b go on, the next rank b before a."""
    rows = plain(naive(p, m))
    a = rng.randrange(m - 1)
    at = rng.randrange(1, p)
    row = rows[at]
    place = row.index(("B", at, a))
    after = row.index(("F", at, a + 1))
    row.insert(place, row.pop(after))
    return rows


def _impatient(p: int, m: int) -> Rows:
    """1F1B whose first rank wants its first gradient before it lets a second micro-batch in, which the next rank wants first."""
    rows = plain(one_f_one_b(p, m))
    rows[0].insert(1, rows[0].pop(rows[0].index(("B", 0, 0))))
    row = rows[1]
    place, later = row.index(("B", 1, 0)), row.index(("F", 1, 1))
    if later > place:
        row.insert(place, row.pop(later))
    return rows


def _broken(p: int, m: int, rng: random.Random) -> dict[str, tuple[str, Rows, int | None]]:
    """Rows with one thing wrong, by what to call them: (word, rows, limit)."""
    good = plain(one_f_one_b(p, m))
    s, x = rng.randrange(p), rng.randrange(1, m)
    lost = [[op for op in row if op != ("B", s, x)] for row in good]
    unforward = [[op for op in row if op[2] != x or op[1] != s] for row in good]
    twice = [list(row) for row in good]
    twice[s].insert(rng.randrange(len(twice[s])), ("F", s, x))
    moved = [list(row) for row in good]
    moved[(s + 1) % p].append(moved[s].pop(moved[s].index(("B", s, x))))
    again = [list(row) for row in good]
    again[s][again[s].index(("B", s, x))] = ("B", s, x - 1)
    short = [[op for op in row if op[2] < m - 1] for row in good]
    lonely = [[], *([list(row) for row in good][1:])]
    return {
        "no rows": ("empty", [], None),
        "rows without operations": ("empty", [[] for _ in range(p)], 2),
        "a backward left out": ("missing", lost, None),
        "a micro-batch left out on one stage": ("missing", unforward, None),
        "the last micro-batch left out everywhere": ("missing", short, None),
        "a rank without work": ("missing", lonely, None),
        "a forward done again": ("duplicate", twice, None),
        "one backward twice, another not at all": ("duplicate", again, None),
        "a backward on the neighbour": ("wrong rank", moved, None),
        "a backward before its forward": ("order", _swapped(good, s, ("F", s, x), ("B", s, x)), None),
        "the last stage's first two turned round": (
            "order",
            _swapped(good, p - 1, ("F", p - 1, 0), ("B", p - 1, 0)),
            None,
        ),
        "a circle of two ranks": ("deadlock", _circle(p, m, rng), None),
        "a first rank that waits too early": ("deadlock", _impatient(p, m), None),
        "GPipe, one micro-batch too many": ("memory", plain(gpipe(p, m)), m - 1),
        "1F1B, one micro-batch too many": ("memory", good, min(p, m) - 1),
    }


def _fine(p: int, m: int, rng: random.Random) -> dict[str, tuple[str, Rows, int | None]]:
    free = shuffled(p, m, rng)
    return {
        "1F1B": ("ok", plain(one_f_one_b(p, m)), min(p, m)),
        "GPipe": ("ok", plain(gpipe(p, m)), m),
        "naive": ("ok", plain(naive(p, m)), 1),
        "GPipe, no limit": ("ok", plain(gpipe(p, m)), None),
        "a zero-bubble order, backwards whole": ("ok", whole(zb_h1(p, m)), p),
        "an order without a plan": ("ok", free, int(_most(free, m))),
        "one stage": ("ok", shuffled(1, m, rng), m),
    }


def _validator_cases(params: Params, rng: random.Random) -> list[Case]:
    p, m = params["stages"], params["microbatches"]
    seen = {
        "1F1B",
        "GPipe",
        "rows without operations",
        "a backward left out",
        "a backward before its forward",
        "a circle of two ranks",
        "GPipe, one micro-batch too many",
    }
    cases = []
    for name, (word, rows, limit) in {**_fine(p, m, rng), **_broken(p, m, rng)}.items():
        cases.append(Case(name=name, args=(rows, m, limit), secret=word, part="found", visible=name in seen))
    for _ in range(3):
        a, b = rng.randrange(2, 6), rng.randrange(3, 9)
        for name, (word, rows, limit) in {**_fine(a, b, rng), **_broken(a, b, rng)}.items():
            cases.append(
                Case(
                    name=f"{name} ({a} ranks, {b} micro-batches)",
                    args=(rows, b, limit),
                    secret=word,
                    kind="generality",
                    part="sizes",
                    visible=False,
                )
            )
    return sorted(cases, key=lambda each: (not each.visible, each.kind != "values"))


def _validator_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got, want = outcome.value, case.secret
    word = got.strip().lower() if type(got) is str and len(got) < 40 else None
    if word not in COMPLAINTS and word != "ok":
        name = "returned-none" if got is None else "no-such-word"
        return judged(case, (name, f'{case.name}: got {describe(got)}; return "ok" or one of {", ".join(COMPLAINTS)}.'))
    fault: Fault | None = None
    if want == "ok" and word != "ok":
        fault = ("rejects-good", f"{case.name}: this schedule runs, and keeps its limit; it was called {word!r}.")
    elif want != "ok" and word == "ok":
        fault = (
            f"accepts-{want.replace(' ', '-')}",
            f"{case.name}: it was let pass. Look for this: {COMPLAINTS[want]}.",
        )
    wrong = (
        None
        if word == want or fault
        else (
            "other-word",
            f"{case.name}: something is wrong, but {word!r} is not the first word that is true. Is this? {COMPLAINTS[word]}.",
        )
    )
    return judged(case, fault, ("generality", "words", wrong))


VALIDATOR = {
    "schedule-validator": Judging(
        shares={"values:found": 0.5, "generality:words": 0.25, "generality:sizes": 0.25},
        cases=_validator_cases,
        verdicts=_validator_verdicts,
        why="A check that runs over what is there cannot see what is not: compare with what must be there. Whether rows can run is no property of any row; "
        "it is found by running them, without times, until all are through or nothing moves.",
        pytorch="`_validate_schedule` in `torch/distributed/pipelining/schedules.py` marks the faulty step in the printed grid.",
    )
}
