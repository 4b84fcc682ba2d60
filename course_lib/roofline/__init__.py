"""What bounds a step: roofs of arithmetic, memory and network, operators counted, tiles, wires, and fits to measurements."""

from course_lib.roofline.fitting import Roofs, Run, above_roof, fit_roofs
from course_lib.roofline.operators import (
    attention,
    decode,
    elementwise,
    layernorm,
    matmul,
    relu,
    smallest_batch,
    softmax,
    table,
    tokens_to_ridge,
)
from course_lib.roofline.roofs import (
    PARTS,
    Ceiling,
    Machine,
    Work,
    attainable,
    describe,
    extended_roofline,
    machine,
    part_seconds,
    place,
    ridge,
    seconds,
    speedups,
)
from course_lib.roofline.tiles import (
    Loads,
    count_loads,
    dips,
    largest_tile,
    quantisation,
    tile_loads,
    tiled_intensity,
    tiles,
    waves,
)
from course_lib.roofline.wires import (
    Level,
    Regimes,
    bandwidth_across,
    bisection,
    effective_bandwidth,
    fit_alpha_beta,
    fit_regimes,
    half_size,
    levels,
    message_seconds,
    phases_seconds,
)

__all__ = [
    "PARTS", "Ceiling", "Level", "Loads", "Machine", "Regimes", "Roofs", "Run", "Work", "above_roof", "attainable",
    "attention", "bandwidth_across", "bisection", "count_loads", "decode", "describe", "dips", "effective_bandwidth",
    "elementwise", "extended_roofline", "fit_alpha_beta", "fit_regimes", "fit_roofs", "half_size", "largest_tile",
    "layernorm", "levels", "machine", "matmul", "message_seconds", "part_seconds", "phases_seconds", "place",
    "quantisation", "relu", "ridge", "seconds", "smallest_batch", "softmax", "speedups", "table", "tile_loads",
    "tiled_intensity", "tiles", "tokens_to_ridge", "waves",
]  # fmt: skip
