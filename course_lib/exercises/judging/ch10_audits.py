"""Judge of chapter 10's audit. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import facts
from course_lib.exercises.ch10_audits import CAUSES, ITEMS, RIGHT, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.exercises.judging.ch10_rows import Fault, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.schedules import gpipe, interleaved, one_f_one_b, peak_activations
from course_lib.timeline import Durations, play

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


def _bubble(stages: int, microbatches: int) -> float:
    return play(one_f_one_b(stages, microbatches)).bubble_fraction


_SMALL, _LARGE = _bubble(4, 8), _bubble(16, 64)
_LOOPED = play(interleaved(8, 32)).bubble_over_ideal
_STAGES, _MANY, _LAYERS = 16, 64, 80
_FIRST = (
    peak_activations(one_f_one_b(_STAGES, _MANY))[0] / _STAGES
)  # in micro-batches through the whole model
_ALL_FIRST = peak_activations(gpipe(_STAGES, _MANY))[0] / _STAGES
_INPUTS = _FIRST * _LAYERS
_LONGER = (
    play(one_f_one_b(_STAGES, _MANY), Durations(forward=1, backward=3)).makespan
    / play(one_f_one_b(_STAGES, _MANY)).makespan
    - 1
)
_SQRT = float(facts.claim("recompute-sqrt-stage").value)

KEYS: dict[str, Key] = {
    "bubble-4-8": Key(_SMALL, slips={
        "over-work": (3 / 8, "this is idle time over working time; the brackets name another whole."),
        "off-by-one": (4 / 12, "a rank waits p − 1 slots, not p."),
    }),
    "bubble-16-64": Key(_LARGE, slips={
        "over-work": (15 / 64, "this is idle time over working time; the brackets name another whole."),
        "off-by-one": (16 / 80, "a rank waits p − 1 slots, not p."),
    }),
    "interleaved-bubble": Key(_LOOPED, slips={
        "one-chunk": (7 / 32, "this is with one stage a device."),
        "of-all": (3.5 / 35.5, "this is a share of all time; the brackets name working time."),
    }),
    "recompute-forwards": Key(1.0, "another whole", {
        "as-printed": (_LONGER, "that is what the step takes longer. How many forwards are done, and how many were done before?"),
        "percent": (100.0, "these are per cent; a fraction of 1 is asked for."),
        "times": (2.0, "that is all forwards; how many of them are done *more*?"),
    }),
    "recompute-sqrt-stage": Key(_INPUTS, "another recipe", {
        "as-printed": (_SQRT, "that is what was printed. Count the layers of a stage, and the micro-batches it holds."),
        "one-micro-batch": (_LAYERS / _STAGES, "this is one micro-batch's; how many are between forward and backward?"),
        "gpipe": (_ALL_FIRST * _LAYERS, "these are GPipe's; 1F1B holds fewer."),
    }),
    "accumulation-gradients": Key(1.0, "one copy anyway", {
        "as-printed": (1 / 16, "that would be it if each micro-batch had its own sixteenth of the buffer. What shape has a gradient?"),
        "one-each": (16.0, "they are added up as they come, not kept side by side."),
    }),
    "pipeline-activations": Key(_FIRST, "more in flight", {
        "as-printed": (1 / _STAGES, "that is one micro-batch's. How many does the first stage hold at once?"),
        "whole-model": (float(_STAGES), "each of them only through a sixteenth of the layers."),
        "gpipe": (_ALL_FIRST, "that is GPipe's; 1F1B holds fewer."),
    }),
    "interleaved-layers": Key(10.0, "layers left over", {
        "as-printed": (20.0, "count them: 1 to 5, and 21 to 25."),
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
    "audit-pipeline": Judging(
        shares={f"values:{item.id}": 1 / len(ITEMS) for item in ITEMS},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=_verdicts,
        why=f"Recomputing repeats every forward: 100 % more forwards, {_LONGER:.0%} more of everything. In 1F1B the first of p stages holds p "
            f"micro-batches of 1/p of the layers, {_INPUTS:.0f} layer inputs here: a pipeline shares out weights, not the first stage's activations; "
            f"a √ needs segments of several layers. Accumulating adds into one buffer. Layers 1–5 and 21–25 are ten: with 20 to hold, 1–10 and "
            f"41–50, or four runs of five. The three bubbles are right, each by its own convention.",
        pytorch="`torch.utils.checkpoint` repeats forwards; `torch.distributed.pipelining` holds what the schedule says: count it before believing a saving.",
    ),
}  # fmt: skip
