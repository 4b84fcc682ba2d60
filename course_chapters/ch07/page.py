"""The names that chapter 07 uses."""

import math
import random
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from course_chapters import evidence_widget as evidence
from course_chapters.ch07 import plots, runs, tables
from course_chapters.ch07 import widgets as pictures
from course_chapters.ch07.exercises import numbers
from course_chapters.ch07.runs import bytes_held, library_hooks, on_two_processes, part_of, timed_hooks, timed_step
from course_chapters.table import table
from course_lib import check, params, predict, use
from course_lib.cluster import AVG, attempt, parity, simulate
from course_lib.model import text
from course_lib.model.transformer import Config, build
from course_lib.model.transformer import loss as mean_loss
from course_lib.parallel import data as data_parallel
from course_lib.parallel.data import DataParallel
