"""The audit of chapter 02: what was printed about state, activations and checkpointing, some of it right."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.audits import Item, rules, short_table

CAUSES = {
    "as printed": "the statement is right",
    "missing factor": "its formula lacks a factor that its own words ask for",
    "numbers for bytes": "numbers were counted, and called bytes",
    "missing term": "something that grows differently is left out",
    "a bucket is left out": "it counts fewer buckets than it says",
    "wrong baseline": "a share of one thing is called a share of another",
    "wrong growth": "it grows in another way with the number of layers",
    "wrong moment": "it happens earlier or later",
    "does not follow": "no count of what it describes gives its number",
}


ITEMS = (
    Item("state-70b-1120", "TB of state", scale=1e12),
    Item("adam-2p-2p-8p", "GB of state under that condition", scale=1e9),
    Item("moments-7b-56", "GB of moments", scale=1e9),
    Item("state-405b-3200", "TB of state under that condition", scale=1e12),
    Item("state-405b-4860", "TB of state under that condition", scale=1e12),
    Item("cards-405b-60", "the fewest GPUs for those 4.86 TB"),
    Item("activations-130-200", "GB by that formula at k = 12", scale=1e9),
    Item("activations-14", "GB by the printed formula", scale=1e9),
    Item(
        "activations-btld",
        "bytes of a layer with attention written out over those with a fused one: "
        "s·b·h·(34 + 5·a·s/h) against s·b·h·34",
    ),
    Item("checkpointed-2.6", "GB of the inputs that are kept, 2 bytes a number", scale=1e9),
    Item("checkpointed-20", "GB of those inputs, and of the inside of one layer at k = 14", scale=1e9),
    Item("checkpoint-sqrt", "how many layer inputs are kept"),
    Item("checkpoint-33-forward", "forward passes more, in per cent", scale=0.01),
    Item("oom-construction", "GB of weights that each GPU has to load before that line", scale=1e9),
)


AUDIT_MEMORY = Card(
    id="audit-memory",
    chapter="02",
    title="Audit: state, activations, checkpoints",
    **Worth(points=21, minutes=20, difficulty=3, importance=5),
    kind="more",
    form="audit",
    answers=("audit_memory",),
    text=f"""Fourteen statements from public lessons on this very subject. B sequences of T tokens, L layers, hidden size d; P
parameters. In the formula of the third column s tokens, b sequences, hidden size h, a heads, 16 bits.

{short_table(ITEMS)}

{rules("audit_memory", CAUSES, " (a formula that leaves something out says that it is nothing)")}""",
    hints=(
        "For each number: which buckets are in it, of how many bytes; and is it counted for one layer, or for all of them?",
        "Put the sizes into the printed formula first: does it even give its own number? Then write down what the words describe and "
        "count that. For checkpointing, list the passes: forward, forward again, backward (which is two forwards' work).",
        "`B * T * L * d * 2 * k`, inputs alone `B * T * L * d * 2`; state `P * (2 + 2 + 4 + 8)`; unfused over fused "
        "`(34 + 5 * a * s / h) / 34`; weights `2 * P`.",
    ),
    allowed="everything, the library too: the judgement is what counts.",
)
