"""The names that chapter 14 uses."""

import copy
import hashlib
import math
from collections import Counter, deque
from statistics import median

import torch

from course_chapters.ch14 import plots, widgets
from course_lib import check, params, predict
from course_lib.estimate import facts
from course_lib.model import checkpoint
from course_lib.operate import faults
