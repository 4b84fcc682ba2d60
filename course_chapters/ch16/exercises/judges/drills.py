"""Answers to chapter 16's drills."""

from course_grader.judging import Params, Times, drill_key
from course_lib.estimate.units import HOUR, KB, TB, TFLOP


def _wait(p: Params) -> float:
    busy = p["busy"] / 100
    return p["service"] * busy / (2 * (1 - busy))


def _kept(p: Params) -> float:
    return sum(p["rate"] ** k for k in range(p["guesses"] + 1))


_NO_BYTES = (Times(lambda p: 1 / p["bytes"]), "A parameter has {{bytes}} bytes.")


DRILLS = {
    "kv-of-a-token": drill_key(
        lambda p: 2 * p["layers"] * p["kv"] * 128 * 2 / KB,
        "2 · {{layers}} · {{kv}} · 128 · 2 bytes = {{answer}} kB: a key and a value for each KV head and layer.",
        (Times(lambda p: p["heads"] / p["kv"]), "Query heads keep nothing; count the KV heads."),
        (Times(0.5), "Both a key and a value are kept."),
        (Times(1000), "Those are bytes."),
    ),
    "fastest-token": drill_key(
        lambda p: 1e3 * p["params"] * p["bytes"] / (p["tbps"] * TB),
        "{{params:count}} · {{bytes}} bytes / ({{tbps}} TB/s) = {{answer}} ms.",
        (Times(1e-3), "Those are seconds."),
        _NO_BYTES,
    ),
    "ridge-without-cache": drill_key(
        lambda p: p["tflops"] * TFLOP * p["bytes"] / (2 * p["tbps"] * TB),
        "{{tflops}} TFLOP/s · {{bytes}} bytes / (2 FLOPs · {{tbps}} TB/s) = {{answer}}.",
        (Times(2), "A parameter costs 2 FLOPs a token, a multiplication and an addition."),
        _NO_BYTES,
    ),
    "prefill-time": drill_key(
        lambda p: 2 * p["params"] * p["tokens"] / (p["tflops"] * TFLOP),
        "2 · {{params:count}} · {{tokens:int}} FLOPs / ({{tflops}} TFLOP/s) = {{answer}} s.",
        (Times(3), "There is no backward pass: 2 FLOPs a parameter and token."),
        (Times(0.5), "A parameter costs 2 FLOPs a token."),
    ),
    "speculated-tokens": drill_key(
        _kept,
        "1 + {{rate}} + … + {{rate}}^{{guesses}} = {{answer}}.",
        (lambda p: _kept(p) - 1, "The target adds a token of its own in every step."),
        (lambda p: 1 + p["rate"] * p["guesses"], "A drafted token counts only if all before it were accepted."),
    ),
    "in-the-system": drill_key(
        lambda p: p["rate"] * p["seconds"],
        "Little's law: {{rate}} per second · {{seconds}} s = {{answer}}.",
        (lambda p: p["rate"] / p["seconds"], "Each of them stays: multiply."),
        (lambda p: p["seconds"] / p["rate"], "That is a quotient, upside down; multiply."),
    ),
    "mean-wait": drill_key(
        _wait,
        "{{service}} s · ρ / (2 · (1 − ρ)) with ρ = {{busy}} % gives {{answer}} s.",
        (Times(2), "That is for random service times; here each takes equally long."),
        (lambda p: _wait(p) + p["service"], "That is the wait and the service together."),
    ),
    "dollars-a-million": drill_key(
        lambda p: p["gpus"] * p["usd"] / (p["speed"] * HOUR * p["busy"] / 100) * 1e6,
        "{{gpus}} · {{usd}} dollars an hour, over {{speed:int}} · 3,600 · {{busy}} % tokens an hour: {{answer}} "
        "dollars a million.",
        (Times(lambda p: p["busy"] / 100), "Idle hours are paid for as well."),
        (Times(lambda p: 1 / p["gpus"]), "Each GPU costs that much."),
    ),
}
