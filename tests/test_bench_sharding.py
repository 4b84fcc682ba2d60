"""`course bench sharding`: predicted, metered and real figures agree, and verdicts that can fail."""

import json
import sys

import pytest

from bench import sharding
from bench.rows import Row

SMALL = ["--ranks", "2", "--repeats", "2", "--hidden", "64"]


def test_bytes_and_peaks_are_those_predicted_and_both_steps_are_timed(capsys):
    sharding.main([*SMALL, "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    for stage in sharding.STAGES:
        name = f"stage {stage}, 2 ranks:"
        assert rows[f"{name} metered"]["value"] == rows[f"{name} bytes of a step, predicted"]["value"] > 1e5
        assert rows[f"{name} metered"]["ok"] and rows[f"{name} peak, metered"]["ok"]
        if sys.platform.startswith("linux"):
            assert rows[f"{name} of gloo"]["ok"]
    ratio = rows["stage 3, 2 processes: ours / torch's"]
    assert ratio["ok"] is (ratio["value"] <= sharding.SLOWEST)
    assert rows["stage 3, 2 processes: a step of ours"]["value"] > 0


def test_a_miss_is_shown_and_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(sharding, "byte_rows", lambda *_: [Row("bytes", 1234567, "bytes", True)])
    monkeypatch.setattr(sharding, "ratio_rows", lambda *_: [Row("ours / torch's", 1.5, "times", None)])
    assert sharding.main(SMALL) == 0
    monkeypatch.setattr(sharding, "ratio_rows", lambda *_: [Row("ours / torch's", 1.5, "times", False)])
    assert sharding.main(SMALL) == 1
    shown = capsys.readouterr().out
    assert "1,234,567" in shown and "1.5 times" in shown and "MISSED" in shown
    with pytest.raises(SystemExit):
        sharding.main(["--ranks", "1"])
