"""A model served over HTTP: the engine that batches requests, the server and its client, the forecast of a measured
load."""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
