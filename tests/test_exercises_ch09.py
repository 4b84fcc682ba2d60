"""Chapter 09's exercises: variants keep their meaning, floors and ceilings are those of real runs, nothing returned upsets a judge."""

import math
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from course_lib import facts
from course_lib.cluster import simulate
from course_lib.exercises import ch09, killmatrix
from course_lib.exercises.ch09 import judges
from course_lib.exercises.ch09.cards.audits import ITEMS
from course_lib.exercises.ch09.judges.attention import _attend, _attention_piece
from course_lib.exercises.ch09.judges.audits import KEYS
from course_lib.exercises.ch09.judges.plans import complaints
from course_lib.exercises.ch09.judges.regions import close, ring_most, traffic, whole_gradients
from course_lib.exercises.ch09.judges.wires import largest, product_seconds, seconds_of
from course_lib.grading.judge import grade
from course_lib.grading.worker.runners import InProcess
from course_lib.judging import judging, near
from course_lib.records import Outcome
from course_lib.tensor_parallel import copy_in, sum_out
from course_lib.tensor_parallel.traffic import tp_bytes_per_layer
from course_lib.transformer import Config, attend

CARDS = ch09.CARDS
BY_ID = {card.id: card for card in CARDS}
SEEDS = [f"student-{n}" for n in range(3)]


def bank_answers(exercise, sort="right"):
    found = [each for each in killmatrix.bank("09") if each.exercise == exercise and each.sort == sort]
    return [(each.name, killmatrix.names_of(each.source, BY_ID[exercise].answers)) for each in found]


# --- variants


def cut_by(params):
    first = 0 if params["layout"] == "torch" else 1

    def column_shard(weight, rank, ranks):
        return weight.chunk(ranks, dim=first)[rank].clone()

    def row_shard(weight, rank, ranks):
        return weight.chunk(ranks, dim=1 - first)[rank].clone()

    return column_shard, row_shard


def mlp_by(params):
    def gelu(comm, x, weights):
        inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
        return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]

    def gated(comm, x, weights):
        x = copy_in(x, comm)
        inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
        return sum_out(F.linear(inner, weights["down"]), comm)

    return (gelu if params["kind"] == "gelu" else gated,)


def embed_by(params):
    dealt = params["dealt"] == "round-robin"

    def embed(comm, tokens, weight, vocab):
        start = int(torch.arange(vocab).tensor_split(comm.size)[comm.rank][0])
        place = tokens // comm.size if dealt else tokens - start
        mine = tokens % comm.size == comm.rank if dealt else (place >= 0) & (place < len(weight))
        return sum_out(F.embedding(place.where(mine, 0), weight) * mine.unsqueeze(-1), comm)

    return (embed,)


def wires_by(params):
    calls, passes = (6, 8) if params["recompute"] == "full" else (4, 6)

    def tp_seconds(tokens, hidden, ranks, bandwidth):
        return calls * 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth

    def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share):
        weights = 4 * hidden**2 + 3 * hidden * ffn
        return max(
            n
            for n in (2**p for p in range(11))
            if tp_seconds(tokens, hidden, n, inside if n <= per_node else across)
            <= share * passes * tokens * weights / n / flops
        )

    return tp_seconds, largest_tp


STRUCTURAL = {"column-and-row": cut_by, "parallel-mlp": mlp_by, "vocab-embedding": embed_by, "largest-tp": wires_by}


def test_every_structural_variant_is_tried_here():
    assert {card.id for card in CARDS if card.structural} == set(STRUCTURAL)


