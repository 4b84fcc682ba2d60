"""Chapter 16, "Serving: what changes when the model answers?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch16.cards import audits, memory, pages, rates, scheduling, speculation
from course_lib.exercises.ch16.cards.drills import DRILLS
from course_lib.exercises.ch16.numbers import NUMBERS

CARDS = (
    memory.KV_CACHE_BYTES,
    rates.PREFILL_AND_DECODE,
    pages.PAGE_TABLE,
    pages.PREFIX_CACHE,
    pages.REPAIR_PAGES,
    scheduling.CONTINUOUS_BATCHING,
    rates.LATENCY_BUDGET,
    rates.PREDICT_WAIT,
    rates.SIZE_THE_FLEET,
    memory.QUANTIZE_KV,
    rates.SPLIT_POOLS,
    speculation.SPECULATIVE_SAMPLER,
    rates.SERVING_BILL,
    audits.AUDIT_SERVING,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
