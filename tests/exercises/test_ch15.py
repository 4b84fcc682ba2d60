"""Chapter 15's exercises: oracles are the library's and the evidence's, cases mean what they say, and what ships is
what the trainings give."""

import copy
import json
import math
import random
from statistics import median

import pytest
import torch
from contract.kit import cases_of, functions, functions_of, shipped

from course_chapters.ch15.exercises import work
from course_chapters.ch15.exercises.judges import (
    bus_above_line,
    failure_zoo,
    held_out_message,
    honest_mfu,
    preflight_verdict,
    read_the_traces,
    run_report,
    scaling_fit,
    trainings,
)
from course_chapters.ch15.exercises.read_the_traces import TRACE_WORDS
from course_chapters.ch15.exercises.shifted_labels import LABEL_WORDS
from course_chapters.ch15.exercises.smoke_test import SMOKE_WORDS
from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.exercises.point_to_point import PointToPoint
from course_grader.judging import judging
from course_grader.records import Case, Outcome
from course_lib.cluster import intervals, simulate
from course_lib.estimate import facts
from course_lib.estimate.facts import scaling
from course_lib.estimate.roofline import fit_alpha_beta
from course_runs import evidence, evidence_checks, failure_drill_worker, preflight, reading
from course_runs.reading import recorded
from course_runs.ring_bytes import ring_sent
from tests.tables import each_of

# --- machines and rates

LIMITS = preflight_verdict.SHOWN


@each_of("tp", [2, 4])
def test_a_sound_machine_goes_and_each_fault_is_seen_on_its_line_alone(tp):
    (preflight,) = functions("preflight-verdict")
    for seed in range(10):
        lines, run = preflight(*preflight_verdict.machine((), random.Random(seed), tp, LIMITS))
        assert set(lines.values()) == {"healthy"} and run == "go"
        for place, (line, word) in enumerate(preflight_verdict.FAULTS):
            lines, run = preflight(*preflight_verdict.machine((place,), random.Random(seed), tp, LIMITS))
            assert sorted(lines.values()) == sorted([word] + ["healthy"] * 6), (line, word)
            assert lines.get(line, word) == word and run == preflight_verdict.RUNS[word]
    assert {line for line, _ in preflight_verdict.FAULTS} == {*preflight_verdict.LINES, ""}


def test_the_bits_of_a_clock_are_those_of_the_look_before_a_run():
    slowing = {bit for bit in (1 << place for place in range(9)) if preflight._reasons(bit)}
    assert slowing == set(preflight_verdict.SLOWING)
    assert not any(preflight._reasons(bits) for bits in preflight_verdict.HARMLESS)


def test_in_one_regime_our_fit_is_the_librarys_line():
    seconds_of = held_out_message.link_of("one regime", 2e-5, 1e10, random.Random(0))
    rows = held_out_message.sweep(seconds_of, random.Random(4))
    sizes, seconds = zip(*((row["nbytes"], median(row["seconds"])) for row in rows), strict=True)
    alpha, beta = fit_alpha_beta(sizes, seconds)
    for nbytes in (3e4, 3e6, 1e9):
        assert held_out_message.right[0](rows, nbytes) == pytest.approx(alpha + nbytes / beta, rel=0.1)


@each_of("name, run", honest_mfu.recorded_runs().items())
def test_what_evidence_calls_its_mfu_is_ours_or_refused(name, run):
    found = honest_mfu.right(run)
    if isinstance(found, str):
        assert found in honest_mfu.REASONS
    else:
        assert found[0] == pytest.approx(recorded(name)["measured"]["mfu"]) and found[1] <= found[0] <= found[2]


@each_of("reason", honest_mfu.DOCTORED)
def test_a_doctored_log_has_the_fault_that_it_is_named_after(reason):
    for seed in range(12):
        rng = random.Random(seed)
        made = seed, rng.choice(("H100 SXM", "A100 SXM 80GB")), rng.choice((1, 8))
        assert not isinstance(honest_mfu.right(honest_mfu.log(*made)), str)
        found = honest_mfu.DOCTORED[reason](rng)(*made)
        assert honest_mfu.right(found) == reason
        if reason == "clock did not wait":  # the roof alone does not show it
            assert not isinstance(honest_mfu.right(found | {"wall_seconds": 0.0}), str)
    assert list(honest_mfu.DOCTORED) == list(honest_mfu.REASONS)


def test_bounds_are_those_of_the_gates():
    bounds = exercises.card("honest-mfu").params
    assert bounds["spread"] == evidence_checks.SPREAD and bounds["roof"] == evidence_checks.SYNCHRONISED
    assert LIMITS["copy"][0] == pytest.approx(preflight.DEGRADED * preflight.COPY, rel=0.02)