@pytest.mark.parametrize("name", STRUCTURAL)
def test_a_variant_is_passed_by_its_own_answer_and_not_by_the_public_one(name):
    card = BY_ID[name]
    params = card.variant("student")
    assert params[card.structural] != card.params[card.structural]
    own = grade(card, InProcess(*STRUCTURAL[name](params)), params=params)
    assert own.passed, [v for v in own.verdicts if not v.ok]
    assert grade(card, InProcess(*STRUCTURAL[name](card.params))).passed
    public = grade(card, InProcess(*bank_answers(name)[0][1]), params=params)
    assert public.points == 0
    if name != "parallel-mlp":  # its weights have other names there, which is an error of its own
        assert "public-form" in {v.mistake for v in public.verdicts}


UNSTRUCTURED = [card for card in CARDS if not card.structural and card.form != "audit"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("card", UNSTRUCTURED, ids=lambda card: card.id)
def test_right_answers_pass_every_variant(card, seed):
    params = card.variant(seed)
    for name, answers in bank_answers(card.id):
        report = grade(card, InProcess(*answers), params=params, secret=seed)
        assert report.passed, (name, [v for v in report.verdicts if not v.ok])


@pytest.mark.parametrize("card", UNSTRUCTURED, ids=lambda card: card.id)
def test_wrong_answers_fail_whatever_cases_are_drawn(card):
    params = card.variant("other")
    for name, answers in bank_answers(card.id, "wrong"):
        assert not grade(card, InProcess(*answers), params=params, secret="other").passed, name


@pytest.mark.parametrize("name", STRUCTURAL)
def test_wrong_answers_to_the_public_form_fail_whatever_cases_are_drawn(name):
    for wrong, answers in bank_answers(name, "wrong"):
        assert not grade(BY_ID[name], InProcess(*answers), secret="other").passed, wrong


# --- what comes back is never trusted

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
    torch.zeros(3),
    torch.zeros(0),
    torch.ones(2, 2, dtype=torch.bool),
    [None] * 8,
    (0.0, 0.0),
    (torch.zeros(2, 2), "many"),
    {"y": 1, "grads": 2, "touched": 3, "linked": 4},
    {"kind": "streams", "drawn": [1, 2]},
    [[1], [2]],
    "1" * 10_000,
    {
        "y": torch.zeros(2, 4),
        "grads": {"x": None},
        "touched": [object()],
        "linked": True,
        "out": "x",
        "grad": 1,
        "got": [1, 2],
        "products": "two",
        "peak": "little",
    },
]


def a_meter(ranks, moved=0):
    pairs = [(s, (s + 1) % ranks, moved, 1) for s in range(ranks)] if ranks > 1 else []
    each = [moved] * ranks
    return {
        "bytes_sent": each,
        "bytes_received": each,
        "messages_sent": [1] * ranks,
        "messages_received": [1] * ranks,
        "steps": [1] * ranks,
        "calls": [2] * ranks,
        "collectives": [0] * ranks,
        "pairs": pairs,
        "seconds": 1e-5,
    }


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_junk_gets_a_message_and_no_point(card):
    contract = judging(card.id)
    for case in contract.cases(card.params, random.Random(7)):
        rows = case.args[1] if len(case.args) == 2 and type(case.args[1]) is list else [0]
        for junk in JUNK:
            for value in [junk] if case.ranks is None else [junk, [junk] * case.ranks]:
                for one in (value, [value] * len(rows)) if case.ranks is None else (value,):
                    if card.id == "verify-plan" and one == [[]] and not complaints(*rows[0]):
                        continue
                    outcome = Outcome(state="answered", value=one, meter=a_meter(case.ranks or 1))
                    wrong = [v for v in contract.verdicts(card.params, case, outcome) if not v.ok]
                    quiet = all(not complaints(*row) for row in rows) if card.id == "verify-plan" else False
                    assert wrong or quiet, (case.name, str(one)[:80])
                    assert all(v.message for v in wrong), (case.name, str(one)[:80])


@settings(max_examples=60, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner),
        max_leaves=8,
    )
)
def test_no_value_upsets_the_judges_of_plain_answers(value):
    for card in CARDS:
        case = judging(card.id).cases(card.params, random.Random(3))[0]
        if case.ranks is None:
            judging(card.id).verdicts(card.params, case, Outcome(state="answered", value=value))


