"""Widgets: sliders around pure drawing functions. Each chapter's own are in `course_lib.widgets.chNN`."""

from course_lib.widgets.explore import Control, Explorer, bits, explore, menu, play, slider, text_box, toggle

__all__ = ["Control", "Explorer", "bits", "explore", "menu", "play", "slider", "text_box", "toggle"]
