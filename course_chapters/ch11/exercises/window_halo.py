from course_chapters.ch11.exercises.probes import halo
from course_grader.exercises import Card, PerRank, Tensor, TupleOf, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="A sliding window needs only neighbors",
    text="""Write `window_keys(comm, k, v, lengths, window)`, which fetches the keys and values that this rank's queries
see through a sliding window. With a window, the whole ring is not needed: most ranks never see each other's keys.

- Ranks hold contiguous parts of the sequence, in order; `lengths` lists their tokens. `k` and `v` have shape (KV heads,
  this rank's tokens, width).
- The query at position p sees the keys at positions p − window + 1 to p, as far as they exist; `window` is at least 1.
- Return `(keys, values)` in the order of the sequence: from the first key that this rank's first query sees, to this
  rank's last token. A rank without tokens returns tensors without tokens.
- The window may reach across several ranks. Change no argument.

Budget: each rank sends every other rank exactly the keys and values that it needs, once, and no message to a rank that
needs none.""",
    **Worth(points=8, minutes=20, difficulty=3, importance=3),
    kind="more",
    hints=(
        "From your own start and the window: which positions do you need? Who has them?",
        "All ranks know `lengths`, so each can compute what every other one needs, and no request is sent.",
        "`starts = [0, *itertools.accumulate(lengths)]`; rank r needs positions `max(0, starts[r] - window + 1)` to "
        "`starts[r]`, if it has tokens; rank s sends the overlap with its own range. Start all `isend`s and `irecv`s, "
        "then wait, then concatenate.",
    ),
    answers=("window_keys",),
    allowed=f"torch and {ALLOWED} The library's function is switched off.",
    hides=("course_lib.parallel.context.visible_blocks:needed_keys",),
    params={"window": 6},
    vary=lambda draw: {"window": draw.choice((4, 5, 7))},
    needs=("06",),
    probe=halo,
    returns=PerRank(TupleOf({"k": Tensor(), "v": Tensor()})),
)
