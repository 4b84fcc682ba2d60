from course_chapters.ch04.exercises.predict_first_updates import FIRST
from course_grader.judging import Params, prediction


def largest_update(params: Params) -> tuple[float, int]:
    """The largest update without bias correction in learning rates, and when it comes."""
    return max(((1 - params["one"] ** t) / (1 - params["two"] ** t) ** 0.5, t) for t in range(1, FIRST + 1))


def _reveal(params: Params) -> str:
    size, when = largest_update(params)
    first = (1 - params["one"]) / (1 - params["two"]) ** 0.5
    return (
        f"The first update is {first:.3g} learning rates, and the largest one, update {when}, is {size:.3g}. The "
        "first moment recovers within ten updates; the second, under its root, takes hundreds."
    )


JUDGING = prediction(
    "learning rates",
    truth=lambda params: largest_update(params)[0],
    reveal=_reveal,
    why="Without correction both moments are too small at first: the first by 1 − β₁ᵗ, the second by 1 − β₂ᵗ. β₂ is "
    "closer to 1, so the denominator recovers later than the numerator, and the updates are too large for about "
    "1/(1 − β₂) steps. A warm-up of that length hides the mistake.",
    pytorch="`torch.optim.Adam` always corrects. A constant factor of this size at the start of a run is a reason to "
    "print the first updates.",
)

ANSWERS = r'''# %% right: worked
def largest_update() -> tuple[float, float]:
    """Learning rates that you believe the largest update takes: (low, high), high at most 4 × low."""
    asked = params("predict-first-updates")
    sizes = [(1 - asked.one**t) / (1 - asked.two**t) ** 0.5 for t in range(1, 101)]
    return max(sizes) / 1.8, max(sizes) * 1.8
# %% right: a list
# ~ max(sizes) / 1.8, max(sizes) * 1.8 ==> [1, 4]
# %% right: narrow, and far from the truth
# ~ max(sizes) / 1.8, max(sizes) * 1.8 ==> 0.9, 1.1
'''
