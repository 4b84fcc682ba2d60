"""Chapter 00's widgets: the ring, the map, the glossary, the cards and the matches."""

import re

import pytest
from contract.test_widgets import token

from course_chapters import course, links
from course_chapters.ch00 import tables
from course_chapters.ch00 import widgets as ch00
from course_lib.cluster import simulate
from tests.tables import each_of


def test_a_token_goes_round_and_comes_home():
    run = simulate(token, ranks=5)
    alts = [ch00.draw_ring(list(run.messages), 5, step).alt for step in range(7)]
    assert "Rank 0 has the token. Before the first message" in alts[0]
    assert "Rank 3 has the token. It was at 0, 1, 2. On its way from 2 to 3" in alts[3]
    assert "Rank 0 has the token. It was at 1, 2, 3, 4" in alts[5]
    assert alts[6] == alts[5]  # past the end


def test_links_go_only_to_chapters_that_exist(tmp_path):
    folder = course.chapter("06").folder
    (tmp_path / folder).mkdir()
    (tmp_path / folder / f"{folder}.ipynb").touch()
    assert f'href="../{folder}/{folder}.ipynb"' in links.chapter_link("06", root=tmp_path)
    later = links.chapter_link("07", root=tmp_path)
    assert "href" not in later and "(later)" in later


def test_the_failure_route_names_chapters_in_order_with_reasons(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = ch00.draw_map("failure", "mesh", "out of memory", "sharding and small batches")
    places = [
        page.index(f"{number} {course.chapter(number).folder[3:].replace('_', ' ')}") for number in ("02", "08", "05")
    ]
    assert places == sorted(places)
    with pytest.raises(ValueError, match="choose from prerequisite, failure, synthesis"):
        ch00.draw_map("fastest", "mesh", "out of memory", "sharding and small batches")


def test_the_prerequisite_route_names_all_that_comes_before():
    assert "Needed before: The memory wall, Data parallel" in ch00.draw_map("prerequisite", "mesh", "", "")


@each_of("typed, found", [("cop whole", "replica"), ("ALL-REDUCE", "all-reduce"), ("fp32", "master copy")])
def test_the_glossary_finds_terms_by_any_words(typed, found):
    page = ch00.draw_glossary(typed)
    assert found in page
    assert 1 <= page.count("<tr>") - 1 <= 8


def test_what_is_typed_is_escaped():
    assert "<script>" not in ch00.draw_glossary("<script>alert(1)</script>")


def test_cards_hide_the_meaning_until_turned(notebook):
    explorer = ch00.flash_cards(seed=3)
    explorer.setting["number"] = 1
    hidden = explorer.page()[0]
    explorer.setting["turned"] = True
    term = re.search(r">([^<]+)</b>", hidden)[1]
    meaning = course.glossary()[term].meaning
    assert meaning[:20] not in hidden
    assert "Say what it means" not in explorer.page()[0]


def test_matching_returns_what_was_chosen(notebook):
    made = ch00.matching()
    row = course.thesis()["tensor parallel"]
    made.answers["tensor parallel"] = (row.property, row.collective)
    made.answers["pipeline parallel"] = (row.property, row.collective)
    assert made.right() == {"tensor parallel": True, "pipeline parallel": False}
    assert row.property in made._repr_html_()


def test_matching_follows_its_lists(notebook):
    import ipywidgets

    made, said = ch00.Matching(), ipywidgets.HTML()
    row = course.thesis()["expert parallel"]
    lists = {"property": [row.property, "linearity"], "ranks say": [row.collective]}
    line = ch00._match_row(made, said, "expert parallel", lists)
    line.children[1].value = row.property
    assert made.answers == {}
    line.children[2].value = row.collective
    assert made.right() == {"expert parallel": True} and "1 of 6" in said.value
    line.children[1].value = ""
    assert made.answers == {}


def test_the_order_quiz_names_what_comes_too_early():
    listed = list(course.nodes())
    assert "You can read the course" in tables.reading_order(listed).data
    assert "The memory wall" in tables.reading_order(listed[::-1]).data
