"""Invented sweeps of collectives on GPUs: consistent ones stay claimed, and each way of forging one is contradicted by
its own gate."""

import copy
import struct

import pytest
import torch
import torch.distributed as dist

from course_lib.estimate.facts import device
from course_lib.estimate.facts.collectives import series
from course_runs import (
    collectives,
    device_bounds,
    evidence,
    evidence_checks,
    link_bounds,
    process_group,
    server_bounds,
    verify,
)
from course_runs.reading import recorded
from course_runs.ring_bytes import ring_sent
from tests.tables import each_alone, each_of

H100 = {
    "device": "NVIDIA H100 80GB HBM3",
    "gpus": 8,
    "cuda": "12.8",
    "nccl": "2.27.5",
    "driver": "570.86.15",
    "capability": "9.0",
    "torch": "2.13.0+cu128",
    "device_memory": int(0.98 * float(device("H100 SXM").memory)),
    "multiprocessors": 132,
    "process_seconds": 60.0,
}
SPREAD = (1.0, 0.98, 1.01, 1.03, 0.99, 1.02, 1.0)  # of the repeats of one size
ALPHA, BUS = 15e-6, 3.4e11


def event(seconds):
    """Seconds as torch reads them from two events."""
    return struct.unpack("f", struct.pack("f", seconds * 1e3))[0] * 1e-3


