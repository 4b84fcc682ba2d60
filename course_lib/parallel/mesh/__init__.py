"""Meshes: ranks with coordinates along named axes, the wires that groups cross, and one model on up to four axes at
once.

`layout`, `wires` and `cost` are arithmetic and load no torch; names are loaded when they are first used. `training`
runs on the metered cluster.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
