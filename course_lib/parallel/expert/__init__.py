"""Expert parallelism: a router sends each token to a few of many experts, which lie on several ranks.

Read `routing`, then `experts` (one process), `exchange` (several), `dropping` and `balance`, `gradients` for what
changes after the backward pass, and `costs` for the bytes. `layer`, `model` and `training` put them together; `tensor`
and `nodes` are alternatives. `costs` is arithmetic and loads no torch; names are loaded when they are first used.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
