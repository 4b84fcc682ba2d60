"""Figures: pure, deterministic, with a text alternative, one colour for one thing, readable on any page."""

import base64
import re
import threading
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_chapters.ch01.bars import bars_against_ceiling
from course_lib import draw as figures
from course_lib.cluster.records import Message, Span
from course_lib.draw import curves, palette, style
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate import memory
from course_lib.estimate.units import GB
from tests.tables import each_of

SPANS = [
    Span(rank=0, start=0.0, end=2e-3, kind="forward", label="0"),
    Span(rank=0, start=2e-3, end=3e-3, kind="send", label="to 1"),
    Span(rank=1, start=0.0, end=3e-3, kind="wait"),
    Span(rank=1, start=3e-3, end=7e-3, kind="backward", label="0"),
]
MESSAGES = [Message(src=0, dst=1, nbytes=1024, tag=0, sent=2e-3, arrived=3e-3)]

SVG = "{http://www.w3.org/2000/svg}"

DRAW = {
    "who holds what": lambda: figures.who_holds_what([memory.zero_by_bucket(13e9, 1, 8)] * 8, 80 * GB),
    "who is busy": lambda: figures.who_is_busy(SPANS, MESSAGES),
    "ring": lambda: figures.ring(8, holders=[3], visited=[0, 1, 2], moving=[(2, 3)], values={3: "6"}),
    "wait for": lambda: figures.wait_for([(0, 1, "recv, line 3"), (1, 0, "recv, line 3")]),
    "bars": lambda: bars_against_ceiling({"memory": 2.6, "compute": 0.4}, first="memory"),
}


def texts(figure) -> list[str]:
    """All words that stand in a picture as text."""
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


@each_of("draw", DRAW.values(), ids=DRAW)
def test_a_picture_is_valid_svg_with_its_alternative_inside(draw):
    figure = draw()
    root = ElementTree.fromstring(figures.svg(figure))
    assert root.get("role") == "img"
    assert root.get("aria-label") == " ".join(figure.alt.split())
    assert root[0].tag.endswith("title") and root[0].text == root.get("aria-label")


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_the_same_data_give_the_same_bytes_and_no_date(draw, tmp_path):
    one = figures.save_svg(draw(), tmp_path / "one.svg").read_bytes()
    other = figures.save_svg(draw(), tmp_path / "other.svg").read_bytes()
    assert one == other
    assert b"dc:date" not in one and b"\r" not in one


@each_of("draw", DRAW.values(), ids=DRAW)
def test_a_picture_shows_itself_with_its_alternative_in_the_theme_of_its_page(draw):
    figure = draw()
    page = figure._repr_mimebundle_()["text/html"]
    assert f'alt="{figure.alt.split(".")[0]}' in page.replace("&#x27;", "'").replace("&amp;", "&")
    assert re.search(r'width="\d+" height="\d+"', page)  # so that a redraw does not make the page jump
    inside = base64.b64decode(re.search(r"base64,([^\"]+)", page)[1]).decode()
    assert ElementTree.fromstring(inside).get("role") == "img"
    assert f"fill: {palette.PAPER}" in inside and style.THEMES in inside and "color-scheme:dark" in page


def test_every_neutral_color_has_one_for_dark_pages_that_reads_on_its_background():
    """What is written reads in both themes; areas and lines of a color for a thing keep it."""
    night = palette.NIGHT
    for ink in (palette.INK, palette.SOFT):
        for ground in (palette.PAPER, palette.EMPTY, palette.BEYOND, *palette.PALE.values()):
            assert min(palette.contrast(ink, ground), palette.contrast(night[ink], night[ground])) >= 4.5, (ink, ground)
    for ink, light in palette.NIGHT_WORDS.items():
        assert palette.contrast(light, night[palette.PAPER]) >= 4.5 > palette.contrast(ink, night[palette.PAPER])
    assert not set(night) & {palette.DARK_WORDS, palette.LIGHT_WORDS, *palette.COLOR.values()}
    assert all(f"{what}: {day}" in style.THEMES for day in night for what in ("fill", "stroke"))


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_a_picture_without_alternative_is_refused(empty, tmp_path):
    figure, _ = style.new()
    for use in (figures.svg, figures.page, figures.show, lambda f, alt: figures.save_svg(f, tmp_path / "x.svg", alt)):
        with pytest.raises(ValueError, match="cannot see it"):
            use(figure, empty)


def test_an_alternative_is_escaped():
    figure, _ = style.new()
    page = figures.page(figure, 'more than 2 & "less" <b>')
    assert 'alt="more than 2 &amp; &quot;less&quot; &lt;b&gt;"' in page


