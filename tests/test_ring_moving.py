"""Chapter 00's moving ring: the committed copy is the one the code draws, and it moves for those who want motion."""

from xml.etree import ElementTree

from course_chapters.ch00.ring_moving import ALT, RANKS, ring_moving


def test_every_ranks_number_is_drawn_on_the_ring_and_in_what_rank_0_has_seen():
    root = ElementTree.fromstring(ring_moving())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(texts.count(str(2**rank)) >= 2 for rank in range(3, RANKS))
    assert root.find("{http://www.w3.org/2000/svg}title").text == ALT


def test_the_ring_comes_round_and_stands_still_where_no_motion_is_wanted():
    text = ring_moving()
    assert "100%{transform:rotate(360deg)}" in text and "prefers-reduced-motion:reduce" in text
