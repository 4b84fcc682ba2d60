"""The planner's terms against closed forms, the timeline and the metered mesh; masks, search, command lines."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_app import own_layout
from course_app.cli.plan import explain
from course_chapters import framework_commands as commands
from course_lib.cluster import collectives
from course_lib.estimate import facts, memory
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import GB
from course_lib.parallel import planner, schedules
from course_lib.parallel.planner import bubbles, constants, layers, products, wires
from course_lib.parallel.planner.search import divisors
from course_lib.parallel.timeline import Durations, play
from course_runs import frameworks, options
from tests.tables import each_alone, each_of

SMALL = memory.Shape(layers=8, hidden=1024, heads=16, vocab=32000)
H100 = planner.cluster("64xH100")
JOB = planner.Job(model=SMALL, seq=2048, sequences=256)


def plan_of(job, where):
    return planner.Plan(job=job, cluster=H100, layout=where, estimate=planner.estimate(job, H100, where))


DEGREES = st.sampled_from((1, 2, 4, 8))


# --- products


def test_a_large_aligned_product_reaches_the_rate_and_a_small_one_does_not():
    rate = H100.matmul
    share = 2 * 16384**3 / rate / products.product_seconds(16384, 16384, 16384, H100, rate)
    assert 0.98 < share <= 1.0
    tile = products.product_seconds(128, 4096, 128, H100, rate) - constants.KERNEL_SECONDS
    alone = 2 * 128 * 128 * 4096 * H100.processors / rate  # one tile, all other processors idle
    assert tile == pytest.approx(alone + 2 * 128 * 128 / H100.memory_rate)  # and its result is written


def test_a_product_lasts_no_shorter_than_its_bytes():
    seconds = products.product_seconds(131072, 16, 131072, H100, H100.matmul)
    assert seconds >= 2 * (131072**2 + 2 * 131072 * 16) / H100.memory_rate


def test_a_layers_three_products_are_those_of_their_shapes():
    m, k, n = 8192, 4096, 1344
    expected = [products.product_seconds(*sizes, H100, H100.matmul) for sizes in ((m, k, n), (m, n, k), (k, m, n))]
    assert products.layer_seconds(m, k, n, H100, H100.matmul) == pytest.approx(expected)


@each_of("width, share", [(128, 1.0), (64, 1.0), (1800, 0.7), (100, 0.7)])
def test_only_widths_of_whole_128_bytes_run_at_the_full_rate(width, share):
    assert products.aligned_share(width) == share


def test_a_layers_products_have_the_flops_of_its_matrices():
    """At a rate so low that neither bytes nor launches count, seconds times rate are 2 FLOP a parameter and token,
    thrice."""
    slow = replace(H100, matmul=1e9, processors=1)
    found = layers.matmuls(JOB, slow, Layout(), 1)
    tiles = 2 * 2048 * 12 * SMALL.hidden**2
    assert found.forward * 1e9 == pytest.approx(tiles, rel=2e-2)
    assert found.backward == pytest.approx(2 * found.forward, rel=2e-2)
    assert found.weights == pytest.approx(found.forward, rel=2e-2)


def test_a_gather_along_the_second_dimension_is_copied_once_more():
    """torchtitan's 4 gathers and scatters of 2,048 x 1,024 numbers in 16 bits, each read and written; two of the four
    are sent, and copied, in 8 bits where the products are."""
    copies = 4 * 4 * 2048 * 1024 / H100.memory_rate
    for dtype, share in (("bf16", 1.0), ("fp8", 0.75)):
        job = planner.Job(model=SMALL, seq=2048, sequences=8, dtype=dtype, software="torchtitan")
        plain = replace(job, software=replace(job.software, sequence_first=True))
        for where, times in ((Layout(tp=8, sp=True), share), (Layout(tp=8), 0.0), (Layout(), 0.0)):
            both = [layers.elementwise(each, H100, where, 1) for each in (job, plain)]
            assert both[0].forward - both[1].forward == pytest.approx(times * copies)
            assert both[0].backward - both[1].backward == pytest.approx(times * copies)


def test_latent_attention_has_the_products_of_its_matrices_and_keeps_what_they_read():
    """One layer of DeepSeek-V2-Lite's attention: queries from the residual, keys and values from 512 numbers."""
    one = memory.Shape(
        layers=1, hidden=2048, heads=16, vocab=1024, ffn=1024, gated=True, biases=False, norm="RMSNorm", head_dim=128,
        latent=512, rotary_dim=64, plain_dim=128, value_dim=128,
    )  # fmt: skip
    slow = replace(H100, matmul=1e9, processors=1)
    attention = 2048 * 16 * 192 + 2048 * (512 + 64) + 512 * 16 * 256 + 16 * 128 * 2048
    assert memory.layer_params(one) == attention + 3 * 2048 * 1024 + 2 * 2048 + 512
    found = layers.matmuls(replace(JOB, model=one), slow, Layout(), 1)
    assert found.forward * 1e9 == pytest.approx(2 * 2048 * (attention + 3 * 2048 * 1024), rel=0.05)
    kept = {term.name: term.nbytes for term in memory.layer_terms(one, 1, 2048, kernels="flash", dropout=False)}
    widths = {"latent": 2 * 512 + 64, "q": 16 * 192, "k": 16 * 160, "v": 16 * 160, "context": 16 * 128}
    assert {name: kept[f"attention.{name}"] / 2 / 2048 for name in widths} == widths


