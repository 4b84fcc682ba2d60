"""The names that chapter 11 uses."""

import itertools
import math

import torch
from torch.nn import functional as F

from course_chapters.ch11 import gpu, runs, tables
from course_chapters.ch11 import widgets as pictures
from course_chapters.real_processes import launched
from course_chapters.table import table
from course_lib import check, params, predict
from course_lib.cluster import simulate
from course_lib.cluster.collectives import swap
from course_lib.model import text, transformer
from course_lib.parallel.context import Mask, attend, context_parallelize, merge, zig_zag
