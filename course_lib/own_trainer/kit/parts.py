"""Loads the parts: one file for each exercise, with the functions that the exercise asks for."""

import importlib
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

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

_number = itertools.count()


def load_parts(*folders: Path) -> SimpleNamespace:
    """Every function of the parts, from the first of these folders that has its file; each call loads fresh modules."""
    package = ModuleType(f"trainer_parts_{next(_number)}")
    package.__path__ = [str(folder) for folder in folders]
    sys.modules[package.__name__] = package
    found = {}
    try:
        for file, names in PARTS.items():
            module = importlib.import_module(f"{package.__name__}.{file}")
            found |= {name: getattr(module, name) for name in names}
    finally:
        for name in [each for each in sys.modules if each.split(".")[0] == package.__name__]:
            del sys.modules[name]
    return SimpleNamespace(**found)
