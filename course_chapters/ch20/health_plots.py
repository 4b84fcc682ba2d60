"""Pictures and tables of health checks: measured rates around a threshold, base rates, known answers."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from IPython.display import Markdown

from course_chapters.ch20.health_checks import Check, Screened, job_speed, missed_corruption, screen, tests_needed
from course_chapters.table import columns
from course_lib.draw.explore import Explorer, explore, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, VERMILION
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import count_text, percent_text

NODES, JOB = 2048, 64  # of the drawn fleet, and of the job that would run on it
THRESHOLDS = tuple(round(0.9 + 0.005 * at, 3) for at in range(21))
SHARES, REPEATS = (0.005, 0.02, 0.05, 0.2), (1, 2, 4, 8)


@lru_cache(maxsize=256)
def drawn(threshold: float, share: float, repeats: int) -> Screened:
    """Counts of the drawn fleet."""
    return screen(Check(share=share, repeats=repeats), threshold, NODES, seed=20)


def draw_threshold(threshold: float = 0.97, share: float = 0.02, repeats: int = 1) -> Sheet:
    """Measured rates of healthy and weak nodes on both sides of a threshold, and what every threshold is worth."""
    check, sheet, counts = Check(share=share, repeats=repeats), Sheet(4.6), drawn(threshold, share, repeats)
    spread = check.noise / repeats**0.5
    best = max(THRESHOLDS, key=lambda each: check.usable(each, JOB))
    title = (
        f"Below {percent_text(threshold)}: {count_text(counts.weak_rejected, 'weak node')} of {counts.weak} found, "
        f"{count_text(counts.healthy_rejected, 'healthy one')} rejected"
    )
    words = (
        f"By the formulas: {percent_text(check.healthy_among_rejected(threshold), 2)} of the rejected are healthy, "
        f"{percent_text(check.weak_among_kept(threshold), 2)} of the kept are weak."
    )
    sheet.head(title, words)
    x = np.linspace(0.86, 1.08, 221)
    marks = {each / 100: f"{each} %" for each in (86, 90, 94, 98, 102, 106)}
    upper = Plot(0.7, 2.45, 6.4, 1.5, (0.86, 1.08), (0, 1.05))
    upper.frame(sheet, marks, {}, "", "density, scaled")
    upper.bars(sheet, [(0.86, threshold, 0, 1.05)], EMPTY)
    for rate, ink in ((1.0, BLUE), (check.weak, VERMILION)):
        normal = NormalDist(rate, spread)
        upper.line(sheet, x, np.array([normal.pdf(each) for each in x]) / normal.pdf(rate), ink)
    lower = Plot(0.7, 0.75, 6.4, 1.2, (0.86, 1.08), (0.9, 1.0))
    lower.frame(sheet, marks, {0.9: "90 %", 0.95: "95 %", 1.0: "100 %"}, "measured rate; threshold", "worth")
    worth = [check.usable(each, JOB) for each in x]
    lower.line(sheet, x, worth, GREEN)
    lower.dot(sheet, best, check.usable(best, JOB), GREEN)
    for panel, (low, high) in ((upper, (0, 1.05)), (lower, (0.9, 1.0))):
        panel.line(sheet, [threshold] * 2, [low, high], INK, 1.2, dashed=True)
    keys = {"healthy nodes": BLUE, "weak nodes": VERMILION, "rejected": EMPTY}
    sheet.keys(0.22, 0.2, {**keys, f"worth to jobs of {JOB} nodes, and its best": GREEN}, gap=0.35)
    sheet.alt = (
        f"{title}, of {NODES:,} drawn nodes, {percent_text(share)} of them weak, by the mean of "
        f"{count_text(repeats, 'measurement')}. {words} The fleet is worth most at a threshold of {percent_text(best)}."
    )
    return sheet


def threshold() -> Explorer:
    """Move the threshold, the share of weak nodes and the number of measurements."""
    return explore(
        draw_threshold,
        threshold=slider(THRESHOLDS, 0.97, label="threshold", text=percent_text),
        share=slider(SHARES, 0.02, label="weak nodes", text=percent_text),
        repeats=slider(REPEATS, 1, label="measurements", text=lambda count: f"mean of {count}"),
    )


def base_rate_table(threshold: float = 0.97) -> Markdown:
    """One check on fleets with more and fewer weak nodes: how many of the rejected are healthy."""
    rows = []
    for share in SHARES:
        for repeats in (1, 4):
            check = Check(share=share, repeats=repeats)
            rates = (check.false_alarm(threshold), check.detection(threshold), check.healthy_among_rejected(threshold))
            speed = job_speed(check.weak_among_kept(threshold), check.weak, JOB)
            cells = (percent_text(share), repeats, *(percent_text(each, 3) for each in rates), percent_text(speed, 3))
            rows.append(cells)
    headings = "weak nodes | measurements | false alarms | detection | healthy among the rejected"
    said = f"threshold {percent_text(threshold)} of a healthy node's rate, noise {percent_text(Check().noise)}"
    return columns(f"{headings} | mean speed of a job on {JOB} kept nodes", rows, said)


def known_answers_table(wanted: float = 0.99) -> Markdown:
    """Known answers that find a device with silent errors, by how often it errs."""
    rows = []
    for chance in (0.1, 1e-2, 1e-3, 1e-4):
        tests = tests_needed(chance, wanted)
        missed = percent_text(missed_corruption(chance, 100), 2)
        rows.append((f"1 of {1 / chance:,.0f}", f"{tests:,}", missed))
    return columns(f"wrong answers | tests for {percent_text(wanted)} detection | missed by 100 tests", rows)
