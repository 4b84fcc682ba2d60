"""The numbers of a run as `honest_mfu` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib import facts


def as_run(content: Mapping[str, Any]) -> dict[str, Any]:
    """A training run's evidence as `honest_mfu` takes it: seconds of its steps, FLOPs of its model, and peaks of its devices.

    The peak of one device is the one that the evidence names: from the data sheet, or measured where there is none; then the
    sparse peak is the same. Runs of this course wait for the device after every step, so the steps add up to the wall time.
    """
    setup, measured = content["setup"], content["measured"]
    peak, tokens = measured["peak_flops"], setup["tokens_per_step"]
    per_token = measured["model_flops_per_step"] / tokens
    again = 4 / 3 if setup["checkpointing"] != "none" else 1.0  # one more forward pass
    rows = [
        {"step": place, "rank": 0, "seconds": row["seconds"]} for place, row in enumerate(content["raw"]["steps"])
    ]  # of a resumed run, too
    return {
        "rows": rows,
        "warm_up": setup["warm_up"],
        "wall_seconds": sum(row["seconds"] for row in rows[setup["warm_up"] :]),
        "tokens_per_step": tokens,
        "model_flops_per_token": per_token,
        "hardware_flops_per_token": per_token * again,
        "ranks": setup["layout"]["ranks"],
        "dtype": setup["dtype"],
        "dense_flops": {setup["dtype"]: peak},
        "sparse_flops": {setup["dtype"]: peak},
    }


def peaks_of(device: str) -> dict[str, dict[str, float]]:
    """`dense_flops` and `sparse_flops` of a data sheet: 2:4 sparsity doubles the dense peak."""
    sheet = facts.device(device)
    dense = {"bfloat16": float(sheet.dense_flops), **({"float8": float(sheet.fp8_flops)} if sheet.fp8_flops else {})}
    return {"dense_flops": dense, "sparse_flops": {dtype: 2 * flops for dtype, flops in dense.items()}}