def row_of(kind, nbytes, ranks, middle, stamp=event):
    times = [stamp(middle * share) for share in SPREAD]
    center = sorted(times)[len(times) // 2]
    low, _, high = collectives.quantiles(times, n=4)
    return {
        "kind": kind,
        "nbytes": nbytes,
        "median": center,
        "q1": low,
        "q3": high,
        "repeats": len(times),
        "seconds": times,
        "bus": ring_sent(kind, nbytes, ranks) / center,
        "algorithm": nbytes / center,
    }


def sweep(ranks=8, alpha=ALPHA, bus=BUS, stamp=event, at=None, servers=None, **environment):
    """Evidence of a sweep on a line; `at` gives another bus bandwidth to a kind, `servers` the ranks of each. Not
    sealed before `done`."""
    kinds, rows = list(collectives.KINDS), []
    for kind in kinds:
        for nbytes in collectives.sizes(1e3, 1e9, ranks):
            rate = (at or {}).get(kind, bus)
            rows.append(row_of(kind, nbytes, ranks, alpha + ring_sent(kind, nbytes, ranks) / rate, stamp))
    content = copy.deepcopy(recorded("cpu2/links"))
    content["environment"] |= H100 | environment
    content["setup"] = {"kinds": kinds, "ranks": ranks, "backend": "nccl", "device": "cuda"}
    content["setup"] |= {"servers": servers} if servers else {}
    content["raw"] = {"rows": rows}
    return summed(content)


def summed(content):
    """The evidence with lines and best bandwidths that follow from its rows, sealed."""
    rows = content["raw"]["rows"]
    kinds = {row["kind"]: [each for each in rows if each["kind"] == row["kind"]] for row in rows}
    content["measured"] = {
        "fits": {kind: collectives.fit(mine) for kind, mine in kinds.items()},
        "best_bus": {kind: max(row["bus"] for row in mine) for kind, mine in kinds.items()},
    }
    return evidence.sealed(content)


def contradicted(content):
    return {gate.name for gate in evidence_checks.gates(content) if not gate.ok}


@each_alone(
    "content",
    sweep(),
    sweep(ranks=2, gpus=2),
    sweep(at={"all_reduce": 4.8e11}),  # 8 H100 with NVLS: more on the bus than one link carries, as the switch adds up
    sweep(ranks=16, bus=4e10),  # two servers
    sweep(ranks=16, bus=4e10, at={"all_reduce": 4.35e11}, servers=[8, 8]),  # as eight 400 Gb/s adapters a server give
    sweep(ranks=8, bus=4.6e10, servers=[1] * 8),  # one adapter each, nearly at its rate
    sweep(ranks=8, servers=[8]),
    sweep(ranks=4, bus=5e10, device="NVIDIA RTX 6000 Ada Generation", capability="8.9", device_memory=5 * 10**10),
    sweep(
        ranks=2,
        bus=2.4e11,  # a pair of PCIe cards with an NVLink bridge
        device="NVIDIA H100 PCIe",
        multiprocessors=114,
        gpus=2,
    ),
    ids=[
        "8",
        "2",
        "nvls",
        "two servers",
        "two full servers",
        "eight servers",
        "one server",
        "unknown device",
        "bridge",
    ],
)
def test_what_a_sound_machine_may_measure_is_claimed_and_no_more(content, tmp_path, capsys):
    assert contradicted(content) == set() and evidence_checks.verdict(content) == "claimed"
    assert not verify.problems(content)
    path = evidence.write(content, tmp_path, "links")
    assert verify.main([str(path)]) == 0
    said = capsys.readouterr().out
    assert "  claimed: that it ran on NVIDIA" in said and "plausible" not in said


def test_recorded_sweeps_are_not_contradicted():
    for name in ("cpu2/links", "cpu4/links"):
        found = {gate.name: gate.ok for gate in evidence_checks.gates(recorded(name))}
        assert all(found.values()) and "lines follow from the sizes" in found
        assert "larger messages are not quicker" not in found, "ranks that wait for a core may be slow at any size"


BETWEEN = "no more between servers than their ports carry"
FORGED = {
    "a faster link": (lambda: sweep(bus=6e11), "no faster than the link"),
    "an all-reduce beyond the switch": (lambda: sweep(at={"all_reduce": 9e11}), "no faster than the link"),
    "NVLS on A100": (lambda: sweep(bus=2e11, at={"all_reduce": 4e11}, **A100), "no faster than the link"),
    "NVLink on PCIe cards": (
        lambda: sweep(ranks=8, device="NVIDIA H100 PCIe", multiprocessors=114),
        "no faster than the link",
    ),
    "a bridge of two cards over eight": (
        lambda: sweep(ranks=8, bus=2.4e11, device="NVIDIA H100 PCIe", multiprocessors=114),
        "no faster than the link",
    ),
    "no time to launch": (lambda: sweep(alpha=0.5e-6), "no faster than a launch"),
    "a CPU's clock": (lambda: sweep(stamp=float), "times are those of a GPU's clock"),
    "NVLink between servers": (lambda: sweep(ranks=16, servers=[8, 8]), BETWEEN),
    "two servers that are not said": (lambda: sweep(ranks=16), BETWEEN),
    "one GPU a server, as quick as one server": (lambda: sweep(servers=[1] * 8), BETWEEN),
    "A100 cards as quick as H100's": (lambda: sweep(bus=4.6e10, servers=[1] * 8, **A100), BETWEEN),
    "sixteen H100 in a server": (lambda: sweep(ranks=16, servers=[16]), "the servers hold the ranks"),
    "servers that are no numbers": (lambda: sweep(ranks=8, bus=4e10, servers=["4", "4"]), "the servers hold the ranks"),
    "fewer on the servers than ran": (lambda: sweep(ranks=8, bus=4e10, servers=[4, 2]), "the servers hold the ranks"),
    "one kind on another wire": (lambda: sweep(at={"send": 1e9}), "all kinds share one link"),
    "no NCCL": (lambda: sweep(nccl=""), "the device fits its software"),
    "another build of torch": (lambda: sweep(torch="2.13.0+cu126"), "the device fits its software"),
    "a driver older than the device": (lambda: sweep(driver="470.57.02"), "the driver knows the device"),
    "another GPU's multiprocessors": (lambda: sweep(multiprocessors=108), "the multiprocessors are those of its name"),
    "another GPU's memory": (lambda: sweep(device_memory=40 * 10**9), "the device's numbers are those of its name"),
    "longer than its process": (lambda: sweep(alpha=5.0), "measured within the process's life"),
}
A100 = {
    "device": "NVIDIA A100-SXM4-80GB",
    "capability": "8.0",
    "multiprocessors": 108,
    "device_memory": int(0.98 * float(device("A100 SXM 80GB").memory)),
}


@each_of("name", FORGED)
def test_a_file_forged_as_a_whole_is_contradicted_where_physics_or_software_reaches(name):
    make, gate = FORGED[name]
    content = make()
    assert contradicted(content) == {gate} and evidence_checks.verdict(content) == "contradicted"


def swapped(rows):
    """Two sizes of one kind with each other's times, and all that follows from them."""
    small, large = rows[0], rows[9]
    assert small["kind"] == large["kind"]
    for one, other in ((0, large), (9, small)):
        kept = {key: other[key] for key in ("median", "q1", "q3", "seconds")}
        bus = ring_sent(rows[one]["kind"], rows[one]["nbytes"], 8) / kept["median"]
        rows[one] = rows[one] | kept | {"bus": bus, "algorithm": rows[one]["nbytes"] / kept["median"]}


def test_a_large_message_with_a_small_ones_time_is_quicker_than_it_can_be():
    content = copy.deepcopy(sweep(bus=2e10))
    swapped(content["raw"]["rows"])
    assert "larger messages are not quicker" in contradicted(summed(content))


PATCHED = {
    "a bus factor of another kind": (
        lambda c: c["raw"]["rows"][-1].update(bus=2 * c["raw"]["rows"][-1]["bus"]),
        "bus bandwidth follows",
    ),
    "an algorithm bandwidth": (
        lambda c: c["raw"]["rows"][0].update(algorithm=2 * c["raw"]["rows"][0]["algorithm"]),
        "bus bandwidth follows",
    ),
    "a median": (lambda c: c["raw"]["rows"][0].update(median=1e-3), "medians follow from raw times"),
    "quartiles": (lambda c: c["raw"]["rows"][0].update(q1=1e-7), "medians follow from raw times"),
    "a quartile beyond the median": (
        lambda c: c["raw"]["rows"][0].update(q3=c["raw"]["rows"][0]["q1"], repeats=500),
        "medians follow from raw times",
    ),
    "the best bandwidth": (
        lambda c: c["measured"]["best_bus"].update(send=4e11),
        "best bandwidths follow from the sizes",
    ),
    "the best of a kind without rows": (
        lambda c: c["measured"]["best_bus"].update(broadcast=4e11),
        "best bandwidths follow from the sizes",
    ),
    "a line's latency": (lambda c: c["measured"]["fits"]["send"].update(alpha=9e-6), "lines follow from the sizes"),
    "a line of a kind without rows": (
        lambda c: c["measured"]["fits"].update(gossip=c["measured"]["fits"]["send"]),
        "lines follow from the sizes",
    ),
    "a line's bandwidth": (lambda c: c["measured"]["fits"]["send"].update(bus=4e11), "lines follow from the sizes"),
    "a size that the ranks cannot share": (
        lambda c: c["raw"]["rows"][0].update(nbytes=c["raw"]["rows"][0]["nbytes"] + 4),
        "messages are whole numbers for every rank",
    ),
    "a number that no event gives": (
        lambda c: c["raw"]["rows"][0]["seconds"].__setitem__(0, 1.5e-5 + 1e-17),
        "times are those of a GPU's clock",
    ),
    "fewer ranks": (lambda c: c["setup"].update(ranks=4), "bus bandwidth follows"),
}


@each_of("name", PATCHED)
def test_a_number_changed_by_itself_no_longer_follows_from_the_others(name):
    harm, gate = PATCHED[name]
    content = copy.deepcopy(sweep())
    harm(content)
    assert gate in contradicted(evidence.sealed(content))


def test_a_cpu_sweep_under_a_gpus_name_and_software_is_found_out_by_its_clock():
    content = copy.deepcopy(recorded("cpu2/links"))
    content["environment"] |= H100
    content["setup"] |= {"backend": "nccl", "device": "cuda"}
    found = contradicted(evidence.sealed(content))
    assert "times are those of a GPU's clock" in found


@each_of("seconds", [1e-6, 15e-6, 0.1234567, 3.0, 1e-9])
def test_every_time_of_an_event_is_one_and_its_neighbors_are_not(seconds):
    stamped = event(seconds)
    assert device_bounds.from_an_event(stamped)
    assert not device_bounds.from_an_event(stamped * (1 + 1e-12)) and not device_bounds.from_an_event(1e300)


@each_of("name, share", [("H100 SXM", 1.0), ("A100 SXM 80GB", 1.75), ("8 CPU cores", 1.75)])
def test_an_all_reduce_sends_each_byte_once_where_the_switch_adds_up(name, share):
    assert link_bounds.least_sent("all_reduce", 1e6, 8, name) == pytest.approx(share * 1e6)
    assert link_bounds.least_sent("all_gather", 1e6, 8, name) == pytest.approx(7 / 8 * 1e6)


def test_what_was_published_of_several_servers_is_within_their_ports():
    published = series("H100 nodes")
    assert {one.nodes for one in published} >= {2, 64}
    for one in published:
        content = {"setup": {"servers": [one.ranks // one.nodes] * one.nodes}}
        seconds = ring_sent(one.collective, one.nbytes, one.ranks) / one.bus_bandwidth
        found = server_bounds.server_gates(content, one.ranks, one.device, [(one.collective, one.nbytes, seconds)])
        assert all(gate.ok for gate in found), one


# Two of four ranks on a server; to each rank of the other one, an all-to-all sends a quarter of what a rank has.
@each_of(
    "kind, share", [("all_reduce", 1), ("all_gather", 0.5), ("reduce_scatter", 0.5), ("all_to_all", 1), ("send", 1)]
)
def test_bytes_that_cross_the_border_of_a_server(kind, share):
    assert server_bounds.crossing(kind, 1e6, 4, 2) == pytest.approx(share * 1e6)
    assert server_bounds.crossing(kind, 1e6, 2, 1) <= ring_sent(kind, 1e6, 2)  # a rank alone on its server


@each_of("servers, ok", [([1, 1], False), ([2], None)])
def test_a_training_step_between_servers_is_held_to_their_ports(servers, ok):
    content = copy.deepcopy(recorded("cpu2/fsdp"))
    content["environment"] |= H100
    content["setup"] |= {"device": "cuda", "backend": "nccl", "servers": servers}
    content["measured"]["wire"] = {"all_gather": 5e11 * min(row["seconds"] for row in content["raw"]["steps"])}
    content["measured"]["wire_bytes"] = sum(content["measured"]["wire"].values())
    found = {gate.name: gate.ok for gate in evidence_checks.gates(evidence.sealed(content))}
    assert found["the servers hold the ranks"] and found.get(BETWEEN) is ok
    content["measured"]["wire"] = {"all_gather": 1.0}
    assert {gate.name: gate.ok for gate in evidence_checks.gates(evidence.sealed(content))}.get(BETWEEN) is (
        None if ok is None else True
    )


def test_ranks_are_counted_by_machine(monkeypatch):
    names = ["b", "b", "a", "a", "a"]
    monkeypatch.setattr(dist, "all_gather_object", lambda found, mine: found.__setitem__(slice(None), names))
    here = process_group.Place(0, 5, 0, 2, torch.device("cpu"), "gloo")
    assert process_group.servers(here) == [2, 3]
    assert process_group.servers(process_group.Place(0, 1, 0, 1, torch.device("cpu"), "gloo")) == [1]
    assert process_group.machine() == process_group.machine() != ""
