"""The names that chapter 02 uses."""

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
from course_lib import check, params, predict, use
from course_lib.draw import palette
from course_lib.estimate import memory
from course_lib.estimate.memory.allocator import CachingAllocator, OutOfMemory
from course_lib.estimate.units import GB, GiB, bytes_text
from course_lib.model import ledger, text, transformer
from course_lib.model.accounting import Accounting
