from course_grader.exercises import Anything, Card, Maybe, Rows, Worth

GROWTH = {  # what adds the same seconds each time, and how much of it N GPUs have
    "doublings": ("doubling of the GPUs", "log₂(N / fewest)"),
    "servers": ("server of eight GPUs", "(N − fewest) / 8"),
}


def _growth(name: str) -> dict[str, str]:
    return dict(zip(("growth", "adds", "law"), (name, *GROWTH[name]), strict=True))


CARD = Card(
    title="What does scaling cost here?",
    text="""Write two functions that describe how speed scales with the number of GPUs: two fitted numbers, and a third
that says how far to trust them. The rows are measurements of one job, in any order:
`{"ranks": 64, "batch_tokens": 1048576, "tokens_per_s": 31112.0}`, with the tokens of all ranks in a step, and the
tokens/s of **one** GPU.

- **strong**: the batch is the same in all rows. With more GPUs one part of a step shrinks and another stays: seconds =
  fixed + work / N.
- **weak**: the batch of each **GPU** is the same in all rows. Then every **{{adds}}** adds the same seconds to a step:
  seconds = first + growth · {{law}}.
- **mixed**: neither. The rows come from different experiments and show nothing.

`fit_scaling(rows)` returns `("strong", fixed, work, worst)`, `("weak", first, growth, worst)`, or `("mixed",)`. Fit the
**seconds of a step** by least squares of relative errors, (fit / measured − 1)²; `worst` is the largest |fit / measured
− 1| of all rows. Every number must be within 1 %.

`efficiency(rows, ranks)` returns the tokens/s of one GPU among `ranks` GPUs over those of one GPU among the fewest
measured, both by the fit; `ranks` need not be among the rows. Return `None` for mixed rows.

Shown: two published series of this course's facts, one strong (1.34 billion parameters, data parallel) and one weak
(6.66 billion, FSDP).""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "How many seconds does a step take, from these three numbers? And which batch stays the same: that of all "
        "GPUs, or that of each?",
        "seconds = batch / N / (tokens/s of one GPU). Both laws are a constant plus a constant times a known column. "
        "Divide each equation by its seconds before least squares.",
        "`t = batch / n / rate`; `x = 1 / n` or the law's; `A = np.stack([1 / t, x / t], 1)`; `c, *_ = "
        "np.linalg.lstsq(A, np.ones(len(t)))`; `abs(A @ c - 1).max()`. Efficiency: strong `T(fewest) * fewest / (T(N) "
        "* N)`, weak `T(fewest) / T(N)`.",
    ),
    answers=("fit_scaling", "efficiency"),
    allowed='the standard library and numpy; `params("scaling-fit").growth` is the name of the weak law.',
    params=_growth("doublings"),
    vary=lambda draw: _growth("servers"),
    structural="growth",
    needs=("07",),
    returns=Rows(Maybe(Anything()), Maybe(Anything())),
)
