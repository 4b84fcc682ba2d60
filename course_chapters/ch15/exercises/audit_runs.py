from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another chip's peak": "the rate was divided by the peak of another device",
    "sparse peak": "the peak is that of 2:4-sparse matrices, which the run did not use",
    "recomputation counted": "the rate includes recomputed work, which a model needs only once",
    "not what its own rows say": "the number does not follow from the counts printed next to it",
    "counts what is not asked": "the number includes something that the sentence does not name",
}

PERCENT = 0.01
ITEMS = (
    Item("nanogpt-104-mfu", "its MFU", "%", PERCENT),
    Item("fms-24-mfu", "its MFU", "%", PERCENT),
    Item("megatron-52-of-peak", "its MFU", "%", PERCENT),
    Item("llama3-41-mfu", "its MFU", "%", PERCENT),
    Item("palm-46-mfu", "its MFU", "%", PERCENT),
    Item("llama-21-days", "how long the run takes", "days"),
    Item("llama3-faulty-gpus", "the share of faulty GPUs", "%", PERCENT),
    Item("llama2-gpu-hours", "GPU-hours of the models named", "million hours", 1e6),
    Item("deepseek-dollars", "the price", "million dollars", 1e6),
)
_TABLE = table(ITEMS).replace("$", "\\$")  # dollars, no formula

CARD = Card(
    title="Audit: would these numbers pass your gates?",
    text=f"""Here are nine statements about real runs. Recompute each from the numbers in brackets and from data sheets
(`facts.device(name).dense_flops`), then judge it.

{_TABLE}

{rules("audit_runs", CAUSES)}""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    **AUDIT,
    hints=(
        "Write each printed percentage as a fraction. What is the denominator, and is it the dense peak of this "
        "device for these numbers?",
        "MFU is model FLOP/s over the dense peak of the device that ran. A forward pass is a third of a step's work. "
        "Shares and sums follow from the counts in the brackets.",
        "`104 * 312 / 989`; `9600 * 0.05e12 / 989e12`; `163 * 3/4 / 312`; `400 / 989`; `238300 * 6 * 540.35e9 / (6144 "
        "* 275e12)`; `1.4e12 / (380 * 2048) / 86400`; `148 / 419`; add three rows; `2.788 * 2`.",
    ),
    answers=("audit_runs",),
)
