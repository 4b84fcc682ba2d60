"""The course's data parallelism, tensor parallelism and ZeRO on real processes, beside PyTorch's own: `./course bench
parallel`.

A step is forward, backward and AdamW, on one model. Its bytes are predicted, and read from the kernel's counters of the
connections that gloo's processes hold (Linux); gloo makes a reduce-scatter by an all-reduce, so ZeRO's prediction
counts one twice. Each repeat times one step of ours and one of PyTorch's on the same processes, one after the other, so
that what else the machine does falls on both alike; the figure is the median of ours / torch's within one repeat.
"""

import argparse
import os
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from bench.rows import Row, show
from course_lib.cluster import Comm
from course_lib.cluster.parity import step_bytes as averaged_bytes
from course_lib.model.text import batch
from course_lib.model.transformer import Config, build
from course_lib.parallel.data import DataParallel, buckets_of
from course_lib.parallel.sharding import FullySharded, Zero, step_bytes
from course_lib.parallel.tensor import build as build_part
from course_lib.parallel.tensor import tp_bytes_per_step
from course_runs.real_ranks import launch

MODEL = Config(layers=4, hidden=256, heads=8, seq_len=64)
SEQUENCES = 4  # of a batch
BUCKET = 2 * 2**20  # bytes, of both sides of data parallelism
ROW = 2**19  # bytes of a row in ZeRO-1 and ZeRO-2
RANKS = (2, 4)  # for the bytes; times are taken of the first
REPEATS = 20
SLOWEST = 1.10  # a step of ours may take so many times torch's
SHARE = 0.002  # by which a real step may take more bytes than predicted, beside the headers of its messages
WIDE = 4  # bytes of every number

Step = Callable[[Tensor, Tensor], None]  # of inputs and targets


@dataclass(frozen=True, slots=True)
class Side:
    """One rank's side of a way to train."""

    step: Step  # of inputs and targets
    predicted: float = 0.0  # bytes that a rank receives in a step
    headers: int = 0  # bytes that gloo may add to them


@dataclass(frozen=True, slots=True)
class Way:
    """A way to train: ours, PyTorch's where one is timed beside it, and whether all ranks work on one batch."""

    name: str
    ours: Callable[[Comm, Config], Side]
    rival: str = ""
    theirs: Callable[[Comm, Config], Side] | None = None
    one_batch: bool = False


# --- the ways


def stepping(
    model: nn.Module, parameters: Iterable[nn.Parameter], finish: Callable[[], object], after: Callable[[], object]
) -> Step:
    """A step of AdamW on a model: `finish` completes its gradients, `after` follows the update."""
    import torch

    adam = torch.optim.AdamW(parameters, lr=1e-3)

    def step(inputs: Tensor, targets: Tensor) -> None:
        torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
        finish()
        adam.step()
        adam.zero_grad()
        after()

    return step


def _nothing() -> None: ...


def _ddp(comm: Comm, config: Config) -> Side:
    model = build(replace(config, positions="learned"))  # no buffers, which torch's would send
    replica = DataParallel(comm, model, BUCKET)
    predicted = max(averaged_bytes(buckets_of(reversed(list(model.parameters())), BUCKET), comm.size))
    return Side(stepping(replica, model.parameters(), replica.finish, _nothing), predicted, 16_384)


def _torch_ddp(comm: Comm, config: Config) -> Side:
    from torch.nn.parallel import DistributedDataParallel

    model = build(replace(config, positions="learned"))
    peer = DistributedDataParallel(model, bucket_cap_mb=BUCKET / 2**20)
    return Side(stepping(peer, model.parameters(), _nothing, _nothing))


def _tensor(comm: Comm, config: Config) -> Side:
    import torch

    model = build_part(config, comm)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)

    def step(inputs: Tensor, targets: Tensor) -> None:
        model.loss(model(inputs), targets).backward()
        model.finish()
        adam.step()
        adam.zero_grad()

    predicted = tp_bytes_per_step(config, SEQUENCES, config.seq_len, comm.size).total
    return Side(step, predicted, 1024 * comm.size * 10 * (config.layers + 1))  # at most so many collectives


def _torch_tensor(comm: Comm, config: Config) -> Side:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

    columns = ("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up")
    styles: dict[str, ParallelStyle] = {f"blocks.*.{name}": ColwiseParallel() for name in columns}
    styles |= {f"blocks.*.{name}": RowwiseParallel() for name in ("attention.wo", "mlp.down")}
    styles["embedding"] = RowwiseParallel(input_layouts=Replicate())
    styles["head"] = ColwiseParallel(output_layouts=Replicate())
    model = parallelize_module(build(config), init_device_mesh("cpu", (comm.size,)), styles)
    return Side(stepping(model, model.parameters(), _nothing, _nothing))


def _zero(stage: int) -> Callable[[Comm, Config], Side]:
    def side(comm: Comm, config: Config) -> Side:
        model = build(config)
        held: FullySharded | Zero = (
            FullySharded(comm, model, list(model.blocks))
            if stage == 3
            else Zero(comm, model, stage, ROW, init_sync=False)
        )
        elements = [row.flat.elements for row in held.rows]
        predicted = step_bytes(elements, comm.size, stage, WIDE, 2 * WIDE)

        def after() -> None:
            held.zero_grad()
            if isinstance(held, Zero):
                held.gather()

        return Side(stepping(held, list(held.shards()), held.finish, after), predicted, 8192 * comm.size)

    return side


