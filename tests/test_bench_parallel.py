"""`course bench parallel`: predicted and real bytes agree, and verdicts that can fail."""

import json
import sys

import pytest
import torch

from bench import parallel
from bench.rows import Row
from course_runs.real_ranks import launch

SMALL = ["--ranks", "2", "--repeats", "2", "--hidden", "32"]


def test_bytes_are_those_predicted_and_steps_are_timed_beside_torchs(capsys):
    parallel.main([*SMALL, "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    for way in parallel.WAYS:
        name = f"{way.name}, 2 ranks: bytes of a step"
        assert rows[f"{name}, predicted"]["value"] > 1e5
        assert rows[f"{name}, gloo"]["ok"] is (True if sys.platform.startswith("linux") else None)
        if way.rival:
            ratio = rows[f"{way.name}: ours / torch's"]
            assert ratio["ok"] is (ratio["value"] <= parallel.SLOWEST)
            assert rows[f"{way.name}: a step of torch's {way.rival}"]["value"] > 0


def test_a_miss_is_shown_and_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(parallel, "rows_of", lambda *_: [Row("bytes", 1234567, "bytes", True, "why")])
    assert parallel.main(SMALL) == 0
    monkeypatch.setattr(parallel, "rows_of", lambda *_: [Row("ours / torch's", 1.5, "times", False)])
    assert parallel.main(SMALL) == 1
    shown = capsys.readouterr().out
    assert "1,234,567" in shown and "1.5 times" in shown and "MISSED" in shown
    with pytest.raises(SystemExit):
        parallel.main(["--ranks", "1"])


def test_the_counter_sees_a_message_and_its_frame():
    def program(comm, elements):
        x = torch.ones(elements)
        comm.barrier()
        before = parallel.received_bytes()
        if comm.rank == 0:
            comm.send(x, 1)
        else:
            comm.recv(x, 0)
        return parallel.received_bytes() - before

    if not sys.platform.startswith("linux"):
        assert parallel.received_bytes() is None
        return
    sender, receiver = launch(program, 2, (100_000,)).results
    assert 0 <= receiver - 400_000 < 1000 and sender < 1000


@pytest.mark.parametrize(("count", "ok"), [(999, False), (1001, True), (1100, False), (None, None)])
def test_bytes_that_are_not_the_predicted_ones_miss(count, ok, monkeypatch):
    ran = [(1000.0, 10, count, [])] * 2
    monkeypatch.setattr(parallel, "launch", lambda *_, **__: type("Ran", (), {"results": ran}))
    assert parallel.rows_of(parallel.WAYS[0], 2, parallel.MODEL, 0)[1].ok is ok