def test_without_a_notebook_the_alternative_is_printed(capsys):
    figures.show(DRAW["ring"]())
    assert "Rank 3 has the token" in capsys.readouterr().out


def test_no_picture_is_known_to_pyplot():
    import matplotlib.pyplot as plt

    for draw in DRAW.values():
        draw()
    assert plt.get_fignums() == []


def test_threads_draw_the_same_picture_at_once():
    want, got = figures.svg(DRAW["who is busy"]()), []
    threads = [threading.Thread(target=lambda: got.append(figures.svg(DRAW["who is busy"]()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 3


def test_dollars_are_not_read_as_mathematics():
    figure, axes = style.new()
    style.dress(axes, "$2.00 and $3.00", x="US$", y="$")
    figure.alt = "Money."
    assert "$2.00 and $3.00" in re.sub(r"<[^>]+>", "", figures.svg(figure, outlines=False))


# --- the palette -----------------------------------------------------------------------------------


def test_each_thing_of_the_course_has_a_colour_of_its_own():
    things = ["weights", "grads", "master", "moments", "activations", "communication", "forward", "backward", "idle"]
    assert len({palette.color(thing) for thing in things}) == len(things)


@each_of(
    "word, role",
    ("recv", "communication"),
    ("Send", "communication"),
    ("parameters", "weights"),
    ("wait", "idle"),
    ("optimizer state", "moments"),
    ("saved by autograd", "activations"),
    ("compute", "forward"),
)
def test_other_words_for_a_thing_have_its_colour(word, role):
    assert palette.color(word) == palette.COLOR[role]


@each_of("fill", [*palette.COLOR.values(), palette.EMPTY, palette.PAPER])
def test_words_read_on_every_fill(fill):
    assert palette.contrast(palette.ink_on(fill), fill) >= 4.5


@each_of("ink", [palette.INK, palette.SOFT])
def test_text_reads_on_paper_and_paper_stands_out_from_both_themes(ink):
    assert palette.contrast(ink, palette.PAPER) >= 4.5
    assert palette.contrast(palette.INK, "#111111") < 2  # so ink needs the paper


# --- who holds what --------------------------------------------------------------------------------


def test_the_picture_of_memory_names_what_it_shows_and_its_units():
    said = texts(DRAW["who holds what"]())
    assert "memory held (GB)" in said and "rank" in said
    assert {"weights", "gradients", "master copy", "Adam's two moments"} <= set(said)
    assert any("one device: 80 GB" in text for text in said)


def test_too_much_is_said_in_words_and_in_the_picture():
    figure = figures.who_holds_what([memory.state_by_bucket(70e9)], 80 * GB)
    assert "1.04 TB too much" in texts(figure)
    assert "exceeds the device's 80 GB" in figure.alt
    assert "fits in" in figures.who_holds_what([{"weights": 1 * GB}], 80 * GB).alt


@given(sizes=st.lists(st.floats(0, 1e12), min_size=1, max_size=40))
def test_any_holdings_can_be_drawn_and_the_fullest_rank_is_named(sizes):
    figure = figures.who_holds_what([{"weights": size} for size in sizes])
    assert f"rank {sizes.index(max(sizes))}, holds" in figure.alt


# --- who is busy when ------------------------------------------------------------------------------


def test_a_timeline_has_a_row_for_each_rank_and_its_unit():
    said = texts(DRAW["who is busy"]())
    assert {"rank 0", "rank 1", "time (ms)", "communication", "forward", "backward", "idle"} <= set(said)


def test_idle_time_is_what_is_not_work():
    assert figures.busy_share(SPANS, 2, 7e-3) == pytest.approx((2 + 1 + 4) / 14)
    assert "50 % of their time is idle" in DRAW["who is busy"]().alt
    assert "1 messages" in DRAW["who is busy"]().alt or "1 message" in DRAW["who is busy"]().alt


@each_of("unit, word", [("steps", "time (steps)"), ("s", "time (s)"), (None, "time (ms)")])
def test_time_is_shown_in_the_unit_that_is_asked_for(unit, word):
    assert word in texts(figures.who_is_busy(SPANS, unit=unit))


def test_ranks_without_spans_have_rows():
    assert "rank 3" in texts(figures.who_is_busy(SPANS, ranks=4))
    assert "An empty timeline of 2 ranks" in figures.who_is_busy([], ranks=2).alt


# --- circles ---------------------------------------------------------------------------------------


def test_a_deadlocks_waits_become_edges():
    wait = SimpleNamespace(rank=0, waits_for=(1, 2), kind="send", line="cell In[3], line 5: comm.send(x, 1)")
    figure = figures.wait_for([wait, (1, 0, "recv, line 7")])
    assert {"send, line 5", "recv, line 7"} <= set(texts(figure))
    assert "Rank 0 waits for rank 1 in send, line 5" in figure.alt
    assert "Ranks 0, 1 wait for each other in a cycle" in figure.alt


@given(count=st.integers(2, 12), data=st.data())
def test_ranks_on_a_circle_of_waiting_are_found(count, data):
    length = data.draw(st.integers(2, count))
    ranks = data.draw(st.permutations(range(count)))
    circle = [(ranks[i], ranks[(i + 1) % length]) for i in range(length)]
    tail = [(ranks[i], ranks[0]) for i in range(length, count)]  # they wait, but nobody waits for them
    assert figures.on_a_cycle([*circle, *tail]) == set(ranks[:length])
    assert figures.on_a_cycle([*circle[:-1], *tail]) == set()


@each_of("ranks", [1, 2, 3, 8, 13])
def test_a_ring_of_any_size_can_be_drawn(ranks):
    figure = figures.ring(ranks, holders=[0])
    assert {str(rank) for rank in range(ranks)} <= set(texts(figure))


@each_of(
    "call, words",
    (lambda: figures.ring(0), "at least one"),
    (lambda: figures.wait_for([]), "Deadlock's waits"),
    (lambda: figures.who_holds_what([]), "holdings is empty"),
    (lambda: figures.who_is_busy([]), "no spans"),
)
def test_nothing_to_draw_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# --- bars ------------------------------------------------------------------------------------------


def test_bars_say_their_loads_and_mark_the_first_wall():
    figure = DRAW["bars"]()
    said = texts(figure)
    assert "40 %" in said and any(text.startswith("260 %") for text in said)
    assert any("first" in text for text in said)
    assert (
        figure.alt == "memory 260 % of its budget; compute 40 % of its budget. Over budget: memory. First wall: memory."
    )


def test_a_sheet_counts_in_inches_from_its_lower_left_corner_and_keeps_words_as_they_are():
    sheet = Sheet(2.0, 3.0, "A box & a word.")
    sheet.boxes([(0.5, 1.5, 0.25, 1.0)], "#112233")
    sheet.text(1.0, 0.5, "a < b & c", ha="right")
    made = ElementTree.fromstring(sheet.svg())
    box = next(each for each in made.iter(f"{SVG}path") if each.get("fill") == "#112233")
    assert made.get("viewBox") == "0 0 216 144" and box.get("d") == "M36 72h72v54h-72z"
    words = next(made.iter(f"{SVG}text"))
    assert (words.text, words.get("x"), words.get("y"), words.get("text-anchor")) == ("a < b & c", "72", "108", "end")
    assert made.get("aria-label") == sheet.alt
    assert not list(ElementTree.fromstring(sheet.svg(outlines=True)).iter(f"{SVG}text"))


def test_higher_shapes_cover_lower_ones_and_bars_end_with_their_panel():
    sheet = Sheet(2.0, 3.0, "A dot on a bar.")
    panel = Plot(1.0, 0.5, 1.0, 1.0, (0, 10), (0, 1))
    panel.dot(sheet, 5, 0.5, "#445566")
    panel.bars(sheet, [(5, 20, 0, 1)], "#112233")
    made = [each for each in ElementTree.fromstring(sheet.svg()).iter() if each.get("fill") in ("#112233", "#445566")]
    assert [each.get("fill") for each in made] == ["#112233", "#445566"], "the dot is drawn last"
    assert made[0].get("d") == "M108 36h36v72h-36z" and (made[1].get("cx"), made[1].get("cy")) == ("108", "72")


def test_a_sheet_without_words_for_it_is_refused():
    with pytest.raises(ValueError, match="say in a sentence"):
        Sheet(1.0).page()


def test_curves_have_a_panel_each_and_words_for_who_cannot_see_them():
    one = curves.drawn({"Loss": ("nats", {"sound": [3.0, 2.0, 1.0]})}, "It falls.", "runs")
    two = curves.drawn(
        {"Norm": ("before clipping", {"a": [1.0, 2.0], "b": [2.0, 1.0]}), "Rate": ("", {"a": [1.0, 1.0]})}, "Two runs."
    )
    assert (one.alt, two.alt) == ("It falls.", "Two runs.")
    assert [len(axes.lines) for axes in one.axes] == [1] and [len(axes.lines) for axes in two.axes] == [2, 1]
    assert one.axes[0].get_legend().get_title().get_text() == "runs"
    for wrong in ({}, {"Loss": ("nats", {})}, {"Loss": ("nats", dict.fromkeys("abcd", [1.0]))}):
        with pytest.raises(ValueError, match="1 to 3 runs"):
            curves.drawn(wrong, "")
