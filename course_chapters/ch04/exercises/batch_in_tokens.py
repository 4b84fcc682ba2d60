from course_grader.exercises import Card, Maybe, Number, Params, Random, Rows, Worth


def _vary_batch(draw: Random) -> Params:
    sizes = {"sequences": draw.choice((1, 2, 4)), "accumulated": draw.choice((4, 8)), "ranks": draw.choice((16, 32))}
    return {**sizes, "length": draw.choice((2048, 4096)), "batch": draw.choice((2**21, 2**22))}


CARD = Card(
    title="How many tokens is one step?",
    text="""Write the batch of one optimizer step in tokens, and invert the formula. You need both whenever the number
of GPUs changes and the optimizer must not notice.

- `tokens_per_step(sequences, accumulated, ranks, length)`: each of `ranks` data-parallel ranks accumulates
  `accumulated` micro-batches of `sequences` sequences, each `length` tokens long. Return the number of tokens in one
  step.
- `accumulation(batch, sequences, ranks, length)`: return the number of micro-batches that each rank must accumulate so
  that one step has **exactly** `batch` tokens. Return `None` if no whole number gives exactly that.

Shown: {{sequences}} sequences of {{length:int}} tokens, {{accumulated}} micro-batches, {{ranks}} ranks; then a batch of
{{batch:int}} tokens. Counts must be exact.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "How many tokens does one rank process before it may step? How many do all ranks process together?",
        "The batch is a product of four numbers. One micro-batch on all ranks is a product of three.",
        "`each = sequences * ranks * length`; the answer is `batch // each` where `batch % each == 0`, else `None`. "
        "Zero micro-batches are no step.",
    ),
    answers=("tokens_per_step", "accumulation"),
    hides=("course_lib.model.optimizer.batches:effective_batch, accumulation_steps",),
    params={"sequences": 2, "accumulated": 8, "ranks": 64, "length": 8192, "batch": 2**22},
    vary=_vary_batch,
    returns=Rows(Number("tokens", whole=True), Maybe(Number("micro-batches"))),
)
