"""What chapter 18 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math

import torch
from torch.nn import functional as F

from course_chapters.ch18 import (
    attention,
    capture,
    collective_matmul,
    compiled,
    fusion,
    kernels,
    launch_film,
    overlap_film,
    plots,
    tile_film,
    trace,
    triton_kernel,
)
