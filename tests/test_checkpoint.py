"""Checkpoints: power failures at every operation, kills, damage, resharding, the background, torch's format, exact
resumption."""

import itertools
import json
import math
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bench import checkpoints as bench
from course_chapters.ch14 import killing
from course_chapters.ch14.killing import Killed
from course_chapters.ch14.memory_disk import MemoryDisk, Stopped
from course_lib.model import checkpoint
from course_lib.model.checkpoint import (
    BackgroundSaver,
    CheckpointError,
    CheckpointStore,
    PieceReader,
    Position,
    SampleOrder,
    Training,
    boxes_of,
    capture,
    finish_torch,
    restore,
    share_of,
    tensors_of,
    write_pieces,
    write_torch,
)
from course_lib.model.checkpoint.pieces import bounds
from tests.patience import patience
from tests.tables import each_alone, each_of


def state_of(step):
    generator = torch.Generator().manual_seed(step)
    return {
        "a": torch.randn(3, 5, generator=generator),
        "b": torch.randn(7, generator=generator).to(torch.bfloat16),
        "count": torch.tensor(step),
        "none": torch.zeros(0, 4),
    }


def same(one, two):
    return set(one) == set(two) and all(
        one[name].dtype == two[name].dtype and one[name].shape == two[name].shape and torch.equal(one[name], two[name])
        for name in one
    )


def save(store, step, ranks=2, attempt="a0", notes=None):
    folder = store.begin(step, attempt)
    for rank in reversed(range(ranks)):
        write_pieces(store, folder, rank, share_of(state_of(step), rank, ranks), notes)
    store.commit(folder, ranks, notes)
    return folder


def load(store, step=None):
    found = store.newest()
    if found is None:
        return None, None
    state = {name: torch.empty_like(each) for name, each in state_of(0).items()}
    PieceReader(store, found).fill(state)
    return found, state


# --- nothing that was promised is lost ------------------------------------------------------------


def three_checkpoints(disk):
    """Saves steps 1 to 3, keeping one, and notes each promise: the list of steps that were committed."""
    store, promised = CheckpointStore("run", keep=1, disk=disk), []
    try:
        for step in (1, 2, 3):
            save(store, step, attempt=f"a{step}")
            promised.append(step)
    except Stopped:
        pass
    return promised


def check_recovery(disk, promised):
    found, state = load(CheckpointStore("run", keep=1, disk=disk))
    if found is None:
        assert not promised
    else:
        assert found.step >= max(promised, default=0) and not found.damaged
        assert same(state, state_of(found.step))


def operations():
    disk = MemoryDisk()
    three_checkpoints(disk)
    return disk.operations


def test_killed_at_any_operation_the_newest_promised_checkpoint_loads_bit_for_bit():
    count = operations()
    assert count > 60
    for stop in range(1, count + 1):
        disk = MemoryDisk(stop_at=stop, seed=stop)
        promised = three_checkpoints(disk)
        check_recovery(disk.after_kill(), promised)


def test_without_power_at_any_operation_the_newest_promised_checkpoint_loads_bit_for_bit():
    for stop in range(1, operations() + 1):
        disk = MemoryDisk(stop_at=stop, seed=stop)
        promised = three_checkpoints(disk)
        for seed in range(12):
            check_recovery(disk.after_power_failure(seed), promised)


def test_a_run_that_goes_on_after_a_power_failure_is_not_misled_by_what_is_left():
    for stop in range(1, operations() + 1, 3):
        disk = MemoryDisk(stop_at=stop, seed=stop)
        three_checkpoints(disk)
        left = disk.after_power_failure(stop)
        store = CheckpointStore("run", keep=1, disk=left)
        save(store, 7, attempt="later")
        found, state = load(store)
        assert found.step == 7 and same(state, state_of(7))
        assert store.disk.names("run") == ["step-00000007.later"]


