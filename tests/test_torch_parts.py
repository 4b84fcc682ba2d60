"""PyTorch's own parallel parts on metered ranks: the course's model trains as in one process, and sends what is
predicted."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleZBVZeroBubble,
)
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from course_lib.cluster import RankError, simulate
from course_lib.cluster.collectives import ring_cost
from course_lib.model.accounting import here
from course_lib.model.transformer import Config, Transformer, build, loss
from course_lib.parallel.pipeline.stages import transformer_stages
from course_lib.parallel.sharding.comm_costs import step_bytes
from course_lib.parallel.tensor.traffic import tp_bytes_per_step
from tests.tables import each_of

CONFIG = Config(hidden=32, layers=4, heads=4, seq_len=16)
SEQUENCES, WIDTH = 8, 4  # of a batch; bytes of an fp32 number


def _batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, CONFIG.vocab, (SEQUENCES, 17), generator=torch.Generator().manual_seed(step))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def _steps(model: nn.Module, steps: int, rank: int = 0, ranks: int = 1) -> None:
    """Train on this rank's share of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    for step in range(steps):
        inputs, targets = (rows.chunk(ranks)[rank] for rows in _batch(step))
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()


def _whole(model: nn.Module) -> dict[str, torch.Tensor]:
    weights = {name.removeprefix("module."): value.detach() for name, value in model.state_dict().items()}
    return {name: data.full_tensor() if isinstance(data, DTensor) else data for name, data in weights.items()}


def _plain(steps: int) -> Transformer:
    model = build(CONFIG)
    _steps(model, steps)
    return model


def _sharded(model: Transformer, **options) -> nn.Module:
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def _split(model: Transformer, mesh, prepared: bool = True) -> Transformer:
    """Tensor parallelism of each block, without the sequence. `prepared`: columns read one DTensor, not one each."""
    whole = {"input_layouts": Replicate(), "desired_input_layouts": Replicate()}
    plan = {"attention.wo": RowwiseParallel(), "mlp.down": RowwiseParallel()}
    plan |= dict.fromkeys(("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up"), ColwiseParallel())
    if prepared:
        plan |= {"attention": PrepareModuleInput(**whole), "mlp": PrepareModuleInput(**whole)}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def ddp(comm, steps: int):
    """DistributedDataParallel, in several buckets."""
    model = DistributedDataParallel(build(CONFIG), bucket_cap_mb=0.05)
    _steps(model, steps, comm.rank, comm.size)
    return _whole(model)


def fsdp(comm, steps: int):
    """fully_shard (FSDP2), by block."""
    model = _sharded(build(CONFIG))
    _steps(model, steps, comm.rank, comm.size)
    return _whole(model)


def tensor(comm, steps: int, prepared: bool = True):
    """parallelize_module (DTensor)."""
    model = _split(build(CONFIG), dist.init_device_mesh("cpu", (comm.size,)), prepared)
    _steps(model, steps)
    return _whole(model)


