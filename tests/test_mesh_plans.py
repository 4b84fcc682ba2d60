"""Plans on a mesh: the planner's estimate as pictures show it, bytes by axis against the metered cluster, and
regimes."""

import pytest

from course_chapters.ch13.mesh_training import CONFIG, Job, bytes_by_axis
from course_chapters.ch13.regime import AXES, regime
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import DAY, GB
from course_lib.parallel import planner
from course_lib.parallel.mesh import Mesh, plan
from course_lib.parallel.schedules import interleaved, one_f_one_b
from course_lib.parallel.timeline import messages
from tests.tables import each_of

ALL = {"dp": 2, "pp": 2, "cp": 2, "tp": 2}
TWO_OR_THREE = [{"dp": 2, "cp": 2}, {"dp": 2, "cp": 2, "tp": 2}]


@pytest.mark.slower
@each_of(
    "sizes, sequence_parallel",
    [*(({axis: 2}, 0) for axis in ALL), ({"tp": 2}, 1), *((each, 0) for each in [*TWO_OR_THREE, ALL])],
)
def test_the_planners_bytes_by_axis_are_those_that_the_metered_cluster_counts(sizes, sequence_parallel):
    job = Job(sequence_parallel=bool(sequence_parallel))
    got = bytes_by_axis(sizes, job)
    one = planner.Job(
        model=CONFIG,
        seq=CONFIG.seq_len,
        sequences=job.sequences,
        software=planner.Software(split_messages=False, regather=True),
    )
    layout = Layout(**sizes, sp=bool(sequence_parallel), microbatches=job.microbatches)
    want = planner.traffic(one, layout, width=8, gradient=8)
    assert got["cp"] == want["cp"]
    assert got["pp"] == pytest.approx(want["pp"], abs=33), "and 8 bytes each for a loss and a norm"
    if layout.pp == 1:  # the final norm and learned positions are left out
        assert got["dp"] == pytest.approx(want["dp"], rel=0.01)
    if "tp" in sizes:  # embedding, head and loss exchange more over tensor ranks
        assert want["tp"] < got["tp"] < 1.2 * want["tp"]
    if not sequence_parallel:  # an all-reduce for the embedding on the first stage, and one for the head on the last
        residual = 8 * job.sequences * CONFIG.seq_len / layout.dp / layout.cp * CONFIG.hidden
        ends = 4 * (layout.tp - 1) / layout.tp * residual / layout.pp
        assert got["tp"] == pytest.approx(float(want["tp"]) + ends, rel=0.02), "and three numbers a token of the loss"


@each_of("chunks, borders", [(1, 3), (2, 7), (5, 19)])
def test_the_planner_counts_every_border_between_chunks_as_the_schedule_does(chunks, borders):
    base, one = (plan("llama3-70b", 64, tp=8, pp=4, virtual=each, sequences=512) for each in (1, chunks))
    assert one.sent["pp"] / base.sent["pp"] == pytest.approx(borders / 3), "the last rank sends to the first one, too"
    schedule = interleaved(4, 8, chunks) if chunks > 1 else one_f_one_b(4, 8)
    assert len(messages(schedule)) == 2 * 8 * borders
    residual = 8192 * 8192 * 2 / 8  # bytes that a tensor-parallel rank sends of one micro-batch
    assert one.sent["pp"] == pytest.approx(2 * 256 * borders / 4 * residual), "the mean over the stages"


def test_a_plan_says_what_the_planner_says():
    one = plan("llama3-70b", 64, tp=8, pp=4, sequences=512)
    job = planner.Job(model="llama3-70b", seq=8192, sequences=512, software=planner.TAUGHT)
    cluster = planner.cluster("64xH100")
    found = planner.estimate(job, cluster, Layout(tp=8, sp=True, pp=4, dp=2, zero=1, microbatches=256))
    assert one.seconds == pytest.approx(float(found.seconds)) and one.mfu == pytest.approx(float(found.mfu))
    assert one.memory == pytest.approx(float(found.memory)) and one.fits and one.microbatches == 256
    parts = found.step.parts
    assert one.parts["compute"] == pytest.approx(float(parts["matmul"] + parts["attention"]))
    assert all(one.parts[axis] == pytest.approx(float(parts[axis])) for axis in ("tp", "cp", "pp", "dp", "bubble"))
    assert one.talking["tp"] == pytest.approx(one.parts["tp"]) and one.talking["dp"] > one.parts["dp"]
    assert one.wires == {"tp": "server", "cp": "", "pp": "network", "dp": "network", "ep": ""}


