"""The names that chapter 08 uses."""

import math
import tempfile

import torch
from torch import nn

from course_lib import check, ledger, memory, params, parity, predict, sharding, text
from course_lib.chapters.ch08 import tables
from course_lib.chapters.ch08.training import BATCH, losses_of, part_of
from course_lib.chapters.table import table
from course_lib.cluster import AVG, MAX, SUM, Topology, launch, simulate
from course_lib.exercises.ch08 import numbers
from course_lib.exercises.running_example import GPUS
from course_lib.facts import scaling
from course_lib.figures.ledger import memory_over_a_step
from course_lib.sharding import FullySharded, OwnedOptimizer
from course_lib.transformer import Config, build
from course_lib.transformer import loss as mean_loss
from course_lib.units import GB, US, bytes_text, duration_text, percent_text
from course_lib.widgets import ch08 as pictures
from course_lib.widgets import evidence
