"""Pipeline schedules as data: which rank does what, in which order. Generated from rules, checked, counted and printed.

A schedule holds no times: `course_lib.parallel.timeline` plays it with durations, `course_lib.parallel.pipeline` runs
it on real stages.
"""

from course_lib.parallel.schedules.activation_peaks import peak_activations, weights
from course_lib.parallel.schedules.bidirectional import dualpipe, dualpipe_v
from course_lib.parallel.schedules.fused_backward import breadth_first, gpipe, interleaved, naive, one_f_one_b
from course_lib.parallel.schedules.grid import grid
from course_lib.parallel.schedules.ops import KINDS, Op, Schedule, looped, schedule_of, v_shaped
from course_lib.parallel.schedules.partition import cut, cut_evenly
from course_lib.parallel.schedules.validity import Fault, ScheduleError, faults, least_buffering, validate
from course_lib.parallel.schedules.zero_bubble import zb_h1, zb_h2, zb_v

GENERATORS = {
    each.__name__: each
    for each in (naive, gpipe, one_f_one_b, interleaved, breadth_first, zb_h1, zb_h2, zb_v, dualpipe, dualpipe_v)
}

__all__ = [
    "GENERATORS",
    "KINDS",
    "Fault",
    "Op",
    "Schedule",
    "ScheduleError",
    "breadth_first",
    "cut",
    "cut_evenly",
    "dualpipe",
    "dualpipe_v",
    "faults",
    "gpipe",
    "grid",
    "interleaved",
    "least_buffering",
    "looped",
    "naive",
    "one_f_one_b",
    "peak_activations",
    "schedule_of",
    "v_shaped",
    "validate",
    "weights",
    "zb_h1",
    "zb_h2",
    "zb_v",
]
