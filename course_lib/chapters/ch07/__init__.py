"""The names that chapter 07 uses."""

import math
import random
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from course_lib import check, data_parallel, params, parity, predict, text, use
from course_lib.chapters.ch07 import plots, runs, tables
from course_lib.chapters.ch07.runs import bytes_held, library_hooks, on_two_processes, part_of, timed_hooks, timed_step
from course_lib.chapters.table import table
from course_lib.cluster import AVG, attempt, simulate
from course_lib.data_parallel import DataParallel
from course_lib.exercises.ch07 import numbers
from course_lib.transformer import Config, build
from course_lib.transformer import loss as mean_loss
from course_lib.widgets import ch07 as pictures
from course_lib.widgets import evidence
