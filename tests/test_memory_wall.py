"""The picture of chapter 01's memory wall: what it says, and that the chapter's copy is the one the code draws."""

from course_chapters.ch01.memory_wall import MODELS, memory_wall
from course_lib.estimate import memory
from course_lib.estimate.units import bytes_text
from tests.tables import each_of


@each_of("letter", ["A", "B", "C"])
def test_the_alternative_says_every_total_of_the_convention(letter):
    said = memory_wall(convention=letter).alt
    assert all(bytes_text(memory.state_bytes(params, letter)) in said for params in MODELS.values())
