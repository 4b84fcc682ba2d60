"""What chapter 14 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import copy
import hashlib
import math
from collections import Counter, deque
from statistics import median

import torch

from course_chapters.ch14 import plots, widgets
