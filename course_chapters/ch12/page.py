"""What chapter 12 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math

import torch
from torch import nn

from course_chapters.ch12 import runs, tables, widgets
from course_chapters.metered_torch import bytes_by_line
from course_chapters.real_processes import launched
