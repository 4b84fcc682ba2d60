"""Chapter 16, "Serving: what changes when the model answers?": cards, drills and the numbers of its prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "kv-cache-bytes",
    "prefill-and-decode",
    "page-table",
    "continuous-batching",
    "predict-wait",
    "prefix-cache",
    "repair-pages",
    "latency-budget",
    "size-the-fleet",
    "quantize-kv",
    "split-pools",
    "speculative-sampler",
    "serving-bill",
    "audit-serving",
)
