"""Chapter 15's exercises on faults: trainings and failures can be told apart by their numbers, pages are read as meant, nothing returned upsets a judge."""

import copy
import dataclasses
import json
import math
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import exercises
from course_lib.cluster import simulate
from course_lib.exercises import killmatrix
from course_lib.exercises.ch15.cards.faults import CARDS, LABEL_WORDS, SMOKE_WORDS
from course_lib.exercises.ch15.cards.faults_more import TRACE_WORDS, ZOO_WORDS
from course_lib.exercises.ch15.judges import faults as ch15_faults
from course_lib.exercises.ch15.judges import faults_report as ch15_faults_report
from course_lib.exercises.ch15.judges import faults_trainings as trainings
from course_lib.exercises.ch15.judges.faults_labels import MARK, broken, cut, stream_of
from course_lib.exercises.ch15.judges.faults_report import claims_of, field_of, made_up, ratios
from course_lib.exercises.ch15.judges.faults_smoke import trace_of, wrong_step
from course_lib.exercises.ch15.judges.faults_zoo import UNSEEN, scene
from course_lib.exercises.point_to_point import PointToPoint
from course_lib.grading.judge import grade
from course_lib.grading.worker.runners import InProcess
from course_lib.judging import judging
from course_lib.records import Case, Outcome
from course_lib.runs import evidence, failing, reading

SEEDS = [f"student-{n}" for n in range(3)]
PLAIN = [card for card in CARDS if card.id != "ring-that-hangs"]


def bank_answers(exercise, sort="right", number=0, name=None):
    found = [
        each
        for each in killmatrix.bank("15")
        if each.exercise == exercise and each.sort == sort and name in (None, each.name)
    ]
    return killmatrix.names_of(found[number].source, exercises.card(exercise).answers)


def judged(exercise, *answers, **options):
    return grade(exercises.card(exercise), InProcess(*answers), **options)


def mistakes(report):
    return {v.mistake for v in report.verdicts if not v.ok}


def cases_of(card, seed=1):
    return ch15_faults.JUDGINGS[card.id].cases(card.params, random.Random(seed))


# --- the cards


def test_every_card_has_its_judge_and_enough_answers_in_the_bank():
    assert set(ch15_faults.JUDGINGS) == {card.id for card in CARDS} and len(CARDS) == 6
    for card in CARDS:
        mine = [each.sort for each in killmatrix.bank("15") if each.exercise == card.id]
        assert mine.count("right") >= 2 and mine.count("wrong") >= 8 and mine.count("half") == 1, card.id


def test_every_kind_of_verdict_decides_somewhere():
    ids = {card.id for card in CARDS}
    assert {each.expected for each in killmatrix.bank("15") if each.exercise in ids and each.sort == "wrong"} >= {
        "values",
        "cost",
        "protocol",
        "generality",
        "not-answered",
    }


def test_cards_can_be_listed_without_torch():
    code = f"import sys; from course_lib.exercises.ch15.cards import faults; sys.exit('torch' in sys.modules or len(faults.CARDS) != {len(CARDS)})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_statements_have_all_their_numbers_in_every_variant(card):
    for params in (card.params, *(card.variant(seed) for seed in SEEDS)):
        assert "{{" not in card.markdown(params)


def test_each_word_of_an_exercise_is_the_answer_to_some_unseen_case():
    for exercise, words, of in (
        ("smoke-test", SMOKE_WORDS, str),
        ("read-the-traces", TRACE_WORDS, str),
        ("shifted-labels", LABEL_WORDS, str),
        ("failure-zoo", ZOO_WORDS, lambda s: s[0]),
    ):
        unseen = [
            of(case.secret)
            for case in cases_of(exercises.card(exercise))
            if not case.visible and case.secret is not None
        ]
        assert set(unseen) == set(words), exercise


# --- variants


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_right_answers_pass_every_variant(card, seed):
    params = card.variant(seed)
    numbers = (0, 1) if not card.structural else ()
    for each in [bank_answers(card.id, number=number) for number in numbers] or [labels_for(params["marks"])]:
        report = grade(card, InProcess(*each), params=params, secret=seed)
        assert report.passed, [v for v in report.verdicts if not v.ok]


def labels_for(marks):
    side = 0 if marks == "ends" else 1

    def labelled(stream, length, mark):
        rows = (len(stream) - 1) // length
        pair = [stream[begin : begin + rows * length].view(rows, length) for begin in (0, 1)]
        return (*pair, pair[side] != mark)

    def label_fault(inputs, targets, counts, mark):
        if not inputs.shape == targets.shape == counts.shape:
            return "shape"
        right = (inputs, targets)[side] != mark
        table = {
            "not shifted": torch.equal(inputs, targets),
            "shifted twice": torch.equal(targets[:, :-2], inputs[:, 2:]),
            "wrapped": torch.equal(targets[:, -1], inputs[:, 0]),
            "crosses documents": bool((counts & ~right).any()),
            "hides labels": bool((right & ~counts).any()),
        }
        return next((word for word, yes in table.items() if yes), "fine")

    return labelled, label_fault


