"""The names that chapter 12 uses."""

import math

import torch
from torch import nn

from course_lib import check, params, predict
from course_lib.chapters.table import table
from course_lib.cluster import simulate
