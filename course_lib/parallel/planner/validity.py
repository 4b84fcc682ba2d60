"""Why a layout cannot run, as a mask with reasons: nothing is raised, so that one bad layout does not hide a thousand
good ones."""

import numpy as np

from course_lib.estimate.memory.layout import CHUNKED, Layout
from course_lib.estimate.units import Numeric
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.job import Job

REASONS = (
    "the degrees do not multiply to the devices",
    "tp does not divide the attention heads",
    "tp does not divide the inner width of the MLP",
    "cp does not divide the sequence",
    "pp times virtual does not divide the layers, nor layers that count embedding and head as one each",
    "the micro-batches do not divide the batch",
    "interleaving needs a multiple of pp micro-batches",
    "ep does not divide the experts, or the data and context ranks",
    "replicas do not divide the data ranks",
    "the server's memory does not hold what is offloaded with a twentieth of it in reserve",
    "it does not fit with a twentieth of the memory in reserve",
)


def _left_over(whole: Numeric, part: Numeric) -> Numeric:
    """Whether `part` does not divide `whole`: as the remainder says, but several times as fast on arrays."""
    ratio = whole / part
    return ratio != np.floor(ratio)


def faults(job: Job, cluster: Cluster, layout: Layout) -> np.ndarray:
    """For each layout a bit for each of `REASONS` but the last two, which are of memory: bit i is set if reason i
    holds."""
    one = job.shape
    ranks = layout.dp * layout.cp
    experts = np.maximum(one.experts, 1)
    chunks = layout.pp * layout.virtual
    waits = layout.schedule in CHUNKED
    rules = (
        np.not_equal(layout.ranks, cluster.gpus),
        _left_over(one.heads, layout.tp),
        _left_over(one.ffn, layout.tp),
        _left_over(job.seq, layout.cp),
        np.logical_and(
            _left_over(one.layers, chunks), np.logical_or(_left_over(one.layers + 2, chunks), np.equal(layout.pp, 1))
        ),
        _left_over(job.sequences, layout.dp * layout.microbatches),
        np.logical_and(waits and np.greater(layout.virtual, 1), _left_over(layout.microbatches, layout.pp)),
        np.logical_or(_left_over(experts, layout.ep), _left_over(ranks, layout.ep)),
        _left_over(layout.dp, layout.replicas),
    )
    found = np.zeros(np.broadcast(*rules).shape, dtype=np.int64)
    for bit, rule in enumerate(rules):
        found = found + (np.asarray(rule).astype(np.int64) << bit)
    return found


def in_words(bits: int) -> tuple[str, ...]:
    """The reasons of one layout."""
    return tuple(reason for bit, reason in enumerate(REASONS) if int(bits) >> bit & 1)
