"""What two places of the course can compute, they compute alike: over drawn jobs and clusters, and for the running
plan.

Each test compares functions, tables and worked answers that a learner meets in different chapters.
"""

import ast
import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch05.exercises import numbers as ch05
from course_chapters.ch06.exercises import numbers as ch06
from course_chapters.ch07.exercises import numbers as ch07
from course_chapters.ch08.exercises import numbers as ch08
from course_chapters.ch08.exercises.judges.predict_all_shards import talking_seconds
from course_chapters.ch08.exercises.predict_all_shards import CARD
from course_chapters.ch09.exercises import numbers as ch09
from course_chapters.ch10.exercises import numbers as ch10
from course_chapters.ch11.exercises import numbers as ch11
from course_chapters.ch12.exercises import numbers as ch12
from course_chapters.ch13.exercises import numbers as ch13
from course_chapters.ch13.hidden import bounds
from course_chapters.ch13.regime import GRADIENT_BYTES, regime
from course_chapters.ch14.exercises import numbers as ch14
from course_chapters.ch16.exercises import numbers as ch16
from course_chapters.ch17 import debates, mechanisms, rubric
from course_chapters.ch17.exercises import numbers as ch17
from course_lib.cluster import collectives
from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import compute, facts, memory, running_plan, scaling_laws
from course_lib.estimate.memory import Layout
from course_lib.estimate.running_plan import EXACT, GPUS, PARAMS, RING
from course_lib.estimate.units import BILLION, DAY, GB, TRILLION, bytes_text, percent_text
from course_lib.folders import ROOT
from course_lib.operate import capstone, serving
from course_lib.parallel import planner
from course_lib.parallel.context.costs import gather_traffic, ring_traffic, tokens_to_hide
from course_lib.parallel.mesh import Mesh, axis_seconds
from course_lib.parallel.mesh.plans import plan
from course_lib.parallel.mesh.wires import Network, NetworkLevel
from course_lib.parallel.planner import Cluster, Wire
from course_lib.parallel.planner.traffic import rank_params
from course_lib.parallel.planner.wires import gather_seconds, reduce_seconds, start_seconds
from course_lib.parallel.sharding import bytes_per_param_sent
from course_lib.parallel.sharding.groups import Wires, group_of
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer
from tests.tables import each_alone

powers = lambda most: st.integers(0, most).map(lambda power: 2**power)  # noqa: E731
MODEL = memory.shape("llama3-70b")
H100 = planner.cluster("64xH100")


@cache
def worked(chapter: str, function: str):
    """A function as the chapter's worked answer defines it."""
    (path,) = (ROOT / "solutions").glob(f"{chapter}_*/{chapter}_*.ipynb")
    cells = ("".join(each["source"]) for each in json.loads(path.read_text(encoding="utf-8"))["cells"])
    (code,) = (cell for cell in cells if f"def {function}(" in cell and "BEGIN SOLUTION" in cell)
    found = {"math": math}
    exec("from course_lib import params\n" + code, found)
    return found[function]


# --- the wire of a group


def wires_of(per_node: int, inside: float, across: float, gpus: int) -> tuple[Cluster, Network, Wires]:
    """The same two levels of wires without latency, as the planner, a mesh and sharding describe them."""
    near, far = Wire(0.0, inside), Wire(0.0, across)
    levels = NetworkLevel("server", per_node, inside, "link"), NetworkLevel("network", math.inf, across)
    return (
        replace(H100, gpus=gpus, per_node=per_node, inside=near, across=far),
        Network("drawn", "drawn", levels),
        Wires(per_node=per_node, fast=inside, slow=across),
    )


@given(powers(4), powers(4), powers(3), powers(3), st.sampled_from((150, 450, 900)), st.sampled_from((12.5, 50, 100)))
def test_a_ring_takes_as_long_for_the_planner_as_on_a_mesh(size, stride, outer, per_node, inside, across):
    gpus = size * stride * outer
    cluster, network, _ = wires_of(per_node, inside * GB, across * GB, gpus)
    mesh = Mesh({"outer": outer, "ring": size, "within": stride})
    sent = 1e9 * (size - 1) / size
    assert axis_seconds(mesh, "ring", sent, network) == pytest.approx(gather_seconds(1e9, size, stride, cluster))


