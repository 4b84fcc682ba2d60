"""Answers to chapter 15's drills."""

import math
from collections.abc import Callable, Mapping

from course_lib.judging import DrillKey, Mistake, Params
from course_lib.runs.intervals import exposed
from course_lib.runs.money import dollars
from course_lib.runs.ring_bytes import ring_sent
from course_lib.units import GB, MB, MINUTE, MS, US

EXACT = 1e-6


def _mfu(p: Params) -> float:
    return 100 * 6 * p["params"] * p["tokens"] / (p["seconds"] * p["ranks"] * p["peak"])


def _bus(p: Params, kind: str = "all_reduce") -> float:
    return ring_sent(kind, p["nbytes"], p["ranks"]) / (p["ms"] * MS) / GB


def _half(p: Params) -> float:
    return p["alpha"] * US * p["beta"] / MB


def _third(p: Params, more: int = -1) -> float:
    return p["small"] + (p["asked"] + more) * (p["large"] - p["small"]) / 15


def _exposed(p: Params) -> float:
    return exposed({"compute": [(0.0, p["compute"])], "communication": [(p["start"], p["stop"])]})


def _bill(p: Params, rounded: bool = True) -> float:
    minutes = math.ceil(p["minutes"] / p["block"]) * p["block"] if rounded else p["minutes"]
    return dollars(minutes * MINUTE, p["gpus"], p["price"])


def _budget(p: Params) -> float:
    return 60 * p["budget"] / (p["gpus"] * p["price"])


def _efficiency(p: Params) -> float:
    return 100 * p["few_s"] * p["few"] / (p["many_s"] * p["many"])


def _kept(p: Params) -> float:
    return ring_sent("all_gather", p["params"] * p["bits"] / 8, p["ranks"]) / GB


def _waiting(p: Params) -> float:
    return 100 * (1 - 1 / p["times"])


def _extra(p: Params) -> float:
    return 100 * p["warm"] * (p["slow"] - 1)


def _mean(p: Params) -> float:
    return _extra(p) / (p["warm"] + p["timed"])


def _key(
    answer: Callable[[Params], float],
    how: str,
    *mistakes: tuple[str, Callable[[Params], float], str],
    rel: float = 0.01,
) -> DrillKey:
    return DrillKey(answer=answer, how=how, rel=rel, mistakes=tuple(Mistake(*each) for each in mistakes))


