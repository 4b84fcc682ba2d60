from collections.abc import Mapping

from course_grader.exercises import Card, Maybe, Number, Rows, Worth

RUNS = (  # gpus, tp, cp, pp, sequences, length, micro
    (8_192, 8, 4, 16, 512, 32_768, 2),
    (16_384, 8, 16, 16, 128, 131_072, 1),
    (6_144, 8, 8, 8, 192, 65_536, 2),
    (4_096, 4, 8, 16, 64, 131_072, 1),
    (8_192, 8, 2, 8, 1024, 16_384, 1),
    (2_048, 4, 2, 4, 512, 16_384, 2),
    (12_288, 8, 4, 12, 384, 32_768, 1),
    (1_536, 4, 6, 4, 96, 98_304, 2),
)


def _run(row: tuple[int, ...]) -> Mapping[str, object]:
    names = ("gpus", "tp", "cp", "pp", "sequences", "length", "micro")
    return dict(zip(names, row, strict=True))


CARD = Card(
    title="How many micro-batches does a mesh need?",
    text="""A step trains on a fixed number of sequences, whatever mesh runs it. Find out how that batch is divided on a
mesh with the axes dp, pp, cp and tp. Write two functions:

- `micro_batches(gpus, tp, cp, pp, sequences, micro)` returns how many micro-batches of `micro` sequences **each
  data-parallel replica** processes one after another in a step of `sequences` sequences. dp is what the other axes
  leave of `gpus`. Return `None` where the GPUs or the sequences cannot be divided into whole replicas and whole
  micro-batches.
- `tokens_held(micro, length, cp)` returns how many tokens of such a micro-batch one rank holds, with sequences of
  `length` tokens. Return `None` where cp does not divide the length.

Example: {{gpus}} GPUs with tp = {{tp}}, cp = {{cp}}, pp = {{pp}}, {{sequences}} sequences of {{length}} tokens and
micro-batches of {{micro}}.""",
    **Worth(points=4, minutes=5, difficulty=2, importance=5),
    hints=(
        "Which axes cut the model or the sequence, and which axis alone sees other sequences?",
        "dp = gpus / (tp · cp · pp). A replica gets sequences / dp of the batch. The cp ranks of a replica share the "
        "same sequences.",
        "`model = tp * cp * pp`; `None` if `gpus % model`; `dp = gpus // model`; `None` if `sequences % (dp * "
        "micro)`; else the quotient.",
    ),
    answers=("micro_batches", "tokens_held"),
    allowed="plain Python.",
    params=_run(RUNS[0]),
    vary=lambda draw: _run(draw.choice(RUNS[1:])),
    needs=("04", "10"),
    returns=Rows(Maybe(Number("micro-batches", whole=True)), Maybe(Number("tokens", whole=True))),
)
