"""A chapter that is open in a browser: run it, read what it shows, move its controls, write into its cells.

`page` is a page of playwright throughout. Cells are named by their ids in the notebook, controls by their labels.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from playwright.sync_api import Browser, JSHandle, Locator, Mouse, Page, TimeoutError, ViewportSize

from bench.lab import PATIENCE, THEMES, WINDOW

# ms between two looks at the page: to look at every frame, as is usual, takes more of a core than what is waited for
_EVERY = 50

_READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  return Boolean(panel?.context?.isReady && panel.sessionContext.session?.kernel
                 && panel.sessionContext.kernelDisplayStatus === 'idle');
}"""
_OPEN = "async path => { await jupyterapp.commands.execute('docmanager:open', {path}); }"
_CLOSE = """async () => {
  const panel = jupyterapp.shell.currentWidget;
  await panel.sessionContext.shutdown();
  panel.dispose();  // closing would ask whether to save
}"""
# Every cell's element carries its id, so that a test names cells as the notebook does.
_NAME_CELLS = """() => jupyterapp.shell.currentWidget.content.widgets.forEach(
  cell => { cell.node.dataset.cell = cell.model.id; })"""
# -1 when every code cell has run, else how many have; false while these are not more than before.
_MORE_RAN = """before => {
  const cells = jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model)
    .filter(model => model.type === 'code' && model.sharedModel.source.trim());
  const ran = cells.filter(model => model.executionCount !== null && model.executionState === 'idle').length;
  return ran === cells.length ? -1 : ran > before ? ran : false;
}"""
_RAN_AGAIN = """([id, before]) => {
  const cell = jupyterapp.shell.currentWidget.content.widgets.find(each => each.model.id === id).model;
  return cell.executionCount !== null && cell.executionCount !== before && cell.executionState === 'idle';
}"""
_COUNT = "id => jupyterapp.shell.currentWidget.content.widgets.find(each => each.model.id === id).model.executionCount"
_SOURCE = (
    "id => jupyterapp.shell.currentWidget.content.widgets.find(each => each.model.id === id).model.sharedModel.source"
)
_ERRORS = """() => jupyterapp.shell.currentWidget.content.widgets.flatMap(cell =>
  (cell.model.sharedModel.outputs ?? []).filter(out => out.output_type === 'error' || out.name === 'stderr')
    .map(out => `${cell.model.id}: ${out.ename ?? out.text} ${out.evalue ?? ''}`))"""
# A picture is what a cell's first display shows: an image, or HTML with or without one.
_PICTURE = """cell => cell.querySelector('.jp-OutputArea-output.jp-RenderedHTMLCommon')?.innerHTML ?? ''"""
_IS_ON = "control => !control.querySelector('[disabled]')"
_HAS_WORDS = """([cell, words]) => [...cell.querySelectorAll('.jp-OutputArea-output')]
  .some(output => output.textContent.replace(/\\s+/g, ' ').includes(words))"""
_SHOWS = """([cell, value]) => [...cell.querySelectorAll('.jp-OutputArea-executeResult :is(pre, span[hidden])')]
  .some(output => Number(output.textContent) === value)"""
