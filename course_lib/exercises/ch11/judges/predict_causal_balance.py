"""Judge of predict-causal-balance: predict: what does an uneven cut cost?"""

from course_lib.judging import Params, prediction


def busiest(params: Params) -> float:
    """The busiest rank's work over the mean, for contiguous parts of a long sequence."""
    return (2 * params["ranks"] - 1) / params["ranks"]


JUDGING = prediction(
    "times the mean",
    busiest,
    lambda params: (
        f"With {params['ranks']} ranks the busiest has {busiest(params):.3g} times the mean work: (2N − 1)/N."
    ),
    why="""The last of N contiguous parts sees the keys of N − 1 whole parts and half of its own: (N − 1/2)/N of the sequence. The mean query sees half of it.""",
)

ANSWERS = r"""# %% right: a factor of two either way
def busiest_over_mean():
    return 1.0, 3.0


# %% right: narrow, and far from the truth  from: a factor of two either way
# ~ 1.0, 3.0 ==> (100.0, 150.0)

# %% wrong: upside down => values reversed  from: a factor of two either way
# ~ 1.0, 3.0 ==> 3, 1

# %% wrong: too wide => values too-wide  from: a factor of two either way
# ~ 1.0, 3.0 ==> 1, 10

# %% wrong: from zero => values not-positive  from: a factor of two either way
# ~ 1.0, 3.0 ==> 0, 2

# %% wrong: left as it is => not-answered  from: a factor of two either way
# ~ return 1.0, 3.0 ==> raise NotImplementedError
"""
