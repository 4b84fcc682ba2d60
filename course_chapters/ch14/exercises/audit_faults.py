from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another size": "it would be right for a job on more GPUs",
    "a snapshot": "it is the length of an observation, not of the run",
    "saves are not free": "it is right for faster saves",
    "planned stops": "it counts planned stops as failures",
    "half the failures": "it counts only part of the failures",
}

FEW = "; “a few” and “every few” mean 2 to 10 of the unit"

ITEMS = (
    Item("failure-every-hour", "hours between failures", "hours"),
    Item("interruptions-few-hours", "hours between interruptions", "hours"),
    Item("llama3-54-days", "days that its GPU-hours take on all GPUs", "days"),
    Item("checkpoint-minutes", "the best interval by Young's rule", "minutes"),
    Item("checkpoint-minutes-slow", "the best interval by Young's rule", "minutes"),
    Item("rsc-16384", "hours between failures", "hours"),
    Item("always-broken", "the probability of at least one failure in a day", "a fraction of 1"),
    Item("hbm3-share", "the share of that cause", "a fraction of 1"),
)

CARD = Card(
    title="Audit: what was printed about failures",
    text=f"""Here are eight published statements about failures and checkpoints. Recompute each for the case in
brackets, then judge it. You may use the library.

{table(ITEMS)}

{rules("audit_failures", CAUSES, FEW)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Failures of all GPUs add up. From the log of 16,384 GPUs, what does one GPU fail per hour?",
        "Young's rule is √(2 · save · time between failures). A save takes bytes over bandwidth.",
        "54 days · 24 / failures; GPU-hours / GPUs / 24; 1 − e^(−hours / hours between failures).",
    ),
    answers=("audit_failures",),
)
