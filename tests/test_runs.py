"""Real runs without processes: layouts, predictions, evidence, gates, budgets, the tour's order, and what a look
says."""

import ast
import errno
import json
import math
import os
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from course_lib.cluster import intervals
from course_lib.estimate import memory
from course_lib.estimate.facts import device
from course_lib.messages import Trouble
from course_runs import budget as money
from course_runs import (
    collectives,
    cores,
    evidence,
    evidence_checks,
    failure_drill,
    layouts,
    parity,
    predict,
    prediction_error,
    preflight,
    sizes,
    store,
    torch_choice,
    torchrun,
    tour,
    tracing,
    train,
    verify,
    worker_start,
)
from course_runs.learning_rate import FLOOR, rate_at
from course_runs.step_breakdown import Clock
from tests.conftest import printed
from tests.tables import each_of

RATES = predict.Rates(flops=1e11, memory=1e10, alpha=1e-4, wire=1e9)


def job(text="single", ranks=1, batch=16, name="1m", **more):
    config = sizes.size(name).config(checkpointing=more.pop("checkpointing", "none"))
    layout = layouts.parse(text, ranks, **{key: more.pop(key) for key in ("schedule", "micro_batches") if key in more})
    return predict.Job(config=config, layout=layout, batch=batch, **more)


# --- sizes and layouts


@each_of(
    "name, most",
    [("1m", 0.15), ("10m", 0.1), ("60m", 0.1), ("125m", 0.1), ("350m", 0.1), ("1b", 0.1), ("3b", 0.1), ("7b", 0.1)],
)
def test_a_size_has_about_as_many_parameters_as_its_name_says(name, most):
    said = float(name[:-1]) * {"m": 1e6, "b": 1e9}[name[-1]]
    assert abs(memory.count_params(sizes.size(name).config()) / said - 1) < most


@each_of(
    "text, ranks, degrees",
    ("single", 1, (1, 1, 1, 1, 1, False)),
    ("ddp", 8, (1, 8, 1, 1, 1, False)),
    ("fsdp", 4, (1, 1, 4, 1, 1, False)),
    ("ddp=2,fsdp=4", 8, (1, 2, 4, 1, 1, False)),
    ("fsdp,tp=2", 8, (1, 1, 4, 1, 2, False)),
    ("pp=2,fsdp=2,tp=2", 8, (2, 1, 2, 1, 2, False)),
    ("tp=1", 1, (1, 1, 1, 1, 1, False)),
    ("fsdp=2,cp,tp=2,sp", 8, (1, 1, 2, 2, 2, True)),
)
def test_a_layout_is_read_and_takes_the_ranks_that_are_left(text, ranks, degrees):
    layout = layouts.parse(text, ranks)
    assert (layout.pp, layout.ddp, layout.fsdp, layout.cp, layout.tp, layout.sp) == degrees
    assert layout.ranks == ranks
    assert layouts.parse(layout.name, ranks) == layout


@each_of(
    "text, ranks, words",
    ("tp=3", 8, "makes 3 ranks, and 8 are running"),
    ("zero", 2, "no degree of parallelism"),
    ("tp=2,tp=2", 4, "names tp twice"),
    ("ddp,fsdp", 4, "leaves ddp and fsdp open"),
    ("tp=0", 1, "no degree"),
    ("ddp=2", 1, "1 is running"),
    ("tp=-2", 2, "no degree"),
    ("", 2, "no degree"),
    ("ddp=2,sp", 2, "this layout has none"),
    ("sp=2", 2, "no degree"),
)
def test_a_layout_that_does_not_multiply_out_is_refused_with_what_would(text, ranks, words):
    with pytest.raises(Trouble, match=words) as refused:
        layouts.parse(text, ranks)
    assert refused.value.way_out


@each_of(
    "text, ranks, batch, words",
    ("tp=8", 8, 16, "key-value heads"),
    ("ddp=3", 3, 16, "sequences of a step"),
    ("pp=8", 8, 32, "layers cannot make 8 pieces"),
    ("cp=3", 3, 16, "tokens of a sequence"),
)
def test_a_model_or_batch_that_cannot_be_divided_is_refused(text, ranks, batch, words):
    asked = job(text, ranks)
    with pytest.raises(Trouble, match=words):
        layouts.check(asked.layout, asked.config, batch)


def test_interleaving_wants_whole_rounds_of_micro_batches():
    layout = layouts.parse("pp=2", 2, schedule="interleaved", micro_batches=3)
    with pytest.raises(Trouble, match="rounds of 2") as refused:
        layouts.check(layout, sizes.size("1m").config(), 18)
    assert "--micro-batches 2" in refused.value.way_out


# --- predictions


def test_bytes_on_the_wire_follow_the_formulas():
    params = memory.count_params(sizes.size("1m").config())
    assert predict.wire_bytes(job()) == {}
    assert sum(predict.wire_bytes(job("ddp", 4)).values()) == pytest.approx(2 * 3 / 4 * params * 4)
    kept = sum(predict.wire_bytes(job("fsdp", 4, reshard=False)).values())
    assert kept == pytest.approx(2 * 3 / 4 * params * 4), (
        "gathered once and scattered once: as much as data parallelism"
    )
    again = sum(predict.wire_bytes(job("fsdp", 4)).values())
    assert kept < again < 1.5 * kept, "blocks are gathered twice, what is in no block once"
    hybrid = predict.wire_bytes(job("ddp=2,fsdp=2", 4))
    assert hybrid["all-reduce gradients"] == pytest.approx(2 * 1 / 2 * params / 2 * 4)


def test_memory_is_state_and_activations_and_sharding_divides_the_state():
    whole, parts = predict.memory_bytes(job()), predict.memory_bytes(job("fsdp", 4))
    params = memory.count_params(sizes.size("1m").config())
    assert whole["weights"] + whole["gradients"] + whole["optimizer"] == pytest.approx(16 * params)
    for part in ("weights", "gradients", "optimizer"):
        assert parts[part] == pytest.approx(whole[part] / 4)
    assert "gathered" in parts and "gathered" not in whole
    assert parts["activations"] == pytest.approx(whole["activations"] / 4), "a quarter of the batch"


