"""The course's ZeRO and FSDP against their formulas and against torch's fully_shard: `./course bench sharding`.

For every stage and number of ranks: bytes that a rank sends in a step, predicted and metered on the cluster, and
received by real gloo processes (Linux counts them), whose reduce-scatter is an all-reduce; and bytes that it holds at
the peak, predicted and metered. Then the time of a step on real processes: each repeat times one step of ours and one
of torch's fully_shard, one after the other on the same processes; the figure is the median of ours / torch's within one
repeat. Weights, gradients and sums are 32 bits wide here.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bench import interleaved_timing
from bench.parallel import loss_of, received_bytes
from bench.rows import Row, show
from course_lib.cluster import Comm, simulate
from course_lib.estimate import memory
from course_lib.model import accounting
from course_lib.model.text import batch
from course_lib.model.transformer import Config, build
from course_lib.parallel.sharding import FullySharded, Zero, gathered_peak, step_bytes
from course_runs.real_ranks import launch

MODEL = Config(layers=4, hidden=256, heads=8, seq_len=64, positions="learned")
SMALL = replace(MODEL, hidden=128, kv_heads=None, ffn=None)  # for bytes
SEQUENCES = 4  # on each rank
SHORT = 8  # tokens where memory is metered: few activations, so that the state is seen
ROW = 2**19  # bytes of a row in stages 1 and 2
RANKS = (2, 4, 8)
STAGES = (1, 2, 3)
REPEATS = 20
SLOWEST = 1.10  # a step of ours may take so many times torch's
CLOSE = 0.10  # by how much a metered peak may miss the prediction
FRAMES = 0.002, 8192  # a real step may take more bytes by this share, and by these for each rank: headers
WIDE = 4  # bytes of every number


def sharded(comm: Comm, stage: int, config: Config) -> tuple[Any, Any]:
    """A model of that stage and its optimizer."""
    import torch

    model = build(config)
    held = (
        FullySharded(comm, model, list(model.blocks)) if stage == 3 else Zero(comm, model, stage, ROW, init_sync=False)
    )
    return held, torch.optim.AdamW(list(held.shards()), lr=1e-3)


def step_of(held: Any, optimizer: Any, inputs: Any, targets: Any) -> None:
    """One step of training."""
    loss_of(held, inputs, targets).backward()
    held.finish()
    optimizer.step()
    held.zero_grad()
    if isinstance(held, Zero):
        held.gather()


# --- bytes


def metered(comm: Comm, stage: int, config: Config) -> tuple[list[int], int, int]:
    """A second step on the cluster: elements of the rows, the peak until the gradients are there, and activations in
    it."""
    held, optimizer = sharded(comm, stage, config)
    account, data = accounting._here.account, batch(comm.rank, 1, SHORT)
    step_of(held, optimizer, *data)
    account.reset_peak()
    loss_of(held, *data).backward()
    held.finish()
    rows = [row.flat.elements for row in held.rows]
    return rows, account.peak_bytes, account.peak_roles()["saved for backward"]


def sends(comm: Comm, stage: int, config: Config) -> None:
    """One step for the meter."""
    step_of(*sharded(comm, stage, config), *batch(comm.rank, SEQUENCES, config.seq_len))


def receives(comm: Comm, config: Config) -> list[int | None]:
    """Bytes that this rank receives in one step of each stage, by the kernel's count."""
    counts: list[int | None] = []
    for stage in STAGES:
        held, optimizer = sharded(comm, stage, config)
        data = batch(comm.rank, SEQUENCES, config.seq_len)
        step_of(held, optimizer, *data)
        comm.barrier()
        before = received_bytes()
        step_of(held, optimizer, *data)
        comm.barrier()
        after = received_bytes()
        counts.append(None if before is None or after is None else after - before)
    return counts


def peak_bytes(stage: int, ranks: int, rows: Sequence[int], saved: int) -> int:
    """The peak of a backward pass, predicted: state, activations, and what is on its way where that is most.

    Rows go one after the other. Where row k is sent, stage 1 holds the gradients of rows that are not sent yet, stage 2
    of row k; both the buffers of rows k and k - 1, and parts of rows up to k. Stage 3 holds parts, gathered units, the
    gradients of the unit at work and the buffer of the one before; in the second layer, where the first is on its way
    as well, the parts of both and the root's are still to come.
    """
    held = memory.zero_bytes(sum(rows), stage, ranks, "D") + saved
    wide = [elements * WIDE for elements in rows]
    if stage == 3:
        return round(held - (wide[0] + 2 * max(wide)) / ranks + gathered_peak(rows, ranks, WIDE) + 2 * max(wide))
    held -= sum(wide) / (1 if stage == 1 else ranks)  # of this state the gradients are counted here
    at = []
    for k, row in enumerate(wide):
        gradients = sum(wide[k:]) if stage == 1 else row
        at.append(gradients + row + (wide[k - 1] if k else 0) + sum(wide[: k + 1]) / ranks)
    return round(held + max(at))


