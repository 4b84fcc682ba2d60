from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "collectives for bytes": "it counts collectives as if each moved the same bytes",
    "whole for a shard": "it counts a whole tensor where a GPU sends a shard",
    "full speed": "it leaves out the utilization that it names",
    "another baseline": "it compares with what no run reaches",
}

ITEMS = (
    Item("fsdp-table-three", "bytes that a GPU sends, over those of data parallelism", "a plain factor"),
    Item("gpt3-34-days", "days of the run", "days"),
    Item("hsdp-third-across", "bytes a GPU sends inside over those across", "a plain factor"),
    Item("deepseek-3.7-days", "days for a trillion tokens", "days"),
    Item("llama3-17-days", "days of the run", "days"),
    Item("llama3-compute", "FLOPs of the run", "FLOPs"),
    Item("forty-percent-burns-sixty", "the share of the money lost", "a fraction of 1"),
    Item("trillion-84-days", "days of the run", "days"),
)

CARD = Card(
    title="Audit: would you sign this plan?",
    text=f"""Here are eight published statements about strategies and whole runs; a few of them you have met before.
Recompute each for the case in brackets, then judge it. You may use the library.

{table(ITEMS)}

{rules("audit_synthesis", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Is a number a count of collectives, of bytes of the whole model, or of bytes of one GPU? Is a run at its "
        "peak, or at what it reaches?",
        "An all-reduce is a reduce-scatter and an all-gather. Under HSDP, a rank averages its shard with the "
        "replicas. Runs: FLOPs over GPUs × what a GPU reaches.",
        "`3 / 2`; `8 * 300e9 * 175e9 / (1024 * 140e12)` s; `(3 * 7 / 8) / (2 / 8)`; `180e3 / 2048` h; `3.645e25 / "
        "(24576 * 989e12 * 0.4)` s; `6 * 405e9 * 15.6e12`; `1 - 0.4 / 0.5`; `8 * 450e9 * 1e12 / (3072 * 163e12)` s.",
    ),
    answers=("audit_synthesis",),
    needs=("01", "08"),
)
