from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another unit": "a number is printed in a unit other than its own",
    "unequal parts": "it holds for equal parts, and these are not equal",
    "memory for traffic": "what shrank is what a rank holds, not what it sends",
    "latency left out": "it counts only the bytes",
    "another baseline": "it compares numbers that do not belong together",
}


ITEMS = (
    Item("all-reduce-350x", "the time of the all-reduce over that of the step, from the conditions", "steps"),
    Item("fsdp-cuts-all-reduce", "the bytes a rank sends with FSDP over those of the all-reduce", "a plain factor"),
    Item("mean-of-shards-exact", "the average of both ranks' averages over the average of all five", "a plain factor"),
    Item("six-months-1024", "the time of the run, a month being a twelfth of 365.25 days", "months"),
    Item("v5p-2550-tokens", "the tokens per chip at which both take as long, on many chips", "tokens"),
    Item("resnet-8-to-256", "the efficiency that follows from the two times", "a fraction of 1"),
)


CARD = Card(
    title="Audit: is the average free, and is it an average?",
    text=f"""Six quoted statements about data parallelism. Recompute each number, then judge the statement. A step takes
6 FLOPs per parameter and token, 4 of them in the backward pass.

{table(ITEMS)}

{rules("audit_dp", CAUSES)}""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which of these numbers compare two quantities? Have you computed both of them yourself?",
        "A step is 6 FLOPs per parameter and token, divided by what the GPU achieves. An all-gather and a "
        "reduce-scatter each send half of what an all-reduce sends. For the average of averages, write down all "
        "five numbers.",
        "`2.8 / (6 * 70e9 * 8192 / 0.4e15)`; `3 / 2`; `((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2 / 4`; `6 * 70e9 * 15e12 / "
        "0.4e15 / 1024` seconds; FLOP/s over bytes/s; `29 * 8 / 256`.",
    ),
    answers=("audit_dp",),
)
