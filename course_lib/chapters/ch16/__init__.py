"""The names that chapter 16 uses."""

import hashlib
import math
import random
from collections import Counter, OrderedDict, deque
from itertools import takewhile

import numpy as np
import torch
from torch.nn import functional as F

from course_lib import check, params, predict, serving
from course_lib.chapters.ch16 import plots, real_server
from course_lib.transformer import Config, build
from course_lib.widgets import ch16 as widgets
