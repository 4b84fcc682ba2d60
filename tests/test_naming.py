"""Mistakes are named by running them, and `course exercise try` judges answers from anywhere."""

import json

import numpy
import pytest

from course_app import cli
from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.bank.answer_bank import read_bank, worked_cell
from course_grader.judging import worked
from course_grader.judging.naming import mistakes_of
from course_grader.judging.shipped import answers as bank_of
from course_grader.judging.shipped import answers_text
from course_grader.judging.worked import Worked, judged_variant
from tests.tables import each_card, each_of

HEAD = """from course_lib.estimate import memory; from course_lib import params
import math
PER = sum(memory.CONVENTIONS[params("state-13b").convention].buckets.values())
"""
RIGHT = {
    "training_state": "def training_state(params):\n    return params * PER\n",
    "fewest_gpus": "def fewest_gpus(nbytes, gpu_memory):\n    return max(1, math.ceil(nbytes / gpu_memory))\n",
    "headroom": "def headroom(nbytes, gpu_memory, gpus):\n    return gpu_memory - nbytes / gpus\n",
}


def report_on(seed=None, **changed):
    """The report on an answer to state-13b in which some functions have other results."""
    bodies = {
        name: RIGHT[name] if name not in changed else f"{RIGHT[name].splitlines()[0]}\n    return {changed[name]}\n"
        for name in RIGHT
    }
    (answer,) = read_bank("# %% right: it\n" + HEAD + "\n".join(bodies.values()), "state-13b", "here")
    return kill_matrix.judge(answer, seed).report


def told(report):
    return {(v.part, v.mistake, v.message) for v in report.verdicts if not v.ok and v.case != "other sizes"}


@each_of("seed", [None, "3"])
def test_a_mistake_is_named_where_another_program_does_the_same(seed):
    report = report_on(seed, headroom="(gpu_memory * gpus - nbytes)", fewest_gpus="nbytes // gpu_memory")
    by_part = {part: (name, message) for part, name, message in told(report)}
    assert by_part["headroom"][0] == "all-gpus-together"
    assert by_part["headroom"][1].endswith(": this is the headroom of all GPUs together.")
    assert by_part["fewest"][0] == "rounded-down"


@each_of(
    "wrong",
    {"headroom": "(gpu_memory - nbytes / gpus) * 1.0317"},
    {"training_state": "params * PER + 12345.0"},
    {"fewest_gpus": "math.ceil(nbytes / gpu_memory) + 2"},
)
def test_what_no_mistake_does_is_told_without_a_cause(wrong):
    for _, name, message in told(report_on(**wrong)):
        assert not name and "got" in message


def test_two_mistakes_at_once_are_each_named_in_their_own_part():
    names = {name for _, name, _ in told(report_on(training_state="params * 2", headroom="nbytes / gpus"))}
    assert names == {"weights-only", "the-share"}


def test_a_mistake_that_leads_to_the_right_value_in_a_case_names_nothing_there():
    report = report_on(headroom="max(0, gpu_memory - nbytes / gpus)")
    assert {v.kind for v in report.verdicts if not v.ok} == {"generality"}
    assert {v.mistake for v in report.verdicts if not v.ok} == {"cut-at-zero"}


def test_on_ranks_the_same_bytes_and_results_name_a_mistake():
    source = worked_cell(answers_text("reduce-scatter-half"))
    wrong = "import torch\nfrom course_lib import params\n" + source.replace(
        "return chunks[own]", "return torch.mul(chunks[own], 1 / n)"
    )
    (answer,) = read_bank("# %% right: it\n" + wrong, "reduce-scatter-half", "here")
    failing = [v for v in kill_matrix.judge(answer).report.verdicts if not v.ok and v.kind == "values"]
    assert {v.mistake for v in failing} == {"mean"}
    assert failing[0].message.startswith("Rank 0 of 4: this is the sum divided")


@each_card()
def test_each_sentence_is_a_sentence_and_belongs_to_one_name(card):
    for _, name, sentence in mistakes_of(card.id):
        assert name and sentence.rstrip().endswith((".", "?", ")", "`", "}}")), sentence


def test_a_mistake_must_fit_every_failing_case_of_a_share(monkeypatch):
    """Also those beyond the first few, on which all mistakes are tried."""
    from course_grader.judging import naming

    monkeypatch.setattr(naming, "CASES", 2)
    source = worked_cell(answers_text("reduce-scatter-half"))
    wrong = "return chunks[own] / n if n < 5 else chunks[own] * 3 + 1"
    source = "import torch\nfrom course_lib import params\n" + source.replace("return chunks[own]", wrong)
    (answer,) = read_bank("# %% right: it\n" + source, "reduce-scatter-half", "here")
    failing = [v for v in kill_matrix.judge(answer).report.verdicts if not v.ok]
    assert {v.mistake for v in failing if v.part == "chunk"} == {"mean"}  # three and four ranks
    assert "mean" not in {v.mistake for v in failing if v.kind == "generality"}  # up to eleven ranks


def test_the_worked_answer_has_the_numbers_of_the_variant_that_is_judged():
    card = exercises.card("state-13b")
    right = Worked("state-13b")
    assert right[0](1e9) == 16e9
    params = next(p for seed in range(50) if (p := card.variant(str(seed)))["convention"] == "C")
    with judged_variant("state-13b", params):
        assert right[0](1e9) != 16e9
    assert right[0](1e9) == 16e9