def mesh(comm, steps: int):
    """FSDP2 over tensor parallelism, in pairs."""
    axes = dist.init_device_mesh("cpu", (comm.size // 2, 2), mesh_dim_names=("dp", "tp"))
    model = _sharded(_split(build(CONFIG), axes["tp"]), mesh=axes["dp"])
    _steps(model, steps, axes.get_local_rank("dp"), comm.size // 2)
    return _whole(model)


def saved(comm, steps: int, folder: str):
    """Trained on as many ranks as there are, saved sharded, and loaded into a model that is not."""
    model = _sharded(build(CONFIG))
    _steps(model, steps, comm.rank, comm.size)
    checkpoint.save(model.state_dict(), checkpoint_id=f"{folder}/{comm.size}")
    plain = build(CONFIG, seed=1).state_dict()
    checkpoint.load(plain, checkpoint_id=f"{folder}/{comm.size}")
    return plain


def _pipeline(schedule, comm, steps: int):
    model = transformer_stages(build(CONFIG), comm.size)[comm.rank]
    stage = PipelineStage(model, comm.rank, comm.size, torch.device("cpu"))
    runs = schedule(stage, 4, loss_fn=loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        inputs, targets = _batch(step)
        optimizer.zero_grad()
        runs.step(*[inputs][: model.first], target=targets if model.last else None)
        optimizer.step()
    return _whole(model)


def gpipe(comm, steps: int):
    """torch.distributed.pipelining, all forwards first."""
    return _pipeline(ScheduleGPipe, comm, steps)


def one_f_one_b(comm, steps: int):
    """torch.distributed.pipelining, 1F1B."""
    return _pipeline(Schedule1F1B, comm, steps)


# --- parts whose bytes are not predicted


def _ddp(comm, hook: bool = False, **options):
    model = DistributedDataParallel(build(CONFIG), **options)
    if hook:
        model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook)
    _steps(model, 3, comm.rank, comm.size)


def _zero(comm):
    model = DistributedDataParallel(build(CONFIG))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    for step in range(2):
        inputs, targets = (rows.chunk(comm.size)[comm.rank] for rows in _batch(step))
        loss(model(inputs), targets).backward()
        optimizer.step()


def _first_fsdp(comm):
    _steps(FullyShardedDataParallel(build(CONFIG), device_id=torch.device("cpu")), 2, comm.rank, comm.size)


def _hybrid(comm):
    axes = dist.init_device_mesh("cpu", (2, comm.size // 2), mesh_dim_names=("replicas", "shards"))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    _steps(_sharded(build(CONFIG), mesh=axes, mp_policy=policy), 2, comm.rank, comm.size)


def _sequence(comm):
    model, axis = build(CONFIG), dist.init_device_mesh("cpu", (comm.size,))
    gather = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    rows, norm, whole = RowwiseParallel(output_layouts=Shard(1)), SequenceParallel(), Replicate()
    plan = {"norm1": norm, "attention": gather, "norm2": norm, "mlp": gather, "attention.wo": rows, "mlp.down": rows}
    plan |= dict.fromkeys(("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up"), ColwiseParallel())
    for block in model.blocks:
        parallelize_module(block, axis, plan)
    ends = {"embedding": RowwiseParallel(input_layouts=whole, output_layouts=Shard(1)), "norm": norm}
    ends["head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=whole)
    _steps(parallelize_module(model, axis, ends), 2)


def _two_stages_a_rank(comm, schedule):
    stages, last = transformer_stages(build(CONFIG), 2 * comm.size), 2 * comm.size - 1
    second = last - comm.rank if schedule is ScheduleZBVZeroBubble else comm.rank + comm.size
    held = [PipelineStage(stages[at], at, last + 1, torch.device("cpu")) for at in (comm.rank, second)]
    inputs, targets = _batch(0)
    schedule(held, 4, loss_fn=loss).step(*[inputs][: comm.rank == 0], target=targets if second == last else None)


OTHERS = {
    "static graph": (partial(_ddp, static_graph=True), 4),
    "unused parameters": (partial(_ddp, find_unused_parameters=True, gradient_as_bucket_view=True), 4),
    "PowerSGD": (partial(_ddp, hook=True), 4),
    "ZeroRedundancyOptimizer": (_zero, 4),
    "FullyShardedDataParallel": (_first_fsdp, 4),
    "HSDP in bf16": (_hybrid, 4),
    "sequence parallelism": (_sequence, 4),
    "interleaved 1F1B": (partial(_two_stages_a_rank, schedule=ScheduleInterleaved1F1B), 2),
    "ZBV": (partial(_two_stages_a_rank, schedule=ScheduleZBVZeroBubble), 2),
}


@pytest.mark.slower
@each_of("what", OTHERS)
def test_further_parts_run(what):
    """They end without a deadlock or a tensor used in flight, and send something."""
    program, ranks = OTHERS[what]
    if what in ("sequence parallelism", "ZBV") and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12):
        return  # torch's own limits, which docs/pytorch.md names
    assert simulate(program, ranks, timeout=60).meter.total_bytes > 0


# --- bytes that all ranks together send in one step


def _rows(tp: int = 1) -> list[int]:
    """Elements of FSDP's groups on a rank, the root's first: a tensor-parallel rank has its part of each matrix."""
    model = build(CONFIG)
    in_blocks = [sum(w.numel() // (tp if w.ndim == 2 else 1) for w in block.parameters()) for block in model.blocks]
    outside = sum(w.numel() for w in model.parameters()) - sum(w.numel() for w in model.blocks.parameters())
    return [outside, *in_blocks]


def _tp_bytes(sequences: int, tp: int) -> float:
    return tp_bytes_per_step(CONFIG, sequences, CONFIG.seq_len, tp, vocab_parallel=False).layers


def _edge_bytes(ranks: int) -> int:
    """Activations forward and their gradients back, over each edge between stages."""
    return 2 * (ranks - 1) * SEQUENCES * CONFIG.seq_len * CONFIG.hidden * WIDTH


def _ddp_bytes(ranks: int) -> float:
    """Gradients around a ring; and before each forward pass rank 0's buffers, the rotary tables, down a tree."""
    buffers = sum(data.nbytes for data in build(CONFIG).buffers())
    return ranks * ring_cost(sum(_rows()) * WIDTH, ranks, 0.0, 1.0).nbytes + (ranks - 1) * buffers


PREDICTED = {
    ddp: _ddp_bytes,
    fsdp: lambda n: n * step_bytes(_rows(), n, 3, WIDTH, WIDTH),
    tensor: lambda n: n * _tp_bytes(SEQUENCES, n),
    mesh: lambda n: n * (step_bytes(_rows(2), n // 2, 3, WIDTH, WIDTH) + _tp_bytes(SEQUENCES // (n // 2), 2)),
    gpipe: _edge_bytes,
    one_f_one_b: _edge_bytes,
}


@pytest.mark.slower
@each_of(
    "part, ranks", [(part, n) for part in PREDICTED for n in (2, 4)], ids=lambda part: getattr(part, "__name__", part)
)
def test_a_part_of_torch_trains_as_one_process_and_sends_what_is_predicted(part, ranks):
    """All weights after four steps, and the bytes of the third and fourth: the first ones also set up."""
    plain = _plain(4)
    stages = transformer_stages(plain, ranks) if part in (gpipe, one_f_one_b) else [plain] * ranks
    short, long = (simulate(part, ranks, (steps,)) for steps in (2, 4))
    for stage, weights in zip(stages, long.results, strict=True):
        torch.testing.assert_close(weights, dict(stage.state_dict()), rtol=1e-4, atol=1e-5)
    assert (long.meter.total_bytes - short.meter.total_bytes) / 2 == PREDICTED[part](ranks)


@pytest.mark.slower
def test_each_axis_of_a_mesh_sends_its_own_bytes():
    """Two by two ranks: partners in a pair exchange tensor parallelism's bytes, the pairs FSDP's."""
    short, long = (simulate(mesh, 4, (steps,)).meter.pairs for steps in (2, 4))
    sent = {"tp": 0.0, "dp": 0.0}
    for (source, target), (nbytes, _) in long.items():
        sent["tp" if source // 2 == target // 2 else "dp"] += (nbytes - short[source, target][0]) / 2
    assert sent == {"tp": 4 * _tp_bytes(SEQUENCES // 2, 2), "dp": 4 * step_bytes(_rows(2), 2, 3, WIDTH, WIDTH)}


@each_of("ranks", [2, 4])
def test_ddp_trains_as_one_process(ranks):
    """A quick one of the above: with backward passes that wait at their end, so that buckets overlap with compute."""
    run = simulate(ddp, ranks, (2,), account=True)
    torch.testing.assert_close(run.results[0], dict(_plain(2).state_dict()), rtol=1e-4, atol=1e-5)
    assert sum(run.hidden()) > 0


def _one_step(comm, part):
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    if part is fsdp:
        fully_shard(model)
    else:
        plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
        parallelize_module(model, dist.init_device_mesh("cpu", (comm.size,)), plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
    roles = here().roles()
    return roles["parameters"], roles["gradients"], roles["optimizer state"]


@each_of("part, share", [(fsdp, 1), (tensor, 2)])
def test_a_rank_counts_its_part_of_a_distributed_tensor(part, share):
    """Half of the weights, gradients and momenta on each of two ranks; and half of the FLOPs if the work is split."""
    run = simulate(_one_step, 2, (part,), account=True)
    half = 64 * 64 * WIDTH  # of two matrices
    assert run.results == [(half,) * 3] * 2
    assert run.meter.flops == [5 * 2 * 4 * 64 * 64 // share] * 2  # the first layer has no gradient of its input


@pytest.mark.slower
def test_a_sharded_checkpoint_is_the_plain_model(tmp_path):
    """Distributed checkpoint: saved by four ranks, loaded whole."""
    for weights in simulate(saved, 4, (2, str(tmp_path))).results:
        torch.testing.assert_close(weights, dict(_plain(2).state_dict()), rtol=1e-4, atol=1e-5)


@pytest.mark.slower
def test_columns_that_read_a_tensor_each_send_more():
    """Without PrepareModuleInput, the gradient of each column's input is summed apart: 7 all-reduces a layer, not 4."""
    sent = [simulate(tensor, 2, (steps, False)).meter.total_bytes for steps in (2, 4)]
    assert (sent[1] - sent[0]) / 2 == 2 * _tp_bytes(SEQUENCES, 2) * 7 / 4


def _context(comm):
    from torch.distributed.tensor.experimental import context_parallel

    model, (inputs, _) = build(CONFIG), _batch(0)
    with context_parallel(dist.init_device_mesh("cpu", (comm.size,)), buffers=[inputs], buffer_seq_dims=[1]):
        return model(inputs)


@pytest.mark.slower
def test_context_parallelism_needs_a_gpu_kernel():
    """torch 2.13 shards the attention kernels of GPUs alone: if this fails, the page of docs has one row to change."""
    with pytest.raises(RankError, match="flash_attention_for_cpu.default does not have a sharding strategy"):
        simulate(_context, 2)
