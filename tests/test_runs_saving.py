"""Checkpoints of real runs on one process: stopping by SIGTERM, letting old ones go, in the background, and as
safetensors."""

import os
import signal
from pathlib import Path

import pytest
import torch

from course_lib.messages import Trouble
from course_runs import evidence, export, preflight, rates, retrying, saving, stepping, train
from course_runs.layouts import RunLayout
from course_runs.parallel import Choices
from course_runs.predict import Job
from course_runs.process_group import Place
from course_runs.sizes import size
from tests.tables import each_of


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Evidence of a short run, whose rates predict the others, and its folder with a checkpoint."""
    folder = tmp_path_factory.mktemp("known")
    assert run(folder, "--steps 2 --save-every 2 --name known") == 0
    return folder


def run(folder, words, rates_of=None):
    more = ["--rates", str(rates_of / "known.json")] if rates_of else []
    common = ["--device", "cpu", "--layout", "single", "--batch", "2", "--seq-len", "16"]
    return train.main([*common, "--out", str(folder), *words.split(), *more])


def saved(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_sigterm_saves_the_step_and_the_same_command_goes_on_from_there(known, tmp_path, monkeypatch, capsys):
    launch, before = stepping.Stepper.launch, signal.getsignal(signal.SIGTERM)

    def struck(self, number, *more):
        if number == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return launch(self, number, *more)

    monkeypatch.setattr(stepping.Stepper, "launch", struck)
    assert run(tmp_path, "--steps 40 --save-every 30 --total-steps 40", known) == retrying.SAVED == 143
    assert "stopped by SIGTERM after step 5" in capsys.readouterr().out and saved(tmp_path) == ["00000005"]
    assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.setattr(stepping.Stepper, "launch", launch)
    assert run(tmp_path, "--steps 1 --resume --name more", known) == 0
    assert [row["step"] for row in evidence.read(tmp_path / "more.json")["raw"]["steps"]] == [5]


def test_the_newest_checkpoints_stay_and_are_written_while_the_next_steps_run(known, tmp_path):
    assert run(tmp_path, "--steps 7 --save-every 2 --keep 2 --save-async", known) == 0
    assert saved(tmp_path) == ["00000004", "00000006"]


def test_a_rank_that_does_not_see_the_checkpoint_stops_all_of_them(known, monkeypatch, capsys):
    monkeypatch.setattr(saving, "whole", lambda given: [Path("/nowhere/00000007")])
    assert run(known, "--steps 1 --resume", known) == 2
    said = capsys.readouterr().err
    assert "rank 0 does not see it" in said and "all machines share" in said


def test_weights_go_to_safetensors_and_back_unchanged(known, tmp_path):
    (folder,) = (known / "checkpoints").iterdir()
    assert export.main([str(folder), str(tmp_path / "model.safetensors")]) == 0
    weights, again = export.weights_of(folder), export.read(tmp_path / "model.safetensors")
    assert "embedding.weight" in weights and set(weights) == set(again)
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert export.main([str(tmp_path / "model.safetensors"), str(tmp_path / "back")]) == 0
    assert all(torch.equal(weights[name], tensor) for name, tensor in export.weights_of(tmp_path / "back").items())
    raw = (tmp_path / "model.safetensors").read_bytes()
    assert int.from_bytes(raw[:8], "little") % 8 == 0 and raw[8:9] == b"{"
    assert export.main([str(tmp_path / "none"), "x"]) == 2


@pytest.mark.parametrize("dtype", list(export.DTYPES.values()))
def test_every_dtype_of_the_format_survives(dtype, tmp_path):
    tensors = {
        "a": torch.arange(6).reshape(2, 3).to(dtype),
        "empty": torch.empty(0, dtype=dtype),
        "one": torch.ones((), dtype=dtype),
    }
    again = export.read(export.write(tensors, tmp_path / "t.safetensors"))
    assert all(torch.equal(again[name], tensor) and again[name].dtype == dtype for name, tensor in tensors.items())


def test_tensorboard_is_asked_for_by_a_flag_and_named_where_it_is_missing(known, tmp_path, monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert run(tmp_path, "--steps 1 --tensorboard", known) == 2
    assert "TensorBoard is not installed here" in capsys.readouterr().err


@each_of("layout, want", [(RunLayout(fsdp=2), torch.bfloat16), (RunLayout(ddp=2), torch.float32)])
def test_a_block_is_measured_as_the_run_will_compute_it(layout, want):
    place = Place(0, 1, 0, 1, torch.device("cpu"), "gloo")
    job = Job(config=size("1m").config(16), layout=layout, batch=4, width=2)
    block, _ = rates.passes(job, place, Choices(dtype=torch.bfloat16))
    model = next(cell.cell_contents for cell in block.__closure__ if isinstance(cell.cell_contents, torch.nn.Module))
    assert {p.dtype for p in model.parameters()} == {want}
    block()


def test_the_doctor_names_what_holds_nccl_back_and_which_network_it_takes():
    assert preflight.nccl_line({"NCCL_P2P_DISABLE": "1"}, ["lo", "eth0"], False).state == "warn"
    assert preflight.nccl_line({"NCCL_IB_DISABLE": "1"}, ["lo", "eth0"], True).state == "warn"
    assert preflight.nccl_line({"NCCL_IB_DISABLE": "1"}, ["lo", "eth0"], False).state == "ok"
    several = preflight.nccl_line({}, ["lo", "docker0", "eth0", "ib0"], True)
    assert several.state == "ok" and "NCCL_SOCKET_IFNAME=eth0 (of eth0, ib0)" in several.found
    assert (preflight.torch_line("2.13.0+cu128").state, preflight.torch_line("2.6.0").state) == ("ok", "warn")
    assert "over ib0" in preflight.nccl_line({"NCCL_SOCKET_IFNAME": "ib0"}, ["lo", "eth0", "ib0"], True).found


def test_trouble_is_what_a_folder_without_weights_is(tmp_path):
    torch.distributed.checkpoint.save({"other": torch.ones(2)}, checkpoint_id=str(tmp_path / "c"), no_dist=True)
    with pytest.raises(Trouble, match="no weights of a model"):
        export.weights_of(tmp_path / "c")