@given(tp=DEGREES)
def test_attention_is_divided_among_tensor_ranks(tp):
    whole, part = (layers.attention(JOB, H100, Layout(tp=ways), 4) for ways in (1, tp))
    fixed = constants.KERNEL_SECONDS
    assert 0.95 < (part.forward - fixed) * tp / (whole.forward - fixed) < 1.3  # fewer tiles fill the last wave less


def test_unfused_attention_takes_longer_and_native_is_quicker_than_flash():
    kinds = ("native", "flash", "unfused")
    seconds = [
        layers.attention(replace(JOB, software=planner.Software(attention=kind)), H100, Layout(), 4).forward
        for kind in kinds
    ]
    assert seconds == sorted(seconds)


# --- wires


@each_of(
    "size, stride, rate",
    (8, 1, "inside"),  # one server
    (2, 4, "inside"),
    (8, 8, 1),  # one rank in each server: one adapter's share
    (16, 4, 2),
    (64, 1, 8),  # all eight adapters, unless the inside wire is slower
)
def test_a_ring_has_the_adapters_of_its_ranks_in_a_server(size, stride, rate):
    expected = H100.inside.bandwidth if rate == "inside" else min(H100.inside.bandwidth, rate * H100.across.bandwidth)
    near = wires.ranks_per_node(size, stride, H100)
    rates = H100.inside.bandwidth, H100.across.bandwidth
    assert collectives.ring_rate(size, near, *rates) == pytest.approx(expected)


@given(size=DEGREES, nbytes=st.floats(1e6, 1e10))
def test_an_all_reduce_moves_a_rings_bytes(size, nbytes):
    seconds = wires.reduce_seconds(nbytes, size, 1, H100) - 2 * wires.start_seconds(size, size, H100)
    assert seconds == pytest.approx(collectives.ring_cost(nbytes, size, 0.0, H100.inside.bandwidth).seconds)


# --- the pipeline


@each_of(
    "name, make",
    ("naive", schedules.naive),
    ("gpipe", schedules.gpipe),
    ("1f1b", schedules.one_f_one_b),
    ("interleaved", schedules.interleaved),
    ("zb_h1", schedules.zb_h1),
    ("zb_h2", schedules.zb_h2),
)
@each_of("stages, microbatches", [(4, 8), (4, 16), (8, 16)])
def test_the_bubble_is_that_of_the_played_schedule(name, make, stages, microbatches):
    schedule = make(stages, microbatches)
    played = play(schedule, Durations(forward=1.0, backward=2.0, input_gradient=1.0, weight_gradient=1.0))
    where = Layout(pp=stages, microbatches=microbatches, schedule=name, virtual=2 if name == "interleaved" else 1)
    idle = float(bubbles.idle_seconds(where, 1.0, 2.0, 1.0, (stages - 1) * 3.0))
    if name == "zb_h2":  # each rank ends on its own
        assert played.bubble_in_span == pytest.approx(idle / (3.0 * microbatches + idle))
    else:
        assert played.makespan == pytest.approx(3.0 * microbatches + idle)


@each_of("stages", [4, 8])
@each_of("name", ["naive", "breadth_first", "zb_h1", "zb_h2", "zb_v", "dualpipe", "dualpipe_v", "gpipe"])
def test_what_a_stage_holds_is_what_the_schedule_holds(name, stages):
    held = max(schedules.peak_activations(schedules.GENERATORS[name](stages, 2 * stages)))
    assert max(float(memory.in_flight(name, stages, stage, 2 * stages)) for stage in range(stages)) == held


# --- the step


