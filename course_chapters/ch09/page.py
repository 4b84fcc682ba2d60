"""The names that chapter 09 uses."""

from fnmatch import fnmatchcase

import torch
from torch.nn import functional as F

from course_chapters import evidence_widget as evidence
from course_chapters.ch09 import tables
from course_chapters.ch09 import widgets as pictures
from course_chapters.ch09.pieces import held_pieces
from course_chapters.ch09.tensors import normal
from course_chapters.real_processes import launched
from course_chapters.table import table
from course_lib import check, params, predict, use
from course_lib.cluster import Topology, simulate
from course_lib.estimate import facts, memory
from course_lib.estimate.units import GB, bytes_text, duration_text
from course_lib.model import transformer
from course_lib.model.text import batch
from course_lib.parallel import tensor as tensor_parallel
from course_lib.parallel.tensor import copy_in, sum_out
