"""Published speeds on more and more GPUs: complete, consistent, and slower per GPU the more there are."""

import pytest

from course_lib.estimate.facts import device, scaling
from tests.tables import each_of


@each_of("key", scaling.all_series())
def test_every_measurement_has_a_device_a_source_and_a_batch_that_divides(key):
    for point in scaling.series(key):
        assert device(point.device) and point.url.startswith("https://")
        assert point.ranks % point.nodes == 0 and point.batch_tokens % point.ranks == 0
        assert point.tokens_per_s.unit == "token/s" and point.tokens_per_s.source and point.tokens_per_s.condition


def test_a_fixed_batch_gives_each_gpu_less_and_each_gpu_does_less():
    points = scaling.series("1.34B, data parallel")
    assert len({point.batch_tokens for point in points}) == 1
    assert [point.ranks for point in points] == [8, 16, 32, 64, 128, 256]
    speeds = [float(point.tokens_per_s) for point in points]
    assert speeds == sorted(speeds, reverse=True)
    assert points[-1].tokens == 4096 and points[-1].step_seconds == pytest.approx(4096 / 15700.38)


def test_an_unknown_series_is_answered_with_what_there_is():
    with pytest.raises(ValueError, match="data parallel"):
        scaling.series("1.34B data")
