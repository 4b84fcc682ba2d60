from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, short_table

CAUSES = {
    "as printed": "the statement is right",
    "missing factor": "its formula lacks a factor that its own words require",
    "numbers for bytes": "it counts numbers and calls them bytes",
    "missing term": "it leaves out a term that grows differently",
    "a bucket is left out": "it counts fewer buckets than it names",
    "wrong baseline": "it gives a share of one quantity as a share of another",
    "wrong growth": "it grows differently with the number of layers",
    "wrong moment": "it happens earlier or later",
    "does not follow": "no count of what it describes gives its number",
}


ITEMS = (
    Item("state-70b-1120", "TB of state", scale=1e12),
    Item("adam-2p-2p-8p", "GB of state under that condition", scale=1e9),
    Item("moments-7b-56", "GB of moments", scale=1e9),
    Item("state-405b-3200", "TB of state under that condition", scale=1e12),
    Item("state-405b-4860", "TB of state under that condition", scale=1e12),
    Item("cards-405b-60", "the fewest GPUs that hold 4.86 TB"),
    Item("activations-130-200", "GB by that formula at k = 12", scale=1e9),
    Item("activations-14", "GB by the printed formula", scale=1e9),
    Item(
        "activations-btld",
        "bytes of a layer with unfused attention over those with fused attention: "
        "s·b·h·(34 + 5·a·s/h) against s·b·h·34",
    ),
    Item("checkpointed-2.6", "GB of all layers' inputs, 2 bytes per number", scale=1e9),
    Item("checkpointed-20", "GB of those inputs plus the inside of one layer at k = 14", scale=1e9),
    Item("checkpoint-sqrt", "how many layer inputs are kept"),
    Item("checkpoint-33-forward", "additional forward passes, in percent", scale=0.01),
    Item("oom-construction", "GB of weights that each GPU must load before that line", scale=1e9),
)


CARD = Card(
    title="Audit: state, activations, checkpoints",
    **Worth(points=21, minutes=20, difficulty=3, importance=5),
    **AUDIT,
    answers=("audit_memory",),
    text=f"""Fourteen statements from public lessons on memory. Recompute each number and decide whether the statement
is right. The letters are those of the sources: B sequences of T tokens, L layers, hidden size d and P parameters; in
the third column's formula, b sequences of s tokens, hidden size h and a heads, in 16 bits.

{short_table(ITEMS)}

{rules("audit_memory", CAUSES, " (a formula that leaves a term out claims that the term is zero)")}""",
    hints=(
        "For each number: which buckets does it include, with how many bytes each, and for one layer or for "
        "all of them?",
        "First put the sizes into the printed formula: does it give the printed number? Then write down what the "
        "words describe and count that. For checkpointing, list the passes: forward, forward again, backward (as much "
        "work as two forward passes).",
        "`B * T * L * d * 2 * k`, inputs alone `B * T * L * d * 2`; state `P * (2 + 2 + 4 + 8)`; unfused over fused "
        "`(34 + 5 * a * s / h) / 34`; weights `2 * P`.",
    ),
)
