"""The measurement of sliders: which places it visits, and what its table says. Its events are tested in
test_browser."""

import json

import pytest

from bench import widgets as bench
from tests.tables import each_alone


@each_alone(
    "count, start, moves, places",
    pytest.param(3, 0, 5, [1, 2, 1, 0, 1], id="there and back"),
    pytest.param(2, 1, 3, [0, 1, 0], id="two values, from the last"),
)
def test_a_slider_is_moved_to_and_fro_over_its_values(count: int, start: int, moves: int, places: list[int]) -> None:
    assert bench.to_and_fro(count, start, moves) == places


def test_the_table_marks_a_slider_over_the_limit() -> None:
    slow = bench.Row(chapter="01", widget="w", slider="s", events=30, median=80.0, p90=120.0, max=150.0)
    quick = bench.Row(chapter="01", widget="w", slider="t", events=30, median=40.0, p90=60.0, max=90.0)
    lines = bench.table([slow, quick], 100).splitlines()
    assert "over the limit" in lines[1] and "over the limit" not in lines[2]
    assert lines[-1].startswith("2 sliders") and "1 over 100 ms" in lines[-1]


def test_it_fails_when_a_slider_is_too_slow_and_says_so_in_json(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    slow = bench.Row(chapter="01", widget="w", slider="s", events=30, median=80.0, p90=120.0, max=150.0)
    monkeypatch.setattr(bench, "measured", lambda *given: [slow])
    assert bench.main(["01", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][0]["p90"] == 120.0 and found["limit"] == bench.LIMIT
    assert bench.main(["01", "--limit", "130"]) == 0


def test_the_times_of_a_slider_become_its_row() -> None:
    class Control:
        cell, label = "c01-step-widget", "compute"

    made = bench.row("01", Control(), [float(ms) for ms in range(1, 12)])
    assert (made.events, made.median, made.p90, made.max) == (11, 6.0, 10.0, 11.0)
