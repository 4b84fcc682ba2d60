"""The names that chapter 10 uses."""

import math

import torch
from torch import nn

from course_lib import check, figures, params, pipeline, predict, transformer
from course_lib.chapters.ch10 import real_steps, tables
from course_lib.chapters.ch10.grids import in_time
from course_lib.chapters.ch10.stages import stages_of, two_of_four_layers
from course_lib.chapters.real_processes import launched
from course_lib.chapters.table import table
from course_lib.cluster import P2POp, Topology, simulate
from course_lib.facts.pipelines import bubble_formula
from course_lib.figures.schedule_rows import schedule_rows
from course_lib.schedules import (
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
from course_lib.text import batch
from course_lib.timeline import Durations, play
from course_lib.units import percent_text
from course_lib.widgets import ch10 as pictures
from course_lib.widgets import evidence
