"""A plan as the command line of a framework, in the version that `facts.framework` names: its options are kept as data."""

from course_lib.estimate import facts
from course_lib.estimate.memory import shape
from course_lib.parallel.planner.search import Plan

TITAN_SCHEDULES = {
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "gpipe": "GPipe",
    "zb_v": "ZBVZeroBubble",
    "dualpipe_v": "DualPipeV",
}


TITAN_MODELS = {
    "llama3-8b": "--module llama3 --config llama3_8b",
    "llama3-70b": "--module llama3 --config llama3_70b",
    "llama3-405b": "--module llama3 --config llama3_405b",
    "qwen3-0.6b": "--module qwen3 --config qwen3_0_6b",
    "qwen3-1.7b": "--module qwen3 --config qwen3_1_7b",
    "qwen3-14b": "--module qwen3 --config qwen3_14b",
    "qwen3-32b": "--module qwen3 --config qwen3_32b",
    "qwen3-30b-a3b": "--module qwen3 --config qwen3_30b_a3b",
    "gpt-oss-20b": "--module gpt_oss --config gpt_oss_20b",
    "gpt-oss-120b": "--module gpt_oss --config gpt_oss_120b",
}


def torchtitan(plan: Plan) -> list[str]:
    """Flags of torchtitan, whose FSDP shards over all data ranks of a replica. A model that it lacks is one to write: MODULE, CONFIG."""
    where, job = plan.layout, plan.job
    micro = int(job.sequences // (where.dp * where.microbatches) * job.seq)
    flags = [
        next(
            (words for name, words in TITAN_MODELS.items() if shape(name) == job.shape),
            "--module MODULE --config CONFIG",
        ),
        f"--parallelism.data_parallel_shard_degree {where.dp // where.replicas}",
        f"--parallelism.data_parallel_replicate_degree {where.replicas}",
        f"--parallelism.tensor_parallel_degree {where.tp}",
        f"--parallelism.context_parallel_degree {where.cp}",
        f"--parallelism.pipeline_parallel_degree {where.pp}",
        f"--training.max_context_length {int(job.seq)}",
        f"--training.num_tokens_per_microbatch_per_dp_rank {micro}",
        f"--training.num_tokens_per_train_step {int(job.sequences * job.seq)}",
    ]
    if where.ep > 1:
        flags.append(f"--parallelism.expert_parallel_degree {where.ep}")
    if where.pp > 1:
        if where.schedule not in TITAN_SCHEDULES:
            raise ValueError(
                f"torchtitan has no schedule {where.schedule!r}; choose from {', '.join(TITAN_SCHEDULES)}."
            )
        flags.append(f"--parallelism.pipeline_parallel_schedule {TITAN_SCHEDULES[where.schedule]}")
        flags += [
            f"--parallelism.num_pp_microbatches {where.microbatches}",
            "--parallelism.pipeline_parallel_first_stage_less_layers 0",  # the default is 1 each
            "--parallelism.pipeline_parallel_last_stage_less_layers 0",
        ]
        if where.virtual > 1:
            flags.append(
                f"--parallelism.pipeline_parallel_layers_per_stage {job.shape.layers // where.pp // where.virtual}"
            )
    flags.append(f"activation-checkpoint:{job.recompute}")  # a subcommand: it comes last
    return ["torchrun", *_workers(plan), "-m torchtitan.train", *flags]


def megatron(plan: Plan) -> list[str]:
    """Flags of Megatron-LM."""
    where, job, one = plan.layout, plan.job, plan.job.shape
    flags = [
        f"--tensor-model-parallel-size {where.tp}",
        f"--context-parallel-size {where.cp}",
        f"--pipeline-model-parallel-size {where.pp}",
        f"--micro-batch-size {int(job.sequences // (where.dp * where.microbatches))}",
        f"--global-batch-size {int(job.sequences)}",
        f"--seq-length {int(job.seq)} --max-position-embeddings {int(job.seq)}",
        f"--num-layers {one.layers} --hidden-size {one.hidden} --ffn-hidden-size {one.ffn}",
        f"--num-attention-heads {one.heads}",
        "--bf16" if job.dtype == "bf16" else "--bf16 --fp8-format hybrid",
    ]
    if one.kv_heads != one.heads:
        flags.append(f"--group-query-attention --num-query-groups {one.kv_heads}")
    if where.sp:
        flags.append("--sequence-parallel")
    if where.zero == 3:
        if where.pp > 1 or where.ep > 1 or where.replicas > 1:
            raise ValueError("Megatron-LM's --use-torch-fsdp2 goes with neither pipelines, experts nor replicas.")
        flags.append("--use-torch-fsdp2 --no-gradient-accumulation-fusion --ckpt-format torch_dist")
        flags.append("--untie-embeddings-and-output-weights")
    elif where.zero:
        flags.append("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather")
    if where.virtual > 1:
        flags.append(f"--num-layers-per-virtual-pipeline-stage {one.layers // where.pp // where.virtual}")
    if where.ep > 1:
        flags.append(
            f"--expert-model-parallel-size {where.ep} --num-experts {one.experts} --moe-router-topk {one.top_k}"
        )
    if job.recompute == "full":
        flags.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    elif job.recompute == "selective":
        flags.append("--recompute-granularity selective")
    return ["torchrun", *_workers(plan), "pretrain_gpt.py", *flags]


def course(plan: Plan) -> list[str]:
    """The same mesh for `course run train`: ZeRO-3 is its `fsdp`, everything else its `ddp`; it has no expert ranks.

    `course run` starts processes on one server, so torchrun starts those of several.
    """
    where = plan.layout
    if where.ep > 1:
        raise ValueError("course run has no expert-parallel ranks; choose a plan with ep=1.")
    data = {"fsdp": where.dp // where.replicas, "ddp": where.replicas} if where.zero == 3 else {"ddp": where.dp}
    degrees = {"pp": where.pp, **data, "cp": where.cp, "tp": where.tp}
    parts = [f"{name}={size}" for name, size in degrees.items() if size > 1]
    layout = ",".join([*parts, *(["sp"] if where.sp and where.tp > 1 else [])]) or "ddp"
    if where.ranks <= plan.cluster.per_node:
        return [f"course run train --nproc {where.ranks} --layout {layout}"]
    return ["torchrun", *_workers(plan), "-m course_runs.train", f"--layout {layout}"]


def _workers(plan: Plan) -> list[str]:
    """torchrun's own flags. The same line runs on every server; replace FIRST_SERVER by the name of the first."""
    per_node = min(plan.cluster.gpus, plan.cluster.per_node)
    nodes = plan.cluster.gpus // per_node
    meeting = ["--rdzv-backend c10d --rdzv-endpoint FIRST_SERVER:29500"] if nodes > 1 else []
    return [f"--nnodes {nodes} --nproc-per-node {per_node}", *meeting]


FRAMEWORKS = {"torchtitan": torchtitan, "megatron": megatron, "course": course}


def command(plan: Plan, framework: str) -> str:
    """The command line that starts this plan in a framework; a comment at its end names the version it is written for."""
    if framework not in FRAMEWORKS:
        raise ValueError(f"No framework {framework!r}; choose from {', '.join(FRAMEWORKS)}.")
    line, known = " ".join(FRAMEWORKS[framework](plan)), facts.frameworks().get(framework)
    return f"{line}  # {known.version}, {known.date}" if known else line