@each_of("forgotten", ["sync", "sync_folder"])
def test_the_disk_shows_what_a_writer_without_sync_loses(forgotten):
    class Careless(MemoryDisk):
        pass

    setattr(Careless, forgotten, lambda self, path: None)
    disk = Careless()
    promised = three_checkpoints(disk)
    assert promised == [1, 2, 3]
    failures = 0
    for seed in range(12):
        try:
            check_recovery(disk.after_power_failure(seed), promised)
        except (AssertionError, CheckpointError):
            failures += 1
    assert failures
    check_recovery(disk.after_kill(), promised)  # a kill does not show it


def test_on_a_full_disk_nothing_is_promised_and_the_one_before_is_used():
    disk = MemoryDisk()
    save(CheckpointStore("run", disk=disk), 1, attempt="a1")
    used = sum(map(len, disk.files))
    for room in range(0, used, 37):
        full = disk.after_kill()
        full.capacity = used + room
        store = CheckpointStore("run", disk=full)
        with pytest.raises(CheckpointError, match="No space") as caught:
            save(store, 2, attempt="a2")
        assert caught.value.kind == "no space"
        found, state = load(store)
        assert found.step == 1 and same(state, state_of(1))


def test_processes_killed_before_they_wrote_anything_have_lost_nothing(tmp_path):
    assert killing._phase(tmp_path / "not-there") == "nothing written yet"


