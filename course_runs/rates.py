"""What this rank can do, measured in a few seconds before a run, on all ranks at once: they share a machine.

A block's passes are run alone, with nothing sent, so that the price of the framework's own work is known before the
run.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import torch
import torch.distributed as dist

from course_lib.estimate.roofline import fit_alpha_beta
from course_lib.model.transformer import loss
from course_runs import collectives, context, eight_bits
from course_runs.model import Piece
from course_runs.parallel import Choices, RunMesh
from course_runs.predict import FP32, WIRES, Job, Rates, wire_bytes
from course_runs.process_group import Place
from course_runs.ring_bytes import ring_sent

_BUDGET, _ROUNDS = 0.3, 5  # s of each measurement, and in how many parts
_SIZES = {"cpu": (4_000, 256_000, 4_000_000), "cuda": (64_000, 4_000_000, 64_000_000)}  # bytes of a message


def measure(job: Job, place: Place, choices: Choices, mesh: RunMesh) -> Rates:
    """Rates of the model's own matmul, of a copy, of a block's passes, and of the calls that this layout makes. All
    ranks call it."""
    dtype = choices.dtype
    config, tokens = job.config, min(job.micro_tokens // job.layout.cp, 8192)
    x = torch.randn(tokens, config.hidden, device=place.device, dtype=dtype)
    assert config.ffn
    w = torch.randn(config.hidden, config.ffn // job.layout.tp, device=place.device, dtype=dtype)
    flops = 2 * tokens * config.hidden * (config.ffn // job.layout.tp) / timed(lambda: x @ w, place)
    data = torch.empty(16_000_000 if place.device.type == "cuda" else 4_000_000, device=place.device)
    other = torch.empty_like(data)
    copy = 2 * data.nbytes / timed(lambda: other.copy_(data), place)
    block, ends = (timed(work, place) for work in passes(job, place, choices))
    alpha, wire, wires = 0.0, 0.0, {}
    if place.ranks > 1:
        alpha = timed(collectives.call("all_reduce", FP32, place), place)
        _, wire = line("all_reduce", place)
        wires = {
            f"{axis} {kind}": line(kind, place, mesh[axis].get_group())
            for axis, kind in map(WIRES.__getitem__, wire_bytes(job))
        }
    return Rates(
        flops=flops, memory=copy, alpha=alpha, wire=wire, wires=wires, block=block, ends=ends, cores=place.cores
    )


def passes(job: Job, place: Place, choices: Choices) -> tuple[Callable[[], None], Callable[[], None]]:
    """One micro-batch forward and backward through a whole block, and through what is in no block, computed as the run
    will.

    Blocks are compiled if the run's are. Under FSDP the weights are in the arithmetic's dtype; elsewhere autocast casts
    them.
    """
    dtype, cast = choices.dtype, job.layout.fsdp > 1
    config = replace(job.config, layers=1)
    sequences, length = job.micro_tokens // config.seq_len, config.seq_len // job.layout.cp
    with torch.device(place.device):
        block, ends = Piece(config, [0], first=False, last=False), Piece(config, [])
        x = torch.randn(sequences, length, config.hidden, dtype=dtype if cast else None, requires_grad=True)
        tokens = torch.zeros(sequences, length, dtype=torch.long)
    if choices.fp8:
        eight_bits.convert(block)
    if job.layout.cp > 1:
        context.spread(block, context.Context(0, job.layout.cp))
    if cast:
        block, ends = block.to(dtype), ends.to(dtype)
    if choices.compiled:
        for each in block.blocks.values():
            each.compile(dynamic=False)

    def through(model: Piece, given: torch.Tensor, last: Callable[[torch.Tensor], torch.Tensor]) -> None:
        with torch.autocast(place.device.type, dtype, enabled=dtype != torch.float32 and not cast):
            last(model(given)).backward()
        model.zero_grad(set_to_none=True)

    return lambda: through(block, x, torch.sum), lambda: through(ends, tokens, lambda logits: loss(logits, tokens))


def line(kind: str, place: Place, group: dist.ProcessGroup | None = None) -> tuple[float, float]:
    """α in s and bytes/s sent of a call over a group, from a small, a middle and a large message; 0 bytes/s: no
    bandwidth shows."""
    ranks = dist.get_world_size(group)
    sizes = [nbytes // (4 * ranks) * 4 * ranks for nbytes in _SIZES[place.device.type]]
    seconds = [timed(collectives.call(kind, nbytes, place, group), place, _BUDGET / 3) for nbytes in sizes]
    try:
        return fit_alpha_beta([ring_sent(kind, nbytes, ranks) for nbytes in sizes], seconds)
    except ValueError:
        return median(seconds), 0.0


def timed(work: Callable[[], object], place: Place, budget: float = _BUDGET) -> float:
    """Seconds of `work`, the same number of times on every rank: the median of a few rounds that all begin together.

    A round's mean, not a call's median: a rank that must wait for a core waits between calls too.
    """
    work(), work()
    place.wait()
    start = time.perf_counter()
    work()
    place.wait()
    once = max(time.perf_counter() - start, 1e-7)
    count = torch.tensor([min(max(int(budget / _ROUNDS / once), 1), 200)], device=place.device)
    if place.ranks > 1:
        dist.broadcast(count, 0)
    rounds = []
    for _ in range(_ROUNDS):
        if place.ranks > 1:
            dist.barrier()
        start = time.perf_counter()
        for _ in range(int(count)):
            work()
        place.wait()
        rounds.append((time.perf_counter() - start) / int(count))
    return median(rounds)
