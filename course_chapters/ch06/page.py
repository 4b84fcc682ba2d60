"""The names that chapter 06 uses."""

from functools import reduce

import numpy as np
import torch

from course_chapters import evidence_widget as evidence
from course_chapters.ch06 import plots, tables
from course_chapters.ch06 import widgets as pictures
from course_chapters.ch06.exercises import numbers
from course_chapters.ch06.exercises.numbers import ACROSS, BANDWIDTH, GRADIENTS, INSIDE, LATENCY
from course_chapters.ch06.timing import best_times, ratio_text
from course_chapters.running_example import GPUS, MFU
from course_chapters.table import table
from course_lib import check, draw, params, predict, use
from course_lib.cluster import AVG, MAX, SUM, P2POp, Topology, attempt, collectives, interleavings, launch, simulate
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.units import GB, MS, US, bytes_text, duration_text, percent_text
