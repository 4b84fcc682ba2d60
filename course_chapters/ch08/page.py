"""What chapter 08 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math
import tempfile

import torch
from torch import nn

from course_chapters import evidence_widget as evidence
from course_chapters.ch08 import tables
from course_chapters.ch08 import widgets as pictures
from course_chapters.ch08.exercises import numbers
from course_chapters.ch08.ledger_bars import memory_over_a_step
from course_chapters.ch08.training import BATCH, live_bytes, losses_of, part_of
from course_chapters.metered_torch import bytes_by_line
from course_chapters.table import table
