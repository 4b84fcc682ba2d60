from course_grader.judging import Params, prediction
from course_lib.estimate.units import duration_text
from course_runs.reading import recorded


def _reveal(params: Params) -> str:
    run = recorded(params["run"])
    predicted, took = run["predicted"], run["measured"]["step_seconds"]
    parts = ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in predicted["seconds"].items() if seconds)
    return (
        f"{duration_text(took)} at the median. The course's own tools predicted "
        f"{duration_text(predicted['step_seconds'])} ({parts}) from the same rates: measured over predicted is "
        f"{took / predicted['step_seconds']:.2f}."
    )


JUDGING = prediction(
    unit="seconds",
    truth=lambda params: recorded(params["run"])["measured"]["step_seconds"],
    reveal=_reveal,
    why="""A roofline is not a forecast. Large matmuls alone give a floor. Everything that is not a matmul, waiting for
the slowest process, library calls and shared cores come on top, and on a small model they dominate. The ratio of
measured to predicted says how much remains to be explained.""",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs; `torch.utils.benchmark.Timer` times it.",
)

ANSWERS = r'''# %% right: worked
def step_interval() -> tuple[float, float]:
    """An interval for the seconds of a step of the recorded run: (low, high), with high at most 4 × low."""
    asked = params("predict-real-step")
    arithmetic = 6 * asked.params * asked.tokens / asked.ranks / asked.flops
    guess = 2 * arithmetic + asked.calls * asked.alpha  # a real step reaches at most half of the matmul's rate
    return guess, 4 * guess
# %% right: far off, and committed
# ~ guess, 4 * guess ==> [10, 40]
# %% wrong: too wide => values too-wide
# ~ guess, 4 * guess ==> 0.01, 1
# %% wrong: turned round => values reversed
# ~ guess, 4 * guess ==> 0.2, 0.1
# %% wrong: one number => values not-a-pair
# ~ guess, 4 * guess ==> 0.1
# %% wrong: from zero => values not-positive
# ~ guess, 4 * guess ==> 0, 0.3
'''