def test_the_structural_variant_is_told_apart_from_the_public_form():
    card = exercises.card("shifted-labels")
    params = card.variant("student")
    assert params["marks"] == "begins" and card.params["marks"] == "ends"
    assert (
        grade(card, InProcess(*labels_for("begins")), params=params).passed
        and grade(card, InProcess(*labels_for("ends"))).passed
    )
    public = grade(card, InProcess(*labels_for("ends")), params=params)
    assert not public.passed and "public-form" in mistakes(public)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_wrong_answers_fail_whatever_cases_are_drawn(card):
    for each in killmatrix.bank("15"):
        if each.exercise == card.id and each.sort == "wrong":
            assert not grade(
                card, InProcess(*killmatrix.names_of(each.source, card.answers)), secret="another"
            ).passed, each.name


# --- what comes back is never trusted

LOOP: list = []
LOOP.append([LOOP])
ROW = torch.zeros(6)
JUNK = [
    None,
    True,
    3,
    -1.0,
    math.nan,
    math.inf,
    10**400,
    "sum",
    b"x",
    [],
    [1, 9],
    (),
    {},
    {"a": 1},
    object(),
    torch.tensor(math.nan),
    ROW,
    [None] * 3,
    [[None]] * 4,
    LOOP,
    "1" * 10_000,
    {"word": None, "runs": 2},
    {"word": "sound", "runs": math.nan},
    {"word": [], "runs": 2},
    {"word": {}, "runs": 10**400},
    {"total": None, "owners": [], "block": None},
    {"total": ROW, "owners": "x", "block": ROW},
    {"total": ROW, "owners": [None], "block": ROW},
    {"total": 3, "owners": [0, 1, 2, 3], "block": 4},
    [ROW] * 3,
    [ROW, ROW, None],
    [torch.zeros(2, 2)] * 3,
    ["sounds"],
    [("killed", 1, 2)],
    ("killed", None, None),
    ("killed", 10**400, math.nan),
    (None, None, None),
    ([], {}, ()),
    "`a` 3 ms [cpu4/ddp:]",
    "3 ms [a / b / c]",
    "1e999 s [cpu4/ddp:measured.step_seconds]",
    "3 ms [cpu4/ddp:measured]",
    "5,,, s [:]",
    "Worst predicted: `x`",
]


def a_meter(ranks, each=0):
    row = [each] * ranks
    return {
        "bytes_sent": row,
        "bytes_received": row,
        "messages_sent": row,
        "messages_received": row,
        "steps": row,
        "calls": row,
        "collectives": row,
        "pairs": [],
        "seconds": 1e-5,
    }


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_junk_gets_a_message_and_no_point(card):
    contract = judging(card.id)
    for case in cases_of(card, 7):
        for junk in JUNK:
            value = junk if case.ranks is None else [junk] * case.ranks
            found = contract.verdicts(
                card.params, case, Outcome(state="answered", value=value, meter=a_meter(case.ranks or 1))
            )
            wrong = [v for v in found if not v.ok]
            assert wrong and all(v.message for v in wrong), (case.name, junk)


FIRST = [(card, case) for card in CARDS for case in cases_of(card, 3)[:2]]


@settings(max_examples=50, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.tuples(inner, inner, inner)
            | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        ),
        max_leaves=8,
    )
)
def test_no_value_upsets_the_judges(value):
    for card, case in FIRST:
        got = value if case.ranks is None else [value] * case.ranks
        judging(card.id).verdicts(
            card.params, case, Outcome(state="answered", value=got, meter=a_meter(case.ranks or 1))
        )


# --- the ring


def found_ring():
    return bank_answers("ring-that-hangs", "wrong", name="as it was found")[0]


def test_the_ring_as_it_was_found_works_where_sends_are_buffered_and_hangs_where_not():
    def program(comm, block):
        return found_ring()(PointToPoint(comm), block, lambda each, owner: each * (owner + 1))

    blocks = [torch.full((3,), 10.0**rank) for rank in range(4)]
    run = simulate(program, 4, per_rank=[(block.clone(),) for block in blocks], buffering=math.inf)
    assert all(torch.equal(got, torch.full((3,), 4321.0)) for got in run.results)
    with pytest.raises(Exception, match="(?i)no rank can move"):
        simulate(program, 4, per_rank=[(block.clone(),) for block in blocks])


