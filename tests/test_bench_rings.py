"""`course bench rings`: the same processes, interleaved repeats, and a verdict that can fail."""

import json
from dataclasses import replace

from bench import rings


def test_both_rings_are_set_against_gloo_on_the_same_processes(capsys):
    code = rings.main(["--ranks", "2", "--sizes", "0.01", "--repeats", "3", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0 and [row["contender"] for row in found] == list(rings.CONTENDERS)
    assert all(
        row["seconds"] > 0 and row["gloo_seconds"] > 0 and row["low"] <= row["ratio"] <= row["high"] for row in found
    )
    assert all(row["ok"] is None for row in found), "only 64 MB is held to anything"


def test_a_slower_pipelined_ring_at_64_mb_is_a_miss():
    row = rings.Ratio(2, 64_000_000, "pipelined ring", 1.0, 0.9, 0.9, 0.8, 1.0)
    assert row.ok is False and replace(row, ratio=1.1).ok is True and replace(row, contender="ring").ok is None
