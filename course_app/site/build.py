"""The course as static pages: chapters are executed, turned into pages and written as HTML by Sphinx."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_app.site import api, front
from course_app.site.course_picture import course_picture
from course_app.site.execute import Executor
from course_app.site.page import page_of
from course_chapters import course
from course_chapters.course import Chapter
from course_grader import hosts
from course_lib import __version__, folders
from course_lib.draw.explorer import FOLDER
from course_lib.draw.palette import NIGHT, PAPER
from course_lib.folders import ROOT
from course_lib.messages import Trouble, count_text

STATIC = Path(__file__).parent / "static"
FRAMES = "frames"  # the folder of widgets' pictures below the site's static files
SCRIPT, STYLE = "site.js", "site.css"


@dataclass(frozen=True, slots=True)
class Built:
    """What a build wrote and took."""

    folder: Path
    pages: int
    bytes: int
    frame_bytes: int
    seconds: dict[str, float]  # by step
    warnings: tuple[str, ...]


def released(numbers: Sequence[str] = ()) -> list[Chapter]:
    """The chapters that have a released notebook; with numbers, these only. Trouble if a number or all of them have
    none."""
    folders.require(ROOT, "notebooks", "The site")
    here = {
        number: chapter
        for number, chapter in course.chapters().items()
        if (ROOT / "notebooks" / chapter.folder / f"{chapter.folder}.ipynb").is_file()
    }
    unknown = [number for number in numbers if number not in here]
    if unknown:
        raise Trouble(f"there is no released chapter {', '.join(unknown)}", f"choose from {', '.join(here)}")
    return [chapter for number, chapter in here.items() if not numbers or number in numbers]


def refuse(out: Path, numbers: Sequence[str], repository: str) -> list[Chapter]:
    """The chapters to write. Trouble if there are none, if `out` has something else in it, or if `repository` is not
    owner/name."""
    hosts.named(repository)
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").is_file():
        raise Trouble(f"{out} is not empty and is not a site", "name another folder with --out, or empty this one")
    return released(numbers)


def build(
    out: Path,
    numbers: Sequence[str] = (),
    *,
    repository: str = "",
    packed: bool = False,
    say: Callable[[str], None] = print,
) -> Built:
    """Write the site into `out`, whose old content is deleted; only these chapters if numbers are given.

    With `packed`, a zip of all pages lies among them, and the start page links to it. Raises Trouble where `refuse`
    does, or if a chapter fails.
    """
    chapters = refuse(out, numbers, repository)
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="course-site-") as temporary:
        work = Path(temporary)
        source, static = work / "source", work / "source" / "_static"
        static.mkdir(parents=True)
        began = time.monotonic()
        _chapters(chapters, work, source, repository, say)
        seconds["chapters"] = time.monotonic() - began
        began = time.monotonic()
        say("Writing the pages")
        front.write(source, chapters, repository, library=not numbers, packed=packed)
        for path in STATIC.iterdir():
            shutil.copyfile(path, static / path.name)
        (static / "course.svg").write_text(course_picture().svg(outlines=True), encoding="utf-8", newline="\n")
        warnings = _sphinx(source, work / "html", work / "doctrees", repository)
        seconds["pages"] = time.monotonic() - began
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "html", out)
        if packed:
            name = front.ZIP.removesuffix(".zip")
            (work / "html").rename(work / name)
            shutil.make_archive(str(out / name), "zip", work, name)
    (out / ".nojekyll").touch()  # GitHub's pages would drop folders that begin with an underscore
    files = [path for path in out.rglob("*") if path.is_file()]
    frames = sum(path.stat().st_size for path in (out / "_static" / FRAMES).glob("*.js"))
    size, pages = sum(path.stat().st_size for path in files), len(list(out.rglob("*.html")))
    return Built(out, pages, size, frames, seconds, tuple(warnings))


def _chapters(
    chapters: Sequence[Chapter], work: Path, source: Path, repository: str, say: Callable[[str], None]
) -> None:
    """Execute all chapters, a few at a time, and write each as a page's notebook with its figures."""
    static = source / "_static"
    from concurrent.futures import ThreadPoolExecutor, as_completed

    import nbformat

    copied = work / "chapters"
    for chapter in chapters:  # only these: a picture's links lead to chapters that lie beside its own
        shutil.copytree(ROOT / "notebooks" / chapter.folder, copied / chapter.folder)
    environment = {FOLDER: str(static / FRAMES), "COURSE_WORK": str(work / "learner"), "COURSE_ROOT": str(ROOT)}
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)

    executor = Executor(environment)

    def one(chapter: Chapter) -> str:
        began = time.monotonic()
        folder = copied / chapter.folder
        book = executor.run(folder / f"{chapter.folder}.ipynb")
        nbformat.write(page_of(book, chapter.folder, static, repository), source / f"{chapter.folder}.ipynb")
        if (folder / "figures").is_dir():
            shutil.copytree(folder / "figures", source / chapter.folder / "figures")
        return f"{front.name_of(chapter)}, {time.monotonic() - began:.0f} s"

    cores = os.cpu_count() or 1
    say(f"Running {count_text(len(chapters), 'chapter')}, {min(cores, len(chapters))} at a time:")
    with ThreadPoolExecutor(cores) as pool:
        running = [pool.submit(one, chapter) for chapter in chapters]
        try:
            for count, done in enumerate(as_completed(running), start=1):
                say(f"  {count:2} of {len(chapters)}: {done.result()}")
        except BaseException:  # a chapter that failed, or Ctrl-C: the others need not end first
            pool.shutdown(wait=False, cancel_futures=True)
            executor.stop()
            raise


