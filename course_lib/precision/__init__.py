"""Numbers in few bits: formats, rounding, sums, loss scaling, scales for 8 and 4 bits, and optimizers that store weights in them."""

from course_lib.precision.formats import Format, formats, number_format
from course_lib.precision.rounding import MODES, lost_updates, round_to, smallest_surviving, torch_dtype

__all__ = [
    "MODES",
    "Format",
    "formats",
    "lost_updates",
    "number_format",
    "round_to",
    "smallest_surviving",
    "torch_dtype",
]
