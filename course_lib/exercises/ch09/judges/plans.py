"""Judges of chapter 09's plan, held against shapes, and of its two random streams."""

import random
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor

from course_lib.exercises.ch09.judges.regions import unread
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Fault, Judging, Params, describe, verdict
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


def complaints(
    plan: Mapping[str, str], whole: Mapping[str, Any], held: Mapping[str, Any], ranks: int
) -> list[tuple[str, str]]:
    """What is not as planned."""
    found = [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)]
    for name, (rows, columns) in whole.items():
        style = next((style for pattern, style in plan.items() if fnmatchcase(name, pattern)), None)
        want = {"column": (rows // ranks, columns), "row": (rows, columns // ranks), None: (rows, columns)}[style]
        if tuple(held[name]) == want:
            continue
        found.append(("whole" if style and tuple(held[name]) == (rows, columns) else "wrong side", name))
    return sorted(found)


FAULTS = ("none", "misspelt", "restored", "one layer", "turned", "unplanned", "finer", "several", "nothing", "depth")


def _model(rng: random.Random, layers: int, ranks: int, faults: Sequence[str]) -> tuple[Any, ...]:
    plan = {f"layers.*.{part}": ("column", "row")[side] for part, (side, _, _) in PARTS.items() if side is not None} | {
        "head": "column"
    }
    whole = {
        f"layers.{layer}.{part}": (rows, columns)
        for layer in range(layers)
        for part, (_, rows, columns) in PARTS.items()
    }
    whole |= {"head": (128, 64), "embedding": (128, 64)}
    victim = rng.choice([part for part, (side, _, _) in PARTS.items() if side is not None])
    renamed = dict(plan)
    if "misspelt" in faults or "several" in faults:
        typo = f"layers.*.{victim}".replace(".w", ".v_") if ".w" in victim else f"layers.*.{victim}s"
        renamed = {typo if pattern == f"layers.*.{victim}" else pattern: style for pattern, style in plan.items()}
    if "nothing" in faults:
        renamed = {f"model.{pattern}": style for pattern, style in plan.items()}
    if "depth" in faults:
        renamed = {
            "*." + pattern.split(".", 2)[2] if pattern != "head" else pattern: style for pattern, style in plan.items()
        }
    held = {}
    for name, (rows, columns) in whole.items():
        style = next((style for pattern, style in renamed.items() if fnmatchcase(name, pattern)), None)
        held[name] = {"column": (rows // ranks, columns), "row": (rows, columns // ranks), None: (rows, columns)}[style]
    other = rng.choice(
        [name for name in whole if name.startswith("layers.") and "norm" not in name and victim not in name]
    )
    if "restored" in faults or "several" in faults:
        held["head"] = whole["head"]
    if "one layer" in faults:
        held[other] = whole[other]
    if "turned" in faults or "several" in faults:
        rows, columns = whole[other]
        held[other] = (rows, columns // ranks) if held[other] == (rows // ranks, columns) else (rows // ranks, columns)
    if "unplanned" in faults:
        held["embedding"] = (128 // ranks, 64)
    if "finer" in faults:
        rows, columns = held[other]
        held[other] = (rows // 2, columns)
    return renamed, whole, held, ranks


def _verify_cases(params: Params, rng: random.Random) -> list[Case]:
    layers, ranks = params["layers"], params["ranks"]

    def rows(*faults: str, n: int = ranks, depth: int = layers, times: int = 1) -> list[tuple[Any, ...]]:
        return [_model(rng, depth, n, (fault,)) for fault in faults for _ in range(times)]

    return [
        shown("a misspelt pattern", "values:unused", 0, rows("misspelt")),
        shown("a plan carried out", "values:silence", 0, rows("none", "depth")),
        shown("a head that was put back whole", "values:whole", 0, rows("restored")),
        hidden("other misspelt patterns", "values:unused", 0, rows("misspelt", "nothing", times=3)),
        hidden(
            "plans carried out, and one that was not",
            "values:silence",
            0,
            rows("none", "misspelt", "depth", n=2, depth=4),
        ),
        hidden("weights held whole", "values:whole", 0, rows("restored", "one layer", times=3)),
        hidden("weights cut on another side", "generality:sides", 0, rows("turned", "unplanned", "finer", times=3)),
        hidden("several faults at once", "generality:several", 0, rows("several", times=4)),
        hidden(
            "one rank, twelve layers",
            "generality:sizes",
            0,
            [*rows("none", "misspelt", n=1), *rows("restored", "none", depth=12)],
        ),
    ]


def _verify_fault(row: Sequence[Any], got: Any) -> Fault | None:
    plan, whole, held, ranks = row
    want = complaints(plan, whole, held, ranks)
    if type(got) is str and got == NOT_ANSWERED or got is None:
        return "returned-none", "It returned nothing; an empty list says that all is as planned."
    if type(got) not in (list, tuple):
        return "not-a-list", f"Return a list of pairs; got {describe(got)}."
    if not all(
        type(each) in (tuple, list) and len(each) == 2 and all(type(word) is str for word in each) for each in got
    ):
        return "not-pairs", 'Each complaint is a pair of texts, such as ("unused", pattern).'
    said = [tuple(each) for each in got]
    missing, extra = [each for each in want if each not in said], [each for each in said if each not in want]
    for word, name, message in (
        ("unused", "unused-missed", "a pattern of the plan matches nothing, and that goes unsaid."),
        (
            "whole",
            "whole-missed",
            "a weight that the plan cuts is held whole on every rank, and that goes unsaid. The loss does not show it: memory does.",
        ),
        (
            "wrong side",
            "side-missed",
            "a weight is held in a shape that the plan does not give it, and that goes unsaid.",
        ),
    ):
        if any(each[0] == word for each in missing):
            return name, f"{ranks} ranks, {len(whole)} weights: {message}"
    if extra:
        word, name = extra[0]
        return "false-alarm", f"{ranks} ranks: ({word[:20]!r}, {name[:60]!r}) is said, and is as planned."
    if said != want:
        return "not-sorted", "All complaints are there; sort the list, each once."
    return None


def _verify_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    table, found = case.args[1], outcome.value
    if unreadable := unread(case, found):
        return unreadable
    fault = next((bad for row, got in zip(table, found, strict=True) if (bad := _verify_fault(row, got))), None)
    return [verdict(case.kind, case.part, case, fault)]


# --- two streams

DRAWN = 6


def _stream_cases(params: Params, rng: random.Random) -> list[Case]:
    start = rng.randrange(1000)
    seeds, ranks = params["seeds"], params["ranks"]
    few = [(start, rank) for rank in range(4)] + [(start + 500, 0)]
    wide = [(start + seed, rank) for seed in range(seeds) for rank in {0, 1, 2, rng.randrange(3, ranks - 1), ranks - 1}]
    return [
        shown("four ranks", "values:outside", few, DRAWN),
        shown("four ranks, inside", "values:inside", few, DRAWN),
        hidden("called again", "values:outside", [*few, *few], DRAWN),
        hidden("called again, inside", "values:inside", [*few, *few], DRAWN),
        hidden(f"{seeds} seeds in a row, ranks up to {ranks - 1}", "generality:replicas", wide, DRAWN),
        hidden(
            "all ranks of two seeds",
            "generality:replicas",
            [(start + seed, rank) for seed in (0, 1) for rank in range(ranks)],
            DRAWN,
        ),
        hidden("seed 0", "generality:replicas", [(0, rank) for rank in range(3)] + [(1, 0), (1, 1)], DRAWN),
    ]


def _streams_fault(case: Case, value: Any, outside_too: bool = True) -> Fault | None:
    """What is wrong with the streams; without `outside_too` what is wrong outside alone hides nothing of what is wrong inside."""
    pairs = case.args[0]
    if (
        type(value) is not dict
        or value.get("kind") != "streams"
        or type(value.get("drawn")) is not list
        or len(value["drawn"]) != len(pairs)
    ):
        return "no-generators", "Return a pair of `torch.Generator`s, (outside, inside)."
    outside: dict[int, Any] = {}
    inside: dict[Any, Any] = {}
    for (seed, rank), each in zip(pairs, value["drawn"], strict=True):
        if (
            type(each) is not tuple
            or len(each) != 4
            or not all(isinstance(row, Tensor) and row.shape == (DRAWN,) for row in each[:2])
        ):
            return "no-generators", "What came back cannot be read."
        out, own = tuple(each[0].tolist()), tuple(each[1].tolist())
        if each[2]:
            return (
                "one-generator",
                "outside and inside are the same generator: what is drawn inside moves what is drawn outside.",
            )
        if each[3] and outside_too:
            return (
                "disturbed",
                "torch's own generator stands elsewhere afterwards; use `torch.Generator()`, not `torch.manual_seed`.",
            )
        if outside.setdefault(seed, out) != out and outside_too:
            return (
                "outside-differs",
                f"Seed {seed}: rank {rank} draws other numbers outside than the ranks before it, or than when it was asked before.",
            )
        if inside.setdefault((seed, rank), own) != own:
            return "not-repeatable", f"Seed {seed}, rank {rank}: asked again, inside draws other numbers."
    owner: dict[Any, str] = {}
    for seed, row in outside.items():
        if row in owner and outside_too:
            return "seeds-alike", f"Outside, seed {seed} draws the same numbers as {owner[row]}."
        owner[row] = f"seed {seed} outside"
    for (seed, rank), row in inside.items():
        if row in owner:
            told = owner[row]
            same = told == f"seed {seed} outside"
            name = (
                "inside-is-outside"
                if same
                else "ranks-alike"
                if told.startswith(f"seed {seed},")
                else "replicas-collide"
            )
            return name, f"Inside, seed {seed}, rank {rank} draws the same numbers as {told}."
        owner[row] = f"seed {seed}, rank {rank} inside"
    return None


def _stream_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _streams_fault(case, outcome.value, case.kind != "values" or case.part == "outside")
    if fault and case.kind == "values":
        about_outside = fault[0] in ("outside-differs", "seeds-alike", "disturbed")
        if fault[0] not in ("no-generators", "one-generator") and about_outside != (case.part == "outside"):
            fault = None  # the other visible case says so
    return [verdict(case.kind, case.part, case, fault)]


PLANS = {
    "verify-plan": Judging(
        shares="values:unused 0.3, values:silence 0.1, values:whole 0.3, generality:sides 0.15, "
        "generality:several 0.1, generality:sizes 0.05",
        cases=_verify_cases,
        verdicts=_verify_verdicts,
        why="A plan that was not carried out leaves the mathematics alone, so no number of the training can show it. Shapes do, and so do bytes: a step whose "
        "ranks send nothing split nothing.",
        pytorch="transformers warns of unused rules since 2025; `module.weight.placements` shows what DTensor did.",
    ),
    "two-streams": Judging(
        shares={"values:outside": 0.35, "values:inside": 0.35, "generality:replicas": 0.3},
        cases=_stream_cases,
        verdicts=_stream_verdicts,
        why="Pairs (seed, rank) need numbers of their own, and `seed + rank` gives the same to many of them. Leave more room between seeds than there are ranks.",
        pytorch="Megatron's `model_parallel_cuda_manual_seed`; DTensor's `OffsetBasedRNGTracker` makes shards draw what the whole would have drawn.",
    ),
}