def test_what_knows_the_sum_without_being_told_loses_its_cost():
    card, contract = exercises.card("ring-that-hangs"), ch15_faults.JUDGINGS["ring-that-hangs"]
    case = cases_of(card)[0]
    honest = InProcess(*bank_answers(card.id)).run(card, case)
    assert all(v.ok for v in contract.verdicts(card.params, case, honest))
    silent = contract.verdicts(card.params, case, dataclasses.replace(honest, meter=a_meter(case.ranks)))
    assert all(v.ok for v in silent if v.kind == "values") and any(not v.ok for v in silent if v.kind == "cost")


# --- labels


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


@pytest.mark.parametrize("marks", ["ends", "begins"])
def test_a_broken_batch_has_the_one_fault_that_it_is_to_have(marks):
    tell = labels_for(marks)[1]
    for seed in range(40):
        rng = random.Random(seed)
        for word in LABEL_WORDS:
            assert (
                tell(
                    *broken(
                        word,
                        stream_of(rng, [rng.randrange(4, 8) for _ in range(9)], marks),
                        rng.choice((6, 8, 9)),
                        marks,
                        rng,
                    ),
                    MARK,
                )
                == word
            )


# --- trainings


@pytest.mark.parametrize("fault", ["leak", "one batch", "order of sums"])
def test_the_file_holds_what_the_trainings_give_when_they_are_run_again(fault):
    kept = trainings.shipped()["smoke"][f"{fault}/1"]
    again = trainings.train(fault, 1)
    assert again["losses"][:12] == pytest.approx(kept[0]["losses"][:12], rel=1e-3)
    assert again["before"] == pytest.approx(kept[0]["before"], rel=1e-4) and len(again["moved"]) == len(
        kept[0]["moved"]
    )


@pytest.mark.parametrize("fault", ["bad batch", "warm-up again"])
def test_traces_are_those_of_the_trainings(fault):
    kept, again = trainings.shipped()["traces"][f"{fault}/0"], trainings.train(fault, 0)
    assert again["norms"][:12] == pytest.approx(kept["norms"][:12], rel=1e-2) and len(kept["norms"]) == trainings.STEPS


def test_every_training_that_is_asked_about_is_in_the_file():
    shipped = trainings.shipped()
    assert set(shipped["smoke"]) == {f"{fault}/{seed}" for fault in trainings.SMOKE for seed in trainings.SEEDS}
    assert set(shipped["traces"]) == {f"{fault}/{seed}" for fault in trainings.TRACES for seed in trainings.SEEDS}
    assert shipped["floors"] == pytest.approx([trainings.floor(seed) for seed in trainings.SEEDS], rel=1e-5)
    assert all(
        (len(runs) == 2) == (trainings.SMOKE[name.split("/")[0]] == "not repeatable")
        for name, runs in shipped["smoke"].items()
    )


def test_the_floor_is_the_entropy_of_the_chain():
    coin = torch.Generator().manual_seed(3)
    rows = trainings.draw(trainings.chain(0), coin, 4000)
    surprise = -trainings.chain(0)[rows[:, -2], rows[:, -1]].log().mean().item()
    assert surprise == pytest.approx(trainings.floor(0), rel=0.03)


@pytest.mark.parametrize("number", [0, 1])
def test_every_trace_can_be_told_by_its_numbers_alone(number):
    _, cause = bank_answers("read-the-traces", number=number)
    for fault, word in trainings.TRACES.items():
        assert [cause(trace_of(fault, seed)) for seed in trainings.SEEDS] == [word] * len(trainings.SEEDS), fault


