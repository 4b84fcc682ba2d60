from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another whole": "it is a fraction of something other than what the statement names",
    "another recipe": "the saving belongs to another method",
    "one copy anyway": "a sum takes the same memory, however many terms are added to it",
    "more in flight": "each rank holds less of the model, for more micro-batches at once",
    "layers left over": "some layers are on no GPU",
    "another convention": "it is right if idle time is divided by another time",
}


ITEMS = (
    Item("bubble-4-8", "that share", "a fraction of 1"),
    Item("recompute-forwards", "the additional forward passes over those without recomputation", "a fraction of 1"),
    Item("pipeline-activations", "the peak activations of the first stage over those of the one GPU", "a plain factor"),
    Item("interleaved-bubble", "idle time over working time of that schedule", "a fraction of 1"),
    Item(
        "accumulation-gradients",
        "the bytes of gradients that a rank holds, over those with a single micro-batch",
        "a plain factor",
    ),
    Item("interleaved-layers", "the layers that the GPU holds by the second recipe", "layers"),
    Item("bubble-16-64", "that share", "a fraction of 1"),
    Item("recompute-sqrt-stage", "the layer inputs kept there at once, each of one micro-batch", "layer inputs"),
)


CARD = Card(
    title="Audit: what does a pipeline save?",
    text=f"""Here are eight published statements about pipelines. Recompute each for the case in brackets, then judge
it. You may use the library's schedules, `play` and `peak_activations` to count.

{table(ITEMS)}

{rules("audit_pp", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "How many micro-batches has the first stage of 1F1B received before its first gradient comes back?",
        "A backward takes as long as two forwards: what share of all the work is a repeated forward, and what share "
        "of the forwards? How much are sixteen micro-batches of a sixteenth of the layers each? A gradient buffer has "
        "the shape of the weights.",
        "`(p - 1) / (m + p - 1)`; `1.0` forward more per forward; `peak_activations(one_f_one_b(16, 64))[0] / 16`; "
        "`play(interleaved(8, 32)).bubble_over_ideal`; layers 1–5 and 21–25 are two times five; 16 micro-batches × "
        "80/16 layers.",
    ),
    answers=("audit_pp",),
)
