"""What chapter 19 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import math

import torch

from course_chapters.ch19 import (
    adding,
    loop_film,
    lora,
    plots,
    policy,
    post_plan,
    posttrain,
    rollout,
    sft,
    sync_film,
    widgets,
)
from course_chapters.ch19.weight_sync import holdings, sync_bytes, sync_map
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import bytes_text