@given(powers(6), powers(6), powers(4), st.sampled_from((150, 450, 900)), st.sampled_from((12.5, 50, 100)))
def test_groups_of_sharding_use_the_planners_wires(group, copies, per_node, inside, across):
    cluster, _, wires = wires_of(per_node, inside * GB, across * GB, group * copies)
    found = group_of(7e9, group * copies, group, 4096, 4e14, wires)
    rings = 3 * gather_seconds(14e9, group, 1, cluster) + reduce_seconds(14e9 / group, copies, group, cluster)
    assert found.talking == pytest.approx(float(rings))


@given(powers(6), powers(6), powers(3), st.sampled_from((1e-6, 5e-6)), st.sampled_from((5e-6, 2e-5)))
def test_latency_is_that_of_a_plain_ring_in_chapter_08_and_of_a_librarys_tree_in_the_planner(
    group, copies, per_node, inside, across
):
    cluster, _, wires = wires_of(per_node, 450 * GB, 50 * GB, group * copies)
    cluster = replace(cluster, inside=Wire(inside, 450 * GB), across=Wire(across, 50 * GB))
    late = replace(wires, fast_latency=inside, slow_latency=across)
    quick, slow = (group_of(7e9, group * copies, group, 4096, 4e14, each, units=32) for each in (wires, late))
    alpha = {True: inside, False: across}
    one = collectives.ring_half_cost(0, group, alpha[group <= per_node], 1).seconds
    other = collectives.ring_cost(0, copies, alpha[group * copies <= per_node], 1).seconds
    assert slow.talking - quick.talking == pytest.approx(32 * (3 * one + other))
    if group <= per_node:
        start = start_seconds(group, group, cluster)
        assert start == pytest.approx(collectives.tree_half_cost(0, group, inside, 1).seconds) and start <= one


