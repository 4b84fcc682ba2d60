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

__getattr__, __dir__, __all__ = on_first_use(__name__)
