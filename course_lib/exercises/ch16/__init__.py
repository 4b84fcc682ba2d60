"""Chapter 16, "Serving: what changes when the model answers?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch16.cards.audits import AUDIT_SERVING
from course_lib.exercises.ch16.cards.drills import DRILLS
from course_lib.exercises.ch16.cards.memory import KV_CACHE_BYTES, QUANTIZE_KV
from course_lib.exercises.ch16.cards.pages import PAGE_TABLE, PREFIX_CACHE, REPAIR_PAGES
from course_lib.exercises.ch16.cards.rates import (
    LATENCY_BUDGET,
    PREDICT_WAIT,
    PREFILL_AND_DECODE,
    SIZE_THE_FLEET,
    SPLIT_POOLS,
)
from course_lib.exercises.ch16.cards.scheduling import CONTINUOUS_BATCHING
from course_lib.exercises.ch16.cards.speculation import SPECULATIVE_SAMPLER
from course_lib.exercises.ch16.numbers import NUMBERS

CARDS = (
    KV_CACHE_BYTES,
    PREFILL_AND_DECODE,
    PAGE_TABLE,
    PREFIX_CACHE,
    REPAIR_PAGES,
    CONTINUOUS_BATCHING,
    LATENCY_BUDGET,
    PREDICT_WAIT,
    SIZE_THE_FLEET,
    QUANTIZE_KV,
    SPLIT_POOLS,
    SPECULATIVE_SAMPLER,
    AUDIT_SERVING,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
