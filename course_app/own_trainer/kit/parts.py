"""Loads the parts: one file for each exercise, with the functions that the exercise asks for."""

import importlib
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PARTS: Mapping[str, tuple[str, ...]] = {  # file -> what it must define
    "learning_rate": ("learning_rate",),
    "write_adamw": ("adamw",),
    "clip_pieces": ("clip",),
    "loss_scaler": ("Scaler",),
    "ring_all_reduce": ("ring_all_reduce",),
    "average_gradients": ("average_gradients",),
    "ddp_hooks": ("hook_gradients",),
    "ddp_buckets": ("bucket_gradients",),
    "own_and_tell": ("shard_optimizer",),
    "fsdp_by_hand": ("sharded_step",),
    "clip_shards": ("clip_parts",),
    "column_and_row": ("column_shard", "row_shard"),
    "conjugate_pair": ("copy_in", "sum_out"),
    "parallel_mlp": ("parallel_mlp",),
    "parallel_attention": ("parallel_attention",),
    "three_schedules": ("one_f_one_b_rows",),
    "run_any_schedule": ("run_rows",),
    "zig_zag_positions": ("spread_tokens",),
    "ring_attention": ("ring_forward",),
    "ring_backward": ("ring_backward",),
    "mean_over_the_mesh": ("mean_gradients",),
    "route_tokens": ("route",),
    "expert_parallel": ("expert_parallel",),
    "mesh_coordinates": ("coordinates", "groups"),
    "norm_on_mesh": ("mesh_norm",),
    "exactly_once": ("take",),
    "snapshot_and_restore": ("snapshot", "restore"),
    "atomic_checkpoint": ("save", "load"),
}

_FILE = {name: file for file, names in PARTS.items() for name in names}
_number = itertools.count()


class Parts:
    """Every function of the parts, by its name; a part is loaded when it is first used."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._package = ModuleType(f"trainer_parts_{next(_number)}")
        self._package.__path__ = [str(folder) for folder in folders]
        self._modules: dict[str, ModuleType] = {self._package.__name__: self._package}

    def __getattr__(self, name: str) -> Any:
        if name not in _FILE:
            raise AttributeError(name)
        package = self._package.__name__
        sys.modules.update(self._modules)
        try:
            module = importlib.import_module(f"{package}.{_FILE[name]}")
            value = self.__dict__[name] = getattr(module, name)
        finally:
            for loaded in [each for each in sys.modules if each.split(".")[0] == package]:
                self._modules[loaded] = sys.modules.pop(loaded)
        return value


def load_parts(*folders: Path) -> Parts:
    """The parts, each from the first of these folders that has its file; each call gives modules of its own."""
    return Parts(folders)
