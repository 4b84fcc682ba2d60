"""The course in one picture: the problem, the ways to split a training run, and how an answer is judged."""

from course_chapters import course
from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, ink_on
from course_lib.draw.sheets import Sheet
from course_lib.estimate import facts, memory
from course_lib.estimate.units import BILLION, bytes_text

VERDICTS = {  # what a check judges: the question that it answers
    "value": "Is the result right?",
    "cost": "How many bytes, how much memory?",
    "protocol": "Can it hang or deadlock?",
    "generality": "Does it hold for unseen cases?",
}
_FILLS = (BLUE, SKY, GREEN, ORANGE, PURPLE, VERMILION)


def course_picture() -> Sheet:
    """The course in one picture, from the size of the problem to the four verdicts."""
    strategies = list(course.thesis().values())
    held, one = memory.state_bytes(70 * BILLION, "B"), float(facts.device("H100 SXM").memory)
    sheet = Sheet(3.55)
    sheet.text(0.15, 3.3, "One model, many accelerators", size=style.LARGE, bold=True)
    _head(sheet, 0.15, "1  The problem", "does not fit, and takes years")
    base, tall = 0.62, 1.7
    sheet.boxes([(0.3, 0.85, base, base + tall)], BLUE)
    sheet.boxes([(1.15, 1.7, base, base + max(tall * one / held, 0.03))], GREEN)
    for x, size, name in ((0.575, held, "70B training state"), (1.425, one, "one H100")):
        sheet.text(x, base - 0.08, bytes_text(size), ha="center", va="top", bold=True)
        sheet.text(x, base - 0.24, name, ha="center", va="top", size=7.0, ink=SOFT)
    _head(sheet, 2.1, "2  Split it, then communicate", "chapter by chapter, by hand")
    for row, (strategy, fill) in enumerate(zip(strategies, _FILLS, strict=False)):
        y = 2.27 - 0.345 * row
        sheet.boxes([(2.1, 2.4, y - 0.12, y + 0.14)], fill)
        sheet.text(2.25, y, strategy.chapter, ha="center", va="center", ink=ink_on(fill), bold=True)
        sheet.text(2.5, y + 0.02, strategy.cuts, va="bottom", bold=True)
        sheet.text(2.5, y - 0.01, strategy.collective, va="top", size=7.0, ink=SOFT)
    _head(sheet, 4.75, "3  Your code is judged", "by what it does, on ranks that count bytes")
    for row, (verdict, question) in enumerate(VERDICTS.items()):
        y = 2.2 - 0.5 * row
        sheet.boxes([(4.75, 7.25, y - 0.2, y + 0.22)], EMPTY)
        sheet.lines([[(4.85, y + 0.01), (4.92, y - 0.08), (5.06, y + 0.12)]], GREEN, 2.4, order=3)
        sheet.text(5.17, y + 0.02, verdict, va="bottom", bold=True)
        sheet.text(5.17, y - 0.01, question, va="top", size=7.5, ink=INK)
    split = "; ".join(f"{one.cuts} ({one.chapter}, {one.collective})" for one in strategies)
    sheet.alt = (
        f"The course in one picture. The problem: training a 70B model needs {bytes_text(held)} of state, and one "
        f"H100 has {bytes_text(one)}. The ways to split it: {split}. Your code is judged by four verdicts: "
        f"{', '.join(VERDICTS)}."
    )
    return sheet


def _head(sheet: Sheet, x: float, title: str, more: str) -> None:
    sheet.text(x, 2.9, title, size=style.NORMAL, bold=True)
    sheet.text(x, 2.73, more, ink=SOFT)
