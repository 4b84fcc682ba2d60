"""The figures that chapters ship are what the code draws."""

from collections.abc import Callable
from pathlib import Path

from course_chapters.ch00 import ring_moving
from course_chapters.ch01 import memory_wall
from course_chapters.ch02 import first_steps, layer_shapes
from course_chapters.ch03 import roofline_map, roofline_still
from course_chapters.ch04 import one_batch
from course_chapters.ch05 import five_steps
from course_chapters.ch06 import ring_phases
from course_chapters.ch07 import split_batch
from course_chapters.ch08 import who_holds_when
from course_chapters.ch09 import tensor_cuts
from course_chapters.ch10 import layers_apart
from course_chapters.ch11 import context_ways
from course_chapters.ch12 import moe_film
from course_chapters.ch15 import predicted_measured as evidence
from course_lib.draw import Picture, svg
from tests.tables import each_of

COPIES: dict[Path, Callable[[], Picture | str]] = {  # a chapter's copy, and what draws it
    ring_moving.CHAPTER_COPY: ring_moving.ring_moving,
    memory_wall.CHAPTER_COPY: memory_wall.memory_wall,
    first_steps.CHAPTER_COPY: first_steps.first_steps,
    layer_shapes.CHAPTER_COPY: layer_shapes.layer_shapes,
    roofline_still.CHAPTER_COPY: roofline_still.transformer_roofline,
    roofline_map.MAP_COPY: roofline_map.transformer_map,
    roofline_map.PRINTED_COPY: roofline_map.as_printed,
    five_steps.CHAPTER_COPY: five_steps.five_steps,
    ring_phases.CHAPTER_COPY: ring_phases.ring_phases,
    split_batch.CHAPTER_COPY: split_batch.split_batch,
    layers_apart.CHAPTER_COPY: layers_apart.layers_apart,
    context_ways.CHAPTER_COPY: context_ways.three_ways,
    moe_film.CHAPTER_COPY: moe_film.still,
    one_batch.CHAPTER_COPY: one_batch.one_batch,
    evidence.CHAPTER_COPY: evidence.still,
    **{tensor_cuts.FIGURES / name: draw for name, draw in tensor_cuts.PICTURES.items()},
}


@each_of("copy", COPIES, ids=lambda path: path.stem)
def test_a_chapters_figure_is_what_the_code_draws(copy: Path) -> None:
    drawn, again = COPIES[copy](), f"python -m {COPIES[copy].__module__}"
    text = drawn if isinstance(drawn, str) else svg(drawn, drawn.alt)
    assert copy.read_text(encoding="utf-8") == text, f"write it again: {again}"


def test_the_sheet_of_who_holds_what_is_what_the_code_draws() -> None:
    again, drawn = "python -m course_chapters.ch08.who_holds_when", who_holds_when.draw_still().svg(outlines=True)
    assert who_holds_when.CHAPTER_COPY.read_text(encoding="utf-8") == drawn, f"write it again: {again}"
