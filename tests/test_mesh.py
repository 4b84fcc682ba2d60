"""Meshes: coordinates and groups, the wires that groups cross, the seconds of a placement, and four axes that train as
one."""

import itertools
import random

import pytest
import torch

from course_chapters.ch13.mesh_training import Job, alone, bytes_by_axis, train
from course_lib import cluster
from course_lib.cluster import collectives
from course_lib.estimate import facts
from course_lib.estimate.units import GB
from course_lib.parallel.mesh import (
    Mesh,
    axis_seconds,
    border_groups,
    crossed,
    fill,
    finish_times,
    network,
    placements,
    shared_seconds,
    widest,
)
from course_lib.parallel.mesh.wires import Network, NetworkLevel, _counted
from tests.tables import each_of

# --- coordinates and groups


def drawn_meshes():
    coin = random.Random(13)
    for _ in range(20):
        axes = coin.sample(["tp", "cp", "dp", "pp", "ep"], coin.randint(1, 4))
        yield Mesh({axis: coin.choice([1, 2, 3, 4]) for axis in axes})


@each_of("mesh", list(drawn_meshes()))
def test_coordinates_and_groups_are_those_of_a_tensor_of_ranks(mesh):
    ranks = torch.arange(mesh.size).reshape(tuple(mesh.sizes.values()))  # as torch's DeviceMesh numbers them
    for rank in range(mesh.size):
        at = mesh.coordinates(rank)
        assert ranks[tuple(at.values())] == rank == mesh.rank(at)
    for axes in itertools.chain([(axis,) for axis in mesh.axes], itertools.combinations(mesh.axes, 2)):
        places = [mesh.axes.index(axis) for axis in axes]
        wanted = ranks.movedim(places, list(range(-len(axes), 0))).flatten(-len(axes)).reshape(-1, _size(mesh, axes))
        assert {tuple(sorted(row)) for row in wanted.tolist()} == set(mesh.groups(*axes))
        for rank in range(mesh.size):
            assert rank in mesh.group(rank, *axes) and mesh.group(rank, *axes) in mesh.groups(*axes)
            assert all({*mesh.axes_between(rank, other)} <= {*axes} for other in mesh.group(rank, *axes))
        other = int(ranks.max())
        assert mesh.axes_between(0, other) == tuple(axis for axis, size in mesh.sizes.items() if size > 1)


def _size(mesh, axes):
    return torch.tensor([mesh.sizes[axis] for axis in axes]).prod().item()


def test_megatron_writes_the_fastest_axis_first():
    assert Mesh.megatron("tp-cp-ep-dp-pp", {"tp": 2, "dp": 3, "pp": 4}) == Mesh(
        {"pp": 4, "dp": 3, "ep": 1, "cp": 1, "tp": 2}
    )
    assert Mesh.parse("pp2 dp4 tp8") == Mesh({"pp": 2, "dp": 4, "tp": 8}) != Mesh({"tp": 8, "dp": 4, "pp": 2})


