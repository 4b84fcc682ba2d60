from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from course_grader.judging import Fault, Judging, Params, Random, Worked, Wrong, describe, first, hidden, judged, shown
from course_grader.records import Case, Outcome, Verdict

right = Worked("verify-plan")

PARTS = {  # how the plan cuts a part, and the part's shape
    "attention.wq": ("column", (64, 64)),
    "attention.wk": ("column", (32, 64)),
    "attention.wo": ("row", (64, 64)),
    "mlp.up": ("column", (96, 64)),
    "mlp.down": ("row", (64, 96)),
    "norm.table": ("", (8, 64)),
}
RENAMED: Mapping[str, Callable[[str], str]] = {  # what becomes of all patterns of a plan
    "nothing": lambda pattern: f"model.{pattern}",
    "depth": lambda pattern: pattern.replace("layers.*.", "*."),
    "signs": lambda pattern: pattern.replace("yers.*", "[w-z]?rs.*"),
    "case": str.title,
}

Shape = tuple[int, int]
Row = tuple[dict[str, str], dict[str, Shape], dict[str, Shape], int]  # plan, whole, held, ranks


def _cut(shape: Shape, style: str, ranks: int) -> Shape:
    rows, columns = shape
    return {"column": (rows // ranks, columns), "row": (rows, columns // ranks)}.get(style, shape)


def _model(rng: Random, layers: int, ranks: int, fault: str) -> Row:
    """A model with one kind of fault, or "several": in its plan, or in what is held."""
    plan = {f"layers.*.{part}": style for part, (style, _) in PARTS.items() if style} | {"head": "column"}
    own = {f"layers.{layer}.{part}": shape for layer in range(layers) for part, (_, shape) in PARTS.items()}
    whole = own | {"head": (128, 64), "embedding": (128, 64)}
    victim = rng.choice([pattern for pattern in plan if "*" in pattern])
    other = rng.choice([name for name in own if "norm" not in name and not fnmatchcase(name, victim)])
    typo = {victim: f"{victim}s"} if fault in ("misspelt", "several") else {}
    plan = {typo.get(pattern, RENAMED.get(fault, str)(pattern)): style for pattern, style in plan.items()}
    styles = {name: style for pattern, style in plan.items() for name in whole if fnmatchcase(name, pattern)}
    held = {name: _cut(shape, styles.get(name, ""), ranks) for name, shape in whole.items()}
    rows, columns = whole[other]
    turned = {other: _cut(whole[other], "row" if styles.get(other) == "column" else "column", ranks)}
    held |= {
        "restored": {"head": whole["head"]},
        "one layer": {other: whole[other]},
        "turned": turned,
        "several": turned | {"head": whole["head"]},
        "unplanned": {"embedding": (256, 64), "layers.0.norm.table": (4, 64)},
        "finer": {other: (rows // ranks, columns // ranks)},
    }.get(fault, {})
    return plan, whole, held, ranks


def _cases(params: Params, rng: Random) -> list[Case]:
    layers, ranks = params["layers"], params["ranks"]

    def rows(*faults: str, n: int = ranks, depth: int = layers, times: int = 1) -> list[Row]:
        return [_model(rng, depth, n, fault) for fault in faults for _ in range(times)]

    sides, plans = ("turned", "unplanned", "finer"), ("none", "misspelt", "depth", "signs")
    alone = rows(*plans[:2], "unplanned", n=1)
    plan, whole, held, count = _model(rng, layers, ranks, "none")
    wider = [(plan, shapes, held, count) for shapes in (whole, {**whole, "head": (256, 64)})]
    return [
        shown("a misspelt pattern", "values:unused", 0, rows("misspelt")),
        shown("a plan carried out", "values:silence", 0, rows("none", "depth")),
        shown("a head that was put back whole", "values:whole", 0, rows("restored")),
        hidden("other misspelt patterns", "values:unused", 0, rows("misspelt", "nothing", "case", times=2)),
        hidden("plans carried out, and one that was not", "values:silence", 0, rows(*plans, n=2, depth=4)),
        hidden("weights held whole", "values:whole", 0, rows("restored", "one layer", times=3)),
        hidden("weights cut on another side", "generality:sides", 0, rows(*sides, times=3) + wider),
        hidden("several faults at once", "generality:several", 0, rows("several", times=4)),
        hidden("one rank, twelve layers", "generality:sizes", 0, [*alone, *rows("restored", "none", depth=12)]),
    ]


MISSED = {
    "unused": ("unused-missed", "no complaint about a pattern of the plan that matches nothing."),
    "whole": ("whole-missed", "no complaint about a weight that the plan cuts and every rank holds whole."),
    "wrong side": ("side-missed", "no complaint about a weight held in a shape that the plan does not give it."),
}


def _fault(row: Row, got: Sequence[Sequence[str]], want: Sequence[tuple[str, str]]) -> Fault | None:
    _, whole, _, ranks = row
    said = [tuple(each) for each in got]
    lead = f"{ranks} ranks, {len(whole)} weights: "
    missing = {word for word, name in want if (word, name) not in said}
    for word, (mistake, message) in MISSED.items():
        if word in missing:
            return Wrong(mistake, lead + message, lead)
    if extra := [each for each in said if each not in want]:
        return Wrong("false-alarm", f"{lead}you complain {describe(extra[0])}, and it is as planned.", lead)
    return None if said == want else ("not-sorted", "All complaints are there; sort the list, each once.")


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, first(*map(_fault, case.args[1], outcome.value, right.value(case))))


JUDGING = Judging(
    shares="values:unused 0.3, values:silence 0.1, values:whole 0.3, generality:sides 0.15, "
    "generality:several 0.1, generality:sizes 0.05",
    cases=_cases,
    verdicts=_verdicts,
    why="A plan that was not carried out does not change the mathematics, so the loss cannot show it. Shapes do, and "
    "so do bytes: if the ranks send nothing in a step, nothing was split.",
    pytorch="transformers warns of unused rules since 2025; `module.weight.placements` shows what DTensor did.",
)

ANSWERS = r'''from fnmatch import fnmatchcase
# %% right: worked
def verify(plan, whole, held, ranks):
    """Deviations from the plan: a sorted list of (complaint, name), empty if there is none."""
    found = [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)]
    for name, (rows, columns) in whole.items():
        want = (rows, columns)
        for pattern, style in plan.items():
            if fnmatchcase(name, pattern):
                want = (rows // ranks, columns) if style == "column" else (rows, columns // ranks)
        here = tuple(held[name])
        if here != want:
            found.append(("whole" if here == (rows, columns) else "wrong side", name))
    return sorted(found)
# %% right: a table of what was planned, then a comparison
def verify(plan, whole, held, ranks):
    styles = {name: plan[p] for p in plan for name in whole if fnmatchcase(name, p)}
    cut = {"column": lambda r, c: (r // ranks, c), "row": lambda r, c: (r, c // ranks), None: lambda r, c: (r, c)}
    unused = {("unused", p) for p in plan if not [name for name in whole if fnmatchcase(name, p)]}
    off = {name for name in whole if list(held[name]) != list(cut[styles.get(name)](*whole[name]))}
    whole_ones = {("whole", name) for name in off if list(held[name]) == list(whole[name])}
    turned = {("wrong side", name) for name in off if list(held[name]) != list(whole[name])}
    return sorted(unused | whole_ones | turned)
# %% wrong: patterns only => values whole-missed
# ~ return sorted(found) ==> return sorted(each for each in found if each[0] == "unused")
# %% wrong: shapes only => values unused-missed
# ~ [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)] ==> []
# %% wrong: counts numbers, not shapes => generality side-missed
# ~ if here != want: ==> if here[0] * here[1] != want[0] * want[1]:
# %% wrong: rows and columns taken the textbook's way => values textbook-sides
# > rows and columns are exchanged: weights are stored (out, in), so a column cut shortens the rows.
# ~ style == "column" ==> style == "row"
# %% wrong: only weights that a pattern matches are looked at => generality side-missed
# ~ want = (rows, columns) ==> want = tuple(held[name])
# %% wrong: whole on one rank is a complaint => generality false-alarm
# ~ if here != want: ==> if here != want or here == (rows, columns) and any(fnmatchcase(name, p) for p in plan):
# %% wrong: not sorted => values not-sorted
# ~ sorted(found) ==> sorted(found, reverse=True)
# %% wrong: names without words => values wrong-shape
# ~ return sorted(found) ==> return sorted(name for _, name in found)
# %% half: patterns only => 3.2  from: patterns only
# %% wrong: larger than planned is no complaint => generality side-missed
# ~ if here != want: ==> if here != want and here[0] <= rows:
# %% wrong: case counts for nothing => values unused-missed
# ~ fnmatchcase(name, pattern) for name ==> fnmatchcase(name.lower(), pattern.lower()) for name
# ~ if fnmatchcase(name, pattern): ==> if fnmatchcase(name.lower(), pattern.lower()):
'''
