"""The figures that chapters ship are what the code draws."""

from collections.abc import Callable
from pathlib import Path

from course_chapters.ch02 import first_steps, layer_shapes
from course_chapters.ch03 import roofline_map, roofline_still
from course_chapters.ch04 import one_batch
from course_chapters.ch07 import split_batch
from course_chapters.ch08 import who_holds_when
from course_chapters.ch09 import tensor_cuts
from course_chapters.ch10 import layers_apart
from course_chapters.ch15 import predicted_measured as evidence
from course_lib.draw import Picture, svg
from tests.tables import each_of

COPIES: dict[Path, tuple[Callable[[], Picture], str]] = {  # a chapter's copy: what draws it, and the module to run
    first_steps.CHAPTER_COPY: (first_steps.first_steps, "first_steps"),
    layer_shapes.CHAPTER_COPY: (layer_shapes.layer_shapes, "layer_shapes"),
    roofline_still.CHAPTER_COPY: (roofline_still.transformer_roofline, "roofline_still"),
    roofline_map.MAP_COPY: (roofline_map.transformer_map, "roofline_map"),
    roofline_map.PRINTED_COPY: (roofline_map.as_printed, "roofline_map"),
    split_batch.CHAPTER_COPY: (split_batch.split_batch, "split_batch"),
    layers_apart.CHAPTER_COPY: (layers_apart.layers_apart, "layers_apart"),
    one_batch.CHAPTER_COPY: (one_batch.one_batch, "one_batch"),
    evidence.CHAPTER_COPY: (evidence.still, "evidence"),
    **{tensor_cuts.FIGURES / name: (draw, "tensor_cuts") for name, draw in tensor_cuts.PICTURES.items()},
}


@each_of("copy", COPIES, ids=lambda path: path.stem)
def test_a_chapters_figure_is_what_the_code_draws(copy: Path) -> None:
    draw, module = COPIES[copy]
    picture, again = draw(), f"python -m course_lib.draw.{module}"
    assert copy.read_text(encoding="utf-8") == svg(picture, picture.alt), f"write it again: {again}"


def test_the_sheet_of_who_holds_what_is_what_the_code_draws() -> None:
    again, drawn = "python -m course_chapters.ch08.who_holds_when", who_holds_when.draw_still().svg(outlines=True)
    assert who_holds_when.CHAPTER_COPY.read_text(encoding="utf-8") == drawn, f"write it again: {again}"