def test_full_sharding_sends_weights_for_every_micro_batch():
    once, often = (plan("llama3-70b", 64, tp=8, zero=zero, sequences=512) for zero in (1, 3))
    assert often.sent["dp"] == pytest.approx(often.microbatches * (4 + 4) / (2 + 4) * once.sent["dp"])
    slow = plan("llama3-70b", 64, tp=8, zero=3, sequences=512, adapter=5e9)
    assert slow.talking["dp"] > 5 * often.talking["dp"] and slow.talking["tp"] == pytest.approx(often.talking["tp"])


@each_of("letter, width", [("A", 2), ("B", 2), ("C", 4), ("D", 4), ("E", 4)])
def test_gradients_are_sent_as_wide_as_the_convention_adds_them_up(letter, width):
    one = plan("llama2-7b", 8, zero=0, seq=2048, convention=letter, recompute="full")
    assert one.sent["dp"] == pytest.approx(2 * 7 / 8 * width * 6_738_415_616, rel=1e-4)
    if letter in "AB":
        assert one.sent["dp"] == pytest.approx(2 * 7 / 8 * one.held["gradients"], rel=1e-4), "as held, so sent"


def test_the_presets_hold_what_the_lesson_says():
    simple = plan("llama2-7b", 8, zero=0, seq=2048, convention="A", recompute="full")
    assert simple.state == pytest.approx(80.9 * GB, rel=1e-2) and not simple.fits
    assert plan("llama2-7b", 8, zero=3, seq=2048, convention="A", recompute="full").fits
    large = plan("llama3-405b", 128, tp=8, pp=4, zero=3, recompute="full", convention="B")
    assert 38 * GB < large.state < 53 * GB and large.fits
    tiny = plan("llama3-405b", 8, tp=8, zero=3, recompute="full", convention="B")
    assert tiny.state > 800 * GB and tiny.sent["dp"] == 0 and not tiny.fits


def test_a_mixture_of_experts_shares_its_experts_out():
    alone, shared = (plan("mixtral-8x7b", 64, tp=2, ep=ep, zero=0, sequences=512) for ep in (1, 8))
    assert shared.held["weights"] < alone.held["weights"] / 3 and shared.sent["ep"] > alone.sent["ep"] == 0


@each_of(
    "settings, words",
    ({"tp": 7, "gpus": 56}, "tp=7 does not divide 64 attention heads"),
    ({"pp": 128, "gpus": 128}, "pp may be at most 80"),
    ({"pp": 16, "virtual": 8}, "pp may be at most 10"),
    ({"pp": 4, "virtual": 3}, "the chunks of a stage may be 1, 2, 4, 5, 10, 20"),
    ({"gpus": 96, "tp": 64}, "that fit are 64 and 128"),
    ({"gpus": 96}, "the nearest number of replicas that does is 64"),
    ({"gpus": 63}, "do not fill servers of 8; choose 56 or 64"),
    ({"cp": 3, "gpus": 96}, "cp may be 1, 2, 4"),
    ({"ep": 3}, "ep does not divide"),
    ({"model": "llama9"}, "llama9"),
    ({"device": "H1000"}, "H1000"),
)
def test_a_layout_that_cannot_be_names_the_value_and_what_fits(settings, words):
    with pytest.raises(ValueError, match=words):
        plan(**{"model": "llama3-70b", "gpus": 64, **settings})


@each_of("size, over", [(1, ()), (7, ("memory",)), (70, ("memory",)), (405, ("memory", "compute"))])
def test_the_three_loads_of_small_and_frontier_models(size, over):
    found = regime(
        size * 1e9,
        15e12,
        devices=16_384,
        device_memory=80e9,
        flops_per_s=989e12,
        link=450e9,
        adapter=50e9,
        deadline_s=60 * DAY,
        target_step_s=10,
    )
    assert tuple(axis for axis, load in zip(AXES, found.loads, strict=True) if load > 1) == over
    assert found.binding == ("memory" if over else "none")
    assert found.memory == pytest.approx(16 * size / 80)
    # a ring through full servers has eight adapters
    assert found.bandwidth == pytest.approx(4 * size * 1e9 * 16_383 / 16_384 / 400e9 / 10)
    assert found.compute == pytest.approx(6 * size * 1e9 * 15e12 / (16_384 * 989e12 * 0.4) / (60 * DAY))


def test_one_gpu_sends_nothing():
    alone = plan("llama3-8b", 1, zero=0, sequences=8)
    assert set(alone.sent.values()) == {0.0} and set(alone.wires.values()) == {""}
    assert Mesh({"tp": 1}).groups("tp") == ((0,),)
