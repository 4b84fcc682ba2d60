"""The names that chapter 04 uses."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from course_chapters.ch04 import widgets as pictures
from course_chapters.ch04.exercises.numbers import LIVE_STEPS
from course_chapters.ch04.pictures_of_runs import (
    draw_critical,
    draw_recorded,
    draw_schedules,
    draw_spike,
    final_losses,
    size_fits,
)
from course_chapters.running_example import BATCH, GPUS, PARAMS, SEQ, TOKENS
from course_chapters.table import table
from course_lib import check, params, predict
from course_lib.cluster import simulate
from course_lib.estimate.facts.optimization import compute_optimal_models, published
from course_lib.estimate.scaling_laws import growth_exponent, split
from course_lib.estimate.units import number_text
from course_lib.model import packing, text, training, transformer
from course_lib.model.optimizer import (
    Adam,
    AdamW,
    Guard,
    accumulation_steps,
    clip_sharded_,
    constant,
    cosine,
    decay_groups,
    effective_batch,
    noise_scale_of_samples,
    noise_scale_two_batches,
    weighted_mean,
    wsd,
)
from course_lib.model.training import SMALL, accumulate, sample_gradients
