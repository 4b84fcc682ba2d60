"""Checkpoints of a run by torch.distributed.checkpoint: every rank writes its part, and any layout of as many stages reads it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from course_lib.runs.place import Place
from course_lib.runs.stepping import Stepper


def _folder(given: argparse.Namespace) -> Path:
    return Path(given.out) / "checkpoints"


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


def save(given: argparse.Namespace, stepper: Stepper, step: int, total: int, place: Place) -> Path:
    """Write checkpoint `step` of a schedule of `total` steps; it counts once its marker is there."""
    folder = _folder(given) / f"{step:08d}"
    dcp.save(_state(stepper), checkpoint_id=str(folder))
    if place.first:
        (folder / "complete").write_text(json.dumps({"step": step, "total": total}), encoding="utf-8")
        print(f"checkpoint: {folder}", flush=True)
    return folder


def resume(given: argparse.Namespace, stepper: Stepper, place: Place) -> tuple[int, int]:
    """Load the newest whole checkpoint; the step to go on with, and how many its learning rate is planned for. 0, 0 without one."""
    whole = sorted(path.parent for path in _folder(given).glob("*/complete"))
    if not whole:
        return 0, 0
    state = _state(stepper)
    dcp.load(state, checkpoint_id=str(whole[-1]))
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
        print(f"resumed from {whole[-1]}", flush=True)
    marker = json.loads((whole[-1] / "complete").read_text(encoding="utf-8"))
    return marker["step"], marker["total"]
