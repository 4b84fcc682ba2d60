"""The site's parts, and one chapter as a page: what is on it, what it weighs, and that it asks no other host."""

import base64
import gzip
import itertools
import json
import os
import re
import subprocess
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote_plus, unquote, urlsplit

import nbformat
import pytest

from course_app.site import api, build, docs, frames, front, syllabus
from course_app.site.execute import Executor
from course_app.site.glossary import EVERYDAY, Words, anchor, linked_in
from course_app.site.mathml import mathml
from course_app.site.page import page_of
from course_chapters import course
from course_lib import __version__
from course_lib.draw.explore import Explorer, as_control, bits, menu, play, slider, toggle
from course_lib.draw.explorer import FOLDER
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from tests.conftest import cell, notebook
from tests.patience import patience
from tests.tables import each_alone, each_of

LIMIT = 1_500_000  # bytes of a page and of all that it loads, before frames
PICTURE = (
    '<img alt="A ring of four ranks." width="10" height="20" src="data:image/svg+xml;base64,'
    + base64.b64encode(b"<svg>\n<g/>\n</svg>").decode()
    + '" style="max-width:100%"><style>[data-jp-theme-light="false"] img{color-scheme:dark}</style>'
)


# --- formulas --------------------------------------------------------------------------------------


def test_every_formula_of_the_course_becomes_mathml_without_a_leftover_command():
    found = 0
    for path in (ROOT / "notebooks").glob("*/*.ipynb"):
        for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(one["source"]) if one["cell_type"] == "markdown" else ""
            for formula in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL):
                made = mathml(formula, display=True)
                assert "\\" not in made.split("<annotation")[0], f"{one['id']}: {made}"
                found += 1
    assert found > 40


@each_of(
    "formula, shown",
    (r"\mathcal L", "<mi>ℒ</mi>"),
    (r"\mathcal G", "<mi>𝒢</mi>"),
    (r"\mathbb E", "<mi>𝔼</mi>"),
    (r"\lVert g\rVert", 'stretchy="false"'),
    ("a/b", '<mo lspace="0" rspace="0">/</mo>'),
)
def test_letters_and_bars_that_browsers_know_in_one_form_only(formula, shown):
    assert shown in mathml(formula)


def test_the_tex_of_a_formula_is_kept_for_readers_of_it():
    assert '<annotation encoding="application/x-tex">a&lt;b</annotation>' in mathml("a<b")


# --- frames ----------------------------------------------------------------------------------------


def explorer(draw, **controls) -> Explorer:
    made = {name: as_control(name, given) for name, given in controls.items()}
    return Explorer(draw, "A widget.", made, {name: control.start for name, control in made.items()})


def shown(drawn: dict, *setting: int) -> str:
    places = drawn["pictures"][drawn["keys"][",".join(map(str, setting))]]["lines"]
    return "\n".join(drawn["lines"][place] for place in places)


def test_few_settings_are_all_drawn():
    one = explorer(lambda a, b, c: f"{a} {b} {c}", a=slider((1, 2, 3), 2), b=menu(("x", "y")), c=toggle())
    drawn = frames.frames(one)
    assert len(drawn["keys"]) == 12 == len(drawn["pictures"])
    for setting in itertools.product(range(3), range(2), range(2)):
        assert shown(drawn, *setting) == f"{setting[0] + 1} {'xy'[setting[1]]} {bool(setting[2])}"
    assert one.setting == {"a": 2, "b": "x", "c": False}


def test_of_many_settings_each_dial_alone_and_the_film_in_combination():
    wide = explorer(lambda a, b, film: f"{a} {b} {film}", a=slider(range(30)), b=slider(range(5)), film=play(range(20)))
    drawn = frames.frames(wide, most=100)
    assert {f"{a},0,0" for a in range(30)} | {f"0,{b},{film}" for b in range(5) for film in range(20)} == set(
        drawn["keys"]
    )


def test_a_film_has_no_frames_beyond_its_end():
    film = explorer(
        lambda ranks, step: f"{ranks} {step}",
        ranks=slider((2, 4)),
        step=play(range(8), last=lambda now: now["ranks"] - 1),
    )
    assert set(frames.frames(film)["keys"]) == {"0,0", "0,1", "1,0", "1,1", "1,2", "1,3"}


