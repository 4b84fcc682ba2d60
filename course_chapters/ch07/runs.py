"""Chapter 07's runs on the metered cluster and on real processes: a rank's part of a batch, bytes held, steps on the
clock."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from course_chapters.real_processes import launched
from course_lib.cluster import Comm, Run, Topology, parity, simulate
from course_lib.estimate.units import GB, TFLOP, US
from course_lib.model import accounting, text
from course_lib.model.modules import gradient
from course_lib.model.transformer import Config, build, loss
from course_lib.parallel import data as data_parallel
from course_lib.parallel.data import DataParallel

LINKS = Topology.flat(1 * US, 1.25 * GB, 0.1 * TFLOP)  # round teaching numbers: latency, bandwidth, FLOP/s
DEEP, RANKS = Config(layers=4), 4
Finish = Callable[[], object]


class Ready(NamedTuple):
    """A gradient that is complete, so many seconds of computing after the step began."""

    seconds: float
    name: str
    nbytes: int


class Computed(NamedTuple):
    """When a rank has computed its forward pass, and each gradient, in the order of completion."""

    forward: float  # seconds of computing
    ready: tuple[Ready, ...]


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


def timed_step(overlap: bool, bucket_bytes: int) -> Run:
    """One training step of a four-layer model on four ranks of slow links, on the cluster's clock; FLOPs are counted.

    The result of each rank is its `Computed`.
    """

    def step(comm: Comm) -> Computed:
        model, account, ready = build(DEEP), accounting.here(), []
        assert account is not None

        def complete(parameter: Tensor, name: str) -> None:
            ready.append(Ready(account.flops / LINKS.flops, name, parameter.nbytes))

        for name, each in model.named_parameters():
            each.register_post_accumulate_grad_hook(partial(complete, name=name))
        replica = DataParallel(comm, model, bucket_bytes, overlap=overlap, init_sync=False, buffers=False)
        inputs, targets = part_of(comm, _batch())
        value = loss(replica(inputs), targets)
        forward = account.flops / LINKS.flops
        value.backward()
        replica.finish()
        return Computed(forward, tuple(ready))

    return simulate(step, RANKS, topology=LINKS, account=True)


def forward_seconds() -> float:
    """How long the forward pass of `timed_step` takes."""
    return timed_step(False, 10**9).results[0].forward


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


def on_two_processes(program: Callable[[Comm], torch.Tensor], whole: torch.Tensor, terms: int) -> None:
    """Run `program` on two real processes; print how far their gradient is from that of the whole batch in one
    process."""
    if not (results := launched(program, ranks=2, timeout=30)):
        return
    one, other = results
    assert torch.equal(one, other)
    difference = parity.apart(one, whole, terms=terms)
    print(f"DDP on two processes: {difference:.2g} of the allowed difference from one process with the whole batch.")
    assert difference <= 1
