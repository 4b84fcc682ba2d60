"""What fails in a large job, how often, what it costs, and how to notice.

Read `rates` (failures against size), `interval` (how often to save), `goodput` (a simulated month), `spares`,
`stragglers`, `hangs`, then `corruption` and `spikes`. Saving itself is in `course_lib.model.checkpoint`. Times are in
seconds.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
