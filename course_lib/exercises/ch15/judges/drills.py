"""Answers to chapter 15's drills."""

import math
from collections.abc import Mapping

from course_lib.judging import DrillKey, Mistake, Params
from course_lib.runs.counting import ring_sent
from course_lib.runs.intervals import exposed
from course_lib.runs.money import dollars
from course_lib.units import GB, MB, MINUTE, MS, US

EXACT = 1e-6


def _mfu(p: Params) -> float:
    return 100 * 6 * p["params"] * p["tokens"] / (p["seconds"] * p["ranks"] * p["peak"])


def _bus(p: Params, kind: str = "all_reduce") -> float:
    return ring_sent(kind, p["nbytes"], p["ranks"]) / (p["ms"] * MS) / GB


def _half(p: Params) -> float:
    return p["alpha"] * US * p["beta"] / MB


def _third(p: Params) -> float:
    return p["small"] + (p["asked"] - 1) * (p["large"] - p["small"]) / 15


def _exposed(p: Params) -> float:
    return exposed({"compute": [(0.0, p["compute"])], "communication": [(p["start"], p["stop"])]})


def _bill(p: Params, gpus: int | None = None, rounded: bool = True) -> float:
    minutes = math.ceil(p["minutes"] / p["block"]) * p["block"] if rounded else p["minutes"]
    return dollars(minutes * MINUTE, p["gpus"] if gpus is None else gpus, p["price"])


def _efficiency(p: Params) -> float:
    return 100 * p["few_s"] * p["few"] / (p["many_s"] * p["many"])


def _kept(p: Params) -> float:
    return ring_sent("all_gather", p["params"] * p["bits"] / 8, p["ranks"]) / GB


def _mean(p: Params) -> float:
    return 100 * p["warm"] * (p["slow"] - 1) / (p["warm"] + p["timed"])


