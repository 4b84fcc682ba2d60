"""Chapter 02's tables, sweep, plan and picture of a layer compute what the library computes."""

import math

import torch

from course_chapters.ch02 import curves, layer_shapes, plan, tables
from course_chapters.ch02.exercises import numbers
from course_chapters.running_example import PARAMS
from course_lib.estimate import memory
from course_lib.estimate.units import BILLION, bytes_text
from course_lib.model import transformer
from tests.tables import each_of


def rows(shown) -> list[list[str]]:
    """The cells of a Markdown table, headings first, without what stands below it."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in shown.data.splitlines()
        if line.startswith("|")
    ]


def test_the_puzzle_accepts_no_guess_and_judges_each_letter(capsys):
    table = rows(tables.conventions())
    assert len(table) == 2 + len(memory.CONVENTIONS) and not capsys.readouterr().out
    tables.conventions(*numbers.PUZZLE.values())
    assert capsys.readouterr().out.count("; right") == 3
    tables.conventions("B", None, "D")  # D has the bytes of B in other buckets
    said = capsys.readouterr().out.splitlines()
    assert "try another letter" in said[0] and said[1].endswith("right")


@each_of("size, line", [(4, "fits"), (6, "step"), (12, "backward"), (20, "optimizer"), (70, "load")])
def test_the_line_that_fails_depends_on_the_size(size, line):
    assert tables.failing_line(size * BILLION).startswith(f"**{line}**")
    assert rows(tables.failing_lines({f"{size}B": None}))[2][1] == "–"


def test_each_measure_leaves_its_share_of_each_bucket():
    head, _, *body = rows(tables.reducible())
    left = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}
    assert left["full checkpointing"]["weights"] == left["batch 8 → 1, accumulated"]["moments"] == "100 %"
    assert (
        left["8-bit Adam"]["moments"] == "25 %" and left["tensor and sequence parallel, 8"]["activations"] == "12.5 %"
    )
    assert [row[-1] for row in rows(tables.sharding_and_checkpointing())[2:]] == ["no", "no", "no", "yes"]


def test_only_the_transfer_of_all_activations_is_exposed():
    body = rows(tables.offload())[2:]
    assert [row[4] == "none" for row in body] == [True, True, True, False]
    assert [row[5] for row in body[2:]] == ["always", "never"]


def test_forms_and_published_peaks_have_a_row_each():
    assert rows(tables.activation_forms(lambda b, s, L, h, k: b * s * L * h * 2 * k))[3][1] == "34"
    assert len(rows(tables.published_peaks())) == 2 + len(numbers.titan_runs())
    assert len(rows(tables.parameters_by_part("gpt2", "llama3-8b"))) == 4


def test_a_plain_pass_costs_no_recomputation_and_full_checkpointing_one_more_forward():
    layers = [transformer.MLP(transformer.Config(hidden=32, gated=False)) for _ in range(4)]
    x = torch.randn(64, 32, requires_grad=True)
    peak, flops = curves.measured_pass(transformer.again, layers, 1, 0, x)
    less, more = curves.measured_pass(transformer.again, layers, 1, 4, x)
    assert less < peak and flops < more <= 4 / 3 * flops


def test_the_plan_holds_one_gpus_share_of_the_state():
    (row,), peak = plan.one_gpu()
    assert row["per GPU"] == bytes_text(memory.state_bytes(PARAMS) / 64) and bytes_text(peak.total) in row.values()


def test_the_tensors_marked_as_kept_in_the_picture_are_the_terms_of_one_layer():
    shape = memory.Shape(layers=1, hidden=256, heads=8, vocab=100)
    terms = memory.layer_terms(shape, 2, 64, kernels="paper", dropout=False)
    sizes = {"b": 2, "s": 64, "h": 256, "4h": 4 * 256, "a": 8}
    kept = [step for step in (*layer_shapes.ATTENTION, *layer_shapes.MLP) if step.kept]
    marked = sum(step.copies * math.prod(map(sizes.__getitem__, step.shape)) for step in kept)
    inputs_of_norms = 2 * 2 * 64 * 256
    assert marked + inputs_of_norms == sum(term.elements for term in terms)
