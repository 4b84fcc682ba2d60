"""The audit of chapter 10: what was printed about bubbles, recomputing and what a pipeline saves, some of it right."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.audits import Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "another whole": "it is a share of something else than what was named",
    "another recipe": "the saving belongs to another way of doing it",
    "one copy anyway": "what is added up takes the same room, however often something is added",
    "more in flight": "each rank holds less of the model, for more micro-batches at once",
    "layers left over": "some of the model is on no GPU",
    "another convention": "it is right for idle time over another time",
}


ITEMS = (
    Item("bubble-4-8", "that share", "a fraction of 1"),
    Item("recompute-forwards", "the forward passes done more, over those done without recomputing", "a fraction of 1"),
    Item("pipeline-activations", "the first stage's activations at its fullest, over the one GPU's", "a plain factor"),
    Item("interleaved-bubble", "idle time over working time of that schedule", "a fraction of 1"),
    Item(
        "accumulation-gradients",
        "the bytes of gradients that a rank holds, over those with a single micro-batch",
        "a plain factor",
    ),
    Item("interleaved-layers", "the layers that the GPU holds by the second recipe", "layers"),
    Item("bubble-16-64", "that share", "a fraction of 1"),
    Item(
        "recompute-sqrt-stage", "the layer inputs that are kept there at once, each of one micro-batch", "layer inputs"
    ),
)


AUDIT_PIPELINE = Card(
    id="audit-pipeline",
    chapter="10",
    title="Audit: what does a pipeline save?",
    text=f"""Here are eight published statements about pipelines. Recompute each for the case in brackets, then judge it. You may use
the library's schedules, `play` and `peak_activations` to count.

{table(ITEMS)}

{rules("audit_pp", CAUSES)}""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="audit",
    hints=(
        "How many micro-batches has the first stage of 1F1B received before its first gradient comes back?",
        "A backward takes as long as two forwards: what share of all the work is a repeated forward, and what share of the forwards? How much "
        "are sixteen micro-batches of a sixteenth of the layers each? A gradient buffer has the shape of the weights.",
        "`(p - 1) / (m + p - 1)`; `1.0` forward more per forward; `peak_activations(one_f_one_b(16, 64))[0] / 16`; "
        "`play(interleaved(8, 32)).bubble_over_ideal`; layers 1–5 and 21–25 are two times five; 16 micro-batches × 80/16 layers.",
    ),
    answers=("audit_pp",),
    allowed="everything, the library too: the judgement is what counts.",
)

AUDITS = (AUDIT_PIPELINE,)
