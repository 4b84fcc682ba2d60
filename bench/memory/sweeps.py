"""Published readings of running frameworks: each row becomes a run, and the run a prediction with the framework's
constants."""

from collections.abc import Iterator

from bench.memory.rows import Cells, Row, Skip, Tables, framework_row, in_fit_half, number, whole
from course_lib.estimate.memory import Layout, Shape, shape
from course_lib.estimate.memory.frameworks import TrainingRun
from course_lib.estimate.units import BILLION, GiB

BLOOM_VOCAB = 250_880  # rows of the padded table, BLOOM (2022)
GPT2_VOCAB = 50_304  # 50,257 padded to a multiple of 128, as Megatron pads

PLAYBOOK_KEY = ("model", "nodes", "dp", "tp", "pp", "zero_stage", "micro_batch_size", "grad_accum", "kv_heads")


def read_playbook(cells: Cells, tables: Tables) -> Iterator[Row | Skip]:
    """A reading of the H100 sweep of the Ultra-Scale Playbook: nanotron, no recomputation, the first rank."""
    if cells.get("status", "ok") not in ("ok", "repeat_run"):
        yield Skip("playbook", f"status {cells['status']}: no figure")
        return
    tied = whole(cells, "ffn") < 10_000  # as the sweep decides; its file tells of two copies, not of tying
    one = Shape(
        layers=whole(cells, "layers"),
        hidden=whole(cells, "hidden"),
        heads=whole(cells, "heads"),
        ffn=whole(cells, "ffn"),
        vocab=whole(cells, "vocab"),
        kv_heads=whole(cells, "kv_heads", whole(cells, "heads")),  # not printed: as many as heads
        gated=True,
        tied=tied,
        norm="RMSNorm",
        biases=False,
    )
    where = Layout(
        tp=whole(cells, "tp"),
        pp=whole(cells, "pp"),
        dp=whole(cells, "dp"),
        zero=whole(cells, "zero_stage"),
        microbatches=whole(cells, "grad_accum", 1),
    )
    run = TrainingRun(shape=one, layout=where, batch=whole(cells, "micro_batch_size"), seq=whole(cells, "seq_len"))
    label = " ".join(f"{name}={cells.get(name, '')}" for name in PLAYBOOK_KEY)
    measured, fitted = number(cells, "peak_memory_gb"), in_fit_half(cells, PLAYBOOK_KEY)
    yield framework_row("playbook", label, measured, GiB, "nanotron", run, fitted)


BLOOM_KEY = (
    "model_size",
    "hidden",
    "layers",
    "heads",
    "n_gpus",
    "dp",
    "tp",
    "pp",
    "micro_batch_size",
    "zero_stage",
    "section",
)


