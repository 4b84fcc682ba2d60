from collections.abc import Mapping

from course_chapters.ch20.exercises.probes import rows_or_error
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, Rows

AGAINST: Mapping[str, str] = {
    "peers": "the median of the lowest rates of all nodes that are not bad",
    "printed": "`printed`, the rate of the data sheet",
}

CARD = Card(
    title="Good, slow or bad",
    text="""Each node runs a burn-in and reports. Write `preflight(nodes, reports, printed, least)`, which returns a
dictionary that gives every name in the list `nodes` one of the words `"good"`, `"slow"` and `"bad"`.

- `reports` gives the name of a node its report, a dictionary: `"ecc"`, uncorrected memory errors; `"checksum"` of a
  computation that is the same on all nodes; `"rates"`, the measured rates of its adapters; `"hot"`, the share of the
  time in which heat slowed its GPUs.
- A node is **bad** if it has no report, if it has uncorrected errors, if it has no rate, or if its checksum is not the
  one that more than half of the reports have.
- A node that is not bad is **slow** if its lowest rate is less than `least` times {{means}}, or if `hot` is more than
  {{hot:percent}}.
- Raise a `ValueError` that names every node that is more than once in the list and every reporting node that is not in
  it. Raise one, too, if there are reports but no checksum has more than half of them.""",
    **Worth(points=7, minutes=12, difficulty=2, importance=5),
    hints=(
        "Which of these tests needs the other nodes' reports? Do those in a first pass.",
        "`collections.Counter` finds doubles and the most common checksum. A node that computes wrongly may be fast.",
        '`low = min(report["rates"])`; compare with `least * statistics.median(lows)`, or with `least * printed`.',
    ),
    answers=("preflight",),
    allowed="the standard library; the library's functions are switched off.",
    hides=("course_lib.operate.faults.corruption:vote",),
    params={"against": "peers", "means": AGAINST["peers"], "hot": 0.05},
    vary=lambda draw: {"against": "printed", "means": AGAINST["printed"], "hot": draw.randrange(6, 21) / 100},
    structural="against",
    needs=("14", "15"),
    probe=rows_or_error,
    returns=Rows(Anything('a dictionary of "good", "slow" and "bad"')),
)
