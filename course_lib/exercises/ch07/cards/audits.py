"""The audit of chapter 07: what was printed about averages, their price and their pace, some of it right."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.audits import Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another unit": "a number was printed in another unit than it has",
    "unequal parts": "it holds where all parts are equally large, and they are not",
    "memory for traffic": "what became smaller is what a rank holds, not what it sends",
    "latency left out": "only the bytes were counted",
    "another baseline": "the numbers compared do not belong together",
}


ITEMS = (
    Item(
        "all-reduce-350x",
        "the time of the all-reduce over the time of the step, from the conditions",
        "multiples of a step",
    ),
    Item(
        "fsdp-cuts-all-reduce",
        "the bytes a rank sends with FSDP, over those it sends in the all-reduce",
        "a plain factor",
    ),
    Item(
        "mean-of-shards-exact", "the average of the two ranks' averages over the average of all five", "a plain factor"
    ),
    Item("six-months-1024", "the time of the run, a month being a twelfth of 365.25 days", "months"),
    Item("v5p-2550-tokens", "the tokens per chip at which both take as long, on many chips", "tokens"),
    Item("resnet-8-to-256", "the efficiency that follows from the two times", "a fraction of 1"),
)


AUDIT_DATA_PARALLEL = Card(
    id="audit-data-parallel",
    chapter="07",
    title="Audit: is the average free, and is it an average?",
    text=f"""Six statements about data parallelism, quoted. Recompute each, then judge it. FLOPs are 6 per parameter and token for a
step, 4 of them in the backward pass.

{table(ITEMS)}

{rules("audit_dp", CAUSES)}""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="audit",
    hints=(
        "Which of these numbers compare two quantities? Have you worked out both of them yourself?",
        "A step is 6 FLOPs per parameter and token, over what the GPU really does. An all-gather and a reduce-scatter each send half of "
        "what an all-reduce sends. The average of averages: write down all five numbers.",
        "`2.8 / (6 * 70e9 * 8192 / 0.4e15)`; `3 / 2`; `((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2 / 4`; `6 * 70e9 * 15e12 / 0.4e15 / 1024` "
        "seconds; FLOP/s over bytes/s; `29 * 8 / 256`.",
    ),
    answers=("audit_dp",),
    allowed="everything, the library too: the judgement is what counts.",
)

AUDITS = (AUDIT_DATA_PARALLEL,)
