from course_grader.exercises import Anything, Card, Number, Params, Random, Rows, TupleOf, Worth
from course_grader.exercises.snippets import CLOSE
from course_lib.estimate.units import GB


def points(
    draw: Random, alpha: float, bandwidth: float, count: int = 24, noise: float = 0.03
) -> tuple[list[float], list[float]]:
    """Sizes in bytes over six decades, and times of messages with a relative error, in no order."""
    sizes = [float(round(8 * 10 ** (index * 7.6 / (count - 1)))) for index in range(count)]
    draw.shuffle(sizes)
    return sizes, [(alpha + size / bandwidth) * (1 + draw.uniform(-noise, noise)) for size in sizes]


def _alpha_params(draw: Random, small: tuple[float, float], large: tuple[float, float]) -> dict[str, object]:
    sizes, seconds = points(draw, *small)
    ways = {"small": small, "large": large}
    words = {f"{name}_words": f"α = {alpha * 1e6:g} µs, {beta / GB:g} GB/s" for name, (alpha, beta) in ways.items()}
    return {"sizes": sizes, "seconds": seconds, "small": list(small), "large": list(large), **words}


def _alpha_variant(draw: Random) -> Params:
    small = draw.choice((3e-6, 4e-6, 6e-6)), draw.choice((6 * GB, 8 * GB, 12 * GB))
    return _alpha_params(draw, small, (draw.choice((15e-6, 25e-6, 30e-6)), draw.choice((36 * GB, 42 * GB, 48 * GB))))


CARD = Card(
    title="What a message costs, and when to switch methods",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("fit_line", "switch_size", "best_bandwidth"),
    text=f"""Fit α and β to measured messages, and find the size at which another method of sending is faster. A message
of n bytes takes α + n/β seconds. Libraries have several methods: one starts at once (small α) but copies on the way
(small β), another first agrees with the receiver (large α) and then runs at full speed.

- `fit_line(sizes, seconds)`: the pair (α in seconds, β in bytes/s) of measured messages. The sizes range from bytes to
  hundreds of megabytes, and every time has an error of up to 3 % **of itself**. Results within 8 % pass.
- `switch_size(small, large)`: two methods as pairs (α, β); the smallest size in bytes, a float, from which the second
  is at least as fast as the first: `0.0` if it always is, `math.inf` if it never is. (The two β differ.)
- `best_bandwidth(nbytes, small, large)`: the bytes a second that a message gets by the faster of the two methods.

The visible case has measured messages (`params("alpha-beta-regimes")` has `.sizes` and `.seconds`), and two methods:
{{{{small_words}}}} and {{{{large_words}}}}. {CLOSE}""",
    hints=(
        "In a plot of raw seconds against raw bytes, which points determine the line?",
        "Every point should count by its *relative* error: divide each equation α + n/β = t by its own t, or look at "
        "both ends. The switch is where the two lines meet.",
        "`np.linalg.lstsq(np.stack([1/t, n/t], 1), np.ones(len(t)))` gives α and 1/β; `(a2 - a1) / (1/b1 - 1/b2)`, "
        "after the cases where one method is always faster.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.wires:fit_alpha_beta, fit_regimes, effective_bandwidth, message_seconds",),
    params=_alpha_params(Random("alpha-beta"), (4e-6, 10 * GB), (20e-6, 45 * GB)),
    vary=_alpha_variant,
    returns=Rows(TupleOf({"α": Number("s"), "β": Number("bytes/s")}), Anything("a number of bytes"), Number("bytes/s")),
)
