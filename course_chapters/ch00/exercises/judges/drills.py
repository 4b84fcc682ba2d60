"""Answers to chapter 00's drills."""

from course_chapters.ch00.exercises.numbers import ROUTES
from course_grader.judging import Params, drill_key
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import DAY, GB

_H100 = facts.device("H100 SXM")


def _gpus(p: Params, peak: float, mfu: float) -> int:
    return compute.devices_for_deadline(p["params"], p["tokens"], peak, mfu, p["days"] * DAY)


DRILLS = {
    "chapter-for-a-symptom": drill_key(
        lambda p: ROUTES[p["symptom"]][0],
        "Chapter {{answer}} first; the failure route on the map of chapter 00 gives the reason.",
        (1, "Chapter 01 finds the wall that you hit; this symptom already names it."),
        rel=1e-6,
    ),
    "state-of-a-model": drill_key(
        lambda p: memory.state_bytes(p["params"], "B") / GB,
        "2 bytes of weight, 2 of gradient, 4 of master copy and 8 of moments make 16 per parameter: {{answer}} GB.",
        (lambda p: memory.weights_bytes(p["params"], "bf16") / GB, "These are the weights alone."),
        (lambda p: memory.state_bytes(p["params"], "A") / GB, "The 32-bit master copy is missing."),
    ),
    "cards-for-a-deadline": drill_key(
        lambda p: _gpus(p, float(_H100.dense_flops), p["mfu"]),
        "6 × parameters × tokens, divided by the dense peak, the MFU and the seconds, and rounded up: {{answer}}.",
        (lambda p: _gpus(p, float(_H100.dense_flops), 1.0), "This is at the full peak; the MFU is missing."),
        (lambda p: _gpus(p, float(_H100.sparse_flops), p["mfu"]), "This uses the sparse peak."),
    ),
    "tokens-in-a-step": drill_key(
        lambda p: p["ranks"] * p["micro"] * p["accumulate"] * p["seq"],
        "Ranks × sequences × accumulated micro-batches × tokens in a sequence: {{answer:int}}.",
        (lambda p: p["micro"] * p["accumulate"] * p["seq"], "This is one rank's share of the step."),
        (lambda p: p["ranks"] * p["micro"] * p["seq"], "Accumulated micro-batches are missing."),
        (lambda p: p["ranks"] * p["micro"] * p["accumulate"], "These are sequences, not tokens."),
        rel=1e-6,
    ),
    "price-of-a-point": drill_key(
        lambda p: compute.points_of_mfu_usd(p["usd"], p["mfu"], 1),
        "Cost is proportional to 1/MFU: the run then costs MFU/(MFU + 0.01) of the original, so it saves "
        "{{answer:usd}}.",
        (lambda p: p["usd"] * 0.01, "One point is a larger share of this MFU than one percent."),
    ),
}
