"""Chapter 14's exercises: worked answers equal simulation and exact counting."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant
from tests.tables import each_of

goodput = Worked("checkpoint-interval")[0]


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


# --- resuming


def test_whoever_waits_for_nobody_is_to_blame_and_a_circle_has_no_such_rank():
    blame = Worked("blame-the-rank")
    done, groups = ("p", 0, "all_reduce", 8, True), {"p": [1, 4], "q": [4, 6]}
    waiting = {1: [done, ("p", 1, "all_reduce", 8, False)], 4: [done, ("q", 0, "all_reduce", 8, False)], 6: []}
    assert blame(groups, waiting) == ("missing", [6])
    assert blame({"p": [1, 4], "q": [1, 4]}, {1: waiting[1], 4: waiting[4]}) == ("order", [1, 4])
