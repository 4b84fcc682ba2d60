"""Checkpoints of a run by torch.distributed.checkpoint: every rank writes its part, and any layout of as many stages
reads it.

All ranks write to one folder, so on several machines it must lie on a file system that they share.
"""

import argparse
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from course_lib.messages import Trouble
from course_runs.process_group import Place
from course_runs.stepping import Stepper

ASK_EVERY = 5  # steps between two questions whether any rank was told to stop


class Stopped(Exception):
    """The run was told to stop by SIGTERM, and its state is saved."""


class Saver:
    """The checkpoints of one run: when one is due, writing it, and letting the oldest go."""

    def __init__(self, given: argparse.Namespace, stepper: Stepper, place: Place) -> None:
        self.given, self.stepper, self.place = given, stepper, place
        self.told = False
        self.before = signal.signal(signal.SIGTERM, self._tell) if given.save_every else None
        self.background = dist.new_group(backend="gloo") if given.save_every and given.save_async else None
        self.pending: tuple[Any, Path, dict[str, int]] | None = None

    def _tell(self, *_: object) -> None:
        self.told = True

    def after(self, done: int, total: int) -> bool:
        """Save after `done` steps of a schedule of `total` if it is time; Stopped where any rank got SIGTERM. Whether
        it saved."""
        every = self.given.save_every
        stop = bool(every) and done % min(every, ASK_EVERY) == 0 and self._any_told()
        if not every or not (stop or done % every == 0):
            return False
        with self.stepper.clock.part("checkpoint"):
            self._save(done, total)
        if stop:
            self.finish()
            raise Stopped(f"stopped by SIGTERM after step {done}; the same command with --resume goes on from there")
        return True

    def finish(self) -> None:
        """Wait for a checkpoint that is written in the background, and hand SIGTERM back."""
        self._settle()
        if self.before is not None:
            signal.signal(signal.SIGTERM, self.before)
            self.before = None

    def _any_told(self) -> bool:
        """Whether a rank was told to stop: all ranks must save the same step."""
        told = torch.tensor([int(self.told)], device=self.place.device)
        if self.place.ranks > 1:
            dist.all_reduce(told, dist.ReduceOp.MAX)
        return bool(told)

    def _save(self, step: int, total: int) -> None:
        self._settle()
        path, marker = folder_of(self.given) / f"{step:08d}", {"step": step, "total": total}
        if (
            self.place.first
        ):  # an earlier run may have left this step; until it is written again, half of it is that run's
            (path / "complete").unlink(missing_ok=True)
        state = _state(self.stepper)
        if self.background is None:
            dcp.save(state, checkpoint_id=str(path))
            self._mark(path, marker)
        else:  # copied to the host now, written while the next steps run
            future = dcp.async_save(state, checkpoint_id=str(path), process_group=self.background)
            self.pending = (future, path, marker)

    def _settle(self) -> None:
        if self.pending is not None:
            future, path, marker = self.pending
            self.pending = None
            future.result()
            self._mark(path, marker)

    def _mark(self, path: Path, marker: dict[str, int]) -> None:
        """The checkpoint counts from now on; those beyond the last `--keep` go."""
        if not self.place.first:
            return
        (path / "part").write_text(json.dumps(marker), encoding="utf-8")
        (path / "part").replace(path / "complete")
        print(f"checkpoint: {path}", flush=True)
        for old in whole(self.given)[: -self.given.keep] if self.given.keep else ():
            (old / "complete").unlink()  # first: half a folder must not count
            shutil.rmtree(old)


def folder_of(given: argparse.Namespace) -> Path:
    """Where a run's checkpoints lie."""
    return Path(given.out) / "checkpoints"


def whole(given: argparse.Namespace) -> list[Path]:
    """The complete checkpoints of this machine's folder, the oldest first."""
    return sorted(path.parent for path in folder_of(given).glob("*/complete"))


def newest(given: argparse.Namespace, place: Place) -> Path | None:
    """The checkpoint to go on from: rank 0 chooses, and all ranks must see it. Trouble on every rank where one does
    not."""
    found = whole(given) if place.first else []
    chosen = [str(found[-1]) if found else ""]
    dist.broadcast_object_list(chosen)
    seen: list[bool] = [True] * place.ranks
    dist.all_gather_object(seen, not chosen[0] or (Path(chosen[0]) / "complete").exists())
    if not all(seen):
        blind = ", ".join(str(rank) for rank, sees in enumerate(seen) if not sees)
        raise Trouble(
            f"Rank 0 has the checkpoint {chosen[0]}, and rank {blind} does not see it.",
            "give --out on a file system that all machines share",
        )
    return Path(chosen[0]) if chosen[0] else None


def _state(stepper: Stepper) -> dict[str, Any]:
    """Names are the whole model's, so pieces do not collide and another cut finds its own."""
    state: dict[str, Any] = {}
    for model in stepper.models:
        weights, moments = get_state_dict(
            model, stepper.optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True)
        )
        state |= {
            "model": {**state.get("model", {}), **weights},
            "optimizer": {**state.get("optimizer", {}), **moments},
        }
    return state


def resume(given: argparse.Namespace, stepper: Stepper, place: Place) -> tuple[int, int]:
    """Load the newest whole checkpoint; the step to go on with, and how many its learning rate is planned for. 0, 0
    without one."""
    path = newest(given, place)
    if path is None:
        return 0, 0
    state = _state(stepper)
    dcp.load(state, checkpoint_id=str(path))
    for model in stepper.models:
        names = set(model.state_dict())
        set_state_dict(
            model,
            stepper.optimizer,
            model_state_dict={n: v for n, v in state["model"].items() if n in names},
            optim_state_dict=state["optimizer"],
            options=StateDictOptions(flatten_optimizer_state_dict=True, strict=False),
        )
    if place.first:
        print(f"resumed from {path}", flush=True)
    marker = json.loads((path / "complete").read_text(encoding="utf-8"))
    return marker["step"], marker["total"]
