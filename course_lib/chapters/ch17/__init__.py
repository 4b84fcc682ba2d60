"""The names that chapter 17 uses."""

import math

from course_lib import capstone
from course_lib.chapters.ch17 import tables, widgets
