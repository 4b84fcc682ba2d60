from course_chapters.ch18.exercises.predict_compiled import RUNS
from course_chapters.ch18.published import speedup
from course_grader.judging import Params
from course_grader.judging.prediction import prediction


def gain(params: Params) -> float:
    """How many times as fast the published run became."""
    return speedup(*RUNS[params["run"]])


JUDGING = prediction(
    "times",
    truth=gain,
    reveal=lambda params: f"It became {gain(params):.2f} times as fast.",
    why="""Compiling removes bytes of small kernels and launches, and leaves the matmuls as they are. So it can save no
more than the time that was not matmuls: a seventh of a step of large-batch training on H100s, and most of the time
where one token at a time is decoded or a chain of elementwise operations runs alone.""",
)

ANSWERS = r'''# %% right: worked
def gain() -> tuple[float, float]:
    """How many times as fast you believe it became: (low, high), high at most 4 × low."""
    matmuls = 0.85  # of the time of a large-batch step, which compiling does not touch
    factor = 1 / (matmuls + (1 - matmuls) / 10)
    return factor / 1.5, factor * 1.5
# %% right: far off, but committed
# ~ factor / 1.5, factor * 1.5 ==> 10.0, 40.0
# %% wrong: too wide => values too-wide
# ~ factor / 1.5, factor * 1.5 ==> 1, 100
# %% wrong: the ends are swapped => values reversed
# ~ factor / 1.5, factor * 1.5 ==> 3, 1
# %% wrong: one number => values not-a-pair
# ~ factor / 1.5, factor * 1.5 ==> 2
# %% wrong: nothing is committed to => values not-positive
# ~ factor / 1.5, factor * 1.5 ==> 0, 0
# %% wrong: left as it is => not-answered
# ~ return factor ==> raise NotImplementedError; return factor
'''
