"""The names that chapter 16 uses."""

from collections import Counter, deque

import numpy as np
import torch
from torch.nn import functional as F

from course_lib import serving
from course_lib.chapters.ch16 import plots
from course_lib.transformer import Config, build
from course_lib.widgets import ch16 as widgets
