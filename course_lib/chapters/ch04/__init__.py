"""The names that chapter 04 uses."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from course_lib import check, params, predict, text, transformer
from course_lib.training import SMALL, accumulate
from course_lib.widgets import ch04 as pictures
