from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table
from course_lib.estimate.units import GB

CAUSES = {
    "as printed": "the statement is right",
    "memory for traffic": "a GPU holds less, but does not send less",
    "three operations, not three all-reduces": "a gather or a reduce-scatter sends half of an all-reduce, each in its "
    "own precision",
    "master copy left out": "a bucket of the state is missing",
    "does not fit": "a GPU would hold more than its memory",
    "a part, not the model": "between groups a rank sends only its part",
    "what stays": "a part of the memory is not sharded",
}

ITEMS = (
    Item("zero-1-31-gb", "one GPU's state", "GB", GB),
    Item("fsdp-70b-280", "the bytes a GPU sends in a step of FSDP", "GB", GB),
    Item("zero-3-12-bytes", "one GPU's state", "GB", GB),
    Item("zero-3-half-more", "the bytes sent under stage 3, over those of plain data parallelism", "a plain factor"),
    Item("zero-3-three-times", "the bytes sent under stage 3, over those of plain data parallelism", "a plain factor"),
    Item("hsdp-405b-eight", "one GPU's state", "GB", GB),
    Item("zero-1-405b-shard", "the optimizer state on one GPU", "GB", GB),
    Item("hsdp-third-across", "the bytes sent inside, over those sent across", "a plain factor"),
    Item("zero-3-scales", "one GPU's memory with 2,048 GPUs, over that with 1,024", "a plain factor"),
)

CARD = Card(
    title="Audit: what does sharding save, and what does it cost?",
    text=f"""Here are nine statements about sharding. Recompute each for the case in brackets, then judge it. Where N is
not given, rings are long: take (N − 1)/N as 1.

{table(ITEMS)}

{rules("audit_sharding", CAUSES)}""",
    **Worth(points=9, minutes=15, difficulty=3, importance=5),
    **AUDIT,
    hints=(
        "Which statements are about bytes held, and which about bytes sent? Which buckets does each condition name?",
        "Bytes sent per parameter: for an all-reduce twice the width of a gradient, for stage 3 twice that of a "
        "weight and once that of a gradient. State: add the buckets, and divide those that are sharded.",
        "`3 * 140`; `(2 + 2 + 4) / (2 * 4)`; `16 * 7.5e9 / 64`; `16 * 405e9 / 8`; `8 * 405e9 / 1024`; inside `3 * 7/8 "
        "* 2P`, across `2 * 2P / 8`; `(16 * 405e9 / 2048 + 4 * 405e9 / 126 + 20e9) / (16 * 405e9 / 1024 + 4 * 405e9 / "
        "126 + 20e9)`.",
    ),
    answers=("audit_sharding",),
)
