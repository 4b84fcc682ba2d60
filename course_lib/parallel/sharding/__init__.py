"""Sharded data parallelism: ZeRO and FSDP by hand. Who needs to hold what, and when?

    model = FullySharded(comm, build(config), units)      # or Zero(comm, build(config), stage=1 or 2)
    optimizer = AdamW(model.shards())
    loss(model(tokens), targets).backward()
    model.finish()                                        # each shard's gradient is now the mean over ranks
    clip_gradients(model, 1.0)
    optimizer.step(), optimizer.zero_grad()               # Zero: then model.gather()

Training uses state one unit at a time, so ranks that train together need not all hold all of it. Read `flat`, `owned`,
`rows`, `zero` and `fully` first, then `master`, `clip`, `levels`, `initial` and `checkpoint`. `predict` computes bytes
held and sent, `prefetch` which communication is hidden, and `groups` how many ranks should share one model. These three
and `flat` are arithmetic and load no torch; names are loaded when they are first used.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(
    __name__,
    {
        "checkpoint": ("load", "save"),
        "clip": ("clip_gradients", "gradient_norm"),
        "flatten": ("Flat", "Piece", "owners_of"),
        "fsdp": ("FullySharded", "Unit"),
        "groups": ("Group", "Wires", "group_of", "knee"),
        "hsdp": ("two_levels",),
        "master": ("MasterOptimizer",),
        "zero1": ("OwnedOptimizer",),
        "comm_costs": ("bytes_per_param_sent", "gathered_peak", "hybrid_bytes", "row_bytes", "step_bytes"),
        "prefetch": ("Played", "Use", "Work", "play", "work_of"),
        "flat_parameter": ("Row", "add_gradient", "drop_gradient", "gradient_of"),
        "equivalence": ("cut_model", "live_bytes", "only_at_work"),
        "full_state_dict": ("full_gradients", "full_state"),
        "zero": ("Zero",),
    },
)
