"""Key of chapter 11's audit: the truth about each statement, and the number that each known mistake leads to."""

from course_lib.exercises.ch11.cards.audits import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong

_RANKS, _CP = 8, 16

KEYS = {
    "cp-attention-256": right(
        (131_072 / 8192) ** 2,
        Mistake("linear", 16.0, "this is the factor of everything but attention; pairs of tokens count here."),
        Mistake("causal", 128.0, "a causal mask halves both; the ratio stays."),
    ),
    "ulysses-stores-all": wrong(
        1 / _RANKS,
        "another exchange",
        Mistake("as-printed", 1.0, "after the all-to-all, a GPU has all tokens of how many KV heads?"),
        Mistake("squared", 1 / _RANKS**2, "it has all tokens, and only its share of the heads."),
    ),
    "ring-one-nth": wrong(
        2 / _RANKS,
        "one block more",
        Mistake("as-printed", 1 / _RANKS, "where is the next block while this one is in use?"),
        Mistake("three", 3 / _RANKS, "the block that is in use is the one being sent onward."),
    ),
    "sp-fourth-axis": wrong(
        16 * 8 * 4,
        "counted twice",
        Mistake("as-printed", 4096.0, "are there GPUs for sequence parallelism besides those of tensor parallelism?"),
        Mistake("no-tensor", 64.0, "the tensor-parallel GPUs are missing."),
    ),
    "cp-half-wasted": right(
        1 - _CP / (2 * _CP - 1),
        Mistake("busy", _CP / (2 * _CP - 1), "this is the busy share."),
        Mistake(
            "ratio", (2 * _CP - 1) / _CP, "this is the busiest rank over the mean; which share of the time is idle?"
        ),
    ),
    "llama3-cp-batch": right(
        8 * 16 * 131_072 / 1e6,
        Mistake("context-as-samples", 8 * 16 * 16 * 131_072 / 1e6, "context ranks share sequences; they add none."),
        Mistake("one-replica", 16 * 131_072 / 1e6, "this is one data-parallel rank's."),
    ),
    "sp-same-bandwidth": right(
        1.0,
        Mistake("twice", 2.0, "the all-gather and the reduce-scatter replace the all-reduce; it does not stay."),
        Mistake("half", 0.5, "this counts one of the two; an all-reduce is both."),
    ),
    "ring-scores": wrong(
        1 / _RANKS**2,
        "both sides are split",
        Mistake("as-printed", 1 / _RANKS, "a block has 1/N of the queries, and how many of the keys?"),
    ),
}

AUDITS = {
    "audit-context": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why="""Ulysses gathers tokens and splits heads, so a GPU holds 1/N of the keys and values, not all of them. A ring that overlaps holds two blocks. Megatron's sequence
parallelism reuses the tensor-parallel GPUs, and a block of scores is cut on both sides. The factor of 256, the idle half, the batch of 16M and the equal bytes are right.""",
        pytorch="Compare with the memory and the traffic that a profiler shows; documentation pages simplify.",
    )
}
