"""Everything that a run must save to go on bit for bit: not only weights.

`capture` collects it as tensors and plain numbers, `restore` puts it back, and can leave one item out to show what that
does.
"""

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.messages import count_text
from course_lib.model.checkpoint.position import Position

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful

ITEMS = ("weights", "optimizer", "schedule", "scaler", "rng", "position")


@dataclass
class Training:
    """The parts of a run that change from step to step. `schedule` and `scaler` have `state_dict` and
    `load_state_dict`."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: "Stateful | None" = None
    scaler: "Stateful | None" = None
    position: Position = field(default_factory=Position)


@dataclass(frozen=True)
class Captured:
    """A run's state: tensors by name, and what JSON holds."""

    tensors: dict[str, Tensor]
    plain: dict[str, Any]


def tensors_of(training: Training) -> dict[str, Tensor]:
    """Weights, buffers and the optimizer's tensors by name, as views. Names of parameters, not their numbers, name the
    moments."""
    found = {f"weights.{name}": each.detach() for name, each in training.model.state_dict().items()}
    for name, parameter in training.model.named_parameters():
        for key, value in training.optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                found[f"optimizer.{name}.{key}"] = value.detach()
    return found


def capture(training: Training) -> Captured:
    """The whole state. Tensors are views: copy or save them before the next step."""
    groups = [{k: v for k, v in group.items() if k != "params"} for group in training.optimizer.param_groups]
    plain = {
        "optimizer": groups,
        "schedule": training.schedule.state_dict() if training.schedule else None,
        "scaler": training.scaler.state_dict() if training.scaler else None,
        "rng": capture_rng(),
        "position": [training.position.epoch, training.position.taken],
    }
    return Captured(tensors_of(training), plain)


def restore(training: Training, state: Captured, leave_out: str = "") -> None:
    """Put a captured state back. `leave_out`: one of ITEMS, which stays as it is.

    ValueError, before anything is changed, if the state is of another model.
    """
    if leave_out and leave_out not in ITEMS:
        raise ValueError(f"leave_out is {leave_out!r}; choose from {', '.join(ITEMS)}.")
    weights = {
        name.removeprefix("weights."): each for name, each in state.tensors.items() if name.startswith("weights.")
    }
    if set(weights) != set(training.model.state_dict()):
        odd = sorted(set(weights) ^ set(training.model.state_dict()))
        raise ValueError(f"The state is of another model: {odd[0]} is in only one of the two.")
    for name, tensor in training.model.state_dict().items():
        if weights[name].shape != tensor.shape:
            shapes = f"{list(weights[name].shape)} there and {list(tensor.shape)} here"
            raise ValueError(f"The state is of another model: {name} is {shapes}.")
    if (there := len(state.plain["optimizer"])) != (here := len(training.optimizer.param_groups)):
        raise ValueError(
            f"The state is of another optimizer: {count_text(there, 'group')} of parameters there and {here} here."
        )
    if leave_out != "weights":
        with torch.no_grad():
            for name, tensor in training.model.state_dict().items():
                tensor.copy_(weights[name])
    if leave_out != "optimizer":
        for name, parameter in training.model.named_parameters():
            start = f"optimizer.{name}."
            kept = {key[len(start) :]: each.clone() for key, each in state.tensors.items() if key.startswith(start)}
            if kept:
                training.optimizer.state[parameter] = kept
            else:
                training.optimizer.state.pop(parameter, None)
        for group, saved in zip(training.optimizer.param_groups, state.plain["optimizer"], strict=True):
            group.update({key: tuple(value) if isinstance(value, list) else value for key, value in saved.items()})
    for name in ("schedule", "scaler"):
        if leave_out != name and getattr(training, name) is not None:
            getattr(training, name).load_state_dict(state.plain[name])
    if leave_out != "rng":
        restore_rng(state.plain["rng"])
    if leave_out != "position":
        training.position = Position(*state.plain["position"])


def capture_rng() -> dict[str, object]:
    """This process's random states as JSON holds them: Python, NumPy, torch on the CPU and on its GPU."""
    state = np.random.get_state()  # noqa: NPY002 - the global generator is what code of others draws from
    assert isinstance(state, tuple)
    kind, keys, *rest = state
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "numpy": [kind, keys.tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
        "cuda": torch.cuda.get_rng_state().tolist() if torch.cuda.is_available() else None,
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Set this process's random states to those captured."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))
