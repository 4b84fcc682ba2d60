"""Tensor parallelism beside one process, beside torch's own, and beside its predicted bytes: part of
`./course bench parallel`.

Parity: losses of 50 steps in float32, gradients and weights in float64, in units of the tolerance that
`course_lib.cluster.parity` derives. Bytes of a step: predicted, metered on the cluster, and read from the kernel's
counters of gloo's connections. gloo makes a reduce-scatter by an all-reduce, so with the sequence shared out it sends
more, and by how much is predicted too. Time: a step of ours and one of torch's `parallelize_module` in turns, on the
same processes.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench import interleaved_timing
from bench.parallel import SLOWEST, received_bytes
from bench.parallel_parity import RATE, Trained, compared, held_gradients, train
from bench.rows import Row
from course_lib.cluster import Comm, Run, simulate
from course_lib.model.text import batch
from course_lib.model.transformer import Config, Transformer, build
from course_lib.parallel.data import average_gradients, totals
from course_lib.parallel.tensor import (
    TensorParallel,
    full_gradients,
    full_state,
    parallelize,
    tp_bytes_per_layer,
    tp_bytes_per_step,
)
from course_lib.parallel.tensor import build as build_part
from course_runs.real_ranks import launch

CONFIG = Config(kv_heads=2, tied=True, biases=True)
FROZEN = "blocks.0.mlp.down.weight"
SEQUENCES = 4
TERMS = SEQUENCES * CONFIG.seq_len  # the longest sum: tokens, in a weight's gradient
LOSSES, WEIGHTS = 50, 10  # steps
GRIDS = (
    (1, 1, False),
    (1, 2, False),
    (1, 4, False),
    (1, 4, True),
    (2, 2, False),
    (2, 2, True),
)  # dp, tp, sequence shared out
LARGE = Config(layers=2, hidden=256, heads=8, seq_len=64)  # for bytes and time
REPEATS = 20
FRAME = 1024  # bytes that gloo may add for each rank to a collective: it sends in many small messages, each with a head


# --- parity


def whole_model(config: Config, kind: torch.dtype) -> Transformer:
    """The model before its first step, a matrix frozen."""
    model = build(config).to(kind)
    model.get_parameter(FROZEN).requires_grad_(False)
    return model


def alone(config: Config, steps: int, kind: torch.dtype) -> Trained:
    """One process, in plain PyTorch."""
    return _plainly(whole_model(config, kind), config, steps, lambda value: value)


def _plainly(model: nn.Module, config: Config, steps: int, whole: Callable[[Tensor], Tensor]) -> Trained:
    def step(number: int) -> float:
        tokens, targets = batch(number, SEQUENCES, config.seq_len)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        return loss.item()

    return train(
        model,
        steps,
        step,
        lambda: {name: whole(each) for name, each in held_gradients(model).items()},
        lambda: {name: whole(each) for name, each in model.named_parameters()},
    )


def over_ranks(comm: Comm, config: Config, steps: int, kind: torch.dtype, tp: int, sequence: bool) -> Trained:
    """The same on a grid: `tp` neighbors share one model, and the batch is shared among the models."""
    replicas = comm.size // tp
    models = [comm.new_group(range(index * tp, (index + 1) * tp)) for index in range(replicas)]
    rows = [comm.new_group(range(index, comm.size, tp)) for index in range(tp)]
    row = rows[comm.rank % tp]
    model = parallelize(whole_model(config, kind), models[comm.rank // tp], sequence)

    def step(number: int) -> float:
        tokens, targets = (each.tensor_split(replicas)[row.rank] for each in batch(number, SEQUENCES, config.seq_len))
        loss = model.loss(model(tokens), targets)
        loss.backward()
        model.finish()
        average_gradients(row, model.parameters())
        return totals(row, loss.item())[0] / replicas

    return train(model, steps, step, lambda: full_gradients(model), lambda: full_state(model))


def torchs(comm: Comm, config: Config, steps: int, kind: torch.dtype, *_: object) -> Trained:
    """The same by torch's parallelize_module."""
    from torch.distributed.tensor import DTensor

    model = by_torch(comm, whole_model(config, kind))
    return _plainly(model, config, steps, lambda value: value.full_tensor() if isinstance(value, DTensor) else value)


def by_torch(comm: Comm, model: Transformer) -> nn.Module:
    """The model cut by torch as ours is, in place. A tied head is left whole: cut one by one, the two would part."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns, rows = (
        ("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up"),
        ("attention.wo", "mlp.down"),
    )
    styles: dict[str, Any] = {f"blocks.*.{name}": ColwiseParallel() for name in columns}
    styles |= {f"blocks.*.{name}": RowwiseParallel() for name in rows}
    if not model.config.tied:
        styles |= {
            "embedding": RowwiseParallel(input_layouts=Replicate()),
            "head": ColwiseParallel(output_layouts=Replicate()),
        }
    return parallelize_module(model, init_device_mesh("cpu", (comm.size,)), styles)


def parity_rows(
    text: str, where: Callable[..., Run], ranks: int, program: Callable[..., Trained], *more: object
) -> list[Row]:
    """The last rank's training against one process's."""

    def over(args: tuple[object, ...]) -> Run:
        return where(program, ranks, args=(CONFIG, *args, *more))

    return compared(text, TERMS, (LOSSES, WEIGHTS), partial(alone, CONFIG), over)


# --- bytes


def part_of(comm: Comm, config: Config, sequence: bool) -> TensorParallel:
    """This rank's model, for the meter to leave out."""
    return build_part(config, comm, 0, sequence)


