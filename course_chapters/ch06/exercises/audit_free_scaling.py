from course_grader.exercises import Card, Worth
from course_grader.exercises.audits import AUDIT, Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "latency left out": "only the bytes were counted",
    "missing factor": "a factor on the bytes is missing",
    "divided by N twice": "one rank's bytes are divided by the time of all ranks together",
    "another algorithm's factor": "the conversion factor belongs to an algorithm other than the one that ran",
}


ITEMS = (
    Item("ring-free-scaling", "the time of the latencies alone, on 1,024 ranks at 10 µs per message", "milliseconds"),
    Item("ring-sends-2m", "the bytes that a GPU sends on 64 ranks", "multiples of M"),
    Item("naive-root-bytes", "the bytes through GPU 0 on 64 ranks, in and out together", "multiples of M"),
    Item(
        "all-reduce-log-form",
        "the factor on the bytes term on 64 ranks, for an algorithm that sends as little as possible",
        "a plain factor",
    ),
    Item("gradients-280-gb", "the bytes that a rank sends on 64 ranks", "GB"),
    Item("all-reduce-2.8-s", "the time for those bytes on 64 ranks", "seconds"),
    Item("h200-bus-482", "the bus bandwidth that follows from the printed algorithm bandwidth", "GB/s"),
    Item("h100-480-over-450", "the bytes that really left each GPU per second", "GB/s"),
    Item("reduce-scatter-74", "the bytes that one rank sends per second, from the middle of the range", "GiB/s"),
)


CARD = Card(
    title="Audit: is the ring free?",
    text=f"""Here are nine published statements about all-reduce. Recompute the number behind each, then judge it. M and
S are one rank's whole tensor; where β multiplies S, it is in seconds per byte.

{table(ITEMS)}

{rules("audit_ring", CAUSES)}""",
    **Worth(points=9, minutes=10, difficulty=3, importance=4),
    **AUDIT,
    hints=(
        "Which of these are about bytes, which about time, and which about bytes *per* time? What does each leave out?",
        "A ring sends 2(N − 1) messages of S/N. Bus bandwidth is algorithm bandwidth times 2(N − 1)/N, whatever "
        "algorithm ran; the bytes that left a GPU depend on the algorithm. Start both from tensor over time.",
        "`2 * (N - 1) * 10e-6`; `2 * (N - 1) / N`; algorithm bandwidth `480 / (2 * 7 / 8)`, and if the switch adds, a "
        "GPU sends `(N + 1) / N` of it; the lecture's number times N.",
    ),
    answers=("audit_ring",),
)
