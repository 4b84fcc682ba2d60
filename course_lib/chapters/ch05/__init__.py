"""The names that chapter 05 uses."""

from course_lib.chapters.table import table
from course_lib.precision import formats
