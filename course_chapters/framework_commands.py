"""A plan as the command line of a framework, in the version that `course_runs.frameworks` names. Its options are kept
as data."""

import math
import re

from course_lib.estimate.memory import Shape, count_params, shape
from course_lib.parallel.planner.clusters import RACKS, TRAY
from course_lib.parallel.planner.search import Plan
from course_runs.frameworks import frameworks

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


BRIDGE_RECIPES = {
    "llama2-7b": "llama2_7b_pretrain_2gpu_h100_bf16_config",
    "llama3-8b": "llama3_8b_pretrain_2gpu_h100_bf16_config",
    "llama3-70b": "llama3_70b_pretrain_32gpu_h100_bf16_config",
    "llama3-405b": "llama31_405b_pretrain_256gpu_h100_bf16_config",
    "llama3.2-1b": "llama32_1b_pretrain_1gpu_h100_bf16_config",
    "llama3.2-3b": "llama32_3b_pretrain_1gpu_h100_bf16_config",
    "qwen2.5-0.5b": "qwen25_500m_pretrain_1gpu_h100_bf16_config",
    "qwen2.5-1.5b": "qwen25_1p5b_pretrain_1gpu_h100_bf16_config",
    "qwen2.5-7b": "qwen25_7b_pretrain_2gpu_h100_bf16_config",
    "qwen2.5-72b": "qwen25_72b_pretrain_32gpu_h100_bf16_config",
    "qwen3-0.6b": "qwen3_600m_pretrain_1gpu_h100_bf16_config",
    "qwen3-1.7b": "qwen3_1p7b_pretrain_1gpu_h100_bf16_config",
    "qwen3-4b": "qwen3_4b_pretrain_2gpu_h100_bf16_config",
    "qwen3-8b": "qwen3_8b_pretrain_4gpu_h100_bf16_config",
    "qwen3-14b": "qwen3_14b_pretrain_8gpu_h100_bf16_config",
    "qwen3-32b": "qwen3_32b_pretrain_16gpu_h100_bf16_config",
    "qwen3-30b-a3b": "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config",
    "qwen3-235b-a22b": "qwen3_235b_a22b_pretrain_256gpu_h100_bf16_config",
    "gpt-oss-20b": "gpt_oss_20b_pretrain_16gpu_h100_bf16_config",
    "gpt-oss-120b": "gpt_oss_120b_pretrain_64gpu_h100_bf16_config",
    "deepseek-v3": "deepseek_v3_pretrain_1024gpu_h100_bf16_config",
    "kimi-k2": "kimi_k2_pretrain_512gpu_h100_bf16_config",
    "glm-4.5": "glm45_355b_pretrain_128gpu_h100_bf16_config",
}
COURSE_SIZES = {  # parameters, layers and heads of keys of `course run train --size`
    "1m": (1e6, 4, 4),
    "10m": (1e7, 8, 8),
    "60m": (6e7, 12, 10),
    "125m": (1.25e8, 12, 12),
    "350m": (3.5e8, 24, 16),
    "1b": (1e9, 18, 16),
    "3b": (3e9, 36, 20),
    "7b": (7e9, 32, 32),
}
STEPS = 100  # that a printed command trains


def _known(names: dict[str, str], plan: Plan) -> str | None:
    """The entry of the model of the table that the plan's model equals."""
    return next((words for name, words in names.items() if shape(name) == plan.job.shape), None)


def _less(plan: Plan) -> int:
    """Layers that the first and the last stage have less than others: 1 where embedding and head count as layers."""
    return int(plan.job.shape.layers % (plan.layout.pp * plan.layout.virtual) > 0)


