from collections.abc import Sequence

from course_chapters.ch10.exercises.judges.shared import Op, Rows, plain, shuffled, whole
from course_chapters.ch10.exercises.schedule_validator import COMPLAINTS
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, oracle, shown
from course_lib.parallel.schedules import gpipe, naive, one_f_one_b, peak_activations, schedule_of, zb_h1


def _earlier(rows: Rows, rank: int, op: Op, before: Op) -> Rows:
    """The same rows, but for an operation moved to the place just before another one of its rank."""
    row = rows[rank]
    if row.index(op) > row.index(before):
        row.insert(row.index(before), row.pop(row.index(op)))
    return rows


def _described(p: int, m: int, rng: Random) -> dict[str, tuple[str, Rows, int | None]]:
    """Good rows, and rows with one thing wrong each: name of the case -> (the right word, rows, limit)."""
    unplanned, alone = shuffled(p, m, rng), shuffled(1, m, rng)
    good, s, x, last = plain(one_f_one_b(p, m)), rng.randrange(p), rng.randrange(1, m), p - 1
    at = rng.randrange(len(good[s]))
    forward, backward = ("F", s, x), ("B", s, x)
    # a rank that starts micro-batch a + 1 before it ends a, where the rank before it does so afterward
    a, rank = rng.randrange(m - 1), rng.randrange(1, p)
    cycle = _earlier(plain(naive(p, m)), rank, ("F", rank, a + 1), ("B", rank, a))
    # a first rank that waits for its first gradient before it sends micro-batch 1, which the next rank needs first
    early = _earlier(plain(one_f_one_b(p, m)), 0, ("B", 0, 0), good[0][1])
    impatient = _earlier(early, 1, ("F", 1, 1), ("B", 1, 0))

    rest = range(1, m)
    late = [[("F", 0, 0), ("B", 0, 0), *(("F", 0, each) for each in rest), *(("B", 0, each) for each in rest)]]

    def but(rank: int, ops: Sequence[Op]) -> Rows:
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
        "a cycle of two ranks": ("deadlock", cycle, None),
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
        "micro-batch -1 beside the others": (
            "missing",
            [
                [op for kind, stage, each in row for op in [(kind, stage, each), (kind, stage, -1)][: 1 + (each == 0)]]
                for row in good
            ],
            None,
        ),
        "the last rank's stage called -1": ("wrong rank", [*good[:-1], [(o[0], -1, o[2]) for o in good[-1]]], None),
        # several faults at once: the first word counts
        "on the neighbor, and all else": ("wrong rank", [row[-1:] + row[:1] + row[2:] for row in moved], 0),
        "one twice, and all that comes later": ("duplicate", [row[-1:] + row[:1] + row[2:] for row in good], 0),
        "one left out, and all that comes later": ("missing", [[o for o in r if o[2] != y] for r in turned], 0),
        "one left out, and too many held": ("missing", but(s, gone), 1),
        "a backward too early, a cycle, and too many held": ("order", [cycle[0][1::-1] + cycle[0][2:], *cycle[1:]], 0),
        "a cycle, and too many held": ("deadlock", cycle, 1),
        "a first rank that waits, and too many held": ("deadlock", impatient, 1),
    }


SHOWN: tuple[str, ...] = ("1F1B", "GPipe", "rows without operations", "a backward left out")
SHOWN += ("a backward before its forward", "a cycle of two ranks", "GPipe, one micro-batch too many")

HARDER: tuple[str, ...] = (
    "a micro-batch beyond the last",
    "micro-batch -1 in place of the last",
    "micro-batch -1 beside the others",
    "the last rank's stage called -1",
)
HARDER += (
    "on the neighbor, and all else",
    "one twice, and all that comes later",
    "one left out, and all that comes later",
)
HARDER += ("one left out, and too many held", "a backward too early, a cycle, and too many held")
HARDER += ("a cycle, and too many held", "a first rank that waits, and too many held")


def _cases(params: Params, rng: Random) -> list[Case]:
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
    rows, m, limit = cases[0].args
    cases.append(
        shown("1F1B of one micro-batch less", "generality:sizes", rows, m + 1, limit, secret="missing", visible=False)
    )
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


JUDGING = Judging(
    shares="values:found 0.5, generality:words 0.25, generality:sizes 0.25",
    cases=_cases,
    verdicts=oracle(_passed_fault, {"generality:words": _word_fault}, named=True),
    why="""A check of the operations that are there cannot see the ones that are not, so compare with what must be
there. No single row shows whether rows can run. To find out, run them without times until all are through or nothing
moves.""",
    pytorch="`_validate_schedule` in `torch/distributed/pipelining/schedules.py` marks the faulty step in the "
    "printed grid.",
)

