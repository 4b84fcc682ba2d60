"""Judge of chapter 06's audit. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import collectives, facts
from course_lib.exercises.ch06_audits import CAUSES, ITEMS, RIGHT, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.exercises.judging.ch06_ranks import Fault, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, MS, US

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


_RANKS = 64
_LATENCY = collectives.ring_cost(0, 1024, 10 * US, 1.0).seconds / MS
_SHARE = collectives.ring_cost(1.0, _RANKS, 0.0, 1.0).nbytes
_GRADIENTS = 2 * 70e9
_BYTES = collectives.ring_cost(_GRADIENTS, _RANKS, 0.0, 1.0).nbytes / GB
_SECONDS = collectives.ring_cost(_GRADIENTS, _RANKS, 0.0, 100 * GB).seconds
_BUS = collectives.bus_bandwidth("all_reduce", 275.58 * GB, 1.0, 8) / GB
_ALGORITHM = 480 / collectives.BUS_FACTORS["all_reduce"](8)
_PRINTED = float(facts.claim("reduce-scatter-74").value)

KEYS: dict[str, Key] = {
    "ring-free-scaling": Key(_LATENCY, "latency left out", {
        "one-half": (_LATENCY / 2, "these are the steps of one half of the ring."),
        "seconds": (_LATENCY * MS, "these are seconds; milliseconds are asked for."),
        "one-message": (0.01, "this is the latency of one message."),
    }),
    "ring-sends-2m": Key(_SHARE, slips={
        "one-half": (_SHARE / 2, "this is one half of the ring."),
        "whole-tensors": (2.0 * (_RANKS - 1), "chunks go round, not whole tensors."),
    }),
    "naive-root-bytes": Key(2.0 * (_RANKS - 1), slips={
        "one-way": (1.0 * (_RANKS - 1), "in *and* out are asked for."),
        "all-ranks": (2.0 * _RANKS, "GPU 0 does not send to itself."),
    }),
    "all-reduce-log-form": Key(_SHARE, "missing factor", {
        "as-printed": (1.0, "that is the printed form. What does one rank have to send at least?"),
        "tree": (12.0, "that is a tree's factor; an algorithm that sends as little as can be is asked for."),
    }),
    "gradients-280-gb": Key(_BYTES, slips={
        "one-half": (_BYTES / 2, "this is one half of the ring."),
        "bytes": (_BYTES * GB, "these are bytes; GB are asked for."),
    }),
    "all-reduce-2.8-s": Key(_SECONDS, slips={
        "one-half": (_SECONDS / 2, "this is one half of the ring."),
        "milliseconds": (_SECONDS * 1e3, "these are milliseconds."),
    }),
    "h200-bus-482": Key(_BUS, slips={
        "gather-factor": (_BUS / 2, "this is the factor of an all-gather."),
        "unconverted": (275.58, "this is the algorithm bandwidth itself."),
    }),
    "h100-480-over-450": Key(_ALGORITHM * 9 / 8, "another algorithm's factor", {
        "as-printed": (480.0, "that is what would have to leave each GPU if a ring had run. What ran?"),
        "algorithm": (_ALGORITHM, "this is the tensor over the time; each GPU sends a little more than that."),
        "upside-down": (_ALGORITHM * 7 / 9, "sums in the switch: the tensor once and an N-th of it once; is that less than the tensor?"),
    }),
    "reduce-scatter-74": Key(_PRINTED * 4, "divided by N twice", {
        "as-printed": (_PRINTED, "that is the printed number. By whose time was whose traffic divided?"),
        "two": (_PRINTED * 2, "the factor 2 is an all-reduce's; here the time was multiplied by N."),
        "all-reduce": (275.0, "that is the all-reduce's; recompute the reduce-scatter's from its own number."),
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
            f"{lead}your number is right; now compare it with the printed one: within 5 % or not?",
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
    wide = dict(faults)  # a verdict stands only beside one of the other kind that is right
    for standing, other, told in ((RIGHT, WRONG, "no error has been found yet; a statement left standing counts only beside one."),
                                  (WRONG, RIGHT, "no right statement was left standing; an error counts only beside one.")):  # fmt: skip
        if all(wide[name] for name in wide if KEYS[name].said == other):
            faults |= {
                name: ("blind", f"{name}: {told}")
                for name in wide
                if KEYS[name].said == standing and not wide[name]
            }
    return [verdict("values", item.id, case, faults[item.id]) for item in ITEMS]


AUDITS = {
    "audit-free-scaling": Judging(
        shares={f"values:{item.id}": 1 / len(ITEMS) for item in ITEMS},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=_verdicts,
        why=f"The bytes of a ring do not grow with N, its {2 * 1023:,} messages on 1,024 ranks do: {_LATENCY:.1f} ms of latency before a "
            f"single byte is counted. The form α·log N + β·S has a tree's latency and less than half of the bytes that any all-reduce needs "
            f"(factor {_SHARE:.2f} on 64 ranks). 480 GB/s is a ring's factor applied to sums inside the switch: {_ALGORITHM * 9 / 8:.0f} GB/s "
            f"left each GPU. The lecture's reduce-scatter was as fast as its all-reduce: {_PRINTED * 4:.0f}. The other five are right.",
        pytorch="nccl-tests prints both bandwidths; `doc/PERFORMANCE.md` says how one follows from the other.",
    ),
}  # fmt: skip
