"""The names that chapter 11 uses."""

import itertools
import math

import torch
from torch.nn import functional as F

from course_lib import check, params, predict, text, transformer
from course_lib.chapters.ch11 import gpu, runs, tables
from course_lib.chapters.real_processes import launched
from course_lib.chapters.table import table
from course_lib.cluster import simulate
from course_lib.collectives import swap
from course_lib.context_parallel import Mask, attend, context_parallelize, merge, zig_zag
from course_lib.widgets import ch11 as pictures
