"""Checkpoints in parts, read at another number of ranks; and first weights that no number of ranks changes."""

import json

import pytest
import torch
from sharding_kit import CONFIG, FROZEN, AdamW, accumulate_on, mine, sharded, torchs

from course_lib.cluster import RankError, simulate
from course_lib.model.transformer import Config, build
from course_lib.parallel.sharding import FullySharded, MasterOptimizer, Zero, full_state, load, save
from course_runs.real_ranks import launch
from tests.patience import patience

DOUBLE = torch.float64


def steps(comm, how, first, last, start=None, end=None, master=False, seed=0):
    """Training steps between two checkpoints: weights after them, and the bytes that this rank read."""
    model = build(CONFIG, seed).to(torch.bfloat16 if master else DOUBLE)
    model.get_parameter(FROZEN).requires_grad_(False)
    model = sharded(comm, model, how)
    optimizer = MasterOptimizer(model.shards(), AdamW) if master else AdamW(list(model.shards()))
    read = load(start, model, optimizer) if start else 0
    for step in range(first, last):
        accumulate_on(comm, model, [mine(comm, step)])
        optimizer.step()
        model.zero_grad()
        if how.startswith("stage"):
            model.gather()
    if end:
        save(end, model, optimizer)
    return full_state(model), read


WAYS = [
    ("fully", 4, "fully", 3),
    ("fully", 2, "small units", 5),
    ("stage 1", 3, "fully", 2),
    ("two levels", 4, "stage 2", 3),
    ("fully", 1, "kept", 7),
]


@pytest.mark.parametrize(("how", "ranks", "then", "others"), WAYS)
def test_training_goes_on_from_a_checkpoint_at_another_number_of_ranks(tmp_path, how, ranks, then, others):
    simulate(steps, ranks, (how, 0, 2, None, tmp_path))
    run = simulate(steps, others, (then, 2, 4, tmp_path, None, False, 1))
    whole, _ = simulate(steps, 1, ("fully", 0, 4)).results[0]
    for name, want in whole.items():
        torch.testing.assert_close(run.results[-1][0][name], want, rtol=1e-9, atol=1e-9)


def test_master_copies_come_back_to_the_bit(tmp_path):
    whole, _ = simulate(steps, 3, ("fully", 0, 1, None, tmp_path / "a", True)).results[0]
    got, _ = simulate(steps, 2, ("fully", 1, 1, tmp_path / "a", tmp_path / "b", True, 1)).results[0]
    assert all(torch.equal(got[name], want) for name, want in whole.items())
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def contents(folder):
    """Every stretch of a checkpoint joined by what it is, whatever ranks wrote it."""
    found = {}
    for index in sorted(folder.glob("part-*.json")):
        data = index.with_suffix(".bin").read_bytes()
        for what, name, start, stop, dtype, _, offset in json.loads(index.read_text())["stretches"]:
            found.setdefault((what, name), {})[start] = data[
                offset : offset + (stop - start) * getattr(torch, dtype).itemsize
            ]
    return {key: b"".join(value for _, value in sorted(parts.items())) for key, parts in found.items()}


def faulty(comm, folder, config):
    z = FullySharded(comm, build(config))
    load(folder, z, AdamW(list(z.shards())))


def test_a_checkpoint_of_another_model_or_with_a_part_missing_is_said_to_be_so(tmp_path):
    with pytest.raises(RankError, match="holds no checkpoint"):
        simulate(faulty, 2, (tmp_path, CONFIG))
    simulate(steps, 2, ("fully", 0, 0, None, tmp_path))
    with pytest.raises(
        RankError,
        match=r"has shape \[53, 36\] in the checkpoint and \[64, 32\] in this model; build the model that was saved",
    ):
        simulate(faulty, 2, (tmp_path, Config(tied=True)))
    index = tmp_path / "part-0.json"
    told = json.loads(index.read_text())
    told["stretches"] = told["stretches"][1:]
    index.write_text(json.dumps(told))
    with pytest.raises(RankError, match="are incomplete; was every rank's part kept"):
        simulate(faulty, 2, (tmp_path, CONFIG))


def peer_saves(comm, folder):
    """Ours and torch's, after the same two steps; both write a checkpoint."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    ours, _ = steps(comm, "fully", 0, 2, None, folder / "ours")
    model = torchs(comm, 2, DOUBLE, give="model")
    dcp.save(get_model_state_dict(model), checkpoint_id=folder / "theirs")
    return ours


def peer_loads(comm, folder):
    """Both read at another number of ranks into models of other weights."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    ours, _ = steps(comm, "fully", 2, 2, folder / "ours", seed=1)
    model = torchs(comm, 0, DOUBLE, give="model")
    state = get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder / "theirs")
    set_model_state_dict(model, state)
    return ours, {name: each.full_tensor().detach() for name, each in model.named_parameters()}


@pytest.mark.slower
def test_what_two_processes_save_three_read_as_torchs_own_checkpoint_does(tmp_path):
    saved = launch(peer_saves, 2, (tmp_path,), timeout=patience(120)).results[0]
    for ours, theirs in launch(peer_loads, 3, (tmp_path,), timeout=patience(120)).results:
        assert ours.keys() == theirs.keys()
        for name, want in saved.items():
            assert torch.equal(ours[name], want)
            torch.testing.assert_close(theirs[name], want, rtol=1e-9, atol=1e-9)


def test_stages_1_and_2_keep_frozen_weights_and_buffers_in_a_checkpoint(tmp_path):
    def program(comm, folder, value, reads):
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
        model[1].weight.requires_grad_(False).fill_(value)
        model[0].running_mean.fill_(value)
        z = Zero(comm, model, stage=2)
        optimizer = AdamW(list(z.shards()))
        (load if reads else save)(folder, z, optimizer)
        return model[1].weight.clone(), model[0].running_mean.clone()

    simulate(program, 2, (tmp_path, 5.0, False))
    for weight, mean in simulate(program, 3, (tmp_path, 1.0, True)).results:
        assert (weight == 5).all() and (mean == 5).all()