def _chunk(plan: Plan) -> int:
    """Layers of one chunk, embedding and head among them where they count."""
    return int((plan.job.shape.layers + 2 * _less(plan)) // plan.layout.pp // plan.layout.virtual)


def _offloads(plan: Plan, name: str, what: str) -> None:
    """Refuse a plan that has something else in the server's memory than the framework can have there."""
    if plan.job.software.offloads != what:
        raise ValueError(f"{name} can keep the {what} in the server's memory, not the {plan.job.software.offloads}.")


def torchtitan(plan: Plan) -> list[str]:
    """Flags of torchtitan, whose FSDP shards over all data ranks of a replica. A model that it lacks is one to write:
    MODULE, CONFIG."""
    where, job = plan.layout, plan.job
    if job.dtype != "bf16":
        raise ValueError(f"torchtitan chooses {job.dtype} in a model's CONFIG, not on the command line.")
    flags = [
        _known(TITAN_MODELS, plan) or "--module MODULE --config CONFIG",
        f"--parallelism.data_parallel_shard_degree {where.dp // where.replicas}",
        f"--parallelism.data_parallel_replicate_degree {where.replicas}",
        f"--parallelism.tensor_parallel_degree {where.tp}",
        f"--parallelism.context_parallel_degree {where.cp}",
        f"--parallelism.pipeline_parallel_degree {where.pp}",
        f"--training.max_context_length {int(job.seq)}",
        f"--training.num_tokens_per_microbatch_per_dp_rank {plan.micro * int(job.seq)}",
        f"--training.num_tokens_per_train_step {int(job.sequences * job.seq)}",
        f"--training.steps {STEPS}",
        f"--parallelism.fsdp_reshard_after_forward {'always' if where.zero == 3 else 'never'}",
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
            f"--parallelism.pipeline_parallel_first_stage_less_layers {_less(plan)}",
            f"--parallelism.pipeline_parallel_last_stage_less_layers {_less(plan)}",
        ]
        if where.virtual > 1:
            flags.append(f"--parallelism.pipeline_parallel_layers_per_stage {_chunk(plan)}")
    if job.offload:
        _offloads(plan, "torchtitan", "state")
        flags.append("--training.enable_cpu_offload")
    flags.append(f"activation-checkpoint:{job.recompute}")  # a subcommand: it comes last
    return ["torchrun", *_workers(plan), "-m torchtitan.train", *flags]


def megatron(plan: Plan) -> list[str]:
    """Flags of Megatron-LM, for the same model on its mock data."""
    where, job, one = plan.layout, plan.job, plan.job.shape
    flags = [
        f"--tensor-model-parallel-size {where.tp}",
        f"--context-parallel-size {where.cp}",
        f"--pipeline-model-parallel-size {where.pp}",
        f"--micro-batch-size {plan.micro}",
        f"--global-batch-size {int(job.sequences)}",
        f"--seq-length {int(job.seq)} --max-position-embeddings {max(int(job.seq), int(one.learned_positions))}",
        *_megatron_model(one),
        f"--mock-data --tokenizer-type NullTokenizer --vocab-size {one.vocab} --train-iters {STEPS} --lr 1e-4",
        {"bf16": "--bf16", "fp8": "--bf16 --fp8-format hybrid", "fp4": "--bf16 --fp4-format e2m1"}[job.dtype],
    ]
    if where.sp:
        flags += ["--sequence-parallel"] + ["--tp-comm-overlap"] * job.software.overlap_tp
    if where.zero == 3:
        if where.pp > 1 or where.ep > 1 or where.replicas > 1:
            raise ValueError("Megatron-LM's --use-torch-fsdp2 goes with neither pipelines, experts nor replicas.")
        if one.tied:
            raise ValueError("Megatron-LM's --use-torch-fsdp2 needs an output projection that is not tied.")
        flags.append("--use-torch-fsdp2 --no-gradient-accumulation-fusion --ckpt-format torch_dist")
    elif where.zero:
        flags.append("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather")
    if job.offload:
        _offloads(plan, "Megatron-LM", "moments")
        flags.append("--optimizer-cpu-offload --optimizer-offload-fraction 1.0 --use-precision-aware-optimizer")
        flags.append("--overlap-cpu-optimizer-d2h-h2d")
    if where.virtual > 1:
        flags.append(f"--num-layers-per-virtual-pipeline-stage {_chunk(plan)}")
    if _less(plan):
        flags.append("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split")
    if where.ep > 1:
        flags.append(f"--expert-model-parallel-size {where.ep}")
    if job.recompute == "full":
        flags.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    elif job.recompute == "selective":
        flags.append(f"--recompute-granularity selective --recompute-modules {' '.join(_modules(plan))}")
    return ["torchrun", *_workers(plan), "pretrain_gpt.py", *flags]


def _modules(plan: Plan) -> list[str]:
    """Megatron Core's names of what selective recomputation repeats."""
    names = {"core": "core_attn", "norm": "layernorm", "mlp": "moe" if plan.job.shape.experts else "mlp"}
    fused = plan.job.software.attention != "unfused"  # whose backward pass computes the scores anyway
    return [names[each] for each in plan.job.software.selective if each in names and not (fused and each == "core")]


MEGATRON_LACKS = {  # what a model has, and Megatron-LM's options cannot say: field, value, words
    "embedding_norm": (1, "a norm after the embedding"),
    "wide_norms": (1, "norms over all heads of queries together"),
    "layer_norms": (1, "one norm for attention and MLP"),
    "head_bias": (1, "a bias of the output projection"),
    "norm": ("LayerNorm without weights", "norms without weights"),
    "attention_biases": ("qkvo", "a bias of attention's output where the MLP has none"),
    "expert_biases": (1, "biases of experts"),
    "index_heads": (64, "an indexer of sparse attention"),
}


def _megatron_model(one: Shape) -> list[str]:
    """The flags that make Megatron-LM's model this one, parameter by parameter."""
    for name, (value, words) in MEGATRON_LACKS.items():
        if getattr(one, name) == value:
            raise ValueError(f"This model has {words}, which no option of Megatron-LM gives.")
    if one.layer_norms > 2 or one.local_layers:
        what = "norms after attention and MLP" if one.layer_norms > 2 else "layers with a window"
        raise ValueError(f"This model has {what}, which are not translated to Megatron-LM's options.")
    flags = [
        f"--num-layers {one.layers} --hidden-size {one.hidden} --ffn-hidden-size {one.ffn}",
        f"--num-attention-heads {one.heads}",
        f"--normalization {one.norm} --position-embedding-type "
        f"{'learned_absolute' if one.learned_positions else 'rope'}",
        "--attention-dropout 0 --hidden-dropout 0",
    ]
    flags += ["--swiglu"] * one.gated + ["--untie-embeddings-and-output-weights"] * (not one.tied)
    flags += ["--disable-bias-linear"] * (not one.biases) + ["--add-qkv-bias"] * (one.attention_biases == "qkv")
    flags += ["--qk-layernorm"] * bool(one.head_norms)
    if one.latent:
        flags.append(f"--multi-latent-attention --kv-lora-rank {one.latent} --qk-head-dim {one.plain_dim}")
        flags.append(f"--qk-pos-emb-head-dim {one.rotary_dim} --v-head-dim {one.value_dim} --qk-layernorm")
        flags += [f"--q-lora-rank {one.query_latent}"] * bool(one.query_latent)
    else:
        flags += [f"--group-query-attention --num-query-groups {one.kv_heads}"] * (one.kv_heads != one.heads)
        flags += [f"--kv-channels {one.head_dim}"] * (one.query_width != one.hidden)
    return flags + (_megatron_experts(one) if one.experts else [])


def _megatron_experts(one: Shape) -> list[str]:
    flags = [f"--num-experts {one.experts} --moe-router-topk {one.top_k} --moe-ffn-hidden-size {one.expert_ffn}"]
    flags.append("--moe-grouped-gemm --moe-token-dispatcher-type alltoall")
    if one.shared_ffn:
        flags.append(f"--moe-shared-expert-intermediate-size {one.shared_ffn}")
    flags += ["--moe-shared-expert-gate"] * bool(one.shared_gate)
    flags += ["--moe-router-score-function sigmoid --moe-router-enable-expert-bias"] * bool(one.router_bias)
    if one.router_groups > 1:
        flags.append(f"--moe-router-num-groups {one.router_groups} --moe-router-group-topk {one.groups_visited}")
    if one.dense_layers or one.expert_every > 1:
        dense = f"[0]*{one.dense_layers}+" if one.dense_layers else ""
        rest = (
            f"[1]*{one.expert_layers}"
            if one.expert_every == 1
            else f"([0]*{one.expert_every - 1}+[1])*{one.expert_layers}"
        )
        flags.append(f"--moe-layer-freq '{dense}{rest}'")
    return flags


def bridge(plan: Plan) -> list[str]:
    """The recipe of Megatron-Bridge (NeMo) for this model, with this layout: ZeRO-3 is Megatron-FSDP."""
    where, job = plan.layout, plan.job
    recipe = _known(BRIDGE_RECIPES, plan)
    if recipe is None:
        raise ValueError("Megatron-Bridge has no recipe of this model; write one with AutoBridge.from_hf_config.")
    if job.dtype != "bf16":
        raise ValueError(
            f"Megatron-Bridge chooses {job.dtype} by the name of a recipe; the one of this plan trains in bf16."
        )
    flags = [
        f"--recipe {recipe} --mode pretrain --dataset mock --max_steps {STEPS}",
        f"--global_batch_size {int(job.sequences)} --micro_batch_size {plan.micro} --seq_length {int(job.seq)}",
        f"--tensor_model_parallel_size {where.tp} --pipeline_model_parallel_size {where.pp}",
        f"--context_parallel_size {where.cp} --expert_model_parallel_size {where.ep}",
    ]
    flags += [f"--virtual_pipeline_model_parallel_size {where.virtual}"] * (where.virtual > 1)
    overrides = [f"model.sequence_parallel={'true' if where.sp else 'false'}"]
    if where.zero == 3:
        if where.pp > 1:
            raise ValueError("Megatron-Bridge's Megatron-FSDP is not planned with pipelines; choose a plan with pp=1.")
        overrides += ["ddp.use_megatron_fsdp=true", "ddp.data_parallel_sharding_strategy=optim_grads_params"]
    else:
        overrides.append(f"ddp.use_distributed_optimizer={'true' if where.zero else 'false'}")
    overrides.append(f"model.recompute_granularity={'null' if job.recompute == 'none' else job.recompute}")
    if job.offload:
        _offloads(plan, "Megatron-Bridge", "moments")
        overrides += ["optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1.0"]
        overrides.append("optimizer.overlap_cpu_optimizer_d2h_h2d=true")
    overrides += ["model.recompute_method=uniform", "model.recompute_num_layers=1"] * (job.recompute == "full")
    overrides += [f"model.recompute_modules=[{','.join(_modules(plan))}]"] * (job.recompute == "selective")
    ends = ("model.account_for_embedding_in_pipeline_split=true", "model.account_for_loss_in_pipeline_split=true")
    overrides += [*ends] * _less(plan)
    return ["torchrun", *_workers(plan), "scripts/training/run_recipe.py", *flags, *overrides]


def course(plan: Plan) -> list[str]:
    """The same layout for `course run train`, which trains its own size nearest to the model: ZeRO-3 is its `fsdp`, all
    else its `ddp`.

    `course run` starts processes on one server, so torchrun starts those of several.
    """
    where, job = plan.layout, plan.job
    if where.ep > 1 or job.shape.experts:
        raise ValueError("course run has no mixtures of experts; choose a dense model.")
    if job.offload:
        raise ValueError("course run keeps all state on the GPU; choose a plan without offload.")
    if job.dtype == "fp4":
        raise ValueError("course run has no 4-bit products; choose fp8 or bf16.")
    if where.virtual not in (1, 2):
        raise ValueError("course run interleaves two chunks of layers on a stage, and not more.")
    data = {"fsdp": where.dp // where.replicas, "ddp": where.replicas} if where.zero == 3 else {"ddp": where.dp}
    degrees = {"pp": where.pp, **data, "cp": where.cp, "tp": where.tp}
    parts = [f"{name}={size}" for name, size in degrees.items() if size > 1]
    layout = ",".join([*parts, *(["sp"] if where.sp and where.tp > 1 else [])]) or "ddp"
    params = count_params(job.shape)
    size = min(COURSE_SIZES, key=lambda name: abs(math.log(COURSE_SIZES[name][0] / params)))
    _, layers, heads = COURSE_SIZES[size]
    if layers % (where.pp * where.virtual) or heads % where.tp:
        raise ValueError(
            f"course run's nearest size, {size}, has {layers} layers and {heads} heads, which this layout "
            f"does not divide."
        )
    flags = [
        f"--size {size} --layout {layout}",
        f"--seq-len {int(job.seq)} --batch {int(job.sequences)} --micro-batches {int(where.microbatches)} "
        f"--steps {STEPS}",
    ]
    flags += [f"--schedule {where.schedule}"] * (where.pp > 1)
    flags += [f"--checkpointing {job.recompute}"] * (job.recompute != "none") + ["--fp8"] * (job.dtype == "fp8")
    if where.ranks <= plan.cluster.per_node:
        return [f"course run train --nproc {where.ranks}", *flags]
    return ["torchrun", *_workers(plan), "-m course_runs.train", *flags]


def _workers(plan: Plan) -> list[str]:
    """torchrun's own flags. The same line runs on every server; replace FIRST_SERVER by the name of the first."""
    per_node = min(plan.cluster.gpus, TRAY if plan.cluster.device in RACKS else plan.cluster.per_node)
    nodes = plan.cluster.gpus // per_node
    meeting = ["--rdzv-backend c10d --rdzv-endpoint FIRST_SERVER:29500"] if nodes > 1 else []
    return [f"--nnodes {nodes} --nproc-per-node {per_node}", *meeting]


FRAMEWORKS = {"torchtitan": torchtitan, "megatron": megatron, "bridge": bridge, "course": course}


def command(plan: Plan, framework: str) -> str:
    """The command line that starts this plan in a framework; a comment at its end names the version it is written for,
    what to replace, and where the run differs from the plan."""
    if framework not in FRAMEWORKS:
        raise ValueError(f"No framework {framework!r}; choose from {', '.join(FRAMEWORKS)}.")
    line, known = " ".join(FRAMEWORKS[framework](plan)), frameworks().get(framework)
    notes = [f"{known.version}, {known.date}"] if known else []
    if framework == "course":
        size = re.search(r"--size (\w+)", line)
        notes = [f"the course's own model nearest in size, {size[1]}"] if size else []
        notes += ["ddp keeps the whole optimizer state on each rank"] * (plan.layout.zero in (1, 2))
    blanks = [word for word in ("FIRST_SERVER", "MODULE", "CONFIG") if re.search(rf"\b{word}\b", line)]
    notes += [f"replace {', '.join(blanks)}"] * bool(blanks)
    return f"{line}  # {'; '.join(notes)}" if notes else line
