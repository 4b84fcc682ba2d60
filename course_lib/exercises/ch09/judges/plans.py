"""Judges of chapter 09's plan, held against shapes, and of its two random streams."""

import random
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from course_lib.judging import Fault, Judging, Params, describe, first, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

# --- the plan

PARTS = {
    "attention.wq": (0, 64, 64),
    "attention.wk": (0, 32, 64),
    "attention.wv": (0, 32, 64),
    "attention.wo": (1, 64, 64),
    "mlp.gate": (0, 96, 64),
    "mlp.up": (0, 96, 64),
    "mlp.down": (1, 64, 96),
    "norm.table": (None, 8, 64),
}


Shape = tuple[int, int]
Row = tuple[dict[str, str], dict[str, Shape], dict[str, Shape], int]  # plan, whole, held, ranks


def _style(plan: Mapping[str, str], name: str) -> str | None:
    """How the plan cuts a weight."""
    return next((style for pattern, style in plan.items() if fnmatchcase(name, pattern)), None)


def _cut(shape: Shape, style: str | None, ranks: int) -> Shape:
    """The shape of a rank's piece."""
    rows, columns = shape
    return {"column": (rows // ranks, columns), "row": (rows, columns // ranks), None: (rows, columns)}[style]


def complaints(
    plan: Mapping[str, str], whole: Mapping[str, Any], held: Mapping[str, Any], ranks: int
) -> list[tuple[str, str]]:
    """What is not as planned."""
    found = [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)]
    for name, shape in whole.items():
        style = _style(plan, name)
        if tuple(held[name]) != _cut(shape, style, ranks):
            found.append(("whole" if style and tuple(held[name]) == shape else "wrong side", name))
    return sorted(found)


def _model(rng: random.Random, layers: int, ranks: int, fault: str) -> Row:
    """A model with one kind of fault: "misspelt", "nothing" and "depth" change the plan, the others what is held."""
    cut = {part: ("column", "row")[side] for part, (side, _, _) in PARTS.items() if side is not None}
    plan = {f"layers.*.{part}": style for part, style in cut.items()} | {"head": "column"}
    whole = {f"layers.{layer}.{part}": shape for layer in range(layers) for part, (_, *shape) in PARTS.items()}
    whole = {name: tuple(shape) for name, shape in whole.items()} | {"head": (128, 64), "embedding": (128, 64)}
    victim = rng.choice(list(cut))
    mine = f"layers.*.{victim}"
    typo = {mine: mine.replace(".w", ".v_") if ".w" in victim else f"{mine}s"}
    rename: Callable[[str], str] = {
        "misspelt": lambda pattern: typo.get(pattern, pattern),
        "several": lambda pattern: typo.get(pattern, pattern),
        "nothing": lambda pattern: f"model.{pattern}",
        "depth": lambda pattern: pattern.replace("layers.*.", "*."),
        "signs": lambda pattern: pattern.replace("yers.*", "[w-z]?rs.*"),
        "case": str.title,
    }.get(fault, str)
    renamed = {rename(pattern): style for pattern, style in plan.items()}
    held = {name: _cut(shape, _style(renamed, name), ranks) for name, shape in whole.items()}
    inner = [name for name in whole if name.startswith("layers.") and "norm" not in name and victim not in name]
    other = rng.choice(inner)
    rows, columns = whole[other]
    if fault in ("restored", "several"):
        held["head"] = whole["head"]
    if fault == "one layer":
        held[other] = whole[other]
    if fault in ("turned", "several"):
        held[other] = _cut(whole[other], "row" if held[other] == (rows // ranks, columns) else "column", ranks)
    if fault == "unplanned":
        held |= {"embedding": (256, 64), "layers.0.norm.table": (4, 64)}
    if fault == "finer":
        held[other] = (rows // ranks, columns // ranks)
    return renamed, whole, held, ranks


def _verify_cases(params: Params, rng: random.Random) -> list[Case]:
    layers, ranks = params["layers"], params["ranks"]

    def rows(*faults: str, n: int = ranks, depth: int = layers, times: int = 1) -> list[Row]:
        return [_model(rng, depth, n, fault) for fault in faults for _ in range(times)]

    sides, plans = ("turned", "unplanned", "finer"), ("none", "misspelt", "depth", "signs")
    return [
        shown("a misspelt pattern", "values:unused", 0, rows("misspelt")),
        shown("a plan carried out", "values:silence", 0, rows("none", "depth")),
        shown("a head that was put back whole", "values:whole", 0, rows("restored")),
        hidden("other misspelt patterns", "values:unused", 0, rows("misspelt", "nothing", "case", times=2)),
        hidden("plans carried out, and one that was not", "values:silence", 0, rows(*plans, n=2, depth=4)),
        hidden("weights held whole", "values:whole", 0, rows("restored", "one layer", times=3)),
        hidden("weights cut on another side", "generality:sides", 0, rows(*sides, times=3)),
        hidden("several faults at once", "generality:several", 0, rows("several", times=4)),
        hidden(
            "one rank, twelve layers",
            "generality:sizes",
            0,
            rows(*plans[:2], "unplanned", n=1) + rows("restored", "none", depth=12),
        ),
    ]


MISSED = {
    "unused": ("unused-missed", "no complaint about a pattern of the plan that matches nothing."),
    "whole": ("whole-missed", "no complaint about a weight that the plan cuts and every rank holds whole."),
    "wrong side": ("side-missed", "no complaint about a weight held in a shape that the plan does not give it."),
}


def _verify_fault(row: Sequence[Any], got: Any) -> Fault | None:
    plan, whole, held, ranks = row
    want, said = complaints(plan, whole, held, ranks), [tuple(each) for each in got]
    missing = {word for word, name in want if (word, name) not in said}
    for word, (mistake, message) in MISSED.items():
        if word in missing:
            return mistake, f"{ranks} ranks, {len(whole)} weights: {message}"
    if extra := [each for each in said if each not in want]:
        return "false-alarm", f"{ranks} ranks: you complain {describe(extra[0])}, and it is as planned."
    return None if said == want else ("not-sorted", "All complaints are there; sort the list, each once.")


# --- two streams

DRAWN = 6


def _stream_cases(params: Params, rng: random.Random) -> list[Case]:
    start = rng.randrange(1000)
    seeds, ranks = params["seeds"], params["ranks"]
    few = [(start, rank) for rank in range(4)] + [(start + 500, 0)]
    zero = [(0, rank) for rank in range(3)] + [(1, 0), (1, 1), (1024, 0)]
    wide = [(start + seed, rank) for seed in range(seeds) for rank in {0, 1, 2, rng.randrange(3, ranks - 1), ranks - 1}]
    both, replicas = [(start + seed, rank) for seed in (0, 1) for rank in range(ranks)], "generality:replicas"
    return [
        shown("four ranks", "values:outside", few, DRAWN),
        shown("four ranks, inside", "values:inside", few, DRAWN),
        hidden("called again", "values:outside", [*few, *few], DRAWN),
        hidden("called again, inside", "values:inside", [*few, *few], DRAWN),
        hidden(f"{seeds} seeds in a row, ranks up to {ranks - 1}", replicas, wide, DRAWN),
        hidden("all ranks of two seeds", replicas, both, DRAWN),
        hidden("seed 0", replicas, zero, DRAWN),
    ]


def _streams_fault(case: Case, drawn: Sequence[Any], outside_too: bool) -> Fault | None:
    """What is wrong with the streams; without `outside_too`, faults of the outside streams alone are passed over."""
    pairs, outside, inside = case.args[0], {}, {}
    if len(drawn) != len(pairs):
        return "no-generators", "Return a pair of `torch.Generator`s, (outside, inside)."
    for (seed, rank), (out, own, one, disturbed) in zip(pairs, drawn, strict=True):
        lead, out, own = f"Seed {seed}, rank {rank}:", tuple(out), tuple(own)
        if one is not False:
            return "one-generator", "outside and inside are one generator: drawing from one moves the other."
        if disturbed is not False and outside_too:
            return "disturbed", "torch's own generator was moved; use `torch.Generator()`, not `torch.manual_seed`."
        if outside.setdefault(seed, out) != out and outside_too:
            return ("outside-differs", f"{lead} outside draws other numbers than on another rank or call.")
        if inside.setdefault((seed, rank), own) != own:
            return "not-repeatable", f"{lead} asked again, inside draws other numbers."
    owner: dict[Any, str] = {}
    for seed, row in outside.items():
        if row in owner and outside_too:
            return "seeds-alike", f"Outside, seed {seed} draws the same numbers as {owner[row]}."
        owner[row] = f"seed {seed} outside"
    for (seed, rank), row in inside.items():
        if other := owner.get(row):
            name = "ranks-alike" if other.startswith(f"seed {seed},") else "replicas-collide"
            name = "inside-is-outside" if other == f"seed {seed} outside" else name
            return name, f"Inside, seed {seed}, rank {rank} draws the same numbers as {other}."
        owner[row] = f"seed {seed}, rank {rank} inside"
    return None


def _stream_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _streams_fault(case, outcome.value, case.kind != "values" or case.part == "outside")
    if fault and case.kind == "values":
        about_outside = fault[0] in ("outside-differs", "seeds-alike", "disturbed")
        if fault[0] not in ("no-generators", "one-generator") and about_outside != (case.part == "outside"):
            fault = None  # the other visible case reports it
    return judged(case, fault)


PLANS = {
    "verify-plan": Judging(
        shares="values:unused 0.3, values:silence 0.1, values:whole 0.3, generality:sides 0.15, "
        "generality:several 0.1, generality:sizes 0.05",
        cases=_verify_cases,
        verdicts=lambda params, case, outcome: judged(case, first(*map(_verify_fault, case.args[1], outcome.value))),
        why="A plan that was not carried out does not change the mathematics, so the loss cannot show it. Shapes do, and so do bytes: if the "
        "ranks send nothing in a step, nothing was split.",
        pytorch="transformers warns of unused rules since 2025; `module.weight.placements` shows what DTensor did.",
    ),
    "two-streams": Judging(
        shares="values:outside 0.35, values:inside 0.35, generality:replicas 0.3",
        cases=_stream_cases,
        verdicts=_stream_verdicts,
        why="Every pair (seed, rank) needs a number of its own, but `seed + rank` is the same for many pairs. Leave more room between seeds than "
        "there are ranks.",
        pytorch="Megatron's `model_parallel_cuda_manual_seed`; DTensor's `OffsetBasedRNGTracker` makes shards draw what the whole would draw.",
    ),
}
