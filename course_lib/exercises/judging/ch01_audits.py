"""Judges of chapter 01's audits. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import facts
from course_lib.exercises.ch01_audits import CAUSES, RIGHT, RUN_ITEMS, STEP_ITEMS, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, YEAR

NEAR = 0.05
H100 = float(facts.device("H100 SXM").dense_flops)
LLAMA = facts.run("Llama 3.1 405B")


@dataclass(frozen=True, slots=True)
class Key:
    """The truth about one printed statement: the number in the unit asked for, and the cause; slips by value."""

    number: float
    cause: str = "as printed"
    slips: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # name -> (value, message)

    @property
    def verdict(self) -> str:
        """Whether the statement is right as printed."""
        return RIGHT if self.cause == "as printed" else WRONG


def work(params: float, tokens: float) -> float:
    """FLOP of training."""
    return 6 * params * tokens


_STEP = work(70e9, 8192) / (1e15 * 0.4)
_ALONE_70B = work(70e9, 15e12) / (1e15 * 0.4)
_FULL_405B = work(405e9, 15e12) / (24_576 * H100) / DAY
_GPT3 = work(float(facts.run("GPT-3 175B").params), float(facts.run("GPT-3 175B").tokens))

STEP_KEYS: dict[str, Key] = {
    "step-70b-8ms": Key(_STEP, "unit", {
        "milliseconds": (_STEP * 1e3, "this is in milliseconds; seconds are asked for."),
        "as-printed": (_STEP / 1e3, "follow the units from FLOP over FLOP/s to the end."),
        "full-speed": (_STEP * 0.4, "the statement names an MFU."),
    }),
    "llama70b-500-years": Key(_ALONE_70B / YEAR, slips={
        "full-speed": (_ALONE_70B * 0.4 / YEAR, "the statement names an MFU."),
        "seconds": (_ALONE_70B, "these are seconds."),
    }),
    "llama70b-6-months": Key(_ALONE_70B / 1024 / (YEAR / 12), slips={
        "days": (_ALONE_70B / 1024 / DAY, "these are days."),
        "full-speed": (_ALONE_70B * 0.4 / 1024 / (YEAR / 12), "the same MFU holds on 1,024 GPUs."),
    }),
    "llama3-17-days": Key(_FULL_405B / 0.4, "missing factor", {
        "mfu-forgotten": (_FULL_405B, "this is the time at 100 % of the peak. What else does the statement name?"),
        "mfu-multiplied": (_FULL_405B * 0.4, "a lower utilisation makes it longer."),
    }),
    "gpt3-5-years": Key(_GPT3 / H100 / YEAR, "dense or sparse", {
        "sparse-peak": (_GPT3 / float(facts.device("H100 SXM").sparse_flops) / YEAR, "which of an H100's peaks is this?"),
    }),
    "cluster-24-eflops": Key(24_576 * H100 / 1e18, slips={
        "sparse-peak": (24_576 * float(facts.device("H100 SXM").sparse_flops) / 1e18, "this is the sparse peak."),
        "teraflops": (24_576 * H100 / 1e12, "this is in TFLOP/s; EFLOP/s are asked for."),
        "flops": (24_576 * H100, "this is in FLOP/s; EFLOP/s are asked for."),
    }),
}  # fmt: skip

_BY_FLOPS = work(float(LLAMA.params), float(LLAMA.tokens)) / (float(LLAMA.devices) * H100 * float(LLAMA.mfu)) / DAY
_BY_HOURS = float(LLAMA.device_hours) / float(LLAMA.devices) / 24

RUN_KEYS: dict[str, Key] = {
    "54-days-by-flops": Key(_BY_FLOPS, "wrong scope", {
        "full-speed": (_BY_FLOPS * float(LLAMA.mfu), "this is at 100 % of the peak; an MFU was published."),
        "hours-route": (_BY_HOURS, "this comes from the GPU-hours; here the FLOPs are asked for."),
        "as-printed": (54.0, "that is the printed number; recompute it."),
    }),
    "54-days-by-hours": Key(_BY_HOURS, "wrong scope", {
        "hours-as-days": (_BY_HOURS * 24, "these are hours."),
        "flops-route": (_BY_FLOPS, "this comes from the FLOPs; here the GPU-hours are asked for."),
        "as-printed": (54.0, "that is the printed number; recompute it."),
        "mfu-again": (_BY_HOURS / float(LLAMA.mfu), "GPU-hours were paid for; the MFU is in them already."),
    }),
    "forty-percent-burns-sixty": Key(1 - 0.40 / 0.50, "wrong baseline", {
        "against-the-peak": (0.60, "that is against 100 % of the peak, which nobody reaches."),
        "points-for-share": (0.10, "percentage points of MFU are not a share of the money."),
        "more-for-lost": (0.50 / 0.40 - 1, "this is the extra work for the same money, not the money lost."),
        "percent": (20.0, "give a fraction of one."),
    }),
    "llama3-1170-years": Key(work(405e9, 15e12) / H100 / YEAR, slips={
        "mfu-applied": (work(405e9, 15e12) / H100 / float(LLAMA.mfu) / YEAR, "the statement is about full speed."),
        "days": (work(405e9, 15e12) / H100 / DAY, "these are days."),
    }),
    "seven-b-1966-days": Key(work(7e9, 2e12) / (H100 * 0.5) / DAY, slips={
        "full-speed": (work(7e9, 2e12) / H100 / DAY, "the statement names a utilisation."),
    }),
    "waste-3-million": Key(10.0 * (1 - 0.35 / 0.50), slips={
        "against-the-peak": (10.0 * 0.65, "the statement names its baseline, and it is not the whole peak."),
        "points-for-share": (10.0 * 0.15, "percentage points of MFU are not a share of the money."),
        "dollars": (10e6 * 0.30, "this is in dollars; millions are asked for."),
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
        return "not-a-number", f"{lead}the first value is a number in {item.unit}; got {describe(number)}."
    if said not in (RIGHT, WRONG) or type(cause) is not str or cause not in CAUSES:
        return "no-such-word", f"{lead}a verdict is {RIGHT!r} or {WRONG!r}, a cause one of {', '.join(CAUSES)}."
    if not near(number, key.number, NEAR):
        for name, (value, message) in key.slips.items():
            if near(number, value, 0.02):
                return name, lead + message
        return "other-number", f"{lead}your number is {number / key.number:.3g} times ours, in {item.unit}."
    if said != key.verdict:
        return "wrong-verdict", f"{lead}your number is right; now compare it with the printed one: within 5 % or not?"
    if cause != key.cause:
        return "wrong-cause", (f"{lead}number and verdict are right; {cause!r} is not what happened. Divide one number by the "
                               "other, and hold what each cause means against the sentence as printed.")  # fmt: skip
    return None


def _verdicts(items: tuple[Item, ...], keys: Mapping[str, Key]) -> Callable[..., list[Verdict]]:
    """The judge of one audit, a verdict for each statement."""

    def verdicts(_: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        given = outcome.value

        def verdict(part: str, fault: tuple[str, str] | None) -> Verdict:
            mistake, message = fault or ("", "")
            return Verdict(kind="values", part=part, ok=not fault, mistake=mistake, message=message, case=case.name)

        if type(given) is not dict:
            fault = ("no-dictionary", f"Return a dictionary from id to (number, verdict, cause); got {describe(given)}.")
            return [verdict(item.id, fault) for item in items]
        faults = {
            item.id: _fault(item, keys[item.id], given[item.id]) if item.id in given
            else ("missing", f"{item.id}: no answer under this id yet.")
            for item in items
        }  # fmt: skip
        for standing, other in ((RIGHT, WRONG), (WRONG, RIGHT)):
            if all(faults[name] for name in faults if keys[name].verdict == other):
                told = {
                    RIGHT: "no error has been found yet: a statement left standing counts only beside one.",
                    WRONG: "every statement that is right was faulted or missed: an error counts only beside one.",
                }[standing]
                faults |= {name: ("blind", f"{name}: {told}") for name in faults
                           if keys[name].verdict == standing and not faults[name]}  # fmt: skip
        return [verdict(item.id, faults[item.id]) for item in items]

    return verdicts


def _judging(items: tuple[Item, ...], keys: Mapping[str, Key], why: str) -> Judging:
    return Judging(
        shares={f"values:{item.id}": 1 / len(items) for item in items},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=_verdicts(items, keys),
        why=why,
    )


AUDIT_ONE_STEP = _judging(
    STEP_ITEMS,
    STEP_KEYS,
    f"The step takes {_STEP:.2f} s: the digits are right, the unit is a thousand times too small, and no step of a 70B model "
    f"could take milliseconds on one GPU. {_FULL_405B:.1f} days are the run at 100 % of the peak; at the 40 % that the same "
    f"sentence names it is {_FULL_405B / 0.4:.1f}. GPT-3 takes {_GPT3 / H100 / YEAR:.1f} years at the dense peak; 5 is the "
    f"sparse one. 500 years, 6 months and 24.3 EFLOP/s are right as printed: an auditor who faults everything is as useless as "
    "one who faults nothing.",
)
AUDIT_RUN_LENGTH = _judging(
    RUN_ITEMS,
    RUN_KEYS,
    f"By the FLOPs {_BY_FLOPS:.0f} days, by the GPU-hours {_BY_HOURS:.0f} (those include restarts and every stage). The 54 days "
    "are a stretch that the paper reports its interruptions for, not the run; on as many GPUs they would need "
    f"{100 * _BY_FLOPS * float(LLAMA.mfu) / 54:.0f} % MFU, more than the paper's best. 40 % against 50 % achievable wastes a fifth "
    "of the money; against the whole peak every run on earth burns more than half. The other three are right as printed.",
)
