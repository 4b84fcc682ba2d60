from course_chapters.ch09.exercises.probes import BOTH_PASSES, columns
from course_grader.exercises import Card, Worth

CARD = Card(
    title="How often does the bias count?",
    text="""Repair this row-parallel layer, which more than one serving library had
(*huggingface/text-generation-inference, issue 1036, 2023; Wenyueh/MinivLLM, issue 80, 2026*):

```python
def row_linear(comm, x, weight, bias):
    return sum_out(F.linear(x, weight, bias), comm)
```

`x` (…, in / N) and `weight` (out, in / N) are this rank's columns; every rank has a copy of the whole `bias` (out).
With {{ranks}} ranks the output has an error that a test on one rank does not show.

- **Values:** output and gradients as in one process, on every rank.
- **The bias's gradient is complete on every rank**, because each rank updates its own copy with its own gradient. A
  trainer with the right output had this wrong three years later (*pytorch/torchtitan, pull request 4332, 2026*).
- **Bytes:** one all-reduce of the output, and nothing else.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "What does an all-reduce do to a number that every rank adds before it?",
        "There are three ways to add it once: after the sum, a fraction of it on each rank, or on one rank only. What "
        "is the gradient of each rank's copy in each case?",
        "`sum_out(F.linear(x, weight), comm) + bias`: after the sum all ranks compute the same, so all get the "
        "same gradient.",
    ),
    answers=("row_linear",),
    allowed="every operation of `comm`; torch; `copy_in` and `sum_out` of `course_lib.parallel.tensor`.",
    params={"ranks": 3},
    vary=lambda draw: {"ranks": draw.choice((3, 5))},
    probe=columns,
    returns=BOTH_PASSES,
)
