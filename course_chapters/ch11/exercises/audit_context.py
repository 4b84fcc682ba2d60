from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another exchange": "it describes another method than the one it names",
    "one block more": "a block that is on the GPU at the same time was left out",
    "counted twice": "the same GPUs are counted for two purposes",
    "both sides are split": "only one of two lengths was divided",
    "samples and parts": "parts of a sequence were counted as samples",
}

ITEMS = (
    Item("cp-attention-256", "compute in the attention layers, 128K over 8K", "a plain factor"),
    Item(
        "ulysses-stores-all", "keys and values on a GPU during attention, over those of the sequence", "a fraction of 1"
    ),
    Item("ring-one-nth", "keys and values on a GPU at a time, over those of the sequence", "a fraction of 1"),
    Item("sp-fourth-axis", "GPUs of this run", "a plain number"),
    Item("cp-half-wasted", "idle time of all ranks, over all of their time", "a fraction of 1"),
    Item("llama3-cp-batch", "tokens per batch", "millions of tokens", scale=1e6),
    Item("sp-same-bandwidth", "bytes with sequence parallelism, over those without", "a plain factor"),
    Item("ring-scores", "scores on a rank at a time, over those of the whole sequence", "a fraction of 1"),
)

CARD = Card(
    title="Audit: what does sharing a sequence save?",
    text=f"""Here are eight published statements about sequence and context parallelism. Recompute each for the case in
brackets, then judge it. You may use the library's costs.

{table(ITEMS)}

{rules("audit_context", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which keys and values does a Ulysses rank have after the all-to-all? What is on a rank of the ring while the "
        "next block arrives?",
        "An all-reduce around a ring is a reduce-scatter and an all-gather. A block of scores has as many rows as a "
        "rank has queries, and as many columns as a block has keys.",
        "`(131072 / 8192) ** 2`; `1 / 8`; `2 / 8`; `16 * 8 * 4`; `1 - 16 / (2 * 16 - 1)`; `8 * 16 * 131072 / 1e6`; "
        "`(7/8 + 7/8) / (2 * 7/8)`; `(1 / 8) ** 2`.",
    ),
    answers=("audit_context",),
    needs=("06", "09"),
)
