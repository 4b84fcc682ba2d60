from course_chapters.ch15.exercises.probes import sweeps
from course_grader.exercises import Card, DictOf, Number, Rows, Worth, pick

RATIOS = ("said", "others", "everything")  # what the probe brings back for a sweep: three ratios by size
CARD = Card(
    title="Predict a message that was not measured",
    text="""Write `predict_seconds` and `held_out`, because the message that you care about is rarely among those that
were measured. At some size the library switches its protocol or the data no longer fits into a cache, so a sweep has
**one regime or two**. Within each, a message takes α + bytes/β seconds; at the border, the time may jump up or down.

A sweep is a list of rows in any order, `{"nbytes": 262144, "seconds": [0.00121, …]}`: the repeats of one size in the
order in which they ran. The first repeat may be slow, and so may up to a quarter of the others; the rest are off by a
few per cent. There are at least eight sizes, up to 1 GiB, about a factor of 4 apart.

- `predict_seconds(rows, nbytes)` returns the seconds of a message whose size is **not in the sweep**, within
  {{close:percent}}. The size is between two sizes of one regime, or up to {{reach:int}} times the largest one.
- `held_out(rows)` returns a dictionary from each size of the sweep to **predicted over measured seconds** (the median),
  where the prediction has not seen that size. Ratios near 1 are evidence only for sizes that the fit has not seen.

Shown: four sweeps made with known constants, and one recorded sweep whose constants are unknown. For that one we ask
only for `held_out`, and only that it is honest, not that it is near 1.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=5),
    hints=(
        "The times span five decades. If one line must fit all of them, which times decide a fit of raw seconds? And "
        "what does a line through two regimes describe?",
        "One number for each size: the median. Divide each equation α + n/β = t by its t. Try every cut of the sorted "
        "sizes into two parts of three or more; keep the best.",
        "`A = np.stack([1 / t, n / t], 1)`; `c, *_ = np.linalg.lstsq(A, np.ones(len(t)))`; error `((A @ c - 1) ** "
        "2).sum()`. A message belongs to the lower part below `sqrt(n[cut - 1] * n[cut])`. `[other for other in rows "
        "if other is not row]`.",
    ),
    answers=("predict_seconds", "held_out"),
    allowed="the standard library and numpy.",
    returns=Rows(Number("seconds"), DictOf({name: DictOf({}, more=True) for name in RATIOS})),
    hides=("course_lib.estimate.roofline.wires:fit_alpha_beta", "course_lib.estimate.roofline.wires:fit_regimes"),
    params={"reach": 16, "alpha": 12e-6, "beta": 9e9, "close": 0.2},
    vary=pick(reach=(8, 16), alpha=(8e-6, 15e-6, 20e-6), beta=(5e9, 8e9, 12e9)),
    needs=("03",),
    probe=sweeps,
)
