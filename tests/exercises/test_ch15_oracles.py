"""Chapter 15's oracles against properties of their own, and against the library and the recorded evidence."""

import math
import random
import statistics

import pytest
import torch
from contract.kit import functions
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import exercises, memory
from course_lib.exercises.ch15 import work
from course_lib.exercises.ch15.cards.links_more import GROWTH
from course_lib.exercises.ch15.judges import faults_trainings as trainings
from course_lib.exercises.ch15.judges import links_machines as machines
from course_lib.exercises.ch15.judges import links_more as scalings
from course_lib.exercises.ch15.judges import links_sweeps as sweeps
from course_lib.exercises.ch15.judges.__init__ import JUDGINGS
from course_lib.exercises.ch15.judges.faults import cut, stream_of
from course_lib.exercises.ch15.judges.faults_report import made_up, ratios
from course_lib.exercises.ch15.judges.faults_smoke import trace_of, wrong_step
from course_lib.exercises.ch15.judges.steps import (
    hidden_share,
    log,
    made,
    nearer,
    step_times,
    theories,
    where_it_goes,
    whole,
)
from course_lib.exercises.ch15.judges.steps_memory import fullest, in_flight, job, most, peaks, pipeline
from course_lib.records import Case, Outcome
from course_lib.runs import evidence, intervals, reading

LIMITS = machines.SHOWN


@pytest.mark.parametrize("marks", ["ends", "begins"])
@pytest.mark.parametrize("length", [3, 5, 8])
def test_rows_and_targets_are_the_stream_and_a_pair_counts_within_its_document(marks, length):
    rng = random.Random(length)
    documents = [rng.randrange(2, 7) for _ in range(12)]
    stream = stream_of(rng, documents, marks)
    number = torch.repeat_interleave(torch.arange(12), torch.tensor(documents))
    inputs, targets, counts = cut(stream, length, marks)
    pairs = len(inputs) * length
    assert len(stream) - 1 - length < pairs <= len(stream) - 1
    assert torch.equal(inputs.flatten(), stream[:pairs]) and torch.equal(targets.flatten(), stream[1 : pairs + 1])
    assert torch.equal(counts.flatten(), number[:pairs] == number[1 : pairs + 1])


def test_what_was_never_restored_shows_at_the_step_in_which_the_run_went_on():
    for seed, resumed in zip(trainings.SEEDS, trainings.RESUMED, strict=True):
        found = {fault: trace_of(fault, seed) for fault in trainings.TRACES}
        first = {fault: wrong_step(trace["rates"], trace["planned"]) for fault, trace in found.items()}
        assert first["sound"] is first["resumed well"] is None and first["twice a step"] == 1
        for fault in ("warm-up again", "one step back", "one step ahead"):
            assert first[fault] == resumed == found[fault]["resumed"]


def test_half_as_long_is_as_far_off_as_twice_as_long():
    runs = {"a": made_up("a", 2.0, 1.0, 1e8), "b": made_up("b", 1.0, 2.0, 1e8)}
    assert ratios(runs) == {"a": 2.0, "b": 0.5}
    case = Case(name="both", args=(runs,), kind="generality", part="worst")
    page = functions("run-report")[0](runs)
    for name in runs:
        told = page.replace("Worst predicted: `a`", f"Worst predicted: `{name}`")
        assert all(v.ok for v in JUDGINGS["run-report"].verdicts({}, case, Outcome(state="answered", value=told)))


def test_runs_that_are_shown_are_recorded():
    names = set(reading.recorded_names("train"))
    card = exercises.card("run-report")
    for seed in (None, *(str(number) for number in range(12))):
        assert {f"cpu4/{name}" for name in card.variant(seed)["shown"].split(", ")} <= names
    assert {"cpu2/fsdp", "cpu2/tp", "cpu2/ddp"} <= names


def test_a_changed_file_is_found_by_its_hash_alone():
    run = made_up("a", 2.0, 1.0, 1e8)
    assert evidence.digest(run) == run["sha256"]
    run["measured"]["step_seconds"] = 1.9
    assert evidence.digest(run) != run["sha256"] and ratios({"a": run}) == {}


def test_what_was_not_measured_is_degraded_and_never_healthy():
    for seed in range(10):
        lines = machines.lines_of(*machines.machine(("something not measured",), random.Random(seed), 4, LIMITS))
        assert sorted(lines.values()) == ["degraded"] + ["healthy"] * 6 and machines.run_of(lines) == "with care"


@pytest.mark.parametrize("kind", sweeps.KINDS)
def test_our_own_fit_is_well_inside_what_is_asked_and_one_line_is_not(kind):
    off = {"cuts": [], "raw": [], "mean": []}
    for seed in range(8):
        rng = random.Random(seed)
        for skip in (2, 4, 8, None):
            (rows, nbytes), true = sweeps._asked(kind, 10e-6, 8e9, rng, skip, 16)
            assert nbytes not in {row["nbytes"] for row in rows}
            off["cuts"].append(abs(sweeps.predicted(rows, nbytes) / true - 1))
            off["raw"].append(abs(sweeps.one_line(rows, nbytes, raw=True) / true - 1))
            off["mean"].append(abs(sweeps.predicted(rows, nbytes, statistics.fmean) / true - 1))
    assert max(off["cuts"]) < sweeps.SOLVABLE < sweeps.CLOSE / 2
    assert max(off["raw"]) > sweeps.CLOSE and min(off["mean"]) > 0.15


