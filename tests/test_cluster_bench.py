"""The cluster's bench measures what it says; its figures are not tested."""

import json

import torch

from bench import cluster as bench
from course_lib.cluster import attempt
from tests.tables import each_of


def test_rates_count_the_messages_that_moved():
    assert bench.rate(4, messages=40) > 0
    assert bench.rate(2, bench.across, messages=20) > 0
    assert bench.rate(2, bench.across, messages=20, apart=True) > 0


@each_of("ranks", [1, 2, 5])
def test_the_rings_sum(ranks):
    assert attempt(bench.ring, ranks, args=(7,)).results == [float(ranks)] * ranks


def test_the_bare_ring_does_the_same_additions(monkeypatch):
    made = []
    real = torch.ones
    monkeypatch.setattr(bench.torch, "ones", lambda n: made.append(real(n)) or made[-1])
    bench.bare_ring(3, 8)
    assert all(torch.equal(world, torch.full((8,), 3.0)) for world in made)


def test_a_missed_target_shows_and_is_an_error(monkeypatch, capsys):
    rows = [
        bench.Row("fast", 10.0, "messages/s", 5.0),
        bench.Row("slow", 2.0, "s", 1.0),
        bench.Row("free", 3.0, "times"),
    ]
    assert [row.ok for row in rows] == [True, False, None]
    monkeypatch.setattr(bench, "bench_cluster", lambda: rows)
    assert bench.main([]) == 1 and "NO" in capsys.readouterr().out
    monkeypatch.setattr(bench, "bench_cluster", lambda: rows[:1])
    assert bench.main(["--json"]) == 0 and json.loads(capsys.readouterr().out)[0]["ok"] is True
