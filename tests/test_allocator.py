"""The caching allocator: no byte is given twice, freed neighbors merge, segments stay, and a failure says its
numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_chapters.ch02.allocator import LEAST, CachingAllocator, OutOfMemory
from course_lib.estimate.units import GiB, MiB
from tests.tables import each_of

either = pytest.mark.parametrize("expandable", [False, True], ids=["segments", "expandable"])
STEPS = st.lists(st.tuples(st.integers(0, 9), st.floats(1, 40 * MiB)), max_size=40)


def whole(device: CachingAllocator) -> None:
    """Blocks tile their segments, and what is counted is what there is."""
    for segment in device.segments:
        edges = [(block.start, block.start + block.nbytes) for block in segment.blocks]
        assert edges[0][0] == 0 and edges[-1][1] == segment.nbytes
        assert all(one[1] == two[0] for one, two in zip(edges, edges[1:], strict=False))
        assert not any(
            not one.name and not two.name for one, two in zip(segment.blocks, segment.blocks[1:], strict=False)
        )
    named = [block for segment in device.segments for block in segment.blocks if block.name]
    assert device.allocated == sum(block.nbytes for block in named) <= device.reserved <= device.capacity
    assert all(block.nbytes % LEAST == 0 for block in named)


@either
@given(steps=STEPS)
def test_whatever_is_asked_blocks_tile_their_segments(expandable, steps):
    device = CachingAllocator(GiB, expandable)
    for name, nbytes in steps:
        if str(name) in device.names():
            device.free(str(name))
        else:
            device.malloc(str(name), nbytes)
            block = next(b for s in device.segments for b in s.blocks if b.name == str(name))
            assert block.nbytes >= nbytes
        whole(device)
    for name in device.names():
        device.free(name)
    device.empty_cache()
    assert device.reserved == device.allocated == 0


@each_of(
    "nbytes, allocated, reserved",
    [(1, 512, 2 * MiB), (MiB, MiB, 2 * MiB), (3 * MiB, 3 * MiB, 20 * MiB), (11 * MiB, 11 * MiB, 12 * MiB)],
)
def test_segments_have_pytorchs_sizes(nbytes, allocated, reserved):
    device = CachingAllocator(GiB)
    device.malloc("x", nbytes)
    assert device.reserved == reserved
    # a rest of a small block's size is not cut off
    assert device.allocated == (allocated if reserved != 12 * MiB else reserved)


def test_what_is_freed_is_kept_and_used_again():
    device = CachingAllocator(GiB)
    for name in ("a", "b"):
        device.malloc(name, 16 * MiB)
        device.free(name)
    assert device.reserved == 16 * MiB and device.allocated == 0


def fragmented(expandable: bool) -> CachingAllocator:
    """Four blocks of 16 MiB on a device of 64 MiB, the first and the third freed."""
    device = CachingAllocator(64 * MiB, expandable)
    for name in "abcd":
        device.malloc(name, 16 * MiB)
    device.free("a")
    device.free("c")
    return device


def test_free_pieces_in_two_places_do_not_hold_one_tensor():
    device = fragmented(expandable=True)
    with pytest.raises(
        OutOfMemory, match=r"allocated and 33.6 MB reserved but unallocated, the largest piece of them 16.8 MB"
    ):
        device.malloc("e", 32 * MiB)
    device.free("b")
    device.malloc("e", 32 * MiB)
    whole(device)


def test_before_it_gives_up_it_gives_whole_segments_back():
    device = fragmented(expandable=False)
    device.malloc("e", 32 * MiB)
    assert device.reserved == 64 * MiB and device.names() == ["b", "d", "e"]


@each_of(
    "work, words",
    (lambda d: d.malloc("a", 0), "nbytes"),
    (lambda d: d.malloc("x", 1), "a name of its own"),
    (lambda d: d.free("y"), "alive are x"),
)
def test_a_wrong_request_is_answered_in_words(work, words):
    device = CachingAllocator(GiB)
    device.malloc("x", 1)
    with pytest.raises(ValueError, match=words):
        work(device)
