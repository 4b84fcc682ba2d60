"""Answers to chapter 02's drills."""

import math
from collections.abc import Callable

from course_grader.judging import Params, Times, drill_key
from course_lib.estimate import memory
from course_lib.estimate.units import BILLION, GB, MB, MILLION


def _state(letter: str) -> Callable[[Params], float]:
    return lambda p: memory.state_bytes(p["params"], letter) / GB


def _per(count: float) -> Callable[[Params], float]:
    return lambda p: count * p["params"] / GB


def _keys(p: Params, heads: int) -> float:
    """Millions of parameters of the key and value matrices."""
    return 2 * p["hidden"] * heads * p["head_dim"] / MILLION


DRILLS = {
    "sixteen-bytes": drill_key(
        _state("B"),
        "2 + 2 + 4 + 8 = 16 bytes each: {{answer}} GB.",
        (_state("A"), "That leaves out the fp32 master copy."),
        (_per(8), "Those are the moments alone."),
        (_per(2), "Those are the weights alone."),
    ),
    "no-master": drill_key(
        _state("A"),
        "2 + 2 + 8 = 12 bytes each: {{answer}} GB.",
        (_state("B"), "That includes a master copy, which does not exist here."),
        (_per(8), "Those are the moments alone; add weights and gradients."),
    ),
    "main-grads": drill_key(
        _state("C"),
        "2 + 4 + 4 + 8 = 18 bytes each: {{answer}} GB.",
        (_state("B"), "That takes 2 bytes per gradient; here it is 4."),
        (_state("E"), "That counts two copies of the gradients; here there is one."),
    ),
    "moments-alone": drill_key(
        _per(8),
        "Two moments of 4 bytes each: {{answer}} GB.",
        (_per(4), "That is one moment; Adam keeps two."),
        (_per(12), "That includes the master copy, which is not a moment."),
    ),
    "eight-bit": drill_key(
        _per(6),
        "From 8 bytes to 2: {{answer}} GB saved.",
        (_per(3), "That is for one moment; there are two."),
        (_per(2), "That is what remains, not what is saved."),
    ),
    "fits-one": drill_key(
        lambda p: p["memory"] / 16 / BILLION,
        "{{memory:gb}} / 16 bytes = {{answer}} billion.",
        (Times(8), "That is room for the weights alone."),
        (lambda p: p["memory"] / 12 / BILLION, "That takes 12 bytes; a master copy makes it 16."),
    ),
    "cards-for-state": drill_key(
        lambda p: float(memory.fewest_devices(16 * p["params"], p["memory"])),
        "16 × {{params:count}} bytes / {{memory:gb}}, rounded up: {{answer:int}}.",
        (lambda p: 16 * p["params"] / p["memory"], "The number of devices must be whole."),
        (lambda p: math.ceil(2 * p["params"] / p["memory"]), "That is for the weights alone."),
        rel=1e-9,
    ),
    "layer-inputs": drill_key(
        lambda p: 2 * p["layers"] * p["hidden"] * p["seq"] / GB,
        "{{layers:int}} × {{seq:int}} × {{hidden:int}} × 2 bytes = {{answer}} GB.",
        (lambda p: 2 * p["hidden"] * p["seq"] / GB, "That is the input of one layer."),
        (Times(1 / 2), "That counts numbers; each has 2 bytes."),
        (lambda p: 2 * p["layers"] * p["seq"] / GB, "That takes one number per token."),
    ),
    "thirty-four": drill_key(
        lambda p: 34 * p["hidden"] * p["seq"] / MB,
        "34 × {{seq:int}} × {{hidden:int}} = {{answer}} MB.",
        (Times(2), "That multiplies by 2 bytes again; 34 is already in bytes."),
        (Times(MB / GB), "That is in GB; give MB."),
    ),
    "scores": drill_key(
        lambda p: 2 * p["heads"] * p["seq"] ** 2 / GB,
        "{{heads:int}} × {{seq:int}}² × 2 bytes = {{answer}} GB.",
        (lambda p: 2 * p["seq"] ** 2 / GB, "That is for one head; each head has its own scores."),
        (Times(1 / 2), "That counts numbers; each has 2 bytes."),
    ),
    "logits": drill_key(
        lambda p: 4 * p["seq"] * p["vocab"] / GB,
        "{{seq:int}} × {{vocab:int}} × 4 bytes = {{answer}} GB.",
        (Times(1 / 2), "That takes 2 bytes per number; fp32 has 4."),
        (Times(1 / 4), "That counts numbers; each has 4 bytes."),
    ),
    "full-recompute": drill_key(
        lambda p: p["seconds"] * 4 / 3,
        "The work of three forward passes becomes that of four: {{answer}} s.",
        (lambda p: 2 * p["seconds"], "That repeats the step; only the forward pass runs again."),
        (lambda p: p["seconds"] / 3, "That is the additional time alone."),
    ),
    "root-segments": drill_key(
        lambda p: float(round(math.sqrt(p["layers"] * p["inner"]))),
        "√({{layers:int}} × {{inner:int}}) ≈ {{answer:int}} segments.",
        (lambda p: math.sqrt(p["layers"]), "That is √L, without the size of a layer's inside."),
        (lambda p: math.sqrt(p["layers"] / p["inner"]), "That is √(L / inner)."),
        rel=0.03,
    ),
    "gated-mlp": drill_key(
        lambda p: 3 * p["hidden"] * p["ffn"] / MILLION,
        "Three matrices of {{hidden:int}} × {{ffn:int}}: {{answer}} million.",
        (Times(2 / 3), "That counts two matrices; a gated MLP has three."),
        (Times(1 / 3), "That is one matrix."),
    ),
    "shared-keys": drill_key(
        lambda p: _keys(p, p["kv_heads"]),
        "2 × {{hidden:int}} × {{kv_heads:int}} × {{head_dim:int}} = {{answer}} million.",
        (lambda p: _keys(p, p["heads"]), "That takes as many heads as for queries."),
        (Times(1 / 2), "That is one matrix; keys and values have one each."),
    ),
}
