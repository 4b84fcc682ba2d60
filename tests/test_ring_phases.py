"""The walk of an all-reduce, read from runs, and the picture of its phases beside chapter 06."""

import pytest

from course_chapters.ch06.ring_phases import RANKS, ring_phases
from course_chapters.ch06.walk import MOST_RANKS, PHASES, start_values, walk
from tests.tables import each_of

COUNTS = (2, 3, 4, 5, 7, 8, MOST_RANKS)


def test_the_alternative_says_the_sums():
    said = ring_phases().alt
    assert all(str(sum(row[chunk] for row in start_values(RANKS))) in said for chunk in range(RANKS))


@each_of("ranks", COUNTS)
@each_of("algorithm", PHASES)
def test_every_walk_ends_with_the_sum_everywhere_and_its_phases_come_once(algorithm, ranks):
    shown = walk(algorithm, ranks)
    sums = tuple(sum(column) for column in zip(*start_values(ranks), strict=True))
    assert shown.frames[-1].values == (sums,) * ranks
    assert {held for row in shown.frames[-1].holds for held in row} == {ranks}
    phases = [frame.phase for frame in shown.frames]
    assert phases == sorted(phases, key=["start", *PHASES[algorithm]].index)
    assert set(phases) == {"start", *PHASES[algorithm]}


@each_of("ranks", COUNTS)
def test_a_ring_moves_one_chunk_a_rank_and_step(ranks):
    shown = walk("ring", ranks)
    assert len(shown.frames) == 1 + 2 * (ranks - 1)
    for step, frame in enumerate(shown.frames[1:], 1):
        assert {(src, dst) for src, dst, _ in frame.moved} == {(rank, (rank + 1) % ranks) for rank in range(ranks)}
        assert all(len(chunks) == 1 for _, _, chunks in frame.moved)
        assert frame.sent == (step * shown.nbytes // ranks,) * ranks
    middle = shown.frames[ranks - 1]
    assert all(middle.holds[rank][rank] == ranks for rank in range(ranks))


@each_of("ranks", COUNTS)
def test_the_root_of_the_naive_way_sends_everything(ranks):
    last = walk("naive root", ranks).frames[-1]
    assert last.sent == ((ranks - 1) * 8 * ranks, *(8 * ranks,) * (ranks - 1))


@each_of("algorithm, ranks", [("star", 5), ("ring", 1), ("ring", 17)])
def test_what_cannot_be_walked_is_refused(algorithm, ranks):
    with pytest.raises(ValueError, match=r"choose from|can show 2 to"):
        walk(algorithm, ranks)
