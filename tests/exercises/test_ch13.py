"""Chapter 13's exercises: worked answers agree with torch, with the metered cluster, with the library and with
published steps."""

import itertools
import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch13.exercises.judges.communication_term import published
from course_chapters.ch13.exercises.judges.place_axes import cost, lowest
from course_chapters.ch13.exercises.judges.predict_swapped_axes import swapped_ratio
from course_grader import exercises
from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant
from course_lib.cluster import attempt
from tests.tables import each_of

MESHES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(lambda sizes: dict(zip("abcd", sizes, strict=False)))
groups = Worked("mesh-coordinates")[2]


# --- meshes


@settings(max_examples=60, deadline=None)
@given(sizes=MESHES, fastest=st.sampled_from(["first", "last"]))
def test_coordinates_and_groups_are_those_of_a_reshaped_range(sizes, fastest):
    shape = list(sizes.values()) if fastest == "last" else list(sizes.values())[::-1]
    names = list(sizes) if fastest == "last" else list(sizes)[::-1]
    grid, worked = torch.arange(math.prod(shape)).reshape(shape), Worked("mesh-coordinates")
    with judged_variant("mesh-coordinates", {"fastest": fastest}):
        for place in itertools.product(*map(range, shape)):
            at = dict(zip(names, place, strict=True))
            assert worked[1](at, sizes) == grid[place].item()
            assert worked[0](grid[place].item(), sizes) == at
        for axis in sizes:
            rows = grid.movedim(names.index(axis), -1).reshape(-1, sizes[axis]).tolist()
            assert sorted(worked[2](sizes, axis)) == sorted(rows)


@each_of("least", ["seconds", "bytes"])
def test_the_worked_order_costs_the_least_and_a_quiet_one_sends_nothing_across(least):
    draw = random.Random(3)
    for _ in range(20):
        sizes = {axis: draw.choice((1, 2, 3, 4)) for axis in "abc"}
        row = sizes, {axis: draw.uniform(1, 9) for axis in sizes}, draw.choice((2, 4, 6)), 9.0, 1.0
        with judged_variant("place-axes", {"least": least}):
            assert cost(least, row, Worked("place-axes")(*row)) == pytest.approx(lowest(least, row))
        for order in itertools.permutations(sizes):
            placed = {axis: sizes[axis] for axis in order}
            pairs = [(group, axis) for axis in placed for group in groups(placed, axis)]
            quiet = all(len({rank // row[2] for rank in group}) == 1 for group, _ in pairs)
            assert quiet == (cost("bytes", row, order) == 0)


def test_swapped_axes_never_cost_more_than_the_ratio_of_the_wires():
    card = exercises.card("predict-swapped-axes")
    for seed in range(20):
        assert 1 < swapped_ratio(card.variant(str(seed))) < 450 / 50


# --- waiting


@each_of("direction", ["forward", "backward"])
def test_the_stuck_ranks_are_those_that_do_not_finish_on_the_metered_cluster(direction):
    draw = random.Random(direction)
    for _ in range(4):
        sizes = draw.choice(({"dp": 2, "pp": 3, "tp": 2}, {"pp": 4, "tp": 2}, {"dp": 3, "pp": 2}))
        waits = [(draw.choice(("all", "next")), draw.choice(list(sizes))) for _ in range(3)]
        asleep = draw.randrange(math.prod(sizes.values()))

        def step(comm, sizes=sizes, waits=waits, asleep=asleep):
            if comm.rank == asleep:
                comm.recv(torch.zeros(1), (comm.rank + 1) % comm.size, tag=9)  # nobody ever sends this
            for kind, axis in waits:
                group = next(group for group in groups(sizes, axis) if comm.rank in group)
                at, others = group.index(comm.rank), [rank for rank in group if rank != comm.rank]
                if kind == "all":
                    works = [comm.isend(torch.zeros(1), rank) for rank in others]
                    works += [comm.irecv(torch.zeros(1), rank) for rank in others]
                    [work.wait() for work in works]
                    continue
                order = group if direction == "forward" else group[::-1]
                at = order.index(comm.rank)
                if at:
                    comm.recv(torch.zeros(1), order[at - 1])
                if at + 1 < len(order):
                    comm.send(torch.zeros(1), order[at + 1])
            return True

        run = attempt(step, ranks=math.prod(sizes.values()), buffering=math.inf)
        stuck = [rank for rank, result in enumerate(run.results) if result is None]
        with judged_variant("blast-radius", {"direction": direction}):
            assert stuck == Worked("blast-radius")(sizes, asleep, waits), (sizes, waits, asleep)


# --- models


def test_six_published_steps_agree_with_the_term_and_not_without_it():
    assert len(published()) == 6
    for row, alone, seconds, name in published():
        with_term = alone + sum(Worked("communication-term")(*row).values())
        assert abs(with_term / seconds - 1) < 0.035 and alone / seconds - 1 < -0.08, name


def test_doubling_an_axis_halves_what_it_cuts():
    model = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "parameters": 8e9}
    estimate = Worked("repair-calculator")
    for recompute in ("none", "selective", "full"):
        job = {"length": 4096, "micro": 2, "recompute": recompute, "state": 12}
        base = estimate(model, job, 2, 2, 4, 3)
        for wide in (estimate(model, job, 4, 2, 4, 3), estimate(model, job, 2, 4, 4, 3)):
            assert wide == pytest.approx({name: value / 2 for name, value in base.items()})
        more = estimate(model, job, 2, 2, 8, 3)
        assert [round(base[name] / more[name]) for name in base] == [2, 2, 2, 1, 1]
