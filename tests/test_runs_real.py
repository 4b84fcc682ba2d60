"""Real runs on real processes of this CPU: few starts, each asked as much as it can answer."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from course_lib.cluster.intervals import length
from course_lib.messages import Trouble
from course_runs import evidence, failure_drill, layouts, process_group, torchrun, train, verify, worker_start
from course_runs.processes import descendants
from tests.patience import patience
from tests.tables import each_alone, each_of

LIMIT = patience(300.0)  # s; ten times what one of these takes on an idle machine
HERE = Path(__file__).parent


def below_us():
    return set(descendants(os.getpid()))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A folder with what two ranks have left: see runs_session.py."""
    folder = tmp_path_factory.mktemp("runs")
    ended = torchrun.run(str(HERE / "runs_session.py"), [str(folder)], 2, timeout=LIMIT, say=None)
    assert ended.ok, "\n".join(ended.lines)
    (folder / "said.txt").write_text("\n".join(ended.lines), encoding="utf-8")
    return folder


def test_every_layout_of_two_ranks_trains_the_same_model(seen):
    rows = json.loads((seen / "parity.json").read_text())
    assert {row["layout"] for row in rows} == set(layouts.PROVEN[2])
    assert {"cp", "tp,sp", "pp:interleaved"} <= set(layouts.PROVEN[2])
    for row in rows:
        assert row["loss"] <= row["allowed"] and row["gradient_norm"] <= row["allowed"], row
        assert row["allowed"] < 1e-4
    (fused,) = json.loads((seen / "fused.json").read_text())
    assert fused["ok"] and fused["layout"] == "tp", fused


@pytest.mark.rotates("course_runs/")
def test_a_layout_of_three_axes_trains_the_same_model(tmp_path):
    words = ["--out", str(tmp_path), "--steps", "2", "--fused", "--layouts", "pp=2,fsdp=2,tp=2;fsdp=2,cp=2,tp=2,sp"]
    ended = torchrun.run("parity", words, 8, timeout=LIMIT, say=None)
    assert ended.ok, ended.lines
    content, found = verify.verified(tmp_path / "parity.json")
    assert [row["ok"] and row["ranks"] for row in content["raw"]["rows"]] == [8, 8] and all(gate.ok for gate in found)


@pytest.mark.parametrize(("layout", "most"), [("fsdp", 1.25), ("tp", 1.75), ("pp", 1.25), ("cp", 1.25)])
def test_what_a_run_sends_and_holds_is_what_was_predicted(layout, most, seen):
    content, found = verify.verified(seen / f"{layout}.json")
    assert content["measured"]["wire_bytes"] == pytest.approx(content["predicted"]["wire_bytes"], rel=1e-3)
    ratio = content["measured"]["memory_bytes"] / content["predicted"]["memory_bytes"]
    assert 0.9 < ratio < most, "DTensor keeps whole inputs beside its parts; the others agree"
    assert content["raw"]["unknown_calls"] == [] and content["setup"]["servers"] == [2]
    told = {gate.name: gate.ok for gate in found}
    assert all(
        told[name]
        for name in ("step time follows from raw times", "MFU follows", "memory holds the state", "bytes were sent")
    )


def test_eight_bits_and_shared_tokens_train_nearly_the_same_model_and_send_what_was_predicted(seen):
    content = evidence.read(seen / "sp.json")
    plain = {row["layout"]: row for row in json.loads((seen / "parity.json").read_text())}["tp,sp"]["losses"]
    losses = [row["loss"] for row in content["raw"]["steps"]]
    assert content["setup"]["fp8"] and losses[0] == pytest.approx(plain[0], rel=5e-3) and losses[0] != plain[0]
    assert losses[:3] == pytest.approx(plain[:3], rel=0.1), (
        "Adam's first steps go by the signs of gradients, which rounding turns"
    )
    assert content["measured"]["wire_bytes"] == pytest.approx(content["predicted"]["wire_bytes"], rel=1e-3)


def test_a_run_says_what_it_predicts_before_it_says_what_it_measured(seen):
    said = (seen / "said.txt").read_text()
    assert (
        0
        < said.index("predicted:")
        < said.index("step    1/8")
        < said.index("measured:")
        < said.index("wire      measured / predicted = 1.00")
    )


def test_a_run_that_was_stopped_goes_on_with_the_losses_and_learning_rates_of_one_that_was_not(seen):
    content, _ = verify.verified(seen / "resumed.json")
    raw, half = content["raw"], content["setup"]["resumed_at"]
    parts = [*raw["before"], *raw["steps"]]
    assert [row["step"] for row in parts] == [row["step"] for row in raw["whole"]] == list(range(2 * half))
    for one, other in zip(parts, raw["whole"], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)
        assert one["learning_rate"] == other["learning_rate"]
    rates = [row["learning_rate"] for row in parts]
    assert max(rates) == rates[2] == 1e-3 and rates[-1] < rates[half] < 1e-3, (
        "up over three steps, and down across the stop"
    )
    saved = [row["parts"]["checkpoint"] for row in raw["before"]]
    assert saved[-1] > 0 and not any(saved[:-1])


def test_a_step_is_told_apart_and_its_gap_from_the_prediction_adds_up(seen):
    for name in ("fsdp", "tp", "pp"):
        content, found = verify.verified(seen / f"{name}.json")
        told = {gate.name: gate.ok for gate in found}
        assert told["parts lie within their step"] and told["the gap's terms add up"]
        row = content["raw"]["steps"][-1]["parts"]
        assert row["forward"] > 0 and row["backward"] > row["optimizer"] > 0
        assert content["predicted"]["seconds"]["arithmetic"] > 0
    assert content["raw"]["steps"][-1]["parts"]["communication"] > 0, "a pipeline's ranks wait for their neighbors"