def test_judging_a_right_answer_runs_no_mistake(monkeypatch):
    from course_grader.judging import naming

    monkeypatch.setattr(naming, "outcome_of", lambda *given: pytest.fail("a mistake was run"))
    assert report_on().passed


def test_answers_from_anywhere_are_judged_in_the_form_of_the_bank(tmp_path, capsys):
    (tmp_path / "two.py").write_text(
        HEAD
        + "\n# %% right: plain\n"
        + "\n".join(RIGHT.values())
        + "\n# %% wrong: all of them => values all-gpus-together  from: plain\n# ~ - nbytes / gpus ==> * "
        "gpus - nbytes\n"
    )
    (tmp_path / "whole.py").write_text(HEAD + RIGHT["training_state"])
    assert cli.run(["exercise", "try", "state-13b", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["points"] for each in found] == [5.0, found[1]["points"], 0.0]
    assert found[1]["mistake"] == "all-gpus-together" and found[1]["as_meant"]
    assert "does not define 'fewest_gpus'" in found[2]["message"]
    (tmp_path / "two.py").write_text("# %% wrong: nothing\nx = 1\n")
    assert cli.run(["exercise", "try", "state-13b", str(tmp_path / "two.py")]) == 1
    assert "two.py:1" in capsys.readouterr().err


def judged_source(exercise, source):
    """The report on an answer that is given as text."""
    (answer,) = read_bank(f"# %% right: it\n{source}", exercise, "here")
    return kill_matrix.judge(answer).report


SCHEDULES = """def naive_rows(p, m):
    return [[(kind, s, x) for x in range(m) for kind in "FB"] for s in range(p)]

def gpipe_rows(p, m):
    return [[(kind, s, x) for kind in "FB" for x in range(m)] for s in range(p)]

def one_f_one_b_rows(p, m):
    rows = []
    for s in range(p):
        ahead, row = HOW, []
        for at in range(m + ahead):
            row += [("F", s, at)] * (at < m) + [("B", s, at - ahead)] * (at >= ahead)
        rows.append(row[::1])
    return rows
"""


@each_of(
    "how, name",
    ("min(p - s, m)", "warm-up-long"),  # what the judge finds is the same, whatever the order of the rest
    ("min(p - s + 2, m)", "too-much-memory"),
)
def test_where_many_values_are_right_a_mistake_is_known_by_what_the_judge_finds(how, name):
    report = judged_source("three-schedules", SCHEDULES.replace("HOW", how).replace("row[::1]", "[None, *row]"))
    assert {v.mistake for v in report.verdicts if v.part == "memory" and not v.ok} == {name}


def test_a_shipped_wrong_answer_can_be_asked_by_its_name():
    assert Worked("uneven-layers").wrong("equal counts", [1.0, 1.0, 1.0, 9.0], 2) == [2, 2]
    assert Worked("uneven-layers")([1.0, 1.0, 1.0, 9.0], 2) == [3, 1]


def test_a_worked_answer_is_asked_once_for_plain_data_and_every_caller_gets_a_copy(monkeypatch):
    asked = []
    for kept in ("_defined", "_results"):
        monkeypatch.setattr(worked, kept, worked.Recent(9))
    monkeypatch.setattr(worked, "functions", lambda *of: [lambda *given: asked.append(given) or [of[1]["n"], *given]])
    right = Worked("uneven-layers")
    for n, given, times in (1, 2, 1), (2, 2, 1), (1, 2.0, 1), (1, [True], 1), (1, [1], 1), (1, numpy.float64(2), 2):
        asked.clear()
        for _ in range(2):
            with judged_variant("uneven-layers", {"n": n}):
                got = right(given)
            assert got == [n, given] and type(got[1]) is type(given)
            got.append("a caller's own")
        assert len(asked) == times, given


def test_a_row_is_said_in_words_that_name_its_arguments_as_the_worked_answer_does():
    words = Worked("kv-cache-bytes").words(2, "a latent of {latent} and {rope} numbers, {tokens:,} tokens")
    assert words(61, 512, 64, 2, 4096) == "a latent of 512 and 64 numbers, 4,096 tokens"


def test_one_word_names_a_mistake_only_if_it_is_the_mistakes_in_every_case():
    source = worked_cell(answers_text("schedule-validator"))
    counts = source.replace('held += 1 if kind == "F" else -1', 'held += kind == "F"')
    found = {v.mistake for v in judged_source("schedule-validator", counts).verdicts if not v.ok}
    assert found == {"counts-forwards"}
    # says "memory" in the same cases, and differs in others
    hasty = counts.replace('return "deadlock"', 'return "order"')
    found = {v.mistake for v in judged_source("schedule-validator", hasty).verdicts if not v.ok}
    assert "rejects-good" in found and "counts-forwards" not in found


def test_a_named_mistake_still_says_where_a_tensor_was_in_flight():
    reads_early = next(each for each in bank_of("ring-shift") if each.name == "reads before wait")
    report = kill_matrix.judge(reads_early).report
    first = next(v for v in report.verdicts if not v.ok)
    assert first.mistake == "reads-before-wait" and "In this run, rank 0 read a tensor in flight, at " in first.message
