"""A run that survives: what its logs are read as, what it refuses, and one real kill."""

import json

import pytest
import torch

from course_app import cli
from course_lib.messages import Trouble
from course_lib.model.checkpoint import Position, SampleOrder
from course_runs import evidence, fault_drill, fault_drill_worker, worker_start
from course_runs.process_group import Place
from course_runs.reading import recorded
from course_runs.verify import problems
from tests.tables import each_of

ORDER = SampleOrder(fault_drill_worker.SAMPLES, fault_drill_worker.BATCH)


def a_launch(number, ranks, first, last, when):
    """The records of a start of so many ranks that computes steps `first` to `last`."""
    position, records = Position(), []
    for _ in range(first):
        position = ORDER.step(position)[1]
    for rank in range(ranks):
        # fmt: skip
        records.append(
            {
                "what": "start", "launch": number, "rank": rank, "when": when, "step": first, "ranks": ranks,
                "pid": 10 * number + rank, "agent": 1,
            }
        )  # fmt: skip
    for step in range(first, last + 1):
        for rank in range(ranks):
            mine = ORDER.share(position, rank, ranks)
            # fmt: skip
            records.append(
                {
                    "what": "step", "launch": number, "rank": rank, "when": when + step, "step": step, "ranks": ranks,
                    "samples": mine, "loss": 1 / (step + 1), "checksum": 1,
                }
            )  # fmt: skip
        position = ORDER.step(position)[1]
    return records


def done(number, ranks):
    return [
        {"what": "done", "launch": number, "rank": rank, "when": 900, "step": 9, "weights": "w"}
        for rank in range(ranks)
    ]


def test_the_last_computation_of_a_step_counts_and_its_samples_once():
    records = [*a_launch(0, 3, 0, 5, 0), *a_launch(1, 2, 3, 8, 100), *done(1, 2)]
    found = fault_drill.trajectory(records, 9)
    assert found.once and found.launches == (3, 2) and found.repeated == 3 and found.weights == "w"
    assert len(found.losses) == 9


@each_of("harm", ["a rank's record is missing", "samples twice", "a step is missing"])
def test_what_was_not_read_exactly_once_is_noticed(harm):
    records = a_launch(0, 3, 0, 8, 0)
    at = next(place for place, each in enumerate(records) if each["what"] == "step" and each["step"] == 4)
    if harm == "a step is missing":
        records = [each for each in records if each["what"] != "step" or each["step"] != 4]
    elif harm == "samples twice":
        records[at]["samples"] = records[at + 1]["samples"]
    else:
        del records[at]
    assert not fault_drill.trajectory(records, 9).once


def test_ranks_that_end_with_different_weights_are_no_result():
    records = [*a_launch(0, 2, 0, 8, 0), *done(0, 2)]
    records[-1]["weights"] = "other"
    assert fault_drill.trajectory(records, 9).weights == ""


def lost(rank, error):
    return {"what": "lost the others", "launch": 0, "rank": rank, "when": 50, "error": error}


@each_of(
    "kind, said",
    ("killed", [lost(0, "Read error: Connection reset by peer"), lost(2, "Connection closed by peer [127.0.0.1]")]),
    ("hung", [lost(0, "Timed out waiting 10000ms for recv"), lost(2, "Timed out waiting 10000ms for send")]),
    ("slow", [{"what": "straggler", "launch": 0, "rank": 0, "when": 50, "step": 4, "odd": [1], "ratio": 9.0}]),
    ("flipped", [{"what": "corrupt", "launch": 0, "rank": 0, "when": 50, "step": 4, "odd": [1], "decided": True}]),
)
def test_each_harm_is_told_by_what_the_others_say(kind, said):
    harm = {"what": "harm", "launch": 0, "rank": 1, "when": 49, "kind": kind, "step": 5}
    records = [*a_launch(0, 3, 0, 4, 0), harm, *said, *a_launch(2, 3, 3, 8, 100)]
    (row,) = fault_drill.noticed(records, [])
    assert row.ok and row.blamed == (1,) and (row.resumed, row.repeated) == (3, 2) and row.seconds == 100 + 5 - 49


