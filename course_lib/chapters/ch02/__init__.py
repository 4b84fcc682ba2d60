"""The names that chapter 02 uses."""

import math
from itertools import accumulate

import torch
from IPython.display import display
from torch import nn
from torch.nn import functional as F

from course_lib import check, ledger, memory, params, predict, text, transformer, use
from course_lib.accounting import Accounting
from course_lib.chapters.ch02 import curves, plan, tables
from course_lib.chapters.table import table
from course_lib.exercises.ch02.block import saved_rows
from course_lib.exercises.ch02.numbers import H100
from course_lib.exercises.running_example import GPUS, PARAMS
from course_lib.figures import palette
from course_lib.memory.allocator import CachingAllocator, OutOfMemory
from course_lib.units import GB, GiB, bytes_text
from course_lib.widgets import ch02 as pictures
from course_lib.widgets import ch02_over_time as films
from course_lib.widgets import evidence
