"""What chapter 05 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math

import torch

from course_chapters.ch05 import plots, widgets
from course_chapters.ch05.exercises.numbers import LIVE_STEPS
from course_chapters.ch05.training import Recipe, train