def test_harm_that_nobody_noticed_is_not_right():
    harm = {"what": "harm", "launch": 0, "rank": 1, "when": 49, "kind": "flipped", "step": 5}
    (row,) = fault_drill.noticed([*a_launch(0, 3, 0, 8, 0), harm], [])
    assert not row.ok and row.resumed == -1


@each_of(
    "words, problem",
    (["--nproc", "0"], "cannot shrink to none"),
    (["--harm", "burned"], "no harm 'burned'"),
    (["--nproc", "1"], "nobody to compare"),
    (["--steps", "10"], "--steps is 10"),
)
def test_what_makes_no_sense_is_refused_before_anything_starts(words, problem):
    with pytest.raises(Trouble, match=problem):
        fault_drill.arguments(words)
    assert fault_drill.main(words) == 2


def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Trouble, match="no GPU"):
        fault_drill.arguments(["--device", "cuda"])


@pytest.mark.parametrize(
    ("words", "passed_on"), [(["--nproc", "4", "--no-resize"], ["--no-resize", "--nproc", "4"]), ([], [])]
)
def test_the_number_of_ranks_reaches_the_program(monkeypatch, words, passed_on):
    """`course run` takes --nproc for programs that torchrun starts; this one starts torchrun itself."""
    started = []
    monkeypatch.setattr(
        worker_start, "start", lambda program, rest, nproc, limits, retries: started.append((rest, nproc)) or 0
    )
    assert cli.run(["run", "survive", *words]) == 0
    assert started == [(passed_on, 1)]


def test_harm_happens_once_however_often_a_step_is_repeated(tmp_path):
    (tmp_path / "harm.json").write_text(json.dumps([{"kind": "flipped", "step": 2, "rank": 0}]))
    model = torch.nn.Linear(4, 4)
    before = model.weight.detach().clone()
    for _ in range(3):
        fault_drill_worker.Harm(tmp_path, fault_drill_worker.Log(tmp_path, 0, 0)).after(2, 0, model)
    assert (model.weight != before).sum() == 1
    assert [each["what"] for each in fault_drill.read(tmp_path)] == ["harm"]


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path):
    log = fault_drill_worker.Log(tmp_path, 0, 1)
    log.say("start", step=0)
    (tmp_path / "log-000-1.jsonl").open("a").write('{"what": "st')
    assert [each["what"] for each in fault_drill.read(tmp_path)] == ["start"]


def test_a_rank_without_samples_adds_nothing(tmp_path):
    place = Place(0, 1, 0, 1, torch.device("cpu"), "gloo")
    training = fault_drill_worker._fresh(place)
    assert fault_drill_worker._backward(training.model, [], place) == 0
    assert all(state["step"] == 0 for state in training.optimizer.state.values())


def test_the_recorded_run_lost_nothing():
    content = recorded("cpu2/survive")
    assert problems(content) == [] and content["kind"] == "survival" in evidence.KINDS
    measured = content["measured"]
    assert measured["found"] == measured["of"] == 4 and measured["once"] and measured["same"]
    launches = content["raw"]["resized"]["launches"]
    assert min(launches) < launches[0] == launches[-1]


@pytest.mark.rotates("course_runs/")
def test_a_killed_rank_costs_a_few_steps_and_not_a_bit(tmp_path):
    words = ["--steps", "14", "--timeout", "30", "--device", "cpu"]
    calm = fault_drill.one_agent(tmp_path / "calm", 2, words)
    ended = fault_drill.one_agent(tmp_path / "harmed", 2, words, [{"kind": "killed", "step": 7, "rank": 1}])
    assert calm.ok and ended.ok, ended.lines
    records = fault_drill.read(tmp_path / "harmed")
    (row,) = fault_drill.noticed(records, ended.lines)
    assert row.ok and row.resumed in (3, 6)
    one, two = (fault_drill.trajectory(fault_drill.read(tmp_path / name), 14) for name in ("calm", "harmed"))
    assert two.once and two.weights == one.weights != ""
