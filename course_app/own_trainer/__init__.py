"""The learner's own trainer: passed answers assembled into a small package that trains the small transformer on many
ranks.

Read `kit` first: it is the trainer itself, and what a learner takes away. `axes` lists what it can do, `answers` and
`standalone` take parts out of notebooks, `trials` holds every run against the library and names a part that does not
fit, `export` writes the folder.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
