"""The names that chapter 16 uses."""

import hashlib
import math
import random
from collections import Counter, OrderedDict, deque
from itertools import takewhile

import numpy as np
import torch
from torch.nn import functional as F

from course_chapters.ch16 import plots, real_server, widgets
from course_lib import check, params, predict
from course_lib.model.transformer import Config, build
from course_lib.operate import serving