_CONTRAST = """cell => {
  const parse = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith('color(') ? 255 : 1;
    return [...found.slice(0, 3).map(part => part * scale), found[3] ?? 1];
  };
  const over = (top, ground) => [0, 1, 2].map(i => top[i] * top[3] + ground[i] * (1 - top[3])).concat(1);
  const luminance = color => {
    const [r, g, b] = color.map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = node => {
    if (!node) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(node.parentElement));
  };
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !node.closest('.jp-OutputArea-output')
        || node.closest('style, mjx-assistive-mml, .jp-RenderedMarkdown pre') || !node.checkVisibility()) continue;
    const below = ground(node), ink = over(parse(getComputedStyle(node).color), below);
    const [one, two] = [luminance(ink), luminance(below)].sort((a, b) => b - a);
    found.push([texts.currentNode.textContent.trim().slice(0, 60), (one + 0.05) / (two + 0.05)]);
  }
  return found;
}"""
_CHANGED_OR_OFF = """([cell, before, control]) => {
  const now = cell.querySelector('.jp-OutputArea-output.jp-RenderedHTMLCommon')?.innerHTML ?? '';
  return now !== '' && now !== before ? 'changed' : control.querySelector('[disabled]') ? 'off' : false;
}"""
_IS_PICTURE = (
    """([cell, asked]) => cell.querySelector('.jp-OutputArea-output.jp-RenderedHTMLCommon')?.innerHTML === asked"""
)
_REACHED = """([handle, place]) => Number(handle.getAttribute('aria-valuenow')) >= place"""
_CHANGED = """([cell, before]) => {
  const now = cell.querySelector('.jp-OutputArea-output.jp-RenderedHTMLCommon')?.innerHTML ?? '';
  return now !== '' && now !== before;
}"""


