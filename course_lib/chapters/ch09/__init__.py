"""The names that chapter 09 uses."""

from fnmatch import fnmatchcase

import torch
from torch.nn import functional as F

from course_lib import check, facts, memory, params, predict, tensor_parallel, transformer, use
from course_lib.chapters.ch09 import tables
from course_lib.chapters.ch09.tensors import normal
from course_lib.chapters.real_processes import launched
from course_lib.chapters.table import table
from course_lib.cluster import Topology, simulate
from course_lib.figures.pieces import held_pieces
from course_lib.tensor_parallel import copy_in, sum_out
from course_lib.text import batch
from course_lib.units import GB, bytes_text, duration_text
from course_lib.widgets import ch09 as pictures
from course_lib.widgets import evidence