def byte_rows(ranks: int, config: Config) -> list[Row]:
    """Bytes sent and held, of each stage."""
    real = launch(receives, ranks, args=(config,), timeout=600.0).results
    found = []
    for place, stage in enumerate(STAGES):
        name = f"stage {stage}, {ranks} ranks:"
        held = simulate(metered, ranks, (stage, config), account=True).results
        rows, peak, saved = max(held, key=lambda each: each[1])
        want, sent = (
            step_bytes(rows, ranks, stage, WIDE, WIDE),
            max(simulate(sends, ranks, (stage, config)).meter.bytes_sent),
        )
        found += [
            Row(f"{name} bytes of a step, predicted", want, "bytes"),
            Row(f"{name} metered", sent, "bytes", sent == want),
        ]
        counts, (share, more) = [rank[place] for rank in real], FRAMES
        gloo = step_bytes(
            rows, ranks, stage, WIDE, 2 * WIDE
        )  # gloo reduces and scatters by an all-reduce: twice the bytes
        found.append(
            Row(f"{name} of gloo, predicted", gloo, "bytes", None, "its reduce-scatter sends as much as an all-reduce")
        )
        if None in counts:
            found.append(Row(f"{name} of gloo", 0, "bytes", None, "this system does not count them"))
        else:
            most = max(counts)
            found.append(
                Row(
                    f"{name} of gloo",
                    most,
                    "bytes",
                    gloo <= most <= gloo * (1 + share) + more * ranks,
                    f"{most / gloo:.4f} of predicted",
                )
            )
        expected = peak_bytes(stage, ranks, rows, saved)
        close = abs(peak / expected - 1) <= CLOSE
        found += [
            Row(f"{name} peak, predicted", expected, "bytes"),
            Row(f"{name} peak, metered", peak, "bytes", close, f"{peak / expected:.3f} of predicted"),
        ]
    return found


# --- time


def contenders(comm: Comm, config: Config) -> dict[str, Callable[[Any, Any], None]]:
    """A step of ours and one of torch's, on models of their own."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    held, optimizer = sharded(comm, 3, config)
    peer, mesh = build(config), init_device_mesh("cpu", (comm.size,))
    for each in (*peer.blocks, peer):
        fully_shard(each, mesh=mesh)
    adam = torch.optim.AdamW(peer.parameters(), lr=1e-3)

    def our_step(inputs: object, targets: object) -> None:
        step_of(held, optimizer, inputs, targets)

    def their_step(inputs: object, targets: object) -> None:
        loss_of(peer, inputs, targets).backward()
        adam.step()
        adam.zero_grad()

    return {"ours": our_step, "torch's": their_step}


def times_here(comm: Comm, config: Config, repeats: int) -> list[list[float]]:
    """Seconds of a step on this rank, a row a repeat: ours, torch's."""
    import torch

    torch.set_num_threads(1)
    ours, theirs = contenders(comm, config).values()
    return interleaved_timing.times_here(
        comm, ours, theirs, lambda repeat: batch(repeat * comm.size + comm.rank, SEQUENCES, config.seq_len), repeats
    )


def ratio_rows(config: Config, repeats: int) -> list[Row]:
    """Our step against torch's on two processes."""
    by_rank = launch(times_here, 2, args=(config, repeats), timeout=600.0).results
    return interleaved_timing.ratio_rows("stage 3, 2 processes", "fully_shard", by_rank, SLOWEST)


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 where a figure misses what it is held to."""
    parser = argparse.ArgumentParser(prog="course bench sharding", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="for the bytes")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--hidden", type=int, default=MODEL.hidden, help="width of the model that is timed")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    if given.repeats < 2 or min(given.ranks) < 2:
        parser.error("a ratio needs 2 repeats and 2 ranks at least")
    batch(0, 1, 1)  # the text's table is made once, and is no rank's memory
    rows: list[Row] = []
    for ranks in given.ranks:
        print(f"{ranks} ranks …", file=sys.stderr, flush=True)
        rows += byte_rows(ranks, replace(SMALL, hidden=min(given.hidden, SMALL.hidden), kv_heads=None, ffn=None))
    rows += ratio_rows(replace(MODEL, hidden=given.hidden, kv_heads=None, ffn=None), given.repeats)
    return show(rows, given.json)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
