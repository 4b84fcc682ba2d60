from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, short_table

CAUSES = {
    "as printed": "the statement is right",
    "swapped": "it names two cases in the wrong order",
    "matmuls alone": "it gives a whole step what its matmuls gain",
    "a whole call": "it counts what a call costs once for each of its kernels",
    "decimal point": "it is off by a power of ten, nearly",
    "both directions": "it counts what is read and written as read twice",
}

ITEMS = (
    Item("titan-mfu-compiled", "MFU with torch.compile, in %", "%", 0.01),
    Item("gpt-fast-bandwidth", "bytes read per second, in GB/s", "GB/s", 1e9),
    Item("fp8-doubles", "how much faster the step is, in %", "%", 0.01),
    Item("gpt-fast-four-times", "how many times as fast", "a ratio"),
    Item("liger-speedup", "how many times as fast", "a ratio"),
    Item("liger-tokens", "tokens per second", "tokens/s"),
    Item("inductor-launch", "one more kernel, in µs", "µs", 1e-6),
)

CARD = Card(
    title="Audit: what was printed about compiled steps",
    text=f"""Here are seven published statements about launches, formats and compiled steps. Recompute each for the case
in brackets, then judge it. You may use the library. GB are powers of 1,000.

{short_table(ITEMS)}

{rules("audit_compiled", CAUSES)}""",
    **Worth(points=7, minutes=15, difficulty=3, importance=3),
    **AUDIT,
    hints=(
        "Which numbers of a statement follow from others in it? Which need a data sheet?",
        "MFU is tokens per second times FLOP per token over the peak. Bytes per second are tokens per second times the "
        "bytes that a token reads.",
        "`6667 * (6 * 7.50e9 + 12 * 32 * 4096 * 8192) / 989e12`; `104.9 * 6.61e9 * 2`; "
        "`0.34 / 0.24 - 1`; 2.1 + 1.7 + 3.0.",
    ),
    answers=("audit_compiled",),
)