@pytest.mark.slower
def test_processes_killed_while_they_save_lose_nothing(tmp_path):
    """A small version of `./course bench checkpoints`, in a process that runs no threads yet, since it forks."""
    program = (
        "import sys; from pathlib import Path; from bench.checkpoints import kills\n"
        f"rows = kills(Path(sys.argv[1]), 12, 2, 1 << 16, seed=1, most={patience(0.2)})\n"
        "print([row for row in rows if not row.intact]); print(max(row.found for row in rows))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    wrong, newest = done.stdout.splitlines()
    assert wrong == "[]" and int(newest) > 3, done.stderr


def test_the_bench_says_what_was_lost(capsys, monkeypatch, tmp_path):
    rows = [Killed("parts recorded", 3, 3, True), Killed("between checkpoints", 5, 4, False, "weights")]
    monkeypatch.setattr(bench, "kills", lambda *arguments: rows)
    monkeypatch.setattr(bench, "speed", lambda folder: "fast")
    monkeypatch.setattr(bench, "cut_power", lambda: (1, 2, 0))
    assert bench.main(["--folder", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "LOST: promised 5, found 4, between checkpoints: weights" in told
    assert "named: no space; step 1 is used" in told


# --- damage is named ------------------------------------------------------------------------------


def damaged(tmp_path, how):
    store = CheckpointStore(tmp_path, model="m")
    save(store, 1, attempt="a1")
    folder = save(store, 2, attempt="a2")
    how(folder)
    return CheckpointStore(tmp_path, model="m")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def tear(path):
    path.write_bytes(path.read_bytes()[:-1])


@each_alone(
    "how, kind",
    (lambda f: flip(f / "part-1.bin"), "checksum"),
    (lambda f: tear(f / "part-0.bin"), "torn"),
    (lambda f: (f / "part-0.bin").write_bytes((f / "part-0.bin").read_bytes() + b"x"), "torn"),
    (lambda f: (f / "part-1.bin").unlink(), "missing part"),
    (lambda f: tear(f / "manifest.json"), "manifest"),
    (lambda f: (f / "manifest.json").write_text(json.dumps({"step": 2})), "manifest"),
    (lambda f: (f / "manifest.json").write_text("[]"), "manifest"),
    (lambda f: flip(f / "manifest.json"), "manifest"),
    ids=["flipped bit", "torn", "longer", "missing", "torn manifest", "other manifest", "list", "flipped manifest"],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, how, kind):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.bin")}
    store = damaged(tmp_path, how)
    found, state = load(store)
    assert found.step == 1 and same(state, state_of(1))
    assert [each.kind for each in found.damaged] == [kind] and "step-00000002" in str(found.damaged[0])
    assert all(path.read_bytes() == data for path, data in before.items())


def rewritten(folder, **changes):
    content = json.loads((folder / "manifest.json").read_text()) | changes
    del content["sha256"]
    (folder / "manifest.json").write_bytes(checkpoint.store._sealed(content))


@pytest.mark.parametrize(("change", "kind"), [({"version": 9}, "other version"), ({"model": "x"}, "other model")])
def test_another_model_or_version_is_refused_and_never_passed_over(tmp_path, change, kind):
    store = damaged(tmp_path, lambda folder: rewritten(folder, **change))
    with pytest.raises(CheckpointError) as caught:
        store.newest()
    assert caught.value.kind == kind and store.steps() == [2, 1]


def test_if_all_are_damaged_it_says_so_and_an_empty_folder_is_a_fresh_start(tmp_path):
    store = damaged(tmp_path, lambda folder: tear(folder / "part-0.bin"))
    tear(tmp_path / "step-00000001.a1" / "part-0.bin")
    with pytest.raises(CheckpointError, match="Every checkpoint is damaged") as caught:
        store.newest()
    assert caught.value.kind == "no checkpoint"
    assert CheckpointStore(tmp_path / "fresh").newest() is None


def test_a_missing_rank_is_waited_for_and_then_named(tmp_path):
    store = CheckpointStore(tmp_path)
    folder = store.begin(3, "a0")
    write_pieces(store, folder, 0, share_of(state_of(3), 0, 2))
    with pytest.raises(CheckpointError, match="rank 1 of 2") as caught:
        store.commit(folder, 2, patience=0.05)
    assert caught.value.kind == "missing part" and store.newest() is None


def test_an_attempt_is_never_written_over_and_leftovers_of_another_are_not_taken(tmp_path):
    store = CheckpointStore(tmp_path)
    stale = store.begin(2, "killed")  # all parts were there, only the manifest was not
    for rank in range(2):
        write_pieces(store, stale, rank, share_of(state_of(99), rank, 2))
    save(store, 2, attempt="again")
    found, state = load(store)
    assert found.folder.name == "step-00000002.again" and same(state, state_of(2)) and not stale.exists()
    with pytest.raises(ValueError, match="complete"):
        store.begin(2, "again")
    with pytest.raises(ValueError, match="attempt"):
        store.begin(2, "../elsewhere")
    with pytest.raises(ValueError, match="ranks"):
        store.commit(stale, 0)


def test_only_the_newest_are_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 2, 3, 10, 4):  # after a step back, the largest step is still the newest
        save(store, step, attempt=f"a{step}")
    assert store.steps() == [10, 4]


def test_a_run_that_goes_back_on_purpose_finds_the_newest_checkpoint_up_to_a_step(tmp_path):
    store = CheckpointStore(tmp_path, keep=5)
    for step in (10, 20, 30):
        save(store, step, attempt=f"a{step}")
    assert store.newest(at_most=25).step == 20 and store.newest(at_most=5) is None


# --- resharding -----------------------------------------------------------------------------------


@each_of("ranks", [1, 2, 3, 7, 64])
def test_replicas_share_the_saving_and_every_element_is_saved_once(ranks):
    state = state_of(5)
    pieces = [share_of(state, rank, ranks) for rank in range(ranks)]
    for name, tensor in state.items():
        mine = sorted((each for each in itertools.chain(*pieces) if each.name == name), key=lambda one: one.start)
        assert mine[0].start == 0 and mine[-1].stop == tensor.numel()
        assert all(one.stop == two.start for one, two in itertools.pairwise(mine))
    nbytes = [sum(each.values.numel() * each.values.element_size() for each in some) for some in pieces]
    total = sum(each.numel() * each.element_size() for each in state.values())
    assert sum(nbytes) == total and max(nbytes) - min(nbytes) <= 2 * 8
    with pytest.raises(ValueError, match="ranks"):
        bounds([8], 0)


@pytest.mark.parametrize(("saved", "read"), [(1, 3), (3, 2), (4, 1), (2, 5)])
def test_any_number_of_ranks_reads_what_another_number_wrote_and_only_its_bytes(tmp_path, saved, read):
    store = CheckpointStore(tmp_path)
    save(store, 4, ranks=saved)
    found = store.newest()
    for rank in range(read):
        reader = PieceReader(store, found)
        for piece in share_of(state_of(4), rank, read):
            assert torch.equal(reader.read(piece.name, piece.start, piece.stop), piece.values)
        wanted = sum(p.values.numel() * p.values.element_size() for p in share_of(state_of(4), rank, read))
        assert reader.bytes_read == wanted


def test_another_models_tensors_are_named_before_anything_changes(tmp_path):
    store = CheckpointStore(tmp_path)
    save(store, 4)
    reader = PieceReader(store, store.newest())
    for wrong, words in (
        ({**state_of(1), "c": torch.zeros(1)}, "has no c"),
        ({"a": torch.ones(3, 5)}, "this run has not"),
        ({**state_of(1), "a": torch.ones(5, 3)}, r"\[3, 5\]"),
    ):
        kept = {name: each.clone() for name, each in wrong.items()}
        with pytest.raises(CheckpointError, match=words) as caught:
            reader.fill(wrong)
        assert caught.value.kind == "other model" and same(wrong, kept)
    with pytest.raises(CheckpointError, match="has no c"):
        reader.read("c")


def test_a_chapters_sharded_model_can_be_what_a_checkpoint_holds(tmp_path):
    from course_lib.cluster import simulate
    from course_lib.parallel.sharding import FullySharded, full_state
    from course_lib.parallel.sharding import load as load_shards
    from course_lib.parallel.sharding import save as save_shards

    def train(comm, folder, steps, resume):
        torch.manual_seed(0)
        model = FullySharded(comm, nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)))
        optimizer = torch.optim.AdamW(model.shards(), lr=0.01)
        store = CheckpointStore(folder)
        if resume:
            load_shards(store.newest().folder / "shards", model, optimizer)
        for step in range(steps):
            x = torch.randn(12, 5, generator=torch.Generator().manual_seed(step + 10 * resume))
            rows = slice(comm.rank * 12 // comm.size, (comm.rank + 1) * 12 // comm.size)
            model(x[rows]).pow(2).mean().backward()
            model.finish()
            optimizer.step()
            model.zero_grad()
        if not resume:
            target = store.begin(steps, "a0")
            save_shards(target / "shards", model, optimizer)
            names = [f"shards/part-{comm.rank}.{end}" for end in ("bin", "json")]
            store.record(target, comm.rank, names)
            comm.barrier()
            if comm.rank == 0:
                store.commit(target, comm.size)
            comm.barrier()
        return full_state(model)

    simulate(train, ranks=3, args=(str(tmp_path), 2, False))
    four = simulate(train, ranks=4, args=(str(tmp_path), 2, True)).results[0]
    two = simulate(train, ranks=2, args=(str(tmp_path), 2, True)).results[0]
    for name in two:
        assert torch.allclose(two[name], four[name], atol=1e-6)
    flip(next(tmp_path.rglob("shards/part-1.bin")))
    with pytest.raises(CheckpointError, match="part-1.bin"):
        CheckpointStore(tmp_path).newest()


# --- in the background ------------------------------------------------------------------------------


class SlowDisk(checkpoint.Disk):
    def __init__(self):
        self.gate = threading.Event()

    def write(self, path, chunks):
        self.gate.wait(10)
        super().write(path, chunks)


def test_training_may_change_the_state_while_it_is_written(tmp_path):
    disk = SlowDisk()
    store = CheckpointStore(tmp_path, disk=disk)
    saver, state = BackgroundSaver(store, 0, 1), state_of(1)
    saver.save(1, "a0", share_of(state, 0, 1))
    state["a"].fill_(-1)
    assert saver.last_durable is None and store.newest() is None
    disk.gate.set()
    saver.wait()
    found, loaded = load(store)
    assert saver.last_durable == found.step == 1 and same(loaded, state_of(1))


def test_memory_is_bounded_and_the_next_save_waits_for_a_buffer(tmp_path):
    disk = SlowDisk()
    saver = BackgroundSaver(CheckpointStore(tmp_path, disk=disk, keep=9), 0, 1, buffers=2)
    for step in (1, 2):
        assert saver.save(step, "a0", share_of(state_of(step), 0, 1)).waited < 1
    threading.Timer(0.2, disk.gate.set).start()
    assert saver.save(3, "a0", share_of(state_of(3), 0, 1)).waited > 0.1
    saver.wait()
    assert saver.store.steps() == [3, 2, 1] and len(saver.free) == 2
    once = sum(each.numel() * each.element_size() for each in state_of(1).values())
    for step in range(4, 20):
        saver.save(step, "a0", share_of(state_of(step), 0, 1))
    saver.wait()
    assert saver.bytes_held <= 2 * once and threading.active_count() < 20


def test_what_goes_wrong_in_the_background_is_raised_by_the_next_call(tmp_path):
    class Full(checkpoint.Disk):
        def write(self, path, chunks):
            raise OSError(28, "No space left on device")

    store = CheckpointStore(tmp_path, disk=Full())
    saver = BackgroundSaver(store, 0, 1)
    saver.save(1, "a0", share_of(state_of(1), 0, 1))
    with pytest.raises(CheckpointError, match="No space"):
        saver.wait()
    store.disk = checkpoint.Disk()
    saver.save(2, "a0", share_of(state_of(2), 0, 1))
    saver.wait()
    assert store.newest().step == 2


def test_two_ranks_save_in_the_background_and_meet_in_the_folder(tmp_path):
    savers = [BackgroundSaver(CheckpointStore(tmp_path), rank, 2) for rank in range(2)]
    for step in (1, 2, 3):
        for rank, saver in enumerate(savers):
            saver.save(step, "a0", share_of(state_of(step), rank, 2), patience=10)
    for saver in savers:
        saver.wait()
    found, state = load(CheckpointStore(tmp_path))
    assert found.step == 3 and same(state, state_of(3))


# --- torch's format ---------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 5), min_size=0, max_size=4), st.data())
def test_boxes_are_exactly_the_elements(shape, data):
    count = math.prod(shape)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    numbers = np.arange(count).reshape(shape)
    found = boxes_of(shape, start, stop)
    parts = [numbers[tuple(slice(o, o + s) for o, s in zip(*box, strict=True))].ravel() for box in found]
    assert (np.concatenate(parts) if parts else np.zeros(0)).tolist() == list(range(start, stop))
    assert len(found) <= max(1, 2 * len(shape) - 1)
    with pytest.raises(ValueError, match="do not exist"):
        boxes_of(shape, 0, count + 1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_torch_reads_what_flat_shards_wrote(tmp_path, ranks):
    state = {name: each for name, each in state_of(3).items() if each.numel()}
    names = [write_torch(tmp_path, rank, share_of(state, rank, ranks)) for rank in range(ranks)]
    assert finish_torch(tmp_path, ranks) == ".metadata"
    assert {path.name for path in tmp_path.iterdir()} == {".metadata", *itertools.chain(*names)}
    mine = {name: torch.zeros_like(each) for name, each in state.items()}
    dcp.load(mine, checkpoint_id=str(tmp_path), no_dist=True)
    assert same(mine, state)


def test_a_torch_checkpoint_with_a_part_missing_is_refused(tmp_path):
    write_torch(tmp_path, 0, share_of(state_of(3), 0, 2))
    with pytest.raises(CheckpointError, match="rank 1 of 2"):
        finish_torch(tmp_path, 2)


def test_torchs_format_inside_a_checkpoint_that_survives(tmp_path):
    store = CheckpointStore(tmp_path)
    folder = store.begin(3, "a0")
    names = [write_torch(folder, rank, share_of(state_of(3), rank, 2)) for rank in range(2)]
    names[0].append(finish_torch(folder, 2))
    for rank in range(2):
        store.record(folder, rank, names[rank])
    store.commit(folder, 2)
    state = {name: each for name, each in state_of(3).items() if each.numel()}
    mine = {name: torch.zeros_like(each) for name, each in state.items()}
    dcp.load(mine, checkpoint_id=str(store.newest().folder), no_dist=True)
    assert same(mine, state)
    flip(folder / names[1][0])
    with pytest.raises(CheckpointError, match="bytes of __1_0.distcp"):
        store.newest()


# --- data exactly once ------------------------------------------------------------------------------


@given(
    st.integers(5, 60),
    st.integers(1, 17),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=6),
)
def test_each_sample_is_read_once_an_epoch_however_often_the_ranks_change(samples, batch, phases):
    order, position, read = SampleOrder(samples, batch, seed=3), Position(), []
    for ranks, steps in phases:
        for _ in range(steps):
            for rank in range(ranks):
                read += order.share(position, rank, ranks)
            position = order.step(position)[1]
    steps = sum(steps for _, steps in phases)
    assert read == list(itertools.chain(*order.steps(Position(), steps)))
    counts = Counter(read)
    assert len(read) == steps * batch == position.epoch * samples + position.taken
    assert max(counts.values()) - min([counts[each] for each in range(samples)]) <= 1


def test_a_position_that_does_not_exist_is_refused_and_the_end_of_an_epoch_is_one():
    order = SampleOrder(4, 4)
    assert order.step(Position())[1] == Position(0, 4)
    assert order.step(Position(0, 4))[0] == order.step(Position(1, 0))[0] != order.step(Position())[0]
    with pytest.raises(ValueError, match="taken is 5"):
        order.step(Position(0, 5))
    with pytest.raises(ValueError, match="ranks"):
        order.share(Position(), 0, 0)
    with pytest.raises(ValueError, match="rank is 2"):
        order.share(Position(), 2, 2)


# --- exact resumption -------------------------------------------------------------------------------


def training(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    return Training(model, optimizer, schedule, torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3))


ORDER = SampleOrder(40, 8)
DATA = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))


