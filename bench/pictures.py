"""`course bench pictures`: the photographs in README and docs, taken anew from the course as it runs.

Each picture carries a digest of the words that it shows. `--check`, and a test, say when the course now shows others.
"""

import argparse
import hashlib
import html
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import ViewportSize, sync_playwright

from bench.chapter_page import open_chapter
from bench.lab import PATIENCE, launch
from bench.lab import served as lab
from course_grader.bank.kill_matrix import bank, judge
from course_grader.classroom.feedback import make_feedback
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.new_class import new_class
from course_grader.classroom.release import gradebook, release_chapter
from course_grader.classroom.roster import Student
from course_grader.exercises import card
from course_grader.intake import load
from course_grader.judge.result_panel import html_panel
from course_grader.notebooks import grade_meta, is_answer, render, write_whole
from course_grader.service.grading import grade_class
from course_lib.folders import ROOT
from course_lib.messages import Trouble

DOCS = ROOT / "docs"
EXERCISE = "mfu-bug"  # of chapter 01, whose panel and widget stand together
CHAPTER, STUDENT, ANSWERED = "01", "ada", "train-days-7b"
WIDE: ViewportSize = {"width": 1647, "height": 1059}
SCALE = 0.85  # a little smaller than on a screen, so that panel and widget fit one picture of 1400 × 900
PAGE: ViewportSize = {"width": 1000, "height": 920}
FORM: ViewportSize = {"width": 1100, "height": 760}


def words(page: str) -> str:
    """A digest of a page's colors and text up to its first table; seconds and dates, which differ each time, do not
    count."""
    plain = html.unescape(re.sub(r"<(?!style)[^>]*>", " ", page.partition("</table>")[0]))
    plain = re.sub(r"\d+(\.\d+)? m?s\b|\d{4}-\d\d-\d\d[ T\d:.+]*", "", plain)
    return hashlib.sha256(" ".join(plain.split()).encode()).hexdigest()


def chapter_words() -> str:
    """What the panel of the chapter's picture says now."""
    right = next(each for each in bank("01", EXERCISE) if each.sort == "right")
    return words(html_panel(card(EXERCISE), judge(right).report))


def shown(path: Path) -> str:
    """The digest that a picture carries, or nothing."""
    with Image.open(path) as picture:
        return str(picture.info.get("shows", ""))


def keep(path: Path, taken: bytes, digest: str) -> None:
    """Write a picture with its digest, in a palette of 256 colors: half the size, and nobody sees it."""
    import io

    about = PngInfo()
    about.add_text("shows", digest)
    with Image.open(io.BytesIO(taken)) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        small.save(path, optimize=True, pnginfo=about)


def take_chapter(into: Path) -> None:
    """Chapter 01 as a learner has it: run, one exercise answered, its panel at the top of the window."""
    with sync_playwright() as play, tempfile.TemporaryDirectory(prefix="course-pictures-") as folder:
        browser = launch(play)
        with lab(Path(folder), "01") as address:
            page = open_chapter(browser, address, window=WIDE, scale=SCALE)
            page.run_all()
            right = next(each for each in bank("01", EXERCISE) if each.sort == "right")
            page.write(EXERCISE, right.source)
            page.run(EXERCISE)
            page.run(f"{EXERCISE}-check")
            page.show(f"{EXERCISE}-check").get_by_text("Passed", exact=True).wait_for()
            page.page.locator("#jp-main-statusbar").click(position={"x": 600, "y": 10})  # away from the cell's buttons
            keep(into / "chapter-01.png", page.page.screenshot(), chapter_words())
        browser.close()


@contextmanager
def graded() -> Iterator[tuple[ClassFolder, Path]]:
    """A class whose student answered every third exercise wrongly, graded; and that student's page of feedback."""
    with tempfile.TemporaryDirectory(prefix="course-pictures-") as scratch:
        folder = new_class(
            Path(scratch, "class").resolve(),
            "autumn-26",
            roster=[Student(id=STUDENT, first_name="Ada", last_name="Example")],
        )
        release_chapter(folder, CHAPTER)
        folder = ClassFolder.open(folder.root)
        name = folder.settings.assignment(CHAPTER)
        sheet = load(folder.root / "release" / name / f"{name}.ipynb")
        for place, cell in enumerate(each for each in sheet["cells"] if is_answer(each)):
            exercise = grade_meta(cell)["grade_id"]
            sort = "wrong" if place % 3 == 0 and exercise != ANSWERED else "right"
            told = [each for each in bank(CHAPTER, exercise) if each.sort == sort and (each.says or sort == "right")]
            cell["source"] = (
                re.sub(r"\s*### (BEGIN|END) SOLUTION", "", told[0].source).strip() if told else cell["source"]
            )
        write_whole(folder.submissions.folder(folder.roster.student(STUDENT), CHAPTER) / f"{name}.ipynb", render(sheet))
        grade_class(folder, chapters=[CHAPTER])
        yield folder, next(iter(make_feedback(folder, students=[STUDENT], chapters=[CHAPTER]).written))


