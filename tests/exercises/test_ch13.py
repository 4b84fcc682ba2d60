"""Chapter 13's exercises: worked answers agree with the metered cluster, and what an axis cuts is halved with it."""

import math
import random

import pytest
import torch

from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant
from course_lib.cluster import attempt
from tests.tables import each_of

groups = Worked("mesh-coordinates")[2]


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
                if kind == "all":
                    others = [rank for rank in group if rank != comm.rank]
                    works = [post(torch.zeros(1), rank) for post in (comm.isend, comm.irecv) for rank in others]
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