DRILLS: Mapping[str, DrillKey] = {
    "mfu-of-a-step": _key(
        _mfu,
        "6 · P · tokens over seconds · GPUs · peak: {{answer}} %.",
        ("sparse", lambda p: _mfu(p) / 2, "This is relative to the sparse peak, which is twice the dense one."),
        ("one-gpu", lambda p: _mfu(p) * p["ranks"], "Divide by the peak of all GPUs."),
        ("forward", lambda p: _mfu(p) / 3, "Forward and backward take 6 FLOPs per parameter and token, not 2."),
        ("recomputed", lambda p: _mfu(p) * 8 / 6, "Recomputed work does not count in an MFU."),
    ),
    "bus-of-all-reduce": _key(
        _bus,
        "A ring sends 2 (N − 1)/N of the bytes; divided by the time that is {{answer}} GB/s.",
        ("algorithm", lambda p: p["nbytes"] / (p["ms"] * MS) / GB, "Bytes over time is the algorithm bandwidth."),
        ("gather", lambda p: _bus(p, "all_gather"), "An all-reduce sends twice what an all-gather sends."),
        ("bits", lambda p: 8 * _bus(p), "These are bits; give bytes."),
    ),
    "half-of-the-line": _key(
        _half,
        "n/(α + n/β) = β/2 at n = α · β = {{answer}} MB.",
        ("twice", lambda p: 2 * _half(p), "This message reaches two thirds."),
        ("half", lambda p: _half(p) / 2, "This message reaches a third."),
    ),
    "third-message": _key(
        _third,
        "15 MB more take the difference; in proportion from 1 MB on: {{answer}} µs.",
        ("proportional", lambda p: p["asked"] * p["small"], "Each message pays α once, whatever its size."),
        ("no-alpha", lambda p: p["asked"] * p["large"] / 16, "A part of the time is α, which does not shrink."),
        ("from-zero", lambda p: _third(p, 0), "The small message has 1 MB already."),
    ),
    "exposed-of-one": _key(
        _exposed,
        "The communication after the end of computing: {{answer}} ms.",
        ("all", lambda p: p["stop"] - p["start"], "A part of this overlaps with computing."),
        ("hidden", lambda p: p["compute"] - p["start"], "This is the hidden part."),
        ("difference", lambda p: abs(p["stop"] - p["start"] - p["compute"]), "The two do not begin together."),
        rel=EXACT,
    ),
    "amdahl-of-a-part": _key(
        lambda p: 1 / (1 - p["share"] / 100),
        "1 / (1 − share) = {{answer}}.",
        ("plus", lambda p: 1 + p["share"] / 100, "Divide by what remains of the step."),
        ("rest", lambda p: 1 - p["share"] / 100, "This is the step's time, not its speed."),
    ),
    "dollars-of-a-session": _key(
        _bill,
        "Minutes rounded up to whole blocks, times GPUs, times price: {{answer}} dollars.",
        ("unrounded", lambda p: _bill(p, rounded=False), "A block that has begun is billed in full."),
        ("one-gpu", lambda p: _bill({**p, "gpus": 1}), "The price is that of one GPU."),
        ("one-block-less", lambda p: _bill({**p, "minutes": p["minutes"] - p["block"]}), "The last block has begun."),
        rel=0.001,
    ),
    "minutes-for-a-budget": _key(
        _budget,
        "The budget over GPUs times price, in minutes: {{answer}}.",
        ("one-gpu", lambda p: _budget(p) * p["gpus"], "All GPUs are billed at once."),
        ("hours", lambda p: _budget(p) / 60, "These are hours."),
    ),
    "strong-efficiency": _key(
        _efficiency,
        "GPU-seconds of a step on few GPUs over those on many: {{answer}} %.",
        ("speed-up", lambda p: 100 * p["few_s"] / p["many_s"], "This is the speed-up; there are also more GPUs."),
        ("upside-down", lambda p: 1e4 / _efficiency(p), "This is the inverse."),
    ),
    "kept-weights-sent": _key(
        _kept,
        "Each weight is gathered once: bytes · (N − 1)/N = {{answer}} GB.",
        ("twice", lambda p: 2 * _kept(p), "Weights that are kept are not gathered again for the backward pass."),
        ("elements", lambda p: _kept(p) * 8 / p["bits"], "A number has more than one byte."),
        ("with-gradients", lambda p: 3 * _kept(p), "The question is about weights, not gradients."),
    ),
    "gpipe-over-1f1b": _key(
        lambda p: p["micro"] / min(p["stages"], p["micro"]),
        "All micro-batches over as many as there are stages: {{answer}}.",
        ("stages", lambda p: p["stages"], "This is what 1F1B holds."),
        ("micro", lambda p: p["micro"], "This is what GPipe holds; 1F1B holds more than one."),
        ("bubble", lambda p: (p["micro"] + p["stages"] - 1) / p["micro"], "This is time: both have the same bubble."),
        rel=EXACT,
    ),
    "straggler-waits": _key(
        _waiting,
        "The step is as long as the slowest rank: 1 − 1/{{times}} = {{answer}} %.",
        ("more", lambda p: 100 * (p["times"] - 1), "This is relative to a step without the slow rank."),
        ("shared", lambda p: _waiting(p) / p["ranks"], "All ranks wait for all of the slow one's work."),
    ),
    "warm-up-in-the-mean": _key(
        _mean,
        "The extra seconds over all steps: {{answer}} %.",
        ("timed-only", lambda p: _extra(p) / p["timed"], "The mean includes the warm-up steps."),
        ("whole", lambda p: _mean(p) * p["slow"] / (p["slow"] - 1), "Only the seconds beyond 1 s each are extra."),
    ),
    "rate-after-resume": _key(
        lambda p: p["warm"] / (p["after"] + 1),
        "Planned: the peak. Actual: ({{after}} + 1)/{{warm}} of it. Ratio {{answer}}.",
        (
            "off-by-one",
            lambda p: p["warm"] / p["after"],
            "The first step after the resume has its share of the warm-up.",
        ),
        ("from-the-start", lambda p: p["warm"] / (p["stop"] + p["after"] + 1), "The schedule counts from the resume."),
    ),
}
