from collections.abc import Mapping

from course_grader.exercises import Card, Number, Params, Random, Rows, Worth

CONVENTIONS: Mapping[str, str] = {
    "all": "idle time as a share of **all** time, until the last rank ends",
    "work": "idle time over **working** time, as the papers on interleaving count it",
}


def _vary_bubble(draw: Random) -> Params:
    return {
        "convention": "work",
        "means": CONVENTIONS["work"],
        "stages": draw.choice((4, 6, 8)),
        "microbatches": draw.choice((16, 24, 32)),
        "most": draw.choice((0.05, 0.2, 0.25)),
    }


CARD = Card(
    title="How much of the time is idle?",
    text="""The number of micro-batches determines the bubble. Write the bubble as a function of that number, and write
the inverse function. GPipe or 1F1B runs `microbatches` micro-batches through stages that all take equally long. The
bubble is {{means}}, summed over all ranks.

- `bubble(stages, microbatches)` returns that fraction, for {{stages}} stages and {{microbatches}} micro-batches and for
  any others.
- `microbatches_for(stages, most)` returns the fewest micro-batches with a bubble of at most `most`, such as
  {{most:percent}}.

Does it matter how long a backward takes, compared with a forward?""",
    **Worth(points=4, minutes=5, difficulty=2, importance=5),
    hints=(
        "How long is one rank busy, counted in micro-batches? How long is it from the first forward to the "
        "last backward?",
        "With p stages and m micro-batches, the first forward to the last backward takes as long as m + p − 1 "
        "micro-batches; a rank works for m of them.",
        "p − 1 of them are idle: divide by the time that the convention names. For the inverse, solve for m, round "
        "**up**, and return 1 at least.",
    ),
    answers=("bubble", "microbatches_for"),
    params={"convention": "all", "means": CONVENTIONS["all"], "stages": 4, "microbatches": 8, "most": 0.1},
    vary=_vary_bubble,
    structural="convention",
    returns=Rows(Number("of 1"), Number("micro-batches", whole=True)),
)
