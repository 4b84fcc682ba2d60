"""The names that chapter 12 uses."""

import math

import torch
from torch import nn

from course_chapters.ch12 import runs, tables, widgets
from course_chapters.real_processes import launched
from course_lib import check, params, predict
from course_lib.cluster import simulate
from course_lib.parallel import expert as ep