def test_gpipe_holds_more_than_1f1b_and_stages_of_1f1b_differ():
    kinds = {
        word: [
            predict.memory_bytes(job("pp=4", 4, 16, schedule=word, micro_batches=8), stage)["activations"]
            for stage in range(4)
        ]
        for word in ("gpipe", "1f1b")
    }
    assert kinds["gpipe"][0] == pytest.approx(2 * kinds["1f1b"][0])
    assert kinds["1f1b"][0] == pytest.approx(2 * kinds["1f1b"][2])


def test_flops_count_no_lookup_and_recomputation_only_where_hardware_does_it():
    plain, again = job(), job(checkpointing="full")
    assert predict.step_flops(plain) == predict.step_flops(again)
    assert predict.step_flops(again, hardware=True) / predict.step_flops(again) == pytest.approx(4 / 3, rel=0.01)
    config = plain.config
    without = memory.count_params(config) - config.vocab * config.hidden
    attention = 6 * config.layers * config.hidden * config.seq_len
    assert predict.step_flops(plain) == pytest.approx(plain.tokens * (6 * without + attention))


def test_the_bubble_is_that_of_the_schedule():
    few, many = (predict.step_seconds(job("pp=4", 4, 32, micro_batches=m), RATES, {}) for m in (4, 32))
    assert few["bubble"] / few["arithmetic"] == pytest.approx(3 / 4)
    assert many["bubble"] / many["arithmetic"] == pytest.approx(3 / 32)


def test_a_measured_block_says_what_the_framework_adds_to_the_arithmetic():
    plain = predict.step_seconds(job("ddp", 4), RATES, {})
    slow = predict.step_seconds(
        job("ddp", 4), replace(RATES, block=plain["arithmetic"] / 2, ends=plain["arithmetic"] / 4), {}
    )
    assert plain["overhead"] == 0 and slow["arithmetic"] == plain["arithmetic"]
    assert slow["overhead"] == pytest.approx((4 / 2 + 1 / 4 - 1) * plain["arithmetic"]), "four blocks and the ends"
    halved = predict.step_seconds(job("tp", 2), replace(RATES, block=1.0), {})
    assert halved["arithmetic"] + halved["overhead"] == pytest.approx(4 / 2), "each rank has half of every block"


def test_a_pipelines_pace_is_that_of_its_fullest_stage_and_idle_ranks_leave_a_shared_core():
    rates = replace(RATES, block=0.1, ends=0.1)
    alone = predict.step_seconds(job("pp=2", 2, micro_batches=4), rates, {})
    assert alone["arithmetic"] + alone["overhead"] == pytest.approx(4 * (2 * 0.1 + 0.1)), "two blocks and the head"
    shared = predict.step_seconds(job("pp=2", 2, micro_batches=4), replace(rates, cores=0.5), {})
    assert shared["bubble"] == pytest.approx(alone["bubble"] / 2)


def test_calls_are_those_of_the_layout_each_at_its_own_rate():
    assert predict.calls(job("fsdp", 4))["gather weights"] == 2 * 4 + 1, "four blocks twice, the ends once"
    assert predict.calls(job("fsdp", 4, reshard=False))["gather weights"] == 4 + 1
    assert predict.calls(job("ddp", 4))["all-reduce gradients"] == 2, "a small bucket and a large one"
    assert predict.calls(job("tp", 4))["tensor parallel"] == 4 * 4 + 3
    assert predict.calls(job("tp,sp", 4))["tensor parallel"] == 2 * (4 * 4 + 2) + 1 + 1, "two for one, and the norms"
    assert predict.calls(job("cp", 4))["context parallel"] == 3 * 4
    sharded = job("fsdp", 4)
    wire = predict.wire_bytes(sharded)
    rates = replace(RATES, alpha=0.0, wires={"fsdp all_gather": (0.5, 0.0), "fsdp reduce_scatter": (0.0, 1e6)})
    said = predict.step_seconds(sharded, rates, wire)["communication"]
    assert said == pytest.approx(9 * 0.5 + wire["reduce-scatter gradients"] / 1e6), (
        "no bandwidth showed: its calls cost their latency"
    )
    assert rates.of("pipeline") == (0.0, RATES.wire), "what was not measured goes at the rate of all ranks"


# --- the gap


def measured_of(expected, **more):
    by = {"parameters": 9e6, "gradients": 0.0, "optimizer state": 7e6, "saved for backward": 3e7, "temporary": 2e6}
    return {
        "step_seconds": 0.5,
        "memory_bytes": sum(by.values()),
        "memory_by": by,
        "wire_bytes": expected.wire_bytes + 6,
        **more,
    }


PARTS = {"data": 0.01, "forward": 0.1, "backward": 0.25, "communication": 0.03, "optimizer": 0.04, "checkpoint": 0.0}


@each_of(
    "text, cores_each, more, words",
    ("single", 2.0, {}, "one at a time"),
    ("fsdp", 0.5, {}, "2 ranks take turns on each core"),
    ("tp", 1.0, {"exposed_seconds": 0.2}, "DTensor dispatches"),
    ("pp", 1.0, {}, "stages wait"),
    ("ddp", 1.0, {}, "buckets"),
)
def test_the_gap_is_listed_in_terms_that_add_up(text, cores_each, more, words):
    asked = job(text, 1 if text == "single" else 4)
    expected = predict.predict(asked, replace(RATES, block=0.01, ends=0.01))
    measured = measured_of(expected, **more)
    terms = prediction_error.gap(expected, measured, [{"parts": PARTS}] * 5, asked, cores_each, on_cpu=True)
    seconds, memory_terms, wire = ([term for term in terms if term["of"] == of] for of in ("seconds", "memory", "wire"))
    assert sum(term["seconds"] for term in seconds) == pytest.approx(0.5 - expected.step_seconds)
    assert sum(term["bytes"] for term in memory_terms) == pytest.approx(
        measured["memory_bytes"] - expected.memory_bytes
    )
    assert [term["bytes"] for term in wire] == ([] if text == "single" else [pytest.approx(6)])
    assert any(words in term["how"] for term in seconds) and all(term["how"] for term in terms)
    assert ("communication" in {term["term"] for term in seconds}) == ("exposed_seconds" in more)
    assert all("step time" in line or "memory" in line for line in prediction_error.said(terms))


