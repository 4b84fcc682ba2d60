"""Sharded data parallelism: ZeRO and FSDP by hand. Who needs to hold what, and when?

    model = FullySharded(comm, build(config), units)      # or Zero(comm, build(config), stage=1 or 2)
    optimizer = AdamW(model.shards())
    loss(model(tokens), targets).backward()
    model.finish()                                        # each shard's gradient is now the mean over ranks
    clip_gradients(model, 1.0)
    optimizer.step(), optimizer.zero_grad()               # Zero: then model.gather()

Training touches state one unit at a time, so ranks that step together need not each hold all of it. Read `flat`, `owned`,
`rows`, `zero`, `fully`; then `master`, `clip`, `levels`, `initial`, `checkpoint`; `predict` says what each costs, `prefetch` what of it
hides, `groups` how many ranks should share. These three and `flat` are arithmetic and load no torch; names are loaded when they
are first used.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "checkpoint": ("load", "save"),
    "clip": ("clip_gradients", "gradient_norm"),
    "flat": ("Flat", "Piece", "owners_of"),
    "fully": ("FullySharded", "Unit"),
    "groups": ("Group", "Wires", "group_of", "knee"),
    "initial": ("drawing", "skeleton"),
    "levels": ("two_levels",),
    "master": ("HostOptimizer", "MasterOptimizer"),
    "owned": ("OwnedOptimizer",),
    "predict": ("bytes_per_param_sent", "gathered_peak", "hybrid_bytes", "row_bytes", "step_bytes"),
    "prefetch": ("Played", "Use", "Work", "play", "work_of"),
    "rows": ("Row", "add_gradient", "drop_gradient", "gradient_of"),
    "trials": ("cut_model", "live_bytes", "only_at_work"),
    "whole": ("full_gradients", "full_state"),
    "zero": ("Zero",),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_WHERE)  # noqa: PLE0605 - one list of names, above


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"course_lib.sharding has no {name!r}; it has {', '.join(__all__)}.")
    value = globals()[name] = getattr(import_module(f"course_lib.sharding.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
