"""A run's layout in the words of torchtitan and Megatron-LM: flags that they document, and the same ranks and batch
behind them."""

import re

import pytest

from course_chapters import framework_commands as planned
from course_lib.messages import Trouble
from course_lib.parallel import planner
from course_runs import commands, frameworks, layouts, options, sizes, train, worker_start
from tests.tables import each_of


def printed(framework, words, ranks):
    given = options.arguments(words.split())
    return commands.command(framework, options.job_of(given, ranks, "cuda"), given.steps, given.learning_rate)


def flags(line):
    """Flags with their values, "" for a switch."""
    return dict(re.findall(r"--([\w.-]+)(?: (?!--)(\S+))?", line))


# every layout that runs here
CASES = [(ranks, *text.partition(":")[::2]) for ranks in (2, 4, 8) for text in layouts.PROVEN[ranks]]


@each_of("framework", commands.FRAMEWORKS)
def test_every_layout_that_runs_here_is_written_with_documented_flags_or_refused_with_a_way_out(framework):
    written = 0
    for ranks, layout, schedule in CASES:
        words = f"--size 350m --layout {layout} --schedule {schedule or '1f1b'} --checkpointing full --batch 32"
        job = options.job_of(options.arguments(words.split()), ranks, "cuda")
        try:
            found = flags(printed(framework, words, ranks))
        except Trouble as refused:
            assert refused.way_out
            continue
        written += 1
        assert not frameworks.framework(framework).unknown(printed(framework, words, ranks)), layout
        assert int(found["nnodes"]) * int(found["nproc-per-node"]) == ranks
        same_degrees(framework, found, job)
        same_batch(framework, found, job)
    assert written >= len(CASES) // 2