def test_a_control_without_effect_adds_no_picture_and_is_named():
    one = explorer(
        lambda kind, chunks: kind if kind == "a" else f"{kind} {chunks}",
        kind=menu(("a", "b")),
        chunks=slider((1, 2, 3), when=lambda now: now["kind"] == "b"),
    )
    drawn = frames.frames(one)
    assert len(drawn["keys"]) == 6 and len(drawn["pictures"]) == 4
    assert drawn["pictures"][drawn["keys"]["0,2"]]["off"] == [1]
    assert "off" not in drawn["pictures"][drawn["keys"]["1,2"]]


def test_bits_are_dials_of_their_own_and_a_picture_keeps_its_size_and_words():
    drawn = frames.frames(explorer(lambda pattern: PICTURE if pattern == "01" else pattern, pattern=bits("01")))
    assert shown(drawn, 1, 1) == "11"
    assert drawn["pictures"][drawn["keys"]["0,1"]]["size"] == [10, 20] and shown(drawn, 0, 1) == "<svg>\n<g/>\n</svg>"


def test_an_impossible_setting_says_so():
    def draw(ranks):
        if ranks == 3:
            raise ValueError("three ranks do not divide eight heads")
        return "fine"

    assert "Not possible" in shown(frames.frames(explorer(draw, ranks=slider((2, 3)))), 1)


