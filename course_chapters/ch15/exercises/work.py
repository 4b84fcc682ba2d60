"""Recorded runs and data sheets as chapter 15's exercises use them: sizes, settings, measurements, peaks."""

from collections.abc import Sequence

from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, duration_text, rate_text
from course_runs.evidence import Evidence
from course_runs.reading import recorded, recorded_names
from course_runs.sizes import SIZES


def as_run(content: Evidence) -> dict[str, object]:
    """A training run's evidence as `honest_mfu` takes it: seconds of its steps, FLOPs of its model, and peaks of its
    devices.

    The peak of one device is the one that the evidence names: from the data sheet, or measured where there is none;
    then the sparse peak is the same. Runs of this course wait for the device after every step, so the steps add up to
    the wall time.
    """
    setup, measured, kept = content["setup"], content["measured"], content["raw"]["steps"]
    peak, tokens, dtype, warm_up = measured["peak_flops"], setup["tokens_per_step"], setup["dtype"], setup["warm_up"]
    per_token = measured["model_flops_per_step"] / tokens
    again = 4 / 3 if setup["checkpointing"] != "none" else 1.0  # one more forward pass
    rows = [{"step": at, "rank": 0, "seconds": row["seconds"]} for at, row in enumerate(kept)]  # of a resumed run, too
    run = {"rows": rows, "warm_up": warm_up, "wall_seconds": sum(row["seconds"] for row in rows[warm_up:])}
    run |= {"tokens_per_step": tokens, "ranks": setup["layout"]["ranks"], "dtype": dtype}
    run |= {"model_flops_per_token": per_token, "hardware_flops_per_token": per_token * again}
    return run | {"dense_flops": {dtype: peak}, "sparse_flops": {dtype: peak}}


def peaks_of(device: str) -> dict[str, dict[str, float]]:
    """`dense_flops` and `sparse_flops` of a data sheet: 2:4 sparsity doubles the dense peak."""
    sheet = facts.device(device)
    dense = {"bfloat16": float(sheet.dense_flops)}
    dense |= {"float8": float(sheet.fp8_flops)} if sheet.get("fp8_flops") else {}
    return {"dense_flops": dense, "sparse_flops": {dtype: 2 * flops for dtype, flops in dense.items()}}


FP32 = 4
STATE = 4 * FP32  # bytes per parameter: weight, gradient and two moments
WIDE = 3  # tensors of the MLP's inner width that its backward allocates at once


def sets_with(*names: str) -> tuple[str, ...]:
    """The recorded sets ("cpu2", "cpu4") that have all these runs."""
    known = recorded_names()
    return tuple(one for one in ("cpu2", "cpu4") if all(f"{one}/{name}" in known for name in names))


def setting(name: str) -> dict[str, object]:
    """The settings of a recorded training run, known before it began, for a prediction of its step."""
    run = recorded(name)
    setup, rates, layout = run["setup"], run["setup"]["rates"], run["setup"]["layout"]
    sent, calls = run["predicted"]["wire_bytes"], sum(run["measured"]["wire_calls"].values())
    known = {"run": name, "layout": layout["name"], "ranks": layout["ranks"], "cores": run["environment"]["cores"]}
    known |= {"params": setup["parameters"], "tokens": setup["tokens_per_step"], "bits": 8 * width(run)}
    known |= {rate: rates[rate] for rate in ("flops", "alpha", "wire")} | {"calls": calls, "sent": sent}
    known |= {"flops_text": rate_text(rates["flops"]), "wire_text": f"{bytes_text(rates['wire'])}/s"}
    return known | {"alpha_text": duration_text(rates["alpha"]), "sent_text": bytes_text(sent)}


def width(run: Evidence) -> int:
    """Bytes of a number in a run's arithmetic."""
    return 2 if run["setup"]["dtype"] == "bfloat16" else FP32


def sizes(run: Evidence) -> tuple[int, int, int, int]:
    """Parameters of a block, of the embedding, of last norm and head, and how wide the MLP is inside."""
    size = SIZES[run["setup"]["size"]]
    table = size.vocab * size.hidden
    block = (run["setup"]["parameters"] - 2 * table - size.hidden) // size.layers
    attention = 2 * size.hidden * (size.hidden + size.hidden // size.heads * size.kv_heads)
    return block, table, table + size.hidden, (block - attention - 2 * size.hidden) // (3 * size.hidden)


def micro_tokens(run: Evidence) -> int:
    layout = run["setup"]["layout"]
    return run["setup"]["tokens_per_step"] // (layout["ddp"] * layout["fsdp"] * layout["micro_batches"])


def fsdp_job(run: Evidence) -> dict[str, object]:
    """A recorded FSDP run as an argument of `fsdp_peak`."""
    block, embedding, head, wide = sizes(run)
    layers, setup = SIZES[run["setup"]["size"]].layers, run["setup"]
    return {
        "units": [block] * layers,
        "rest": embedding + head,
        "ranks": setup["layout"]["fsdp"],
        "width": width(run),
        "reshard": setup["reshard_after_forward"],
        "activations": [run["predicted"]["memory"]["activations"] / layers] * layers,
        "work": [WIDE * micro_tokens(run) * wide * width(run)] * layers,
    }


def pipeline_job(run: Evidence) -> dict[str, list[float]]:
    """A recorded pipeline as an argument of `stage_peaks`; its layers must divide evenly into stages."""
    block, embedding, head, wide = sizes(run)
    size, layout, nbytes = SIZES[run["setup"]["size"]], run["setup"]["layout"], width(run)
    stages, count, tokens = layout["pp"], layout["micro_batches"], micro_tokens(run)
    in_flight = count if layout["schedule"] == "gpipe" else min(stages, count)
    ends = [embedding, *[0] * (stages - 2), head]
    logits = [0] * (stages - 1) + [tokens * size.vocab * nbytes]
    return {
        "state": [STATE * (block * size.layers // stages + more) for more in ends],
        "kept": [run["predicted"]["memory"]["activations"] / in_flight + more for more in logits],
        "boundary": [tokens * size.hidden * nbytes] * (stages - 1),
        "work": [WIDE * tokens * wide * nbytes] * stages,
    }


def seen(names: Sequence[str]) -> str:
    """The measured peak memory of these runs, in words."""
    return ", ".join(f"{bytes_text(recorded(name)['measured']['memory_bytes'])} ({name})" for name in names)


def trained() -> dict[str, Evidence]:
    return {name: recorded(name) for name in recorded_names("train")}


def traces() -> dict[str, dict[str, list[tuple[float, float]]]]:
    return {name: run["raw"]["intervals"] for name, run in trained().items() if run["raw"].get("intervals")}


def parted() -> dict[str, list[dict[str, object]]]:
    steps = {name: run["raw"]["steps"] for name, run in trained().items()}
    return {name: rows for name, rows in steps.items() if all(row.get("parts") for row in rows)}
