"""What holds for every card, statement, drill and number of the course, and for every chapter's set of them."""

import importlib
import math
import re
import subprocess
import sys

import pytest

from contract.kit import CARDS, ONE_OF_MANY, as_kept, by_card, by_chapter, cases_of, graded, runs, shipped
from course_grader import exercises
from course_grader.exercises import Card
from course_grader.exercises.placeholders import PLACEHOLDER, chapter_values, fill_text
from course_grader.judging import Judging, drill_verdict, judging
from course_grader.judging.drills import keys_of
from course_grader.remote_ranks.trusted_pickle import pack
from course_grader.worker.runners import SwitchedOff, switched_off

LINES = 15  # of a core card before the cell to type in: what lies in folds and code is not counted
COLUMNS = 120
SEEDS = ("s1", "s2", "s3")
FEW_CORE = 6  # core exercises of a chapter
MEASURED = {  # the shares that rest on what a worker measures itself; everything else is the judge's own count
    "cost:memory": "write-checkpointing chunked-cross-entropy graphs-kept-alive ring-all-reduce fsdp-by-hand "
    "reshard-checkpoint column-and-row vocab-cross-entropy deadlocked-1f1b ring-attention ring-backward",
    "cost:graphs": "token-mean one-sync",
    "cost:traffic": "tiled-attention attention-backward",
    "cost:held": "tiled-attention attention-backward",
    "cost:overlap": "ddp-hooks ddp-buckets",
    "cost:state": "own-and-tell loss-stands-still",
    "cost:runs": "smoke-test",
    "protocol:rows": "run-any-schedule",
}
ROUGH = {"crossover": 0.02, "root-segments": 0.03}  # drills whose answer may be off by more than a hundredth
LEAKS = {  # numbers that a statement must not tell
    "state-13b": ("208", "10.7", "28.0", "54.0", " 3 GPUs", "2.6"),
    "train-days-7b": ("1,966", "1966", "1,965", " 66"),
    "mfu-waste": ("3.0", "43 %", "0.43", "2.22", "6.5"),
    "predict-weeks": ("25.7", "26 weeks"),
    "which-peak": ("989", "10.1", "5.0 ", "1,979"),
    "years-to-weeks": ("34.9", "1,393", "1393"),
    "mfu-bug": ("2.8 %", "0.028", "45 %", "0.45"),
    "cost-sensitivity": ("215", "221"),
    "audit-one-step": ("8.6 s", "43.4", "10.1"),
    "audit-run-length": (" 66 ", "78.4", "0.2 ", "20 %"),
    "matmul-intensity": ("1,365", "1365", "2,048", "0.25", "295"),
    "predict-decode-rate": ("208", "209", "61,"),
    "decode-batch": ("295", "296"),
    "fit-roofs": ("true_",),
    "tiled-intensity": ("197", "196"),
    "hierarchical-bandwidth": ("450", "7.14"),
    "audit-sheets": ("446", "450", "20×"),
}


def test_an_unknown_exercise_is_answered_by_the_nearest_names():
    name = CARDS[0].id
    with pytest.raises(ValueError, match=name):
        exercises.card(name[:-1])
    with pytest.raises(ValueError, match="chapter '99'"):
        exercises.cards("99")


def test_ids_are_unique_over_the_course():
    ids = [card.id for card in CARDS]
    assert len(ids) == len(set(ids)) > 100