def test_a_trace_on_a_cpu_tells_gloo_from_arithmetic(seen):
    content, found = verify.verified(seen / "fsdp.json")
    trace = content["raw"]["intervals"]
    assert {gate.name: gate.ok for gate in found}["exposed communication follows from the trace"]
    assert length(trace["compute"]) > 0
    assert 0 < content["measured"]["exposed_seconds"] <= length(trace["communication"]) + 1e-9
    assert len(trace["communication"]) >= 5, "gathers and reduce-scatters of four blocks and the ends"


@pytest.mark.rotates("course_runs/")
def test_blocks_that_are_compiled_and_computed_again_train_the_same_model(seen):
    words = ["--steps", "2", "--layout", "ddp", "--compile", "--checkpointing", "full", "--name", "compiled"]
    words += ["--device", "cpu", "--out", str(seen), "--rates", str(seen / "fsdp.json")]
    assert torchrun.run("train", words, 2, timeout=LIMIT, say=None).ok
    content = evidence.read(seen / "compiled.json")
    want = {row["layout"]: row for row in json.loads((seen / "parity.json").read_text())}["ddp"]["losses"]
    assert content["setup"]["compiled"] and content["setup"]["checkpointing"] == "full"
    assert [row["loss"] for row in content["raw"]["steps"]] == pytest.approx(want[:2], rel=1e-5)
    assert content["predicted"]["memory"]["recomputed"] > 0


def test_collectives_are_measured_and_fit_a_line(seen):
    content, found = verify.verified(seen / "links.json")
    assert set(content["measured"]["fits"]) == {"all_reduce", "send"}
    assert all(line["alpha"] > 0 and line["beta"] > 0 for line in content["measured"]["fits"].values())
    assert found[0].name == "repeated" and found[0].ok


@each_alone(
    "flags, words",
    (("--backend", "nccl", "--device", "cpu"), "NCCL moves data between GPUs only"),
    (("--layout", "tp=2"), "makes 2 ranks, and 1 is running"),
    (("--size", "9t"), "no model size '9t'"),
    (("--device", "tpu"), "choose auto, cpu or cuda"),
    (("--size", "7b", "--batch", "64", "--seq-len", "16384"), "a rank has"),
    (("--rates", str(evidence.SHIPPED / "cpu1/matmul.json")), "which holds no rates"),
    (("--save-every", "1"), "Checkpoints need a folder"),
)
def test_what_cannot_run_is_refused_in_words_before_it_begins(flags, words, capsys):
    assert train.main(["--device", "cpu", "--steps", "1", *flags]) == 2
    said = capsys.readouterr().err
    assert words in said and "Way out:" in said


def test_a_port_that_is_in_use_is_named(monkeypatch, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for name, value in {
            "RANK": "0",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(taken.getsockname()[1]),
        }.items():
            monkeypatch.setenv(name, value)
        assert train.main(["--device", "cpu"]) == 2
        said = capsys.readouterr().err
    assert f"Port {os.environ['MASTER_PORT']} of this machine is in use" in said and "--master-port" in said


def test_fewer_gpus_than_asked_or_none_is_refused_with_what_would_run(monkeypatch):
    monkeypatch.setattr(process_group.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(process_group.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(Trouble, match="8 processes were asked for, and this machine has 2 GPUs") as refused:
        process_group.choose("cuda", "auto", 8)
    assert "--nproc 2" in refused.value.way_out
    assert process_group.choose("auto", "auto", 2) == ("cuda", "nccl")
    monkeypatch.setattr(process_group.torch.cuda, "is_available", lambda: False)
    with pytest.raises(Trouble, match="no GPU that torch can see"):
        process_group.choose("cuda", "auto", 1)


def test_a_refusal_of_all_ranks_is_code_2_through_torchrun(capfd):
    code = worker_start.start("train", ["--device", "cpu", "--layout", "tp=3"], 2, worker_start.Limits())
    said = capfd.readouterr().out
    assert code == 2 and said.count("makes 3 ranks, and 2 are running") == 1 and "Way out:" in said


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_rank_that_was_refused_alone_says_so_itself(rank, monkeypatch, capsys):
    monkeypatch.setenv("RANK", rank)
    waits = []
    monkeypatch.setattr(process_group.time, "sleep", waits.append)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert process_group.refused("train", Trouble("No.", "yes")) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err.startswith("train: No.") and waits == [process_group.REFUSAL_WAIT] * (rank == "1")


def test_a_run_is_ended_before_it_costs_more_than_it_may(tmp_path, capfd):
    before = below_us()
    limits = worker_start.Limits(dollars=0.02, price=3.6)  # two devices, a tenth of a cent a second each: ten seconds
    start = time.monotonic()
    code = worker_start.start("train", ["--device", "cpu", "--steps", "1000000", "--out", str(tmp_path)], 2, limits)
    took = time.monotonic() - start
    said = capfd.readouterr().out
    assert code == worker_start.STOPPED == 124
    assert 10.0 <= took < 10.0 + patience(2 * torchrun.GRACE + 5.0), "asked, then killed"
    assert "at most 0.2 minutes, $0.02" in said and "no process is left" in said
    assert below_us() <= before
    assert "stopped after 1" in (tmp_path / "stopped-train.txt").read_text()


@each_of("kind", ["killed", "hung"])
def test_a_failure_on_purpose_ends_in_time_is_diagnosed_and_leaves_no_process(kind):
    before = below_us()
    found, ended = failure_drill.fail(kind, 2, victim=1, timeout=4.0, limit=LIMIT, device="cpu")
    assert not ended.timed_out
    assert (found.kind, found.rank) == (kind, 1), (found, ended.lines)
    assert below_us() <= before