@each_of(
    "make, words",
    (lambda: Mesh({}), "at least one axis"),
    (lambda: Mesh({"tp": 0}), "tp"),
    (lambda: Mesh({"tp": 2}).rank({"dp": 0}), "do not fit the axes"),
    (lambda: Mesh({"tp": 2}).rank({"tp": 2}), "from 0 to 1"),
    (lambda: Mesh({"tp": 2}).coordinates(2), "2 ranks, 0 to 1"),
    (lambda: Mesh({"tp": 2}).groups("dp"), "no axis 'dp'"),
    (lambda: Mesh({"tp": 2}).groups("tp", "tp"), "twice"),
    (lambda: Mesh.megatron("tp-dp", {"pp": 2}), "each axis once"),
    (lambda: Mesh.parse("tp 8"), "write axes and sizes"),
    (lambda: fill(60, pp=4, tp=8), "the nearest numbers of ranks that fit are 32 and 64"),
    (lambda: fill(4, tp=8), "that fit are 8"),
    (lambda: network("T4"), "No device called"),
    (lambda: network("MI300X"), "devices with one are"),
    (lambda: crossed(Mesh({"dp": 24_577}), "dp", network("Llama 3 cluster")), "24,576 devices"),
    (lambda: placements({"tp": 2, "dp": 2}, {"tp": 1.0}, network("H100 SXM")), "along dp"),
    (lambda: train({"ep": 2}), "no axis 'ep'"),
    (lambda: train({"pp": 3}), "pp may be 1, 2, 4"),
    (lambda: train({"cp": 3}), "cp may be 1, 2, 4, 8"),
)
def test_what_cannot_be_names_the_value_and_what_fits(make, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        make()


def test_the_data_parallel_axis_takes_the_rest():
    assert fill(64, pp=4, tp=8) == {"dp": 2, "pp": 4, "tp": 8}


# --- wires


def test_the_levels_are_those_of_the_facts():
    llama = network("Llama 3 cluster")
    assert [(level.name, level.devices, level.bandwidth / GB) for level in llama.levels] == [
        ("server", 8, 450), ("rack", 16, 50), ("pod", 3072, 50), ("cluster", 24576, pytest.approx(50 / 7))
    ]  # fmt: skip
    assert [level.bandwidth / GB for level in network("DGX A100 server").levels] == [300, 25]
    assert [level.bandwidth / GB for level in network("B200 SXM").levels] == [900, 50]
    rack = network("GB200 NVL72 rack")
    assert [(level.name, level.devices) for level in rack.levels[:2]] == [("server", 4), ("rack", 72)]
    assert [level.bandwidth / GB for level in rack.levels] == [900, 900, 50]
    assert rack.device == facts.device("GB200").name


def brute_crossed(mesh, axes, net):
    """By every pair of ranks of every group."""
    found = dict.fromkeys(net.names, 0)
    for group in mesh.groups(*axes):
        if len(group) > 1:
            found[
                net.names[
                    max(
                        next(at for at, level in enumerate(net.levels) if a // level.devices == b // level.devices)
                        for a, b in itertools.combinations(group, 2)
                    )
                ]
            ] += 1
    return found


SMALL = Network(
    "small", "none", (NetworkLevel("server", 4, 9.0, "link"), NetworkLevel("rack", 8, 2.0),
        NetworkLevel("pod", float("inf"), 1.0))
)  # fmt: skip


@each_of("mesh", list(drawn_meshes()))
def test_crossed_wires_and_borders_against_every_pair(mesh):
    for axis in mesh.axes:
        counts = crossed(mesh, axis, SMALL)
        assert counts == brute_crossed(mesh, (axis,), SMALL)
        names = [name for name in SMALL.names if counts[name]]
        assert widest(mesh, axis, SMALL) == (names[-1] if names else "")
        for unit in (1, 4, 8):
            groups = mesh.groups(axis)
            units = range(-(-mesh.size // unit))
            wanted = max(
                sum(len({r // unit for r in g}) > 1 and any(r // unit == u for r in g) for g in groups) for u in units
            )
            others = [other for other in mesh.axes if other != axis][:1]
            joint = (axis, *others)
            assert border_groups(mesh, joint, unit) == _counted(mesh, joint, unit)
            assert border_groups(mesh, axis, unit) == wanted == (_counted(mesh, (axis,), unit) if unit > 1 else wanted)


def test_a_ring_of_one_member_per_server_takes_what_the_metered_cluster_takes():
    mesh, count = Mesh({"dp": 4, "tp": 2}), 4096
    net = Network("n", "none", (NetworkLevel("server", 2, 100e9, "link"), NetworkLevel("network", float("inf"), 10e9)))

    def average(comm):
        group = next(g for g in [comm.new_group(ranks) for ranks in mesh.groups("dp")] if g.rank >= 0)
        group.all_reduce(torch.ones(count))

    run = cluster.simulate(average, 8, topology=cluster.Topology.nodes(2, inside=(5e-6, 100e9), across=(2e-5, 10e9)))
    sent = run.meter.bytes_sent[0]
    assert sent == 2 * 3 / 4 * 4 * count
    latency = collectives.ring_cost(0, 4, 2e-5, 10e9).seconds
    assert run.seconds == pytest.approx(axis_seconds(mesh, "dp", sent, net) + latency, rel=1e-9)


def test_full_servers_use_all_their_adapters_and_single_members_one():
    net = network("H100 SXM")
    whole = axis_seconds(Mesh({"tp": 16}), "tp", 1 * GB, net)
    alone_there = axis_seconds(Mesh({"tp": 2, "dp": 8}), "tp", 1 * GB, net)
    assert whole == pytest.approx(1 / 400) and alone_there == pytest.approx(1 / 50)
    assert axis_seconds(Mesh({"dp": 2, "tp": 8}), "tp", 1 * GB, net) == pytest.approx(1 / 450)


def test_axes_that_share_a_wire_add_up_and_others_do_not():
    mesh, net = Mesh({"pp": 2, "dp": 2, "tp": 8}), network("H100 SXM")
    both = shared_seconds(mesh, {"pp": GB, "dp": GB}, net)
    assert both == pytest.approx(2 * axis_seconds(mesh, "dp", GB, net))
    assert shared_seconds(mesh, {"tp": GB, "dp": GB}, net) == pytest.approx(axis_seconds(mesh, "dp", GB, net))


def test_the_chatty_axis_is_placed_innermost():
    orders = placements({"dp": 4, "pp": 2, "tp": 8}, {"tp": 100 * GB, "dp": 10 * GB, "pp": GB}, network("H100 SXM"))
    assert len(orders) == 6 and orders[0].order.endswith("tp8") and not orders[-1].order.endswith("tp8")
    assert orders[0].total == pytest.approx(100 / 450 + 10 / 50 + 1 / 50)
    assert [each.total for each in orders] == sorted(each.total for each in orders)


@each_of(
    "transfers, ends",
    ([(0.0, 10.0)], [1.0]),
    ([(0.0, 10.0), (0.0, 10.0)], [2.0, 2.0]),
    ([(0.0, 10.0), (0.5, 10.0)], [1.5, 2.0]),
    ([(0.0, 10.0), (1.0, 10.0)], [1.0, 2.0]),
    ([(3.0, 0.0), (0.0, 5.0)], [3.0, 0.5]),
    ([(0.0, 30.0), (0.0, 10.0), (0.0, 20.0)], [6.0, 3.0, 5.0]),
    ([], []),
)
def test_transfers_share_an_adapter_equally(transfers, ends):
    assert finish_times(transfers, 10.0) == pytest.approx(ends)


# --- four axes that train as one

LADDER = (
    {"dp": 2},
    {"tp": 2},
    {"pp": 2},
    {"cp": 2},
    {"dp": 2, "tp": 2},
    {"pp": 2, "cp": 2},
    {"dp": 2, "pp": 2, "tp": 2},
    {"dp": 2, "pp": 2, "cp": 2, "tp": 2},
)


@pytest.mark.rotates("course_lib/parallel/mesh/", "course_lib/cluster/")
@pytest.mark.parametrize(
    ("sizes", "sequence_parallel"),
    [*((sizes, False) for sizes in LADDER), (LADDER[4], True), (LADDER[-1], True)],
    ids=str,
)
def test_one_to_four_axes_equal_the_whole(sizes, sequence_parallel):
    job = Job(steps=2, sequence_parallel=sequence_parallel)
    want, (got, _) = alone(job), train(sizes, job)
    assert got.losses == pytest.approx(want.losses, rel=1e-12) and got.norms == pytest.approx(want.norms, rel=1e-12)
    assert got.gradients.keys() == want.gradients.keys()
    for name, gradient in want.gradients.items():
        assert (got.gradients[name] - gradient).abs().max() <= 1e-12 * gradient.abs().max(), name
        assert (got.weights[name] - want.weights[name]).abs().max() <= 1e-9, name


def test_a_gradient_averaged_over_dp_alone_differs_between_the_ranks_of_cp():
    with pytest.raises(AssertionError, match="differ"):
        train({"dp": 2, "cp": 2}, Job(steps=1, averaging=True, gradient_axes=("dp",)))


@pytest.mark.rotates("course_lib/parallel/mesh/", "course_lib/cluster/")
@pytest.mark.parametrize("sizes", [{"dp": 2}, {"pp": 2, "cp": 2}, {"dp": 2, "pp": 2, "cp": 2, "tp": 2}], ids=str)
def test_bytes_by_axis_are_those_of_the_closed_forms(sizes):
    job = Job()
    got = bytes_by_axis(sizes, job)
    dp, pp, cp, tp = (sizes.get(axis, 1) for axis in ("dp", "pp", "cp", "tp"))
    one, width = job.config, 8
    tokens = job.sequences * one.seq_len / dp / cp
    assert got["pp"] == pytest.approx(2 * (pp - 1) / pp * tokens * one.hidden * width, abs=33)
    kv = 2 * one.kv_heads * one.head_dim / tp * tokens * width
    assert got["cp"] == pytest.approx(3 * (cp - 1) * kv * one.layers / pp)
    assert (got["tp"] > 0) == (tp > 1) and (got["dp"] > 0) == (dp * cp > 1)
    if tp == pp == 1:
        params = sum(each.numel() for each in alone(Job(steps=1)).weights.values())
        assert got["dp"] == pytest.approx(2 * (dp * cp - 1) / (dp * cp) * params * width, abs=33)


def test_collectives_of_the_library_run_on_a_mesh_group():
    mesh = Mesh({"dp": 2, "tp": 3})

    def summed(comm):
        group = next(g for g in [comm.new_group(ranks) for ranks in mesh.groups("tp")] if g.rank >= 0)
        return collectives.ring_all_reduce(group, torch.tensor([float(comm.rank)]).repeat(5)).tolist()

    run = cluster.simulate(summed, 6)
    assert run.results == [[3.0] * 5] * 3 + [[12.0] * 5] * 3