ANSWERS = r'''# %% right: worked
def complaint(rows: list[list[tuple[str, int, int]]], microbatches: int, limit: int | None) -> str:
    """The first complaint that is true, or "ok" if none is."""
    everything = [op for row in rows for op in row]
    if not everything:
        return "empty"
    if any(op[1] != rank for rank, row in enumerate(rows) for op in row):
        return "wrong rank"
    if len(set(everything)) < len(everything):
        return "duplicate"
    needed = {(kind, s, m) for kind in "FB" for s in range(len(rows)) for m in range(microbatches)}
    if needed != set(everything):
        return "missing"
    for row in rows:
        place = {op: at for at, op in enumerate(row)}
        if any(place["B", s, m] < place["F", s, m] for kind, s, m in row if kind == "B"):
            return "order"
    done, at, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while at[rank] < len(row):
                kind, s, m = row[at[rank]]
                before = ("F", s - 1, m) if kind == "F" else ("B", s + 1, m)
                if 0 <= before[1] < len(rows) and before not in done:
                    break
                done.add(row[at[rank]])
                at[rank] += 1
                moved = True
    if len(done) < len(everything):
        return "deadlock"
    for row in rows:
        held = 0
        for kind, _, _ in row:
            held += 1 if kind == "F" else -1
            if limit is not None and held > limit:
                return "memory"
    return "ok"
# %% right: at most one operation of each rank in turn
# ~ while at[rank] < len(row): ==> if at[rank] < len(row):
# ~ break ==> continue
# %% wrong: an empty schedule has no fault => values accepts-empty
# ~ return "empty" ==> return "ok"
# %% wrong: does not run the rows => values accepts-deadlock
# ~ return "deadlock" ==> pass
# %% wrong: does not look at the limit => values accepts-memory
# ~ return "memory" ==> pass
# %% wrong: counts forwards => values
# > forwards are counted here. A backward frees what its forward held.
# ~ held += 1 if kind == "F" else -1 ==> held += kind == "F"
# %% wrong: limit itself => values
# > as many as the limit are called too many; only more than that are.
# ~ held > limit ==> held >= limit
# %% wrong: none is zero => values
# > without a limit any number may be held; here it is as if none may.
# ~ limit is not None and held > limit ==> held > (limit or 0)
# %% wrong: positions compared => values
# > where operations stand in their rows does not say when they run. Run the rows until nothing moves.
#               return "order"
# +     place = {op: at for row in rows for at, op in enumerate(row)}
# +     for (kind, s, m), at in place.items():
# +         if place.get((kind, s + (1 if kind == "B" else -1), m), 0) > at + 2 * (kind == "B"):
# +             return "deadlock"
# %% wrong: looks at the first row only => values accepts-deadlock
#       """The first complaint that is true, or "ok" if none is."""
# +     rows = rows[:1]
# %% wrong: yes or no => values no-such-word
# ~ return "ok" ==> return True
# %% wrong: one word for most faults => generality other-word
# ~ return "order" ==> return "missing"
# ~ return "deadlock" ==> return "missing"
# ~ return "memory" ==> return "missing"
# %% half: finds all, and has one word for it => 6  from: one word for most faults
# %% wrong: looks at memory before it runs the rows => generality other-word
#               return "order"
# +     kinds = [[1 if op[0] == "F" else -1 for op in row] for row in rows]
# +     if limit is not None and any(sum(row[:end]) > limit for row in kinds for end in range(len(row) + 1)):
# +         return "memory"
# %% wrong: finds what is missing by counting => generality accepts-missing
# ~ needed != set(everything) ==> len(needed) != len(everything)
# %% wrong: looks at the order before it counts => generality other-word
#           return "wrong rank"
# +     if any(op[0] == "B" and ("F", *op[1:]) in row[at:] for row in rows for at, op in enumerate(row)):
# +         return "order"
# %% wrong: memory is the warm-up's => values accepts-memory
# ~ held += 1 if kind == "F" else -1 ==> held += 1 if kind == "F" else -2 * microbatches
# %% wrong: a limit of none held is no limit => values accepts-memory
# ~ limit is not None and ==> limit and
# %% wrong: ranks after the sixth are not run => generality accepts-deadlock
# ~ len(done) < len(everything): ==> len(done) < len(everything) and len(rows) < 7:
# %% wrong: looks for missing ones before other ranks => generality other-word
# ~ if any(op[1] != ==> if len(set(everything)) == 2 * len(rows) * microbatches and any(op[1] !=
# %% wrong: micro-batch -1 is the last one => generality accepts-missing
#       """The first complaint that is true, or "ok" if none is."""
# +     rows = [[(kind, s, range(microbatches)[m] if m < microbatches else m) for kind, s, m in row] for row in rows]
'''
