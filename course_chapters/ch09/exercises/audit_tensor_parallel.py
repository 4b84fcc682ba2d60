from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "needs only its part": "a factor of the formula is the whole where a part belongs",
    "another scope": "the bytes of many GPUs together are attributed to one",
    "missing factor": "a factor of the number is left out",
    "reason does not hold": "the numbers contradict the stated reason",
}


ITEMS = (
    Item("tp-row-formula", "the columns of X that meet W₁", "columns"),
    Item("tp-128-gb", "what one GPU sends for one block, forward and backward", "GB"),
    Item("tp-71-s", "the time one GPU's tensor-parallel all-reduces take in a step", "seconds"),
    Item("tp-504-reduces", "the all-reduces of all blocks in a step", "all-reduces"),
    Item("tp-one-layer", "the weights of one layer, all its matrices", "GB"),
    Item("tp-16-heads", "query heads on each GPU", "heads"),
    Item("tp-four-reduces", "all-reduces of a layer, forward and backward", "all-reduces"),
    Item("tp-8bsh", "the factor, from four all-reduces of b·s·h elements", "a plain factor"),
    Item("tp-76-percent", "the rate of one of 512 GPUs over its rate alone", "a plain share"),
)


CARD = Card(
    title="Audit: 71 seconds?",
    text=f"""Here are nine published statements about tensor parallelism. Recompute each for the case in brackets, then
judge it.

{table(ITEMS)}

All-reduces use rings, so a GPU sends 2(t − 1)/t of the tensor, at the bandwidth of its links **one way**; 1 Mi is 2²⁰;
GB are 10⁹ bytes. Shapes are in `facts.model("llama3-405b")`.

{rules("audit_tp", CAUSES)}""",
    **Worth(points=9, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "For each statement about traffic: are these the bytes of one GPU or of all? Of one all-reduce, a block, a "
        "micro-batch, a step?",
        "A tensor-parallel group sees the tokens of one replica only, and a GPU the blocks of its stage only. A "
        "layer's matrices: q and output, k and v with fewer heads, and three of the MLP.",
        "`4 * 2 * 7/8 * (4 * 2**20 / 128) * 16384 * 2`; that times `126 / 16`, over `450e9`; `4 * 126 * 16`; `2 * (2 "
        "* h * h + 2 * h * kv_heads * (h // heads) + 3 * h * ffn)`.",
    ),
    answers=("audit_tp",),
)
