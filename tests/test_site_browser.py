"""The whole site in a real browser, with every other host refused: widgets, keyboard, narrow screens, search,
accessibility.

With COURSE_SITE=folder a site that is already built is tested. With COURSE_SHOTS=folder, screenshots are made to be
looked at.
"""

import os
import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from course_app.site import build
from tests.patience import patience
from tests.rotation import CHAPTERS
from tests.test_site import LIMIT, broken_links, weight

pytestmark = [pytest.mark.browser, pytest.mark.whole]

MINUTES = 10  # for the whole build on two cores
SCREENS = {"desktop": {"width": 1400, "height": 1000}, "phone": {"width": 390, "height": 844}}
AROUND = ("index", "run", "syllabus", "glossary", "sources", "search")

# Words that are drawn with fewer than 12 pixels, in formulas with fewer than 9: they have indices of indices. Pictures
# are
# images and are not looked into.
SMALL_TEXT = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = [];
  while (texts.nextNode()) {
    const words = texts.currentNode.textContent.trim(), parent = texts.currentNode.parentElement;
    if (!words || !parent.checkVisibility() || parent.closest('script, style, annotation, svg')) continue;
    const place = parent.getBoundingClientRect(), least = parent.closest('math') ? 9 : 12;
    if (place.width >= 1 && place.height >= 1 && parseFloat(getComputedStyle(parent).fontSize) < least - 0.05)
      small.push(`${parent.localName}: ${words.slice(0, 40)}`);
  }
  return small;
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole site."""
    if given := os.environ.get("COURSE_SITE"):
        return Path(given)
    folder = tmp_path_factory.mktemp("site") / "out"
    began = time.monotonic()
    made = build.build(folder, say=lambda _: None)
    assert made.warnings == ()
    assert time.monotonic() - began < patience(60 * MINUTES)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Visit:
    """One page open on one screen in one color scheme; what it asked of other hosts, and what went wrong."""

    def __init__(self, browser: Browser, address: str, screen: str = "desktop", scheme: str = "light") -> None:
        self.address, self.elsewhere, self.errors = address, [], []
        self.context = browser.new_context(viewport=SCREENS[screen], color_scheme=scheme, reduced_motion="reduce")
        self.context.route("**/*", self._refuse_other_hosts)
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _refuse_other_hosts(self, route: Route) -> None:
        asked = route.request.url
        if asked.startswith(("blob:", "data:")) or asked.startswith(self.address):
            route.continue_()
        else:
            self.elsewhere.append(asked)
            route.abort()

    def open(self, name: str) -> Page:
        self.page.goto(f"{self.address}/{name}.html")
        return self.page

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def chapters(site: Path) -> list[str]:
    return sorted(path.stem for path in site.glob("[0-9][0-9]_*.html"))


def shoot(page: Page, name: str) -> None:
    if folder := os.environ.get("COURSE_SHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/site-{name}.png")


def test_every_chapter_has_its_page_light_and_without_a_broken_link(site):
    assert [name[:2] for name in chapters(site)] == list(CHAPTERS)
    assert broken_links(site) == []
    assert not {path.name: size for path in site.glob("*.html") if (size := weight(site, path.name)) > LIMIT}


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_fit_their_screen_and_ask_no_other_host(site, address, browser, screen):
    with Visit(browser, address, screen) as visit:
        for name in (*AROUND, *chapters(site)):
            page = visit.open(name)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= SCREENS[screen]["width"], f"{name} is {wide} pixels wide"
            broken = page.evaluate(
                """async () => {
                  const images = [...document.images];
                  images.forEach(image => { image.loading = 'eager'; });
                  await Promise.all(images.map(image => image.decode().catch(() => {})));
                  return images.filter(image => image.naturalWidth === 0).map(image => image.src);
                }"""
            )
            assert broken == [], name
            assert page.evaluate(SMALL_TEXT) == [], name
        assert visit.elsewhere == [] and visit.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site, address, browser, scheme):
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for screen in SCREENS:
        with Visit(browser, address, screen, scheme) as visit:
            for name in (*AROUND, *chapters(site)):
                page = visit.open(name)
                page.wait_for_timeout(100)
                for one in Axe().run(page).response["violations"]:
                    if one["impact"] in ("serious", "critical"):
                        nodes = "; ".join(node["html"][:120] for node in one["nodes"][:3])
                        found.append(f"{name} on a {screen}: {one['id']}, {len(one['nodes'])} times: {nodes}")
                if name in ("index", "10_pipeline_parallel"):
                    shoot(page, f"{name}-{screen}-{scheme}")
    assert not found, "\n".join(found)


def test_every_widget_moves_by_keyboard_and_shows_another_picture(site, address, browser):
    still, moved = [], 0
    with Visit(browser, address) as visit:
        for name in chapters(site):
            page = visit.open(name)
            for widget in page.locator(".course-frames").all():
                changed = False
                for dial in widget.locator("input[type=range], select, .bit, input[type=checkbox]").all():
                    if not dial.is_enabled():
                        continue
                    before = looks(widget)
                    dial.focus()
                    press(page, dial)
                    changed |= wait_for_change(page, widget, before)
                    if changed:
                        break
                moved += changed
                if not changed and widget.locator("[data-dial]").count():
                    still.append(name)
        assert visit.errors == [] and visit.elsewhere == []
    assert still == [] and moved >= 2 * len(CHAPTERS)


def looks(widget: Locator) -> str:
    return widget.locator(".course-picture").evaluate("one => one.querySelector(':scope > img')?.alt + one.innerHTML")


def press(page: Page, dial: Locator) -> None:
    kind = dial.get_attribute("data-kind")
    if kind in ("bit", "toggle"):
        page.keyboard.press("Space")
    elif kind == "menu":
        page.keyboard.press("ArrowDown")
    else:
        page.keyboard.press("ArrowLeft" if dial.input_value() == dial.get_attribute("max") else "ArrowRight")


def wait_for_change(page: Page, widget: Locator, before: str) -> bool:
    until = time.monotonic() + patience(2)
    while (same := looks(widget) == before) and time.monotonic() < until:
        page.wait_for_timeout(50)
    return not same


def test_dials_that_cannot_be_combined_move_back_and_say_so(address, browser):
    with Visit(browser, address) as visit:
        page = visit.open("10_pipeline_parallel")
        widget = page.locator(".course-frames").first
        ranks = widget.get_by_label("ranks", exact=True)
        message = widget.get_by_label("message", exact=True)
        ranks.focus()
        page.keyboard.press("ArrowRight")
        widget.locator("img[src^=blob]").wait_for()
        assert ranks.input_value() == "3" and widget.locator(".course-said").text_content() == ""
        message.focus()
        page.keyboard.press("ArrowRight")
        expect(widget.locator(".course-said")).to_contain_text("“ranks” moved back")
        assert message.input_value() == "1" and ranks.input_value() == ranks.get_attribute("data-start")


def test_a_film_plays_to_its_end_and_stops(address, browser):
    with Visit(browser, address) as visit:
        page = visit.open("06_collectives")
        widget = page.locator(".course-frames:has(.play)").first
        button, dial = widget.locator(".play").first, widget.locator("[data-kind=play]").first
        pressed = int(dial.get_attribute("data-start"))
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("([dial, from]) => Number(dial.value) > from + 1", arg=[dial.element_handle(), pressed])
        page.keyboard.press("Enter")
        page.wait_for_timeout(200)
        stopped = dial.input_value()
        page.wait_for_timeout(1500)
        assert dial.input_value() == stopped and visit.errors == []


def test_search_finds_a_term_without_another_host(address, browser):
    with Visit(browser, address) as visit:
        page = visit.open("index")
        box = page.get_by_placeholder("Search").first
        box.fill("all-to-all")
        box.press("Enter")
        page.wait_for_url(re.compile("search.html"))
        page.locator(".search a").first.wait_for()
        found = page.locator("#search-results li a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        assert any("12_expert_parallel" in one for one in found)
        assert visit.elsewhere == [] and visit.errors == []


def test_a_phone_reaches_all_chapters_by_keyboard(address, browser):
    with Visit(browser, address, "phone") as visit:
        page = visit.open("00_start_here")
        button = page.get_by_role("button", name="Chapters", exact=True)
        assert button.get_attribute("aria-expanded") == "false"
        button.focus()
        page.keyboard.press("Enter")
        link = page.locator(".sidebar-tree").get_by_role("link", name=re.compile("^06 "))
        link.wait_for()
        page.wait_for_function("link => link.getBoundingClientRect().x >= 0", arg=link.element_handle())  # it slides in
        assert button.get_attribute("aria-expanded") == "true"
        shoot(page, "phone-drawer")
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("06_collectives"))


def test_without_scripts_a_page_still_has_its_text_formulas_and_pictures(site, address, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/10_pipeline_parallel.html")
    assert page.locator("math").count() > 20 and page.locator(".course-picture img").count() >= 2
    assert page.locator(".course-dials").first.is_hidden()
    context.close()


def test_a_page_opened_from_a_folder_moves_too(site, browser):
    page = browser.new_page()
    page.goto((site / "10_pipeline_parallel.html").as_uri())
    widget = page.locator(".course-frames").first
    before = looks(widget)
    widget.locator("input[type=range]").first.focus()
    page.keyboard.press("ArrowRight")
    assert wait_for_change(page, widget, before)
    page.close()


def test_a_chapter_leads_to_where_it_can_be_run(site, address, browser):
    with Visit(browser, address) as visit:
        for name in chapters(site):
            page = visit.open(name)
            target = page.locator("a[href^='run.html#']").first.get_attribute("href")
            assert urlsplit(target).fragment == f"chapter-{name[:2]}"
