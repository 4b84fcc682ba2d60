from course_grader.judging import Params, prediction


def busiest(params: Params) -> float:
    """The busiest rank's work over the mean, for contiguous parts of a long sequence."""
    return (2 * params["ranks"] - 1) / params["ranks"]


JUDGING = prediction(
    "times the mean",
    busiest,
    lambda params: (
        f"With {params['ranks']} ranks the busiest has {busiest(params):.3g} times the mean work: (2N − 1)/N."
    ),
    why="""The last of N contiguous parts sees the keys of N − 1 whole parts and half of its own: (N − 1/2)/N of the
sequence. The mean query sees half of it.""",
)

ANSWERS = r'''# %% right: worked
def busiest_over_mean() -> tuple[float, float]:
    """The busiest rank's work in multiples of the mean: (low, high), high at most 4 × low."""
    ranks = params("predict-causal-balance").ranks
    ratio = (2 * ranks - 1) / ranks
    return ratio / 1.5, ratio * 1.5
# %% right: narrow, and far from the truth
# ~ ratio / 1.5, ratio * 1.5 ==> 100.0, 150.0
# %% wrong: upside down => values reversed
# ~ ratio / 1.5, ratio * 1.5 ==> ratio * 1.5, ratio / 1.5
# %% wrong: too wide => values too-wide
# ~ ratio / 1.5, ratio * 1.5 ==> 1, 10
# %% wrong: from zero => values not-positive
# ~ ratio / 1.5, ratio ==> 0, ratio
# %% wrong: left as it is => not-answered
# ~ return ratio / 1.5, ratio * 1.5 ==> raise NotImplementedError
'''