def take_class(into: Path) -> None:
    """A student's page of feedback, and their answer in formgrader."""
    with graded() as (folder, written), sync_playwright() as play, tempfile.TemporaryDirectory() as scratch:
        digest = words(written.read_text(encoding="utf-8"))
        browser = launch(play)
        page = browser.new_page(viewport=PAGE)
        page.goto(written.as_uri())
        keep(into / "feedback.png", page.screenshot(), digest)
        name = folder.settings.assignment(CHAPTER)
        with closing(gradebook(folder)) as book:
            ident = book.find_submission_notebook(name, name, STUDENT).id
        with formgrader(folder, Path(scratch)) as address:
            page = browser.new_page(viewport=FORM)
            page.goto(address)
            page.goto(f"{address.partition('?')[0]}/submissions/{ident}/")
            page.locator(f'[id="{ANSWERED}-check"]').wait_for()
            page.wait_for_timeout(1500)  # until formgrader has the points
            top = page.locator(f'[id="{ANSWERED}-comment"]').evaluate("e => e.getBoundingClientRect().top + scrollY")
            page.evaluate("to => window.scrollTo(0, to - 420)", top)
            keep(into / "formgrader.png", page.screenshot(), digest)
        browser.close()


@contextmanager
def formgrader(folder: ClassFolder, scratch: Path) -> Iterator[str]:
    """The address, with its token, of the JupyterLab that `course class formgrader` starts."""
    log = scratch / "jupyter.log"
    command = [str(ROOT / "course"), "class", "formgrader", "--folder", str(folder.root), "--no-browser"]
    kept = {f"JUPYTER_{what}_DIR": str(scratch / what.lower()) for what in ("CONFIG", "DATA", "RUNTIME")}
    with (
        log.open("wb") as out,
        subprocess.Popen(command, env={**os.environ, **kept}, stdout=out, stderr=out, start_new_session=True) as server,
    ):
        try:
            until = time.monotonic() + PATIENCE
            while (found := re.search(rb"(http://127\.0\.0\.1:\d+)/lab\S*(token=\w+)", log.read_bytes())) is None:
                if server.poll() is not None or time.monotonic() > until:
                    raise Trouble(log.read_text(encoding="utf-8", errors="replace")[-2000:], "see its words above")
                time.sleep(0.1)
            yield f"{found.group(1).decode()}/formgrader?{found.group(2).decode()}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def class_words() -> str:
    """What the student's page says now."""
    with graded() as (_, written):
        return words(written.read_text(encoding="utf-8"))


TAKEN: dict[str, tuple[Callable[[], str], Callable[[Path], None], tuple[str, ...]]] = {
    "chapter": (chapter_words, take_chapter, ("chapter-01.png",)),
    "class": (class_words, take_class, ("feedback.png", "formgrader.png")),
}


def stale(name: str) -> list[str]:
    """The pictures of that name that show other words than the course does now."""
    now, _, pictures = TAKEN[name]
    digest = now()
    return [picture for picture in pictures if shown(DOCS / picture) != digest]


def main(arguments: Sequence[str]) -> int:
    """Take the pictures again, or with --check only say which are stale; 1 if any is."""
    parser = argparse.ArgumentParser(prog="course bench pictures", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*TAKEN, []], help="chapter, class; without a name, both")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a picture is stale")
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder for the pictures")
    given = parser.parse_args(arguments)
    old = []
    for name in given.names or TAKEN:
        if given.check:
            old += stale(name)
            continue
        TAKEN[name][1](given.out)
        for picture in TAKEN[name][2]:
            print(f"{given.out / picture}: {(given.out / picture).stat().st_size / 1000:.0f} kB")
    for picture in old:
        print(f"docs/{picture} shows what the course no longer says. Way out: ./course bench pictures")
    return bool(old)
