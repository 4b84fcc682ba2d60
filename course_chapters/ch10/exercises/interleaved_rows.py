from course_chapters.ch10.exercises.probes import rows_or_refusal
from course_chapters.ch10.exercises.shared import GENERATORS, ROWS
from course_grader.exercises import Card, Worth

CARD = Card(
    title="Several chunks per rank",
    text=f"""Write `interleaved_rows(ranks, microbatches, chunks)`, the schedule of interleaved 1F1B. {ROWS} Now each
rank holds `chunks` stages, two or more: stage s is on rank s mod `ranks`, and there are `ranks` · `chunks` stages in
all. A stage takes 1/`chunks` of the time that all the stages of a rank take.

- **Time.** Let forward and backward be the times of all the stages of a rank together. The schedule takes at most
  microbatches · (forward + backward) + (ranks − 1) · (forward + backward) / chunks: the bubble is 1/chunks of 1F1B's.
- **Memory.** Rank r holds activations of at most 2·(ranks − 1 − r) + (chunks − 1)·ranks + 1 chunks at once.
- **Refusal.** Micro-batches run in rounds of `ranks`. If they do not form whole rounds, raise a ValueError that says
  which numbers fit.""",
    **Worth(points=10, minutes=20, difficulty=5, importance=4),
    kind="more",
    hints=(
        "What can rank 0 do while micro-batch 0 passes the first stages of all ranks, and when it comes back for the "
        "second chunk?",
        "The k-th forward of a rank belongs to chunk (k // ranks) mod chunks: a round of micro-batches on the first "
        "chunk, then the same ones on the next. Backwards count the chunks from the other end. Forwards and backwards "
        "alternate after a longer warm-up.",
        "Forward k: chunk `k // ranks % chunks`, micro-batch `k // (ranks * chunks) * ranks + k % ranks`. Warm-up of "
        "rank r: `2 * (ranks - 1 - r) + (chunks - 1) * ranks` forwards, all of them at most; then one forward, "
        "one backward.",
    ),
    answers=("interleaved_rows",),
    allowed="plain Python; the library's generators are switched off.",
    hides=GENERATORS,
    params={"ranks": 4, "microbatches": 8, "chunks": 2},
    vary=lambda draw: dict(
        zip(("ranks", "microbatches", "chunks"), draw.choice(((3, 9, 2), (2, 8, 3), (4, 12, 2))), strict=True)
    ),
    probe=rows_or_refusal,
)
