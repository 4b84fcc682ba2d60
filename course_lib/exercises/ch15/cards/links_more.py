"""Further exercises of chapter 15 on rates: a bus faster than its line, and what a job's scaling says about it."""

from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch15.cards import words_of
from course_lib.exercises.probes import rows

CAUSES: Mapping[str, str] = {
    "bits for bytes": "the printed number is in bit/s",
    "both directions": "what was sent and what was received were added up",
    "factor twice": "a bus bandwidth was taken for an algorithm's, and the factor put to it once more",
    "no ring": "nothing went round a ring: a switch added up, or a tree over two servers, so that what crosses the wire is the tensor once",
    "fewer bits sent": "numbers were sent in fewer bits than the tensor has",
    "clock did not wait": "the clock stopped before the last byte had come",
    "several wires": "the line is that of one wire, and several share the work",
    "as it says": "nothing is wrong: printed is what the definition gives, and no wire carries more than its line",
}


BUS_ABOVE_LINE = Card(
    id="bus-above-line",
    chapter="15",
    title="Faster than the wire",
    text=f"""125 Gbit/s of bus bandwidth over a network of 100 (*NVIDIA/nccl-tests, issue 22, June 2019*; the same in *issue 196, February 2024*);
480 GB/s over links of 450 (*pull request 239, July 2024*); 600 Gbit/s with cards of 100 (*NVIDIA/nccl, issue 495, April 2021*). No wire was
faster than its line in any of them. A report is a dictionary:

| key | |
|---|---|
| `"collective"` | `"all_reduce"`, `"all_gather"` or `"reduce_scatter"` |
| `"ranks"`, `"nbytes"` | how many; bytes of the whole tensor as the program counts it |
| `"seconds"`, `"waited_seconds"` | by the clock that the number was printed from; by one that waited for the devices (never quite the same) |
| `"element_bytes"`, `"sent_bytes"` | of a number in the tensor; of the same number under way |
| `"sent_once"` | whether the tensor crosses the wire once, instead of round a ring |
| `"wires"` | equal wires over which this goes |
| `"printed"` | what the report calls bus bandwidth |
| `"line"` | what one wire carries at most in one direction, bytes/s |

Bus bandwidth is defined as what a rank sends **round a ring**, over the time: for N ranks 2(N − 1)/N of the tensor in an all-reduce,
(N − 1)/N in the other two.

Write `explain(report)`: the pair `(cause, rate)`. `rate` is what **one wire really carries in one direction**, in bytes/s, by the clock that
waited. The cause is what makes the printed number larger than that, above the line or below it; where several things do, the one that does the most:

{words_of(CAUSES)}""",
    **Worth(points=5, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Forget the printed number for a moment: how many bytes left a rank, by which clock, over how many wires?",
        "`rate` follows from the other keys alone. For the cause, compare `printed` with what the definition gives from `nbytes` and `seconds`: 8, 2 "
        "or the ring's factor too much is an error of whoever printed it. Otherwise the definition is what misleads: by how much does each of "
        "the other keys?",
        "`ring = k * (n - 1) / n`; `rule = ring * nbytes / seconds`; `rate = (1 if once else ring) * nbytes * sent / element / waited / wires`; "
        "`printed / rule` near 8, 2, `ring`; else the largest of `ring` (if once), `element / sent`, `waited / seconds`, `wires`, if it is above 1.1.",
    ),
    answers=("explain",),
    allowed="the standard library and numpy.",
    hides=("collectives:bus_bandwidth",),
    params={"line": 450e9},
    vary=lambda draw: {"line": draw.choice((300e9, 400e9, 900e9))},
    needs=("06",),
    probe=rows,
)

GROWTH: Mapping[str, tuple[str, str]] = {
    "doublings": (
        "every **doubling** of the GPUs adds the same seconds to a step: seconds = first + growth · log₂(N / fewest)",
        "seconds a doubling adds",
    ),
    "servers": (
        "every **server** of eight GPUs adds the same seconds to a step: seconds = first + growth · (N − fewest) / 8",
        "seconds a server adds",
    ),
}


def _growth(name: str) -> dict[str, Any]:
    law, words = GROWTH[name]
    return {"growth": name, "law": law, "grows": words}


SCALING_FIT = Card(
    id="scaling-fit",
    chapter="15",
    title="What does scaling cost here?",
    text="""A curve of speed over GPUs asks to be called linear. Two numbers say more, and a third says how far to believe them. Rows are
measurements of one job, in no order: `{"ranks": 64, "batch_tokens": 1048576, "tokens_per_s": 31112.0}`, tokens of all ranks in a step, and
tokens/s of **one** GPU.

- **strong**: the batch is the same in all rows. Part of a step shrinks as GPUs are added, part stays: seconds = fixed + work / N.
- **weak**: the batch of each **GPU** is the same in all rows. Then {{law}}.
- **mixed**: neither, and nothing can be read off: the rows are not of one experiment.

`fit_scaling(rows)` returns `("strong", fixed, work, worst)`, `("weak", first, growth, worst)` with {{grows}}, or `("mixed",)`. Fit **seconds of a
step**, by least squares of relative errors, (fit / measured − 1)²; `worst` is the largest |fit / measured − 1| of all rows. Every
number counts within 1 %.

`efficiency(rows, ranks)`: tokens/s of one GPU among so many, over those of one GPU among the fewest measured, both by the fit; `ranks` need
not be among the rows. `None` for mixed rows.

Shown: two published series of this course's facts, one strong (1.34 billion parameters, data parallel) and one weak (6.66 billion, FSDP).""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "How many seconds does a step take, from these three numbers? And which of the batch's two numbers stays: that of all, or that of each?",
        "seconds = batch / N / (tokens/s of one GPU). Both models are a constant and a constant times a known column: 1/N, or how far N has "
        "grown. Divide each equation by its own seconds before least squares.",
        "`t = batch / n / rate`; `x = 1 / n` or the law's; `A = np.stack([1 / t, x / t], 1)`; `c, *_ = np.linalg.lstsq(A, np.ones(len(t)))`; "
        "`abs(A @ c - 1).max()`. Efficiency: strong `T(fewest) * fewest / (T(N) * N)`, weak `T(fewest) / T(N)`.",
    ),
    answers=("fit_scaling", "efficiency"),
    allowed='the standard library and numpy; `params("scaling-fit").growth` is the name of the weak law.',
    params=_growth("doublings"),
    vary=lambda draw: _growth("servers"),
    structural="growth",
    needs=("07",),
    probe=rows,
)
