"""Chapter 15's exercises on faults and reports: cases mean what they say, and what ships is what the trainings give."""

import copy
import json
import math
import random
from statistics import median

import pytest
import torch
from contract.kit import cases_of, functions, shipped

from course_lib import exercises
from course_lib.cluster import simulate
from course_lib.exercises import killmatrix
from course_lib.exercises.ch15.cards.faults import LABEL_WORDS, SMOKE_WORDS, TRACE_WORDS, ZOO_WORDS
from course_lib.exercises.ch15.judges import faults_report as report
from course_lib.exercises.ch15.judges import faults_smoke as smoke
from course_lib.exercises.ch15.judges import faults_trainings as trainings
from course_lib.exercises.ch15.judges import faults_zoo as zoo
from course_lib.exercises.point_to_point import PointToPoint
from course_lib.judging import judging
from course_lib.records import Case, Outcome
from course_lib.runs import evidence, failing, reading


def test_each_word_of_an_exercise_is_the_answer_to_some_unseen_case():
    words_of = {"smoke-test": SMOKE_WORDS, "read-the-traces": TRACE_WORDS, "shifted-labels": LABEL_WORDS}
    for exercise, words in {**words_of, "failure-zoo": ZOO_WORDS}.items():
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


@pytest.mark.parametrize("fault", ["leak", "one batch", "order of sums", "bad batch", "warm-up again"])
def test_the_file_holds_what_the_trainings_give_when_they_are_run_again(fault):
    shipped, again = trainings.shipped(), trainings.train(fault, 1)
    if fault in trainings.TRACES:
        kept = shipped["traces"][f"{fault}/1"]
        assert again["norms"][:12] == pytest.approx(kept["norms"][:12], rel=1e-2)
    else:
        kept = shipped["smoke"][f"{fault}/1"][0]
        assert again["before"] == pytest.approx(kept["before"], rel=1e-4) and len(again["moved"]) == len(kept["moved"])
    assert (
        again["losses"][:12] == pytest.approx(kept["losses"][:12], rel=1e-3) and len(kept["losses"]) == trainings.STEPS
    )


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
        for norms in (smoke.trace_of(fault, seed)["norms"] for seed in trainings.SEEDS):
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
    real = failing.Notes(tmp_path, 2)
    real.say("compute", 4)
    written = json.loads((tmp_path / "rank-2.json").read_text())
    notes, _, _ = zoo.scene("none", random.Random(1), 3, 9, 1)
    assert set(notes[0]) == (set(written) - {"since"}) | {"torch", "checksums"}


def test_a_page_is_read_as_it_is_meant():
    page = "# A\n1. `cpu4/ddp`: 1,234.5 ms [a:b.c], 3.1e+03 MB [x:y / z:w] and 7 %[q:r]\nbut 12 are not, nor is 3 ms."
    found, rest = report.claims_of(page)
    assert [(claim.value, claim.unit, claim.fields) for claim in found] == [
        (1234.5, "ms", ("a:b.c",)),
        (3100.0, "MB", ("x:y", "z:w")),
        (7.0, "%", ("q:r",)),
    ]
    assert "12" in rest and "3 ms" in rest and "1." not in rest and "cpu4" not in rest


def test_a_field_is_found_or_is_none():
    runs = {"a/b": {"m": {"s": 2, "word": "x", "yes": True}}}
    assert report.field_of(runs, "a/b:m.s") == 2.0
    for source in ("a/b:m.word", "a/b:m.yes", "a/b:m", "a/b", "c:m.s", "a/b:m.s.t", ""):
        assert report.field_of(runs, source) is None, source


@pytest.mark.parametrize(("factor", "start"), [(0.2, 0), (30.0, 1)])
def test_the_report_is_judged_alike_whatever_was_recorded(factor, start, monkeypatch):
    def otherwise(name):
        content = copy.deepcopy(reading.recorded(name))
        for way, field in (("measured", "step_seconds"), ("predicted", "step_seconds"), ("measured", "memory_bytes")):
            content[way][field] *= factor
        return evidence.sealed(content)

    monkeypatch.setattr(report, "recorded", otherwise)
    for each in [*shipped("run-report"), *shipped("run-report", "wrong")[start::2]]:
        row = killmatrix.judge(each, f"student-{factor}")
        assert row.ok, (each.name, row.got, row.message)


def test_what_was_never_restored_shows_at_the_step_in_which_the_run_went_on():
    for seed, resumed in zip(trainings.SEEDS, trainings.RESUMED, strict=True):
        found = {fault: smoke.trace_of(fault, seed) for fault in trainings.TRACES}
        first = {fault: smoke.wrong_step(trace["rates"], trace["planned"]) for fault, trace in found.items()}
        assert first["sound"] is first["resumed well"] is None and first["twice a step"] == 1
        for fault in ("warm-up again", "one step back", "one step ahead"):
            assert first[fault] == resumed == found[fault]["resumed"]


def test_half_as_long_is_as_far_off_as_twice_as_long():
    runs = {"a": report.made_up("a", 2.0, 1.0, 1e8), "b": report.made_up("b", 1.0, 2.0, 1e8)}
    assert report.ratios(runs) == {"a": 2.0, "b": 0.5}
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


def test_a_changed_file_is_found_by_its_hash_alone():
    run = report.made_up("a", 2.0, 1.0, 1e8)
    assert evidence.digest(run) == run["sha256"]
    run["measured"]["step_seconds"] = 1.9
    assert evidence.digest(run) != run["sha256"] and report.ratios({"a": run}) == {}
