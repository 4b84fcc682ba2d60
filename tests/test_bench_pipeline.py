"""`course bench pipeline`: its parts, its verdicts, and two real processes."""

import json
from dataclasses import replace

import pytest

from bench import pipeline
from course_lib.parallel.schedules import one_f_one_b


def test_speed_counts_operations_and_holds_two_sizes_to_a_limit():
    found = pipeline.speed(one_f_one_b, 16, stages=4, repeats=1)
    assert found.operations == 2 * 4 * 16 and found.play_seconds > 0 and found.generate_seconds > 0
    assert found.ok is None and replace(found, limit=1e-9).ok is False and replace(found, limit=1e9).ok is True
    assert set(pipeline.LIMITS) <= set(pipeline.MICROBATCHES)


def test_orders_and_rates_are_printed_with_what_explains_them(capsys):
    assert pipeline.main(["torch", "rates", "--models", "1.5B"]) == 0
    text = capsys.readouterr().out
    assert "ZBVZeroBubble" in text and "DualPipeV" in text and "numbers the last rank's forwards from 1" in text
    assert (
        "0.1585 (+0.0 %)" in text
        and "wait for the first of a round only" in text
        and "(0.20 to 0.27 of their sum, not 0.33)" in text
    )


def test_an_order_that_differs_without_a_reason_is_a_failure(monkeypatch, capsys):
    pairs = tuple(replace(pair, why="") for pair in pipeline.torch_schedules.PAIRS)
    monkeypatch.setattr(pipeline.torch_schedules, "PAIRS", pairs)
    assert pipeline.main(["torch", "--json"]) == 1
    assert any(row["different"] for row in json.loads(capsys.readouterr().out)["torch"])


def test_two_processes_are_timed_against_one_and_against_the_timeline():
    shape = {"layers": 4, "hidden": 16, "heads": 2, "seq_len": 8}
    rows = pipeline.real(shape, 8, 4, repeats=2, names=["naive", "1F1B", "ZB-H1"])
    assert [row.schedule for row in rows] == ["naive", "1F1B", "ZB-H1"]
    for row in rows:
        assert 0 < row.bubble < 1 and 0 < row.predicted_bubble < 1 and row.predicted_seconds > 0
        assert row.speedup == row.serial_seconds / row.seconds
    assert min(rows[0].bubble, rows[0].predicted_bubble) >= 0.5 - 1e-9, "one of two ranks works at a time"


def test_a_part_that_does_not_exist_is_named(capsys):
    with pytest.raises(SystemExit):
        pipeline.main(["speeed"])
    assert "no part speeed; choose of speed, torch, rates, real" in capsys.readouterr().err
