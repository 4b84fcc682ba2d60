"""The names that chapter 14 uses."""

import math

import torch
from torch import nn

from course_lib import check, checkpoint, facts, faults, params, predict