def test_a_widget_for_the_page_writes_its_frames_once(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    one = explorer(lambda a: f"<p>{a}</p>", a=slider((1, 2), label="a < b"))
    text = frames.markup(one)
    (written,) = tmp_path.iterdir()
    name, packed = re.fullmatch(r'courseFrames\("(\w+)","([^"]+)"\)\n', written.read_text()).groups()
    assert written.stem == name and f'data-frames="{name}"' in text and "a &lt; b" in text and "<p>1</p>" in text
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == frames.frames(one)
    before = written.read_bytes()
    frames.markup(one)
    assert written.read_bytes() == before


def test_a_widget_whose_frames_are_heavy_keeps_fewer_combinations(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    wide = explorer(lambda a, b: f"{a} {b}", a=slider(range(12)), b=slider(range(12)))
    for heavy, keys in ((10**6, 144), (10, 23)):
        monkeypatch.setattr(frames, "HEAVY", heavy)
        name = re.search(r'data-frames="(\w+)"', frames.markup(wide))[1]
        packed = (tmp_path / f"{name}.js").read_text().split('"')[3]
        assert len(json.loads(gzip.decompress(base64.b64decode(packed)))["keys"]) == keys


# --- a chapter's cells -----------------------------------------------------------------------------


def test_a_page_has_no_checks_and_no_inputs_that_need_a_kernel(tmp_path):
    html = {"output_type": "display_data", "data": {"text/html": PICTURE}, "metadata": {}}
    link = {"output_type": "display_data", "data": {"text/html": '<a href="../06_x/06_x.ipynb">'}, "metadata": {}}
    button = {
        "output_type": "display_data",
        "data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "(Run this cell.)"},
        "metadata": {},
    }
    warning = {"output_type": "stream", "name": "stderr", "text": "a warning"}
    shows = {**cell("draw()", "shows", "code"), "outputs": [html, link, button, warning]}
    cells = [
        cell("![A ring](figures/ring.svg)", "figure"),
        shows,
        cell("def f(): ...", "write-f", "code", solution=True),
        cell("check('write-f', f)", "write-f-check", "code", grade=True, points=2),
    ]
    page = page_of(nbformat.from_dict(notebook(*cells)), "06_x", tmp_path)
    assert [one.id for one in page.cells] == ["figure", "shows", "write-f", "write-f-run"]
    assert page.cells[0].source == "![A ring](06_x/figures/ring.svg)"
    picture, other = (output.data["text/html"] for output in page.cells[1].outputs)
    address = re.search(r'src="_static/(pictures/\w+\.svg)"', picture)[1]
    assert (tmp_path / address).read_bytes() == b"<svg>\n<g/>\n</svg>"
    assert "<style>" not in picture and 'alt="A ring of four ranks."' in picture and other == '<a href="06_x.html">'
    assert "hide-input" in page.cells[2].metadata.tags and "run.md#chapter-06" in page.cells[3].source
    nbformat.validate(page)


def test_words_of_the_glossary_are_found_once_the_longest_first_and_never_inside_words():
    words, seen = Words(course.glossary()), set()
    parts = list(words.parts("Data parallel ranks; a rank, a prank, all-gathers, all-gather.", seen))
    assert [(text, term.term) for text, term in parts if term] == [
        ("Data parallel", "data parallel"),
        ("ranks", "rank"),
        ("all-gathers", "all-gather"),
    ]
    assert "".join(text for text, _ in parts) == "Data parallel ranks; a rank, a prank, all-gathers, all-gather."
    assert not [term for _, term in words.parts("rank", seen) if term]


def test_an_ordinary_word_that_reads_like_a_term_is_not_linked():
    words = Words(course.glossary())
    parts = list(words.parts("At step zero, zeros fill the state; ZeRO shards it, and a higher MFU follows.", set()))
    assert [text for text, term in parts if term] == ["ZeRO", "shards", "MFU"]
    assert "evidence" in linked_in("15", course.glossary()) and "evidence" not in linked_in("09", course.glossary())
    assert set(EVERYDAY) <= set(course.glossary())


# --- running a chapter -----------------------------------------------------------------------------


def book(folder: Path, *sources: tuple[str, str]) -> Path:
    """A notebook with these cells, each an id and its code."""
    path = folder / "06_small.ipynb"
    path.write_text(json.dumps(notebook(*(cell(code, name, "code") for name, code in sources))), encoding="utf-8")
    return path


def test_a_cell_that_fails_is_named(tmp_path):
    path = book(tmp_path, ("fine", "print(1)"), ("ring-picture", "raise ValueError('three ranks')"))
    with pytest.raises(Trouble, match="chapter 06 .* cell 'ring-picture' raised ValueError: three ranks") as raised:
        Executor({}).run(path)
    assert "./course test 06" in str(raised.value)


def test_a_cell_that_ends_its_kernel_is_named(tmp_path):
    with pytest.raises(Trouble, match="cell 'too-large' ended its kernel"):
        Executor({}).run(book(tmp_path, ("too-large", "import os; os._exit(1)")))


def test_chapters_that_are_stopped_end_at_once(tmp_path):
    executor, began = Executor({}), tmp_path / "began"
    path = book(tmp_path, ("long", f"open({str(began)!r}, 'w'); import time; time.sleep(200)"))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(executor.run, path)
        while not began.exists():
            assert not running.done()
            time.sleep(0.05)
        executor.stop()
        with pytest.raises(Trouble):
            running.result(timeout=patience(60))
    with pytest.raises(Trouble):  # one that begins later does not run its first cell either
        executor.run(book(tmp_path, ("later", "raise SystemExit")))


# --- weeks -----------------------------------------------------------------------------------------


@each_of("count", [1, 2, 3, 4, 6])
def test_no_other_division_has_a_shorter_longest_week(count):
    minutes = {"00": 30, "01": 95, "02": 20, "03": 110, "04": 60, "05": 45}
    found = syllabus.weeks(minutes, count)
    longest = max(sum(minutes[name] for name in week) for week in found)
    assert [name for week in found for name in week] == list(minutes) and len(found) == count
    for cuts in itertools.combinations(range(1, 6), count - 1):
        edges = (0, *cuts, 6)
        assert longest <= max(sum(list(minutes.values())[a:b]) for a, b in itertools.pairwise(edges))


def test_more_weeks_than_chapters_are_refused():
    with pytest.raises(ValueError, match="2 chapters do not fill 3 weeks"):
        syllabus.weeks({"00": 1, "01": 2}, 3)


def test_every_chapter_has_its_week_in_both_terms():
    for count in syllabus.TERMS:
        assert re.findall(r"(?<=[|,] )\d\d(?= [a-z])", syllabus.table(count)) == list(syllabus.minutes())


def test_the_repositorys_own_pages_show_the_course_as_it_is_now():
    old = [path.name for path, text in docs.pages().items() if path.read_text(encoding="utf-8") != text]
    assert not old, f"{old}: run ./course release"


# --- one chapter as a page -------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page links to, loads and names."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.ids, self.texts = set(), set(), set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        loaded = given.get("href") if tag == "link" and given.get("rel") == "stylesheet" else None
        self.loads |= {address for address in (given.get("src"), loaded) if address}

    def handle_data(self, data):
        self.texts.append(data)


def broken_links(folder: Path) -> list[str]:
    """Links between pages whose page or place does not exist, and files that a page loads and that are missing."""
    pages = {path.name: Page(path) for path in folder.glob("*.html")}
    wrong = []
    for name, page in pages.items():
        for address in page.links | page.loads:
            parts = urlsplit(address)
            if parts.scheme or address.startswith("#") and not parts.fragment:
                continue
            target = unquote(parts.path) or name
            if (
                not (folder / target).is_file()
                or parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].ids
            ):
                wrong.append(f"{name}: {address}")
    return sorted(wrong)


def weight(folder: Path, name: str) -> int:
    """Bytes of a page with all that it loads, frames aside."""
    addresses = {urlsplit(address).path for address in Page(folder / name).loads if "://" not in address}
    fonts = [folder / "_static" / "math.woff2"]
    return sum(path.stat().st_size for path in [folder / name, *fonts, *(folder / one for one in addresses)])


@pytest.fixture(scope="module")
def small_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "out"
    return build.build(folder, ["00"], repository="someone/course", packed=True, say=lambda _: None)


def test_one_chapter_becomes_a_page_without_warnings(small_site):
    assert small_site.warnings == () and small_site.frame_bytes > 0
    page = Page(small_site.folder / "00_start_here.html")
    text = " ".join(page.texts)
    assert "NotImplementedError" in text and "Not answered yet" not in text and "(Run this cell" not in text
    assert any(address.startswith("glossary.html#term-") for address in page.links)
    assert "run.html#chapter-00" in page.links
    for host in ("colab.research.google.com", "codespaces.new", "mybinder.org"):
        for name in ("index", "00_start_here", "run"):
            assert any(host in link for link in Page(small_site.folder / f"{name}.html").links), (host, name)


def test_the_start_page_moves_says_what_one_learns_and_offers_all_pages(small_site):
    start = Page(small_site.folder / "index.html")
    (moving,) = [address for address in start.loads if "ring_moving" in address]
    assert "@keyframes" in (small_site.folder / moving).read_text(encoding="utf-8")
    assert "What you will be able to do" in start.texts and front.ZIP in start.links
    with zipfile.ZipFile(small_site.folder / front.ZIP) as packed:
        names = {name.partition("/")[2] for name in packed.namelist()}
    assert {"index.html", "00_start_here.html", "searchindex.js", moving} <= names and front.ZIP not in names


def test_no_link_is_broken_and_nothing_is_loaded_from_another_host(small_site):
    assert broken_links(small_site.folder) == []
    for path in small_site.folder.glob("*.html"):
        assert not [address for address in Page(path).loads if urlsplit(address).netloc], path.name
    for path in small_site.folder.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")), path.name


def test_a_page_is_light_before_its_frames(small_site):
    for path in small_site.folder.glob("*.html"):
        assert weight(small_site.folder, path.name) <= LIMIT, path.name


def test_search_knows_the_words_of_a_chapter(small_site):
    index = (small_site.folder / "searchindex.js").read_text(encoding="utf-8")
    assert "00_start_here" in index and '"gpu"' in index.lower()
    assert not re.search(r'"(frac|mathrm|cdot)":', index)  # formulas are not words


@pytest.mark.browser
def test_a_phone_shows_whole_pictures_and_enlarges_them_and_no_page_scrolls_sideways(small_site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for path in sorted(small_site.folder.rglob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path.name
        beyond = "all => all.filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.alt)"
        assert page.locator("article img").evaluate_all(beyond) == [], path.name
    page.goto((small_site.folder / "00_start_here.html").as_uri())
    box = page.locator("article .course-picture:has(> img)").first
    assert box.evaluate("one => one.scrollWidth - one.clientWidth") <= 1
    box.locator("img").click()
    assert box.evaluate("one => one.scrollLeft") > 0
    box.locator("img").click()
    assert box.evaluate("one => one.scrollWidth - one.clientWidth") <= 1
    page.close()


@pytest.mark.browser
@each_of(
    "question, title",
    [("What is a ring all-reduce?", "Start here"), ("a token around the ring", "> Exercise (more): A token around")],
)
def test_search_answers_a_question_in_plain_words(small_site, browser, question, title):
    page = browser.new_page()
    page.goto(f"{(small_site.folder / 'search.html').as_uri()}?q={quote_plus(question)}")
    page.locator("#search-results li a", has_text=title).first.wait_for()
    page.close()


def test_glossary_and_sources_are_whole(small_site):
    terms = Page(small_site.folder / "glossary.html")
    assert {anchor(term) for term in course.glossary()} <= terms.ids
    listed = Page(small_site.folder / "sources.html").links
    from course_lib.estimate import facts

    assert {one.url for one in facts.references().values() if one.url} <= listed


@each_alone(
    "said, written",
    ("`x` of a_b, *all* of **them**", r"``x`` of a\_b, *all* of **them**"),
    ("``two`` |ranks| 2 * 3", r"``two`` \|ranks\| 2 \* 3"),
    ("Alias for field number 3", ""),
)
def test_a_docstring_becomes_restructured_text(said, written):
    lines = [said]
    api.restructured(None, "function", "name", None, None, lines)
    assert lines == [written]


def test_the_librarys_pages_have_each_module_that_a_notebook_imports_and_each_name_once():
    pages = api.pages()
    offered = api.modules()
    assert set(pages) == {f"api/{name}" for name in ("index", *api.ROOMS)} and len(offered) > 30
    everything = "\n".join(pages.values())
    for module in offered:
        assert everything.count(f".. automodule:: {module}\n") == 1, module
    assert "simulate" in pages["api/cluster"] and "ring_all_reduce" in pages["api/cluster"]
    assert "one_f_one_b" in pages["api/parallel"] and "Mapping" not in everything


@pytest.mark.slower
def test_the_librarys_pages_show_signatures_and_docstrings(tmp_path):
    source = tmp_path / "source"
    (source / "_static").mkdir(parents=True)
    for style in build.STATIC.iterdir():
        (source / "_static" / style.name).write_bytes(style.read_bytes())
    (source / "index.md").write_text("# Rooms\n\n```{toctree}\ncluster\n```\n")
    (source / "cluster.md").write_text(api.pages()["api/cluster"])
    assert build._sphinx(source, tmp_path / "html", tmp_path / "trees", "") == []
    page = (tmp_path / "html" / "cluster.html").read_text(encoding="utf-8")
    assert 'id="course_lib.cluster.simulate"' in page and "adversary" in page and "messages" in page


def test_the_packages_of_a_release_are_refused_under_another_versions_tag():
    done = subprocess.run([ROOT / ".ci" / "package", "v0.0.1"], capture_output=True, text=True)
    assert done.returncode == 1 and f"the version is {__version__}" in done.stderr


def test_workflows_run_what_is_there_with_pinned_actions_and_few_rights():
    import yaml

    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        flow = yaml.safe_load(text)
        assert flow["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in flow["jobs"].values())
        for step in (step for job in flow["jobs"].values() for step in job["steps"]):
            command = step.get("run", "./course").split()[0]
            known = command in ("python", "mv", "docker", "echo") or os.access(ROOT / command, os.X_OK)
            assert ("uses" in step) != ("run" in step) and known, command
        for used in re.findall(r"uses: (.+)", text):  # a tag can be moved to other code, a commit cannot
            assert re.fullmatch(r"(actions|pypa)/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


def test_a_folder_with_other_things_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(Trouble, match="is not a site"):
        build.build(tmp_path, ["01"])
    assert (tmp_path / "thesis.txt").exists()


def test_a_repository_that_is_not_owner_and_name_is_refused_before_any_chapter_runs(tmp_path):
    with pytest.raises(Trouble, match="'course' is not a repository"):
        build.build(tmp_path / "site", ["01"], repository="course")


def test_an_unknown_chapter_is_named():
    with pytest.raises(Trouble, match="no released chapter 77"):
        build.released(["77"])


def test_missing_tools_are_said_with_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(Trouble, match="Sphinx, MyST-NB and Furo"):
        build.require()
