from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, TupleOf, Worth

TRAINS: Mapping[str, str] = {
    "elsewhere": "The trainer has GPUs of its own: while it trains, these GPUs are idle.",
    "here": "The same GPUs train afterward: while they train, they are not idle.",
}

CARD = Card(
    title="Wait for the longest, or go on with new weights?",
    text="""Each of several GPUs generates one rollout, all from the same moment. `lengths` lists how many tokens each
will have, and a GPU generates `speed` tokens per second. Write two functions:

- `idle_share(lengths, speed, train)`: the share of the GPUs' time that is idle in a step in which all wait for the
  longest rollout and training then takes `train` seconds. {{means}}
- `partial_step(lengths, speed, batch)`: now generation stops as soon as `batch` rollouts are complete. Return the
  seconds until then, and the tokens in the unfinished rollouts, which go on later with new weights. Of rollouts that
  end at the same moment, all are complete. `batch` is at most the number of rollouts.

Without a rollout no GPU waits: for an empty list return 0, and (0, 0).""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    hints=(
        "How long is each GPU busy, and how long does the step take?",
        "Idle is one minus the busy seconds of all GPUs divided by their number times the step's seconds.",
        "`sorted(lengths)[batch - 1]` is the length at which generation stops; every longer rollout has that many "
        "tokens then.",
    ),
    answers=("idle_share", "partial_step"),
    allowed="plain Python; the library's simulator is switched off.",
    hides=("course_chapters.ch19.long_tail:simulate_tail",),
    params={"trains": "elsewhere", "means": TRAINS["elsewhere"]},
    vary=lambda draw: {"trains": "here", "means": TRAINS["here"]},
    structural="trains",
    returns=Rows(
        Number("a fraction of one"), TupleOf({"seconds": Number("seconds"), "tokens": Number("tokens", whole=True)})
    ),
)
