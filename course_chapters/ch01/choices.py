"""The choices of chapter 01's controls (model sizes, devices, counts, utilizations, tokens) and their texts."""

from course_lib.estimate.units import BILLION, TRILLION, number_text

_NAMES = (0.1, 0.35, 1, 1.5, 3, 7, 8, 13, 30, 70, 175, 405, 1000)  # models by their names, in billions
SIZES = tuple(size * BILLION for size in _NAMES)
GPUS = ("A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H200 SXM", "B200 SXM", "MI300X")
COUNTS = tuple(2**power for power in range(16))
UTILIZATION = tuple(share / 100 for share in (10, 20, 30, 35, 38, 40, 43, 45, 50, 55, 60))
TOKENS = tuple(count * TRILLION for count in (0.01, 0.1, 0.3, 1, 2, 5, 10, 15, 30))


def params_text(params: float) -> str:
    """Parameters as people name models: "70B"."""
    return f"{number_text(params / BILLION)}B"


def tokens_text(tokens: float) -> str:
    """Tokens in millions, billions or trillions."""
    return f"{number_text(tokens)} tokens"
