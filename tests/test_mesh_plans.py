"""Plans on a mesh: six parts of a step, bytes by axis against the metered cluster, regimes, and the search over layouts."""

import math

import pytest

from course_lib import compute, facts, memory
from course_lib.mesh import Mesh, cheapest, every_choice, network, plan, regime, sent_bytes, unbeaten, usd, with_adapter
from course_lib.mesh.regimes import AXES
from course_lib.mesh.training import CONFIG, Job, bytes_by_axis
from course_lib.units import DAY, GB

H100 = facts.device("H100 SXM")


@pytest.mark.parametrize(
    ("sizes", "sequence_parallel"),
    [({"dp": 2}, 0), ({"cp": 2}, 0), ({"pp": 2}, 0), ({"tp": 2}, 0), ({"tp": 2}, 1), ({"dp": 2, "cp": 2, "tp": 2}, 0)],
    ids=str,
)
def test_bytes_by_axis_are_those_that_the_metered_cluster_counts(sizes, sequence_parallel):
    job = Job(sequence_parallel=bool(sequence_parallel))
    got = bytes_by_axis(sizes, job)
    want = sent_bytes(
        CONFIG, sizes, job.sequences, CONFIG.seq_len, width=8, gradient_width=8, sequence_parallel=sequence_parallel
    )
    assert got["cp"] == want["cp"]
    pp = sizes.get("pp", 1)
    assert got["pp"] == pytest.approx(want["pp"] * (pp - 1) / pp, abs=33), "an end stage sends in one direction only"
    ends = 2 * CONFIG.vocab * CONFIG.hidden * 8 * 2  # embedding and head, whose share is within this
    assert abs(got["dp"] - want["dp"]) <= ends
    if (
        "tp" in sizes
    ):  # the layers' activations; embedding, head and loss come on top, and gathers for weights' gradients
        assert want["tp"] < got["tp"] < want["tp"] * (1.25 if sequence_parallel else 1) + 0.2 * want["tp"]


def test_a_plan_is_the_sum_of_its_parts_and_each_part_has_its_formula():
    one = plan("llama3-70b", 64, tp=8, pp=4, sequences=512)
    assert one.seconds == pytest.approx(sum(one.parts.values())) and one.fits and one.microbatches == 256
    shape = memory.shape("llama3-70b")
    params = shape.layers * memory.layer_params(shape) + 2 * shape.vocab * shape.hidden
    flops = compute.train_flops(params, one.tokens) + one.tokens * 6 * shape.layers * shape.hidden * 8192
    assert one.parts["compute"] == pytest.approx(flops / 64 / float(H100.matmul_flops))
    assert one.parts["tp"] == pytest.approx(one.sent["tp"] / float(H100.link_one_way))
    assert one.parts["pp"] == pytest.approx(one.sent["pp"] / float(H100.network_one_way))
    assert one.parts["bubble"] == pytest.approx((one.parts["compute"] + one.parts["tp"]) * 3 / 256)
    assert one.wires == {"tp": "server", "cp": "", "pp": "network", "dp": "network"}
    assert one.mfu == pytest.approx(flops / one.seconds / 64 / float(H100.dense_flops))
    chunked = plan("llama3-70b", 64, tp=8, pp=4, sequences=512, virtual=5)
    assert chunked.parts["bubble"] == pytest.approx(one.parts["bubble"] / 5)


def test_full_sharding_communicates_for_every_micro_batch_and_recomputation_costs_a_third():
    once, often = (plan("llama3-70b", 64, tp=8, zero=zero, sequences=512) for zero in (1, 3))
    assert often.sent["dp"] == pytest.approx(1.5 * often.microbatches * once.sent["dp"])
    again = plan("llama3-70b", 64, tp=8, zero=1, sequences=512, recompute="full")
    assert again.parts["compute"] == pytest.approx(4 / 3 * once.parts["compute"]) and again.memory < once.memory