def test_a_gpus_allocator_tells_no_roles_and_that_is_said():
    asked = job("ddp", 2)
    expected = predict.predict(asked, RATES)
    (term,) = prediction_error.memory(expected, {"memory_bytes": 2e9, "memory_by": {"reserved": 3e9}}, asked)
    assert term["bytes"] == 2e9 - expected.memory_bytes and "not told apart" in term["term"]


# --- a step's clock, its learning rate, its threads


def test_each_moment_of_a_step_belongs_to_one_part(monkeypatch):
    clock = Clock(type("Place", (), {"device": type("Device", (), {"type": "cpu"})}))
    ticks = iter([0.0, 1.0, 3.0, 10.0, 12.0])
    monkeypatch.setattr(clock, "now", lambda: next(ticks))
    with clock.part("communication"):
        clock.timed("forward", lambda: None)()
    found = clock.read()
    assert (found["communication"], found["forward"], found["data"]) == (1.0 + 7.0, 2.0, 0.0)
    assert sum(clock.read().values()) == 0, "read once"


def test_on_a_gpu_the_parts_are_read_from_events_that_it_stamps_itself(monkeypatch):
    class Event:
        count = 0

        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at, Event.count = Event.count, Event.count + 1

        def elapsed_time(self, later):
            return 250.0 * (later.at - self.at)  # ms

    monkeypatch.setattr("course_runs.step_breakdown.torch.cuda.Event", Event)
    clock = Clock(type("Place", (), {"device": type("Device", (), {"type": "cuda"})}))
    with clock.part("optimizer"), clock.part("communication"):
        pass
    found = clock.read()
    assert (found["optimizer"], found["communication"]) == (0.5, 0.25), "before and after, and between"


def test_the_rate_rises_falls_to_its_floor_and_depends_on_the_step_alone():
    rates = [rate_at(step, 2.0, warmup=4, total=20) for step in range(20)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0] and rates[4] == 2.0
    assert all(later < earlier for earlier, later in zip(rates[4:], rates[5:], strict=False))
    assert rate_at(12, 2.0, 4, 20) == pytest.approx(2.0 * (1 + FLOOR) / 2), "half-way down"
    assert rate_at(20, 2.0, 4, 20) == rate_at(99, 2.0, 4, 20) == pytest.approx(2.0 * FLOOR)
    assert {rate_at(step, 2.0) for step in range(9)} == {2.0}


