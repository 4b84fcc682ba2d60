from course_grader.exercises import Card, Number, Params, Random, TupleOf, Worth
from course_lib.estimate.units import GB, US

LINE = TupleOf({"latency": Number("seconds"), "bandwidth": Number("bytes a second")})


def _vary_fit(draw: Random) -> Params:
    slow, fast = draw.choice((4, 6, 8)), draw.choice((20, 30, 40))
    return {"alphas": (slow * US, fast * US), "bandwidths": (draw.choice((3, 5)) * GB, draw.choice((40, 60, 80)) * GB)}


CARD = Card(
    title="Two lines in one measurement",
    text="""Fit two lines to one measurement. A library has two protocols, and uses whichever is faster: one with little
latency that copies a lot, for small messages, and one with more latency and a higher rate, for large ones. So seconds ≈
latency + bytes / bandwidth, with one pair of constants below some size and another pair above it.

- `fit(sizes, seconds)` gets two lists: sizes in ascending order from 1 kB to 1 GB, and times that are uncertain by
  about one percent.
- It returns `(switch, (latency, bandwidth), (latency, bandwidth))`: the size in bytes at which the second protocol
  takes over, then the constants of the first and of the second, in seconds and bytes/s.
- Each line must predict new times in its own range within 6 %.
- The switch must be within a factor of 2.5 of the size at which the lines cross.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=4),
    kind="more",
    hints=(
        "The largest time is a million times the smallest. Which points determine a least-squares fit of seconds, and "
        "what do they reveal about a latency of microseconds?",
        "The uncertainty is a percentage of each value, so minimize *relative* errors: divide each equation by its "
        "time. Then try every place to cut the list in two, fit both parts, and keep the cut with the smallest error.",
        "One line: `A = np.stack([1 / t, n / t], 1)`; `(alpha, per_byte), *_ = np.linalg.lstsq(A, np.ones(len(t)))`; "
        "error `((A @ [alpha, per_byte] - 1) ** 2).sum()`; bandwidth `1 / per_byte`. Cut at every i that leaves at "
        "least three points on each side.",
    ),
    answers=("fit",),
    allowed="the standard library and numpy.",
    params={"alphas": (5 * US, 40 * US), "bandwidths": (4 * GB, 80 * GB)},
    vary=_vary_fit,
    returns=TupleOf({"switch": Number("bytes"), "small": LINE, "large": LINE}),
)
