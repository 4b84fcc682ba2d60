"""The names that chapter 10 uses."""

import math

import torch
from torch import nn

from course_chapters import evidence_widget as evidence
from course_chapters.ch10 import real_steps, tables
from course_chapters.ch10 import widgets as pictures
from course_chapters.ch10.grids import in_time
from course_chapters.ch10.schedule_rows import schedule_rows
from course_chapters.ch10.stages import stages_of, two_of_four_layers
from course_chapters.real_processes import launched
from course_chapters.table import table
from course_lib import check, draw, params, predict
from course_lib.cluster import P2POp, Topology, simulate
from course_lib.estimate.facts.pipelines import bubble_formula
from course_lib.estimate.units import percent_text
from course_lib.model import transformer
from course_lib.model.text import batch
from course_lib.parallel import pipeline
from course_lib.parallel.schedules import (
    cut,
    cut_evenly,
    dualpipe,
    faults,
    gpipe,
    interleaved,
    least_buffering,
    naive,
    one_f_one_b,
    schedule_of,
    zb_h1,
    zb_h2,
    zb_v,
)
from course_lib.parallel.timeline import Durations, play
