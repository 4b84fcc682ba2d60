"""Real runs on real processes of this CPU: few starts, each asked as much as it can answer."""

import json
import os
from pathlib import Path

import pytest

from course_lib.runs import evidence, failures, fleet, train, verify

LIMIT = 300.0  # s; ten times what one of these takes on an idle machine
HERE = Path(__file__).parent


def below_us():
    return set(fleet.descendants(os.getpid()))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A folder with what two ranks have left: see runs_session.py."""
    folder = tmp_path_factory.mktemp("runs")
    ended = fleet.run(str(HERE / "runs_session.py"), [str(folder)], 2, timeout=LIMIT, say=None)
    assert ended.ok, "\n".join(ended.lines)
    (folder / "said.txt").write_text("\n".join(ended.lines), encoding="utf-8")
    return folder


def test_every_layout_of_two_ranks_trains_the_same_model(seen):
    rows = json.loads((seen / "parity.json").read_text())
    assert {row["layout"] for row in rows} == {"ddp", "fsdp", "tp", "pp:gpipe", "pp:1f1b", "pp:interleaved"}
    for row in rows:
        assert row["loss"] <= row["allowed"] and row["gradient_norm"] <= row["allowed"], row
        assert row["allowed"] < 1e-4


def test_a_layout_of_three_axes_trains_the_same_model(tmp_path):
    words = ["--out", str(tmp_path / "rows.json"), "--steps", "2", "--layouts", "pp=2,fsdp=2,tp=2"]
    ended = fleet.run("parity", words, 8, timeout=LIMIT, say=None)
    assert ended.ok, ended.lines
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["ok"] and row["ranks"] == 8


@pytest.mark.parametrize(("layout", "most"), [("fsdp", 1.25), ("tp", 1.75), ("pp", 1.25)])
def test_what_a_run_sends_and_holds_is_what_was_predicted(layout, most, seen):
    content, found = verify.verified(seen / f"{layout}.json")
    assert content["measured"]["wire_bytes"] == pytest.approx(content["predicted"]["wire_bytes"], rel=1e-3)
    ratio = content["measured"]["memory_bytes"] / content["predicted"]["memory_bytes"]
    assert 0.9 < ratio < most, "DTensor keeps whole inputs beside its parts; the others agree"
    assert content["raw"]["unknown_calls"] == []
    told = {gate.name: gate.ok for gate in found}
    assert all(told[name] for name in ("step time follows from raw times", "MFU follows", "memory holds the state", "bytes were sent"))


def test_a_run_says_what_it_predicts_before_it_says_what_it_measured(seen):
    said = (seen / "said.txt").read_text()
    assert 0 < said.index("predicted:") < said.index("step    1/8") < said.index("measured:") < said.index("wire      measured / predicted = 1.00")


def test_a_run_is_saved_and_goes_on_as_if_it_had_not_stopped(seen):
    whole = evidence.read(seen / "fsdp.json")["raw"]["steps"]
    parts = [row for name in ("first", "second") for row in evidence.read(seen / f"{name}.json")["raw"]["steps"]]
    assert [row["step"] for row in parts] == [row["step"] for row in whole[:6]]
    for one, other in zip(parts, whole[:6], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)


def test_collectives_are_measured_and_fit_a_line(seen):
    content, found = verify.verified(seen / "links.json")
    assert set(content["measured"]["fits"]) == {"all_reduce", "send"}
    assert all(line["alpha"] > 0 and line["beta"] > 0 for line in content["measured"]["fits"].values())
    assert found[0].name == "repeated" and found[0].ok


@pytest.mark.parametrize(
    ("flags", "words"),
    [(("--backend", "nccl", "--device", "cpu"), "NCCL moves data between GPUs only"),
     (("--layout", "tp=2"), "makes 2 ranks, and 1 is running"),
     (("--size", "9t"), "no model size '9t'"),
     (("--device", "tpu"), "choose auto, cpu or cuda"),
     (("--size", "7b", "--batch", "64", "--seq-len", "16384"), "a rank has"),
     (("--trace",), "A trace is of a GPU's kernels"),
     (("--save-every", "1"), "Checkpoints need a folder")],
)  # fmt: skip
def test_what_cannot_run_is_refused_in_words_before_it_begins(flags, words, capsys):
    assert train.main(["--device", "cpu", "--steps", "1", *flags]) == 2
    said = capsys.readouterr().err
    assert words in said and "Way out:" in said


@pytest.mark.parametrize("kind", ["killed", "hung"])
def test_a_failure_on_purpose_ends_in_time_is_diagnosed_and_leaves_no_process(kind):
    before = below_us()
    found, ended = failures.fail(kind, 2, victim=1, timeout=4.0, limit=LIMIT, device="cpu")
    assert not ended.timed_out
    assert (found.kind, found.rank) == (kind, 1), (found, ended.lines)
    assert below_us() <= before
