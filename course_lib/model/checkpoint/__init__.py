"""Checkpoints that survive: crash-consistent, sharded, written in the background, and read by any number of ranks.

Read `disk` (what survives what), `store` (the manifest that makes a checkpoint count), `pieces` (tensors for any number
of ranks), `background` (saving while training goes on), `resume` (everything that must be saved), `position` (data
exactly once), then `torch_format`. What an interval costs is in
`course_lib.operate.faults`.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
