from course_chapters.ch15.exercises.probes import run_again
from course_grader.exercises import Card, DictOf, Number, Word, Worth
from course_grader.exercises.audits import causes_text

SMOKE_WORDS = {
    "explodes": "a training loss is not a finite number, or more than twice the first one",
    "not repeatable": "two runs differ in any bit, so you could never reproduce a bug of step 40,000",
    "frozen": "a parameter has not moved",
    "leak": "fresh text is predicted better than possible: its mean loss is below `floor` by more than the noise",
    "memorizes": "fresh text is predicted no better than before, but the last training loss is less than "
    "half the first",
    "learns nothing": "fresh text is predicted no better than before",
    "sound": "none of these",
}

CARD = Card(
    title="Is a falling loss enough?",
    text=f"""Before you rent eight GPUs, a minute on one shows whether the program trains at all. Write
`smoke(run, floor)`.

`run()` trains a small transformer from scratch for forty steps and returns a dictionary:

| key | |
|---|---|
| `"losses"` | mean loss of each training step, nats per token |
| `"before"`, `"after"` | losses of eight batches of **fresh** text, before the first step and after the last |
| `"moved"` | by parameter name: the largest change of any of its numbers |

The text comes from a source with a known entropy: no honest prediction has a loss below `floor` nats per token. The
noise is three standard errors of the difference of the two means: $3\\sqrt{{(s_b^2 + s_a^2)/8}}$, with the sample
variances of the eight losses before and after. "No better" means better by the noise at most.

Return the **first** of these words that applies:

{causes_text(SMOKE_WORDS, ordered=True)}

Each run costs time: two are enough. The programs really ran; in some of the hidden ones a number was moved so that the
answer is close.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the faults leave the training loss falling as it should? What else does each of them change?",
        "Run twice, then ask the questions in the order of the list. `statistics.variance` is that of a sample. NaN "
        "is not even equal to itself, so look for it first.",
        "`first, again = run(), run()`; `first != again` compares all of it; `not all(first['moved'].values())`; "
        "`mean(first['after']) < floor - noise`; `mean(first['before']) - mean(first['after']) <= noise`.",
    ),
    answers=("smoke",),
    returns=DictOf({"word": Word(tuple(SMOKE_WORDS)), "runs": Number(whole=True)}),
    params={"pool": 0},
    vary=lambda draw: {"pool": draw.choice((1, 2))},
    probe=run_again,
)
