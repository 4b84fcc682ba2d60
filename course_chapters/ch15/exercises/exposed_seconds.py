from course_grader.exercises import Card, Worth, pick, rows

COPIES = {
    "neither": 'A `"copy"` between host and device is neither computing nor communication: leave it out',
    "talk": 'A `"copy"` here goes to another GPU through the host: count it as communication',
}


def _copies(name: str) -> dict[str, str]:
    return {"copies": name, "rule": COPIES[name]}


CARD = Card(
    title="Exposed communication",
    text="""Write `step_times(kernels, begin, end)`, which says how long a GPU computed, communicated and idled between
`begin` and `end`. A profiler describes a step as kernels, `(kind, stream, start, end)` in seconds, in **any** order.
Kernels of different streams run side by side: they overlap, nest, touch, and begin and end together; some have no
length. Even if several kernels of one kind run at once, it is still one GPU that computes or communicates. Return
seconds, as a dictionary:

- `"compute"`: at least one `"compute"` kernel was running;
- `"exposed"`: at least one `"communication"` kernel was running, and no `"compute"` kernel;
- `"hidden"`: both;
- `"idle"`: neither.

{{rule}}. A kernel may begin before `begin` or end after `end`: count only its part between them. There may be no kernel
at all. So `compute + exposed + idle` is `end - begin`, and `exposed + hidden` is the time in which the GPU
communicated. Shown: steps by hand, whole and from {{begin}} s to {{end}} s, and recorded ones.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Two all-reduces run at the same time, from 0 s to 2 s and from 1 s to 3 s. For how long does the GPU "
        "communicate? And if it computes from 1 s to 2 s, how much is exposed?",
        "For how long was at least one kernel of these kinds running? Sort by start; count of each only what comes "
        "after all earlier ends. Ask for each kind, and for both.",
        "`reach = begin`; for each `(s, e)` sorted: `s, e = max(s, reach), min(e, end)`; if `e > s`: `total += e - s; "
        "reach = e`. Then exposed = either − compute, hidden = compute + communication − either, idle = end − "
        "begin − either.",
    ),
    answers=("step_times",),
    hides=("course_lib.cluster.intervals:union, length, exposed",),
    params={**_copies("neither"), "begin": 1.5, "end": 5.5},
    vary=lambda draw: {**_copies("talk"), **pick(begin=(1.25, 1.75, 2.5), end=(5.25, 5.75, 6.5))(draw)},
    structural="copies",
    needs=("07",),
    probe=rows,
)
