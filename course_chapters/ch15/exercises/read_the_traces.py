from course_grader.exercises import Card, Maybe, Number, Rows, Word, Worth
from course_grader.exercises.audits import causes_text

TRACE_WORDS = {
    "warm-up again": "from the resumed step on, it has the rates of a new run",
    "one step off": "from some step on, each step has the rate of the previous or of the next step",
    "stepped too often": "the schedule advances several times in each step, as when every process steps it",
    "vanishes": "in every step the norm is less than a thousandth of the limit: updates are rounded away",
    "explodes": "a norm is not finite, or more than a hundred times the first",
    "not zeroed": "gradients of all steps add up: the median of the last five norms is more than ten times the first",
    "bad batch": "one step's norm is more than five times the median, and the run recovers",
    "always clipped": "every norm is above the limit, so the limit, not the gradient, decides the size of each step",
    "sound": "the rates are as planned, and the norms vary normally",
}

CARD = Card(
    title="Read the norms and the rates",
    text=f"""Write two functions that find out from its curves what happened to a training run. A run on three GPUs that
was resumed at step 1,000 continued with the rate of step 333 (*huggingface/diffusers, pull request 8312, 2024*); a
schedule that every process steps runs ahead of its plan (*huggingface/accelerate, issue 2926, 2024*).

A trace is a dictionary of lists with an entry for each step: `"losses"`, `"norms"` (of the gradient, **before**
clipping), `"rates"` (of the optimizer) and `"planned"` (the intended rates); also `"limit"` (norms are clipped to it)
and `"resumed"` (the step in which the run continued from a checkpoint, or `None`). The runs are real; in some of the
hidden ones a number was moved so that the answer is close.

1. `first_wrong(rates, planned)` returns the first step whose rate differs from the planned one by more than one in a
   million, relatively; `None` if there is none.
2. `cause(trace)` returns one word. A wrong rate comes first, because the norms follow from it. After the last step the
   plan stays at its last rate.

Return the first word that applies:

{causes_text(TRACE_WORDS, ordered=True)}""",
    **Worth(points=7, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Suppose that two steps' rates differ from the plan. Which steps of the plan have these rates? What does the "
        "distance tell you?",
        "Ask three questions about the rates from the first wrong one on: is `rates[i]` that of step `i - resumed`, "
        "of `i - 1`, of `i + 1`, everywhere? Then ask about the norms: the largest against the limit, the first and "
        "the median; the last five against the first; the smallest against the limit.",
        "`place = lambda i: i - resumed`; `all(math.isclose(rates[i], planned[min(max(place(i), 0), last)], "
        "rel_tol=1e-6) for i in range(at, last + 1))`. Of norms that are added up, ask "
        "`statistics.median(norms[-5:]) > 10 * norms[0]`; a bad batch is more than five times above the median, once.",
    ),
    answers=("first_wrong", "cause"),
    returns=Rows(Maybe(Number(whole=True)), Word(tuple(TRACE_WORDS))),
    params={"pool": 0},
    vary=lambda draw: {"pool": draw.choice((1, 2))},
)
