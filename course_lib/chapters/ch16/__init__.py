"""The names that chapter 16 uses."""

import math
from collections import Counter, deque

import torch

from course_lib import check, facts, params, predict, serving
