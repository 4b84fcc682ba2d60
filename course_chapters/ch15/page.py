"""The names that chapter 15 uses."""

import math
import statistics
from collections import Counter
from statistics import fmean, mean, median, variance

import numpy as np
import torch

from course_chapters.ch15 import fsdp2, small_runs, tables
from course_chapters.ch15 import widgets as pictures
from course_lib import check, params, predict
from course_lib.cluster import P2POp, attempt
from course_lib.draw.curves import drawn
from course_lib.estimate.units import duration_text
from course_lib.model import text
from course_lib.model.transformer import Config, build
from course_lib.model.transformer import loss as mean_loss
from course_runs import evidence, forged_examples
from course_runs.reading import choose, recorded