def read_bloom(cells: Cells, tables: Tables) -> Iterator[Row | Skip]:
    """A reading of BLOOM's tuning sweep: Megatron-DeepSpeed, bf16, full recomputation, sequence 2,048."""
    if cells.get("peak_memory_gb", "") == "":
        yield Skip("bloom", f"no peak_memory_gb (status {cells.get('status', '?')})")
        return
    hidden, pp, dp = whole(cells, "hidden"), whole(cells, "pp"), whole(cells, "dp")
    heads = whole(cells, "heads", 64)  # where none are printed
    batch = whole(cells, "micro_batch_size")
    one = Shape(
        layers=_bloom_layers(cells, hidden, pp), hidden=hidden, heads=heads, head_dim=hidden // heads, vocab=BLOOM_VOCAB
    )
    where = Layout(
        tp=whole(cells, "tp"),
        pp=pp,
        dp=dp,
        zero=whole(cells, "zero_stage"),
        microbatches=max(1, whole(cells, "global_batch_size") // batch // dp),
    )
    run = TrainingRun(shape=one, layout=where, batch=batch, seq=2048, checkpointing="full")
    label = " ".join(f"{name}={cells.get(name, '')}" for name in BLOOM_KEY)
    measured, fitted = number(cells, "peak_memory_gb"), in_fit_half(cells, BLOOM_KEY)
    yield framework_row("bloom", label, measured, GiB, "megatron-deepspeed", run, fitted)


def _bloom_layers(cells: Cells, hidden: int, pp: int) -> int:
    """Layers of a row. Where none are printed, or more than the printed size can have, the size gives them."""
    size = cells.get("model_size", "")
    fits = round(float(size[:-1]) * BILLION / (12 * hidden * hidden) / pp) * pp if size[-1:] == "B" else 0
    printed = whole(cells, "layers", 0)
    return printed if printed and not 0 < 2 * fits < printed else fits


V100_KEY = ("gpu", "tp", "pp", "dp", "micro_batch_size", "activation_recompute")


def read_bigscience(cells: Cells, tables: Tables) -> Iterator[Row | Skip]:
    """A reading of the 1.3B model on V100s, with or without recomputation."""
    if cells.get("peak_memory_gb", "") == "":
        yield Skip("bigscience-v100", f"no peak_memory_gb (status {cells.get('status', '?')})")
        return
    seq, batch, dp = whole(cells, "seq_len"), whole(cells, "micro_batch_size"), whole(cells, "dp")
    one = Shape(
        layers=whole(cells, "layers"),
        hidden=whole(cells, "hidden"),
        heads=whole(cells, "heads"),
        vocab=GPT2_VOCAB,
        learned_positions=seq,
    )
    where = Layout(
        tp=whole(cells, "tp"),
        pp=whole(cells, "pp"),
        dp=dp,
        zero=1,
        microbatches=max(1, whole(cells, "global_batch_size") // batch // dp),
    )
    run = TrainingRun(
        shape=one, layout=where, batch=batch, seq=seq, checkpointing=cells.get("activation_recompute", "none")
    )
    label = f"tp={where.tp} pp={where.pp} dp={dp} batch {batch} recompute {run.checkpointing} {cells.get('gpu', '')}"
    yield framework_row(
        "bigscience-v100",
        label,
        number(cells, "peak_memory_gb"),
        GiB,
        "megatron-deepspeed, device",
        run,
        in_fit_half(cells, V100_KEY),
    )


TITAN_KEY = (
    "table",
    "model",
    "n_gpus",
    "seq_len",
    "fsdp",
    "tp",
    "pp",
    "cp",
    "pp_schedule",
    "activation_checkpointing",
    "torch_compile",
    "float8",
)
TITAN_MODELS = {"llama3.1-8b": "llama3-8b", "llama3.1-70b": "llama3-70b", "llama3.1-405b": "llama3-405b"}


def read_torchtitan(cells: Cells, tables: Tables) -> Iterator[Row | Skip]:
    """A reading of torchtitan, fp32 shards over data and context ranks."""
    if cells.get("peak_memory_gib", "") == "":
        yield Skip("torchtitan", "no peak_memory_gib")
        return
    name = cells.get("model", "")
    pp, local = whole(cells, "pp", 1), whole(cells, "local_batch_size")
    micro = max(1, local // pp)  # as many micro-batches as stages, torchtitan's own choice
    virtual = 2 if "interleaved" in cells.get("pp_schedule", "").lower() else 1  # so is this
    where = Layout(
        tp=whole(cells, "tp", 1),
        pp=pp,
        cp=whole(cells, "cp", 1),
        dp=whole(cells, "fsdp", 1),
        zero=3,
        virtual=virtual,
        schedule="interleaved" if virtual > 1 else "1f1b",
        microbatches=max(1, local // micro),
    )
    kind = cells.get("activation_checkpointing", "").split("(")[0] or "none"
    words = {"compiled"} if whole(cells, "torch_compile", 0) else set()
    if words and cells.get("table") == "H200":
        words.add("compiled loss")  # torchtitan compiles the loss as well since 2025
    run = TrainingRun(
        shape=shape(TITAN_MODELS.get(name, name)),
        layout=where,
        batch=micro,
        seq=whole(cells, "seq_len"),
        checkpointing=kind,
        words=frozenset(words),
    )
    label = " ".join(f"{key}={cells.get(key, '')}" for key in TITAN_KEY)
    measured, fitted = number(cells, "peak_memory_gib"), in_fit_half(cells, TITAN_KEY)
    yield framework_row("torchtitan", label, measured, GiB, "torchtitan", run, fitted)


ZERO_BUBBLE = {  # a limit of one or two times 1F1B's memory: the schedules H1 and H2, Qi et al. (2023)
    "1F1B": "1f1b",
    "1F1B-I": "interleaved",
    "ZB-1p": "zb_h1",
    "ZB-2p": "zb_h2",
}


def read_zero_bubble(cells: Cells, tables: Tables) -> Iterator[Row | Skip]:
    """A reading of Megatron-LM under 1F1B, its interleaved form or zero-bubble, with a layer less on the first and last
    stage."""
    schedule = cells.get("schedule", "")
    if schedule not in ZERO_BUBBLE:
        yield Skip("zero-bubble", f"schedule {schedule}: none of {', '.join(ZERO_BUBBLE)}")
        return
    layers, pp = whole(cells, "layers"), whole(cells, "pp")
    one = Shape(layers=layers, hidden=whole(cells, "hidden"), heads=whole(cells, "heads"), vocab=GPT2_VOCAB)
    chunks = -(-(layers + 2) // pp) if schedule == "1F1B-I" else 1  # a layer a chunk
    where = Layout(
        pp=pp,
        dp=whole(cells, "n_gpus") // pp,
        virtual=chunks,
        schedule=ZERO_BUBBLE[schedule],
        microbatches=whole(cells, "n_microbatches"),
    )
    run = TrainingRun(shape=one, layout=where, batch=whole(cells, "micro_batch_size"), seq=whole(cells, "seq_len"))
    label = f"{cells.get('model', '')} {schedule}, {where.microbatches} micro-batches"
    yield framework_row("zero-bubble", label, number(cells, "memory_gb"), GiB, "megatron", run, False)


def read_gpipe(cells: Cells, tables: Tables) -> Iterator[Skip]:
    """Nothing: the network is none that is counted here."""
    yield Skip("gpipe", "AmoebaNet is a convolutional network; the terms are those of a transformer")
