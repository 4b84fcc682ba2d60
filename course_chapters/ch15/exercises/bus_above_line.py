from course_grader.exercises import Card, Worth, rows
from course_grader.exercises.audits import causes_text

CAUSES = {
    "bits for bytes": "the printed number is in bit/s",
    "both directions": "sent and received bytes were added up",
    "factor twice": "a bus bandwidth was mistaken for an algorithm bandwidth and multiplied by the factor again",
    "no ring": "no ring ran: a switch, or a tree over two servers, did the sums, so the tensor crosses the wire once",
    "fewer bits sent": "numbers were sent in fewer bits than they have in the tensor",
    "clock did not wait": "the clock stopped before the last byte arrived",
    "several wires": "the line is that of one wire, but several wires share the work",
    "as it says": "no fault: the definition gives the printed number, and no wire carries more than its line",
}

CARD = Card(
    title="Faster than the wire",
    text=f"""Write `explain(report)`, which finds out why a bus bandwidth was reported that no wire can carry, such as
480 GB/s over links of 450 GB/s (*NVIDIA/nccl-tests, pull request 239, July 2024*) or 600 Gbit/s with network cards of
100 Gbit/s (*NVIDIA/nccl, issue 495, April 2021*). A report is a dictionary:

| key | |
|---|---|
| `"collective"` | `"all_reduce"`, `"all_gather"` or `"reduce_scatter"` |
| `"ranks"`, `"nbytes"` | number of ranks; bytes of the whole tensor as the program counts it |
| `"seconds"`, `"waited_seconds"` | by the clock that was printed; by one that waited for the devices (never equal) |
| `"element_bytes"`, `"sent_bytes"` | of a number in the tensor; of the same number on the wire |
| `"sent_once"` | whether the tensor crosses the wire once, instead of around a ring |
| `"wires"` | number of equal wires that share the traffic |
| `"printed"` | what the report calls bus bandwidth, to within 1 % |
| `"line"` | the most that one wire carries in one direction, bytes/s |

Bus bandwidth is defined as the bytes that a rank sends **around a ring**, over the time: for N ranks 2(N − 1)/N of the
tensor in an all-reduce, and (N − 1)/N in the other two.

Return the pair `(cause, rate)`. `rate` is what **one wire really carries in one direction**, in bytes/s, by the clock
that waited. The cause is what makes the printed number more than 10 % larger than that, whether it is above the line
or below; where several causes do, return the one with the largest effect:

{causes_text(CAUSES)}""",
    **Worth(points=5, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Forget the printed number for a moment: how many bytes left a rank, by which clock, over how many wires?",
        "`rate` follows from the other keys alone. For the cause, compare `printed` with what the definition gives "
        "from `nbytes` and `seconds`: a factor of 8, of 2, or of the ring is an error of the report. Otherwise the "
        "definition misleads: by how much does each of the other keys?",
        "`ring = k * (n - 1) / n`; `rule = ring * nbytes / seconds`; `rate = (1 if once else ring) * nbytes * sent / "
        "element / waited / wires`; `printed / rule` near 8, 2, `ring`; else the largest of `ring` (if once), "
        "`element / sent`, `waited / seconds`, `wires`, if it is above 1.1.",
    ),
    answers=("explain",),
    allowed="the standard library and numpy.",
    hides=("course_lib.cluster.collectives:bus_bandwidth",),
    params={"line": 450e9},
    vary=lambda draw: {"line": draw.choice((300e9, 400e9, 900e9))},
    needs=("06",),
    probe=rows,
)
