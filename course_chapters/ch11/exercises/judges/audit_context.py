from course_chapters.ch11.exercises.audit_context import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-context"),
    CAUSES,
    why="""Ulysses gathers tokens and splits heads, so a GPU holds 1/N of the keys and values, not all of them. A ring
that overlaps holds two blocks. Megatron's sequence parallelism reuses the tensor-parallel GPUs, and a block of scores
is cut on both sides. The factor of 256, the idle half, the batch of 16M and the equal bytes are right.""",
    pytorch="Compare with the memory and the traffic that a profiler shows; documentation pages simplify.",
)

ANSWERS = r'''# %% right: worked
def audit_context() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
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
# %% right: rounded, in capitals
# ~ (131072 / 8192) ** 2, "right", "as printed" ==> 256, "RIGHT", "As printed"
# ~ 1 - 16 / (2 * 16 - 1) ==> 0.48
# ~ 8 * 16 * 131072 / 1e6 ==> 16.8
# ~ (1 / 8) ** 2, "wrong" ==> 0.0156, "Wrong"
# %% wrong: the printed numbers => values as-printed
# > this is the printed number. What is split, and which GPUs are counted twice?
# ~ (1 / 8, "wrong" ==> (1.0, "wrong"
# ~ (2 / 8, ==> (1 / 8,
# ~ (16 * 8 * 4, ==> (4096.0,
# ~ ((1 / 8) ** 2, ==> (1 / 8,
# %% wrong: pairs of tokens are forgotten => values linear
# > this is the factor of everything but attention; pairs of tokens count here.
# ~ (131072 / 8192) ** 2 ==> 131072 / 8192
# %% wrong: half of the pairs => values causal
# > a causal mask halves both; the ratio stays.
# ~ (131072 / 8192) ** 2 ==> (131072 / 8192) ** 2 / 2
# %% wrong: tokens split too => values squared
# > it has all tokens, and only its share of the heads.
# ~ (1 / 8, "wrong" ==> (1 / 8**2, "wrong"
# %% wrong: three blocks => values three
# > the block that is in use is the one being sent onward.
# ~ (2 / 8, ==> (3 / 8,
# %% wrong: no tensor ranks => values no-tensor
# > the tensor-parallel GPUs are missing.
# ~ (16 * 8 * 4, ==> (16 * 4,
# %% wrong: context ranks are samples => values context-as-samples
# > context ranks share sequences; they add none.
# ~ 131072 / 1e6, "right", "as printed" ==> 16 * 131072 / 1e6, "wrong", "samples and parts"
# %% wrong: one replica => values
# > this is one data-parallel rank's.
# ~ 8 * 16 * 131072 ==> 16 * 131072
# %% wrong: the busy share => values busy
# > this is the busy share.
# ~ 1 - 16 ==> 16
# %% wrong: the busiest over the mean => values ratio
# > this is the busiest rank over the mean; which share of the time is idle?
# ~ 1 - 16 / (2 * 16 - 1) ==> (2 * 16 - 1) / 16
# %% wrong: an all-reduce stays => values twice
# > the all-gather and the reduce-scatter replace the all-reduce; it does not stay.
# ~ 1.0, "right", "as printed" ==> 2.0, "wrong", "counted twice"
# %% wrong: one half of an all-reduce => values half
# > this counts one of the two; an all-reduce is both.
# ~ (1.0, ==> (0.5,
# %% wrong: tokens in place of millions => values other-unit
# ~ 131072 / 1e6 ==> 131072
'''