@dataclass(frozen=True, slots=True)
class ChapterPage:
    """An open chapter."""

    page: Page
    Late = TimeoutError  # what waiting in vain raises

    # ---------------------------------------------------------------------------------------- the chapter as a whole

    def run_all(self) -> None:
        """Run → Run All Cells, and wait until every cell has run; `Late` if one cell takes longer than `PATIENCE`
        seconds."""
        self.menu("Run", "Run All Cells")
        ran = 0
        while ran >= 0:
            ran = self.wait(_MORE_RAN, ran).json_value()

    def menu(self, *path: str) -> None:
        """Click through the menu bar: ("Run", "Run All Cells")."""
        self.page.locator("#jp-MainMenu .lm-MenuBar-itemLabel", has_text=path[0]).click()
        for words in path[1:]:
            self.page.locator(".lm-Menu-itemLabel").get_by_text(words, exact=True).click()

    def theme(self, name: str) -> None:
        """Settings → Theme: "light" or "dark"."""
        is_light = "true" if name == "light" else "false"
        if name != self.themes()[0]:
            self.menu("Settings", "Theme", THEMES[name])
        self.page.wait_for_selector(f"body[data-jp-theme-light={is_light}]", state="attached")

    def themes(self) -> list[str]:
        """Both themes, the present one first: a change draws the whole page anew."""
        is_light = self.page.locator("body").get_attribute("data-jp-theme-light") == "true"
        return ["light", "dark"] if is_light else ["dark", "light"]

    def wait_for_kernel(self) -> None:
        """Wait until the notebook is open and its kernel idle; name its cells."""
        self.wait(_READY)
        self.page.evaluate(_NAME_CELLS)

    def turn_to(self, path: str) -> None:
        """Close this chapter and end its kernel, and open the one at a path of the work folder, in the light theme."""
        self.page.evaluate(_CLOSE)
        self.theme("light")
        self.page.evaluate(_OPEN, path)
        self.wait_for_kernel()

    def errors(self) -> list[str]:
        """What cells show as an error or on stderr."""
        return self.page.evaluate(_ERRORS)

    def wait(self, until: str, given: object = None, seconds: float = PATIENCE) -> JSHandle:
        """Wait until a function of the page's says something true, and return that; `Late` if it does not."""
        return self.page.wait_for_function(until, arg=given, timeout=1000 * seconds, polling=_EVERY)

    def cells(self, kind: str = "code") -> list[str]:
        """Ids of the cells of a kind, in order."""
        return self.page.evaluate(
            "kind => jupyterapp.shell.currentWidget.content.widgets.map(each => each.model)"
            ".filter(model => model.type === kind).map(model => model.id)",
            kind,
        )

    # ---------------------------------------------------------------------------------------- one cell

    def cell(self, id: str) -> Locator:
        """The element of a cell."""
        return self.page.locator(f'[data-cell="{id}"]')

    def show(self, id: str) -> Locator:
        """The element of a cell, brought to the top of the window."""
        found = self.cell(id)
        found.evaluate("cell => cell.scrollIntoView({block: 'start'})")
        return found

    def write(self, id: str, source: str) -> None:
        """Replace the text of a cell, in its editor."""
        self.show(id)
        self.cell(id).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(source)
        written = self.page.evaluate(_SOURCE, id)
        assert written == source, f"{id}: the editor made {written!r} of {source!r}"

    def run(self, id: str) -> None:
        """Run a cell with Ctrl+Enter and wait for its end."""
        before = self.page.evaluate(_COUNT, id)
        self.cell(id).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self.wait(_RAN_AGAIN, [id, before])

    def picture(self, id: str) -> str:
        """What the first display of a cell shows, as HTML with its image's bytes."""
        return self.cell(id).evaluate(_PICTURE)

    def wait_for_another(self, id: str, before: str) -> str:
        """Wait until a cell's picture is another one than `before`, and return it."""
        self.wait(_CHANGED, [self.cell(id).element_handle(), before])
        return self.picture(id)

    def wait_for_picture(self, id: str, picture: str) -> None:
        """Wait until a cell's picture is this one."""
        self.wait(_IS_PICTURE, [self.cell(id).element_handle(), picture])

    def wake(self, control: "Control") -> None:
        """Move the other controls of a widget until one that is greyed out is on; StopIteration if nothing does
        that."""
        moves = self._moves(control.cell)
        while not control.is_on:
            next(moves)()
            with suppress(TimeoutError):
                self.wait(_IS_ON, control.root.element_handle(), seconds=1.5)

    def _moves(self, id: str) -> Iterator[Callable[[], None]]:
        """What may switch on a greyed-out control: each slider to its end, each entry of each menu."""
        for slider in self.controls(id, "slider"):
            if slider.is_on:
                yield partial(slider.drag_to, slider.count() - 1)
        for menu in self.controls(id, "dropdown"):
            if menu.is_on:
                yield from (menu.change for _ in range(menu.count()))

    def wait_for_text(self, id: str, words: str) -> None:
        """Wait until the output of a cell holds these words."""
        self.wait(_HAS_WORDS, [self.cell(id).element_handle(), words])

    def wait_for_result(self, id: str, value: float) -> None:
        """Wait until a cell's last expression shows this number."""
        self.wait(_SHOWS, [self.cell(id).element_handle(), value])

    def result(self, id: str) -> str:
        """The value of a cell's last expression, as text."""
        return (
            self.cell(id).locator(".jp-OutputArea-executeResult").locator("pre, span[hidden]").text_content() or ""
        ).strip()

    def contrast(self, id: str) -> list[tuple[str, float]]:
        """The texts in a cell's outputs, each with the ratio of its luminance to its ground's (WCAG 2.2).

        Code in Markdown is left out: its colours are the theme's own.
        """
        return [tuple(each) for each in self.cell(id).evaluate(_CONTRAST)]

    def beside(self, button: Locator) -> "Control":
        """The slider in the row of a play button."""
        row = button.locator(
            "xpath=ancestor::*[contains(@class, 'widget-hbox')][.//*[contains(@class, 'widget-slider')]][1]"
        )
        id = button.locator("xpath=ancestor::*[@data-cell]").get_attribute("data-cell")
        return Control(self, str(id), "slider", row.locator(".widget-slider"))

    def controls(self, id: str, kind: str) -> list["Control"]:
        """The controls of a kind ("slider", "dropdown", "checkbox", "text") in the output of a cell."""
        found = self.cell(id).locator(f".jp-OutputArea-output .widget-{kind}")
        return [Control(self, id, kind, found.nth(place)) for place in range(found.count())]