DRILLS: Mapping[str, DrillKey] = {
    "mfu-of-a-step": DrillKey(
        answer=_mfu,
        how="6 · P · tokens over seconds · GPUs · peak: {{answer}} %.",
        mistakes=(
            Mistake("sparse", lambda p: _mfu(p) / 2, "That is against the sparse peak, which is twice the dense one."),
            Mistake("one-gpu", lambda p: _mfu(p) * p["ranks"], "All GPUs could have worked."),
            Mistake("forward", lambda p: _mfu(p) / 3, "Forward and backward: 6 FLOPs per parameter and token, not 2."),
            Mistake("recomputed", lambda p: _mfu(p) * 8 / 6, "What is computed again does not count in MFU."),
        ),
    ),
    "bus-of-all-reduce": DrillKey(
        answer=_bus,
        how="A ring sends 2 (N − 1)/N of the bytes; over the time that is {{answer}} GB/s.",
        mistakes=(
            Mistake(
                "algorithm",
                lambda p: p["nbytes"] / (p["ms"] * MS) / GB,
                "That is the algorithm's bandwidth: bytes over time.",
            ),
            Mistake("gather", lambda p: _bus(p, "all_gather"), "An all-reduce sends twice what an all-gather sends."),
            Mistake("bits", lambda p: 8 * _bus(p), "Bytes are asked for."),
        ),
    ),
    "half-of-the-line": DrillKey(
        answer=_half,
        how="n/(α + n/β) = β/2 at n = α · β = {{answer}} MB.",
        mistakes=(
            Mistake("twice", lambda p: 2 * _half(p), "There two thirds are reached."),
            Mistake("half", lambda p: _half(p) / 2, "There a third is reached."),
        ),
    ),
    "third-message": DrillKey(
        answer=_third,
        how="15 MB more take the difference; from 1 MB on, in proportion: {{answer}} µs.",
        mistakes=(
            Mistake("proportional", lambda p: p["asked"] * p["small"], "Each message pays α once, whatever its size."),
            Mistake(
                "no-alpha",
                lambda p: p["asked"] * p["large"] / 16,
                "Part of the time is α, which does not shrink with the message.",
            ),
            Mistake(
                "from-zero",
                lambda p: p["small"] + p["asked"] * (p["large"] - p["small"]) / 15,
                "The small message had 1 MB already.",
            ),
        ),
    ),
    "exposed-of-one": DrillKey(
        answer=_exposed,
        rel=EXACT,
        how="What of the communication lies after the end of computing: {{answer}} ms.",
        mistakes=(
            Mistake("all", lambda p: p["stop"] - p["start"], "Part of that ran beside computing."),
            Mistake("hidden", lambda p: p["compute"] - p["start"], "That is the hidden part."),
            Mistake(
                "difference",
                lambda p: abs(p["stop"] - p["start"] - p["compute"]),
                "The two do not begin together; intervals decide, not lengths.",
            ),
        ),
    ),
    "amdahl-of-a-part": DrillKey(
        answer=lambda p: 1 / (1 - p["share"] / 100),
        how="1 / (1 − share) = {{answer}}.",
        mistakes=(
            Mistake(
                "plus", lambda p: 1 + p["share"] / 100, "The rest stays, and it is less than the whole: divide by it."
            ),
            Mistake("rest", lambda p: 1 - p["share"] / 100, "That is the step's time, not its speed."),
        ),
    ),
    "dollars-of-a-session": DrillKey(
        answer=_bill,
        rel=0.001,
        how="Minutes rounded up to whole blocks, times GPUs, times price: {{answer}} dollars.",
        mistakes=(
            Mistake("unrounded", lambda p: _bill(p, rounded=False), "Blocks that were begun are paid for."),
            Mistake("one-gpu", lambda p: _bill(p, 1), "The price is for one GPU."),
            Mistake(
                "one-block-less",
                lambda p: _bill({**p, "minutes": p["minutes"] - p["block"]}),
                "The last block was begun.",
            ),
        ),
    ),
    "minutes-for-a-budget": DrillKey(
        answer=lambda p: 60 * p["budget"] / (p["gpus"] * p["price"]),
        how="The budget over GPUs times price, in minutes: {{answer}}.",
        mistakes=(
            Mistake("one-gpu", lambda p: 60 * p["budget"] / p["price"], "All GPUs are paid for at once."),
            Mistake("hours", lambda p: p["budget"] / (p["gpus"] * p["price"]), "That is in hours."),
        ),
    ),
    "strong-efficiency": DrillKey(
        answer=_efficiency,
        how="GPU-seconds of a step on few over those on many: {{answer}} %.",
        mistakes=(
            Mistake("speed-up", lambda p: 100 * p["few_s"] / p["many_s"], "That is the speed-up; the GPUs grew, too."),
            Mistake("upside-down", lambda p: 1e4 / _efficiency(p), "That is the other way round."),
        ),
    ),
    "kept-weights-sent": DrillKey(
        answer=_kept,
        how="Each weight is gathered once: bytes · (N − 1)/N = {{answer}} GB.",
        mistakes=(
            Mistake("twice", lambda p: 2 * _kept(p), "Kept weights are not gathered again for the backward pass."),
            Mistake("elements", lambda p: _kept(p) * 8 / p["bits"], "A number has more than one byte."),
            Mistake("with-gradients", lambda p: 3 * _kept(p), "Gradients are not asked for."),
        ),
    ),
    "gpipe-over-1f1b": DrillKey(
        answer=lambda p: p["micro"] / min(p["stages"], p["micro"]),
        rel=EXACT,
        how="All micro-batches over as many as there are stages: {{answer}}.",
        mistakes=(
            Mistake("stages", lambda p: p["stages"], "That is what 1F1B holds."),
            Mistake("micro", lambda p: p["micro"], "That is what GPipe holds; 1F1B holds more than one."),
            Mistake(
                "bubble",
                lambda p: (p["micro"] + p["stages"] - 1) / p["micro"],
                "That is time: the bubble is the same in both.",
            ),
        ),
    ),
    "straggler-waits": DrillKey(
        answer=lambda p: 100 * (1 - 1 / p["times"]),
        how="The step is as long as the slowest: 1 − 1/{{times}} = {{answer}} %.",
        mistakes=(
            Mistake(
                "more",
                lambda p: 100 * (p["times"] - 1),
                "That is how much longer the step is; of the longer step it is less.",
            ),
            Mistake(
                "shared",
                lambda p: 100 * (1 - 1 / p["times"]) / p["ranks"],
                "Nobody takes work off the slow one: all wait for all of it.",
            ),
        ),
    ),
    "warm-up-in-the-mean": DrillKey(
        answer=_mean,
        how="The extra seconds over all steps: {{answer}} %.",
        mistakes=(
            Mistake(
                "timed-only",
                lambda p: 100 * p["warm"] * (p["slow"] - 1) / p["timed"],
                "The mean is over all steps, warm-up included.",
            ),
            Mistake(
                "whole",
                lambda p: 100 * p["warm"] * p["slow"] / (p["warm"] + p["timed"]),
                "A second of each would have been there anyway.",
            ),
        ),
    ),
    "rate-after-resume": DrillKey(
        answer=lambda p: p["warm"] / (p["after"] + 1),
        how="Planned: the peak. Actual: ({{after}} + 1)/{{warm}} of it. Ratio {{answer}}.",
        mistakes=(
            Mistake(
                "off-by-one",
                lambda p: p["warm"] / p["after"],
                "The first step after the resume has its share of the warm-up already.",
            ),
            Mistake(
                "from-the-start",
                lambda p: p["warm"] / (p["stop"] + p["after"] + 1),
                "The schedule counts from the resume.",
            ),
        ),
    ),
}
