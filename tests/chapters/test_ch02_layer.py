"""The picture of a layer's shapes: drawn by the code, and its kept tensors are those of the memory model."""

from course_lib import memory
from course_lib.figures import layer_shapes, svg


def test_the_chapters_copy_is_what_the_code_draws():
    picture, again = layer_shapes.layer_shapes(), "python -m course_lib.figures.layer_shapes"
    assert layer_shapes.CHAPTER_COPY.read_text(encoding="utf-8") == svg(picture, picture.alt), (
        f"write it again: {again}"
    )


def test_the_tensors_marked_as_kept_are_the_terms_of_one_layer():
    shape = memory.Shape(layers=1, hidden=256, heads=8, vocab=100)
    terms = memory.layer_terms(shape, 2, 64, kernels="paper", dropout=False)
    assert layer_shapes.kept_numbers(2, 64, 256, 8) == sum(term.elements for term in terms)
