"""What chapter 15 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math
import statistics
from collections import Counter
from statistics import fmean, mean, median, variance

import numpy as np
import torch

from course_chapters.ch15 import fsdp2, small_runs, tables
from course_chapters.ch15 import widgets as pictures