# --- the point is graded: right numbers that nobody sent are found out


def right_numbers(card, case):
    """What every rank of a right run gives back."""
    bank = [(name, answers) for name, answers in bank_answers(card.id)]
    answer = bank[0][1][0] if len(card.answers) == 1 else bank[0][1]
    return InProcess(*bank[0][1]).run(card, case).value, answer


@pytest.mark.parametrize(
    "name",
    ["conjugate-pair", "parallel-mlp", "parallel-attention", "row-bias", "vocab-embedding", "vocab-cross-entropy"],
)
def test_right_numbers_without_bytes_are_found_out(name):
    card, contract = BY_ID[name], judging(name)
    case = contract.cases(card.params, random.Random(5))[0]
    value, _ = right_numbers(card, case)
    meter = {**a_meter(case.ranks), "seconds": 1.0}
    found = contract.verdicts(card.params, case, Outcome(state="answered", value=value, meter=meter))
    assert {v.mistake for v in found if v.kind == "cost" and not v.ok} == {"too-few-bytes"}
    assert all(v.ok for v in found if v.kind == "values")


WAYS = {
    "the whole on every rank": ("column-and-row", "whole"),
    "whole weights gathered": ("parallel-mlp", "weights-travelled"),
    "a gather in the middle": ("parallel-mlp", "gathered-in-the-middle"),
    "logits gathered": ("vocab-cross-entropy", "gathered-logits"),
    "a table gathered": ("vocab-embedding", "gathered-table"),
    "nothing sent, a file shared": ("conjugate-pair", "too-few-bytes"),
    "nothing overlapped": ("overlap-backward", "nothing-hidden"),
    "a plan not carried out": ("verify-plan", "whole-missed"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_bank_holds_answers_that_miss_the_point(way):
    exercise, mistake = WAYS[way]
    assert mistake in {each.mistake for each in killmatrix.bank("09") if each.exercise == exercise}


def test_every_kind_of_verdict_decides_somewhere():
    kinds = {each.expected for each in killmatrix.bank("09") if each.sort == "wrong"}
    assert {"values", "cost", "protocol", "generality"} <= kinds


def test_bugs_of_real_threads_are_repaired_and_each_buggy_answer_is_in_the_bank():
    assert {card.id for card in CARDS if card.form == "bug"} == {"row-bias", "vocab-embedding", "verify-plan"}
    for name, mistake in (
        ("row-bias", "bias-n-times"),
        ("vocab-embedding", "clamped"),
        ("verify-plan", "unused-missed"),
        ("parallel-mlp", "gathered-in-the-middle"),
    ):
        assert mistake in {each.mistake for each in killmatrix.bank("09") if each.exercise == name}


def test_core_takes_ninety_minutes_and_rises_from_five():
    core = [card.minutes for card in CARDS if card.kind == "core"]
    assert len(core) == 5 and sum(core) <= 90 and core == sorted(core) and core[0] == 5


def test_cards_can_be_listed_without_torch():
    code = (
        "import sys; from course_lib.exercises import ch09; sys.exit('torch' in sys.modules or len(ch09.CARDS) != 14)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- oracles against the real thing


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("elements", [1, 7, 24, 101])
def test_floor_and_ceiling_fit_a_real_all_reduce(n, elements):
    run = simulate(lambda comm, x: comm.all_reduce(x), n, (torch.ones(elements),))
    meter = run.meter.as_dict()
    assert traffic(meter, 2 * (n - 1) * elements * 4, ring_most(elements, 4, n)) is None
    assert sum(meter["bytes_sent"]) == 2 * (n - 1) * elements * 4


def test_attention_in_whole_is_that_of_the_transformer_and_falls_apart_into_heads():
    coin, d = torch.Generator().manual_seed(1), 4
    config = Config(hidden=16, heads=4, kv_heads=2)
    whole = {
        name: torch.randn(rows, 16, generator=coin, dtype=torch.float64)
        for name, rows in (("wq", 16), ("wk", 8), ("wv", 8), ("wo", 16))
    }
    x = torch.randn(2, 5, 16, generator=coin, dtype=torch.float64)
    q, k, v = (F.linear(x, whole[w]).unflatten(-1, (-1, d)).transpose(1, 2) for w in ("wq", "wk", "wv"))
    theirs = F.linear(attend(q, k, v, "manual").transpose(1, 2).flatten(2), whole["wo"])
    ours = _attend(d)({"x": x, **whole})
    assert config.head_dim == d and torch.allclose(ours, theirs)
    parts = sum(_attend(d)({"x": x, **_attention_piece(whole, 4, 2, rank)}) for rank in range(4))
    assert torch.allclose(parts, ours)


def test_whole_gradients_leave_the_inputs_alone():
    x = torch.ones(3, dtype=torch.float64)
    y, grads = whole_gradients(lambda w: w["x"].square(), {"x": x}, torch.ones(3))
    assert not x.requires_grad and torch.equal(grads["x"], 2 * x) and torch.equal(y, x)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_close_allows_rounding_and_no_slip(kind):
    x = torch.randn(64, generator=torch.Generator().manual_seed(0)).to(kind)
    assert close(x * (1 + torch.finfo(kind).eps), x)
    assert not close(x * 1.25, x) and not close(x[:-1], x) and not close(None, x)


def test_complaints_about_a_plan_by_hand():
    plan = {"a.*": "column", "b": "row", "c": "row"}
    whole = {"a.0": (8, 4), "a.1": (8, 4), "b": (4, 8), "d": (8, 8)}
    held = {"a.0": (4, 4), "a.1": (8, 4), "b": (2, 8), "d": (8, 8)}
    assert complaints(plan, whole, held, 2) == [("unused", "c"), ("whole", "a.1"), ("wrong side", "b")]


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_seconds_of_a_layer_are_its_bytes_over_the_bandwidth(ranks):
    assert seconds_of(512, 256, ranks, 1e9, "full") == pytest.approx(
        tp_bytes_per_layer(512, 256, ranks, recompute="full") / 1e9
    )


def test_the_largest_number_of_ranks_meets_its_share_and_its_double_does_not():
    row = (4096, 8192, 28672, 4e14, 4.5e11, 5e10, 8, 0.2)
    best = largest(row, "none")

    def share(n):
        bandwidth = row[4] if n <= row[6] else row[5]
        return seconds_of(4096, 8192, n, bandwidth, "none") / product_seconds(4096, 8192, 28672, n, 4e14, "none")

    assert share(best) <= 0.2 < share(2 * best)


# --- the audit and the drills

UNITS = {"tp-128-gb": 1e9, "tp-one-layer": 1e9}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.id)
def test_an_audited_claim_is_called_what_its_printed_number_is(item):
    printed, key = float(facts.claim(item.id).value) / UNITS.get(item.id, 1.0), KEYS[item.id]
    assert (key.said == "right") == near(printed, key.number, 0.05)


def test_the_audit_has_controls_and_errors():
    said = [key.said for key in KEYS.values()]
    assert said.count("right") >= 4 and said.count("wrong") >= 4 and set(KEYS) == {item.id for item in ITEMS}


@pytest.mark.parametrize("drill", ch09.DRILLS, ids=lambda drill: drill.id)
def test_drills_have_an_answer_that_is_no_slip(drill):
    key = judges.DRILLS[drill.id]
    for seed in range(12):
        one = drill.variant(str(seed))
        want = key.answer(one.params)
        assert math.isfinite(want) and want > 0 and one.question()
    assert not [slip for slip in key.slips(drill.params) if near(slip.value, key.answer(drill.params), key.rel)]
