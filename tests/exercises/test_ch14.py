"""Chapter 14's exercises: oracles equal simulation, exact counting and torch's own resume; the disk forgets as the library's does."""

import itertools
import math
import random

import pytest
from contract.kit import functions_of, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import faults
from course_lib.exercises.ch14.disk import Disk
from course_lib.exercises.ch14.judges.blame_the_rank import blame
from course_lib.exercises.ch14.judges.goodput_ledger import ledger
from course_lib.exercises.ch14.judges.how_many_spares import fewest, waits
from course_lib.exercises.ch14.judges.repair_resume import looped
from course_lib.exercises.ch14.judges.shared import batches, best_interval, goodput, shared
from course_lib.exercises.ch14.judges.spike_guard import guard
from course_lib.exercises.ch14.probes import Trainer, order_of, reference
from course_lib.judging import judging

# --- rates


@pytest.mark.parametrize("restarts", ["safe", "exposed"])
def test_goodput_is_what_a_simulation_of_segments_gives(restarts):
    draw, interval, save, restart, mtbf = random.Random(5), 500.0, 60.0, 200.0, 1500.0
    spent, segments = 0.0, 20_000
    for _ in range(segments):
        while (strike := draw.expovariate(1 / mtbf)) < interval + save:
            spent += strike
            while restarts == "exposed" and (again := draw.expovariate(1 / mtbf)) < restart:
                spent += again
            spent += restart
        spent += interval + save
    assert interval * segments / spent == pytest.approx(goodput(restarts, interval, save, restart, mtbf), rel=0.01)


@settings(max_examples=60, deadline=None)
@given(save=st.floats(1, 900), ratio=st.floats(1.05, 1e4))
def test_the_best_interval_is_better_than_its_neighbors_and_the_library_s(save, ratio):
    mtbf = save * ratio
    best = best_interval(save, mtbf)
    for factor in (0.99, 1.01):
        assert goodput("safe", best, save, 10, mtbf) >= goodput("safe", best * factor, save, 10, mtbf)
    assert best == pytest.approx(faults.best_interval(save, mtbf), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(servers=st.integers(1, 6), extra=st.integers(0, 5), up=st.integers(1, 9), down=st.integers(0, 9))
def test_waiting_is_the_share_of_all_states_in_which_too_few_servers_work(servers, extra, up, down):
    q = down / (up + down)
    states = itertools.product((0, 1), repeat=servers + extra)
    want = math.fsum(
        math.prod(q if broken else 1 - q for broken in state)
        for state in states
        if servers + extra - sum(state) < servers
    )
    assert waits(servers, extra, up, down) == pytest.approx(want, abs=1e-12)


def test_the_fewest_spares_are_enough_and_one_less_is_not():
    for row in ((128, 2000.0, 24.0, 0.01), (2400, 1500.0, 36.0, 1e-3), (1, 8.0, 8.0, 0.25)):
        spares = fewest(*row)
        assert spares and waits(row[0], spares, *row[1:3]) <= row[3] < waits(row[0], spares - 1, *row[1:3])


def test_each_second_of_a_log_has_one_cause():
    for seed in range(5):
        draw = random.Random(seed)
        for case in judging("goodput-ledger").cases({"unit": "seconds"}, draw):
            for (log,) in case.args[1]:
                spent = ledger(log)
                assert sum(spent.values()) == pytest.approx(log[-1][0] - log[0][0]) and min(spent.values()) >= 0


# --- resuming


def test_a_training_that_carries_everything_over_is_the_undisturbed_one_and_every_part_matters():
    args = (11, 24, 4, 5, 2, 6)
    trainer = Trainer(*args[:3])
    trainer.seen(args[3])
    undisturbed = trainer.seen(args[5])
    right = reference(args)
    assert right[0] == undisturbed[0] and right[4] == undisturbed[4]
    for part in Trainer.PARTS:
        other = reference(args, (part,))
        assert (other[0], other[3], other[4]) != (right[0], right[3], right[4]) or any(
            not (one == two).all() for one, two in zip(other[2], right[2], strict=True)
        ), part


@settings(max_examples=60, deadline=None)
@given(data=st.data(), samples=st.integers(1, 30), batch=st.integers(1, 12), short=st.booleans())
def test_every_sample_is_read_once_an_epoch_whatever_the_ranks(data, samples, batch, short):
    consumed, read = 0, []
    while consumed < 3 * samples:
        ranks = data.draw(st.integers(1, 7))
        ids = batches(4, samples, batch, consumed, short=short)
        parts = shared(ids, ranks)
        assert len(parts) == ranks and max(map(len, parts)) - min(map(len, parts)) <= 1
        read += [each for part in parts for each in part]
        consumed += len(ids)
    order = order_of(4, samples)
    assert read[: 3 * samples] == order(0) + order(1) + order(2)


@settings(max_examples=60, deadline=None)
@given(kills=st.lists(st.integers(1, 40), max_size=6, unique=True), of_epoch=st.integers(1, 7), every=st.integers(1, 5))
def test_the_repaired_loop_makes_the_undisturbed_updates_however_often_it_is_killed(kills, of_epoch, every):
    killed = looped((3, of_epoch, every, 20, kills))
    assert killed["weights"] == looped((3, of_epoch, every, 20, []))["weights"]
    assert killed["calls"] <= 20 + len(kills) * every


# --- disk, hangs, spikes


def test_the_disk_keeps_what_was_synced_and_only_that():
    disk = Disk(1000, {"old": b"old"})
    disk.write("new", b"fresh")
    disk.sync("new")
    assert any("new" not in files for _, files in disk.after_crash())
    disk.sync_folder()
    assert all(files == {"old": b"old", "new": b"fresh"} for _, files in disk.after_crash())
    disk.write("new", b"other")
    assert {files["new"] for _, files in disk.after_crash()} > {b"fresh", b"other"}
    with pytest.raises(OSError, match="space"):
        disk.write("large", bytes(2000))


def test_whoever_waits_for_nobody_is_to_blame_and_a_circle_has_no_such_rank():
    done, groups = ("p", 0, "all_reduce", 8, True), {"p": [1, 4], "q": [4, 6]}
    waiting = {1: [done, ("p", 1, "all_reduce", 8, False)], 4: [done, ("q", 0, "all_reduce", 8, False)], 6: []}
    assert blame(groups, waiting) == ("missing", [6])
    assert blame({"p": [1, 4], "q": [1, 4]}, {1: waiting[1], 4: waiting[4]}) == ("order", [1, 4])


@settings(max_examples=80, deadline=None)
@given(
    losses=st.lists(st.sampled_from([1.0, 1.5, 2.0, 4.0, 9.0, math.nan, math.inf]), max_size=30),
    rule=st.sampled_from(["ratio", "deviation"]),
)
def test_the_shipped_guards_say_what_the_oracle_says(losses, rule):
    answers = [each for each in shipped("spike-guard", "right") if not each.reads_params] if rule == "ratio" else []
    want = guard(rule, 3, 2.0, 2, losses)
    assert len(want) == len(losses) and set(want) <= {"go", "skip", "rollback"}
    for answer in answers:
        watcher = functions_of(answer)[0](3, 2.0, 2)
        assert [watcher.see(loss) for loss in losses] == want