@dataclass(frozen=True, slots=True)
class Control:
    """A control under a picture."""

    chapter: ChapterPage
    cell: str
    kind: str
    root: Locator  # its locator

    @property
    def label(self) -> str:
        """The words before it, or after a check box."""
        return (self.root.locator(".widget-label, .widget-label-basic").first.text_content() or "").strip()

    @property
    def value(self) -> str:
        """What a slider says it stands at; nothing for other controls."""
        said = self.root.locator(".widget-readout")
        return (said.text_content() or "").strip() if said.count() else ""

    @property
    def handle(self) -> Locator:
        """The part of a slider that is dragged."""
        return self.root.locator(".noUi-handle")

    @property
    def is_on(self) -> bool:
        """Whether it changes anything at the present setting; a control that does not is greyed out."""
        return self.root.locator("[disabled]").count() == 0

    def change(self) -> None:
        """Choose a menu's next entry, turn a check box, or type another word."""
        if self.kind == "dropdown":
            chosen = self.root.locator("select").evaluate("menu => menu.selectedIndex")
            self.root.locator("select").select_option(index=(chosen + 1) % self.count())
        elif self.kind == "checkbox":
            self.root.locator("input").click()
        else:
            self.root.locator("input").fill("gradient")

    def redraw(self, move: Callable[[], None]) -> str:
        """Make a move that shall change the picture, and return the new one; TimeoutError if it stays the same.

        A control may be greyed out a moment after the picture that it no longer changes; it is then switched on again.
        """
        for _ in range(3):
            self.chapter.wake(self)
            before, cell = self.chapter.picture(self.cell), self.chapter.cell(self.cell).element_handle()
            move()
            root = self.root.element_handle()
            try:
                found = self.chapter.wait(_CHANGED_OR_OFF, [cell, before, root])
            except TimeoutError as late:
                raise TimeoutError(
                    f"{self.cell}: {self.label}, now at {self.value!r}, left the picture as it was."
                ) from late
            if found.json_value() == "changed":
                return self.chapter.picture(self.cell)
        raise TimeoutError(f"{self.cell}: {self.label} is switched off again and again.")

    def count(self) -> int:
        """How many values a slider or a menu has."""
        if self.kind == "dropdown":
            return self.root.locator("option").count()
        return 1 + int(float(str(self.handle.get_attribute("aria-valuemax"))))

    def place(self) -> int:
        """Which of its values a slider stands at, from 0."""
        return round(float(str(self.handle.get_attribute("aria-valuenow"))))

    def wait_for_place(self, place: int) -> None:
        """Wait until a slider stands at one of its values or behind it."""
        self.chapter.wait(_REACHED, [self.handle.element_handle(), place])

    def where(self, place: int) -> tuple[float, float]:
        """Where on the window the handle stands at a value."""
        base = self.root.locator(".noUi-base").bounding_box()
        assert base
        share = place / max(self.count() - 1, 1)
        return base["x"] + share * base["width"], base["y"] + base["height"] / 2

    @contextmanager
    def held(self) -> Iterator[Mouse]:
        """The mouse, with the button down on the handle."""
        mouse = self.chapter.page.mouse
        for _ in range(5):
            self.handle.hover()  # scrolls there and waits until the page stands still
            mouse.down()
            if self.root.locator(".noUi-active").count():
                break
            mouse.up()  # cells above have got their height meanwhile, and the handle is elsewhere
        try:
            yield mouse
        finally:
            mouse.up()

    def drag_to(self, place: int) -> None:
        """Drag a slider's handle to one of its values, in one move, so that one picture answers it."""
        with self.held() as mouse:
            mouse.move(*self.where(place))


def open_chapter(
    browser: Browser, address: str, theme: str = "light", window: ViewportSize = WINDOW, scale: float = 1.0
) -> ChapterPage:
    """The chapter at an address, in a window of its own, with its kernel idle; `scale`: pixels of a picture per
    pixel."""
    opened = ChapterPage(browser.new_page(viewport=window, device_scale_factor=scale))
    opened.page.goto(address)
    opened.wait_for_kernel()
    opened.theme(theme)
    return opened
