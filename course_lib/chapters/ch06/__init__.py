"""The names that chapter 06 uses."""

from functools import reduce

import numpy as np
import torch

from course_lib import check, collectives, figures, params, predict, use
from course_lib.chapters.ch06 import plots, tables
from course_lib.chapters.ch06.timing import best_times, ratio_text
from course_lib.chapters.table import table
from course_lib.cluster import AVG, MAX, SUM, P2POp, Topology, attempt, interleavings, launch, simulate
from course_lib.exercises.ch06 import numbers
from course_lib.exercises.ch06.numbers import ACROSS, BANDWIDTH, GRADIENTS, INSIDE, LATENCY
from course_lib.exercises.running_example import GPUS, MFU
from course_lib.facts import collectives as measured
from course_lib.units import GB, MS, US, bytes_text, duration_text, percent_text
from course_lib.widgets import ch06 as pictures
from course_lib.widgets import evidence
