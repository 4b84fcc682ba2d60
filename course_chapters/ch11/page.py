"""What chapter 11 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import itertools
import math

import torch
from torch.nn import functional as F

from course_chapters.ch11 import gpu, runs, tables
from course_chapters.ch11 import widgets as pictures
from course_chapters.metered_torch import bytes_by_line
from course_chapters.real_processes import launched
from course_chapters.table import table
