"""The README's picture of chapter 01, taken anew: `.venv/bin/python -m bench.screenshots`.

The chapter is opened and run as a learner would, one exercise gets an answer of the bank, and the window is photographed
where that exercise's panel and a widget stand together.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.chapter_page import ChapterPage, open_chapter
from bench.lab import launch, served
from course_grader.bank.kill_matrix import bank
from course_lib.folders import ROOT

PICTURE = ROOT / "docs" / "chapter-01.png"
EXERCISE = "years-to-weeks"
WINDOW = {"width": 1647, "height": 1059}
SCALE = 0.85  # a little smaller than on a screen, so that panel and widget fit one picture of 1400 × 900


def compose(page: ChapterPage) -> None:
    """Answer the exercise and bring its panel to the top of the window."""
    page.run_all()
    right = next(each for each in bank("01", EXERCISE) if each.sort == "right")
    page.write(EXERCISE, right.source)
    page.run(EXERCISE)
    page.run(f"{EXERCISE}-check")
    page.show(f"{EXERCISE}-check").get_by_text("Passed", exact=True).wait_for()
    page.page.locator("#jp-main-statusbar").click(position={"x": 600, "y": 10})  # away from the cell's own buttons


def take(path: Path = PICTURE) -> int:
    """Write the picture; the value is its size in bytes."""
    with sync_playwright() as play, tempfile.TemporaryDirectory(prefix="course-portrait-") as folder:
        browser = launch(play)
        with served(Path(folder), "01") as address:
            page = open_chapter(browser, address, window=WINDOW, scale=SCALE)
            compose(page)
            page.page.screenshot(path=path)
        browser.close()
    return path.stat().st_size


if __name__ == "__main__":
    written = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    print(f"{written}: {take(written) / 1000:.0f} kB")
