"""Chapter 14's exercises: worked answers equal simulation, exact counting and the library; the disk forgets as the
library's does."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch14.exercises.disk import Disk
from course_chapters.ch14.exercises.probes import order_of, survived
from course_grader.judging import Worked, judging
from course_grader.judging.worked import judged_variant
from course_grader.records import Case
from course_lib.operate import faults
from tests.tables import each_of

goodput, best_interval = Worked("checkpoint-interval")[0], Worked("checkpoint-interval")[1]

# --- rates


@each_of("restarts", ["safe", "exposed"])
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
    with judged_variant("checkpoint-interval", {"restarts": restarts}):
        assert interval * segments / spent == pytest.approx(goodput(interval, save, restart, mtbf), rel=0.01)


@settings(max_examples=60, deadline=None)
@given(save=st.floats(1, 900), ratio=st.floats(1.05, 1e4))
def test_the_best_interval_is_better_than_its_neighbors_and_the_library_s(save, ratio):
    mtbf = save * ratio
    best = best_interval(save, mtbf)
    for factor in (0.99, 1.01):
        assert goodput(best, save, 10, mtbf) >= goodput(best * factor, save, 10, mtbf)
    assert best == pytest.approx(faults.best_interval(save, mtbf), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(servers=st.integers(1, 6), up=st.integers(1, 9), down=st.integers(0, 9), chance=st.floats(0.01, 0.99))
def test_with_the_fewest_spares_few_states_have_too_few_servers_and_with_one_less_more_have(servers, up, down, chance):
    def waits(extra):
        q, states = down / (up + down), itertools.product((0, 1), repeat=servers + extra)
        return math.fsum(
            math.prod(q if broken else 1 - q for broken in state) for state in states if sum(state) > extra
        )

    chance = max(chance, waits(5))  # no more than five are needed
    spares = Worked("how-many-spares")(servers, up, down, chance)
    assert waits(spares) <= chance + 1e-9 and (spares == 0 or waits(spares - 1) > chance - 1e-9)


def test_each_second_of_a_log_has_one_cause():
    for seed in range(5):
        draw = random.Random(seed)
        for case in judging("goodput-ledger").cases({"unit": "seconds"}, draw):
            for (log,) in case.args[1]:
                spent = Worked("goodput-ledger")(log)
                assert sum(spent.values()) == pytest.approx(log[-1][0] - log[0][0]) and min(spent.values()) >= 0


# --- resuming


@settings(max_examples=60, deadline=None)
@given(data=st.data(), samples=st.integers(1, 30), batch=st.integers(1, 12), rule=st.sampled_from(["span", "short"]))
def test_every_sample_is_read_once_an_epoch_whatever_the_ranks(data, samples, batch, rule):
    consumed, read, order = 0, [], order_of(4, samples)
    while consumed < 3 * samples:
        ranks = data.draw(st.integers(1, 7))
        with judged_variant("exactly-once", {"batches": rule}):
            taken = [Worked("exactly-once")(order, consumed, batch, rank, ranks) for rank in range(ranks)]
        sizes = [len(ids) for ids, _ in taken]
        assert max(sizes) - min(sizes) <= 1 and {after for _, after in taken} == {consumed + sum(sizes)}
        read += [each for ids, _ in taken for each in ids]
        consumed += sum(sizes)
    assert read[: 3 * samples] == order(0) + order(1) + order(2)


@settings(max_examples=60, deadline=None)
@given(kills=st.lists(st.integers(1, 40), max_size=6, unique=True), of_epoch=st.integers(1, 7), every=st.integers(1, 5))
def test_the_repaired_loop_makes_the_undisturbed_updates_however_often_it_is_killed(kills, of_epoch, every):
    killed, calm = (
        survived(Worked("repair-resume"), Case(name="", args=(3, of_epoch, every, 20, each))) for each in (kills, [])
    )
    assert killed["weights"] == calm["weights"] and killed["calls"] <= 20 + len(kills) * every


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
    blame = Worked("blame-the-rank")
    done, groups = ("p", 0, "all_reduce", 8, True), {"p": [1, 4], "q": [4, 6]}
    waiting = {1: [done, ("p", 1, "all_reduce", 8, False)], 4: [done, ("q", 0, "all_reduce", 8, False)], 6: []}
    assert blame(groups, waiting) == ("missing", [6])
    assert blame({"p": [1, 4], "q": [1, 4]}, {1: waiting[1], 4: waiting[4]}) == ("order", [1, 4])
