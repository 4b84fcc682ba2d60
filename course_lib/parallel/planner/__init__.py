"""A planner: from a model, a cluster and a layout to memory, step time by cause, utilization and dollars; and the
search for the best.

Pure functions over frozen records; any number may be a numpy array. Each term of the time is one function with its
formula and source: `products`, `layers`, `wires`, `traffic`, `bubbles`, put together in `step`.
"""

from course_lib.parallel.planner.advice import binding, cost, degrees, memory_parts, time_parts, verdict
from course_lib.parallel.planner.cluster import Cluster, Wire
from course_lib.parallel.planner.clusters import cluster, names, printed_cluster
from course_lib.parallel.planner.estimating import (
    Estimate,
    estimate,
    memory_by_part,
    offloaded,
    peak_memory,
    used_params,
    utilization,
)
from course_lib.parallel.planner.job import SOFTWARE, TAUGHT, Job, Software
from course_lib.parallel.planner.search import NoPlan, Plan, choices, layouts, one_of, pareto, search
from course_lib.parallel.planner.step import Step, micro_batch, step_time
from course_lib.parallel.planner.traffic import strides, traffic
from course_lib.parallel.planner.validity import REASONS, faults, in_words

__all__ = [
    "REASONS",
    "SOFTWARE",
    "TAUGHT",
    "Cluster",
    "Estimate",
    "Job",
    "NoPlan",
    "Plan",
    "Software",
    "Step",
    "Wire",
    "binding",
    "choices",
    "cluster",
    "cost",
    "degrees",
    "estimate",
    "faults",
    "used_params",
    "utilization",
    "in_words",
    "layouts",
    "memory_by_part",
    "memory_parts",
    "offloaded",
    "micro_batch",
    "names",
    "one_of",
    "pareto",
    "peak_memory",
    "printed_cluster",
    "search",
    "step_time",
    "time_parts",
    "strides",
    "traffic",
    "verdict",
]
