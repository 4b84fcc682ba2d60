"""Judge of chapter 08's traces: memory that does not fall, made by the library's own formulas with one thing wrong in each."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib import memory
from course_lib.exercises.ch08.cards.more import CAUSES
from course_lib.judging import Fault, Judging, Params, describe, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.sharding import gathered_peak

FINE = "as it should"
WORDS = (*CAUSES, FINE)
NOISE = 0.02
SHOWN = ("replicated optimizer", "kept after forward", "activations", "allocator", "one giant unit")
LETTERS = "BCF"  # conventions of the traces, their gradients added up

_MESSAGES: Mapping[str, str] = {
    "replicated optimizer": "look at `optimizer` from the first run to the last: does it fall as the ranks rise?",
    "whole gradients": "look at `gradients` from the first run to the last: do they fall as the ranks rise?",
    "one giant unit": "as much lies gathered as the whole model has. How many gathers made it, for so many units and micro-batches?",
    "kept after forward": "as much lies gathered as the whole model has. How many gathers made it, for so many units and micro-batches?",
    "small group": "weights, gradients and optimizer: none of the three falls, though each is only a part of the model's.",
    "activations": "everything that can be sharded falls. What is the most of the last run?",
    "allocator": "add up the parts of the last run, and compare with what is reserved.",
    FINE: "compare the last run with the first: how much of it fell, and how much should have?",
}


def trace(
    cause: str,
    rng: random.Random,
    params: float,
    units: int,
    first: int,
    runs: int = 3,
    letter: str = "B",
    minor: bool = False,
) -> dict[str, Any]:
    """Measurements of a training with this fault at ever more ranks; with `minor`, with a harmless trace of another one."""
    micro = rng.choice((1, 2, 4))
    group = first
    rows = []
    state0 = memory.zero_bytes(params, 3, first, letter)
    kept = rng.uniform(2.5, 4.0) if cause == "activations" else 0.02 if cause == FINE else 0.15
    activations = kept * state0
    slack = rng.uniform(1.04, 1.10)
    whole = 2 * params
    for step in range(runs):
        ranks = first << step
        sharded = memory.zero_by_bucket(params, 3, group if cause == "small group" else ranks, letter)
        weights, gradients = sharded["weights"], sharded["grads"]
        optimizer = sum(per for name, per in sharded.items() if name not in ("weights", "grads"))
        rows_ = [0, *[round(params / units)] * units]
        gathered, gathers = float(gathered_peak(rows_, ranks, 2)), 2 * units
        if cause == "replicated optimizer":
            full = memory.zero_by_bucket(params, 0, ranks, letter)
            optimizer = sum(per for name, per in full.items() if name not in ("weights", "grads"))
        elif cause == "whole gradients":
            gradients = memory.zero_by_bucket(params, 0, ranks, letter)["grads"]
        elif cause == "one giant unit":
            gathered, gathers = whole, rng.choice((1, 2))
        elif cause == "kept after forward":
            gathered, gathers = whole, units
        held = {
            "weights": weights,
            "gradients": gradients,
            "optimizer": optimizer,
            "gathered": gathered,
            "activations": activations,
        }
        if minor:
            held["activations"] *= 1.6
        noisy = {name: value * rng.uniform(1 - NOISE, 1 + NOISE) for name, value in held.items()}
        taken = sum(noisy.values()) * slack
        if cause == "allocator":
            taken = rows[0]["reserved"] * rng.uniform(0.93, 0.99) if rows else taken * 1.25
        rows.append({"ranks": ranks, **noisy, "reserved": max(taken, sum(noisy.values())), "gathers": gathers * micro})
    return {"params": params, "units": units, "micro_batches": micro, "runs": rows}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    own = params["params"], params["units"], params["ranks"]
    shown = [
        Case(
            name=f"trace {number}",
            args=(trace(cause, rng, *own, runs=4 if cause == "allocator" else 3),),
            part=f"trace-{number}",
            secret=cause,
        )
        for number, cause in enumerate(SHOWN, 1)
    ]

    def drawn(cause: str, minor: bool = False) -> dict[str, Any]:
        size, units = rng.choice(
            ((1.5e9, 24), (8e9, 32), (30e9, 48), (70e9, 80)) if cause != FINE else ((30e9, 96), (70e9, 80))
        )
        first, runs = (rng.choice((2, 4)), 3) if cause == FINE else (rng.choice((4, 8, 16)), rng.choice((3, 4)))
        return trace(cause, rng, size, units, first, runs, rng.choice(LETTERS), minor)

    again = [
        Case(
            name=f"a trace of another training ({number})",
            args=(drawn(cause),),
            part=f"trace-{number}",
            visible=False,
            secret=cause,
        )
        for number, cause in enumerate((*SHOWN[1:], SHOWN[0]), 1)
    ]  # a word by heart is no answer
    unseen = [
        Case(
            name=f"another trace ({place + 1})",
            args=(drawn(cause),),
            kind="generality",
            part="other",
            visible=False,
            secret=cause,
        )
        for place, cause in enumerate(rng.sample(WORDS, len(WORDS)))
    ]
    mixed = [
        Case(
            name=f"a trace with more activations ({place + 1})",
            args=(drawn(cause, minor=True),),
            kind="generality",
            part="mixed",
            visible=False,
            secret=cause,
        )
        for place, cause in enumerate(rng.sample([each for each in WORDS if each not in ("activations", FINE)], 4))
    ]
    return [*shown, *again, *unseen, *mixed]


def diagnosis(given: Mapping[str, Any]) -> str:
    """The cause, by rules that need nothing but the trace: what tests hold the traces to."""
    first, last = given["runs"][0], given["runs"][-1]
    shrink = first["ranks"] / last["ranks"]
    parts = ("weights", "gradients", "optimizer", "gathered", "activations")
    stuck = {name: last[name] - first[name] * shrink for name in ("weights", "gradients", "optimizer")}
    if all(stuck[name] > 0.3 * first[name] for name in stuck):
        return "small group"
    excess = {
        "replicated optimizer": stuck["optimizer"],
        "whole gradients": stuck["gradients"],
        "gathered": last["gathered"] - 3 * 2 * given["params"] / given["units"],
        "allocator": last["reserved"] - 1.15 * sum(last[name] for name in parts),
    }
    worst = max(excess, key=excess.__getitem__)
    if excess[worst] > 0.25 * last["reserved"]:
        if worst != "gathered":
            return worst
        return "kept after forward" if last["gathers"] > 2.5 * given["micro_batches"] else "one giant unit"
    return (
        "activations"
        if last["activations"] > 0.5 * sum(last[name] for name in parts)
        and first["activations"] > 0.5 * sum(first[name] for name in parts)
        else FINE
    )


def _fault(case: Case, got: Any) -> Fault | None:
    if got is None:
        return "returned-none", f"{case.name}: it returned None: is a `return` missing?"
    said = got.strip().strip("\"'").lower() if type(got) is str else got
    if type(got) is not str or said not in WORDS:
        return "no-such-word", f"{case.name}: got {describe(got)}; the words are {', '.join(WORDS)}."
    if said == case.secret:
        return None
    if case.secret == FINE:
        return "false-alarm", f"{case.name}: {said!r} is said; {_MESSAGES[FINE]}"
    pair = {"one giant unit", "kept after forward"}
    if {said, case.secret} == pair:
        return "one-or-kept", f"{case.name}: {said!r} is said; {_MESSAGES[said]}"
    name = "unnoticed" if said == FINE else f"not-{case.secret.replace(' ', '-')}"
    return name, f"{case.name}: {said!r} is said; {_MESSAGES[case.secret]}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [verdict(case.kind, case.part, case, _fault(case, outcome.value))]


def seen(traces: Sequence[Mapping[str, Any]]) -> list[str]:
    """The causes of several traces."""
    return [diagnosis(each) for each in traces]


TRACES = {
    "more-gpus-same-memory": Judging(
        shares={
            **{f"values:trace-{number}": 0.1 for number in range(1, len(SHOWN) + 1)},
            "generality:other": 0.35,
            "generality:mixed": 0.15,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="What should fall with N is state, and each bucket is checked by itself: the one that stays is not shared out; if all stay, the group does not grow. What is "
        "gathered should be two or three units; if it is the model, the number of gathers says why. The rest is not state at all: activations fall with the batch, and what "
        "the allocator holds falls when fragments do.",
        pytorch="`torch.cuda.memory_allocated` and `memory_reserved` differ by the allocator's share; `torch.cuda.memory._record_memory_history` shows who holds what.",
    )
}
