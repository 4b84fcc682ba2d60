"""The tables of chapter 01."""

from collections.abc import Mapping, Sequence

from IPython.display import Markdown

from course_chapters.ch01.exercises.numbers import H100, SHAPE, SYMPTOMS
from course_chapters.running_example import MFU, PARAMS, TOKENS
from course_chapters.table import table
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import BILLION, TFLOP, bytes_text, duration_text, percent_text


def conventions(params: float, device: facts.Device) -> Markdown:
    """The seven conventions of counting state: bytes of each bucket, the total, and the fewest devices for the
    model."""
    rows = []
    for one in memory.CONVENTIONS.values():
        state = memory.state_bytes(params, one)
        buckets = {name.replace("_", " "): f"{size:g}" if size else "–" for name, size in one.buckets.items()}
        total = {"bytes per parameter": f"**{one.bytes_per_param:g}**", "70B state": bytes_text(state)}
        gpus = {"H100s": memory.fewest_devices(state, device.memory)}
        rows.append({"": f"**{one.letter}**", **buckets, **total, **gpus, "who counts like this": one.used_by})
    return table(rows)


def largest_models(guesses: Mapping[str, float | None]) -> Markdown:
    """The largest model (billions of parameters) whose state fits on one device, next to the learner's guess."""
    rows = []
    for name, guess in guesses.items():
        device = facts.device(name)
        largest = memory.largest_model(device.memory) / BILLION
        compared = "–" if guess is None else f"{guess:g}B, {guess / largest:.2f} × the answer"
        rows.append(
            {"GPU": name, "memory": device.memory.text, "largest model": f"{largest:.1f}B", "your guess": compared}
        )
    return table(rows)


def years_by_gpus(counts: Sequence[int]) -> Markdown:
    """Time of the running example's tokens on so many H100s, with a round peak and with that of the data sheet."""
    rows = []
    for gpus in counts:
        round_peak, data_sheet = (
            compute.train_seconds(PARAMS, TOKENS, peak, mfu=MFU, devices=gpus)
            for peak in (1000 * TFLOP, H100.dense_flops)
        )
        times = {"round peak": duration_text(round_peak), "data sheet's peak": duration_text(data_sheet)}
        rows.append({"GPUs": f"{gpus:,}", **times, "ratio": f"{data_sheet / round_peak:.3f}"})
    return table(rows)


def recomputed_mfu(run: facts.PublishedRun) -> float | None:
    """MFU of a published run from the rate that it published, as a fraction; None without a rate."""
    if run.get("tokens_per_s") is None:
        rate = run.get("flops_per_device")
        return rate and rate / facts.device(run.device).dense_flops
    model, peak = facts.model(run.model), facts.device(run.device).dense_flops
    attention = compute.attention_flops_per_token(model.layers, model.heads * model.head_dim, run.seq_len)
    return compute.mfu(run.params, run.tokens_per_s, run.devices, peak, attention)


def published_mfus() -> Markdown:
    """Every published run with an MFU, and the MFU recomputed from its rate."""
    rows = []
    for run in facts.runs().values():
        if run.get("mfu") and run.name != "Llama 3.1 405B":  # its MFU is that of one of the three rows of Table 4
            ours = recomputed_mfu(run)
            mfu = {"MFU published": run.mfu.text, "recomputed": percent_text(ours) if ours else "–"}
            hfu = {"HFU published": run.hfu.text if run.get("hfu") else "–"}
            rows.append({"run": run.name, "device": run.device, **mfu, **hfu, "source": run.mfu.source.split(", ")[-1]})
    return table(rows)


def labeled_symptoms(labels: Sequence[str | None]) -> Markdown:
    """The learner's labels of the ten symptoms, each judged, with the reason where the label is right."""
    rows = []
    for number, (label, symptom) in enumerate(zip(labels, SYMPTOMS, strict=True), 1):
        right = label == symptom.wall
        verdict = "right" if right else "not labeled yet" if label is None else "try again"
        rows.append(
            {"symptom": number, "your label": label or "–", "": verdict, "reason": symptom.why if right else ""}
        )
    return table(rows)


def one_step_by_convention(published_s: float, tokens: int) -> Markdown:
    """Time of one 70B step on one H100 of 1 PFLOP/s with attention counted in three ways, over a published time."""
    full = compute.attention_share(PARAMS, SHAPE.layers, SHAPE.heads * SHAPE.head_dim, tokens)
    rows = []
    for name, extra in (("6ΨD alone", 0), ("with causal attention", full / 2), ("with full attention", full)):
        flops = compute.train_flops(PARAMS, tokens) * (1 + extra)
        seconds = flops / (1000 * TFLOP * MFU)
        counted = {"counted": name, "extra": percent_text(extra, 2), "FLOP": f"{flops:.3g}"}
        rows.append(
            {**counted, "one step": duration_text(seconds), "over the published": f"{seconds / published_s:,.0f} ×"}
        )
    return table(rows)
