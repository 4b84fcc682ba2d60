"""Readers of NVIDIA's performance pages: NeMo and Megatron-Bridge on H100 and Blackwell."""

from collections.abc import Iterator
from dataclasses import replace

from bench.planner.rows import (
    Cells,
    Skip,
    Software,
    Tables,
    Timed,
    chunked,
    in_fit_half,
    label,
    micro_batches,
    seconds_from_rate,
    seconds_of,
    whole,
)
from course_lib.estimate import memory
from course_lib.estimate.memory import Layout, Shape
from course_lib.estimate.memory.shapes import Style
from course_lib.parallel.planner import SOFTWARE, Job, cluster

CORE = Software()
NVFP4 = replace(CORE, overlap_tp=False)  # Megatron-Bridge: `tp_comm_overlap = False if precision == "nvfp4"`
GRAPHS = SOFTWARE["megatron-bridge"]
NEMO = Software(name="NeMo 24.07", fused_casts=False, launch=1e-3)
NEMO_GPT3 = replace(NEMO, dropout=True)  # launcher_scripts/conf/training/gpt3/*.yaml of NeMo-Framework-Launcher
KEY = (
    "task",
    "model",
    "system",
    "n_gpus",
    "precision",
    "global_batch_size",
    "micro_batch_size",
    "seq_len",
    "tp",
    "pp",
    "cp",
    "vp",
    "ep",
)
PLAIN: Style = {"gated": False, "tied": False, "biases": False}
NAMES = {  # as the pages write them -> a name of the course's table
    "LLAMA3_8B": "llama3-8b",
    "LLAMA3-8B": "llama3-8b",
    "LLAMA3_70B": "llama3-70b",
    "LLAMA3-70B": "llama3-70b",
    "LLAMA3.1_405B": "llama3-405b",
    "LLAMA2-7B": "llama2-7b",
    "LLAMA2-13B": "llama2-13b",
    "LLAMA2-70B": "llama2-70b",
    "DeepSeekV3": "deepseek-v3",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "GPT OSS 120B": "gpt-oss-120b",
}
INTERLEAVED = {"LLAMA2-13B": 10, "LLAMA2-70B": 20}  # as the same page's pre-training; of fine-tuning none is printed
GPT3 = {
    "GPT3-5B": Shape(layers=24, hidden=4096, heads=32, vocab=51200, **PLAIN),
    "GPT3-20B": Shape(layers=44, hidden=6144, heads=48, vocab=51200, **PLAIN),
    "GPT3-175B": Shape(layers=96, hidden=12288, heads=96, vocab=51200, **PLAIN),
}


def _shape(name: str) -> Shape | None:
    name = name.split(" (")[0]
    if name in NAMES:
        return memory.shape(NAMES[name])
    return GPT3.get(name)


def _bridge(cells: Cells, device: str, one: Shape) -> Software:
    """Mixtures in MXFP8 run as one CUDA graph since release 26.06: on racks, and of Qwen3 30B on B300."""
    if "FP4" in cells.get("precision", ""):
        return NVFP4
    late = cells["nemo_release"] >= "26.06" and cells.get("precision", "") == "MXFP8"
    racks = device in ("GB200", "GB300") or (device == "B300" and cells["model"] == "Qwen3_30B_a3B")
    return GRAPHS if one.experts and late and racks else CORE


def read_nvidia(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """A row of a performance page; no recomputation is printed, so none is assumed."""
    model, system, task = cells.get("model", ""), cells.get("system", ""), cells.get("task", "")
    one = _shape(model)
    name = "nemo" if not cells.get("nemo_release", "") else "megatron-bridge"
    kind = "" if one is None else ("-moe" if one.experts else "-dense")
    device = next((each for each in ("GB300", "GB200", "B300", "B200", "H200", "H100") if each in system), "")
    if one is None:
        yield Skip(name, f"no shape of {model}, or a layer that is no attention")
    elif not device:
        yield Skip(name, f"unknown system {system!r}")
    elif "LoRA" in task:
        yield Skip(name, "LoRA: no weight gradients")
    else:
        source = name if name == "nemo" else f"bridge-{'h100' if device in ('H100', 'H200') else 'blackwell'}{kind}"
        yield _timed(cells, source, device, one)


def read_long(cells: Cells, tables: Tables) -> Iterator[Timed | Skip]:
    """A row of NeMo's long sequences with context parallelism; its FLOP/s count attention in full."""
    if not cells.get("degrees_consistent", "").startswith("yes"):
        yield Skip("nemo-long", "printed degrees do not multiply to the devices")
        return
    gpus, batch, seq = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "seq_len")
    tp, pp, cp, dp = (whole(cells, column) for column in ("tp", "pp", "cp", "dp"))
    job = Job(model=_shape(cells["model"]), seq=seq, sequences=batch, dtype="fp8", software=NEMO)
    cells["model_tflops_per_gpu"] = cells["tflops_per_gpu_with_cp"]
    layout = Layout(tp=tp, sp=tp > 1, pp=pp, cp=cp, dp=dp, zero=1, microbatches=micro_batches(batch, dp, 1))
    yield Timed(
        source="nemo-long",
        label=label(cells, KEY),
        group="",
        seconds=seconds_from_rate(cells, job, gpus, 0.0),
        job=job,
        cluster=cluster("H100", gpus),
        layout=layout,
        fitted=in_fit_half(cells, KEY),
    )


def _timed(cells: Cells, source: str, device: str, one: Shape) -> Timed:
    gpus, batch, seq = whole(cells, "n_gpus"), whole(cells, "global_batch_size"), whole(cells, "seq_len")
    unprinted = INTERLEAVED.get(cells.get("model", ""), 1) if source == "nemo" else 1
    tp, pp, cp, virtual, ep = (
        whole(cells, column, usual) or 1
        for column, usual in (("tp", 1), ("pp", 1), ("cp", 1), ("vp", unprinted), ("ep", 1))
    )
    dp, precision = gpus // (tp * pp * cp), cells.get("precision", "")
    fsdp = whole(cells, "fsdp_group", 0)
    return Timed(
        source=source,
        label=label(cells, KEY),
        group=label(cells, ("model", "system", "n_gpus", "global_batch_size", "precision")),
        seconds=seconds_of(cells, batch * seq, gpus),
        job=Job(
            model=one,
            seq=seq,
            sequences=batch,
            dtype="fp4" if "FP4" in precision else "bf16" if "BF16" in precision else "fp8",
            software=_bridge(cells, device, one) if source != "nemo" else NEMO_GPT3 if cells["model"] in GPT3 else NEMO,
        ),
        cluster=cluster(device, gpus),
        layout=Layout(
            tp=tp,
            sp=tp > 1,
            cp=cp,
            pp=pp,
            dp=dp,
            ep=ep,
            zero=3 if fsdp > 1 else 1,
            virtual=virtual if pp > 1 else 1,
            schedule=chunked(virtual if pp > 1 else 1),
            microbatches=micro_batches(batch, dp, whole(cells, "micro_batch_size", 1)),
        ),
        fitted=in_fit_half(cells, KEY),
    )