def train(run, steps):
    losses = []
    for _ in range(steps):
        samples, run.position = ORDER.step(run.position)
        rows = DATA[samples]
        noise = torch.tensor(np.random.normal(size=(8, 4)) * 0.1, dtype=torch.float32)  # noqa: NPY002
        loss = (run.model(rows[:, :4] + noise).squeeze(1) - rows[:, 4]).pow(2).mean()
        run.scaler.scale(loss).backward()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        run.schedule.step()
        run.optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("leave_out", ["", *checkpoint.ITEMS])
def test_a_resumed_run_is_the_same_bit_for_bit_unless_something_was_left_out(tmp_path, leave_out):
    np.random.seed(0)  # noqa: NPY002
    run = training(0)
    train(run, 7)
    store, state = CheckpointStore(tmp_path), capture(run)
    folder = store.begin(7, "a0")
    write_pieces(store, folder, 0, share_of(state.tensors, 0, 1), state.plain)
    store.commit(folder, 1)
    rest = train(run, 6)

    other = training(1)
    np.random.seed(1)  # noqa: NPY002
    reader = PieceReader(store, store.newest())
    tensors = {name: reader.read(name).view(reader.shape(name)) for name in reader.stretches}
    restore(other, checkpoint.Captured(tensors, reader.notes_of(0)), leave_out)
    again = train(other, 6)
    ended = {name: each.clone() for name, each in tensors_of(other).items()}
    assert (again == rest) == (leave_out in ("", "scaler"))
    assert same(ended, tensors_of(run)) == (leave_out in ("", "scaler"))
    assert (other.scaler.state_dict() == run.scaler.state_dict()) == (leave_out != "scaler")


def test_restoring_another_model_is_refused():
    state = capture(training(0))
    other = Training(nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters()))
    with pytest.raises(ValueError, match="another model"):
        restore(other, state)
    with pytest.raises(ValueError, match="leave_out"):
        restore(training(0), state, "moments")
