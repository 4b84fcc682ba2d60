"""How many bytes each rank sends in one step along each axis of a mesh, before anything runs. Arithmetic only: no torch.

Along tp every layer has four all-reduces of its activations (09); along cp keys and values are gathered in both passes and
their gradients scattered (11); along pp one tensor per micro-batch crosses a border in each direction (10); and the gradients
are averaged once over dp and cp together (07).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.memory.shapes import layer_params, params_by_part
from course_lib.memory.shapes import shape as shape_of

AXES = ("dp", "pp", "cp", "tp")


def sent_bytes(
    shape: Any,
    sizes: Mapping[str, int],
    sequences: float,
    seq: float,
    *,
    width: float = 2.0,
    gradient_width: float = 2.0,
    sequence_parallel: bool = True,
) -> dict[str, float]:
    """Bytes that a rank of an inner pipeline stage sends in a step of `sequences` sequences of `seq` tokens, by axis.

    "dp" is the averaging over dp and cp. `width` is the bytes of an activation, `gradient_width` those of a gradient. The
    layers alone count along tp: embedding, head and loss add little. With `sequence_parallel`, a message between stages is
    split over tp.
    """
    one = shape_of(shape)
    unknown = [axis for axis in sizes if axis not in AXES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no axis of this model; the axes are {', '.join(AXES)}.")
    dp, pp, cp, tp = (sizes.get(axis, 1) for axis in AXES)
    tokens = sequences * seq / (dp * cp)  # that this rank computes in a step
    layers, copies = one.layers / pp, dp * cp
    block = 2 * tokens * one.kv_width / max(1, min(tp, one.kv_heads)) * width  # keys and values
    gradients = layers * layer_params(one, tp) + (params_by_part(one)["embedding"] / tp if pp == 1 else 0)
    return {
        "dp": 2 * (copies - 1) / copies * gradients * gradient_width,
        "pp": 2 * tokens * one.hidden * width / (tp if sequence_parallel else 1) if pp > 1 else 0.0,
        "cp": 3 * (cp - 1) * layers * block,
        "tp": 8 * (tp - 1) / tp * layers * tokens * one.hidden * width,
    }
