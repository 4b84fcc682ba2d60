"""`course bench parallel`: predicted, metered and real bytes agree, and verdicts that can fail."""

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch

from bench import parallel, parallel_parity
from bench.parallel import received_bytes
from bench.rows import Row
from course_runs.real_ranks import launch

SMALL = ["--ranks", "2", "--repeats", "3", "--hidden", "32", "--sequences", "1"]


@pytest.fixture
def tensor_parallel(monkeypatch):
    """The other half of the table, quick."""
    half = ModuleType("half")
    half.__spec__ = ModuleSpec("half", None)
    half.rows = lambda: [Row("tensor parallel: bytes", 5, "bytes", True)]
    monkeypatch.setitem(sys.modules, "half", half)
    monkeypatch.setattr(parallel, "PARTS", ("half", "bench.not_in_this_copy"))
    return half


def test_bytes_are_predicted_metered_and_counted_by_the_kernel_and_both_steps_are_timed(tensor_parallel, capsys):
    parallel.main([*SMALL, "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    count = {name.split(", ", 2)[2]: row for name, row in rows.items() if "bytes of a step" in name}
    assert count["metered"]["value"] == count["predicted"]["value"] > 1e5 and count["metered"]["ok"]
    if sys.platform.startswith("linux"):
        for name in ("gloo, ours", "gloo, torch's DDP"):
            assert count[name]["ok"] and 1 <= count[name]["value"] / count["predicted"]["value"] < 1.1
    ratio = rows["data parallel: ours / torch's"]
    assert ratio["ok"] is (ratio["value"] <= parallel.SLOWEST)
    assert rows["data parallel: a step of ours"]["value"] > 0 and rows["tensor parallel: bytes"]["value"] == 5


def test_a_miss_is_shown_and_is_the_exit_code(tensor_parallel, monkeypatch, capsys):
    monkeypatch.setattr(parallel, "byte_rows", lambda *_: [Row("bytes", 1234567, "bytes", True)])
    monkeypatch.setattr(parallel, "ratio_rows", lambda *_: [Row("ours / torch's", 1.5, "times", None, "quartiles")])
    assert parallel.main(SMALL) == 0
    tensor_parallel.rows = lambda: [Row("tensor parallel: bytes", 5, "bytes", False)]
    assert parallel.main(SMALL) == 1
    shown = capsys.readouterr().out
    assert "1,234,567" in shown and "1.5 times" in shown and "MISSED" in shown
    with pytest.raises(SystemExit):
        parallel.main(["--ranks", "1"])


def test_the_counter_sees_a_message_and_its_frame():
    def program(comm, elements):
        x = torch.ones(elements)
        comm.barrier()
        before = received_bytes()
        if comm.rank == 0:
            comm.send(x, 1)
        else:
            comm.recv(x, 0)
        return received_bytes() - before

    if not sys.platform.startswith("linux"):
        assert received_bytes() is None
        return
    sender, receiver = launch(program, 2, (100_000,)).results
    assert 0 <= receiver - 400_000 < 1000 and sender < 1000


def test_where_nobody_counts_the_row_says_so(monkeypatch):
    monkeypatch.setattr(parallel, "launch", lambda *_, **__: type("Ran", (), {"results": [[None, None]] * 2}))
    rows = parallel.byte_rows(2, parallel.replace(parallel.MODEL, hidden=32, kv_heads=None, ffn=None), 1, 10_000)
    assert [row.ok for row in rows] == [None, True, None, None] and rows[2].note


def test_parity_holds_row_by_row_and_a_model_that_is_not_averaged_misses_it(monkeypatch):
    monkeypatch.setattr(parallel_parity, "STEPS", (3, 2))
    rows = parallel_parity.rows(ranks=(2,))
    assert len(rows) == 6 and all(row.ok and 0 < row.value <= 1 for row in rows)
    monkeypatch.setattr(parallel_parity.DataParallel, "_send", lambda self: None)
    monkeypatch.setattr(
        parallel_parity.DataParallel,
        "finish",
        lambda self: [bucket.missing.update(bucket.views) for bucket in self.rows],
    )
    monkeypatch.setattr(parallel_parity.DataParallel, "forward", lambda self, x: self.module(x))
    assert not any(row.ok for row in parallel_parity.parity_rows(parallel_parity.simulate, "cluster", 2))
