"""The audit of chapter 06: what was printed about rings, their price and their bandwidths, some of it right."""

from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.audits import Item, rules, table

CAUSES = {
    "as printed": "the statement is right",
    "latency left out": "only the bytes were counted",
    "missing factor": "a factor on the bytes is missing",
    "divided by N twice": "one rank's bytes are divided by the time of all ranks together",
    "another algorithm's factor": "the conversion belongs to an algorithm that was not the one that ran",
}


ITEMS = (
    Item("ring-free-scaling", "the time that latencies alone take at 1,024 ranks and 10 µs a message", "milliseconds"),
    Item("ring-sends-2m", "what a GPU sends on 64 ranks", "multiples of M"),
    Item("naive-root-bytes", "what passes through GPU 0 on 64 ranks, in and out", "multiples of M"),
    Item(
        "all-reduce-log-form",
        "the factor before β·S on 64 ranks, for an algorithm that sends as little as can be",
        "a plain factor",
    ),
    Item("gradients-280-gb", "what a rank sends on 64 ranks", "GB"),
    Item("all-reduce-2.8-s", "the time for those bytes on 64 ranks", "seconds"),
    Item("h200-bus-482", "the bus bandwidth that follows from the algorithm bandwidth", "GB/s"),
    Item("h100-480-over-450", "what really left each GPU in a second", "GB/s"),
    Item("reduce-scatter-74", "what one rank sends in a second, from the middle of the printed range", "GiB/s"),
)


AUDIT_FREE_SCALING = Card(
    id="audit-free-scaling",
    chapter="06",
    title="Audit: is the ring free?",
    text=f"""Nine statements about all-reduce, quoted; M and S are one rank's whole tensor. Recompute each, then judge it.

{table(ITEMS)}

{rules("audit_ring", CAUSES)}""",
    **Worth(points=9, minutes=10, difficulty=3, importance=4),
    kind="more",
    form="audit",
    hints=(
        "Which of these speak of bytes, which of time, and which of bytes *over* time? What has each left out?",
        "A ring: 2(N − 1) messages of S/N. Bus bandwidth is algorithm bandwidth times 2(N − 1)/N, whatever ran; what left a "
        "GPU depends on what ran. Start both from tensor over time.",
        "`2 * (N - 1) * 10e-6`; `2 * (N - 1) / N`; algorithm bandwidth `480 / (2 * 7 / 8)`, and with sums in the switch a GPU "
        "sends `(N + 1) / N` of it; the lecture's number times N.",
    ),
    answers=("audit_ring",),
    allowed="everything, the library too: the judgement is what counts.",
)

AUDITS: tuple[Any, ...] = (AUDIT_FREE_SCALING,)
