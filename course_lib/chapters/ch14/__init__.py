"""The names that chapter 14 uses."""

import copy
import hashlib
import math
from collections import Counter, deque
from statistics import median

import torch
from torch import nn

from course_lib import check, checkpoint, facts, faults, params, predict