def same_degrees(framework, found, job):
    layout = job.layout
    if framework == "torchtitan":
        axes = {"ddp": "data_parallel_replicate", "fsdp": "data_parallel_shard", "cp": "context_parallel"}
        axes |= {"tp": "tensor_parallel", "pp": "pipeline_parallel"}
        for axis, name in axes.items():
            assert int(found[f"parallelism.{name}_degree"]) == getattr(layout, axis), layout.name
        assert layout.sp == (layout.tp > 1)
        return
    for axis, name in {"tp": "tensor-model", "cp": "context", "pp": "pipeline-model"}.items():
        assert int(found[f"{name}-parallel-size"]) == getattr(layout, axis), layout.name
    assert ("sequence-parallel" in found, "use-torch-fsdp2" in found) == (layout.sp, layout.fsdp > 1)
    chunks = int(found.get("num-layers-per-virtual-pipeline-stage", 0))
    assert chunks == (job.config.layers // layout.pp // layout.chunks if layout.chunks > 1 else 0)


def same_batch(framework, found, job):
    one = job.batch // (job.layout.data * job.layout.micro_batches)
    if framework == "megatron":
        assert (int(found["micro-batch-size"]), int(found["global-batch-size"])) == (one, job.batch)
        return
    length = job.config.seq_len
    assert int(found["training.num_tokens_per_train_step"]) == job.batch * length
    assert int(found["training.num_tokens_per_microbatch_per_dp_rank"]) == one * length
    pieces = int(found.get("parallelism.num_pp_microbatches", 1))
    assert pieces == (job.layout.micro_batches if job.layout.pp > 1 else 1), "without stages they are accumulated"


@each_of("ours, theirs", commands.TITAN_SCHEDULES.items())
def test_a_schedule_has_the_name_that_torch_gives_it(ours, theirs):
    from torch.distributed.pipelining.schedules import get_schedule_class

    assert get_schedule_class(theirs).__name__ == f"Schedule{theirs}" and planned.TITAN_SCHEDULES[ours] == theirs
    assert f"pipeline_parallel_schedule {theirs} " in printed("torchtitan", f"--layout pp=2 --schedule {ours}", 2)
    assert set(commands.TITAN_SCHEDULES) == set(layouts.SCHEDULES)


@each_of(
    "framework, words, ranks, way_out",
    ("torchtitan", "--layout tp=2", 2, "tp=2,sp"),
    ("torchtitan", "--layout cp=2", 2, "fsdp"),
    ("torchtitan", "--layout ddp --checkpointing selective", 2, "none or full"),
    ("megatron", "--layout pp=2 --schedule gpipe", 2, "1f1b or interleaved"),
    ("megatron", "--layout pp=2,fsdp=2", 4, "ddp with pp, or torchtitan"),
    ("megatron", "--layout ddp=2,fsdp=2", 4, "torchtitan"),
    ("megatron", "--size 1b --layout pp=2 --schedule interleaved", 2, "torchtitan"),
    ("torchtitan", "--layout ddp=12 --batch 24", 12, "multiple of 8"),
)
def test_what_a_framework_cannot_do_is_refused_with_what_it_can(framework, words, ranks, way_out):
    with pytest.raises(Trouble) as refused:
        printed(framework, words, ranks)
    assert way_out in refused.value.way_out


@each_of(
    "words, want, absent",
    ("--size 1m", "--group-query-attention --num-query-groups 4", "--recompute"),
    ("--size 125m --dtype fp32", "--num-attention-heads 12", "--bf16"),
    ("--size 125m --checkpointing selective", "--recompute-granularity selective", "--recompute-method"),
    ("--size 125m --checkpointing full", "--recompute-method uniform --recompute-num-layers 1", "selective"),
    ("--size 7b --layout fsdp --seq-len 4096", "--seq-length 4096 --max-position-embeddings 4096", "--sequence"),
)
def test_shape_numbers_and_recomputation_are_those_of_the_run(words, want, absent):
    line = printed("megatron", words, 8)
    assert want in line and absent not in line


def test_gathered_weights_and_precision_are_those_of_the_run():
    kept = printed("torchtitan", "--layout fsdp --keep-gathered --dtype fp32", 8)
    assert "fsdp_reshard_after_forward never" in kept and "mixed_precision_param float32" in kept
    assert "fsdp_reshard_after_forward always" in printed("torchtitan", "--layout fsdp", 8)
    assert "fsdp_reshard" not in printed("torchtitan", "--layout ddp", 8)
    kept, freed = (printed("megatron", f"--layout fsdp{words}", 8) for words in (" --keep-gathered", ""))
    assert "--torch-fsdp2-no-reshard-after-forward" in kept and "no-reshard" not in freed
    assert "--attention-dropout 0 --hidden-dropout 0" in kept, "Megatron-LM's own default is a tenth"


@pytest.mark.parametrize("model", ["llama3-8b", "llama3.2-1b", "gpt2-medium"])
def test_the_planners_line_for_this_course_is_one_that_it_takes(model):
    job = planner.Job(model=model, seq=1024, sequences=64)
    taken = 0
    for plan in planner.search(job, planner.cluster("8xH100"), top=12):
        try:
            words = planned.command(plan, "course").partition(" #")[0].split()
        except ValueError as refusal:
            assert "which this layout does not divide" in str(refusal) or "interleaves two chunks" in str(refusal)
            continue
        given = options.arguments(words[words.index("--size") :])
        run = options.job_of(given, 8, "cuda")
        assert (run.batch, run.config.seq_len, run.layout.tp) == (64, 1024, plan.layout.tp)
        assert run.layout.micro_batches == plan.layout.microbatches
        taken += 1
    assert taken > 3
    for name, (_, layers, heads) in planned.COURSE_SIZES.items():
        assert (layers, heads) == (sizes.SIZES[name].layers, sizes.SIZES[name].kv_heads)


def test_stages_have_as_many_layers_as_here():
    line = printed("torchtitan", "--layout pp=2", 2)
    assert "first_stage_less_layers 0 " in line and "last_stage_less_layers 0 " in line


def test_the_command_is_printed_for_as_many_processes_as_asked_for_and_nothing_is_started(capsys, monkeypatch):
    def starter(*_, **__):
        raise AssertionError("something was started")

    words = ["--layout", "ddp=2,fsdp=8", "--print-command", "torchtitan", "--size", "1b"]
    assert worker_start.start("train", words, 16, worker_start.Limits(), starter) == 0
    said = capsys.readouterr().out
    assert said.startswith("torchrun --nnodes 2 --nproc-per-node 8 -m torchtitan.train ") and "\n# The model is" in said
    assert (
        worker_start.start("train", ["--layout", "tp=3", "--print-command=megatron"], 2, worker_start.Limits(), starter)
        == 2
    )
    assert "makes 3 ranks, and 2 are running" in capsys.readouterr().err
    monkeypatch.setattr(train, "join", starter)
    assert train.main(["--print-command", "megatron"]) == 0 and "pretrain_gpt.py" in capsys.readouterr().out
