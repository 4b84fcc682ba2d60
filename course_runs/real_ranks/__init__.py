"""A function of a communicator on real processes, as `course_lib.cluster.simulate` runs it on metered ranks."""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
