"""Answers to the one-line questions of chapter 02, with the slips that lead elsewhere."""

import math
from collections.abc import Callable

from course_lib import memory
from course_lib.judging import DrillKey, Mistake, Params
from course_lib.units import BILLION, GB, MB, MILLION


def _state(letter: str) -> Callable[[Params], float]:
    return lambda p: memory.state_bytes(p["params"], letter) / GB


def _per(count: float) -> Callable[[Params], float]:
    return lambda p: count * p["params"] / GB


_INPUTS = {
    "layers-once": lambda p: 2 * p["hidden"] * p["seq"] / GB,
    "all": lambda p: 2 * p["layers"] * p["hidden"] * p["seq"] / GB,
}

DRILLS: dict[str, DrillKey] = {
    "sixteen-bytes": DrillKey(
        answer=_state("B"),
        how="2 + 2 + 4 + 8 = 16 bytes each: {{answer}} GB.",
        mistakes=(
            Mistake("no-master", _state("A"), "The fp32 master copy is missing."),
            Mistake("moments-only", _per(8), "Those are the moments alone."),
            Mistake("weights", _per(2), "Those are the weights alone."),
        ),
    ),
    "no-master": DrillKey(
        answer=_state("A"),
        how="2 + 2 + 8 = 12 bytes each: {{answer}} GB.",
        mistakes=(
            Mistake("master", _state("B"), "There is no master copy here."),
            Mistake("moments-only", _per(8), "Weights and gradients count too."),
        ),
    ),
    "main-grads": DrillKey(
        answer=_state("C"),
        how="2 + 4 + 4 + 8 = 18 bytes each: {{answer}} GB.",
        mistakes=(
            Mistake("sixteen", _state("B"), "The gradients have 4 bytes here."),
            Mistake("both-grads", _state("E"), "There is one copy of the gradients."),
        ),
    ),
    "moments-alone": DrillKey(
        answer=_per(8),
        how="Two of 4 bytes each: {{answer}} GB.",
        mistakes=(
            Mistake("one", _per(4), "Adam keeps two."),
            Mistake("master", _per(12), "The master copy is no moment."),
        ),
    ),
    "eight-bit": DrillKey(
        answer=_per(6),
        how="From 8 bytes to 2: {{answer}} GB saved.",
        mistakes=(
            Mistake("one", _per(3), "There are two moments."),
            Mistake("what-is-left", _per(2), "That is what is left."),
        ),
    ),
    "fits-one": DrillKey(
        answer=lambda p: p["memory"] / 16 / BILLION,
        how="{{memory:gb}} over 16 bytes = {{answer}} billion.",
        mistakes=(
            Mistake("weights", lambda p: p["memory"] / 2 / BILLION, "That has room for the weights alone."),
            Mistake("twelve", lambda p: p["memory"] / 12 / BILLION, "16 bytes, with the master copy."),
        ),
    ),
    "cards-for-state": DrillKey(
        answer=lambda p: float(memory.fewest_devices(16 * p["params"], p["memory"])),
        rel=1e-9,
        how="16 × {{params:count}} bytes over {{memory:gb}}, rounded up: {{answer:int}}.",
        mistakes=(
            Mistake("not-whole", lambda p: 16 * p["params"] / p["memory"], "A device is a whole one."),
            Mistake(
                "weights", lambda p: float(math.ceil(2 * p["params"] / p["memory"])), "That is for the weights alone."
            ),
        ),
    ),
    "layer-inputs": DrillKey(
        answer=_INPUTS["all"],
        how="{{layers:int}} × {{seq:int}} × {{hidden:int}} × 2 bytes = {{answer}} GB.",
        mistakes=(
            Mistake("one-layer", _INPUTS["layers-once"], "That is one layer's."),
            Mistake("numbers", lambda p: _INPUTS["all"](p) / 2, "A number has 2 bytes."),
            Mistake(
                "no-hidden",
                lambda p: 2 * p["layers"] * p["seq"] / GB,
                "A token has as many numbers as the hidden size.",
            ),
        ),
    ),
    "thirty-four": DrillKey(
        answer=lambda p: 34 * p["hidden"] * p["seq"] / MB,
        how="34 × {{seq:int}} × {{hidden:int}} = {{answer}} MB.",
        mistakes=(
            Mistake("doubled", lambda p: 68 * p["hidden"] * p["seq"] / MB, "34 are bytes already."),
            Mistake("gigabytes", lambda p: 34 * p["hidden"] * p["seq"] / GB, "Those are GB."),
        ),
    ),
    "scores": DrillKey(
        answer=lambda p: 2 * p["heads"] * p["seq"] ** 2 / GB,
        how="{{heads:int}} × {{seq:int}}² × 2 bytes = {{answer}} GB.",
        mistakes=(
            Mistake("one-head", lambda p: 2 * p["seq"] ** 2 / GB, "Each head has its own."),
            Mistake("numbers", lambda p: p["heads"] * p["seq"] ** 2 / GB, "A number has 2 bytes."),
        ),
    ),
    "logits": DrillKey(
        answer=lambda p: 4 * p["seq"] * p["vocab"] / GB,
        how="{{seq:int}} × {{vocab:int}} × 4 bytes = {{answer}} GB.",
        mistakes=(
            Mistake("two-bytes", lambda p: 2 * p["seq"] * p["vocab"] / GB, "fp32 has 4 bytes."),
            Mistake("numbers", lambda p: p["seq"] * p["vocab"] / GB, "A number has 4 bytes."),
        ),
    ),
    "full-recompute": DrillKey(
        answer=lambda p: p["seconds"] * 4 / 3,
        how="Three forwards' work becomes four: {{answer}} s.",
        mistakes=(
            Mistake("doubled", lambda p: 2 * p["seconds"], "One forward pass more, not a whole step."),
            Mistake("added", lambda p: p["seconds"] / 3, "That is what is added."),
        ),
    ),
    "root-segments": DrillKey(
        answer=lambda p: float(round(math.sqrt(p["layers"] * p["inner"]))),
        how="√({{layers:int}} × {{inner:int}}) ≈ {{answer:int}} segments.",
        rel=0.03,
        mistakes=(
            Mistake(
                "root-only", lambda p: math.sqrt(p["layers"]), "What is inside a layer weighs more than its input."
            ),
            Mistake("per-segment", lambda p: math.sqrt(p["layers"] / p["inner"]), "Those are layers in a segment."),
        ),
    ),
    "gated-mlp": DrillKey(
        answer=lambda p: 3 * p["hidden"] * p["ffn"] / MILLION,
        how="Three matrices of {{hidden:int}} × {{ffn:int}}: {{answer}} million.",
        mistakes=(
            Mistake("two", lambda p: 2 * p["hidden"] * p["ffn"] / MILLION, "A gated MLP has three matrices."),
            Mistake("one", lambda p: p["hidden"] * p["ffn"] / MILLION, "That is one matrix."),
        ),
    ),
    "shared-keys": DrillKey(
        answer=lambda p: 2 * p["hidden"] * p["kv_heads"] * p["head_dim"] / MILLION,
        how="2 × {{hidden:int}} × {{kv_heads:int}} × {{head_dim:int}} = {{answer}} million.",
        mistakes=(
            Mistake(
                "full-size",
                lambda p: 2 * p["hidden"] * p["heads"] * p["head_dim"] / MILLION,
                "Keys and values have fewer heads.",
            ),
            Mistake(
                "one",
                lambda p: p["hidden"] * p["kv_heads"] * p["head_dim"] / MILLION,
                "Keys and values have a matrix each.",
            ),
        ),
    ),
}