def test_peaks_are_the_data_sheets():
    h100, peaks = facts.device("H100 SXM"), work.peaks_of("H100 SXM")
    assert peaks["sparse_flops"]["bfloat16"] == pytest.approx(float(h100.sparse_flops), rel=1e-3)
    assert peaks["dense_flops"]["float8"] == float(h100.fp8_flops)


@each_of("why", bus_above_line.CAUSES)
def test_a_report_has_its_cause_and_no_wire_is_faster_than_its_line(why):
    for seed in range(40):
        made = bus_above_line.report(why, random.Random(seed), 50e9)
        cause, rate = bus_above_line.right(made)
        assert cause == why and rate < made["line"]
        assert (made["printed"] > made["line"]) == (why != bus_above_line.FINE), (why, seed)
        sent = ring_sent(made["collective"], made["nbytes"], made["ranks"])
        assert bus_above_line.by_rule(made) * made["seconds"] == pytest.approx(sent)


def test_eight_h200_are_below_their_links_where_the_switch_adds_up():
    made = bus_above_line.published()
    cause, rate = bus_above_line.right(made)
    assert made["printed"] > made["line"] > rate == pytest.approx(made["printed"] * 8 / 14) and cause == "no ring"


@each_of("name, kind, off", [("1.34B, data parallel", "strong", 0.15), ("6.66B, FSDP", "weak", 0.05)])
def test_a_published_series_is_of_its_kind_and_near_its_law(name, kind, off):
    fit = functions("scaling-fit")[0](scaling_fit.series(name))
    assert fit[0] == kind and fit[3] < off
    first = scaling.series(name)[0].step_seconds
    assert fit[1] + (fit[2] / 8 if kind == "strong" else 0) == pytest.approx(first, rel=off)


def test_the_audit_agrees_with_the_runs_in_the_facts():
    found = functions("audit-runs")[0]()
    for name, run in (("palm-46-mfu", "PaLM 540B"), ("llama3-41-mfu", "Llama 3.1 405B")):
        assert found[name][0] == pytest.approx(100 * float(facts.run(run).mfu), rel=0.02)


def test_drawn_rows_are_of_their_kind():
    for seed in range(20):
        for kind in ("strong", "weak", "mixed"):
            assert functions("scaling-fit")[0](scaling_fit.made(kind, "doublings", random.Random(seed)))[0] == kind


# --- steps and memory


@each_of("seed", [None, *(f"student-{n}" for n in range(3))])
def test_what_a_prediction_is_asked_from_was_known_before_and_the_truth_is_the_recording(seed):
    card = exercises.card("predict-real-step")
    params = card.variant(seed)
    run = recorded(params["run"])
    assert all(run[of]["step_seconds"] not in params.values() for of in ("measured", "predicted"))
    contract = judging(card.id)
    assert contract.truth(params) == run["measured"]["step_seconds"]
    assert f"{contract.truth(params) / run['predicted']['step_seconds']:.2f}" in contract.reveal(params)
    floor = 6 * params["params"] * params["tokens"] / params["ranks"] / params["flops"]
    assert floor < 1.05 * contract.truth(params)  # a step is never quicker than its matmuls at their best


WRONG_PARTS = {"warm-up-counted", "medians", "checkpoint-not-shared-out", "checkpoint-by-chance"}
WRONG_PARTS |= {"checkpoint-in-other", "totals"}


@each_of("warm_up", [2, 3, 4, 5])
@each_of("every", [4, 5, 8, 10])
def test_the_shown_log_tells_all_mistakes_apart(warm_up, every):
    card = exercises.card("where-it-goes")
    row = judging(card.id).cases({**card.params, "warm_up": warm_up, "every": every}, random.Random(1))[0].args[1][0]
    named = [each for each in shipped(card.id, "wrong") if each.mistake in WRONG_PARTS]
    values = [functions_of(each)[0](*row) for each in [*shipped(card.id)[:1], *named]]
    assert len(named) == len(WRONG_PARTS)
    assert len({tuple(f"{part:.4g}" for part in each.values()) for each in values}) == 7
    assert len([each for each in row[0][warm_up:] if "checkpoint" in each["parts"]]) == 3


def test_recorded_steps_that_tell_their_parts_leave_little_over():
    logs = work.parted()
    assert logs
    for name, rows in logs.items():
        found = functions("where-it-goes")[0](rows, min(3, len(rows) - 1), 8)
        assert found["other"] < 0.5 * sum(found.values()), name


@each_of("which", work.sets_with("fsdp", "fsdp-kept"))
@each_of("name", ["fsdp", "fsdp-kept"])
def test_the_walk_comes_within_a_tenth_of_what_fsdp_really_held(which, name):
    run = recorded(f"{which}/{name}")
    parts = functions("fsdp-peak-gap")[0](work.fsdp_job(run))
    assert sum(parts.values()) == pytest.approx(run["measured"]["memory_bytes"], rel=0.1)
    assert parts["gradients"] == 0  # activations are the most of it, so the peak is where the backward pass begins


