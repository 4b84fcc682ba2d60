"""Judge of chapter 08's traces: memory that does not fall, made by the library's own formulas with one thing wrong in each."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import memory
from course_lib.exercises.ch08.cards.more import CAUSES
from course_lib.judging import Fault, Judging, Params, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome
from course_lib.sharding import gathered_peak

FINE = "as it should"
WORDS = (*CAUSES, FINE)
NOISE = 0.02
SHOWN = ("replicated optimizer", "kept after forward", "activations", "allocator", "one giant unit")
LETTERS = "BCF"  # conventions of the traces, their gradients added up

_GATHERED = "as much is gathered as the whole model. How many gathers is that, for so many units and micro-batches?"
_HINTS: Mapping[str, str] = {
    "replicated optimizer": "compare `optimizer` in the first and the last run: does it fall as the ranks rise?",
    "whole gradients": "compare `gradients` in the first and the last run: do they fall as the ranks rise?",
    "one giant unit": _GATHERED,
    "kept after forward": _GATHERED,
    "small group": "weights, gradients and optimizer: none of the three falls, although each is only a part of the model's.",
    "activations": "everything that can be sharded falls. What is the largest part of the last run?",
    "allocator": "add up the parts of the last run, and compare the sum with what is reserved.",
    FINE: "compare the last run with the first: how much of it fell, and how much should have?",
}


def _optimizer(buckets: Mapping[str, float]) -> float:
    return sum(size for name, size in buckets.items() if name not in ("weights", "grads"))


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
    """Measurements of a training with this fault on more and more ranks; with `minor`, with a harmless sign of another one."""
    micro = rng.choice((1, 2, 4))
    share = rng.uniform(2.5, 4.0) if cause == "activations" else 0.02 if cause == FINE else 0.15
    activations = share * memory.zero_bytes(params, 3, first, letter) * (1.6 if minor else 1.0)
    slack = rng.uniform(1.04, 1.10)
    rows: list[dict[str, Any]] = []
    for ranks in (first << step for step in range(runs)):
        sharded = memory.zero_by_bucket(params, 3, first if cause == "small group" else ranks, letter)
        whole = memory.zero_by_bucket(params, 0, ranks, letter)
        held = {
            "weights": sharded["weights"],
            "gradients": (whole if cause == "whole gradients" else sharded)["grads"],
            "optimizer": _optimizer(whole if cause == "replicated optimizer" else sharded),
            "gathered": float(gathered_peak([0, *[round(params / units)] * units], ranks, 2)),
            "activations": activations,
        }
        gathers = 2 * units
        if cause in ("one giant unit", "kept after forward"):
            held["gathered"] = 2 * params
            gathers = units if cause == "kept after forward" else rng.choice((1, 2))
        noisy = {name: value * rng.uniform(1 - NOISE, 1 + NOISE) for name, value in held.items()}
        taken = sum(noisy.values()) * slack
        if cause == "allocator":
            taken = rows[0]["reserved"] * rng.uniform(0.93, 0.99) if rows else taken * 1.25
        rows.append({"ranks": ranks, **noisy, "reserved": max(taken, sum(noisy.values())), "gathers": gathers * micro})
    return {"params": params, "units": units, "micro_batches": micro, "runs": rows}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    own = params["params"], params["units"], params["ranks"]

    def drawn(cause: str, minor: bool = False) -> dict[str, Any]:
        sizes = ((30e9, 96), (70e9, 80)) if cause == FINE else ((1.5e9, 24), (8e9, 32), (30e9, 48), (70e9, 80))
        size, units = rng.choice(sizes)
        first, runs = (rng.choice((2, 4)), 3) if cause == FINE else (rng.choice((4, 8, 16)), rng.choice((3, 4)))
        return trace(cause, rng, size, units, first, runs, rng.choice(LETTERS), minor)

    cases = []
    for number, cause in enumerate(SHOWN, 1):
        given = trace(cause, rng, *own, runs=4 if cause == "allocator" else 3)
        cases.append(shown(f"trace {number}", f"values:trace-{number}", given, secret=cause))
    for number, cause in enumerate((*SHOWN[1:], SHOWN[0]), 1):  # so that the shown words alone earn nothing
        name = f"a trace of another training ({number})"
        cases.append(hidden(name, f"values:trace-{number}", drawn(cause), secret=cause))
    for number, cause in enumerate(rng.sample(WORDS, len(WORDS)), 1):
        cases.append(hidden(f"another trace ({number})", "generality:other", drawn(cause), secret=cause))
    causes = [cause for cause in WORDS if cause not in ("activations", FINE)]
    for number, cause in enumerate(rng.sample(causes, 4), 1):
        name = f"a trace with more activations ({number})"
        cases.append(hidden(name, "generality:mixed", drawn(cause, minor=True), secret=cause))
    return cases


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
    most = all(run["activations"] > 0.5 * sum(run[name] for name in parts) for run in (first, last))
    return "activations" if most else FINE


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    said = outcome.value.strip().lower()
    if said == case.secret:
        return None
    lead = f"{case.name}: it is not {said!r};"
    if case.secret == FINE:
        return "false-alarm", f"{lead} {_HINTS[FINE]}"
    if {said, case.secret} == {"one giant unit", "kept after forward"}:
        return "one-or-kept", f"{lead} {_HINTS[said]}"
    return "unnoticed" if said == FINE else f"not-{case.secret.replace(' ', '-')}", f"{lead} {_HINTS[case.secret]}"


TRACES = {
    "more-gpus-same-memory": Judging(
        shares={
            **{f"values:trace-{number}": 0.1 for number in range(1, len(SHOWN) + 1)},
            "generality:other": 0.35,
            "generality:mixed": 0.15,
        },
        cases=_cases,
        verdicts=oracle(_fault),
        why="""State should fall with N, and each bucket is checked by itself: one that stays is not sharded; if all stay, the group does not grow. Two
or three units should be gathered; if it is the whole model, the number of gathers says why. The rest is not state: activations fall with
the batch, and the allocator's reserve falls with less fragmentation.""",
        pytorch="""`torch.cuda.memory_allocated` and `memory_reserved` differ by the allocator's reserve; `torch.cuda.memory._record_memory_history`
shows what allocated each block.""",
    )
}
