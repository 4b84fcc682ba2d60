"""A small training that survives, as one of its ranks: `survive` starts it, does harm to it, and looks at what it did.

Every rank starts from the newest checkpoint that is whole, whatever the number of ranks is now. After each step the
replicas compare checksums of their weights, and how long their own work took; after each few, they save in the
background. A rank that finds something wrong ends: torchrun's agent then starts all ranks anew. Every step is logged
with the samples that were read.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.model import text
from course_lib.model.checkpoint import (
    BackgroundSaver,
    CheckpointStore,
    PieceReader,
    Position,
    SampleOrder,
    Training,
    new_attempt,
    share_of,
    tensors_of,
)
from course_lib.model.transformer import Config, loss
from course_lib.operate.faults import checksum, find_straggler, flip_bit, vote
from course_runs.model import build
from course_runs.process_group import Place, end, join

SAMPLES, BATCH = 200, 12
CONFIG = Config(vocab=64, layers=2, hidden=32, heads=4, seq_len=16)
KINDS = ("killed", "hung", "slow", "flipped")
SLOW = 0.25  # s that the slow rank's own work takes longer
WINDOW = 6  # steps whose times are compared


class Log:
    """What a rank did, one JSON line each, readable at any moment and whole after a kill."""

    def __init__(self, folder: Path, launch: int, rank: int) -> None:
        self.launch, self.rank = launch, rank
        self.file = os.open(folder / f"log-{launch:03d}-{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, what: str, **more: object) -> None:
        """Write one line."""
        content = {"what": what, "launch": self.launch, "rank": self.rank, "when": time.time(), **more}
        os.write(self.file, (json.dumps(content) + "\n").encode())


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="surviving", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--folder", required=True, help="shared by all ranks: checkpoints, logs, and the harm that is planned")
    add("--steps", type=int, default=30)
    add("--every", type=int, default=3, help="steps between two checkpoints")
    add("--pace", type=float, default=0.02, help="s that a step takes at least")
    add("--timeout", type=float, default=10.0, help="s that a collective may take")
    add("--device", default="auto")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Train to the last step; the exit code."""
    given = arguments(argv)
    place = join(given.device, "auto", given.timeout)
    launch, attempt = _same_for_all(place, lambda: (_launch(Path(given.folder)), new_attempt()))
    log = Log(Path(given.folder), launch, place.rank)
    try:
        return train(given, place, log, attempt)
    except RuntimeError as error:  # a collective that another rank did not join
        log.say("lost the others", error=str(error).splitlines()[0][:200])
        return 3