def test_a_recorded_job_is_the_models():
    run = recorded("cpu4/fsdp")
    one = work.fsdp_job(run)
    assert sum(one["units"]) + one["rest"] == run["setup"]["parameters"]
    assert one["width"] * (2 * one["units"][0] + one["rest"]) == run["predicted"]["memory"]["gathered"]
    assert 4 * run["setup"]["parameters"] / one["ranks"] == run["predicted"]["memory"]["weights"]


@each_of("which", work.sets_with("pp-gpipe", "pp-1f1b"))
def test_the_formula_comes_within_a_tenth_of_a_recorded_first_stage_and_1f1b_holds_less(which):
    seen = {}
    for schedule in ("gpipe", "1f1b"):
        run = recorded(f"{which}/pp-{schedule}")
        job, count = work.pipeline_job(run), run["setup"]["layout"]["micro_batches"]
        said = functions("pipeline-peaks")[0](job, schedule, count)[0]
        seen[schedule] = run["measured"]["memory_bytes"]
        assert said == pytest.approx(seen[schedule], rel=0.1), schedule
    assert seen["1f1b"] < seen["gpipe"]


def test_recorded_traces_are_asked_about_and_agree_with_what_was_written_down():
    traces, (step_times,) = work.traces(), functions("exposed-seconds")
    assert traces
    for name, found in traces.items():
        kernels = [(kind, 0, *span) for kind, each in found.items() for span in each]
        end = max(span[1] for each in found.values() for span in each)
        assert step_times(kernels, 0.0, end)["exposed"] == pytest.approx(intervals.exposed(found)), name


# --- faults and reports


def test_each_word_of_an_exercise_is_the_answer_to_some_unseen_case():
    words_of = {"smoke-test": SMOKE_WORDS, "read-the-traces": TRACE_WORDS, "shifted-labels": LABEL_WORDS}
    for exercise, words in {**words_of, "failure-zoo": failure_zoo.ZOO_WORDS}.items():
        secrets = [case.secret for case in cases_of(exercises.card(exercise)) if not case.visible and case.secret]
        assert {each if type(each) is str else each[0] for each in secrets} == set(words), exercise


def test_the_ring_as_it_was_found_works_where_sends_are_buffered_and_hangs_where_not():
    (found,) = functions("ring-that-hangs", "wrong", name="as it was found")

    def program(comm):
        return found(PointToPoint(comm), torch.full((3,), 10.0**comm.rank), lambda each, owner: each * (owner + 1))

    run = simulate(program, 4, buffering=math.inf)
    assert all(torch.equal(got, torch.full((3,), 4321.0)) for got in run.results)
    with pytest.raises(Exception, match="(?i)no rank can move"):
        simulate(program, 4)


@pytest.mark.slower
@each_of("fault", ["leak", "one batch", "order of sums", "bad batch", "warm-up again"])
def test_the_file_holds_what_the_trainings_give_when_they_are_run_again(fault):
    shipped, (again, norms) = trainings.shipped(), trainings.train(fault, 1)
    if fault in trainings.TRACES:
        kept = shipped["traces"][f"{fault}/1"]
        assert norms[:12] == pytest.approx(kept["norms"][:12], rel=1e-2)
    else:
        kept = shipped["smoke"][f"{fault}/1"][0]
        assert again["before"] == pytest.approx(kept["before"], rel=1e-4) and len(again["moved"]) == len(kept["moved"])
    assert again["losses"][:12] == pytest.approx(kept["losses"][:12], rel=1e-3)
    assert len(kept["losses"]) == trainings.STEPS


def test_every_training_that_is_asked_about_is_in_the_file():
    shipped = trainings.shipped()
    for kind, asked in (("smoke", trainings.SMOKE), ("traces", trainings.TRACES)):
        assert set(shipped[kind]) == {f"{fault}/{seed}" for fault in asked for seed in trainings.SEEDS}
    assert shipped["floors"] == pytest.approx([trainings.floor(seed) for seed in trainings.SEEDS], rel=1e-5)
    for name, runs in shipped["smoke"].items():
        assert (len(runs) == 2) == (trainings.SMOKE[name.split("/")[0]] == "not repeatable"), name


def test_the_floor_is_the_entropy_of_the_chain():
    coin = torch.Generator().manual_seed(3)
    rows = trainings.draw(trainings.chain(0), coin, 4000)
    surprise = -trainings.chain(0)[rows[:, -2], rows[:, -1]].log().mean().item()
    assert surprise == pytest.approx(trainings.floor(0), rel=0.03)


