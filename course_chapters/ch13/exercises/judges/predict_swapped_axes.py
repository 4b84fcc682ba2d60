from course_grader.judging import Params, prediction
from course_lib.estimate.units import BILLION


def swapped_ratio(params: Params) -> float:
    """Seconds of both axes with tp between servers, over those with tp inside them."""
    share = 2 * 7 / 8 * 2  # a ring of eight, two bytes a number
    tp = share * 4 * params["layers"] * params["tokens"] * params["hidden"]
    dp = share * params["billions"] * BILLION / 8
    return (tp / 50 + dp / 450) / (tp / 450 + dp / 50)


JUDGING = prediction(
    "times",
    swapped_ratio,
    lambda params: f"With the axes swapped, communication takes {swapped_ratio(params):.2g} times as long.",
    why="The wires differ by a factor of 9, so no order can cost more than that. tp sends a tensor for every layer "
    "and dp one gradient a step: the more tokens a replica processes, the closer the ratio comes to 9.",
    pytorch="The order of the names that you pass to `init_device_mesh` decides this; the last one is innermost.",
)

ANSWERS = r'''# %% right: worked
def swapped_interval():
    """How many times longer communication takes with the axes swapped: (low, high), high at most 4 × low."""
    asked = params("predict-swapped-axes")
    tp = 4 * asked.layers * asked.tokens * asked.hidden
    dp = asked.billions * 1e9 / 8
    ratio = (tp / 50 + dp / 450) / (tp / 450 + dp / 50)
    return ratio / 1.5, ratio * 1.5
# %% right: a guess
def swapped_interval():
    return [3, 9]
'''
