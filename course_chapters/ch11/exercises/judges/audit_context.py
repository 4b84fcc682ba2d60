"""Judge of audit-context: audit: what does sharing a sequence save?"""

from course_chapters.ch11.exercises.audit_context import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong

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


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why="""Ulysses gathers tokens and splits heads, so a GPU holds 1/N of the keys and values, not all of them. A ring that overlaps holds two blocks. Megatron's sequence
parallelism reuses the tensor-parallel GPUs, and a block of scores is cut on both sides. The factor of 256, the idle half, the batch of 16M and the equal bytes are right.""",
    pytorch="Compare with the memory and the traffic that a profiler shows; documentation pages simplify.",
)

ANSWERS = r'''# %% right: worked
def audit_context() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    ### BEGIN SOLUTION
    return {
        "cp-attention-256": ((131072 / 8192) ** 2, "right", "as printed"),
        "ulysses-stores-all": (1 / 8, "wrong", "another exchange"),
        "ring-one-nth": (2 / 8, "wrong", "one block more"),
        "sp-fourth-axis": (16 * 8 * 4, "wrong", "counted twice"),
        "cp-half-wasted": (1 - 16 / (2 * 16 - 1), "right", "as printed"),
        "llama3-cp-batch": (8 * 16 * 131072 / 1e6, "right", "as printed"),
        "sp-same-bandwidth": (1.0, "right", "as printed"),
        "ring-scores": ((1 / 8) ** 2, "wrong", "both sides are split"),
    }
    ### END SOLUTION

# %% right: rounded, in capitals
# ~ (131072 / 8192) ** 2, "right", "as printed" ==> 256, "RIGHT", "As printed"
# ~ 1 - 16 / (2 * 16 - 1) ==> 0.48
# ~ 8 * 16 * 131072 / 1e6 ==> 16.8
# ~ (1 / 8) ** 2, "wrong" ==> 0.0156, "Wrong"
# %% wrong: everything as printed => values as-printed
# ~ return { ==> good = {
#       }
# +     printed = (256.0, 1.0, 1 / 8, 4096, 0.5, 16.0, 1.0, 1 / 8)
# +     return {name: (number, "right", "as printed") for name, number in zip(good, printed)}
# %% wrong: everything is wrong => values wrong-verdict
# ~ return { ==> good = {
#       }
# +     return {name: (number, "wrong", "counted twice") for name, (number, _, _) in good.items()}
# %% wrong: context ranks are samples => values context-as-samples
# ~ 131072 / 1e6, "right", "as printed" ==> 16 * 131072 / 1e6, "wrong", "samples and parts"
# %% wrong: the other cause => values wrong-cause
# ~ "both sides are split" ==> "one block more"
# %% wrong: the busy share => values busy
# ~ 1 - 16 ==> 16
# %% wrong: an all-reduce stays => values twice
# ~ 1.0, "right", "as printed" ==> 2.0, "wrong", "counted twice"
# %% wrong: tokens in place of millions => values other-unit
# ~ 131072 / 1e6 ==> 131072
'''