def _torch_fsdp(comm: Comm, config: Config) -> Side:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = build(config), init_device_mesh("cpu", (comm.size,))
    for each in (*model.blocks, model):
        fully_shard(each, mesh=mesh)
    return Side(stepping(model, model.parameters(), _nothing, _nothing))


WAYS = (
    Way("data parallel", _ddp, "DDP", _torch_ddp),
    Way("tensor parallel", _tensor, "parallelize_module", _torch_tensor, one_batch=True),
    Way("ZeRO-1", _zero(1)),
    Way("ZeRO-2", _zero(2)),
    Way("ZeRO-3", _zero(3), "fully_shard", _torch_fsdp),
)


# --- bytes and times


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


def times_here(
    comm: Comm, ours: Step, theirs: Step, batch_of: Callable[[int], tuple[Tensor, Tensor]], repeats: int
) -> list[list[float]]:
    """Seconds of a step on this rank, a row a repeat: ours, torch's; who begins alternates. Two repeats run first."""
    rows = []
    for repeat in range(repeats + 2):
        inputs, targets = batch_of(repeat)
        row = [0.0, 0.0]
        for place in (0, 1) if repeat % 2 else (1, 0):
            comm.barrier()
            start = time.perf_counter()
            (ours, theirs)[place](inputs, targets)
            row[place] = time.perf_counter() - start
        rows.append(row)
    return rows[2:]


def ratio_rows(name: str, rival: str, by_rank: Sequence[Sequence[Sequence[float]]], slowest: float) -> list[Row]:
    """Medians of both and the quartiles of their ratio, from each rank's times. A repeat's time is that of its slowest
    rank."""
    times = [[max(each) for each in zip(*repeat, strict=True)] for repeat in zip(*by_rank, strict=True)]
    low, middle, high = statistics.quantiles([mine / other for mine, other in times], n=4)
    ours, theirs = (statistics.median(row[at] for row in times) for at in (0, 1))
    return [
        Row(f"{name}: a step of ours", ours * 1e3, "ms"),
        Row(f"{name}: a step of torch's {rival}", theirs * 1e3, "ms"),
        Row(f"{name}: ours / torch's", middle, "times", middle <= slowest, f"quartiles {low:.2f} to {high:.2f}"),
    ]


def here(comm: Comm, place: int, config: Config, repeats: int) -> tuple[float, int, int | None, list[list[float]]]:
    """On one rank, of a way by its place in `WAYS`: the bytes predicted, those of headers, those received in a second
    step, and seconds of steps, a row a repeat: ours, torch's."""
    import torch

    torch.set_num_threads(1)
    way = WAYS[place]

    def batch_of(repeat: int) -> tuple[Tensor, Tensor]:
        return batch(repeat if way.one_batch else repeat * comm.size + comm.rank, SEQUENCES, config.seq_len)

    side = way.ours(comm, config)
    side.step(*batch_of(0))  # opens the connections
    comm.barrier()
    before = received_bytes()
    side.step(*batch_of(1))
    comm.barrier()
    after = received_bytes()
    count = None if before is None or after is None else after - before
    theirs = way.theirs(comm, config) if way.theirs and repeats else None
    times = times_here(comm, side.step, theirs.step, batch_of, repeats) if theirs else []
    return side.predicted, side.headers, count, times


def rows_of(way: Way, ranks: int, config: Config, repeats: int) -> list[Row]:
    """The bytes of a step on the rank that receives most; with `repeats`, times beside PyTorch's."""
    by_rank = launch(here, ranks, args=(WAYS.index(way), config, repeats), timeout=600.0).results
    predicted, headers = (max(rank[at] for rank in by_rank) for at in (0, 1))
    counts = [count for _, _, count, _ in by_rank if count is not None]
    name = f"{way.name}, {ranks} ranks: bytes of a step"
    rows = [Row(f"{name}, predicted", predicted, "bytes")]
    if len(counts) == ranks:
        ok = predicted <= max(counts) <= predicted * (1 + SHARE) + headers
        rows.append(Row(f"{name}, gloo", max(counts), "bytes", ok))
    else:
        rows.append(Row(f"{name}, gloo", 0, "bytes", None, "this system does not count them"))
    if way.theirs and repeats:
        rows += ratio_rows(way.name, way.rival, [rank[3] for rank in by_rank], SLOWEST)
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 where a figure misses what it is held to."""
    parser = argparse.ArgumentParser(prog="course bench parallel", description=__doc__)
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=RANKS, help="for the bytes; times are taken of the first"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--hidden", type=int, default=MODEL.hidden, help="width of the model")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    if given.repeats < 2 or min(given.ranks) < 2:
        parser.error("a ratio needs 2 repeats and 2 ranks at least")
    config = replace(MODEL, hidden=given.hidden, kv_heads=None, ffn=None)
    rows: list[Row] = []
    for way in WAYS:
        for at, ranks in enumerate(given.ranks):
            print(f"{way.name}, {ranks} ranks …", file=sys.stderr, flush=True)
            rows += rows_of(way, ranks, config, 0 if at else given.repeats)
    return show(rows, given.json)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
