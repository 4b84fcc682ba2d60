"""Judge of chapter 03's audit. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import facts
from course_lib.exercises.ch03_audits import CAUSES, ITEMS, RIGHT, STEP, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, TB, TFLOP

NEAR = 0.05
H100, B200, K40 = (facts.device(name) for name in ("H100 SXM", "B200 SXM", "K40"))
CHIP = facts.chip("H100 SXM")
POD = facts.topology("Llama 3 cluster").devices("pod")
SERVER = facts.topology("Llama 3 cluster").devices("server")


@dataclass(frozen=True, slots=True)
class Key:
    """The truth about one statement: the number in the unit asked for, the cause, and slips by name as (value, message)."""

    number: float
    cause: str = "as printed"
    slips: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """Whether the statement is right as printed."""
        return RIGHT if self.cause == "as printed" else WRONG


_ONE_WAY, _NIC = float(H100.link_one_way), float(H100.network_one_way)
_RIDGE = float(H100.dense_flops) / float(H100.bandwidth)
_AXES = STEP["memory_bytes"] / STEP["network_bytes"]

KEYS: dict[str, Key] = {
    "b200-5000": Key(float(B200.dense_flops) / TFLOP, "dense or sparse", {
        "sparse-peak": (float(B200.sparse_flops) / TFLOP, "this is the sparse peak."),
        "as-printed": (5000.0, "that is the printed number."),
    }),
    "thousand-times": Key(float(B200.dense_flops) / float(K40.fp32_flops), "dense or sparse", {
        "sparse-peak": (float(B200.sparse_flops) / float(K40.fp32_flops), "this takes the sparse peak of the newer one."),
        "as-printed": (1000.0, "that is the printed number."),
    }),
    "ridge-295": Key(_RIDGE, slips={
        "sparse-peak": (2 * _RIDGE, "this is with the sparse peak."),
        "upside-down": (1 / _RIDGE, "this is bytes per FLOP."),
        "mixed-units": (_RIDGE / 1e3, "TFLOP over GB is a thousand short."),
    }),
    "tensor-cores-989": Key(CHIP.tensor_flops / TFLOP, slips={
        "doubled": (2 * CHIP.tensor_flops / TFLOP, "FLOP were given, not multiply-adds: nothing to double."),
    }),
    "flat-ceiling": Key(2.0, "slope drawn flat", {
        "as-printed": (1.0, "that is what the figure shows. What is bandwidth × intensity at both places?"),
    }),
    "one-axis": Key(_AXES, "two quantities on one axis", {
        "as-printed": (1.0, "both intensities have the same FLOP, but not the same bytes."),
        "upside-down": (1 / _AXES, "this is the memory's intensity over the network's."),
    }),
    "eighteen-fold": Key(_ONE_WAY / _NIC, "both ways for one way", {
        "as-printed": (18.0, "that compares both directions of one wire with one direction of the other."),
    }),
    "any-two-900": Key(_ONE_WAY / GB, "both ways for one way", {
        "as-printed": (900.0, "900 GB/s are both directions added."),
        "a-seventh": (_ONE_WAY / GB / 7, "this is all seven peers at once; one peer is asked for."),
    }),
    "server-50": Key(SERVER * _NIC / GB, "wrong scope", {
        "as-printed": (50.0, "that is one adapter. How many has a server?"),
        "both-ways": (2 * SERVER * _NIC / GB, "this adds both directions."),
        "gigabits": (SERVER * 400.0, "these are gigabits."),
    }),
    "pod-245": Key(POD * float(H100.memory) / TB, slips={
        "gigabytes": (POD * float(H100.memory) / GB, "these are GB."),
    }),
    "decode-one": Key(1.0, slips={
        "multiply-adds": (0.5, "a multiplication and an addition are two FLOP."),
        "per-weight": (2.0, "this is FLOP per weight; a weight has two bytes."),
    }),
}  # fmt: skip


def _fault(item: Item, key: Key, answer: Any) -> tuple[str, str] | None:
    """(mistake, message) of the answer on one statement, None if number, verdict and cause are right."""
    lead = f"{item.id}: "
    if type(answer) not in (tuple, list) or len(answer) != 3:
        return "wrong-shape", f"{lead}give (number, {RIGHT!r} or {WRONG!r}, cause); got {describe(answer)}."
    number, said, cause = answer
    said = said.strip().lower() if type(said) is str else said
    cause = cause.strip().lower() if type(cause) is str else cause
    if not is_number(number):
        return "not-a-number", f"{lead}the first value is a number: {item.asked}; got {describe(number)}."
    if type(said) is not str or said not in (RIGHT, WRONG) or type(cause) is not str or cause not in CAUSES:
        return "no-such-word", f"{lead}a verdict is {RIGHT!r} or {WRONG!r}, a cause one of {', '.join(CAUSES)}."
    if not near(number, key.number, NEAR):
        for name, (value, message) in key.slips.items():
            if near(number, value, 0.02):
                return name, lead + message
        return "other-number", f"{lead}your number is {number / key.number:.3g} times ours; asked is {item.asked}."
    if said != key.said:
        return "wrong-verdict", f"{lead}your number is right; now compare it with the printed one: within 5 % or not?"
    if cause != key.cause:
        return "wrong-cause", f"{lead}number and verdict are right; {cause!r} is not what happened. What do both numbers count?"
    return None


def _verdicts(_: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = outcome.value

    def verdict(part: str, fault: tuple[str, str] | None) -> Verdict:
        mistake, message = fault or ("", "")
        return Verdict(kind="values", part=part, ok=not fault, mistake=mistake, message=message, case=case.name)

    if type(given) is not dict:
        fault = ("no-dictionary", f"Return a dictionary from id to (number, verdict, cause); got {describe(given)}.")
        return [verdict(item.id, fault) for item in ITEMS]
    faults = {
        item.id: _fault(item, KEYS[item.id], given[item.id]) if item.id in given
        else ("missing", f"{item.id}: no answer under this id yet.")
        for item in ITEMS
    }  # fmt: skip
    told = {
        RIGHT: "no error has been found yet: a statement left standing counts only beside one.",
        WRONG: "every statement that is right was faulted or missed: an error counts only beside one.",
    }
    held = {side: any(not faults[name] for name in faults if KEYS[name].said == side) for side in (RIGHT, WRONG)}
    for side, other in ((RIGHT, WRONG), (WRONG, RIGHT)):
        if not held[other]:
            faults |= {name: ("blind", f"{name}: {told[side]}") for name in faults if KEYS[name].said == side and not faults[name]}
    return [verdict(item.id, faults[item.id]) for item in ITEMS]


AUDIT_SHEETS = Judging(
    shares={f"values:{item.id}": 1 / len(ITEMS) for item in ITEMS},
    cases=lambda params, rng: [Case(name="the statements")],
    verdicts=_verdicts,
    why=f"Sheets print the largest true number. 5,000 is sparse, the dense B200 has {KEYS['b200-5000'].number:,.0f}, so the decade "
    f"brought {KEYS['thousand-times'].number:.0f}×, partly by fewer bits. 900 GB/s are both directions of all links of one GPU: one "
    f"GPU sends another at most {KEYS['any-two-900'].number:.0f}, and leaving the server costs {KEYS['eighteen-fold'].number:.0f}×, "
    f"not 18. Eight adapters of a server send {KEYS['server-50'].number:.0f} GB/s, one of them 50. A roof of bytes is a slope, and "
    "memory and network have an axis each. The ridge, the tensor cores, the pod and the one FLOP per byte are right as printed.",
)
