"""When gathers hide and how many ranks should share: the models of time against the cluster's clock and against
published audits."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from course_lib.cluster import Topology, simulate
from course_lib.estimate import memory
from course_lib.estimate.units import GB
from course_lib.parallel.sharding import FullySharded, Wires, group_of, knee, play, step_bytes, work_of
from tests.tables import each_of

WIDTH, UNITS, TOKENS, RANKS, LATENCY, FLOPS = 64, 6, 128, 4, 1e-6, 2e10


def stack(comm, prefetch, kept=False):
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(UNITS)))
    model = FullySharded(comm, model, list(model), prefetch=prefetch, reshard_after_forward=not kept)
    model(torch.ones(TOKENS, WIDTH, requires_grad=True)).sum().backward()
    model.finish()


@each_of("kept", [False, True])
@each_of("bandwidth", [0.4e9, 1e9, 4e9])
@each_of("depth", [0, 1])
def test_a_step_is_as_long_as_the_clusters_clock_says(depth, bandwidth, kept):
    wires = Topology.flat(LATENCY, bandwidth, FLOPS)
    run = simulate(partial(stack, prefetch=depth, kept=kept), RANKS, topology=wires, account=True)
    work = work_of(WIDTH**2, TOKENS, RANKS, FLOPS, bandwidth, latency=LATENCY, gather=4, reduce=4)
    said = play([work] * UNITS, depth, kept=kept)
    assert run.seconds == pytest.approx(said.seconds, rel=0.04)
    assert run.meter.bytes_sent[0] == step_bytes([WIDTH**2] * UNITS, RANKS, 3, 4, 4, kept=kept, root=False)


@each_of("bandwidth", [1e9, 4e9])
def test_one_unit_ahead_hides_gathers_of_the_backward_pass_as_well(bandwidth):
    wires = Topology.flat(LATENCY, bandwidth, FLOPS)
    none, one = (simulate(stack, RANKS, (depth,), topology=wires, account=True) for depth in (0, 1))
    assert max(one.exposed()) < 0.4 * max(none.exposed())


def test_with_gathers_shorter_than_computing_only_the_ends_are_exposed():
    work = work_of(1e6, 4096, 8, 1e12, 1e9)
    assert work.gather < work.forward and work.backward == 2 * work.forward
    assert work.gather + work.reduce < work.backward
    step = play([work] * 10, 1)
    assert step.computing == pytest.approx(10 * (work.forward + work.backward))
    assert step.exposed == pytest.approx(2 * work.gather + work.reduce), (
        "the first gather, the turn, the last reduce-scatter"
    )
    assert play([work] * 10, 1, kept=True).exposed == pytest.approx(work.gather + work.reduce), (
        "kept: no gather at the turn"
    )


def test_where_the_wire_is_slower_the_step_is_as_long_as_its_work():
    work = work_of(1e6, 64, 8, 1e12, 1e9)
    step = play([work] * 10, 4)
    on_the_wire = 10 * (2 * work.gather + work.reduce)
    assert on_the_wire < step.seconds < on_the_wire + work.forward + work.backward + 1e-9


@each_of("depth", [0, 1, 2, 3])
def test_a_unit_more_is_gathered_for_each_that_is_ahead(depth):
    work = work_of(1e6, 4096, 8, 1e12, 1e9)
    assert play([work] * 10, depth).peak_bytes == (depth + 1) * work.nbytes
    assert play([work] * 10, depth, kept=True).peak_bytes == 10 * work.nbytes
    assert play([work] * 10, depth).held[-1][1] == 0, "nothing stays"


def test_every_unit_is_gathered_twice_computed_twice_and_reduced_once_and_no_lane_does_two_things_at_once():
    units = [work_of(size, 512, 8, 1e12, 1e9, latency=1e-5) for size in (3e5, 2e6, 1e5, 9e5)]
    step = play(units, 2)
    count = {
        kind: [use.unit for use in step.uses if use.kind == kind]
        for kind in ("gather", "forward", "backward", "reduce")
    }
    assert sorted(count["gather"]) == [0, 0, 1, 1, 2, 2, 3, 3] and count["forward"] == [0, 1, 2, 3]
    assert count["backward"] == [3, 2, 1, 0] == count["reduce"]
    for lane in (("forward", "backward"), ("gather", "reduce")):
        spans = sorted((use.start, use.end) for use in step.uses if use.kind in lane)
        assert all(before[1] <= after[0] + 1e-12 for before, after in pairwise(spans))


def test_a_depth_that_is_no_whole_number_is_refused():
    with pytest.raises(ValueError, match="depth"):
        play([], -1)


# --- groups

FREE = Wires(per_node=8, fast=450 * GB, slow=50 * GB)


def test_what_a_group_of_eight_sends_of_405_billion_and_what_it_would_hold():
    one = group_of(405e9, 24_576, 8, 4 * 2**20 / 24_576, 4e14, FREE)
    assert one.inside / GB == pytest.approx(2126, rel=1e-3) and one.across / GB == pytest.approx(202.4, rel=1e-3)
    assert one.inside / one.across == pytest.approx(10.5, rel=1e-3) and one.far == one.across
    assert one.state == 810 * GB


def test_one_group_of_all_leaves_each_server_over_eight_adapters():
    one = group_of(405e9, 24_576, 24_576, 4 * 2**20 / 24_576, 4e14, FREE)
    assert one.across == 0 and one.far == one.inside / 8
    assert one.talking == pytest.approx(48.6 / 8, rel=1e-3) and one.computing == pytest.approx(1.04, rel=1e-2)
    assert one.exposed == pytest.approx(one.talking - one.computing)


def test_a_group_of_one_is_plain_data_parallelism():
    one = group_of(7e9, 64, 1, 4096, 4e14, FREE)
    assert one.inside == 0 and one.across == pytest.approx(2 * 63 / 64 * 14e9)
    assert one.state == memory.zero_bytes(7e9, 0, 64)


@each_of("params, best", [(7e9, 2), (30e9, 8), (70e9, 32), (405e9, None)])
def test_the_knee_lies_inside_a_server_unless_memory_forbids_it(params, best):
    found = [group_of(params, 64, 2**power, 4096, 4e14, FREE, units=80) for power in range(7)]
    chosen = knee(found, 64 * GB)
    assert (chosen and chosen.ranks) == best


def test_latencies_of_many_hops_lengthen_the_step_of_large_groups():
    slow = Wires(per_node=8, fast=450 * GB, slow=50 * GB, fast_latency=1e-6, slow_latency=5e-6)
    steps = [group_of(70e9, 16_384, 2**power, 1024, 4e14, slow, units=80).seconds for power in (7, 10, 14)]
    assert steps[0] < steps[1] < steps[2]
    assert group_of(70e9, 16_384, 2**14, 1024, 4e14, FREE, units=80).seconds < steps[0] * 1.01


def test_a_group_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="does not divide"):
        group_of(7e9, 64, 6, 4096, 4e14, FREE)
