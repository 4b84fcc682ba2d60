"""A run as one decision: the task, a plan for it, what the plan costs, what changes it, and how it is graded.

Everything is arithmetic on the planner (chapter 13), the failure model (14) and published facts. Names are loaded when
they are first used.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
