"""The names that chapter 14 uses."""

import copy
import hashlib
import math
import warnings
from collections import Counter, deque
from statistics import median

import torch

from course_lib import check, checkpoint, facts, faults, params, predict
from course_lib.chapters.ch14 import plots
from course_lib.widgets import ch14 as widgets

# torch says for every checkpoint of a single process that it is one
warnings.filterwarnings("ignore", message="torch.distributed is disabled")
