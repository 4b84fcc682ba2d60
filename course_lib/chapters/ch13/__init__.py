"""The names that chapter 13 uses."""

import itertools
import math

import torch

from course_lib import check, mesh, params, predict