def test_thresholds_of_the_traces_are_not_near_any_of_them():
    def ratios_of(fault, seed):
        norms = trace_of(fault, seed)["norms"]
        return max(norms) / norms[0], max(norms) / sorted(norms)[len(norms) // 2], sorted(norms[-5:])[2] / norms[0]

    calm = [
        ratios_of(fault, seed)
        for fault in trainings.TRACES
        for seed in trainings.SEEDS
        if fault not in ("bad batch", "explodes", "vanishes", "not zeroed")
    ]
    assert (
        max(first for first, _, _ in calm) < 5
        and max(middle for _, middle, _ in calm) < 2.5
        and max(last for _, _, last in calm) < 2
    )
    for seed in trainings.SEEDS:
        assert (
            ratios_of("explodes", seed)[0] / 100 > 5
            and ratios_of("not zeroed", seed)[0] < 70
            and ratios_of("bad batch", seed)[0] < 50
        )
        assert ratios_of("bad batch", seed)[1] > 8 and ratios_of("not zeroed", seed)[2] > 30


def _wrong_step(fault, seed):
    trace = trace_of(fault, seed)
    return wrong_step(trace["rates"], trace["planned"])


def test_what_was_never_restored_shows_at_the_step_in_which_the_run_went_on():
    for seed in trainings.SEEDS:
        assert _wrong_step("sound", seed) is _wrong_step("resumed well", seed) is None
        for fault in ("warm-up again", "one step back", "one step ahead"):
            assert _wrong_step(fault, seed) == trainings.RESUMED[seed] == trace_of(fault, seed)["resumed"]
        assert _wrong_step("twice a step", seed) == 1


def test_a_falling_loss_does_not_tell_a_sound_training():
    fell = {
        fault
        for fault in trainings.SMOKE
        for seed in trainings.SEEDS
        if (kept := trainings.shipped()["smoke"][f"{fault}/{seed}"][0]["losses"])[-1] < 0.75 * kept[0]
    }
    assert {trainings.SMOKE[fault] for fault in fell} >= {"sound", "leak", "memorises", "frozen", "not repeatable"}


# --- failures


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("what", UNSEEN)
def test_every_failure_can_be_told_by_its_notes_and_exits(what, number):
    tell = bank_answers("failure-zoo", number=number)[0]
    for seed in range(30):
        rng = random.Random(f"{what}:{seed}")
        ranks = rng.choice((3, 4, 7))
        notes, exits, answer = scene(what, rng, ranks, rng.choice((9, 12)), rng.randrange(ranks))
        assert tuple(tell(notes, exits)) == answer and answer[0] in ZOO_WORDS
        assert sorted(note["rank"] for note in notes) == list(range(ranks)) and {pid for _, pid, _ in exits} == {
            note["pid"] for note in notes
        }


def test_notes_have_what_a_failing_run_writes(tmp_path):
    real = failing.Notes(tmp_path, 2)
    real.say("compute", 4)
    written = json.loads((tmp_path / "rank-2.json").read_text())
    notes, _, _ = scene("none", random.Random(1), 3, 9, 1)
    assert set(notes[0]) == (set(written) - {"since"}) | {"torch", "checksums"}


# --- the report


def test_a_page_is_read_as_it_is_meant():
    page = "# A\n1. `cpu4/ddp`: 1,234.5 ms [a:b.c], 3.1e+03 MB [x:y / z:w] and 7 %[q:r]\nbut 12 are not, nor is 3 ms."
    found, rest = claims_of(page)
    assert [(claim.value, claim.unit, claim.fields) for claim in found] == [
        (1234.5, "ms", ("a:b.c",)),
        (3100.0, "MB", ("x:y", "z:w")),
        (7.0, "%", ("q:r",)),
    ]
    assert "12" in rest and "3 ms" in rest and "1." not in rest and "cpu4" not in rest


def test_a_field_is_found_or_is_none():
    runs = {"a/b": {"m": {"s": 2, "word": "x", "yes": True}}}
    assert field_of(runs, "a/b:m.s") == 2.0
    assert [
        field_of(runs, source) for source in ("a/b:m.word", "a/b:m.yes", "a/b:m", "a/b", "c:m.s", "a/b:m.s.t", "")
    ] == [None] * 7


def test_half_as_long_is_as_far_off_as_twice_as_long():
    runs = {"a": made_up("a", 2.0, 1.0, 1e8), "b": made_up("b", 1.0, 2.0, 1e8)}
    assert ratios(runs) == {"a": 2.0, "b": 0.5}
    case = Case(name="both", args=(runs,), kind="generality", part="worst")
    page = bank_answers("run-report")[0](runs)
    for name in runs:
        told = page.replace("Worst predicted: `a`", f"Worst predicted: `{name}`")
        assert all(
            v.ok for v in ch15_faults.JUDGINGS["run-report"].verdicts({}, case, Outcome(state="answered", value=told))
        )


@pytest.mark.parametrize("factor", [0.2, 1.0, 30.0])
def test_the_report_is_judged_alike_whatever_was_recorded(factor, monkeypatch):
    def otherwise(name):
        content = copy.deepcopy(reading.recorded(name))
        content["measured"]["step_seconds"] *= factor
        content["predicted"]["step_seconds"] *= factor
        content["measured"]["memory_bytes"] *= factor
        return evidence.sealed(content)

    monkeypatch.setattr(ch15_faults_report, "recorded", otherwise)
    for each in killmatrix.bank("15"):
        if each.exercise == "run-report":
            row = killmatrix.judge(dataclasses.replace(each), f"student-{factor}" if factor != 1 else None)
            assert row.ok, (each.name, row.got, row.message)


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