@pytest.mark.parametrize("kind", ["all_reduce", "send"])
def test_recorded_sweeps_have_enough_sizes_to_leave_one_out(kind):
    rows = sweeps.recorded_sweep(kind)
    assert len(rows) >= 7 and all(len(row["seconds"]) >= 3 for row in rows)
    for row in rows:
        assert math.isfinite(sweeps.predicted([other for other in rows if other is not row], row["nbytes"]))


@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_constants_without_noise_are_those_put_in(kind, growth):
    first, second, rows = 0.4, 9.0 if kind == "strong" else 0.03, []
    for n in (8, 16, 64, 256):
        seconds = first + second * float(scalings.column(kind, growth, float(n), 8.0))
        tokens = 2**20 if kind == "strong" else 4096 * n
        rows.append({"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / seconds})
    assert scalings.kind_of(rows) == kind
    constants, residuals = scalings.fitted(rows, growth)
    assert constants == pytest.approx((first, second)) and residuals == pytest.approx(0, abs=1e-9)
    measured = rows[-1]["tokens_per_s"] / rows[0]["tokens_per_s"]
    assert [scalings.efficiency(rows, growth, n) for n in (256, 8)] == pytest.approx([measured, 1])


def test_drawn_rows_are_of_their_kind():
    for seed in range(20):
        for kind in ("strong", "weak", "mixed"):
            assert scalings.kind_of(scalings.made(kind, "doublings", random.Random(seed))) == kind


@pytest.mark.parametrize("copies", ["neither", "talk"])
def test_times_of_a_step_add_up_and_are_what_moments_say(copies):
    rng = random.Random(copies)
    for kernels in [*(made(rng, 60) for _ in range(5)), *(whole(rng, 12) for _ in range(20))]:
        found = step_times(kernels, 0.0, 10.0, copies)
        assert found["compute"] + found["exposed"] + found["idle"] == pytest.approx(10.0)
        assert min(found.values()) >= -1e-12
    kernels, other = whole(rng, 14), {"copy": "communication"} if copies == "talk" else {}
    moments = [0.25 + place / 2 for place in range(20)]  # kernels begin and end on halves
    running = [{other.get(kind, kind) for kind, _, s, e in kernels if s < moment < e} for moment in moments]
    found = step_times(kernels, 0.0, 10.0, copies)
    assert found["exposed"] == sum(0.5 for kinds in running if "communication" in kinds and "compute" not in kinds)
    assert found["hidden"] == sum(0.5 for kinds in running if {"communication", "compute"} <= kinds)


def test_recorded_traces_are_asked_about_and_agree_with_what_was_written_down():
    traces = work.traces()
    assert traces
    for name, found in traces.items():
        kernels = [(kind, 0, *span) for kind, each in found.items() for span in each]
        end = max(span[1] for each in found.values() for span in each)
        assert step_times(kernels, 0.0, end)["exposed"] == pytest.approx(intervals.exposed(found)), name


def test_parts_of_a_step_add_up_where_a_log_holds_whole_periods():
    rows = log(random.Random(2), 0, 4 + 20, 5)
    found = where_it_goes(rows, 4, 5)
    assert sum(found.values()) == pytest.approx(sum(row["seconds"] for row in rows[4:]) / 20)
    assert set(found) == {"data", "forward", "backward", "communication", "optimizer", "checkpoint", "other"}
    assert min(found.values()) > 0


def test_the_nearer_theory_and_what_was_hidden_agree():
    alone = {"compute": 3.0, "communication": 2.0, "optimizer": 1.0}
    assert theories(alone) == (6.0, 4.0)
    assert [nearer(alone, seconds) for seconds in (4.0, 4.9, 5.0, 9.0)] == ["max", "max", "sum", "sum"]
    assert [hidden_share(alone, seconds) for seconds in (3.0, 4.0, 5.0, 6.0, 9.0)] == [1.0, 1.0, 0.5, 0.0, 0.0]


def test_keeping_units_costs_those_that_wait():
    rng = random.Random(5)
    for _ in range(50):
        one = job(rng, reshard=True)
        kept, freed = fullest({**one, "reshard": False}), fullest(one)
        assert sum(freed.values()) <= sum(kept.values()) <= sum(freed.values()) + one["width"] * sum(one["units"][:-2])


@given(stages=st.integers(1, 8), count=st.integers(1, 20), schedule=st.sampled_from(["gpipe", "1f1b"]))
def test_micro_batches_in_flight_are_the_librarys(stages, count, schedule):
    assert [in_flight(stages, s, schedule, count) for s in range(stages)] == [
        memory.in_flight(schedule, stages, s, count) for s in range(stages)
    ]


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000), room=st.integers(10, 200), schedule=st.sampled_from(["gpipe", "1f1b"]))
def test_the_most_micro_batches_fit_and_one_more_does_not(seed, room, schedule):
    rng = random.Random(seed)
    one, memory_ = pipeline(rng, rng.randrange(1, 6)), room * 1e6
    found = most(one, schedule, memory_)
    if found is None:
        assert schedule == "1f1b" and max(peaks(one, schedule, 1000)) <= memory_
    else:
        assert found == 0 or max(peaks(one, schedule, found)) <= memory_
        assert max(peaks(one, schedule, found + 1)) > memory_
