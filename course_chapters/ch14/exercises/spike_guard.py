from collections.abc import Mapping

from course_chapters.ch14.exercises.probes import guarded
from course_grader.exercises import Card, ListOf, Word, Worth

RULES: Mapping[str, str] = {
    "ratio": "`factor` times the median of the last `window` accepted losses",
    "deviation": "the median of the last `window` accepted losses plus `factor` times their median absolute "
    "deviation from it",
}

CARD = Card(
    title="Skip it, or roll back?",
    text="""Write the class `SpikeGuard(window, factor, patience)`. For each loss, `see(loss)` returns `"go"`, `"skip"`
or `"rollback"` before the update is made.

- A loss is accepted if the answer is `"go"`. The first `window` finite losses are all accepted.
- From then on a loss is a spike if it is above {{means}}. A loss that is NaN or infinite is always a spike.
- A spike gives `"skip"`. The `patience`-th spike in a row gives `"rollback"` instead, and the count begins again from
  zero.
- Spikes are not accepted, so they do not raise the median. A loss that is no spike sets the count back to zero.
- The guard keeps at most `window` losses, however long the run. With an even `window` the median is the mean of the two
  in the middle.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which two things must the guard remember between calls?",
        "A `collections.deque(maxlen=window)` forgets the oldest loss by itself. Compare first, and append only what "
        "is accepted.",
        "`spike = not math.isfinite(loss) or (len(kept) == window and loss > limit)`; count, and return `'rollback'` "
        "when the count reaches `patience`.",
    ),
    answers=("SpikeGuard",),
    allowed="plain Python, `math`, `statistics`, `collections`; the library's detector is switched off.",
    hides=("course_lib.operate.faults.spikes:alarms", "course_lib.operate.faults.spikes:evaluate"),
    params={"rule": "ratio", "means": RULES["ratio"]},
    vary=lambda draw: {"rule": "deviation", "means": RULES["deviation"]},
    structural="rule",
    probe=guarded,
    returns=ListOf(Word(("go", "skip", "rollback", "grows")), what="loss"),
)
