"""The course's data parallelism on two real processes against torch's DistributedDataParallel:
`./course bench parallel`.

A step is forward, backward, averaging and AdamW, on one model and batch. Each repeat times one step of both on the same
processes, one after the other, so that what else the machine does falls on both alike; the figure is the median of ours
/ torch's within one repeat. The bytes of a step are predicted, metered on the cluster, and read from the kernel's
counters of the connections that gloo's processes hold (Linux). Parity with one process comes with it.
"""

import argparse
import importlib
import importlib.util
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bench import interleaved_timing
from bench.rows import Row, show
from course_lib.cluster import Comm, simulate
from course_lib.cluster.parity import step_bytes
from course_lib.model.text import batch
from course_lib.model.transformer import Config, Transformer, build
from course_lib.parallel.data import DataParallel, buckets_of
from course_runs.real_ranks import launch

MODEL = Config(layers=4, hidden=256, heads=8, seq_len=64, positions="learned")  # no buffers, so none are sent
SEQUENCES = 4  # on each rank
BUCKET = 2 * 2**20  # bytes, of both
RANKS = (2, 4)  # for the bytes; times are taken of the first
REPEATS = 20
SLOWEST = 1.10  # a step of ours may take so many times torch's
FRAMES = (
    0.002,
    16_384,
)  # a real step may take more bytes by this share and these bytes: headers, and the count of tokens
PARTS = ("bench.parallel_parity", "bench.parallel_tp")  # their rows follow, where they are there


# --- time


def loss_of(model: Any, inputs: Any, targets: Any) -> Any:
    """Mean cross-entropy: ranks have equally many tokens here, so the mean of means is the mean."""
    import torch

    return torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def contenders(comm: Comm, config: Config, bucket_bytes: int) -> dict[str, Callable[[Any, Any], None]]:
    """A step of ours and one of torch's on models of their own, alike at the start."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    ours, theirs = build(config), build(config)
    replica = DataParallel(comm, ours, bucket_bytes)
    peer = DistributedDataParallel(theirs, bucket_cap_mb=bucket_bytes / 2**20)
    adams = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (ours, theirs)]

    def our_step(inputs: object, targets: object) -> None:
        loss_of(replica, inputs, targets).backward()
        replica.finish()
        adams[0].step()
        adams[0].zero_grad()

    def their_step(inputs: object, targets: object) -> None:
        loss_of(peer, inputs, targets).backward()
        adams[1].step()
        adams[1].zero_grad()

    return {"ours": our_step, "torch's": their_step}


def times_here(comm: Comm, config: Config, sequences: int, bucket_bytes: int, repeats: int) -> list[list[float]]:
    """Seconds of a step on this rank, a row a repeat: ours, torch's."""
    import torch

    torch.set_num_threads(1)
    ours, theirs = contenders(comm, config, bucket_bytes).values()
    return interleaved_timing.times_here(
        comm, ours, theirs, lambda repeat: batch(repeat * comm.size + comm.rank, sequences, config.seq_len), repeats
    )


def ratio_rows(ranks: int, config: Config, sequences: int, bucket_bytes: int, repeats: int) -> list[Row]:
    """Our step against torch's."""
    by_rank = launch(times_here, ranks, args=(config, sequences, bucket_bytes, repeats), timeout=600.0).results
    return interleaved_timing.ratio_rows("data parallel", "DDP", by_rank, SLOWEST)


# --- bytes


def received_bytes() -> int | None:
    """Bytes that this process's TCP connections have received since they began; None where no kernel counts them.

    From TCP_INFO of every open socket (tcp(7), tcpi_bytes_received since Linux 4.1): retransmissions are not in it.
    """
    if not sys.platform.startswith("linux"):
        return None
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:  # the listing's own
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            continue
        with connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += struct.unpack_from("Q", told, 128)[0] if len(told) >= 136 else 0
    return total


def bytes_here(comm: Comm, config: Config, sequences: int, bucket_bytes: int) -> list[int | None]:
    """Bytes that this rank receives in one step: ours, torch's. The step before builds torch's buckets anew."""
    counts: list[int | None] = []
    for step in contenders(comm, config, bucket_bytes).values():
        for number in range(2):
            inputs, targets = batch(number * comm.size + comm.rank, sequences, config.seq_len)
            comm.barrier()
            before = received_bytes()
            step(inputs, targets)
            comm.barrier()
            after = received_bytes()
        counts.append(None if before is None or after is None else after - before)
    return counts


def one_step(comm: Comm, model: Transformer, sequences: int, bucket_bytes: int) -> None:
    """A step for the meter, from replicas that are alike."""
    replica = DataParallel(comm, model, bucket_bytes, init_sync=False)
    loss_of(replica, *batch(comm.rank, sequences, model.config.seq_len)).backward()
    replica.finish()


def byte_rows(ranks: int, config: Config, sequences: int, bucket_bytes: int) -> list[Row]:
    """The bytes of a step, of the rank that receives most: predicted, metered, and real, ours and torch's."""
    model = build(config)
    predicted = max(step_bytes(buckets_of(reversed(list(model.parameters())), bucket_bytes), ranks))
    metered = max(simulate(one_step, ranks, (model, sequences, bucket_bytes)).meter.bytes_received)
    real = launch(bytes_here, ranks, args=(config, sequences, bucket_bytes), timeout=600.0).results
    name = f"data parallel, {ranks} ranks: bytes of a step"
    rows = [
        Row(f"{name}, predicted", predicted, "bytes"),
        Row(f"{name}, metered", metered, "bytes", metered == predicted),
    ]
    share, more = FRAMES
    for place, who in enumerate(("gloo, ours", "gloo, torch's DDP")):
        counts = [rank[place] for rank in real]
        if None in counts:
            rows.append(Row(f"{name}, {who}", 0, "bytes", None, "this system does not count them"))
            continue
        rows.append(
            Row(f"{name}, {who}", max(counts), "bytes", predicted <= max(counts) <= predicted * (1 + share) + more)
        )
    return rows


# --- the table


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 where a figure misses what it is held to."""
    parser = argparse.ArgumentParser(prog="course bench parallel", description=__doc__)
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=RANKS, help="for the bytes; times are taken of the first"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--hidden", type=int, default=MODEL.hidden, help="width of the model")
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="on each rank")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    if given.repeats < 2 or min(given.ranks) < 2:
        parser.error("a ratio needs 2 repeats and 2 ranks at least")
    config = replace(MODEL, hidden=given.hidden, kv_heads=None, ffn=None)
    rows: list[Row] = []
    for ranks in given.ranks:
        print(f"{ranks} ranks …", file=sys.stderr, flush=True)
        rows += byte_rows(ranks, config, given.sequences, BUCKET)
    rows += ratio_rows(given.ranks[0], config, given.sequences, BUCKET, given.repeats)
    for part in PARTS:
        if importlib.util.find_spec(part):
            print(f"{part.rpartition('.')[2]} …", file=sys.stderr, flush=True)
            rows += importlib.import_module(part).rows()
    return show(rows, given.json)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
