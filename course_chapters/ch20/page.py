"""What chapter 20 has of its own: its tables, pictures and numbers. The notebook names what it takes from the library
itself."""

from course_chapters import one_thread as _one_thread  # noqa: F401

# isort: split

import json
import math
import statistics
import tempfile
from collections import Counter
from pathlib import Path

import torch

from course_chapters.ch20 import (
    checklist,
    data_plots,
    data_shards,
    diloco_film,
    health_checks,
    health_plots,
    job_files,
    link_faults,
    link_film,
    nccl_settings,
    queue_film,
    queue_simulator,
    quorum,
    quorum_film,
)
from course_lib.messages import Trouble