def test_cards_can_be_listed_without_torch():
    code = (
        "import sys; from course_grader import exercises; "
        "assert exercises.cards() and all(exercises.drills(name) for name in exercises.chapters()); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@by_card
def test_a_card_is_complete_and_reads_well_in_every_variant(card: Card):
    assert card.text.strip() and card.title and judging(card.id).why.strip()
    assert card.minutes > 0 and card.points > 0 and card.answers
    assert len(set(card.hints)) == 3 and all(hint.strip() and not PLACEHOLDER.search(hint) for hint in card.hints)
    assert card.variant() == card.params
    assert not [leak for leak in LEAKS.get(card.id, ()) if leak in card.markdown()], "the statement tells the answer"
    named = {match.group(1) for match in PLACEHOLDER.finditer(card.text)}
    for params in (card.params, *(as_kept(card.variant(seed)) for seed in SEEDS)):
        text = card.markdown(params)
        assert set(params) == set(card.params) and not PLACEHOLDER.search(text) and "{{" not in text
        assert not [name for name in named if params[name] is None]
        for code in re.findall(r"```.*?```|`[^`\n]*`", text, flags=re.DOTALL):
            assert "\u00a0" not in code, "code in a statement can be copied as it stands"


@pytest.mark.rotates
@by_card
def test_cases_are_the_same_on_every_repeat_and_visible_ones_come_first(card: Card):
    cases = cases_of(card, "s")
    written = [repr(case) for case in cases]
    assert written == [repr(case) for case in cases_of(card, "s")]
    for case in cases:  # a worker gets them as messages: NotPlainData says which part of a case cannot be one
        pack((case.args, dict(case.kwargs), case.per_rank))
    assert not [case.name for case in cases if ONE_OF_MANY.search(case.name)]
    seen = [case.visible for case in cases]
    assert seen[0] and seen == sorted(seen, reverse=True)
    asked = any(case.args or case.kwargs or case.ranks for case in cases)
    assert not asked or not all(seen), "no unseen case: the example can be hard-coded"
    if not all(seen):
        others = [repr(case) for case in cases_of(card, "another") if not case.visible]
        assert written[-len(others) :] != others, "another secret draws other cases"


@pytest.mark.rotates
@by_card
def test_every_share_is_asked_for_nothing_else_is_and_points_split_without_a_remainder(card: Card):
    contract = judging(card.id)
    verdicts = [each for case, found in runs(card) for each in contract.verdicts(card.params, case, found)]
    assert {f"{each.kind}:{each.part}" for each in verdicts} == set(contract.shares)
    if card.form != "audit":
        for share, weight in contract.shares.items():
            assert round(card.points * weight, 2) == pytest.approx(card.points * weight), share


def lines_to_read(text: str) -> int:
    """Lines of a statement at `COLUMNS`, each paragraph and point by itself, without folds and fenced code."""
    plain = re.sub(r"<details.*?</details>|```.*?```", "", text, flags=re.S)
    blocks = [re.sub(r"\s+", " ", each) for each in re.split(r"\n\s*\n|\n(?=- |\d\. |\| )", plain)]
    return sum(math.ceil(len(each) / COLUMNS) for each in blocks if each.strip())


def test_a_core_card_is_short_to_the_first_thing_to_type():
    core = [card for card in CARDS if card.kind == "core"]
    long = {card.id: lines for card in core if (lines := lines_to_read(fill_text(card.text, card.params))) > LINES}
    assert not long


def test_answer_cells_say_that_a_variant_s_line_is_left_as_it_is():
    for card in CARDS:
        for line in re.findall(r"^\w+ = .*params\(\".*", shipped(card.id)[0].source, re.MULTILINE):
            assert "  # leave as is" in line or card.id == "capstone-plan", (card.id, line)


def test_at_most_a_quarter_rests_on_what_a_worker_measures():
    with pytest.raises(ValueError, match="quarter"):
        Judging(
            shares={"values:a": 0.7, "cost:b": 0.3},
            cases=lambda params, rng: [],
            verdicts=lambda params, case, outcome: [],
            why="",
            measured_by_worker=("cost:b",),
        )
    found = {(card.id, share) for card in CARDS for share in judging(card.id).measured_by_worker}
    assert found == {(exercise, share) for share, cards in MEASURED.items() for exercise in cards.split()}


@by_card
def test_no_text_of_a_new_exercise_was_left_to_be_written(card: Card):
    texts = [
        card.title,
        card.text,
        *card.hints,
        judging(card.id).why,
        *(each.name for each in shipped(card.id, "wrong")),
    ]
    assert not [text for text in texts if "WRITE" in text], "replace what the scaffold marks with WRITE"
    assert "WRITE" not in getattr(card.returns, "words", ""), "give the unit of what the card returns"


@by_card
def test_the_bank_holds_enough_answers(card: Card):
    right = shipped(card.id)
    assert len(right) >= 2 and len(shipped(card.id, "wrong")) >= 4
    assert len({answer.source for answer in right}) == len(right)


@by_chapter
def test_every_kind_of_verdict_decides_some_wrong_answer(chapter: str):
    cards = exercises.cards(chapter)
    kinds = {share.split(":")[0] for card in cards for share in judging(card.id).shares}
    assert kinds <= {answer.expected for card in cards for answer in shipped(card.id, "wrong")}


@by_card
def test_what_is_hidden_is_off_while_an_answer_runs_and_comes_back(card: Card):
    for name in card.hides:
        module, _, function = name.partition(":")
        target = getattr(importlib.import_module(module), function)
        before = target.__code__
        with switched_off((name,)), pytest.raises(SwitchedOff, match=function):
            target()
        report = graded(card.id, *[lambda *_, target=target: target()] * len(card.answers))
        assert report.points <= 0.1 * report.maximum and "switched off" in report.verdicts[0].message, name
        assert target.__code__ is before


@by_chapter
def test_a_chapter_rises_and_holds_what_every_chapter_holds(chapter: str):
    cards, core = exercises.cards(chapter), [card for card in exercises.cards(chapter) if card.kind == "core"]
    most = 15 if chapter == "00" else 90
    assert sum(card.minutes for card in core) <= most and 2 <= len(core) <= FEW_CORE
    assert any(card.structural for card in cards), "no structural variant"
    keys = keys_of(chapter)
    assert set(keys) == {drill.id for drill in exercises.drills(chapter)}
    if chapter != "00":
        assert {"prediction", "audit", "bug"} <= {card.form for card in cards}
        assert core[0].minutes <= 5 and len(keys) >= 8


@by_chapter
def test_numbers_in_prose_are_texts(chapter: str):
    values = chapter_values(chapter, {})
    numbers = {name: value for name, value in values.items() if name.startswith(f"{chapter}.")}
    for name, value in numbers.items():
        assert isinstance(value, str) and re.search(r"\d", value) and not re.search(r"\b(nan|inf|None)\b", value), name


@by_chapter
def test_drills_are_answered_by_their_keys_and_by_nothing_else(chapter: str):
    keys = keys_of(chapter)
    for drill in exercises.drills(chapter):
        key, shown = keys[drill.id], set()
        assert key.rel <= ROUGH.get(drill.id, 0.01), drill.id
        for seed in range(30):
            drawn = drill.variant(str(seed))
            want, question = key.answer(drawn.params), drawn.question()
            assert math.isfinite(want) and want >= 0 and question and not PLACEHOLDER.search(question), (drill.id, seed)
            assert drill_verdict(drawn, want)[0]
            for other in (want * (1 + 1.1 * key.rel) or 1, want * 1.5 + 1, -want - 1, math.nan):
                ok, message = drill_verdict(drawn, other)
                assert not ok and message
            for value, told in key.mistakes_on(drawn.params):
                ok, message = drill_verdict(drawn, value)
                assert not ok and told in message, (drill.id, seed, told)
                shown.add(told)
        assert len(shown) == len(key.mistakes), f"{drill.id}: a mistake never differs from the right answer"
