"""What chapter 20 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import statistics
from collections import Counter

from course_chapters.ch20 import health_checks, health_plots, link_faults, link_film, queue_film, queue_simulator
