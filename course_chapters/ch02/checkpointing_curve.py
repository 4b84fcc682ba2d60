"""Checkpointing on a stack of layers: peak memory against compute, measured and by formula."""

from collections.abc import Mapping

from course_lib.draw import panels
from course_lib.draw.palette import GREY, INK, SOFT, color
from course_lib.draw.sheets import Plot, Sheet


def draw_curve(points: Mapping[str, tuple[float, float, float]]) -> Sheet:
    """Checkpointing on a stack: name -> (peak in units of a layer's input, FLOPs, peak by the formula); the first keeps
    everything.

    Names "n of L" say how many layers are checkpointed alone, joined by a line; "c = …" are segments of c layers.
    """
    base = next(iter(points.values()))[1]
    most = 1.1 * max(max(peak, said) for peak, _, said in points.values())
    sheet, panel = Sheet(3.5), Plot(0.85, 0.55, 6.25, 2.2, (0, most), (0.93, 1.47))
    ticks = {1 + tenth / 10: f"{1 + tenth / 10:.1f}" for tenth in range(5)}
    names = "peak, in units of one layer's input", "FLOPs (1 = no recomputation)"
    panel.frame(sheet, panels.marks(most, 8), ticks, *names)
    front = [(peak, flops / base) for words, (peak, flops, _) in points.items() if not words.startswith("c")]
    panel.line(sheet, [x for x, _ in front], [y for _, y in front], color("activations"), 1.2)
    for words, (peak, flops, said) in points.items():
        (x, y), (formula, _) = panel.at(peak, flops / base), panel.at(said, flops / base)
        if words.startswith("c"):
            sheet.boxes([(x - 0.055, x + 0.055, y - 0.055, y + 0.055)], GREY, edge=INK, thick=0.6)
            sheet.text(x, y + 0.17, words, ink=SOFT, ha="center")
        else:
            sheet.dot((x, y), color("activations"), size=8)
            sheet.text(x - 0.07, y - 0.21, words, ha="right")
        sheet.lines([[(formula, y - 0.1), (formula, y + 0.1)]], INK, 1.6, order=5)
    more = "Dots: some layers checkpointed alone. Squares: segments of c layers. Vertical strokes: the formula."
    sheet.head("Memory against compute", more)
    parts = "; ".join(
        f"{words}: peak {peak:.0f}, by the formula {said:.0f}, FLOPs {flops / base:.2f}"
        for words, (peak, flops, said) in points.items()
    )
    sheet.alt = f"Memory against compute of a stack of layers, peaks in units of one layer's input. {parts}."
    return sheet
