from course_chapters.ch10.exercises.shared import ROWS
from course_grader.exercises import Card, Word, Worth
from course_grader.exercises.audits import causes_text

CHECKS = (
    "course_lib.parallel.schedules:faults",
    "course_lib.parallel.schedules:validate",
    "course_lib.parallel.schedules:least_buffering",
    "course_lib.parallel.timeline:play",
    "course_lib.parallel.timeline:messages",
)

COMPLAINTS = {
    "empty": "there is no operation at all",
    "wrong rank": "an operation is in the row of a rank that does not hold its stage",
    "duplicate": "an operation occurs twice",
    "missing": "a stage lacks a forward or backward, or has one of a micro-batch outside 0 … `microbatches` − 1",
    "order": "on some rank a backward comes before its own forward",
    "deadlock": "every row is in order, but the ranks wait for each other's results in a cycle",
    "memory": "it runs, but some rank holds more than `limit` micro-batches between forward and backward at once",
}

CARD = Card(
    title="What is wrong with it?",
    text=f"""Write `complaint(rows, microbatches, limit)`, which says what is wrong with a schedule. An autograder that
compared a learner's schedule with the right one, entry by entry, passed an empty list.

{ROWS} Stage s is on rank s, so there are as many stages as rows. Return `"ok"`, or the first of these that is true:

{causes_text(COMPLAINTS)}

`limit` is a number of micro-batches, or `None` for any number. Messages are buffered: a rank waits for the results that
it needs, but never for a receiver. Rows may differ from every known schedule and still be fine.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Most of these words need one look at each row. Which one cannot be seen in any single row?",
        "Count each operation, and compare with what must be there. For the cycle, run the rows: keep a position for "
        "each rank, and move on any rank whose next operation has what it needs, until nothing moves.",
        "`F` on stage s needs `('F', s-1, m)` (s > 0); `B` needs `('F', s, m)` and `('B', s+1, m)` (s < last). For "
        "each rank, mark its next operation done while that is ready. Stop when a whole round moves nothing; it is a "
        "deadlock if a rank is not at its end.",
    ),
    answers=("complaint",),
    allowed="plain Python; the library's validator and its timeline are switched off.",
    hides=CHECKS,
    params={"stages": 3, "microbatches": 4},
    returns=Word(("ok", *COMPLAINTS)),
    vary=lambda draw: {"stages": draw.choice((3, 4)), "microbatches": draw.choice((4, 5, 6))},
)