def _sphinx(source: Path, out: Path, doctrees: Path, repository: str) -> list[str]:
    """Write the pages; Sphinx's warnings, a line each."""
    import io

    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            str(source),
            None,
            str(out),
            str(doctrees),
            "html",
            confoverrides=configuration(repository),
            status=None,
            warning=warnings,
            parallel=max(os.cpu_count() or 1, 1),
        )
        app.build()
        if app.statuscode:
            raise Trouble("Sphinx could not write the pages", f"its words: {warnings.getvalue().strip()}")
    return [line for line in warnings.getvalue().splitlines() if line.strip()]


def configuration(repository: str = "") -> dict[str, object]:
    """Sphinx's settings: MyST-NB reads the notebooks, Furo is the theme, and nothing is asked of another host."""
    return {
        "project": "Training at Scale",
        "copyright": "the authors of Training at Scale; code: MIT, prose and figures: CC BY 4.0",
        "version": __version__,
        "release": __version__,
        "language": "en",
        "extensions": ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "course_app.site.extension"],
        **api.settings(),
        "root_doc": "index",
        "html_theme": "furo",  # 0.1 MB of a page; pydata's theme alone is heavier than a page may be
        "html_title": "Training at Scale",
        "html_theme_options": {
            "top_of_page_buttons": [],
            "dark_css_variables": {"color-background-primary": NIGHT[PAPER]},  # as dark as the pictures
        },
        "html_static_path": ["_static"],
        "html_css_files": [STYLE],
        "html_js_files": [SCRIPT],
        "html_math_renderer": "mathml",
        "html_copy_source": False,
        "html_use_index": False,  # the glossary has the terms
        "html_show_sourcelink": False,
        "myst_enable_extensions": ["dollarmath", "attrs_block", "deflist"],
        "myst_heading_anchors": 3,
        "nb_execution_mode": "off",
        "nb_merge_streams": True,
        "nb_render_markdown_format": "myst",
        "nb_ipywidgets_js": {},
        "copybutton_selector": "div.highlight-sh pre, div.cell_input pre",
        "suppress_warnings": ["config.cache", "ref.python"],  # a type of one name in two rooms
    }


def require() -> None:
    """Install the site's packages where `./course` keeps the environment; Trouble with the way out elsewhere."""
    from importlib.util import find_spec

    from course_app.install import add_group

    if all(find_spec(name) for name in ("sphinx", "myst_nb", "furo", "sphinx_copybutton", "latex2mathml")):
        return
    if not (Path(sys.prefix) / "course" / "stamp").is_file():
        raise Trouble(
            "the site needs Sphinx, MyST-NB and Furo, which are not in this environment",
            f"{sys.executable} -m pip install 'training-at-scale[site]', or `pip install -e '.[site]'` in the "
            f"course's folder",
        )
    add_group("site")
