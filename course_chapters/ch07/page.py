"""What chapter 07 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math
import random
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from course_chapters import evidence_widget as evidence
from course_chapters.ch07 import plots, runs, tables
from course_chapters.ch07 import widgets as pictures
from course_chapters.ch07.exercises import numbers
from course_chapters.ch07.runs import bytes_held, library_hooks, on_two_processes, part_of, timed_hooks, timed_step
from course_chapters.metered_torch import bytes_by_line
from course_chapters.table import table
