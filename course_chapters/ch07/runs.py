"""Chapter 07's runs on the metered cluster and on real processes: a rank's part of a batch, bytes held, steps on the
clock."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_chapters.real_processes import launched
from course_lib.cluster import Comm, Run, Topology, parity, simulate
from course_lib.estimate.units import GB, TFLOP, US
from course_lib.model import text
from course_lib.model.modules import gradient
from course_lib.model.transformer import Config, build, loss
from course_lib.parallel import data as data_parallel
from course_lib.parallel.data import DataParallel

LINKS = Topology.flat(1 * US, 1.25 * GB, 0.1 * TFLOP)  # round teaching numbers: latency, bandwidth, FLOP/s
DEEP, RANKS = Config(layers=4), 4
Finish = Callable[[], Any]


def part_of(comm: Comm, batch: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """This rank's equal share of a batch's sequences: inputs and targets, each (sequences / ranks, length)."""
    return [rows.tensor_split(comm.size)[comm.rank] for rows in batch]


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    return text.batch(0, 16, 32)


def bytes_held(comm: Comm) -> dict[str, float]:
    """Bytes per parameter that this rank holds after one step of fp32 training with Adam, by role."""
    model = build(Config())
    replica, adam = DataParallel(comm, model), torch.optim.AdamW(model.parameters())
    tokens, targets = part_of(comm, _batch())
    data_parallel.accumulate(replica, [(tokens, targets)])
    adam.step()
    weights = list(model.parameters())
    moments = [tensor for state in adam.state.values() for tensor in state.values() if tensor.dim()]
    grads = [gradient(weight) for weight in weights]
    held: dict[str, Sequence[Tensor]] = {"weights": weights, "grads": grads, "moments": moments}
    count = sum(weight.numel() for weight in weights)
    return {role: sum(tensor.nbytes for tensor in tensors) / count for role, tensors in held.items()}


def timed_step(overlap: bool, bucket_bytes: int, backward: bool = True) -> Run:
    """One training step of a four-layer model on four ranks of slow links, on the cluster's clock; FLOPs are
    counted."""

    def step(comm: Comm) -> None:
        replica = DataParallel(comm, build(DEEP), bucket_bytes, overlap=overlap, init_sync=False, buffers=False)
        inputs, targets = part_of(comm, _batch())
        value = loss(replica(inputs), targets)
        if backward:
            value.backward()
            replica.finish()

    return simulate(step, RANKS, topology=LINKS, account=True)


def forward_seconds() -> float:
    """How long the forward pass of `timed_step` takes."""
    return timed_step(False, 1, backward=False).seconds


def library_hooks(comm: Comm, model: torch.nn.Module) -> Finish:
    """The library's `hook_gradients`: one all-reduce per parameter, started in the backward pass."""
    return DataParallel(comm, model, 1, init_sync=False, buffers=False).finish


def timed_hooks(hook_gradients: Callable[[Comm, torch.nn.Module], Finish]) -> Run:
    """The step of `timed_step` with gradients averaged by the learner's hooks."""

    def step(comm: Comm) -> None:
        model = build(DEEP)
        finish = hook_gradients(comm, model)
        inputs, targets = part_of(comm, _batch())
        loss(model(inputs), targets).backward()
        finish()

    return simulate(step, RANKS, topology=LINKS, account=True)


def on_two_processes(program: Callable[[Any], torch.Tensor], whole: torch.Tensor, terms: int) -> None:
    """Run `program` on two real processes; print how far their gradient is from that of the whole batch in one
    process."""
    if not (results := launched(program, ranks=2, timeout=30)):
        return
    one, other = results
    assert torch.equal(one, other)
    difference = parity.apart(one, whole, terms=terms)
    print(f"DDP on two processes: {difference:.2g} of the allowed difference from one process with the whole batch.")
    assert difference <= 1