def test_thresholds_of_the_traces_are_not_near_any_of_them():
    def ratios_of(fault):
        for norms in (read_the_traces.trace_of(fault, seed)["norms"] for seed in trainings.SEEDS):
            yield max(norms) / norms[0], max(norms) / median(norms), median(norms[-5:]) / norms[0]

    for fault in set(trainings.TRACES) - {"bad batch", "explodes", "vanishes", "not zeroed"}:
        assert all(first < 5 and middle < 2.5 and last < 2 for first, middle, last in ratios_of(fault)), fault
    assert all(first > 500 for first, _, _ in ratios_of("explodes"))
    assert all(first < 70 and last > 30 for first, _, last in ratios_of("not zeroed"))
    assert all(first < 50 and middle > 8 for first, middle, _ in ratios_of("bad batch"))


def test_a_falling_loss_does_not_tell_a_sound_training():
    losses = {name: runs[0]["losses"] for name, runs in trainings.shipped()["smoke"].items()}
    fell = {trainings.SMOKE[name.split("/")[0]] for name, each in losses.items() if each[-1] < 0.75 * each[0]}
    assert fell >= {"sound", "leak", "memorizes", "frozen", "not repeatable"}


def test_notes_have_what_a_failing_run_writes(tmp_path):
    real = failure_drill_worker.Notes(tmp_path, 2)
    real.say("compute", 4)
    written = json.loads((tmp_path / "rank-2.json").read_text())
    notes, _, _ = failure_zoo.scene("none", random.Random(1), 3, 9, 1)
    assert set(notes[0]) == (set(written) - {"since"}) | {"torch", "checksums"}


def test_a_page_is_read_as_it_is_meant():
    page = "# A\n1. `cpu4/ddp`: 1,234.5 ms [a:b.c], 3.1e+03 MB [x:y / z:w] and 7 %[q:r]\nbut 12 are not, nor is 3 ms."
    found, rest = run_report.claims_of(page)
    assert [(claim.value, claim.unit, claim.fields) for claim in found] == [
        (1234.5, "ms", ("a:b.c",)),
        (3100.0, "MB", ("x:y", "z:w")),
        (7.0, "%", ("q:r",)),
    ]
    assert "12" in rest and "3 ms" in rest and "1." not in rest and "cpu4" not in rest


def test_a_field_is_found_or_is_none():
    runs = {"a/b": {"m": {"s": 2, "word": "x", "yes": True}}}
    assert run_report.field_of(runs, "a/b:m.s") == 2.0
    for source in ("a/b:m.word", "a/b:m.yes", "a/b:m", "a/b", "c:m.s", "a/b:m.s.t", ""):
        assert run_report.field_of(runs, source) is None, source


@pytest.mark.parametrize(("factor", "start"), [(0.2, 0), (30.0, 1)])
def test_the_report_is_judged_alike_whatever_was_recorded(factor, start, monkeypatch):
    def otherwise(name):
        content = copy.deepcopy(reading.recorded(name))
        for way, field in (("measured", "step_seconds"), ("predicted", "step_seconds"), ("measured", "memory_bytes")):
            content[way][field] *= factor
        return evidence.sealed(content)

    monkeypatch.setattr(run_report, "recorded", otherwise)
    for each in [*shipped("run-report"), *shipped("run-report", "wrong")[start::2]]:
        row = kill_matrix.judge(each, f"student-{factor}")
        assert row.ok, (each.name, row.got, row.message)


def test_what_was_never_restored_shows_at_the_step_in_which_the_run_went_on():
    for seed, resumed in zip(trainings.SEEDS, trainings.RESUMED, strict=True):
        found = {fault: read_the_traces.trace_of(fault, seed) for fault in trainings.TRACES}
        first = {
            fault: functions("read-the-traces")[0](trace["rates"], trace["planned"]) for fault, trace in found.items()
        }
        assert first["sound"] is first["resumed well"] is None and first["twice a step"] == 1
        for fault in ("warm-up again", "one step back", "one step ahead"):
            assert first[fault] == resumed == found[fault]["resumed"]


def test_half_as_long_is_as_far_off_as_twice_as_long():
    runs = {"a": run_report.made_up("a", 2.0, 1.0, 1e8), "b": run_report.made_up("b", 1.0, 2.0, 1e8)}
    case = Case(name="both", args=(runs,), kind="generality", part="worst")
    page = functions("run-report")[0](runs)
    for name in runs:
        told = page.replace("Worst predicted: `a`", f"Worst predicted: `{name}`")
        assert all(v.ok for v in judging("run-report").verdicts({}, case, Outcome(state="answered", value=told)))


def test_runs_that_are_shown_are_recorded():
    names = set(reading.recorded_names("train"))
    card = exercises.card("run-report")
    for seed in (None, *(str(number) for number in range(12))):
        assert {f"cpu4/{name}" for name in card.variant(seed)["shown"].split(", ")} <= names
    assert {"cpu2/fsdp", "cpu2/tp", "cpu2/ddp"} <= names
