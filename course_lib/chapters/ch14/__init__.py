"""The names that chapter 14 uses."""

import copy
import hashlib
import math
from collections import Counter, deque
from statistics import median

import torch

from course_lib import check, checkpoint, facts, faults, params, predict
from course_lib.chapters.ch14 import plots
from course_lib.widgets import ch14 as widgets
