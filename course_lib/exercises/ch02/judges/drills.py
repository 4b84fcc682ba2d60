"""Answers to chapter 02's drills."""

import math
from collections.abc import Callable

from course_lib import memory
from course_lib.judging import Mistake, Params, Times, drill_key
from course_lib.units import BILLION, GB, MB, MILLION


def _state(letter: str) -> Callable[[Params], float]:
    return lambda p: memory.state_bytes(p["params"], letter) / GB


def _per(count: float) -> Callable[[Params], float]:
    """GB of so many bytes per parameter."""
    return lambda p: count * p["params"] / GB


DRILLS = {
    "sixteen-bytes": drill_key(
        _state("B"),
        "2 + 2 + 4 + 8 = 16 bytes each: {{answer}} GB.",
        Mistake("no-master", _state("A"), "The fp32 master copy is missing."),
        Mistake("moments-only", _per(8), "Those are the moments alone."),
        Mistake("weights", _per(2), "Those are the weights alone."),
    ),
    "no-master": drill_key(
        _state("A"),
        "2 + 2 + 8 = 12 bytes each: {{answer}} GB.",
        Mistake("master", _state("B"), "There is no master copy here."),
        Mistake("moments-only", _per(8), "Weights and gradients count too."),
    ),
    "main-grads": drill_key(
        _state("C"),
        "2 + 4 + 4 + 8 = 18 bytes each: {{answer}} GB.",
        Mistake("sixteen", _state("B"), "The gradients have 4 bytes here."),
        Mistake("both-grads", _state("E"), "There is one copy of the gradients."),
    ),
    "moments-alone": drill_key(
        _per(8),
        "Two of 4 bytes each: {{answer}} GB.",
        Mistake("one", _per(4), "Adam keeps two."),
        Mistake("master", _per(12), "The master copy is no moment."),
    ),
    "eight-bit": drill_key(
        _per(6),
        "From 8 bytes to 2: {{answer}} GB saved.",
        Mistake("one", _per(3), "There are two moments."),
        Mistake("what-is-left", _per(2), "That is what is left."),
    ),
    "fits-one": drill_key(
        lambda p: p["memory"] / 16 / BILLION,
        "{{memory:gb}} over 16 bytes = {{answer}} billion.",
        Mistake("weights", Times(8), "That has room for the weights alone."),
        Mistake("twelve", lambda p: p["memory"] / 12 / BILLION, "16 bytes, with the master copy."),
    ),
    "cards-for-state": drill_key(
        lambda p: float(memory.fewest_devices(16 * p["params"], p["memory"])),
        "16 × {{params:count}} bytes over {{memory:gb}}, rounded up: {{answer:int}}.",
        Mistake("not-whole", lambda p: 16 * p["params"] / p["memory"], "The number of devices is whole."),
        Mistake("weights", lambda p: math.ceil(2 * p["params"] / p["memory"]), "That is for the weights alone."),
        rel=1e-9,
    ),
    "layer-inputs": drill_key(
        lambda p: 2 * p["layers"] * p["hidden"] * p["seq"] / GB,
        "{{layers:int}} × {{seq:int}} × {{hidden:int}} × 2 bytes = {{answer}} GB.",
        Mistake("one-layer", lambda p: 2 * p["hidden"] * p["seq"] / GB, "That is one layer's."),
        Mistake("numbers", Times(1 / 2), "A number has 2 bytes."),
        Mistake("no-hidden", lambda p: 2 * p["layers"] * p["seq"] / GB, "A token has `hidden` numbers, not one."),
    ),
    "thirty-four": drill_key(
        lambda p: 34 * p["hidden"] * p["seq"] / MB,
        "34 × {{seq:int}} × {{hidden:int}} = {{answer}} MB.",
        Mistake("doubled", Times(2), "34 are bytes already."),
        Mistake("gigabytes", Times(MB / GB), "Those are GB."),
    ),
    "scores": drill_key(
        lambda p: 2 * p["heads"] * p["seq"] ** 2 / GB,
        "{{heads:int}} × {{seq:int}}² × 2 bytes = {{answer}} GB.",
        Mistake("one-head", lambda p: 2 * p["seq"] ** 2 / GB, "Each head has its own."),
        Mistake("numbers", Times(1 / 2), "A number has 2 bytes."),
    ),
    "logits": drill_key(
        lambda p: 4 * p["seq"] * p["vocab"] / GB,
        "{{seq:int}} × {{vocab:int}} × 4 bytes = {{answer}} GB.",
        Mistake("two-bytes", Times(1 / 2), "fp32 has 4 bytes."),
        Mistake("numbers", Times(1 / 4), "A number has 4 bytes."),
    ),
    "full-recompute": drill_key(
        lambda p: p["seconds"] * 4 / 3,
        "Three forwards' work becomes four: {{answer}} s.",
        Mistake("doubled", lambda p: 2 * p["seconds"], "One forward pass more, not a whole step."),
        Mistake("added", lambda p: p["seconds"] / 3, "That is what is added."),
    ),
    "root-segments": drill_key(
        lambda p: float(round(math.sqrt(p["layers"] * p["inner"]))),
        "√({{layers:int}} × {{inner:int}}) ≈ {{answer:int}} segments.",
        Mistake("root-only", lambda p: math.sqrt(p["layers"]), "A layer's inside weighs more than its input."),
        Mistake("per-segment", lambda p: math.sqrt(p["layers"] / p["inner"]), "Those are layers in a segment."),
        rel=0.03,
    ),
    "gated-mlp": drill_key(
        lambda p: 3 * p["hidden"] * p["ffn"] / MILLION,
        "Three matrices of {{hidden:int}} × {{ffn:int}}: {{answer}} million.",
        Mistake("two", Times(2 / 3), "A gated MLP has three matrices."),
        Mistake("one", Times(1 / 3), "That is one matrix."),
    ),
    "shared-keys": drill_key(
        lambda p: 2 * p["hidden"] * p["kv_heads"] * p["head_dim"] / MILLION,
        "2 × {{hidden:int}} × {{kv_heads:int}} × {{head_dim:int}} = {{answer}} million.",
        Mistake(
            "full-size",
            lambda p: 2 * p["hidden"] * p["heads"] * p["head_dim"] / MILLION,
            "Keys and values have fewer heads.",
        ),
        Mistake("one", Times(1 / 2), "Keys and values have a matrix each."),
    ),
}
