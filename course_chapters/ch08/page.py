"""The names that chapter 08 uses."""

import math
import tempfile

import torch
from torch import nn

from course_chapters import evidence_widget as evidence
from course_chapters.ch08 import tables
from course_chapters.ch08 import widgets as pictures
from course_chapters.ch08.exercises import numbers
from course_chapters.ch08.ledger_bars import memory_over_a_step
from course_chapters.ch08.training import BATCH, losses_of, part_of
from course_chapters.running_example import GPUS
from course_chapters.table import table
from course_lib import check, params, predict
from course_lib.cluster import AVG, MAX, SUM, Topology, launch, parity, simulate
from course_lib.estimate import memory
from course_lib.estimate.facts import scaling
from course_lib.estimate.units import GB, US, bytes_text, duration_text, percent_text
from course_lib.model import ledger, text
from course_lib.model.transformer import Config, build
from course_lib.model.transformer import loss as mean_loss
from course_lib.parallel import sharded
from course_lib.parallel.sharded import FullySharded, OwnedOptimizer