def train(given: argparse.Namespace, place: Place, log: Log, attempt: str) -> int:
    """From the newest whole checkpoint to the last step."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    training, order = _fresh(place), SampleOrder(SAMPLES, BATCH)
    store = CheckpointStore(Path(given.folder) / "checkpoints", model="surviving", keep=3)
    start = _resume(training, store, log)
    log.say("start", step=start, ranks=place.ranks, pid=os.getpid(), agent=os.getppid())
    saver, harm = BackgroundSaver(store, place.rank, place.ranks), Harm(Path(given.folder), log)
    times: list[list[float]] = []
    for step in range(start, given.steps):
        began = time.perf_counter()
        samples = order.share(training.position, place.rank, place.ranks)
        harm.before(step, place.rank)
        own_loss = _backward(training.model, samples, place)
        time.sleep(max(0.0, given.pace - (time.perf_counter() - began)))
        harm.slow(step, place.rank)
        own = time.perf_counter() - began
        value = _average(training.model, own_loss)
        training.optimizer.step()
        training.optimizer.zero_grad()
        training.position = order.step(training.position)[1]
        harm.after(step, place.rank, training.model)
        sums, took = _compare(training, own, place)
        log.say("step", step=step, ranks=place.ranks, samples=samples, loss=value, checksum=sums[place.rank])
        if (seen := vote(sums)).odd or not seen.decided:
            log.say("corrupt", step=step, odd=list(seen.odd), decided=seen.decided)
            return 4  # nothing of this step was saved
        times.append(took)
        slow = (
            find_straggler({"work": times[-WINDOW:]}, ratio=2.0) if len(times) >= WINDOW and place.ranks > 1 else None
        )
        if slow is not None:
            log.say("straggler", step=step, odd=[slow.rank], ratio=slow.ratio)
            return 5
        if (step + 1) % given.every == 0 or step + 1 == given.steps:
            pieces = share_of(tensors_of(training), place.rank, place.ranks)
            notes = {"position": [training.position.epoch, training.position.taken]}
            stall = saver.save(step + 1, attempt, pieces, notes, patience=given.timeout)
            log.say("saved", step=step + 1, stall=stall.waited + stall.copied)
    saver.wait()
    dist.barrier()
    log.say("done", step=given.steps, weights=_digest(training.model))
    return 0


class Harm:
    """What was planned to happen to a rank at a step; each happens once, however often the step is repeated."""

    def __init__(self, folder: Path, log: Log) -> None:
        path = folder / "harm.json"
        self.folder, self.log = folder, log
        self.plan = json.loads(path.read_text()) if path.exists() else []
        self.slow_until = -1

    def before(self, step: int, rank: int) -> None:
        """A rank dies, or stops for good."""
        if self._now("killed", step, rank):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._now("hung", step, rank):
            while True:
                time.sleep(1.0)

    def slow(self, step: int, rank: int) -> None:
        """A rank's own work takes longer, from this step on."""
        if self._now("slow", step, rank):
            self.slow_until = step + 3 * WINDOW
        if step <= self.slow_until:
            time.sleep(SLOW)

    def after(self, step: int, rank: int, model: nn.Module) -> None:
        """A bit of a weight flips."""
        if self._now("flipped", step, rank):
            weight = next(iter(model.parameters())).data
            flip_bit(weight, weight.numel() // 2, 12)

    def _now(self, kind: str, step: int, rank: int) -> bool:
        for number, each in enumerate(self.plan):
            if (each["kind"], each["step"], each["rank"]) == (kind, step, rank):
                try:
                    os.close(os.open(self.folder / f"harm-{number}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                self.log.say("harm", kind=kind, step=step)
                return True
        return False


def _fresh(place: Place) -> Training:
    model = build(CONFIG, place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for parameter in model.parameters():  # as after a first step, so that a checkpoint finds where to go
        parameter.grad = torch.zeros_like(parameter)
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for state in optimizer.state.values():
        for value in state.values():
            value.zero_()
    optimizer.zero_grad()
    return Training(model, optimizer)


def _resume(training: Training, store: CheckpointStore, log: Log) -> int:
    found = store.newest()
    if found is None:
        return 0
    for error in found.damaged:
        log.say("damaged", kind=error.kind, words=str(error))
    reader = PieceReader(store, found)
    reader.fill(tensors_of(training))
    training.position = Position(*reader.notes_of(0)["position"])
    log.say("resumed", step=found.step, written_by=found.ranks)
    return found.step


def _backward(model: nn.Module, samples: Sequence[int], place: Place) -> Tensor:
    """The sum of this rank's samples' losses, each over the whole batch's size, so that gradients of ranks add up."""
    if not samples:
        return torch.zeros((), device=place.device)
    rows = [text.batch(sample, 1, CONFIG.seq_len) for sample in samples]
    tokens, targets = (torch.cat([row[part] for row in rows]).to(place.device) for part in (0, 1))
    value = loss(model(tokens), targets) * (len(samples) / BATCH)
    value.backward()
    return value.detach()


def _average(model: nn.Module, value: Tensor) -> float:
    """Add up all ranks' gradients in one message; the mean loss of the batch."""
    gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    flat = torch.cat([value.view(1), *(each.view(-1) for each in gradients)])
    dist.all_reduce(flat)
    at = 1
    for parameter, each in zip(model.parameters(), gradients, strict=True):
        parameter.grad = flat[at : at + each.numel()].view_as(each).clone()
        at += each.numel()
    return float(flat[0])


def _compare(training: Training, own: float, place: Place) -> tuple[list[int], list[float]]:
    """All ranks' checksums of weights and moments, and the seconds of their own work."""
    mine = checksum(tensors_of(training).values())
    signed = mine - 2**64 if mine >= 2**63 else mine
    numbers = torch.tensor([signed, int(own * 1e9)], dtype=torch.int64, device=place.device)
    everybody = [torch.empty_like(numbers) for _ in range(place.ranks)]
    dist.all_gather(everybody, numbers)
    rows = torch.stack(everybody).tolist()
    return [row[0] for row in rows], [row[1] / 1e9 for row in rows]


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, each in model.state_dict().items():
        digest.update(name.encode() + each.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _launch(folder: Path) -> int:
    """The number of this start of the job: 0, 1, 2, …"""
    number = 0
    while True:
        try:
            os.close(os.open(folder / f"launch-{number:03d}", os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            number += 1


Made = TypeVar("Made")


def _same_for_all(place: Place, make: Callable[[], Made]) -> Made:
    """What rank 0 makes, on all ranks."""
    made = [make() if place.first else None]
    dist.broadcast_object_list(made, device=place.device)
    assert made[0] is not None
    return made[0]


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:
        print(f"surviving: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        code = 1
    end(code)  # at once: threads of a collective that failed may wait for ever
