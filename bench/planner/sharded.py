"""Readers of tables of sharded data parallelism: MosaicML's LLM Foundry, torchtitan, and nanotron's sweep."""

from collections.abc import Iterator
from dataclasses import replace

from bench.planner.rows import Cells, Skip, Tables, Timed, in_fit_half, label, number, whole
from course_lib.estimate.memory import Layout, Shape
from course_lib.parallel.planner import SOFTWARE, Job, cluster

FOUNDRY = replace(SOFTWARE["course"], name="LLM Foundry", split_messages=True)
FOUNDRY_KEY = ("model", "seq_len", "n_gpus", "gpu", "micro_batch_size", "grad_accum", "precision")


def read_foundry(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """LLM Foundry's throughput table: MPT models under FSDP."""
    gpus, batch, seq = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "seq_len")
    if cells.get("activation_cpu_offload", "") == "True":
        yield Skip("mosaic", "activations are kept in the processor's memory")
        return
    name = cells.get("gpu", "")
    device = "H100" if "h100" in name else "A100 SXM 40GB" if "40" in name else "A100 SXM 80GB"
    source = "mosaic-h100" if device == "H100" else "mosaic-a100-40gb" if "40" in name else "mosaic-a100-80gb"
    one = Shape(
        layers=whole(cells, "n_layers"),
        hidden=whole(cells, "d_model"),
        heads=whole(cells, "n_heads"),
        vocab=50368,
        learned_positions=seq,
        biases=False,
    )
    stage = {"SHARD_GRAD_OP": 2, "FULL_SHARD": 3}.get(cells.get("fsdp_sharding", ""), 3)
    yield Timed(
        source=source,
        label=label(cells, FOUNDRY_KEY),
        group="",
        seconds=batch * seq / number(cells, "throughput_tokens_per_s"),
        job=Job(
            model=one,
            seq=seq,
            sequences=batch,
            dtype="fp8" if "fp8" in cells.get("precision", "") else "bf16",
            recompute="full" if cells.get("activation_checkpointing", "") == "True" else "none",
            software=FOUNDRY,
        ),
        cluster=cluster(device, gpus),
        layout=Layout(dp=gpus, zero=stage, microbatches=whole(cells, "grad_accum", 1)),
        fitted="40" not in name and in_fit_half(cells, FOUNDRY_KEY),
    )


TITAN_KEY = (
    "model",
    "hardware",
    "n_gpus",
    "local_batch_size",
    "seq_len",
    "fsdp",
    "tp",
    "pp",
    "cp",
    "torch_compile",
    "float8",
    "async_tp",
)


def read_torchtitan(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """torchtitan's benchmarks: Llama 3.1 under FSDP2 with tensor, pipeline and context parallelism."""
    gpus, local, seq = whole(cells, "n_gpus"), whole(cells, "local_batch_size"), whole(cells, "seq_len", 8192)
    tp, pp, cp, fsdp = (whole(cells, name, 1) for name in ("tp", "pp", "cp", "fsdp"))
    schedule = cells.get("pp_schedule", "").lower()
    virtual = 2 if pp > 1 and "interleaved" in schedule else 1
    size = cells.get("model", "").split("-")[-1]
    compiled = cells.get("torch_compile", "") == "1"
    software = replace(
        SOFTWARE["torchtitan"], kernels="fused" if compiled else "eager", overlap_tp=cells.get("async_tp", "") == "1"
    )
    batch = fsdp * local
    yield Timed(
        source="torchtitan",
        label=label(cells, TITAN_KEY),
        group=label(cells, ("model", "n_gpus", "seq_len", "float8", "async_tp")),
        seconds=batch * seq / number(cells, "tokens_per_s_per_gpu") / gpus,
        job=Job(
            model=f"llama3-{size}",
            seq=seq,
            sequences=batch,
            dtype="bf16"
            if cells.get("float8", "0") in ("", "0") or "rowwise" in cells["float8"]
            else "fp8",  # as fast as bf16
            recompute=next(
                (word for word in ("full", "none") if cells.get("activation_checkpointing", "").startswith(word)),
                "selective",
            ),
            software=software,
        ),
        cluster=cluster("H200" if "H200" in cells.get("hardware", "") else "torchtitan H100", gpus),
        layout=Layout(
            tp=tp,
            sp=tp > 1,
            cp=cp,
            pp=pp,
            dp=fsdp,
            zero=3,
            virtual=virtual,
            schedule="interleaved" if virtual > 1 else "1f1b",
            microbatches=local if pp > 1 else 1,
        ),
        fitted=in_fit_half(cells, TITAN_KEY),
    )


PLAYBOOK_KEY = ("model", "nodes", "dp", "tp", "pp", "zero_stage", "micro_batch_size", "grad_accum", "kv_heads")


def read_playbook(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """The H100 sweep of the Ultra-Scale Playbook: nanotron, sequence 4,096, no recomputation."""
    if cells.get("status", "ok") not in ("ok", "repeat_run"):
        yield Skip("playbook", f"status {cells['status']}: no figure")
        return
    gpus, seq = whole(cells, "n_gpus"), whole(cells, "seq_len")
    dp, tp, pp, micro = (whole(cells, name) for name in ("dp", "tp", "pp", "micro_batch_size"))
    adding = whole(cells, "grad_accum", 1)
    one = Shape(
        layers=whole(cells, "layers"),
        hidden=whole(cells, "hidden"),
        heads=whole(cells, "heads"),
        ffn=whole(cells, "ffn"),
        vocab=whole(cells, "vocab"),
        kv_heads=whole(cells, "kv_heads", whole(cells, "heads")),
        gated=True,
        tied=whole(cells, "ffn") < 10_000,
        norm="RMSNorm",
        biases=False,
    )
    batch = dp * micro * adding
    yield Timed(
        source="playbook-one-stage" if pp == 1 and tp <= 8 else "playbook-others",
        label=label(cells, PLAYBOOK_KEY),
        group=label(cells, ("model", "nodes", "kv_heads")),
        seconds=batch * seq / number(cells, "tokens_per_s_per_gpu") / gpus,
        job=Job(model=one, seq=seq, sequences=batch, software="nanotron"),
        cluster=cluster("Playbook H100", gpus),
        layout=Layout(tp=tp, sp=tp > 1, pp=pp, dp=dp, zero=whole(cells, "zero_stage"), microbatches=adding),
        fitted=in_fit_half(cells, PLAYBOOK_KEY),
    )
