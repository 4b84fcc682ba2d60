"""Pictures: pure functions of data to a matplotlib figure, and one way to show or save them."""

from course_lib.draw.busy import busy_alt, busy_share, who_is_busy
from course_lib.draw.holds import holds_alt, who_holds_what
from course_lib.draw.ring import on_a_cycle, ring, ring_alt, wait_alt, wait_for
from course_lib.draw.style import Picture, page, save_svg, show, svg

__all__ = [
    "Picture",
    "busy_alt",
    "busy_share",
    "holds_alt",
    "on_a_cycle",
    "page",
    "ring",
    "ring_alt",
    "save_svg",
    "show",
    "svg",
    "wait_alt",
    "wait_for",
    "who_holds_what",
    "who_is_busy",
]