@given(tp=DEGREES, pp=DEGREES, microbatches=st.sampled_from((1, 4, 16)), zero=st.sampled_from((0, 1, 3)))
def test_the_parts_are_the_step_and_none_is_negative(tp, pp, microbatches, zero):
    where = Layout(tp=tp, pp=pp, dp=64 // tp // pp, microbatches=microbatches, zero=zero)
    step = planner.step_time(replace(JOB, sequences=64 * 16), H100, where)
    assert step.seconds == pytest.approx(sum(float(part) for part in step.parts.values()))
    assert min(float(part) for part in step.parts.values()) >= -1e-12


def test_arrays_and_single_layouts_agree():
    many = planner.layouts(JOB, H100)
    found = planner.estimate(JOB, H100, many)
    for index in range(0, len(many.tp), 37):
        one = planner.estimate(JOB, H100, planner.one_of(many, index))
        assert float(one.seconds) == pytest.approx(float(found.seconds[index]))
        assert float(one.memory) == pytest.approx(float(found.memory[index]))


def test_more_of_everything_costs_more():
    base = planner.step_time(JOB, H100, Layout(dp=64, microbatches=1)).seconds
    for slower in (replace(JOB, sequences=512), replace(JOB, seq=4096), replace(JOB, recompute="full")):
        assert planner.step_time(slower, H100, Layout(dp=64, microbatches=1)).seconds > base


def test_one_rank_communicates_with_nobody():
    step = planner.step_time(replace(JOB, sequences=8), planner.cluster("1xH100"), Layout(microbatches=8))
    assert {name for name in ("tp", "cp", "ep", "pp", "dp", "bubble") if float(step.parts[name])} == set()


def test_overlap_never_costs_time():
    for field in ("overlap_dp", "overlap_tp", "overlap_pp"):
        both = [
            planner.step_time(
                replace(JOB, software=planner.Software(**{field: value})),
                H100,
                Layout(tp=2, pp=2, dp=16, microbatches=4),
            )
            for value in (True, False)
        ]
        assert both[0].seconds <= both[1].seconds


# --- bytes


def test_a_mixtures_experts_travel_only_among_expert_ranks():
    job = replace(JOB, model=memory.shape("mixtral-8x7b"))
    assert planner.traffic(job, Layout(dp=64))["ep"] == 0
    alone, many = (planner.traffic(job, Layout(dp=64, ep=ep)) for ep in (4, 8))
    assert many["ep"] > alone["ep"] > 0
    assert many["dp"] < alone["dp"]  # fewer ranks hold the same experts


def test_experts_over_tensor_ranks_too_have_nobody_to_share_gradients_with():
    """Megatron prints such layouts: 32 expert ranks over 16 data ranks of 2 tensor ranks each, ranks of an expert:
    one."""
    job = replace(JOB, model=memory.shape("qwen3-235b-a22b"))
    few, reaching = (Layout(tp=2, pp=8, dp=16, ep=ep, microbatches=16) for ep in (16, 32))
    timed = [planner.step_time(job, planner.cluster("256xH100"), each) for each in (few, reaching)]
    assert planner.traffic(job, few)["dp"] == planner.traffic(job, reaching)["dp"]  # the dense weights' alone
    assert all(0 < float(each.seconds) < math.inf for each in timed)


def test_bytes_by_axis_follow_the_formulas():
    where = Layout(tp=2, cp=2, pp=2, dp=8, microbatches=4)
    sent = planner.traffic(JOB, where)
    batch = JOB.sequences / (8 * 4)
    residual = 2 * batch * JOB.seq / 2 * SMALL.hidden
    assert sent["tp"] == pytest.approx(4 * (SMALL.layers / 2) * 8 * residual / 2)
    assert sent["pp"] == pytest.approx(4 * 2 * residual / 2 / 2)
    assert sent["cp"] == pytest.approx(4 * (SMALL.layers / 2) * 3 / 2 * 2 * 2 * batch * JOB.seq * SMALL.kv_width / 2)


# --- masks, search, words


@each_of(
    "layout, reason",
    (Layout(tp=2, dp=16), "multiply"),
    (Layout(tp=32, dp=2), "heads"),
    (Layout(pp=16, dp=4), "layers"),
    (Layout(dp=64, microbatches=3), "batch"),
    (Layout(pp=4, dp=16, schedule="interleaved", virtual=2, microbatches=2), "multiple of pp"),
    (Layout(dp=64, ep=3), "ep does not divide"),
    (Layout(dp=64, replicas=5), "replicas"),
    (Layout(tp=2, pp=2, dp=16), ""),
)
def test_a_mask_has_a_reason(layout, reason):
    said = "; ".join(planner.in_words(planner.faults(JOB, H100, layout)))
    assert (reason in said) if reason else said == ""


def test_one_bad_layout_hides_no_good_one():
    many = Layout(tp=np.array([1, 3, 2]), dp=np.array([64, 21, 32]), microbatches=np.array([1, 1, 2]))
    found = planner.estimate(JOB, H100, many)
    assert found.ok.tolist() == [True, False, True]
    assert np.isnan(found.memory[1]) and np.isfinite(found.memory[[0, 2]]).all()
    assert "heads" in "; ".join(planner.in_words(planner.faults(JOB, H100, many)[1]))


def test_the_search_finds_what_trying_all_layouts_finds():
    best = planner.search(JOB, H100, top=1, schedules=("1f1b",), recompute=("none",))[0]
    many = planner.layouts(JOB, H100)
    found = planner.estimate(JOB, H100, many)
    quickest = np.min(np.where(found.ok, found.seconds, np.inf))
    assert best.seconds <= 1.02 * quickest and best.estimate.ok


def test_the_search_returns_only_what_fits_and_meets_the_limits():
    job = planner.Job(model="llama3-70b", seq=8192, sequences=512)
    plans = planner.search(job, H100, tokens=1e12, deadline=400 * 86400)
    assert plans and all(plan.estimate.ok and plan.days(1e12) <= 400 for plan in plans)
    assert [plan.seconds for plan in plans] == pytest.approx(sorted(plan.seconds for plan in plans), rel=1e-2)
    with pytest.raises(planner.NoPlan, match="days"):
        planner.search(job, H100, tokens=1e12, deadline=86400)
    with pytest.raises(planner.NoPlan, match="costs"):
        planner.search(job, H100, tokens=1e12, max_usd=1.0)
    with pytest.raises(ValueError, match="needs the tokens"):
        planner.search(job, H100, deadline=86400)


def test_a_model_that_fits_nowhere_names_what_comes_nearest():
    with pytest.raises(planner.NoPlan, match=r"the smallest layout .* devices would hold it"):
        planner.search(planner.Job(model="llama3-405b", seq=8192, sequences=64), planner.cluster("8xH100"))


@each_of(
    "of, gpus, said",
    ("64xH1000", None, "Near it: H100 SXM"),
    ("60xH100", None, "choose 56 or 64"),
    ("H100", None, "write it as 64xH100"),
    ("16xMI300X", None, r"MI300X \(192 GB\) is known, but .* The nearest .* is H200 SXM \(141 GB\): 16xH200"),
    ("8xV100-16GB", None, "8xV100-32GB"),
    ("4x4090", None, "no rates of this device"),
    ("0xH100", None, "gpus is 0"),
    ("-8xH100", None, "gpus is -8"),
    ("99999999xH100", None, "more than 1,000,000"),
    ("", None, "No cluster called ''"),
)
def test_an_unknown_cluster_names_the_nearest(of, gpus, said):
    with pytest.raises(ValueError, match=said):
        planner.cluster(of, gpus)


@each_alone(
    "of, gpus, name",
    ("8xA100-40GB", 8, "A100 SXM 40GB"),
    ("8 h100", 8, "H100 SXM"),
    ("8h100", 8, "H100 SXM"),
    ("H100:8", 8, "H100 SXM"),
    ("h100 x 8", 8, "H100 SXM"),
    ("2x8xH100", 16, "H100 SXM"),
    ("NVIDIA H100 80GB HBM3:8", 8, "H100 SXM"),
    ("8xNVIDIA A100-SXM4-80GB", 8, "A100 SXM 80GB"),
    ("A100:8", 8, "A100 SXM 80GB"),
    ("gb200-nvl72", 72, "GB200"),
    ("2xGB200 NVL72", 144, "GB200"),
    ("144xgb200-nvl72", 144, "GB200"),
    ("384xJean-Zay-A100", 384, "Jean Zay A100"),
)
def test_devices_are_named_as_people_write_them(of, gpus, name):
    found = planner.cluster(of)
    assert (found.gpus, found.name) == (gpus, name)


def test_every_cluster_of_the_facts_is_built():
    for name in planner.names():
        one = planner.cluster(name, 8)
        assert one.peak > one.matmul > 0.4 * one.peak and one.memory > 10 * GB
        assert one.inside.bandwidth > one.across.bandwidth


def test_nothing_beats_the_front():
    draw = np.random.default_rng(3).integers(0, 9, (200, 3)).astype(float)
    keep = planner.pareto(*draw.T)
    for index, point in enumerate(draw):
        beaten = np.any(np.all(draw <= point, axis=1) & np.any(draw < point, axis=1))
        assert keep[index] == (not beaten)


def test_a_plan_is_written_for_each_framework():
    job = planner.Job(model="llama3-70b", seq=8192, sequences=512)
    where = Layout(tp=8, sp=True, pp=4, dp=2, zero=1, virtual=2, schedule="interleaved", microbatches=64)
    plan = plan_of(job, where)
    titan = commands.command(plan, "torchtitan")
    assert "--parallelism.tensor_parallel_degree 8" in titan and "Interleaved1F1B" in titan
    assert {flag.partition(" act")[0] for flag in titan.split(" --") if "layers" in flag} == {
        "parallelism.pipeline_parallel_first_stage_less_layers 0",
        "parallelism.pipeline_parallel_last_stage_less_layers 0",
        "parallelism.pipeline_parallel_layers_per_stage 10",
    }
    megatron = commands.command(plan, "megatron")
    for flag in ("--tensor-model-parallel-size 8", "--num-layers-per-virtual-pipeline-stage 10", "--sequence-parallel"):
        assert flag in megatron
    servers = "torchrun --nnodes 8 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint FIRST_SERVER:29500"
    ours = commands.command(plan, "course")
    assert ours.startswith(
        f"{servers} -m course_runs.train --size 7b --layout pp=4,ddp=2,tp=8,sp --seq-len 8192 --batch 512 "
    )
    assert "--micro-batches 64 " in ours and "--schedule interleaved  # " in ours
    assert "nearest in size, 7b" in ours and "whole optimizer state" in ours and ours.endswith("replace FIRST_SERVER")
    assert "--recipe llama3_70b_pretrain" in commands.command(plan, "bridge")
    with pytest.raises(ValueError, match="No framework"):
        commands.command(plan, "jax")
    said = "\n".join(explain({"the quickest": plan}, 1e12))
    assert "most time goes to" in said and "split evenly" not in said


def test_a_plan_says_that_an_odd_number_of_layers_has_no_even_stages():
    job = planner.Job(model="deepseek-v3", seq=4096, sequences=2048)
    plan = own_layout.judged("pp=1,ep=64,zero=3,recompute=full", job, planner.cluster("2048xH100"))
    assert "61 layers split evenly over no power of two" in planner.verdict(plan, plan)


@given(number=st.integers(1, 300))
def test_divisors_are_all_of_them(number):
    assert divisors(number) == [each for each in range(1, number + 1) if not number % each]
    assert math.prod(divisors(number)[:1]) == 1


@given(
    *map(st.sampled_from, ((1, 2, 8), (1, 2), (1, 4), (1, 2), (1, 8), (0, 1, 3), ("none", "selective", "full"))),
    st.sampled_from(("llama3-70b", "mixtral-8x7b", "gpt2-xl")),
    st.sampled_from(("1f1b", "interleaved", "gpipe")),
    st.sampled_from((False, False, True)),
)
def test_every_printed_flag_is_an_option_of_the_version_that_is_named(
    tp, cp, pp, virtual, dp, zero, recompute, model, schedule, offload
):
    software = replace(planner.SOFTWARE["megatron-core"], offloads="moments" if zero < 3 else "state")
    job = planner.Job(model=model, seq=8192, sequences=512, recompute=recompute, offload=offload, software=software)
    where = Layout(
        tp=tp, sp=tp > 1, cp=cp, pp=pp, dp=dp, zero=zero, virtual=virtual if schedule == "interleaved" else 1,
        schedule=schedule,
        microbatches=8, ep=min(dp, 8) if "mixtral" in model else 1,
    )  # fmt: skip
    estimate = planner.estimate(planner.Job(model="llama3-8b", seq=8192, sequences=64), H100, Layout(dp=64))
    plan = planner.Plan(job=job, cluster=H100, layout=where, estimate=estimate)
    for name, known in frameworks.frameworks().items():
        try:
            line = commands.command(plan, name)
        except ValueError:
            continue
        assert not known.unknown(line) and f"  # {known.version}, {known.date}" in line
        blanks = [word for word in ("FIRST_SERVER", "MODULE", "CONFIG") if f" {word}" in line.partition("  # ")[0]]
        assert not blanks or line.endswith(f"; replace {', '.join(blanks)}")
        if name == "torchtitan":
            said = dict(re.findall(r"--(\S+) (\d+)", line))
            micro, step = (int(said[f"training.num_tokens_per_{each}"]) for each in TITAN_TOKENS)
            assert micro * 8 * dp == step == 512 * 8192
    try:
        ours = commands.command(plan, "course")
    except ValueError:
        return
    said = options.arguments(ours[ours.index("--size") :].partition("  # ")[0].split())
    assert (said.batch, said.seq_len, said.micro_batches, said.checkpointing) == (512, 8192, 8, recompute)


TITAN_TOKENS = "microbatch_per_dp_rank", "train_step"


def test_torchtitan_is_asked_for_the_model_of_the_plan():
    for name, words in [*commands.TITAN_MODELS.items(), ("gpt2-xl", "--module MODULE --config CONFIG")]:
        job, where = planner.Job(model=name, seq=1024, sequences=64), Layout(dp=64)
        assert f" {words} --parallelism" in commands.command(plan_of(job, where), "torchtitan")


def test_an_option_that_is_gone_is_found():
    gone = (
        "torchrun --nnodes 1 -m torchtitan.train --training.local_batch_size 8 --training.steps 3 "
        "activation-checkpoint:half"
    )
    assert frameworks.framework("torchtitan").unknown(gone) == [
        "training.local_batch_size",
        "activation-checkpoint:half",
    ]
    assert frameworks.framework("megatron").unknown("torchrun pretrain_gpt.py --tensor-parallel 8 --bf16") == [
        "tensor-parallel"
    ]


def test_a_plan_that_a_framework_cannot_run_is_refused_and_context_parallelism_is_ours_too():
    job = planner.Job(model="llama3-8b", seq=8192, sequences=64)

    def plan(**degrees):
        return plan_of(job, Layout(microbatches=4, **degrees))

    sharded = commands.command(plan(dp=8, zero=3), "megatron")
    assert "--use-torch-fsdp2 --no-gradient-accumulation-fusion --ckpt-format torch_dist" in sharded
    with pytest.raises(ValueError, match="neither pipelines"):
        commands.command(plan(dp=4, pp=2, zero=3), "megatron")
    ours = (
        "course run train --nproc 8 --size 7b --layout fsdp=4,cp=2 --seq-len 8192 --batch 64 --micro-batches "
        "4 --steps 100"
    )
    assert commands.command(plan(dp=4, cp=2, zero=3), "course").partition("  # ")[0] == ours


@each_alone(
    "model, flags",
    (
        "llama3-70b",
        "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --vocab-size 128256",
    ),
    ("qwen2.5-0.5b", "--add-qkv-bias --disable-bias-linear --num-query-groups 2"),
    ("qwen3-0.6b", "--qk-layernorm --kv-channels 128"),
    ("gpt2-xl", "--normalization LayerNorm --position-embedding-type learned_absolute"),
    ("qwen1.5-moe-a2.7b", "--num-experts 60 --moe-shared-expert-intermediate-size 5632 --moe-shared-expert-gate"),
    ("deepseek-v3", "--multi-latent-attention --kv-lora-rank 512 --q-lora-rank 1536 --moe-layer-freq '[0]*3+[1]*58'"),
)
def test_megatron_is_asked_for_the_same_model(model, flags):
    job, where = planner.Job(model=model, seq=1024, sequences=64), Layout(dp=64, zero=1)
    line = commands.command(plan_of(job, where), "megatron")
    said = set(re.findall(r"--\S+(?: (?!--)\S+)?", line))
    assert set(re.findall(r"--\S+(?: (?!--)\S+)?", flags)) <= said
    one = memory.shape(model)
    assert ("--swiglu" in said) == one.gated and ("--untie-embeddings-and-output-weights" in said) != one.tied
    assert ("--disable-bias-linear" in said) != one.biases


@pytest.mark.parametrize("model", ["llama3-70b", "llama3-8b", "qwen3-30b-a3b", "deepseek-v2-lite"])
@pytest.mark.parametrize("gpus", ["8xH100", "64xH100", "gb200-nvl72"])
def test_plans_differ_in_what_one_may_want(model, gpus):
    lite = memory.Shape(
        layers=27, hidden=2048, heads=16, vocab=102400, ffn=10944, gated=True, tied=False, biases=False, norm="RMSNorm",
        head_dim=128, latent=512, rotary_dim=64, plain_dim=128, value_dim=128, experts=64, top_k=6, expert_ffn=1408,
        shared_ffn=2816, dense_layers=1,
    )  # fmt: skip
    job = planner.Job(model=lite if model == "deepseek-v2-lite" else model, seq=4096, sequences=576)
    try:
        plans = planner.choices(job, planner.cluster(gpus))
    except planner.NoPlan:
        assert (model, gpus) == ("llama3-70b", "8xH100")
        return
    best = next(iter(plans.values()))
    granted = [wish for wishes in plans for wish in wishes.split(", also ")]
    assert granted.count("the quickest") == 1 and len(granted) == len(set(granted)) == 4
    assert len({(plan.layout, plan.job.recompute) for plan in plans.values()}) == len(plans) > 1
    for wish, plan in plans.items():
        assert plan.estimate.ok and plan.seconds >= (1 - 2e-3) * best.seconds
        assert sum(planner.memory_parts(plan).values()) == pytest.approx(plan.memory)
        assert sum(planner.time_parts(plan).values()) == pytest.approx(plan.seconds)
        axes = [sum(getattr(each.layout, name) > 1 for name in ("tp", "cp", "pp", "ep")) for each in (plan, best)]
        holds = {
            "the quickest": True,
            "the fewest axes": axes[0] <= axes[1],
            "the most memory to spare": plan.memory == min(each.memory for each in plans.values()),
            "whole weights on each rank (ZeRO-1)": plan.layout.zero < 3,
        }
        assert all(holds[each] for each in wish.split(", also "))


@each_alone(
    "text, error, said",
    ("tp=8,pp=4,zero=1", None, {"dp": 2, "microbatches": 128, "sp": True}),
    ("tp=2 dp=32 microbatch=2 zero=3 recompute=full", None, {"microbatches": 4, "pp": 1}),
    ("pp=8,virtual=5,zero=3,microbatches=32,recompute=full", None, {"schedule": "interleaved", "dp": 8}),
    ("tp=3", planner.NoPlan, "tp x cp x pp = 3 x 1 x 1 = 3, which does not divide the 64 devices"),
    ("tp=8,pp=4,dp=4", planner.NoPlan, "8 x 1 x 4 x 4 = 128, and there are 64 devices. With dp = 2 they are used"),
    ("tp=8,pp=3,dp=4", planner.NoPlan, "8 x 1 x 3 x 4 = 96, and there are 64 devices.$"),
    ("pp=16,virtual=7,microbatches=32", planner.NoPlan, "cannot run: pp times virtual does not divide"),
    ("dp=64,zero=0", planner.NoPlan, r"does not fit .* of 85 GB"),
    ("tq=8", ValueError, "'tq=8' is no part of a layout"),
    ("tp=eight", ValueError, "tp is 'eight'"),
    ("tp=0", ValueError, "tp is '0'"),
    ("zero=7", ValueError, "ZeRO has stages"),
    ("recompute=some", ValueError, "choose from none, selective, full"),
    ("offload=some", ValueError, "choose from none, moments, state"),
    ("offload=state", ValueError, "megatron-core can keep its moments"),
    ("tp=2,tp=4", ValueError, "given twice"),
    ("", ValueError, "no part of a layout"),
)
def test_a_layout_in_words_is_judged(text, error, said):
    job = planner.Job(model="llama3-70b", seq=8192, sequences=256)
    if error:
        with pytest.raises(error, match=said):
            own_layout.judged(text, job, H100)
        return
    where = own_layout.judged(text, job, H100).layout
    assert {name: getattr(where, name) for name in said} == said and where.ranks == 64


# --- what is known to run


@pytest.mark.parametrize("step", facts.steps(), ids=lambda step: f"{step.model}-{step.gpus}x{step.device}")
def test_a_published_layout_runs_and_takes_the_published_time(step):
    software = "torchtitan" if "torchtitan" in step.software else "megatron-core"
    job = planner.Job(model=step.model, seq=step.seq, sequences=step.sequences, dtype=step.dtype, software=software)
    cluster = planner.cluster(step.device, step.gpus)
    plan = own_layout.judged(step.layout, job, cluster)
    assert plan.estimate.ok and abs(plan.device_rate / step.tokens_per_s - 1) < 0.13
    told = own_layout.published(job, cluster)
    assert told.step == step and told.plan.device_rate == pytest.approx(plan.device_rate)
    assert f"{told.ahead(plan) * -100:.2g} % less" in own_layout.compared(told, plan) or told.ahead(plan) > 0
    assert own_layout.published(replace(job, model=SMALL), cluster) is None


def test_seventy_billion_in_sixteen_bits_fit_as_nvidia_runs_them():
    job = planner.Job(model="llama3-70b", seq=8192, sequences=128)
    plan = own_layout.judged("tp=4,pp=4,cp=2,virtual=5,zero=1,microbatch=1", job, H100)
    assert 0.7 < plan.memory / plan.cluster.memory < 0.95


def test_torchtitans_selection_holds_what_was_measured():
    job = planner.Job(model="llama3-8b", seq=8192, sequences=64, recompute="selective", software="torchtitan")
    held = planner.peak_memory(job, planner.cluster("32xH200"), Layout(dp=32, zero=3))
    assert held / 2**30 == pytest.approx(47.96, rel=0.05)


@pytest.mark.parametrize("software", ["megatron-core", "torchtitan"])
def test_what_is_recomputed_costs_time_and_saves_memory(software):
    jobs = [replace(JOB, recompute=word, software=planner.SOFTWARE[software]) for word in ("none", "selective", "full")]
    found = [planner.estimate(job, H100, Layout(tp=2, dp=32, zero=1, microbatches=2)) for job in jobs]
    assert found[0].seconds < found[1].seconds < found[2].seconds
    assert found[0].memory > found[1].memory > found[2].memory


def test_adams_moments_in_the_servers_memory_save_what_was_measured():
    """Megatron-Bridge's guide to CPU offloading (2026): Qwen3-30B-A3B with tp 2, pp 2, ep 4 holds 47.2 GB, and 15.3 GB
    less with all moments offloaded, which fits 16 GPUs."""
    job, cluster = planner.Job(model="qwen3-30b-a3b", seq=4096, sequences=64), planner.cluster("16xH100")
    here = own_layout.judged("tp=2,pp=2,ep=4,zero=1", job, cluster)
    away = own_layout.judged("tp=2,pp=2,ep=4,zero=1,offload=moments", job, cluster)
    assert here.memory / GB == pytest.approx(47.2, rel=0.05)
    saved = (here.memory - away.memory) / GB
    assert saved == pytest.approx(15.3, rel=0.02)
    assert planner.offloaded(away.job, away.layout) / GB == pytest.approx(saved)
    added = {name: float(part - here.estimate.step.parts[name]) for name, part in away.estimate.step.parts.items()}
    assert added.pop("optimizer") == pytest.approx(saved * GB / 8 / constants.HOST_ADAM, rel=0.01)
    assert not any(added.values())
    assert "--optimizer-cpu-offload" in commands.command(away, "megatron")
    assert "optimizer.optimizer_cpu_offload=true" in commands.command(away, "bridge")
    for framework in ("torchtitan", "course"):
        with pytest.raises(ValueError, match="in the server's memory|keeps all state on the GPU|no mixtures"):
            commands.command(away, framework)


def test_sharded_state_in_the_servers_memory_leaves_none_on_the_device():
    job = planner.Job(model="llama3-8b", seq=8192, sequences=64, recompute="full", software="torchtitan")
    plan = own_layout.judged("zero=3,recompute=full,offload=state", job, planner.cluster("8xH100"))
    parts = planner.memory_by_part(plan.job, plan.layout)
    assert parts["state"] == 0 < parts["gathered weights"]
    assert "--training.enable_cpu_offload" in commands.command(plan, "torchtitan")
    assert "zero" not in planner.degrees(replace(plan, layout=Layout(tp=8)))  # on one data rank it shards nothing


@each_of("name, room", [("8xH100", 250), ("72xGB200", 240), ("Jean Zay A100:8", 64), ("8xB300", 0)])
def test_what_is_offloaded_must_fit_into_the_servers_own_memory(name, room):
    """405 billion parameters with 16 bytes each are 812 GB for each of 8 devices; no source knows a B300's server."""
    job = planner.Job(model="llama3-405b", seq=8192, sequences=576, software="torchtitan")
    cluster, where = planner.cluster(name), "zero=3,microbatch=1,recompute=full,offload=state"
    assert cluster.server_memory == room * GB
    if cluster.gpus > 8 or not room:
        assert own_layout.judged(where, job, cluster).estimate.ok
        return
    with pytest.raises(planner.NoPlan, match=f"offloads 811.7 GB of each device, for which its server has {room}.0"):
        own_layout.judged(where, job, cluster)
    with pytest.raises(planner.NoPlan, match=f"offloads 812 GB of each device, for which its server has {room} GB"):
        planner.choices(job, cluster)


def test_a_search_offloads_where_nothing_else_fits():
    job = planner.Job(model="llama3-70b", seq=8192, sequences=512)
    assert all(plan.job.offload for plan in planner.choices(job, planner.cluster("16xH100")).values())
    assert not next(iter(planner.choices(job, H100).values())).job.offload
    with pytest.raises(ValueError, match="leave offload out"):
        replace(job, software="nanotron", offload=True)


def test_layers_may_divide_with_embedding_and_head_among_them():
    job, where = planner.Job(model="llama3-405b", seq=8192, sequences=512), "tp=8,pp=8,cp=2,virtual=8,zero=1"
    plan = own_layout.judged(where, replace(job, dtype="fp8"), planner.cluster("1024xH100"))
    assert "--account-for-embedding-in-pipeline-split --account-for-loss" in commands.command(plan, "megatron")
    assert "--num-layers-per-virtual-pipeline-stage 2 " in commands.command(plan, "megatron")
    plain = replace(plan, job=job)
    assert "first_stage_less_layers 1" in commands.command(plain, "torchtitan")
    assert "account_for_loss_in_pipeline_split=true" in commands.command(plain, "bridge")
    assert [memory.stage_layers(126, 8, stage) for stage in range(8)] == [15, 16, 16, 16, 16, 16, 16, 15]


@each_of("gpus, near", [(72, 72), (144, 72), (256, 64), (128, 64)])
def test_a_rack_is_one_domain_or_is_left_in_part(gpus, near):
    assert planner.cluster("GB200", gpus).per_node == near


def test_blackwell_ultras_products_in_4_bits_are_three_times_as_quick_as_in_8():
    for name, times in (("GB200", 2), ("B200", 2), ("GB300", 3), ("B300", 3), ("H100", 0)):
        one = planner.cluster(name, 8)
        assert one.matmul_fp4 == pytest.approx(times * one.matmul_fp8), name


def test_one_graph_of_a_step_launches_nothing_and_hides_the_experts_messages():
    job = planner.Job(model="qwen3-235b-a22b", seq=4096, sequences=512, dtype="fp8", software="megatron-bridge")
    many, where = planner.cluster("64xGB200"), Layout(dp=64, ep=64, zero=1, microbatches=8)
    graph = planner.step_time(job, many, where)
    plain = planner.step_time(replace(job, software="megatron-core"), many, where)
    assert float(graph.launch) == pytest.approx(0, abs=1e-9) and float(plain.launch) > 0
    assert float(graph.ep) == pytest.approx(float(plain.ep) * 32 / many.processors)
    alone = planner.step_time(replace(job, sequences=64), many, replace(where, microbatches=1))
    assert float(alone.ep) == pytest.approx(float(plain.ep) / 8)  # no other micro-batch to hide behind
    assert graph.seconds < plain.seconds


def test_fewer_bits_are_quicker_where_the_device_has_them():
    where, many = Layout(tp=2, dp=32, microbatches=4), planner.cluster("64xGB200")
    seconds = [planner.step_time(replace(JOB, dtype=word), many, where).seconds for word in ("fp4", "fp8", "bf16")]
    assert seconds == sorted(seconds)
    with pytest.raises(ValueError, match="no measured fp4 rate"):
        planner.step_time(replace(JOB, dtype="fp4"), H100, where)


def test_context_ranks_cost_something_and_more_across_servers():
    alone, near, far = (
        planner.step_time(planner.Job(model="llama3-8b", seq=8192, sequences=64), H100, where).seconds
        for where in (Layout(dp=64), Layout(cp=8, dp=8, microbatches=8), Layout(cp=32, dp=2, microbatches=32))
    )
    assert 1.02 * alone < near < 0.9 * far


def test_a_search_replicates_where_the_software_does():
    with pytest.raises(ValueError, match="No software 'jax'"):
        planner.Job(model=SMALL, seq=2048, sequences=64, software="jax")
    sharding = replace(JOB, software=planner.SOFTWARE["torchtitan"])
    ours, titans = (planner.layouts(job, H100) for job in (JOB, sharding))
    assert np.max(ours.replicas) == 1 and set(np.unique(titans.replicas)) > {1, 8}
    where = planner.one_of(titans, int(np.argmax(titans.replicas == 8)))
    held = [planner.peak_memory(sharding, H100, replace(where, replicas=many)) for many in (1, 8)]
    assert held[0] < held[1]
