from course_grader.exercises import Card, Number, Rows, Worth
from course_grader.exercises.snippets import CLOSE

CARD = Card(
    title="What is left of a layer's activations?",
    text=f"""Write `bytes_per_rank(tokens, hidden, tp, cp, sequence_parallel)`: the bytes of activations that one rank
keeps of one layer. The function shows what each form of parallelism divides.

- With 16-bit numbers, dropout and fused attention, a layer keeps 34 · tokens · hidden bytes: 24 of the 34 inside
  attention and the MLP, 10 in the norms, the dropouts, and the inputs of the two blocks.
- `tp` ranks of tensor parallelism divide the 24 alone. With `sequence_parallel` (True or False) the same `tp` ranks
  divide the 10 as well.
- `cp` ranks of context parallelism divide the tokens of everything.

{CLOSE} For example, {{{{tokens:int}}}} tokens with hidden {{{{hidden:int}}}}.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which tensors are the same on every rank of a tensor-parallel group without sequence parallelism?",
        "Sequence parallelism adds no ranks. Context parallelism has ranks of its own.",
        "`tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp)`.",
    ),
    answers=("bytes_per_rank",),
    allowed="everything; the library's function is switched off.",
    hides=("course_lib.estimate.memory:layer_bytes", "course_lib.estimate.memory:activation_bytes"),
    params={"tokens": 8192, "hidden": 8192},
    vary=lambda draw: {"tokens": draw.choice((4096, 16384, 32768)), "hidden": draw.choice((4096, 5120, 12288))},
    needs=("02", "09"),
    returns=Rows(Number("bytes")),
)
