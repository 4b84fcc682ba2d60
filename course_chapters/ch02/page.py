"""What chapter 02 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math
from itertools import accumulate

import torch
from IPython.display import display
from torch import nn
from torch.nn import functional as F

from course_chapters import evidence_widget as evidence
from course_chapters.ch02 import curves, plan, tables
from course_chapters.ch02 import over_time as films
from course_chapters.ch02 import widgets as pictures
from course_chapters.ch02.exercises.block import saved_rows
from course_chapters.ch02.exercises.numbers import H100
from course_chapters.running_example import GPUS, PARAMS
from course_chapters.table import table
