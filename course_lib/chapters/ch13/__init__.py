"""The names that chapter 13 uses."""

from course_lib import mesh
