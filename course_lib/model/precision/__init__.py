"""Numbers in few bits: formats, rounding, sums, loss scaling, scales for 8 and 4 bits, and an optimizer that stores
weights in them.

Names are loaded on first use: the formats need no torch.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