def test_the_presets_hold_what_the_lesson_says():
    simple = plan("llama2-7b", 8, zero=0, seq=2048, convention="A", recompute="full")
    assert float(simple.peak.state) == pytest.approx(80.9 * GB, rel=1e-2) and not simple.fits
    assert plan("llama2-7b", 8, zero=3, seq=2048, convention="A", recompute="full").fits
    large = plan("llama3-405b", 128, tp=8, pp=4, zero=3, recompute="full")
    assert 38 * GB < float(large.peak.state) < 53 * GB and large.fits
    tiny = plan("llama3-405b", 8, tp=8, zero=3, recompute="full")
    assert float(tiny.peak.state) > 800 * GB and tiny.sent["dp"] == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tp": 7, "gpus": 56}, "tp=7 does not divide 64 attention heads"),
        ({"pp": 128, "gpus": 128}, "pp may be at most 80"),
        ({"pp": 16, "virtual": 8}, "pp may be at most 10"),
        ({"gpus": 63, "tp": 8}, "that fit are 56 and 64"),
        ({"gpus": 96}, "the nearest number of replicas that does is 64"),
        ({"cp": 3, "gpus": 96}, "cp may be 1, 2, 4"),
        ({"model": "llama9"}, "llama9"),
        ({"device": "H1000"}, "H1000"),
    ],
)
def test_a_layout_that_cannot_be_names_the_value_and_what_fits(settings, words):
    with pytest.raises(ValueError, match=words):
        plan(**{"model": "llama3-70b", "gpus": 64, **settings})


def test_the_search_finds_what_looking_at_every_layout_finds():
    choices = list(every_choice("llama3-70b", 64, sizes=(1, 2, 4, 8), zero=(1, 3)))
    best = cheapest(choices, 1e9, 1 * DAY)
    allowed = [
        each for each in choices if each.plan.memory <= 0.9 * each.plan.capacity and each.run_seconds(1e9) <= DAY
    ]
    assert best.gpu_seconds(1e9) == min(each.gpu_seconds(1e9) for each in allowed)
    assert cheapest(choices, 15e12, DAY) is None
    assert usd(best, 1e9, 2.0) == pytest.approx(best.gpu_seconds(1e9) / 3600 * 2)
    front = unbeaten(choices, lambda each: each.plan.seconds, lambda each: each.plan.memory)
    for each in choices:
        no_worse = [f for f in front if f.plan.seconds <= each.plan.seconds and f.plan.memory <= each.plan.memory]
        assert no_worse, "every layout is on the front or beaten by one that is"


def test_slower_adapters_change_the_network_alone():
    slow = with_adapter(network("Llama 3 cluster"), 5e9)
    assert [level.bandwidth for level in slow.levels] == [450e9, 5e9, 5e9, pytest.approx(5e9 / 7)]


@pytest.mark.parametrize(("size", "over"), [(1, ()), (7, ("memory",)), (70, ("memory",)), (405, AXES)], ids=str)
def test_the_three_loads_of_small_and_frontier_models(size, over):
    found = regime(
        size * 1e9,
        15e12,
        devices=16_384,
        device_memory=80e9,
        flops_per_s=989e12,
        adapter=50e9,
        deadline_s=60 * DAY,
        target_step_s=10,
    )
    assert found.exceeded == over and found.binding == ("memory" if over else "none")
    assert found.memory == pytest.approx(16 * size / 80)
    assert found.bandwidth == pytest.approx(4 * size * 1e9 * 16_383 / 16_384 / 50e9 / 10)
    assert found.compute == pytest.approx(6 * size * 1e9 * 15e12 / (16_384 * 989e12 * 0.4) / (60 * DAY))


def test_a_mesh_of_one_rank_sends_nothing():
    assert set(sent_bytes("llama3-8b", {}, 8, 2048).values()) == {0.0}
    assert math.isclose(
        plan("llama3-8b", 1, zero=0, sequences=8).seconds, plan("llama3-8b", 1, zero=0, sequences=8).parts["compute"]
    )
    assert Mesh({"tp": 1}).groups("tp") == ((0,),)