@pytest.mark.parametrize(
    ("said", "ranks", "threads"), [("", 1, 8), ("", 2, 4), ("", 16, 1), ("3", 2, 3), ("0", 4, 2), ("many", 4, 2)]
)
def test_a_rank_has_as_many_threads_as_its_share_of_the_cores(said, ranks, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr(cores, "cores", lambda: 8)
    assert cores.threads(ranks) == threads


def test_a_started_program_is_told_its_threads_even_where_the_variable_is_empty(monkeypatch):
    seen = {}

    def popen(command, env, **more):
        seen.update(env)
        raise OSError("far enough")

    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.setattr(torchrun.subprocess, "Popen", popen)
    with pytest.raises(OSError, match="far enough"):
        torchrun.run("matmul", [], 1)
    assert seen["OMP_NUM_THREADS"] == str(cores.cores())


# --- collectives


def swept(seconds, kind="all_reduce"):
    return [
        {"kind": kind, "nbytes": n, "median": s, "bus": 1.5 * n / s, "algorithm": n / s, "repeats": 9}
        for n, s in seconds  # of four ranks, which send 2 * 3/4 of the message
    ]


def test_a_sweep_without_a_line_keeps_its_rows_and_says_so():
    noise = swept([(1008, 5.0e-3), (4e3, 7.8e-3), (1.6e4, 11.3e-3), (6.4e4, 7.5e-3), (2.56e5, 4.4e-3)])
    assert collectives.fit(noise) is None
    assert collectives.fit(swept([(1e3, 1e-3)])) is None
    line = collectives.fit([*noise, *swept([(1.024e6, 2e-2), (1.6e7, 2e-1)])])
    assert line["beta"] == pytest.approx(1e8, rel=0.5), "larger messages show the bandwidth"
    content = evidence.evidence(
        "collectives",
        setup={"ranks": 4, "backend": "gloo"},
        raw={"rows": noise},
        measured={"fits": {"all_reduce": None}, "best_bus": {}},
    )
    assert verify.problems(content) == [] and failed(content) == {"larger messages take longer"}
    alone = evidence.sealed({**content, "setup": {"ranks": 1, "backend": "gloo"}})
    assert failed(alone) == set(), "one rank sends nothing"


def test_the_tour_at_home_sweeps_messages_in_which_bandwidth_shows_and_times_enough_steps():
    for gpus in (2, 4):
        planned = {stage.name: stage for stage in tour.stages(gpus, True)}
        given = collectives.arguments(planned["links"].arguments)
        assert collectives.sizes(given.smallest, given.largest, gpus)[-1] > 1e7
        for stage in planned.values():
            if stage.program == "train":
                steps = int(stage.arguments[stage.arguments.index("--steps") + 1])
                assert steps - 3 >= 20 and "--warmup" in stage.arguments
        assert {"trace-ddp", "parity", "resumed"} <= set(planned)


# --- evidence and its gates


def train_evidence(**changes):
    asked = job("ddp", 2)
    rows = [
        {"step": n, "seconds": 0.5 if n < 3 else 0.1 + 0.001 * (n % 3), "loss": 4.5 - 0.05 * n, "gradient_norm": 1.0}
        for n in range(23)
    ]
    rows = [
        {"parts": {**dict.fromkeys(PARTS, 0.0), "forward": row["seconds"] / 2}, **row}
        for row in changes.pop("rows", rows)
    ]
    seconds = sorted(row["seconds"] for row in rows[3:])[len(rows[3:]) // 2]
    flops, peak = predict.step_flops(asked), 1e12
    measured = {
        "step_seconds": seconds,
        "tokens_per_s": asked.tokens / seconds,
        "mfu": flops / seconds / 2 / peak,
        "peak_flops": peak,
        "peak_source": "a test",
        "model_flops_per_step": flops,
        "memory_bytes": 1e9,
        "wire_bytes": sum(predict.wire_bytes(asked).values()),
        "first_loss": rows[0]["loss"],
        "last_loss": rows[-1]["loss"],
    }
    setup = {
        "size": "1m",
        "parameters": asked.params,
        "layout": asked.layout.as_data(),
        "batch": 16,
        "seq_len": 128,
        "tokens_per_step": asked.tokens,
        "dtype": "float32",
        "checkpointing": "none",
        "backend": "gloo",
        "device": "cpu",
        "warm_up": 3,
        "rates": asdict(RATES),
    }
    measured |= changes.pop("measured", {})
    setup |= changes.pop("setup", {})
    predicted = predict.predict(asked, RATES).as_data()
    terms = [{"of": "seconds", "term": "all", "seconds": seconds - predicted["step_seconds"], "how": "a test"}]
    raw = {"steps": rows, "intervals": {"compute": [[0, 1]], "communication": [[0.5, 1.25]]}}
    content = evidence.evidence(
        "train", setup=setup, predicted=predicted, raw=raw, measured={"gap": terms, "exposed_seconds": 0.25, **measured}
    )
    content["environment"]["process_seconds"] = 60.0  # this process may be younger than the invented steps are long
    return evidence.sealed(content)


def failed(content):
    return {gate.name for gate in evidence_checks.gates(content) if not gate.ok}


def test_honest_evidence_passes_schema_and_gates(tmp_path, capsys):
    path = evidence.write(train_evidence(), tmp_path, "honest")
    assert verify.problems(evidence.read(path)) == []
    assert failed(evidence.read(path)) == set()
    assert verify.main([str(path)]) == 0
    assert "not above the roofline" in capsys.readouterr().out


@each_of(
    "changes, gate",
    ({"measured": {"step_seconds": 0.01}}, "step time follows from raw times"),
    ({"measured": {"mfu": 0.9}}, "MFU follows"),
    ({"measured": {"tokens_per_s": 1e9}}, "tokens/s fits step time"),
    ({"measured": {"peak_flops": 1e9}}, "not above the roofline"),
    ({"setup": {"warm_up": 0}}, "warm-up left out"),
    ({"measured": {"memory_bytes": 1e5}}, "memory holds the state"),
    ({"measured": {"gap": [{"of": "seconds", "term": "all", "seconds": 9.0, "how": ""}]}}, "the gap's terms add up"),
    ({"measured": {"exposed_seconds": 0.75}}, "exposed communication follows from the trace"),
    (
        {
            "rows": [
                {"step": n, "seconds": 0.1, "loss": 4 - n / 9, "gradient_norm": 1, "parts": {"forward": 0.2}}
                for n in range(23)
            ]
        },
        "parts lie within their step",
    ),
    ({"measured": {"wire_bytes": 0}}, "bytes were sent"),
    (
        {
            "rows": [
                {"step": n, "seconds": 0.1 * (1 + 9 * (n % 2)), "loss": 4 - n / 9, "gradient_norm": 1}
                for n in range(23)
            ]
        },
        "repeats agree",
    ),
    ({"rows": [{"step": n, "seconds": 0.1, "loss": 4 + n / 9, "gradient_norm": 1} for n in range(23)]}, "loss falls"),
)
def test_an_implausible_number_fails_its_own_gate(changes, gate):
    assert gate in failed(train_evidence(**changes))


def test_a_matmul_above_the_roof_and_a_collective_off_its_line_fail():
    raw = {"rows": [{"shape": [1000, 1000, 1000], "dtype": "bf16", "seconds": [1e-6] * 5, "flops": 2e15}]}
    fast = evidence.evidence(
        "matmul", setup={"dtypes": ["bf16"]}, raw=raw, measured={"best_flops_bf16": 2e15, "peak_flops_bf16": 989e12}
    )
    assert failed(fast) == {"bf16 not above the roofline", "bf16 no faster than the device"}
    rows = [
        {"kind": "all_reduce", "nbytes": n, "median": 1e-4 + n / 1e9 * wrong, "repeats": 9}
        for n, wrong in ((1e3, 1), (1e6, 9), (1e7, 9), (1e8, 1))
    ]
    odd = evidence.evidence(
        "collectives",
        setup={"ranks": 2, "backend": "gloo"},
        raw={"rows": rows},
        measured={"fits": {"all_reduce": {"alpha": 1e-4, "beta": 1e9, "bus": 1e9}}, "best_bus": {}},
    )
    assert failed(odd) == {"all_reduce fits its own line", "lines follow from the sizes"}


def test_what_was_changed_is_newer_or_is_no_evidence_is_refused(tmp_path):
    content = train_evidence()
    cases = {
        "changed": {**content, "measured": {**content["measured"], "mfu": 0.5}},
        "newer": evidence.sealed({**content, "version": 2}),
        "other": {"a": 1},
    }
    for name, words in (("changed", "was changed after"), ("newer", "reads version 1"), ("other", "no evidence")):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(cases[name]), encoding="utf-8")
        with pytest.raises(Trouble, match=words):
            evidence.read(path)
    (tmp_path / "half.json").write_text('{"schema": ', encoding="utf-8")
    with pytest.raises(Trouble, match="no JSON"):
        evidence.read(tmp_path / "half.json")


def test_a_zip_is_verified_file_by_file_and_only_names_are_taken_from_it(tmp_path, capsys):
    good, bad = train_evidence(), train_evidence(measured={"mfu": 0.9})
    with zipfile.ZipFile(tmp_path / "tour.zip", "w") as packed:
        packed.writestr("one.json", json.dumps(good))
        packed.writestr("../../escape.json", json.dumps(good))
        packed.writestr("bad.json", json.dumps(bad))
        packed.writestr("logs/one.txt", "words")
    assert store.add([tmp_path / "tour.zip"], tmp_path / "evidence") == 1
    assert sorted(path.name for path in (tmp_path / "evidence").iterdir()) == ["tour-escape.json", "tour-one.json"]
    assert not list(tmp_path.parent.glob("escape.json"))
    assert "left out bad.json: MFU follows" in capsys.readouterr().err
    with pytest.raises(Trouble, match="no zip"):
        (tmp_path / "broken.zip").write_bytes(b"PK")
        store.add([tmp_path / "broken.zip"], tmp_path / "evidence")


def test_own_evidence_is_found_before_what_ships(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_EVIDENCE", str(tmp_path))
    evidence.write(train_evidence(), tmp_path, "mine")
    (tmp_path / "noise.json").write_text("{}", encoding="utf-8")
    found = list(evidence.found("train"))
    assert [origin for origin, _, _ in found[:1]] == ["own"]
    assert {row["verdict"] for row in store.rows() if row["from"] == "own"} == {"claimed"}


# --- money, the look, the tour


def test_the_tighter_limit_holds():
    assert money.budget(8, 2.0, 30, None).seconds == 1800
    assert money.budget(8, 2.0, 30, 4.0).seconds == pytest.approx(900)
    assert money.budget(8, 2.0, None, None).seconds == math.inf
    assert money.dollars(1800, 8, 2.0) == pytest.approx(8.0)
    with pytest.raises(Trouble, match="--max-cost"):
        money.budget(8, 0.0, None, 4.0)
    price, source = money.usual_price("H100 SXM")
    assert price > 0 and source
    assert money.usual_price("a toaster")[0] == 0


def test_a_run_ends_at_its_limit_of_money(capsys):
    asked = {}

    def starter(program, arguments, nproc, timeout):
        asked.update(timeout=timeout)
        return torchrun.Ended(code=-15, seconds=timeout, timed_out=True, lines=())

    code = worker_start.start("train", ["--device", "cpu"], 2, worker_start.Limits(dollars=0.01, price=3.6), starter)
    assert code == worker_start.STOPPED == 124
    assert asked["timeout"] == pytest.approx(5.0), "a cent, at two devices of a tenth of a cent a second"
    assert "stopped after" in capsys.readouterr().out


SMI = "NVIDIA H100 80GB HBM3, 570.86.15, 1980, 1980, 0x0000000000000000, 0"


def test_a_machine_that_is_too_warm_or_has_failed_is_named():
    assert preflight.clock_line([preflight.parsed(SMI)]).state == "ok"
    warm = preflight.parsed(SMI.replace("0x0000000000000000", "0x0000000000000040"))
    assert (preflight.clock_line([warm]).state, warm.throttled) == ("warn", "slowdown by heat (hardware)")
    assert preflight.errors_line([preflight.parsed(SMI[:-1] + "7")]).state == "fail"
    assert preflight.links_line("NV18", 8).state == "ok"
    assert preflight.links_line("SYS, PHB", 8).state == "warn"
    assert preflight.shared_memory_line(64e6, 8).state == "warn"
    assert preflight.shared_memory_line(0.0, 8).state == "warn" and preflight.shared_memory_line(0.0, 0).state == "ok"
    assert preflight.files_line(1024).state == "warn"
    assert preflight.rate_line("copy", 2.5e12, 3.35e12, 0.75, "a sheet").state == "ok"
    assert preflight.rate_line("copy", 1.0e12, 3.35e12, 0.75, "a sheet").state == "warn"


class Smi:
    """Stands for nvidia-smi of a machine with two GPUs, which knows some fields and refuses a question with another."""

    ROWS = ({"index": "0", "uuid": "GPU-aa1"}, {"index": "1", "uuid": "GPU-bb2"})
    SAME = {"name": "NVIDIA H100 80GB HBM3", "driver_version": "550.54", "clocks.sm": "1980", "clocks.max.sm": "1980"}

    def __call__(self, program, question, *form):
        if question == "-L":
            return "GPU 0: NVIDIA H100\nGPU 1: NVIDIA H100\n"
        fields = question.removeprefix("--query-gpu=").split(",")
        rows = [{**self.SAME, **row} for row in self.ROWS]
        if not set(fields) <= set(rows[0]):
            return ""
        return "".join(", ".join(row[field] for field in fields) + "\n" for row in rows)


@each_of(
    "said, left",
    (None, ["GPU-aa1", "GPU-bb2"]),
    ("1", ["GPU-bb2"]),
    ("1,0", ["GPU-bb2", "GPU-aa1"]),
    ("GPU-bb", ["GPU-bb2"]),
    ("0,7,1", ["GPU-aa1"]),
    ("", []),
    ("-1", []),
    ("MIG-3f", []),
)
def test_the_gpus_of_a_run_are_those_that_cuda_leaves_it(said, left):
    known = [(row["index"], row["uuid"]) for row in Smi.ROWS]
    found = preflight.visible(known, {} if said is None else {"CUDA_VISIBLE_DEVICES": said})
    assert [known[place][1] for place in found] == left


def test_a_field_that_nvidia_smi_does_not_know_voids_that_field_only(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(preflight, "torch_sees", lambda: ([], "2.13.0"))
    one, two = preflight.gpus(Smi())
    assert one == two == preflight.Gpu(Smi.SAME["name"], "550.54", 1980.0, 1980.0)
    monkeypatch.setattr(preflight, "torch_sees", lambda: (["NVIDIA H100 MIG 1g.10gb"], "2.13.0"))
    assert preflight.gpus(Smi()) == [preflight.Gpu("NVIDIA H100 MIG 1g.10gb")], "torch's word counts"
    assert preflight.gpus(lambda *command: "") == []


@each_of(
    "ask, sees, hidden, cuda, words",
    (lambda *command: "", [], None, None, "nvidia-smi lists none.*--dry"),
    (Smi(), [], None, (12, 4), r"torch 2.13.0 does not see .* CUDA 12.4.*torch>=2.8 --index-url \S+/cu126"),
    (Smi(), [], None, (13, 0), r"--index-url \S+/cu130"),
    (Smi(), [], None, (11, 8), "driver is too old.*rent another image"),
    (Smi(), [], "", (13, 0), "CUDA_VISIBLE_DEVICES='' hides every GPU"),
)
def test_a_tour_stops_before_its_first_stage_where_torch_has_no_gpu(ask, sees, hidden, cuda, words, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    machine = torch_choice.Machine(system="Linux", arch="x86_64", cuda=cuda, capability=9.0)
    monkeypatch.setattr(preflight, "torch_sees", lambda: (sees, "2.13.0"))
    monkeypatch.setattr(torch_choice, "this_machine", lambda: machine)
    with pytest.raises(Trouble, match=f"(?s){words}"):
        preflight.require_gpus(ask)


def test_ranks_stay_beside_their_gpus_where_a_server_has_several_numa_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(torchrun.shutil, "which", lambda name: f"/bin/{name}")
    for number in range(2):
        assert torchrun.numa_binding(tmp_path, tmp_path) == []
        (tmp_path / f"node{number}").mkdir()
    assert torchrun.numa_binding(tmp_path, tmp_path) == ["--numa-binding", "node"]
    assert torchrun.numa_binding(tmp_path, tmp_path / "nothing") == []


def all_reduced(bus, code=0, timed_out=False):
    """Stands for torchrun: an all-reduce that reached `bus` bytes/s."""

    def start(program, arguments, nproc, *, timeout, say):
        given = collectives.arguments(arguments)
        assert (program, nproc, given.kinds, given.device) == ("collectives", 8, "all_reduce", "cuda")
        assert timeout <= 120
        content = evidence.evidence(
            "collectives",
            setup={"ranks": 8, "backend": "nccl"},
            raw={"rows": []},
            measured={"fits": {}, "best_bus": {"all_reduce": bus}},
        )
        evidence.write(content, given.out, given.name)
        return torchrun.Ended(code, 9.0, timed_out, ("NCCL WARN Call to connect failed",))

    return start


def test_the_doctor_holds_an_all_reduce_against_the_link_and_ends_one_that_does_not():
    link = float(device("H100 SXM").link_one_way)
    assert preflight.all_reduce_line("H100 SXM", 8, all_reduced(0.75 * link)).state == "ok"
    slow = preflight.all_reduce_line("H100 SXM", 8, all_reduced(0.2 * link))
    assert slow.state == "warn" and "degraded" in slow.found and slow.way_out
    hung = preflight.all_reduce_line("H100 SXM", 8, all_reduced(0.0, -15, True))
    assert hung.state == "fail" and "did not end in 90 s" in hung.found
    assert "connect failed" in preflight.all_reduce_line("H100 SXM", 8, all_reduced(0.0, 1)).found


def test_the_doctor_says_what_a_run_needs_also_without_a_gpu_and_loads_no_torch_for_it():
    program = (
        "import sys; from course_runs import preflight; print([line.what for line in preflight.lines()], "
        "'torch' in sys.modules)"
    )
    assert printed(program, PATH="").strip() == "['shared memory', 'open files', 'host name', 'launcher'] False"


def test_with_gpus_the_doctor_shows_each_line_and_none_of_them_stops_the_course(monkeypatch):
    from course_app.cli.doctor import machine_lines

    monkeypatch.setattr(preflight, "gpus", lambda: [preflight.parsed(SMI[:-1] + "7")] * 2)
    monkeypatch.setattr(preflight, "topology", lambda: "NV18")
    monkeypatch.setattr(
        preflight, "_measured", lambda seen: [preflight.rate_line("copy", 1e12, 3.35e12, 0.75, "a sheet")]
    )
    lines = {line.what: line for line in machine_lines(preflight.lines())}
    assert set(lines) == {
        "shared memory", "open files", "host name", "launcher", "clocks", "GPU memory", "links", "torch of the runs",
        "NCCL", "debug settings", "copy",
    }  # fmt: skip
    assert lines["GPU memory"].state == lines["copy"].state == "warn" and lines["links"].state == "ok"


@each_of("gpus", [0, 1, 2, 4, 8])
def test_the_tour_has_stages_for_every_count_and_each_layout_multiplies_out(gpus):
    for dry in (True, False):
        planned = tour.stages(gpus, dry)
        names = [stage.name for stage in planned]
        assert len(names) == len(set(names))
        assert {"matmul", "one", "failures"} <= set(names)
        assert ("ddp" in names) == (gpus >= 2) and ("three-axes" in names) == (gpus >= 8)
        for stage in planned:
            if stage.program == "train":
                words = dict(zip(stage.arguments[::2], stage.arguments[1::2], strict=False))
                layout = layouts.parse(
                    words["--layout"],
                    stage.nproc,
                    schedule=words.get("--schedule", "1f1b"),
                    micro_batches=int(words["--micro-batches"]) if "--micro-batches" in words else None,
                )
                layouts.check(
                    layout,
                    sizes.size(words["--size"]).config(),
                    max(sizes.size(words["--size"]).batch, 2 * layout.data * layout.micro_batches),
                )


class Starter:
    """Stands for torchrun: some stages fail, one does not end, the others leave evidence."""

    def __init__(self, fails=(), hangs=()):
        self.fails, self.hangs, self.started = fails, hangs, []

    def __call__(self, program, arguments, nproc, *, timeout, say):
        name = arguments[arguments.index("--name") + 1]
        self.started.append(name)
        if name in self.hangs:
            return torchrun.Ended(-15, timeout, True, ("step 1",))
        if name in self.fails:
            return torchrun.Ended(1, 1.0, False, ("RuntimeError: out of memory",))
        out = arguments[arguments.index("--out") + 1]
        evidence.write(
            evidence.evidence("failure", setup={}, raw={"rows": []}, measured={"found": 0, "of": 0}), out, name
        )
        return torchrun.Ended(0, 1.0, False, ())


def test_a_tour_goes_on_after_a_failed_stage_and_resumes_where_it_stopped(tmp_path, capsys):
    flags = ["--dry", "--gpus", "2", "--out", str(tmp_path / "out")]
    first = Starter(fails=("ddp",), hangs=("fsdp",))
    assert tour.main(flags, first) == 1
    said = capsys.readouterr().out
    assert "failed: RuntimeError: out of memory; the tour goes on" in said
    assert "timed out: it did not end in its time" in said
    assert first.started[-1] == "failures" and len(first.started) == len(tour.stages(2, True))
    second = Starter()
    assert tour.main(flags, second) == 0
    assert second.started == ["ddp", "fsdp"]
    said = capsys.readouterr().out
    assert "scp" in said and "evidence add out.zip" in said and "rental" not in said
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        assert {"ddp.json", "fsdp.json", "machine.json", "tour.jsonl"} <= set(packed.namelist())


def test_a_stage_that_failed_runs_again_though_it_left_evidence(tmp_path):
    flags = ["--dry", "--gpus", "2", "--only", "parity,links", "--out", str(tmp_path / "out")]

    class Odd(Starter):
        def __call__(self, program, *arguments, **more):
            ended = super().__call__(program, *arguments, **more)
            return torchrun.Ended(1, 1.0, False, ("parity: not the same",)) if program == "parity" else ended

    assert tour.main(flags, Odd()) == 1 and (tmp_path / "out" / "parity.json").exists()
    again = Starter()
    assert tour.main(flags, again) == 0 and again.started == ["parity"]


def test_a_tour_without_time_starts_nothing(tmp_path):
    starter = Starter()
    assert tour.main(["--dry", "--gpus", "2", "--minutes", "0.1", "--out", str(tmp_path / "out")], starter) == 0
    assert starter.started == []


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_a_plan_says_minutes_and_dollars_of_machines_that_are_not_here(gpus, capsys):
    starter = Starter()
    assert tour.main(["--plan", "--gpus", str(gpus)], starter) == 0
    said = capsys.readouterr().out
    minutes = sum(stage.minutes for stage in tour.stages(gpus, False))
    cost = money.dollars(60 * minutes, gpus, money.usual_price("H100 SXM")[0])
    assert f"about {minutes:.0f} minutes" in said and f"about ${cost:,.2f}" in said
    assert starter.started == []


def test_a_tour_takes_no_more_gpus_than_a_server_has_and_no_stage_that_they_cannot_run(capsys, monkeypatch):
    assert tour.main(["--plan", "--gpus", "16"]) == 2 and "two_nodes.sbatch" in capsys.readouterr().err
    assert "one-fp8" in {stage.name for stage in tour.stages(1, False)}
    monkeypatch.setattr(preflight, "gpus", lambda: [preflight.Gpu("NVIDIA A100-SXM4-80GB")])
    assert tour.main(["--plan"]) == 0
    said = capsys.readouterr().out
    assert "one-compiled" in said and "one-fp8" not in said


def test_a_full_disk_is_the_last_word_of_a_tour(tmp_path, capsys, monkeypatch):
    flags = ["--dry", "--gpus", "1", "--only", "matmul", "--out", str(tmp_path / "out")]
    full = f"OSError: [Errno 28] {os.strerror(errno.ENOSPC)}: 'x.json'"
    assert tour.main(flags, lambda *given, **more: torchrun.Ended(1, 1.0, False, (full, "exit code 1"))) == 1
    assert "failed: the disk is full" in capsys.readouterr().out

    def write(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(evidence, "write", write)
    assert tour.main(flags, Starter()) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"tour: the disk of {tmp_path / 'out'} is full")


def test_the_traces_of_a_tour_come_home_with_it(tmp_path):
    (tmp_path / "out" / "traces").mkdir(parents=True)
    (tmp_path / "out" / "traces" / "trace-ddp-rank0.json.gz").write_bytes(b"seen")
    assert tour.main(["--dry", "--gpus", "1", "--only", "matmul", "--out", str(tmp_path / "out")], Starter()) == 0
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        assert packed.read("traces/trace-ddp-rank0.json.gz") == b"seen"


def test_a_tour_says_that_the_rental_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(preflight, "gpus", lambda: [preflight.parsed(SMI)])
    monkeypatch.setattr(preflight, "lines", lambda measure=True: [])
    monkeypatch.setattr(preflight, "require_gpus", lambda: None)
    assert tour.main(["--out", str(tmp_path / "out"), "--only", "matmul", "--price", "2.5"], Starter()) == 0
    said = capsys.readouterr().out
    assert "The rental is still running" in said and "$2.50 per GPU and hour" in said


# --- diagnoses


def note(rank, doing="all_reduce", step=5, **more):
    return {"rank": rank, "doing": doing, "step": step, "pid": 100 + rank, "work": [0.01] * 5, "error": "", **more}


@each_of(
    "notes, ended, kind, rank",
    (
        [note(0), note(1, "compute"), note(2)],
        torchrun.Ended(1, 9, False, ("exitcode  : -9 (pid: 101)  (SIGKILL)",)),
        "killed",
        1,
    ),
    ([note(0), note(1, "compute"), note(2)], torchrun.Ended(1, 9, False, ("Timed out waiting",)), "hung", 1),
    ([note(0), note(1), note(2, "compute")], torchrun.Ended(-15, 9, True, ()), "hung", 2),
    (
        [note(0, error="RuntimeError: Detected mismatch between collectives on ranks"), note(1)],
        torchrun.Ended(1, 9, False, ()),
        "mismatched",
        None,
    ),
    ([note(0, "done"), note(1, "done", work=[0.1] * 5), note(2, "done")], torchrun.Ended(0, 9, False, ()), "slow", 1),
    ([note(0, "done"), note(1, "done", work=[0.012] * 5)], torchrun.Ended(0, 9, False, ()), "none", None),
    (
        [
            note(
                0,
                "starting",
                error="Trouble: The ranks do not have the same torch version: rank 1 has 2.4.0, the others 2.13.0.",
            )
        ],
        torchrun.Ended(1, 9, False, ()),
        "version",
        None,
    ),
)
def test_a_failure_is_diagnosed_from_the_ranks_last_notes(notes, ended, kind, rank):
    found = failure_drill.diagnose(notes, ended)
    assert (found.kind, found.rank) == (kind, rank), found.words


# --- traces


def test_exposed_communication_counts_each_moment_once():
    kernels = [
        ("gemm", 10.0, 14.0),
        ("norm", 10.5, 11.0),
        ("gemm", 12.0, 15.0),
        ("ncclDevKernel_AllReduce", 13.0, 18.0),
        ("ncclDevKernel_AllGather", 17.0, 19.0),
        ("adam", 18.5, 20.0),
    ]
    found = tracing.sorted_out(kernels)
    assert found == {"compute": [(0.0, 5.0), (8.5, 10.0)], "communication": [(3.0, 9.0)]}
    assert intervals.exposed(found) == pytest.approx(3.5), "from 5 to 8.5: neither the sum of kernels nor their span"
    assert intervals.exposed({"compute": [], "communication": [(0.0, 2.0)]}) == 2.0


def test_on_a_cpu_gloos_calls_communicate_and_short_starts_between_operations_are_joined():
    events = [
        ("aten::mm", 1.0, 1.5),
        ("aten::add", 1.50001, 1.6),
        ("gloo:all_reduce", 1.4, 2.0),
        ("aten::mul", 1.9, 2.1),
    ]
    found = tracing.sorted_out(events, tracing.STARTING)
    assert found["compute"] == [(0.0, pytest.approx(0.6)), (pytest.approx(0.9), pytest.approx(1.1))]
    assert found["communication"] == [(pytest.approx(0.4), pytest.approx(1.0))]
    assert intervals.exposed(found) == pytest.approx(0.3)


def test_parity_that_rounding_does_not_explain_fails_its_gate():
    one = {"losses": [4.0, 3.0], "gradient_norms": [2.0, 1.0]}
    row = {
        "layout": "ddp",
        "ranks": 2,
        "steps": 2,
        "loss": 0.0,
        "gradient_norm": 0.0,
        "allowed": parity.allowed(2, sizes.size("1m").batch * sizes.size("1m").seq_len),
        "ok": True,
        **one,
    }
    off = {**row, "layout": "tp", "losses": [4.0, 3.3], "loss": 0.1, "ok": False}
    hidden = {**off, "layout": "pp", "loss": 0.0, "ok": True}
    setup = {"size": "1m", "ranks": 2, "steps": 2}
    content = evidence.evidence(
        "parity",
        setup=setup,
        raw={"single": one, "rows": [row, off, hidden]},
        measured={"same": 1, "of": 3, "worst": 0.1},
    )
    assert verify.problems(content) == []
    assert failed(content) == {"tp trains the same model", "pp trains the same model"}
    assert store.what(content) == "1m, 3 layouts of 2 ranks"


def test_a_file_has_a_list_of_numbers_on_one_line(tmp_path):
    content = train_evidence()
    path = evidence.write(content, tmp_path, "small")
    assert evidence.read(path) == content
    assert "[0.5, 1.25]" in path.read_text()


# --- an older Python


def closure():
    """Every module of the course that the programs load."""
    program = (
        "import sys, json; import course_runs.train, course_runs.matmul, course_runs.collectives, course_runs.tour, "
        "course_runs.failure_drill_worker, course_runs.failure_drill, course_runs.parity, course_runs.resumed, "
        "course_runs.tables; print(json.dumps({k: v.__file__ for k, v in sys.modules.items() if "
        "k.startswith(('course_lib', 'course_runs'))}))"
    )
    return json.loads(printed(program).splitlines()[-1])


NEWER = {
    "tomllib": "3.11", "Self": "3.11", "StrEnum": "3.11", "UTC": "3.11", "ExceptionGroup": "3.11",
    "assert_never": "3.11", "override": "3.12", "batched": "3.12",
}  # fmt: skip


@pytest.mark.slower
def test_the_programs_run_on_python_3_10_with_torch_and_numpy_only():
    files = closure()
    for name, path in files.items():
        text = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=(3, 10))
        used = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not used & set(NEWER), f"{name} imports {used & set(NEWER)}"
    program = (
        "import sys, json; import course_runs.train, course_runs.tour; print(json.dumps(sorted({m.split('.')[0] "
        "for m in sys.modules})))"
    )
    loaded = set(json.loads(printed(program).splitlines()[-1]))
    assert not loaded & {"matplotlib", "ipywidgets", "rich", "typer", "nbgrader", "IPython", "jsonschema", "pandas"}


def test_what_would_fit_is_said_only_where_it_would():
    from course_runs import train

    big = predict.Job(config=sizes.size("7b").config(), layout=layouts.parse("ddp", 8), batch=16, width=2)
    said = train.would_fit(big, 80e9)
    assert said == "--layout fsdp would fit"
    sharded = replace(big, layout=layouts.parse("fsdp", 8))
    assert sum(predict.memory_bytes(sharded).values()) <= 80e9 < sum(predict.memory_bytes(big).values())
    assert train.would_fit(big, 5e9).startswith("use more ranks")


@pytest.mark.parametrize("program", [train, tour], ids=["train", "tour"])
def test_every_example_of_a_programs_help_is_one_that_it_takes(program, capsys):
    with pytest.raises(SystemExit):
        program.arguments(["--help"])
    name = program.__name__.rpartition(".")[2]
    shown = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
    examples = [line.split()[1:] for line in shown if line.split()[:1] == [name]]
    assert len(examples) >= 4
    for words in examples:
        assert program.arguments(words)
