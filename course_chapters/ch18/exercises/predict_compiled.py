from course_grader.exercises import PREDICTION, Anything, Card, Worth

RUNS = {  # what was measured -> its two measurements
    "the training of Llama 3.1 8B on 8 H100s, two sequences a GPU": ("titan eager", "titan compiled"),
    "the training of Llama 3.1 8B on 128 H100s, two sequences a GPU": ("titan eager 128", "titan compiled 128"),
    "replies of Llama 2 7B to one user on an A100": ("decode eager", "decode compiled"),
    "rotary positions for 8,192 tokens alone, on a GPU": ("rope eager", "rope compiled"),
}

CARD = Card(
    title="Prediction: what does compiling gain?",
    text="""Before you look anything up, commit to an interval for how many times as fast `torch.compile` made
**{{run}}**, compared with eager mode. Write `gain()`: it returns `(low, high)`, with `high` at most four times `low`.

Which limit did the step meet before, and which one is left afterwards?

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "Does most of the time go to matmuls, to small kernels or to launches?",
        "A step that is mostly matmuls keeps their time. One that waits for launches, or moves each tensor many times, "
        "can become several times as fast.",
        "Large-batch training gains a fraction; launch-bound and purely elementwise work gains a factor of several.",
    ),
    answers=("gain",),
    params={"run": next(iter(RUNS))},
    vary=lambda draw: {"run": draw.choice(list(RUNS)[1:])},
    returns=Anything("a pair of factors"),
)
