"""Train: on the metered cluster, on processes of this machine, or on GPUs. `python -m trainer.run --help`."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import torch

from . import divided, replicas
from .checkpoint import move_to_a_new_trainer
from .parts import load_parts
from .settings import LAYOUTS, Settings

PATIENCE = timedelta(seconds=120)  # that a process waits for a message before it gives up

TRAINERS = {
    "data": replicas.Data,
    "half": replicas.Half,
    "zero": replicas.Zero,
    "sharded": replicas.Sharded,
    "tensor": divided.Tensors,
    "pipeline": divided.Pipeline,
    "context": divided.Context,
    "experts": divided.Experts,
    "mesh": divided.Mesh,
}


def train(comm, s: Settings, parts, device: str = "cpu", folder: Path | None = None) -> dict:
    """Train on this rank. Losses in nats per token and norms are those of each step's whole batch, before its
    update."""
    trainer = TRAINERS[s.layout](comm, s, parts, device)
    losses, norms, seconds = [], [], []
    for step in range(s.steps):
        if s.stop and step == s.stop:
            assert folder is not None
            trainer = move_to_a_new_trainer(
                trainer, lambda new: TRAINERS[s.layout](comm, new, parts, device), parts, folder / f"rank-{comm.rank}"
            )
        began = time.perf_counter()
        loss, norm = trainer.step()  # the loss as a number: a GPU has finished the step's passes by then
        losses.append(loss)
        norms.append(norm)
        seconds.append(time.perf_counter() - began)
    held = sum(weight.nbytes for weight in trainer.model.parameters())
    return {"losses": losses, "norms": norms, "seconds": seconds, "weight_bytes": held}


def on_rank(comm, s: Settings, folders: list[str], device: str = "cpu", folder: str = "") -> dict:
    """`train` with the parts of these folders, loaded for this rank alone."""
    torch.set_num_threads(1)
    return train(comm, s, load_parts(*map(Path, folders)), device, Path(folder) if folder else None)


def on_cluster(s: Settings, ranks: int, folders: list[str]) -> dict:
    """Train on the metered cluster: rank 0's result, with the bytes that the busiest rank sent in a step."""
    from course_lib.cluster import simulate

    with tempfile.TemporaryDirectory() as disk:
        run = simulate(on_rank, ranks, args=(s, folders, "cpu", disk))
    sent, messages = max(run.meter.bytes_sent), max(run.meter.messages_sent)
    return {**run.results[0], "bytes": sent / s.steps, "messages": messages / s.steps, "wall": run.wall_seconds}


def on_processes(s: Settings, folders: list[str], with_gpus: bool = False) -> dict | None:
    """Train as one of the processes that `torchrun` started; rank 0's result, None on the others.

    `with_gpus`: rank r computes on GPU r. If there are fewer GPUs than ranks, ranks share them.
    """
    import torch.distributed as dist

    from course_runs.real_ranks.gloo import RealComm

    from .gpus import OnGpus

    rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    comm: RealComm | OnGpus = RealComm(range(size))
    device, backend = "cpu", "gloo"
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a rank at once, even while it waits for a message
    if with_gpus:
        count = torch.cuda.device_count()
        shared = count < int(os.environ["LOCAL_WORLD_SIZE"])
        comm, device, backend = (
            OnGpus(comm, shared),
            f"cuda:{local % count}",
            "gloo" if shared else "cpu:gloo,cuda:nccl",
        )
        torch.cuda.set_device(device)
        torch.set_default_device(device)
        torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group(backend, timeout=PATIENCE)
    try:
        with tempfile.TemporaryDirectory() as disk:
            result = on_rank(comm, s, folders, device, disk)
    finally:
        dist.destroy_process_group()
    return (
        {**result, "device": torch.cuda.get_device_name() if with_gpus else "CPU", "ranks": size} if not rank else None
    )


def complaint(error: Exception, folders: list[str]) -> str:
    """What stopped a training: the innermost line of a part that led there, and the error."""
    homes = {Path(folder).resolve() for folder in folders}
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).resolve().parent in homes]
    where = f"{Path(inside[-1].filename).name}, line {inside[-1].lineno}: " if inside else ""
    return f"{where}{type(error).__name__}: {str(error).strip()}"


def main(arguments: list[str] | None = None) -> int:
    """Train and print the losses. Under `torchrun` every process is a rank; otherwise the metered cluster has them
    all."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.run",
        description="Train the small transformer with the parts of this folder.",
        epilog="example: torchrun --nproc-per-node 2 -m trainer.run --layout tensor --steps 20",
    )
    parser.add_argument("--layout", choices=LAYOUTS, default="data", help="what the ranks share (default: %(default)s)")
    parser.add_argument(
        "--ranks", type=int, default=1, help="ranks of the metered cluster: 1, 2, 4 or 8 (default: %(default)s)"
    )
    parser.add_argument("--gpus", action="store_true", help="under torchrun: compute on this machine's GPUs")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of words")
    parser.add_argument("--parts", nargs="*", help="folders with the parts (default: the one beside this file)")
    for field in fields(Settings):
        if field.type in (int, float):
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default, help="default: %(default)s")
    given = vars(parser.parse_args(arguments))
    folders = given.pop("parts") or [str(Path(__file__).parent.parent / "parts")]
    ranks, as_json, with_gpus = given.pop("ranks"), given.pop("json"), given.pop("gpus")
    s, started = Settings(**given), "LOCAL_RANK" in os.environ
    s.check(int(os.environ["WORLD_SIZE"]) if started else ranks, parser.error)
    try:
        result = on_processes(s, folders, with_gpus) if started else on_cluster(s, ranks, folders)
    except KeyboardInterrupt:
        print("Stopped. Nothing was written.", file=sys.stderr)
        return 130
    except Exception as error:
        name = f"rank {os.environ['RANK']}: " if started else ""
        print(f"trainer: {name}{complaint(error, folders)}", file=sys.stderr, flush=True)
        return 1
    if result is None:
        return 0
    if as_json:
        print(json.dumps(result))
        return 0
    for step, (loss, norm) in enumerate(zip(result["losses"], result["norms"], strict=True), 1):
        print(f"step {step:3}   loss {loss:.4f}   norm {norm:.3f}")
    if "bytes" in result:
        print(f"The busiest rank sent {result['bytes']:,.0f} bytes in {result['messages']:,.0f} messages per step.")
    else:
        fast = sorted(result["seconds"])[len(result["seconds"]) // 2]
        print(f"{s.sequences * s.seq / fast:,.0f} tokens/s on {result['ranks']} x {result['device']}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
