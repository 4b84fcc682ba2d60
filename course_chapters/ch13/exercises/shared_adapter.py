from collections.abc import Mapping

from course_grader.exercises import Card, ListOf, Number, Rows, Worth

SHARING: Mapping[str, str] = {
    "fair": "All transfers that are under way share the bandwidth **equally** at every moment",
    "in turn": "The adapter serves one transfer at a time, **in the order of their starts**; of equal starts, the "
    "earlier one in the list first",
}

CARD = Card(
    title="Two groups share an adapter",
    text="""Two axes of a mesh often send over one network adapter at the same time. Write
`finish_times(transfers, bandwidth)`, which returns the second at which each transfer ends, as a list in the order of
`transfers`.

- `transfers` is a list of pairs (start in seconds, bytes), in any order. `bandwidth` is in bytes per second.
- {{means}}. If nothing is under way, the adapter is idle.
- A transfer of 0 bytes ends when it would begin to be served; with equal shares, that is its start.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "At which moments does a transfer's rate change?",
        "Rates change only when a transfer starts or ends. Go from one such moment to the next, and keep the bytes "
        "that each transfer still has to send.",
        "With equal shares and n under way, the next moment is the next start or `now + min(left) * n / bandwidth`, "
        "whichever comes first.",
    ),
    answers=("finish_times",),
    allowed="plain Python; the library's own is switched off.",
    hides=("course_lib.parallel.mesh.cost:finish_times",),
    params={"sharing": "fair", "means": SHARING["fair"]},
    vary=lambda draw: {"sharing": "in turn", "means": SHARING["in turn"]},
    structural="sharing",
    needs=("06",),
    returns=Rows(ListOf(Number("seconds"), what="transfer")),
)
