from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "unequal parts": "it holds where all parts are equally large, and they are not",
    "variance for benefit": "the variance does what it always does; what changes is how many steps it saves",
    "another fit": "the number follows from another fit than the one in the conditions",
    "another unit": "a number was printed in another unit than it has",
    "one rank's share": "the number is that of one rank, not of all",
}

ITEMS = (
    Item(
        "accumulation-identical",
        "the average of the two micro-batches' averages over the average of all five",
        "a plain factor",
    ),
    Item("noise-useful-regime", "the variance at the larger batch over that at the smaller one", "a plain factor"),
    Item("chinchilla-70b", "the parameters at which the fit has its least loss", "billions of parameters", scale=1e9),
    Item("nanogpt-300b", "the tokens of the run, from the conditions", "billions of tokens", scale=1e9),
    Item("goyal-8k", "the learning rate that the rule gives", "a plain number"),
    Item(
        "llama3-updates", "the updates of the run, from the tokens at each batch size", "millions of updates", scale=1e6
    ),
)

CARD = Card(
    title="Audit: batches, rates and steps in print",
    text=f"""Six statements about batches, learning rates and schedules, quoted. Recompute each, then judge it.

{table(ITEMS)}

{rules("audit_optimizer", CAUSES)}""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which statements are true only under a condition that they leave out? Try each on the numbers in "
        "its conditions.",
        "The variance of a mean over n independent examples is the variance of one over n, for any n. For the fit, "
        "minimize the loss with 6·N·D fixed. For the updates, divide each part of the tokens by its batch.",
        "`((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2 / 4`; `1 / 8`; `(α·A / (β·B)) ** (1 / (α + β)) * (C / 6) ** (β / (α + "
        "β))`; `12 * 1024 * 5 * 8 * 600_000`; `0.1 * 8192 / 256`; `252e6 / 4e6 + (2.87e12 - 252e6) / 8e6 + (15.6e12 - "
        "2.87e12) / 16e6`.",
    ),
    answers=("audit_optimizer",),
)
