"""A run's layout as a command line of torchtitan or Megatron-LM: the same ranks, batch, schedule and recomputation.

Every flag is an option of the version that `course_runs.frameworks.framework` names. Where a framework cannot do
what this layout does, it is refused with the nearest layout that both have. `--fp8`, `--compile`, AdamW's constants and
the learning rate's schedule are not translated.
"""

import argparse
import sys
from collections.abc import Callable

from course_lib.messages import Trouble, count_text
from course_runs import options, predict

SERVER = 8  # GPUs of one server
TITAN_SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}


def torchtitan(job: predict.Job, steps: int, rate: float) -> list[str]:
    """Flags of torchtitan. Its FSDP shards over context-parallel ranks too, and its tensor parallelism always has
    sequence parallelism."""
    layout = job.layout
    if layout.tp > 1 and not layout.sp:
        raise Trouble("torchtitan's tensor parallelism always splits tokens too.", "add sp to the layout: tp=2,sp")
    if layout.cp > 1 and layout.fsdp == 1:
        raise Trouble(
            "torchtitan always shards the weights over context-parallel ranks.",
            "add fsdp to the layout, or print it for megatron, which replicates them",
        )
    if job.config.checkpointing == "selective":
        raise Trouble(
            "torchtitan's selective recomputation chooses whole layers or single operations, and not attention.",
            "--checkpointing none or full, or print it for megatron",
        )
    one = job.batch // (layout.data * layout.micro_batches)
    flags = [
        f"--parallelism.data_parallel_replicate_degree {layout.ddp}",
        f"--parallelism.data_parallel_shard_degree {layout.fsdp}",
        f"--parallelism.context_parallel_degree {layout.cp}",
        f"--parallelism.tensor_parallel_degree {layout.tp}",
        f"--parallelism.pipeline_parallel_degree {layout.pp}",
    ]
    if layout.fsdp > 1:
        flags.append(f"--parallelism.fsdp_reshard_after_forward {'always' if job.reshard else 'never'}")
    if layout.pp > 1:
        flags += [
            f"--parallelism.pipeline_parallel_schedule {TITAN_SCHEDULES[layout.schedule]}",
            f"--parallelism.num_pp_microbatches {layout.micro_batches}",
            "--parallelism.pipeline_parallel_first_stage_less_layers 0",  # 1 each, if not said
            "--parallelism.pipeline_parallel_last_stage_less_layers 0",
        ]
    flags += [
        f"--training.max_context_length {job.config.seq_len}",
        f"--training.num_tokens_per_microbatch_per_dp_rank {one * job.config.seq_len}",
        f"--training.num_tokens_per_train_step {job.batch * job.config.seq_len}",
        f"--training.steps {steps}",
        f"--training.mixed_precision_param {'bfloat16' if job.width == 2 else 'float32'}",
        f"--optimizer.param-groups.0.optimizer-kwargs.lr {rate:g}",
        f"activation-checkpoint:{job.config.checkpointing}",  # a subcommand: it comes last
    ]
    return ["-m torchtitan.train --module llama3 --config CONFIG", *flags]


def megatron(job: predict.Job, steps: int, rate: float) -> list[str]:
    """Flags of Megatron-LM, on its mock data: the ranks that no flag takes are data-parallel."""
    layout, config = job.layout, job.config
    if layout.pp > 1 and layout.schedule == "gpipe":
        raise Trouble("Megatron-LM has no GPipe schedule.", "--schedule 1f1b or interleaved")
    if layout.fsdp > 1 and layout.pp > 1:
        raise Trouble("Megatron-LM's --use-torch-fsdp2 does not go with pipelines.", "use ddp with pp, or torchtitan")
    if layout.fsdp > 1 and layout.ddp > 1:
        raise Trouble("Megatron-LM's --use-torch-fsdp2 shards over all data ranks.", "use fsdp alone, or torchtitan")
    pieces = layout.pp * layout.chunks
    if config.layers % pieces:
        raise Trouble(
            f"Megatron-LM cuts {config.layers} layers into {count_text(pieces, 'equal piece')} only.",
            "use a pp whose pieces divide the layers, or torchtitan",
        )
    flags = [
        f"--tensor-model-parallel-size {layout.tp}",
        f"--context-parallel-size {layout.cp}",
        f"--pipeline-model-parallel-size {layout.pp}",
        f"--micro-batch-size {job.batch // (layout.data * layout.micro_batches)}",
        f"--global-batch-size {job.batch}",
        f"--seq-length {config.seq_len} --max-position-embeddings {config.seq_len}",
        f"--num-layers {config.layers} --hidden-size {config.hidden} --ffn-hidden-size {config.ffn}",
        f"--num-attention-heads {config.heads}",
        "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear",
        "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0",
        f"--mock-data --tokenizer-type NullTokenizer --vocab-size {config.vocab}",
        f"--train-iters {steps} --lr {rate:g}",
    ]
    if config.kv_heads != config.heads:
        flags.append(f"--group-query-attention --num-query-groups {config.kv_heads}")
    if job.width == 2:
        flags.append("--bf16")
    if layout.sp:
        flags.append("--sequence-parallel")
    if layout.fsdp > 1:  # it demands the two flags beside it
        flags.append("--use-torch-fsdp2 --no-gradient-accumulation-fusion --ckpt-format torch_dist")
        flags += [] if job.reshard else ["--torch-fsdp2-no-reshard-after-forward"]
    if layout.chunks > 1:
        flags.append(f"--num-layers-per-virtual-pipeline-stage {config.layers // pieces}")
    if config.checkpointing == "full":
        flags.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    elif config.checkpointing == "selective":
        flags.append("--recompute-granularity selective")
    return ["pretrain_gpt.py", *flags]


FRAMEWORKS: dict[str, Callable[[predict.Job, int, float], list[str]]] = {"torchtitan": torchtitan, "megatron": megatron}
MODELS = {
    "torchtitan": "The model is torchtitan's own: name the function of its llama3 module, such as llama3_8b, in "
    "place of CONFIG.",
    "megatron": "The model has this shape. Set CUDA_DEVICE_MAX_CONNECTIONS=1 for tensor or context parallelism on "
    "GPUs before Blackwell, and leave it unset with fsdp.",
}


def command(framework: str, job: predict.Job, steps: int, rate: float) -> str:
    """The command line that starts this job's layout in a framework."""
    ranks = job.layout.ranks
    if ranks > SERVER and ranks % SERVER:
        raise Trouble(f"{ranks} ranks do not fill servers of {SERVER} GPUs.", f"use a multiple of {SERVER} ranks")
    where = f"--nnodes {max(ranks // SERVER, 1)} --nproc-per-node {min(ranks, SERVER)}"
    return " ".join(["torchrun", where, *FRAMEWORKS[framework](job, steps, rate)])


def show(given: argparse.Namespace, ranks: int) -> int:
    """Print the command line that `train`'s arguments ask for on so many ranks, and train nothing; the exit code."""
    try:
        job = options.job_of(given, ranks, "cpu" if given.device == "cpu" else "cuda")
        print(command(given.print_command, job, given.until or given.steps, given.learning_rate))
        print(f"# {MODELS[given.print_command]}", flush=True)
    except (Trouble, ValueError) as trouble:
        print(f"train: {trouble}", file=sys.stderr)
        return 2
    return 0