def one_step(comm: Comm, config: Config, sequence: bool) -> int | None:
    """Bytes that this rank receives in one step."""
    model = part_of(comm, config, sequence)
    for number in range(2):  # the first opens connections
        tokens, targets = batch(number, SEQUENCES, config.seq_len)
        comm.barrier()
        before = received_bytes()
        model.loss(model(tokens), targets).backward()
        model.finish()
        comm.barrier()
    after = received_bytes()
    return None if before is None or after is None else after - before


def metered_step(ranks: int, config: Config, sequence: bool) -> float:
    """Bytes that a rank sends in one of the two steps."""
    sent = [sum(simulate(each, ranks, (config, sequence)).meter.bytes_sent) / ranks for each in (part_of, one_step)]
    return (sent[1] - sent[0]) / 2


def byte_rows(ranks: int, sequence: bool) -> list[Row]:
    """The bytes of a step and of a layer: predicted, metered, and real."""
    more = replace(LARGE, layers=LARGE.layers + 1)
    predicted = [
        tp_bytes_per_step(each, SEQUENCES, LARGE.seq_len, ranks, sequence_parallel=sequence).total
        for each in (LARGE, more)
    ]
    metered = [metered_step(ranks, each, sequence) for each in (LARGE, more)]
    real = [launch(one_step, ranks, args=(each, sequence), timeout=300.0).results for each in (LARGE, more)]
    name = f"tensor parallel, {ranks} ranks{', sequence shared out' if sequence else ''}: bytes of a"
    half = tp_bytes_per_layer(SEQUENCES * LARGE.seq_len, LARGE.hidden, ranks, element_bytes=4) / 8
    again = [half * (4 * each.layers + 2) * sequence for each in (LARGE, more)]  # gloo's reduce-scatters
    frames = [FRAME * ranks * calls for calls in (10 * LARGE.layers + 10, 10)]  # no more collectives than these
    rows = _three(f"{name} step", predicted[0], metered[0], _mean(real[0]), again[0], frames[0])
    return rows + _three(
        f"{name} layer",
        _difference(predicted),
        _difference(metered),
        _difference([_mean(each) for each in real]),
        _difference(again),
        frames[1],
    )


def _three(name: str, predicted: float, metered: float, real: float | None, again: float, frames: int) -> list[Row]:
    rows = [
        Row(f"{name}, predicted", predicted, "bytes"),
        Row(f"{name}, metered", metered, "bytes", metered == predicted),
    ]
    if real is None:
        return [*rows, Row(f"{name}, gloo", 0, "bytes", None, "this system does not count them")]
    note = f"{again:,.0f} more where its reduce-scatter is an all-reduce" if again else ""
    return [*rows, Row(f"{name}, gloo", real, "bytes", predicted <= real <= predicted + again + frames, note)]


def _mean(counts: Iterable[int | None]) -> float | None:
    found = list(counts)
    known = [each for each in found if each is not None]
    return None if len(known) < len(found) else sum(known) / len(known)


def _difference(pair: list[Any]) -> Any:
    return None if None in pair else pair[1] - pair[0]


# --- time


def times_here(comm: Comm, config: Config, repeats: int) -> list[list[float]]:
    """Seconds of a step on this rank, a row a repeat: ours, torch's."""
    torch.set_num_threads(1)
    ours, theirs = build_part(config, comm), by_torch(comm, build(config))
    adams = [torch.optim.AdamW(model.parameters(), lr=RATE, foreach=False) for model in (ours, theirs)]

    def update(adam: torch.optim.Optimizer) -> None:
        adam.step()
        adam.zero_grad()

    def our_step(tokens: Tensor, targets: Tensor) -> None:
        ours.loss(ours(tokens), targets).backward()
        ours.finish()
        update(adams[0])

    def their_step(tokens: Tensor, targets: Tensor) -> None:
        F.cross_entropy(theirs(tokens).flatten(0, 1), targets.flatten()).backward()
        update(adams[1])

    return interleaved_timing.times_here(
        comm, our_step, their_step, lambda repeat: batch(repeat, SEQUENCES, config.seq_len), repeats
    )


def time_rows(ranks: int = 2, repeats: int = REPEATS) -> list[Row]:
    """Our step against torch's."""
    by_rank = launch(times_here, ranks, args=(LARGE, repeats), timeout=300.0).results
    return interleaved_timing.ratio_rows("tensor parallel", "parallelize_module", by_rank, SLOWEST)


def rows() -> list[Row]:
    """The table: parity on the cluster, on processes and of torch's own; bytes at 2 and 4 ranks in both forms; time at
    2."""
    found = []
    for replicas, tp, sequence in GRIDS:
        text = f"parity, cluster, dp {replicas} tp {tp}{', sequence shared out' if sequence else ''}:"
        found += parity_rows(text, simulate, replicas * tp, over_ranks, tp, sequence)
    found += parity_rows("parity, gloo, tp 2:", launch, 2, over_ranks, 2, False)
    found += parity_rows("parity, gloo, torch's parallelize_module:", launch, 2, torchs)
    for ranks in (2, 4):
        for sequence in (False, True):
            found += byte_rows(ranks, sequence)
    return found + time_rows()
