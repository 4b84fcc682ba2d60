"""The names that chapter 15 uses."""

import math
import statistics
from collections import Counter
from statistics import fmean, mean, median, variance

import numpy as np
import torch

from course_lib import check, params, predict, text
from course_lib.chapters.ch15 import fsdp2, small_runs, tables
from course_lib.cluster import P2POp, attempt
from course_lib.figures.curves import drawn
from course_lib.runs import doctored, evidence
from course_lib.runs.reading import choose, recorded
from course_lib.transformer import Config, build
from course_lib.transformer import loss as mean_loss
from course_lib.units import duration_text
from course_lib.widgets import ch15 as pictures
