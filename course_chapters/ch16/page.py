"""What chapter 16 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import hashlib
import math
import random
from collections import Counter, OrderedDict, deque
from itertools import takewhile

import numpy as np
import torch
from torch.nn import functional as F

from course_chapters.ch16 import plots, real_server, widgets
