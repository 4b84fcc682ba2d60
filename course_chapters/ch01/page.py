"""What chapter 01 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_chapters.ch01 import plots, tables, walls
from course_chapters.ch01 import widgets as pictures
from course_chapters.ch01.exercises.numbers import H100 as h100
from course_chapters.ch01.exercises.numbers import SHAPE as shape
from course_chapters.ch01.transformer_layer import transformer_layer
from course_chapters.running_example import DEADLINE, GPUS, MFU, PARAMS, TOKENS
from course_chapters.table import table
from course_chapters.timing import best_seconds, training_step
