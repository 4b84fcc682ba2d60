"""A run that fails on purpose, as one of its ranks: `failures` starts it and finds out what happened.

Every rank leaves a note in the run's folder whenever it goes from one thing to the next. That is all that the diagnosis
has, besides how the processes ended: as with a real run, whose flight recorder is written by those who still live.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

import torch
import torch.distributed as dist

from course_lib.messages import Trouble
from course_runs.process_group import Place, join, leave

KINDS = ("none", "killed", "hung", "slow", "mismatched", "version")
AT = 5  # the step in which it happens
STEPS = 10
# s that joining and the first collective may take: NCCL's own start alone can take longer than a step's patience
START = 120.0
SLOW = 0.15  # s that the straggler takes longer in each step


class Note(TypedDict, total=False):
    """What a rank writes down."""

    rank: int
    pid: int
    work: list[float]  # seconds of its own work in each step
    error: str
    doing: str
    step: int
    since: float


class Notes:
    """One rank's last word: what it does, in which step, since when, and how long its own work takes."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / f"rank-{rank}.json"
        self.content: Note = {"rank": rank, "pid": os.getpid(), "work": [], "error": ""}

    def say(self, doing: str, step: int, error: str = "") -> None:
        """Write it down, whole or not at all."""
        self.content |= {"doing": doing, "step": step, "since": time.time(), "error": error}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content), encoding="utf-8")
        part.replace(self.path)


def same_everywhere(place: Place, what: dict[str, str]) -> None:
    """Trouble, on every rank, where ranks differ in what must be the same: before anything depends on it."""
    everybody: list[dict[str, str]] = [{} for _ in range(place.ranks)]
    dist.all_gather_object(everybody, what)
    for name in what:
        said = [each.get(name, "") for each in everybody]
        if len(set(said)) > 1:
            usual = max(set(said), key=said.count)
            odd = ", ".join(f"rank {rank} has {value}" for rank, value in enumerate(said) if value != usual)
            raise Trouble(
                f"The ranks do not have the same {name}: {odd}, the others {usual}.",
                "start every node from one image, or one environment on a shared disk",
            )


def hurry(place: Place, seconds: float) -> None:
    """From now on a collective may take so long: once all ranks have met, and their library has started."""
    dist.all_reduce(torch.zeros(1, device=place.device))
    place.wait()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds))


def main(argv: Sequence[str] | None = None) -> int:
    """One rank; the exit code."""
    parser = argparse.ArgumentParser(prog="failing", description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, default="none")
    parser.add_argument("--victim", type=int, default=1, help="the rank that it happens to")
    parser.add_argument("--folder", required=True, help="where the ranks leave their notes")
    parser.add_argument("--timeout", type=float, default=5.0, help="s that a collective may take")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args(argv)
    place = join(given.device, "auto", START)
    notes = Notes(Path(given.folder), place.rank)
    try:
        notes.say("starting", 0)
        version = "2.4.0" if given.kind == "version" and place.rank == given.victim else torch.__version__
        same_everywhere(place, {"torch version": version})
        hurry(place, given.timeout)
        steps(given, place, notes)
        return 0
    except (Trouble, RuntimeError) as error:
        notes.say(
            notes.content["doing"],
            notes.content["step"],
            error=f"{type(error).__name__}: {str(error).splitlines()[0][:300]}",
        )
        print(f"[rank {place.rank}] {notes.content['error']}", file=sys.stderr)
        os._exit(3)  # no leaving: the others may never come
    finally:
        leave()


def steps(given: argparse.Namespace, place: Place, notes: Notes) -> None:
    """A few steps of work and a sum over ranks, in one of which something happens to the victim."""
    x = torch.ones(1000, device=place.device)
    for step in range(STEPS):
        me = place.rank == given.victim
        notes.say("compute", step)
        start = time.perf_counter()
        y = torch.randn(128, 128, device=place.device)
        for _ in range(20):
            y = (y @ y).tanh()
        place.wait()
        if me and given.kind == "slow":
            time.sleep(SLOW)
        notes.content["work"].append(time.perf_counter() - start)
        if me and step == AT:
            _happen(given.kind, notes)
        notes.say("all_reduce", step)
        if me and given.kind == "mismatched" and step == AT:
            dist.all_gather_into_tensor(torch.ones(1000 * place.ranks, device=place.device), x)
        else:
            dist.all_reduce(x)
        place.wait()
        notes.say("done", step)


def _happen(kind: str, notes: Notes) -> None:
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hung":
        while True:  # as a rank does that waits for a file, a lock or a dead data loader
            time.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
