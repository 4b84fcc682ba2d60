"""Chapter 04's widgets say what Adam's formulas, the noise scale and the packing functions say."""

import re

import numpy as np
import pytest

from course_chapters.ch04 import widgets as ch04
from course_lib.model import packing
from tests.tables import each_of


def test_corrected_updates_under_a_constant_gradient_are_the_rate_and_uncorrected_ones_overshoot():
    assert ch04.update_sizes("constant gradient", 0.999, True) == pytest.approx([1] * 100)
    steps = np.arange(1, 101)
    formula = (1 - 0.9**steps) / np.sqrt(1 - 0.999**steps)
    found = ch04.update_sizes("constant gradient", 0.999, False)
    assert found == pytest.approx(formula, rel=1e-5)
    assert int(np.argmax(found)) + 1 == 12 and max(found) == pytest.approx(6.6, abs=0.05)
    assert "without: 6.57" in ch04.draw_updates(12).alt


def test_with_equal_betas_correction_matters_little():
    assert max(ch04.update_sizes("constant gradient", 0.9, False)) <= 1.001


@each_of("batch", [4, 64])
def test_the_clouds_error_is_the_formulas(batch):
    cloud = ch04.batch_gradients(batch, 3.0, 20_000)
    error = np.square(cloud - ch04.TRUE).sum(1).mean()
    assert error == pytest.approx(18 / batch, rel=0.03)
    said = ch04.draw_noise(batch).alt
    assert "noise scale is 18" in said and f"batches of {batch}" in said


@each_of("lengths", ["uneven", "half a sequence"])
@each_of("strategy", ch04.STRATEGIES)
def test_every_document_is_drawn_once_and_the_share_is_the_librarys(strategy, lengths):
    given, said = ch04.document_lengths(lengths), ch04.draw_bins(strategy=strategy, lengths=lengths).alt
    pack = ch04.STRATEGIES[strategy]
    packed = pack(given, ch04.ROOM) if pack else [[each] for each in range(len(given))]
    assert f"{len(packed)} sequences of 64 tokens" in said
    share = float(re.search(r"([\d.]+) % of them text", said)[1]) / 100
    assert share == pytest.approx(packing.utilization(packed, given, ch04.ROOM), abs=0.001)


def test_documents_appear_one_by_one():
    def boxes(placed):
        return ch04.draw_bins(placed).svg().split("</style>")[-1].count('stroke="#ffffff"')

    assert [boxes(placed) for placed in (1, 7, 24)] == [1, 7, 24], "a box with a white edge for each document"
    assert "7 of 24 documents" in ch04.draw_bins(7).svg()


def test_pictures_of_recorded_runs_say_what_was_recorded():
    from course_chapters.ch04 import pictures_of_runs as drawn

    said = drawn.draw_recorded("batches", ["16", "256, linear"], "x").alt
    assert "tokens" in said and f"{0.3976:.2f}" in drawn.final_losses("batches", ["16"]).data
    seconds = drawn.draw_recorded("batches", ["16"], "x", over="seconds").axes[0].lines[0].get_xdata()
    assert 1 < seconds[-1] < 60
    from course_lib.model import training

    again = training.Training(
        losses=[5.0 - each / 20 for each in range(40)], norms=[], tokens=512, seconds=1.0, skipped=0
    )
    mine = drawn.draw_recorded("batches", ["256, linear"], "x", mine={"16": again})
    assert [list(line.get_ydata()) for line in mine.axes[0].lines][2] == pytest.approx(
        [4.825 - 0.4 * each for each in range(5)]
    )
    assert "16, yours: 4.8" in mine.alt
    assert "critical batch 26" in drawn.draw_critical().alt and "not clipped" in drawn.draw_spike().alt
    assert len(drawn.draw_schedules({"flat": lambda step: 1.0}, 7, "x").axes[0].lines[0].get_xdata()) == 7
    for law, x, losses in drawn.size_fits().values():
        assert [law.loss(each) for each in x] == pytest.approx(losses, abs=0.05)
