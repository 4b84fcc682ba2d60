"""The plots of chapter 03 that need no sliders."""

import numpy as np

from course_lib.draw import palette, style
from course_lib.draw.style import Picture
from course_lib.estimate import roofline


def waves(tile: int, sms: int) -> Picture:
    """What whole tiles and whole waves leave of the peak, for square outputs of 512 to 6,144 elements a side."""
    sides = np.arange(512, 6145, 32)
    left = np.asarray(roofline.quantization(sides, sides, tile, tile, sms))
    figure, axes = style.new(2.9, bottom=0.6)
    axes.plot(sides, 100 * left, color=palette.color("weights"), linewidth=1.2)
    axes.set(ylim=(0, 105), xlim=(500, 6150))
    style.dress(axes, "What tiles and waves leave of the peak", "side of the output (elements)", "percent of peak", "y")
    beyond = sides > 2000
    worst = sides[beyond][np.argmin(left[beyond])]
    figure.alt = f"A sawtooth that rises toward 100 percent; its deepest dip beyond 2,000 is at {worst}."
    return figure
