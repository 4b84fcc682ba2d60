from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "rounded up": "some numbers beyond the limit are rounded back to it",
    "a copy is missing": "the recipe needs one more copy of the weights",
    "another dtype": "what is added up is kept in another format",
    "activations alone": "it is right for activations, and not for what is named",
    "another format": "the number is right for another format",
}

ITEMS = (
    Item("fp16-zero-below", "the magnitude below which fp16 gives zero", "units of 2⁻²⁴", scale=2.0**-24),
    Item("master-copy-50", "bytes added, over those of fp32 weights", "a fraction of 1"),
    Item("e4m3-largest", "the largest finite number", "a plain number"),
    Item("mixed-halves-memory", "bytes of state, over those of fp32 training", "a fraction of 1"),
    Item("fp16-ratio-2048", "the least ratio of weight to update at which the sum is the weight", "a plain factor"),
    Item("mixed-12-bytes", "bytes of training state per parameter", "bytes"),
    Item("e5m2-largest", "the largest finite number", "a plain number"),
    Item("bf16-gradient-bytes", "bytes of that buffer per parameter", "bytes"),
)

CARD = Card(
    title="Audit: what do fewer bits cost and save?",
    text=f"""Here are eight published statements about numbers in few bits. Recompute each for the case in brackets,
then judge it. You may use the library's formats.

{table(ITEMS)}

{rules("audit_bits", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which number is halfway between zero and the smallest subnormal number? What does the optimizer update?",
        "Write down the bytes of weights, gradients, master copy and two moments. For the largest numbers, write down "
        "the bits: which exponent and fraction are still a number?",
        "Below `0.5` of 2⁻²⁴; `2 / 4`; `(1 + 6/8) * 2**8`; `(2+2+4+4+4) / (4+4+4+4)`; `1 / 2**-11`; `2+2+4+4+4`; `(1 "
        "+ 3/4) * 2**15`; `4`.",
    ),
    answers=("audit_bits",),
)
