"""Evidence as chapters read it: what ships, what is chosen, and what the rows say."""

import re

import pytest

from course_lib.folders import ROOT
from course_runs import evidence, reading, tables, tour, verify
from course_runs.reading import choose, every, hardware_rows, recorded, recorded_names, rows_of
from tests.tables import each_of

MOST_BYTES = 100_000  # of one shipped file: everybody downloads them all


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """No evidence of one's own."""
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    return tmp_path


@each_of("name", recorded_names())
def test_what_ships_follows_the_schema_is_small_and_names_no_folder_of_a_home(name):
    path = evidence.SHIPPED / f"{name}.json"
    content, _ = verify.verified(path)
    assert content == recorded(name)
    assert path.stat().st_size <= MOST_BYTES
    assert "/root" not in path.read_text() and "/home/" not in path.read_text()


def test_each_count_of_processes_has_its_runs():
    runs = {
        count: {name.split("/")[1] for name in recorded_names() if name.startswith(f"cpu{count}/")}
        for count in (1, 2, 4)
    }
    assert {"matmul", "one", "one-recompute"} <= runs[1]
    assert {"links", "ddp", "fsdp", "fsdp-kept", "tp", "pp-gpipe", "pp-1f1b", "failures"} <= runs[2] & runs[4]
    assert {"hsdp", "fsdp-tp", "pp-interleaved"} <= runs[4]


def test_recorded_runs_are_of_as_many_processes_as_their_set_says():
    for name in recorded_names("train"):
        assert reading.ranks_of(recorded(name)) <= int(name[3])
    assert reading.ranks_of(recorded("cpu4/fsdp")) == 4


def test_a_name_that_was_not_recorded_is_answered_with_those_that_were():
    with pytest.raises(ValueError, match="No evidence 'cpu4/zero' was recorded; there are .*cpu4/fsdp"):
        recorded("cpu4/zero")
    with pytest.raises(ValueError, match="origin is 'mine'"):
        every(origin="mine")


def test_names_of_one_kind():
    assert set(recorded_names("failure")) == {name for name in recorded_names() if name.endswith("/failures")}
    assert recorded_names("matmul") == tuple(name for name in recorded_names() if name.endswith("/matmul"))


def test_recorded_evidence_is_chosen_by_layout_schedule_and_ranks(alone):
    assert choose("train", layout="fsdp").name == "cpu4/fsdp", "the most ranks first, then by name"
    assert choose("train", layout="fsdp", reshard_after_forward=False).name == "cpu4/fsdp-kept"
    assert choose("train", layout="ddp=2,fsdp=2").name == choose("train", layout="ddp,fsdp").name == "cpu4/hsdp"
    assert choose("train", layout="pp", schedule="gpipe", ranks=2).name == "cpu2/pp-gpipe"
    assert choose("train", layout="single", checkpointing="full").name.endswith("one-recompute")
    with pytest.raises(
        ValueError, match="no evidence of kind 'train', layout='cp'; of this kind there are: recorded cpu"
    ):
        choose("train", layout="cp")


def test_ones_own_is_chosen_first_and_the_newest_of_it(alone):
    for name, when in (("old", "2026-01-01T00:00:00+00:00"), ("new", "2026-02-01T00:00:00+00:00")):
        evidence.write(evidence.sealed({**recorded("cpu4/fsdp"), "when": when}), alone / "tour", name)
    found = choose("train", layout="fsdp")
    assert (found.origin, found.name) == ("own", "tour/new")
    assert choose("train", layout="fsdp", origin="recorded").origin == "recorded"
    assert choose("train", layout="tp").origin == "recorded", "one's own is of another layout"


def test_rows_say_predicted_measured_and_ratio_of_each_run(alone):
    rows = {row["name"]: row for row in rows_of(every())}
    assert set(rows) == set(recorded_names("train"))
    for name, row in rows.items():
        content = recorded(name)
        assert row["seconds_measured"] == content["measured"]["step_seconds"]
        assert row["seconds_ratio"] == pytest.approx(
            content["measured"]["step_seconds"] / content["predicted"]["step_seconds"]
        )
        assert (row["wire_ratio"] is None) == (row["ranks"] == 1)
        assert row["origin"] == "recorded" and row["device"]


def test_what_ran_on_which_hardware_names_every_run_once_per_machine_and_count():
    rows = hardware_rows()
    said = {(row["processes"], run) for row in rows for run in row["runs"]}
    real = [name for name in recorded_names() if recorded(name)["kind"] != "doctor"]
    assert said == {(reading.ranks_of(recorded(name)), name.split("/")[1]) for name in real}
    for row in rows:
        assert (row["backend"] == "") == (row["processes"] == 1)
        assert "core" in row["hardware"] or "×" in row["hardware"]


def test_hardware_with_gpus_is_named_by_them():
    assert reading.hardware({"gpus": 2, "device": "NVIDIA H200", "cpu": "x", "cores": 16}) == "2 × NVIDIA H200"
    assert reading.hardware({"gpus": 0, "device": "CPU", "cpu": "AMD EPYC", "cores": 1}) == "AMD EPYC, 1 core"


# --- the README's tables


def test_the_ladder_costs_what_the_tours_own_stages_take():
    rows = {row["gpus"]: row for row in tables.ladder(price=3.0)}
    assert list(rows) == [1, 2, 8, 16]
    for gpus in (1, 2, 8):
        minutes = sum(stage.minutes for stage in tour.stages(gpus, False))
        assert rows[gpus]["minutes"] == minutes
        assert rows[gpus]["dollars"] == pytest.approx(gpus * minutes / 60 * 3.0)
    assert len(rows[16]["stages"]) == 2 and rows[16]["minutes"] < rows[8]["minutes"]
    assert [row["dollars"] for row in tables.ladder(price=6.0)] == pytest.approx(
        [2 * row["dollars"] for row in rows.values()]
    )


def test_two_servers_run_what_their_launch_file_starts():
    text = (evidence.SHIPPED.parent / "cloud/two_nodes.sbatch").read_text()
    assert re.findall(r"--name (\w+)", text) == list(tables.TWO_NODES)
    assert (int(re.search(r"--nnodes (\d+)", text)[1]), int(re.search(r"--nproc-per-node (\d+)", text)[1])) == (
        tables.NODES,
        tables.EACH,
    )


def test_the_readme_shows_the_tables_as_they_are_made_today():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, make in tables.TABLES.items():
        assert f"<!-- table: {name} -->\n{make()}\n<!-- end: {name} -->" in text, (
            "python -m course_runs.tables README.md"
        )
    assert tables.filled(text) == text
    assert tables.filled(text.replace("Minutes", "Hours")) == text


def test_the_table_of_hardware_says_when_no_gpu_was_at_hand(monkeypatch):
    row = {
        "hardware": "2 × NVIDIA H200",
        "processes": 2,
        "backend": "nccl",
        "torch": "2.9",
        "when": "2026-01-01",
        "runs": ("ddp",),
    }
    assert "none was at hand" in tables.hardware_table()
    monkeypatch.setattr(reading, "hardware_rows", lambda: [row])
    assert tables.hardware_table().splitlines()[2:] == ["| 2 × NVIDIA H200, torch 2.9 | 2, nccl | ddp | 2026-01-01 |"]
