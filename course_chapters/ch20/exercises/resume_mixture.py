from collections.abc import Mapping

from course_chapters.ch20.exercises.probes import rows_or_error
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, Rows

SPLITS: Mapping[str, str] = {
    "contiguous": "rank r gets a contiguous part, from `batch * r // ranks` to before `batch * (r + 1) // ranks`",
    "strided": "rank r gets every `ranks`-th sample, beginning with sample r",
}

CARD = Card(
    title="Resume a mixture on another number of ranks",
    text="""A stream mixes datasets by weights. Continue it exactly after a stop, on any number of ranks. Write two
functions. `taken`, `samples` and `weights` have a number for each dataset: how many of its samples the stream has
taken, how many it has, and its share of the stream.

- `advance(taken, samples, weights, count)`: the next `count` samples, and `taken` after them. A sample is
  `(dataset, epoch, place)`. After n samples, the next one is of the dataset with the largest lag,
  `weight * max(n, 1) - taken`; of equal lags, the first. A dataset that has been read to its end begins its next epoch
  at place 0.
- `resumed(taken, ahead, samples, weights, batch, ranks)`: what each of `ranks` ranks reads in the first step after a
  resume, a list for each rank. A step takes `batch` samples of the stream: {{means}}. The loader has taken `taken`
  since the start of the run, but the last `ahead` batches of it were only read ahead and never trained on.
- Weights that are not all positive, or do not add up to 1 within 10⁻⁶, are a `ValueError` that contains the word
  `weights`.

The first case has {{datasets}} datasets.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Which numbers say where the stream is? Does any of them depend on the ranks?",
        "The order follows from the weights alone. So the number of samples that were trained on says everything: play "
        "the stream from its start.",
        "`trained = sum(taken) - ahead * batch`; `_, start = advance([0] * len(samples), samples, weights, trained)`; "
        "`divmod(taken[d], samples[d])` is epoch and place.",
    ),
    answers=("advance", "resumed"),
    allowed="the standard library; the library's mixture is switched off.",
    hides=("course_chapters.ch20.data_mixture:blend, share",),
    params={"split": "contiguous", "means": SPLITS["contiguous"], "datasets": 3},
    vary=lambda draw: {"split": "strided", "means": SPLITS["strided"], "datasets": draw.choice((2, 4, 5))},
    structural="split",
    probe=rows_or_error,
    returns=Rows(Anything("samples and counts"), Anything("a list of samples for each rank")),
)