@given(st.sampled_from((1, 7, 70, 405)), powers(5), powers(3), st.sampled_from((25, 50, 100)))
def test_the_best_group_of_chapter_08_is_the_planners(billions, servers, per_node, across):
    ranks, params = servers * per_node, billions * BILLION
    cluster, _, _ = wires_of(per_node, 450 * GB, across * GB, ranks)

    def seconds(group: int) -> float:
        rings = 3 * gather_seconds(2 * params, group, 1, cluster)
        return float(rings + reduce_seconds(2 * params / group, ranks // group, group, cluster))

    best = worked("08", "best_group")(params, ranks, 80 * GB, per_node, 450 * GB, across * GB, 0.0)
    fits = [2**power for power in range(ranks.bit_length()) if 16 * params / 2**power <= 80 * GB]
    assert (best is None) == (not fits)
    assert best is None or seconds(best) == pytest.approx(min(map(seconds, fits)), rel=1e-9)


def test_the_table_of_groups_in_chapter_13_takes_the_time_of_the_planners_wires():
    cluster, _, _ = wires_of(8, float(ch13.H100.link_one_way), float(ch13.H100.network_one_way), 16_384)
    for each in ch13.hsdp_groups():
        params = float(ch13.LARGE.params)
        rings = 3 * gather_seconds(2 * params, each.ranks, 1, cluster)
        rings += reduce_seconds(2 * params / each.ranks, 16_384 // each.ranks, each.ranks, cluster)
        assert each.talking == pytest.approx(float(rings))


@given(powers(14), st.sampled_from((25, 50, 100)), st.sampled_from((1, 7, 70, 405)))
def test_the_load_on_bandwidth_takes_the_time_of_the_planners_wires(gpus, across, billions):
    cluster, _, _ = wires_of(8, 450 * GB, across * GB, gpus)
    one = regime(
        billions * BILLION,
        15e12,
        devices=gpus,
        device_memory=80 * GB,
        flops_per_s=1e15,
        link=450 * GB,
        adapter=across * GB,
        deadline_s=DAY,
        target_step_s=1.0,
    )
    assert one.bandwidth == pytest.approx(float(reduce_seconds(GRADIENT_BYTES * billions * BILLION, gpus, 1, cluster)))


def test_one_model_over_all_gpus_sends_at_the_rate_of_the_planners_wires():
    asked = {**CARD.params}
    cluster, _, _ = wires_of(asked["per_server"], asked["link"], asked["bandwidth"], asked["gpus"])
    want = 3 * gather_seconds(2 * asked["params"], asked["gpus"], 1, cluster)
    assert talking_seconds(asked) == pytest.approx(float(want))


# --- bytes by axis

layouts = st.builds(
    lambda tp, cp, pp, dp, micro, count, recompute: (
        Layout(tp=tp, sp=tp > 1, cp=cp, pp=pp, dp=dp, microbatches=count),
        micro,
        recompute,
    ),
    *map(powers, (3, 3, 2, 3, 1, 3)),
    st.sampled_from(("none", "full")),
)


@given(layouts)
def test_a_step_sends_what_the_exercises_rule_says(drawn):
    layout, micro, recompute = drawn
    job = planner.Job(
        model="llama3-70b", seq=8192, sequences=micro * layout.dp * layout.microbatches, recompute=recompute
    )
    sent = planner.traffic(job, layout, gradient=2)
    table = {"layers": MODEL.layers, "hidden": MODEL.hidden, "kv": MODEL.kv_width, "length": 8192}
    table["parameters"] = float(rank_params(job, layout)[0]) * layout.tp * layout.pp
    sizes = {axis: getattr(layout, axis) for axis in ("tp", "cp", "pp", "dp")}
    given_ = {**sizes, "micro": micro, "micro_batches": layout.microbatches, "recompute": recompute == "full"}
    rule = worked("13", "communication_seconds")(table, given_, dict.fromkeys(sizes, 1.0))
    for axis in ("tp", "cp", "dp"):
        assert float(sent[axis]) == pytest.approx(rule[axis]), axis


@given(powers(5), st.booleans(), st.booleans(), st.sampled_from(("none", "full")))
def test_tensor_parallel_bytes_are_those_of_a_layer_with_and_without_repeated_gathers(tp, sp, regather, recompute):
    software = planner.Software(regather=regather)
    job = planner.Job(model="llama3-70b", seq=8192, sequences=1, recompute=recompute, software=software)
    layer = tp_bytes_per_layer(
        8192, MODEL.hidden, tp, sequence_parallel=sp and tp > 1, regather=regather, recompute=recompute
    )
    assert float(planner.traffic(job, Layout(tp=tp, sp=sp))["tp"]) == pytest.approx(MODEL.layers * layer)


@given(powers(4), powers(5), powers(4).map(lambda times: 8192 * times))
def test_context_parallel_bytes_are_the_same_around_a_ring_gathered_and_planned(cp, tp, tokens):
    width = max(MODEL.kv_heads / tp, 1) * MODEL.head_dim
    ring, gathered = ring_traffic(tokens, width, 1, cp).nbytes, gather_traffic(tokens, width, 1, cp).nbytes
    planned = planner.traffic(planner.Job(model="llama3-70b", seq=tokens, sequences=1), Layout(tp=tp, cp=cp))["cp"]
    assert ring == gathered == pytest.approx(float(planned) / MODEL.layers)
    if tp == ch11.TP:
        assert ch11.gather_bytes(tokens, cp) == pytest.approx(ring)


@given(st.integers(0, 3), powers(3), powers(4), st.sampled_from((2.0, 4.0)))
def test_data_parallel_bytes_are_those_of_the_table_of_stages(zero, dp, count, gradient):
    job, layout = (
        planner.Job(model="llama3-8b", seq=2048, sequences=dp * count),
        Layout(dp=dp, zero=zero, microbatches=count),
    )
    each = bytes_per_param_sent(zero, reduce=gradient) * (count if zero == 3 else 1)
    sent = float(planner.traffic(job, layout, gradient=gradient)["dp"])
    assert sent == pytest.approx(each * float(rank_params(job, layout)[0]) * (dp - 1) / dp)


def test_the_table_of_parallelisms_sends_what_its_exercise_says():
    gpus, rows = 8, {row.name: row for row in capstone.parallelisms()}
    dense = float(rank_params(planner.Job(model="llama3-70b", seq=8192, sequences=gpus), Layout(dp=gpus))[0])
    model = {"layers": MODEL.layers, "hidden": MODEL.hidden, "kv": MODEL.kv_width, "tokens": 8192 * gpus}
    rule = worked("17", "sent")({**model, "parameters": dense}, gpus)
    assert {name: rows[name.upper()].sent for name in ("dp", "fsdp", "tp")} == pytest.approx(
        {name: rule[name] for name in ("dp", "fsdp", "tp")}
    )
    # and the all-reduce of the gradients, which context ranks need as replicas do
    alone = rows["CP"].sent - rows["DP"].sent
    assert alone == pytest.approx(rule["cp"] - rule["dp"])


def test_ledger_and_plans_show_the_same_bytes_of_tensor_parallelism():
    one = MODEL.layers * tp_bytes_per_layer(running_plan.SEQ, MODEL.hidden, 8)
    assert ch06.NUMBERS["ledger_tp"]() == bytes_text(one)
    assert ch13.planned().sent["tp"] == pytest.approx(one / running_plan.LAYOUT["pp"] * running_plan.MICROBATCHES)
    moving = ch13.planned().sent["tp"] / ch13.planned().cluster.inside.bandwidth
    assert moving < ch13.planned().talking["tp"] < 1.1 * moving  # the rest is latency


@pytest.mark.parametrize("axis", ["tp", "ep"])
def test_recomputation_repeats_the_messages_that_the_planner_repeats(axis):
    cell = mechanisms.conflict("recomputation", {"tp": "tensor", "ep": "expert"}[axis])
    layout = Layout(tp=8, sp=True) if axis == "tp" else Layout(dp=8, ep=8)
    model = running_plan.MODEL if axis == "tp" else "mixtral-8x7b"
    jobs = [planner.Job(model=model, seq=8192, sequences=8, recompute=how) for how in ("none", "full")]
    plain, again = (float(planner.traffic(job, layout)[axis]) for job in jobs)
    assert cell.times == pytest.approx(again / plain)


def test_recomputation_turns_a_ring_again_and_gathers_no_more():
    assert mechanisms.conflict("recomputation", "context").times == pytest.approx(4 / 3)
    layout = Layout(cp=16)
    jobs = [planner.Job(model=running_plan.MODEL, seq=8192, sequences=1, recompute=how) for how in ("none", "full")]
    assert planner.traffic(jobs[0], layout)["cp"] == planner.traffic(jobs[1], layout)["cp"]


# --- the running plan, from one record


def test_every_chapter_counts_the_plans_state_by_one_convention():
    each = memory.convention(running_plan.CONVENTION).bytes_per_param
    assert each == running_plan.STATE_BYTES == ch12.STATE == ch05.PLAN_CHOICES[1][1]
    round_, exact = each * PARAMS, each * EXACT
    assert ch05.NUMBERS["plan_state"]() == ch08.NUMBERS["share"]() == bytes_text(round_ / GPUS)
    assert ch07.NUMBERS["plan_state"]() == bytes_text(round_)
    assert exact == ch09.STATE and exact / GPUS == ch11.STATE
    assert ch10.NUMBERS["state"]() == ch17.NUMBERS["state"]() == bytes_text(exact)
    assert ch12.NUMBERS["plan_dense"]() == bytes_text(exact / GPUS)
    assert ch13.only_sharded().state == pytest.approx(exact / GPUS, rel=1e-3)
    assert float(ch10.plan_peak().state) == pytest.approx(ch13.planned().state)


def test_the_plan_peaks_at_the_same_bytes_in_every_chapter():
    peaks = max(ch10.plan_peaks()), ch13.planned().memory, ch17.of("good").memory
    assert peaks == pytest.approx((peaks[0],) * 3)
    page = {
        line: follows for line, _, follows in capstone.budget_page(rubric.exemplars()["good"].plan, capstone.COURSE)
    }
    assert bytes_text(peaks[0]) in page["parallelism"]
    assert ch10.plan_slack() == pytest.approx(ch13.planned().held["buffers"])


def test_the_plans_layout_and_job_are_one_record():
    one = {name: running_plan.LAYOUT[name] for name in ("tp", "pp", "dp")}
    assert (
        {name: getattr(ch10.PLAN, name) for name in one}
        == one
        == {name: getattr(ch13.planned().layout, name) for name in one}
    )
    assert {name: rubric.exemplars()["good"].plan[name] for name in one} == one
    task, job = capstone.COURSE, ch13.planned().job
    assert (task.model, task.gpus, task.seq, task.sequences) == (running_plan.MODEL, GPUS, job.seq, job.sequences)
    assert ch10.PLAN.microbatches == ch13.planned().microbatches == running_plan.MICROBATCHES
    assert memory.count_params(running_plan.MODEL) == EXACT


def test_the_plan_saves_the_same_checkpoint_in_every_chapter():
    whole = bytes_text(memory.convention(running_plan.CONVENTION).checkpoint * EXACT)
    page = {line: choice for line, choice, _ in capstone.budget_page(rubric.exemplars()["good"].plan, capstone.COURSE)}
    assert ch14.NUMBERS["state"]() == whole and page["checkpoint"].startswith(whole)
    run = facts.failure_log("Llama 3.1 405B")
    assert 405e9 * running_plan.CHECKPOINT_BYTES / run.storage == pytest.approx(ch14.FAST)


def test_one_all_reduce_of_all_gradients_takes_one_time():
    assert ch06.NUMBERS["measured_seconds"]() == ch07.NUMBERS["plan_talk"]()
    assert ch07.plan_step().talk == pytest.approx(
        collectives.ring_cost(memory.weights_bytes(PARAMS, "bf16"), GPUS, 0.0, RING).seconds
    )


def test_what_replicas_exchange_has_gradients_and_weights_in_it():
    one = ch13.planned()
    gradients = one.job.software.grad_bytes / (2 + one.job.software.grad_bytes) * one.sent["dp"]
    assert ch13.NUMBERS["plan_gradients"]() == bytes_text(gradients)
    said = next(each.number for each in debates.DEBATES if "replicas synchronize" in each.number)
    assert f"{bytes_text(one.sent['dp'])} of gradients and updated weights" in said


# --- utilization, peaks, times


@settings(max_examples=20)
@given(powers(3), powers(2), powers(2), st.sampled_from(("llama3-8b", "llama3-70b", "mixtral-8x7b")))
def test_utilization_is_chapter_01s_everywhere(tp, pp, dp, model):
    gpus, sequences = 64, 64 * dp
    one = plan(model, gpus, tp=tp, pp=pp, sequences=sequences, seq=4096)
    found = planner.estimate(one.job, one.cluster, one.layout)
    used = facts.model(model).active_params or facts.model(model).params
    rate = one.tokens / one.seconds
    want = compute.mfu(used, rate, gpus, one.cluster.peak)
    assert (one.mfu, float(found.mfu)) == pytest.approx((want, want), rel=1e-3)
    scores = compute.attention_flops_per_token(one.job.shape.layers, one.job.shape.query_width, 4096)
    with_attention = compute.mfu(used, rate, gpus, one.cluster.peak, scores)
    assert (one.attention_mfu, float(found.attention_mfu)) == pytest.approx((with_attention,) * 2, rel=1e-3)
    task = {"sequences": sequences, "seq": 4096, "tokens": 1e12, "parameters": used, "usd_per_hour": 2.0, "gpus": gpus}
    task |= {"peak": one.cluster.peak, "per_server": 8, "memory": 1e15, "days": 1e9, "usd": 1e15}
    sizes = {axis: one.mesh.sizes[axis] for axis in ("tp", "cp", "pp", "dp")}
    drawn = {**sizes, "gpus": gpus, "seconds": one.seconds, "goodput": 1.0, "memory": 0.0, "days": 1.0, "usd": 1.0}
    drawn |= {"micro": 1, "micro_batches": one.microbatches, "reasons": dict.fromkeys(sizes, "memory")}
    for least, fails in ((want * 0.998, False), (want * 1.002, True)):
        assert ("waste" in worked("17", "failing")(drawn, {**task, "least_mfu": least})) == fails


def test_the_plan_reaches_one_utilization():
    assert ch13.planned().mfu == pytest.approx(ch17.of("good").mfu)
    rate = ch13.planned().tokens / ch13.planned().seconds
    assert ch13.NUMBERS["plan_mfu"]() == percent_text(compute.mfu(EXACT, rate, GPUS, ch13.planned().cluster.peak))


def test_chapter_01_defines_the_utilization_that_every_plan_shows():
    (path,) = (ROOT / "solutions").glob("01_*/01_*.ipynb")
    prose = "".join("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
    (formula,) = re.findall(r"\\mathrm\{MFU\}=.*?\$\$", prose, flags=re.S)
    assert "6\\Psi\\cdot" in formula and "Lhs" not in formula


def test_a_device_has_one_peak():
    for name, one in facts.ceilings().items():
        if name in facts.devices():
            assert one.peak == facts.device(name).dense_flops, name


def test_the_fewest_gpus_are_those_of_chapter_01():
    printed = float(facts.device(capstone.COURSE.hardware().device).memory)
    fewest = memory.fewest_devices(running_plan.STATE_BYTES * EXACT, printed)
    assert ch17.NUMBERS["state_gpus"]() == f"{fewest} GPUs"


def test_a_decode_step_takes_as_long_in_the_table_as_in_the_prose():
    from course_chapters.ch16.plots import phases_table

    rows = {line.split("|")[1].strip(): line.split("|")[-2].strip() for line in phases_table().data.splitlines()[2:]}
    for batch in (1, 64, 256):
        (shown,) = (text for name, text in rows.items() if f"batch of {batch}," in name)
        want = serving.decode_seconds(ch16.SMALL, batch, ch16.PROMPT)
        assert float(shown.split()[0]) * 1e-3 == pytest.approx(want, rel=0.005)


# --- tokens per parameter


@given(st.floats(19, 25))
def test_the_corrected_law_agrees_with_the_rule_of_twenty_and_the_printed_one_does_not(exponent):
    flops = 10.0**exponent
    params, tokens = scaling_laws.chinchilla_law().optimum(flops)
    assert tokens / params == pytest.approx(20, rel=0.3)
    assert params == pytest.approx(scaling_laws.split(flops)[0], rel=0.2)
    wide = scaling_laws.chinchilla_law("printed").optimum(10.0 ** max(exponent, 23))
    assert wide[1] / wide[0] > 70


def test_every_use_of_the_law_is_the_corrected_fit():
    law = scaling_laws.chinchilla_law()
    assert ch17.NUMBERS["tokens_loss"]() == f"{law.loss(PARAMS, capstone.COURSE.tokens):.3f}"
    from course_chapters.ch16.plots import lifetime_table

    unserved = lifetime_table().data.splitlines()[2].split("|")
    choice = serving.cheapest_model(law, ch16.LOSS, 0.0)
    assert float(unserved[4]) == pytest.approx(choice.train_tokens / choice.params, abs=0.5)
    assert float(unserved[4]) == pytest.approx(20, rel=0.3)
    best, _ = law.optimum(6 * 8e9 * 15e12)
    assert f"with {best / BILLION:.0f}B" in next(each.number for each in debates.DEBATES if "Hoffmann" in each.number)


# --- one count of parameters on a rank


@given(powers(6).filter(lambda tp: tp <= 64))
def test_keys_and_values_are_whole_heads_in_weights_and_activations(tp):
    halved = MODEL.hidden * 2 * MODEL.head_dim * max(MODEL.kv_heads / tp, 1)
    rest = (MODEL.hidden * (2 * MODEL.query_width + 3 * MODEL.ffn)) / tp + 2 * MODEL.hidden
    assert memory.layer_params(MODEL, tp) == pytest.approx(halved + rest)
    kept = {
        term.name: float(np.asarray(term.elements) / np.asarray(term.ways))
        for term in memory.layer_terms(MODEL, 1, 64, Layout(tp=tp), kernels="flash", dropout=False)
    }
    assert kept["attention.k"] == pytest.approx(64 * max(MODEL.kv_heads / tp, 1) * MODEL.head_dim)


@given(powers(3))
def test_a_router_is_whole_on_every_tensor_parallel_rank(tp):
    one = memory.shape("mixtral-8x7b")
    split = one.hidden * 2 * one.query_width / tp + memory.shapes.expert_params(one, tp)
    whole = 2 * one.hidden + one.hidden * one.experts + 2 * one.hidden * one.kv_width_on(tp)
    assert memory.layer_params(one, tp) == pytest.approx(split + whole)


# --- written once

# what pages show; a judge counts for itself, and a card states its own numbers
SHOWN = sorted(
    path
    for folder in ("course_lib", "course_chapters", "course_app", "course_runs")
    for path in (ROOT / folder).rglob("*.py")
    if "judges" not in path.parts and (path.parent.name != "exercises" or path.name == "numbers.py")
)
HOMES = {  # the file that may write it
    "share of a ring": "cluster/collectives.py",
    "six FLOPs": "estimate/compute.py",
    "bytes of state": "estimate/memory/recipes.py",
    "the plan's layout": "estimate/running_plan.py",
    "the plan's number": "estimate/running_plan.py",
}
RECORD = {
    name: getattr(running_plan, name) for name in ("PARAMS", "TOKENS", "GPUS", "SEQ", "BATCH", "SEQUENCES", "MFU")
}


def names_in(node: ast.AST) -> str:
    return " ".join(
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    )


def factors(node: ast.AST) -> list[ast.AST]:
    """The factors of a product; what it is divided by is left out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return factors(node.left) + factors(node.right)
    return factors(node.left) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else [node]


def constant(node: ast.AST) -> float | None:
    """The number that an expression of numbers and powers of ten (BILLION) is."""
    try:
        return float(eval(compile(ast.Expression(node), "", "eval"), {}, {"BILLION": BILLION, "TRILLION": TRILLION}))
    except (NameError, TypeError, ValueError, AttributeError):
        return None


def formulas_in(tree: ast.AST) -> set[str]:
    """Which of the formulas and numbers that have a home are written in this code."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            parts = factors(node)
            if isinstance(node.op, ast.Div):
                less = [ast.dump(part.left) for part in parts if isinstance(part, ast.BinOp)
                        and isinstance(part.op, ast.Sub) and constant(part.right) == 1]  # fmt: skip
                found |= {"share of a ring"} if ast.dump(node.right) in less else set()
            of_parameters = any(re.search("param|BILLION|EXACT", names_in(part), re.I) for part in parts)
            numbers = {part.value for part in parts if isinstance(part, ast.Constant)} if of_parameters else set()
            found |= {"six FLOPs"} if 6 in numbers else set()
            found |= {"bytes of state"} if numbers & {12, 16, 18} else set()
        named: dict[str, ast.AST] = {}
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            named = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        if isinstance(node, ast.Call):
            named = {each.arg: each.value for each in node.keywords if each.arg}
        degrees = {name: constant(value) for name, value in named.items()}
        same = degrees.get("tp") == running_plan.LAYOUT["tp"] and degrees.get("pp") == running_plan.LAYOUT["pp"]
        found |= {"the plan's layout"} if "model" not in named and (same or degrees.get("dp") == GPUS) else set()
    return found


def numbers_in(tree: ast.Module) -> set[str]:
    """Constants of a module that repeat a number of the record under its name."""
    pairs = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs += zip(target.elts, node.value.elts, strict=False) if both else [(target, node.value)]
    return {
        name.id for name, value in pairs if isinstance(name, ast.Name) and constant(value) == RECORD.get(name.id, "")
    }


def test_a_formula_and_a_number_of_the_plan_are_written_in_one_place():
    again = []
    for path in SHOWN:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = formulas_in(tree) | ({"the plan's number"} if numbers_in(tree) else set())
        again += [(str(path.relative_to(ROOT)), each) for each in found if not path.as_posix().endswith(HOMES[each])]
    assert not again


@each_alone(
    "code, what",
    ("2 * (gpus - 1) / gpus * nbytes / rate", "share of a ring"),
    ("each.nbytes * (one.ranks - 1) / one.ranks", "share of a ring"),
    ("6 * PARAMS * tokens / rate", "six FLOPs"),
    ("16 * one.params / gpus", "bytes of state"),
    ("405 * BILLION * 12 / 8", "bytes of state"),
    ("Layout(tp=8, pp=4, dp=2)", "the plan's layout"),
    ('{"dp": 64, "zero": 3}', "the plan's layout"),
)
def test_a_second_place_would_be_found(code, what):
    assert formulas_in(ast.parse(code)) == {what}


@pytest.mark.parametrize("code", ["SEQ, TP = 8192, 8", "PARAMS = 70 * BILLION", "BATCH = 4 * 2**20", "MFU = 0.4"])
def test_a_number_typed_again_would_be_found(code):
    assert numbers_in(ast.parse(code)) and not numbers_in(ast.parse("SEQ, MFU = 4096, 0.5"))


def test_a_chapter_computes_a_quantity_in_its_numbers_or_its_pictures_and_not_in_both():
    """One name in a chapter's numbers and beside its pictures is one quantity in two ways, unless one of them draws."""
    for path in sorted(ROOT.glob("course_chapters/ch*/exercises/numbers.py")):
        mine = computing(path)
        for other in sorted(path.parent.parent.glob("*.py")):
            assert not mine & computing(other), other


def computing(path: Path) -> set[str]:
    """Functions of a module that return something else than a table or a picture."""
    functions = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef))
    drawn = {"Markdown", "Picture", "Sheet", "Explorer", "None"}
    return {each.name for each in functions if each.returns is None or ast.unparse(each.returns) not in drawn}


# --- conditions


def tables_with_conditions() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each table with words that the line below it must have."""
    from course_chapters.ch02 import tables as tables02
    from course_chapters.ch16 import plots
    from course_chapters.ch17 import tables as tables17

    requests = f"prompts of {ch16.PROMPT:,} tokens, replies of {ch16.REPLY}"
    return {
        "sharding and checkpointing": (tables02.sharding_and_checkpointing().data, ("70.55 billion", "round 70")),
        "layouts": (plots.layouts_table().data, (requests,)),
        "pools": (plots.pools_table().data, ("20 requests/s", "25 ms between tokens", "8B")),
        "serving plan": (plots.plan_table().data, (requests, f"{GPUS} H100s", "2.00 a GPU-hour")),
        "parallelisms": (tables17.parallelisms().data, ("llama3-70b", "in 16 bits", "18 bytes per parameter", "8,192")),
        "conflicts": (tables17.conflicts().data, ("llama3-70b", "64 H100s", "in 16 bits")),
    }


def test_tables_print_what_they_assume():
    for name, (shown, words) in tables_with_conditions().items():
        below = shown.splitlines()[-1]
        assert below.startswith("*") and below.endswith("*"), name
        assert all(word in below for word in words), (name, below)


# --- when messages are hidden


@pytest.mark.parametrize("bandwidth", [450e9, 50e9])
def test_the_inequalities_of_chapter_13_are_those_of_the_chapters_before(bandwidth):
    rate, model, many = ch06.MFU * float(ch13.H100.dense_flops), facts.model("llama3-70b"), 10**6
    bound = bounds(model, rate / bandwidth)
    assert bound["data"] == pytest.approx(ch06.break_even_tokens(bandwidth, many), rel=1e-5)
    assert bound["context"] == pytest.approx(tokens_to_hide(model.heads, model.kv_heads, rate, bandwidth, visible=0.5))
    assert bound["expert"] == pytest.approx(ch12.wire_width(bandwidth))
    gather = ring_cost(2 * model.params, many, 0.0, bandwidth).seconds / 2
    assert gather == pytest.approx(2 * model.params * bound["sharded"] / rate, rel=1e-5)
    sums = 2 * ring_cost(2 * model.hidden, many, 0.0, bandwidth).seconds  # of one token in one layer
    assert sums == pytest.approx(2 * model.params / model.layers / bound["tensor"] / rate, rel=1e-5)
    assert 2 * model.hidden / bandwidth == pytest.approx(2 * model.params / bound["pipeline"] / rate)
