"""Judge of chapter 07's audit. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import collectives, compute
from course_lib.exercises.ch07_audits import CAUSES, ITEMS, RIGHT, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.exercises.judging.ch06_ranks import Fault, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, YEAR

NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Key:
    """The truth about one statement: the number asked for, the cause, and slips by name as (value, message)."""

    number: float
    cause: str = "as printed"
    slips: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """Whether the statement is right as printed."""
        return RIGHT if self.cause == "as printed" else WRONG


_RATE = 0.4e15
_STEP = compute.train_seconds(70e9, 8192, _RATE)
_RATIO = 280 * GB / (100 * GB) / _STEP
_MONTHS = compute.train_seconds(70e9, 15e12, _RATE, devices=1024) / (YEAR / 12)
_FSDP = (
    2 * collectives.BUS_FACTORS["all_gather"](64) + collectives.BUS_FACTORS["reduce_scatter"](64)
) / collectives.BUS_FACTORS["all_reduce"](64)
_PARTS = ((1.0, 2.0), (3.0, 4.0, 10.0))
_WHOLE = sum(map(sum, _PARTS)) / sum(map(len, _PARTS))
_SHARDS = sum(sum(part) / len(part) for part in _PARTS) / len(_PARTS) / _WHOLE
_V5P = 4.6e14 / 1.8e11
_EFFICIENCY = 29 * 8 / (1 * 256)

KEYS: dict[str, Key] = {
    "all-reduce-350x": Key(_RATIO, "another unit", {
        "as-printed": (350.0, "that is the printed ratio. How long does a step of so many FLOPs take?"),
        "upside-down": (1 / _RATIO, "this is the step over the all-reduce."),
        "peak": (_RATIO / 0.4, "the GPU does 40 % of its peak."),
        "backward": (_RATIO * 1.5, "this compares with the backward pass; the step is asked for."),
    }),
    "fsdp-cuts-all-reduce": Key(_FSDP, "memory for traffic", {
        "one-gather": (1.0, "one all-gather and one reduce-scatter are an all-reduce. The conditions name one more."),
        "three": (3.0, "three operations, but each is half of an all-reduce."),
        "upside-down": (1 / _FSDP, "this is the all-reduce over FSDP."),
    }),
    "mean-of-shards-exact": Key(_SHARDS, "unequal parts", {
        "as-printed": (1.0, "that is what was printed. Work out both averages."),
        "not-over": (_SHARDS * _WHOLE, "this is the average of averages; what is it over the average of all?"),
        "upside-down": (1 / _SHARDS, "this is the average of all over the average of averages."),
    }),
    "six-months-1024": Key(_MONTHS, slips={
        "one-gpu": (_MONTHS * 1024, "this is one GPU's time."),
        "peak": (_MONTHS * 0.4, "the GPUs do 40 % of their peak."),
        "years": (_MONTHS / 12, "these are years; months are asked for."),
    }),
    "v5p-2550-tokens": Key(_V5P, slips={
        "whole-step": (_V5P * 4 / 6, "this hides behind the whole step; the conditions say what to hide behind."),
        "one-half": (_V5P / 2, "a ring all-reduce has two halves."),
        "one-direction": (_V5P * 2, "the bytes per second are those of both neighbours already."),
    }),
    "resnet-8-to-256": Key(_EFFICIENCY, slips={
        "speed-up": (29.0, "this is the speed-up; how much more hardware was it?"),
        "upside-down": (1 / _EFFICIENCY, "upside down: efficiency above 1 would be a gift."),
    }),
}  # fmt: skip

_BY_WORDS = {cause.lower(): cause for cause in CAUSES}


def _fault(item: Item, key: Key, answer: Any) -> Fault | None:
    lead = f"{item.id}: "
    if type(answer) not in (tuple, list) or len(answer) != 3:
        return "wrong-shape", f"{lead}give (number, {RIGHT!r} or {WRONG!r}, cause); got {describe(answer)}."
    number, said, cause = answer
    said = said.strip().lower() if type(said) is str else said
    cause = _BY_WORDS.get(cause.strip().lower(), cause) if type(cause) is str else cause
    if not is_number(number):
        return "not-a-number", f"{lead}the first value is a number ({item.unit}); got {describe(number)}."
    if said not in (RIGHT, WRONG) or type(cause) is not str or cause not in CAUSES:
        return (
            "no-such-word",
            f"{lead}a verdict is {RIGHT!r} or {WRONG!r}, a cause one of {', '.join(CAUSES)}.",
        )
    if not near(number, key.number, NEAR):
        for name, (value, message) in key.slips.items():
            if near(number, value, 0.02):
                return name, lead + message
        return "other-number", f"{lead}your number is {number / key.number:.3g} times ours ({item.unit})."
    if said != key.said:
        return (
            "wrong-verdict",
            f"{lead}your number is right; now compare it with what was said: within 5 % or not?",
        )
    if cause != key.cause:
        return "wrong-cause", f"{lead}number and verdict are right; {cause!r} is not what happened."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = outcome.value
    if type(given) is not dict:
        fault = (
            "no-dictionary",
            f"Return a dictionary from id to (number, verdict, cause); got {describe(given)}.",
        )
        return [verdict("values", item.id, case, fault) for item in ITEMS]
    faults: dict[str, Fault | None] = {
        item.id: _fault(item, KEYS[item.id], given[item.id])
        if item.id in given
        else ("missing", f"{item.id}: no answer under this id yet.")
        for item in ITEMS
    }
    found = dict(faults)  # a verdict stands only beside one of the other kind that is right
    for standing, other, told in ((RIGHT, WRONG, "no error has been found yet; a statement left standing counts only beside one."),
                                  (WRONG, RIGHT, "no right statement was left standing; an error counts only beside one.")):  # fmt: skip
        if all(found[name] for name in found if KEYS[name].said == other):
            faults |= {
                name: ("blind", f"{name}: {told}")
                for name in found
                if KEYS[name].said == standing and not found[name]
            }
    return [verdict("values", item.id, case, faults[item.id]) for item in ITEMS]


AUDITS = {
    "audit-data-parallel": Judging(
        shares={f"values:{item.id}": 1 / len(ITEMS) for item in ITEMS},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=_verdicts,
        why=f"The step takes {_STEP:.2f} s, not 8 ms: the all-reduce is {_RATIO:.2f} of it and can hide in the backward pass; the "
            f"conclusion is reversed. FSDP gathers the weights twice and sends {_FSDP:.3g} times the bytes: it makes room, not silence. The "
            f"average of averages is {_SHARDS * _WHOLE:.3g} where the average is {_WHOLE:.3g}: linearity needs equal parts, or weights. The "
            f"other three are right as printed.",
        pytorch="`torch.profiler` shows the all-reduce beside the backward kernels: read there what sticks out before believing a ratio.",
    ),
}  # fmt: skip
