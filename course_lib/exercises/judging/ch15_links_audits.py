"""Judge of chapter 15's audit. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import facts
from course_lib.exercises.ch15_links_audit import CAUSES, ITEMS, RIGHT, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.exercises.judging.ch08_rows import Fault, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, TFLOP

NEAR = 0.05
A100, H100 = (float(facts.device(name).dense_flops) for name in ("A100 SXM 80GB", "H100 SXM"))
AGAIN = 4 / 3  # work with one more forward pass, over work without
TPU = 275 * TFLOP


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


_FMS = 9600 * 0.05 * TFLOP
_MEGATRON = 163 * TFLOP
_PALM = 238_300 * 6 * 540.35e9
_LLAMA = 1.4e12 / 380
_LLAMA2 = (184_320, 368_640, 1_720_320)

KEYS: dict[str, Key] = {
    "nanogpt-104-mfu": Key(104 * A100 / H100, "another chip's peak", {
        "as-printed": (104.0, "more than everything? Which device's peak stood below the line, and which ran?"),
        "sparse": (52 * A100 / H100, "the dense peak counts: nothing in this model is sparse."),
        "upside-down": (104 * H100 / A100, "the peaks are the wrong way round."),
    }),
    "fms-24-mfu": Key(100 * _FMS / H100, "sparse peak", {
        "as-printed": (24.3, "1,979 TFLOP/s are printed on the data sheet; for which matrices?"),
        "a100": (100 * _FMS / A100, "that is against an A100."),
    }),
    "megatron-52-of-peak": Key(100 * _MEGATRON / AGAIN / A100, "recomputation counted", {
        "as-printed": (100 * _MEGATRON / A100, "that is the share of the peak that the hardware worked; how much of it does the model need?"),
        "a-third-off": (100 * _MEGATRON * 2 / 3 / A100, "a second forward pass is a quarter of what was done: 2 of 8."),
    }),
    "llama3-41-mfu": Key(100 * 400 * TFLOP / H100, slips={
        "sparse": (50 * 400 * TFLOP / H100, "that is against the sparse peak."),
        "recomputed": (75 * 400 * TFLOP / H100, "nothing was computed again here."),
    }),
    "palm-46-mfu": Key(100 * _PALM / (6144 * TPU), slips={
        "one-chip": (100 * _PALM / TPU, "the tokens are those of all chips."),
        "recomputed": (100 * _PALM / (6144 * TPU) * AGAIN, "what is computed again is not in an MFU."),
    }),
    "llama-21-days": Key(_LLAMA / 2048 / DAY, slips={
        "one-gpu": (_LLAMA / DAY, "that is one GPU's time."),
        "hours": (_LLAMA / 2048 / 3600, "these are hours."),
    }),
    "llama3-faulty-gpus": Key(100 * 148 / 419, "not what its own rows say", {
        "as-printed": (30.1, "divide the two counts that stand beside it."),
        "with-planned": (100 * 148 / 466, "that is the share of all interruptions; the sentence says unexpected ones."),
    }),
    "llama2-gpu-hours": Key(sum(_LLAMA2) / 1e6, "counts what is not asked", {
        "as-printed": (3.311616, "add up the models that the sentence names."),
        "without-70b": ((sum(_LLAMA2) - _LLAMA2[2]) / 1e6, "the largest one is named, too."),
    }),
    "deepseek-dollars": Key(2.788 * 2, slips={
        "pre-training": (2.664 * 2, "the hours given are those of all three stages."),
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
        return "no-such-word", f"{lead}a verdict is {RIGHT!r} or {WRONG!r}, a cause one of {', '.join(CAUSES)}."
    if not near(number, key.number, NEAR):
        for name, (value, message) in key.slips.items():
            if near(number, value, 0.02):
                return name, lead + message
        if near(number, key.number * item.scale, NEAR) and item.scale != 1:
            return "other-unit", f"{lead}your number is right but for its unit; {item.unit} is asked for."
        return "other-number", f"{lead}your number is {number / key.number:.3g} times ours ({item.unit})."
    if said != key.said:
        return "wrong-verdict", f"{lead}your number is right; now compare it with what was said: within 5 % or not?"
    if cause != key.cause:
        return "wrong-cause", f"{lead}number and verdict are right; {cause!r} is not what happened."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = outcome.value
    if type(given) is not dict:
        fault = ("no-dictionary", f"Return a dictionary from id to (number, verdict, cause); got {describe(given)}.")
        return [verdict("values", item.id, case, fault) for item in ITEMS]
    faults: dict[str, Fault | None] = {
        item.id: _fault(item, KEYS[item.id], given[item.id]) if item.id in given else ("missing", f"{item.id}: no answer under this id yet.")
        for item in ITEMS
    }
    found = dict(faults)  # a verdict stands only beside one of the other kind that is right
    for standing, other, told in ((RIGHT, WRONG, "no error has been found yet; a statement left standing counts only beside one."),
                                  (WRONG, RIGHT, "no right statement was left standing; an error counts only beside one.")):  # fmt: skip
        if all(found[name] for name in found if KEYS[name].said == other):
            faults |= {name: ("blind", f"{name}: {told}") for name in found if KEYS[name].said == standing and not found[name]}
    return [verdict("values", item.id, case, faults[item.id]) for item in ITEMS]


AUDITS = {
    "audit-runs": Judging(
        shares={f"values:{item.id}": 1 / len(ITEMS) for item in ITEMS},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=_verdicts,
        why=f"An MFU stands or falls with its denominator: {104 * A100 / H100:.0f} %, not 104, against the peak of the device that ran; {100 * _FMS / H100:.0f} %, not 24, against "
            f"the dense one. Its numerator has no second forward pass: 52 % of the peak is an MFU of {100 * _MEGATRON / AGAIN / A100:.0f}. Shares and sums are checked "
            f"against their own rows: 148 of 419 is {148 / 419:.1%}, and the three models took {sum(_LLAMA2) / 1e6:.2f} million hours; a fourth was in the sum.",
        pytorch="torchtitan logs tokens/s, TFLOP/s and MFU side by side, so that each can be recomputed from the others.",
    ),
}  # fmt: skip
