"""Chapter 06's exercises: variants keep their meaning, byte matrices are those of real runs, nothing returned upsets a judge."""

import math
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import collectives, exercises, facts
from course_lib.cluster import attempt, simulate
from course_lib.exercises import killmatrix
from course_lib.exercises.ch06 import judges as ch06
from course_lib.exercises.ch06.cards.audits import ITEMS
from course_lib.exercises.ch06.cards.more import ALGORITHMS
from course_lib.exercises.ch06.judges.audits import KEYS
from course_lib.exercises.ch06.judges.measuring import RIGHT_ORDERS, WRONG_SUMS
from course_lib.exercises.ch06.judges.reading import circle_of
from course_lib.exercises.ch06.judges.ring import ring_time
from course_lib.exercises.ch06.judges.traffic import TRAFFIC, matrix_of
from course_lib.exercises.ch06.probes import COLUMNS, SECOND, from_messages
from course_lib.grading.judge import grade
from course_lib.grading.worker.plain_values import Given
from course_lib.grading.worker.runners import InProcess
from course_lib.judging import judging
from course_lib.records import Outcome

CARDS = exercises.cards("06")
SEEDS = [f"student-{n}" for n in range(3)]


def bank_answer(exercise, sort="right", number=0):
    found = [each for each in killmatrix.bank("06") if each.exercise == exercise and each.sort == sort][number]
    return killmatrix.names_of(found.source, exercises.card(exercise).answers)[0]


# --- variants


def pair_by(params):
    def pair_reduce(comm, x):
        partner = comm.rank ^ 1
        if partner >= comm.size:
            return x
        theirs = torch.empty_like(x)
        work = comm.isend(x, partner)
        comm.recv(theirs, partner)
        work.wait()
        return torch.maximum(x, theirs) if op == "max" else x + theirs

    op = params["op"]
    return pair_reduce


def shift_by(params):
    step = params["direction"]

    def ring_shift(comm, x):
        if comm.size == 1:
            return x
        got = torch.empty_like(x)
        work = comm.isend(x, (comm.rank + step) % comm.size)
        comm.recv(got, (comm.rank - step) % comm.size)
        work.wait()
        return got

    return ring_shift


def scatter_by(params):
    owner = params["owner"]

    def ring_reduce_scatter(comm, x):
        n, me = comm.size, comm.rank
        chunks = list(x.clone().tensor_split(n))
        for step in range(n - 1):
            into = chunks[(me + owner - step - 2) % n]
            arrived = torch.empty_like(into)
            work = comm.isend(chunks[(me + owner - step - 1) % n], (me + 1) % n)
            comm.recv(arrived, (me - 1) % n)
            work.wait()
            into += arrived
        return chunks[(me + owner) % n]

    return ring_reduce_scatter


def ring_by(params):
    turn = params["direction"]

    def ring_all_reduce(comm, x):
        n, place = comm.size, comm.rank * turn % comm.size  # the ring's other direction is the ring, counted backwards
        flat = x.reshape(-1).clone()
        chunks = flat.tensor_split(n)
        for step in range(2 * n - 2):
            out, into = (place - step - 1) % n, (place - step - 2) % n
            arrived = torch.empty_like(chunks[into])
            work = comm.isend(chunks[out], (comm.rank + turn) % n)
            comm.recv(arrived, (comm.rank - turn) % n)
            work.wait()
            chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived)
        return flat.reshape(x.shape)

    return ring_all_reduce


def nodes_by(params):
    dealt = params["placement"] == "round-robin"

    def hierarchical_all_reduce(comm, x, per_node):
        nodes = comm.size // per_node
        node = comm.rank % nodes if dealt else comm.rank // per_node
        mates = [r for r in range(comm.size) if (r % nodes if dealt else r // per_node) == node]
        leaders = list(range(nodes)) if dealt else list(range(0, comm.size, per_node))
        total = x.clone()
        if comm.rank != mates[0]:
            comm.send(total, mates[0])
            comm.recv(total, mates[0])
            return total
        arrived = torch.empty_like(total)
        for mate in mates[1:]:
            comm.recv(arrived, mate)
            total += arrived
        flat, at = total.reshape(-1), leaders.index(comm.rank)
        chunks = flat.tensor_split(nodes)
        for step in range(2 * nodes - 2):
            into = chunks[(at - step - 2) % nodes]
            piece = torch.empty_like(into)
            work = comm.isend(chunks[(at - step - 1) % nodes], leaders[(at + 1) % nodes])
            comm.recv(piece, leaders[(at - 1) % nodes])
            work.wait()
            into.copy_(into + piece if step < nodes - 1 else piece)
        for mate in mates[1:]:
            comm.send(total, mate)
        return total

    return hierarchical_all_reduce


STRUCTURAL = {
    "pair-exchange": pair_by,
    "ring-shift": shift_by,
    "reduce-scatter-half": scatter_by,
    "ring-all-reduce": ring_by,
    "hierarchical-bytes": nodes_by,
}


def test_every_structural_variant_is_tried_here():
    assert {card.id for card in CARDS if card.structural} == set(STRUCTURAL)


@pytest.mark.parametrize("name", STRUCTURAL)
def test_a_variant_is_passed_by_its_own_answer_and_tells_the_public_one_apart(name):
    card = exercises.card(name)
    params = card.variant("student")
    assert params[card.structural] != card.params[card.structural]
    own = grade(card, InProcess(STRUCTURAL[name](params)), params=params)
    assert own.passed, [v for v in own.verdicts if not v.ok]
    assert grade(card, InProcess(STRUCTURAL[name](card.params))).passed
    public = grade(card, InProcess(bank_answer(name)), params=params)
    assert not public.passed and "public-form" in {v.mistake for v in public.verdicts}


UNSTRUCTURED = [card for card in CARDS if not card.structural and card.form not in ("audit",)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("card", UNSTRUCTURED, ids=lambda card: card.id)
def test_right_answers_pass_every_variant(card, seed):
    params = card.variant(seed)
    for number in (0, 1):
        report = grade(card, InProcess(bank_answer(card.id, number=number)), params=params, secret=seed)
        assert report.passed, [v for v in report.verdicts if not v.ok]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("exercise", ["wait-for-cycle", "alpha-beta-fit", "name-the-algorithm", "equal-up-to-rounding"])
def test_wrong_answers_fail_whatever_cases_are_drawn(exercise, seed):
    card = exercises.card(exercise)
    params = card.variant(seed)
    for each in killmatrix.bank("06"):
        if each.exercise == exercise and each.sort == "wrong":
            answer = killmatrix.names_of(each.source, card.answers)[0]
            assert not grade(card, InProcess(answer), params=params, secret=seed).passed, each.name


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
    (1e999, (1, 2), (3, 4)),
    (1.0, (0, 0), (0, 0)),
    [[1], [2]],
    "1" * 10_000,
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
        right = circle_of(case.args[0]) if card.id == "wait-for-cycle" else None
        for junk in JUNK:
            if junk in ([], ()) and right == [] or junk is True and case.secret is True:
                continue
            value = junk if case.ranks is None else [junk] * case.ranks
            found = contract.verdicts(
                card.params, case, Outcome(state="answered", value=value, meter=a_meter(case.ranks or 1))
            )
            wrong = [v for v in found if not v.ok]
            empty = (
                case.ranks is not None
                and isinstance(case.per_rank[0][0], torch.Tensor)
                and not case.per_rank[0][0].numel()
            )
            fits = empty and isinstance(junk, torch.Tensor) and not junk.numel()
            assert all(v.message for v in wrong) and (wrong or fits), (case.name, junk)


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
        contract = judging(card.id)
        case = contract.cases(card.params, random.Random(3))[0]
        if case.ranks is None:
            contract.verdicts(card.params, case, Outcome(state="answered", value=value))


@pytest.mark.parametrize("name", ["ring-all-reduce", "halving-doubling", "hierarchical-bytes"])
def test_right_values_without_bytes_are_found_out(name):
    card = exercises.card(name)
    contract = judging(name)
    case = contract.cases(card.params, random.Random(5))[0]
    total = sum(own[0] for own in case.per_rank)
    found = contract.verdicts(
        card.params, case, Outcome(state="answered", value=[total] * case.ranks, meter=a_meter(case.ranks))
    )
    assert {v.mistake for v in found if v.kind == "cost" and not v.ok} == {"too-few-bytes"}


# --- ready-made collectives


def test_an_answer_gets_no_ready_made_collective():
    def lazy(comm, x):
        comm.all_reduce(x)
        return x

    report = grade(exercises.card("ring-all-reduce"), InProcess(lazy))
    assert report.points == 0 and "comm.all_reduce is switched off" in report.verdicts[0].message


def test_a_collective_behind_the_scenes_is_seen_in_the_books():
    """Whoever gets at the communicator itself moves messages that no call of send or receive accounts for."""
    contract, card = judging("ring-all-reduce"), exercises.card("ring-all-reduce")
    case = contract.cases(card.params, random.Random(5))[0]

    def waits(comm, x):
        comm.barrier()
        return collectives.ring_all_reduce(comm, x)

    run = attempt(waits, case.ranks, per_rank=case.per_rank)
    found = contract.verdicts(card.params, case, run.outcome())
    assert "ready-made" in {v.mistake for v in found if not v.ok} or "not-a-neighbour" in {
        v.mistake for v in found if not v.ok
    }


def test_the_library_is_switched_off_where_it_is_the_answer():
    for name, function in (
        ("ring-all-reduce", "ring_all_reduce"),
        ("halving-doubling", "halving_doubling_all_reduce"),
        ("reduce-scatter-half", "ring_reduce_scatter"),
    ):
        report = grade(exercises.card(name), InProcess(getattr(collectives, function)))
        assert report.points == 0 and "switched off" in report.verdicts[0].message, name


def test_the_probe_passes_messages_and_nothing_else():
    def look(comm, x):
        return comm.rank, comm.size, repr(comm), sorted(name for name in dir(comm) if not name.startswith("_"))

    def program(comm, x):
        return from_messages(look, Given((x,), {}), comm)

    rank, size, text, names = simulate(program, 2, (torch.ones(1),)).results[1]
    assert (rank, size, text) == (1, 2, "Comm(rank=1, size=2)")
    assert names == ["batch_isend_irecv", "irecv", "isend", "rank", "recv", "send", "size"]


def test_a_layout_is_made_where_the_answer_runs():
    """Strides do not cross a boundary, so the probe lays tensors out, here and in a worker alike."""

    def look(comm, x, y):
        return x.is_contiguous(), y.is_contiguous(), x, y

    x, y = torch.arange(12.0).reshape(3, 4), torch.arange(5)
    for layout, columns, second in ((COLUMNS, False, True), (SECOND, True, False)):
        flat_x, flat_y, got_x, got_y = from_messages(look, Given((x, y, layout), {}))
        assert (flat_x, flat_y) == (columns, second) and torch.equal(got_x, x) and torch.equal(got_y, y)


def test_cards_can_be_listed_without_torch():
    code = (
        "import sys; from course_lib.exercises import ch06; sys.exit('torch' in sys.modules or len(ch06.CARDS) != 14)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- oracles against the real thing

REAL = {
    "naive root": collectives.naive_all_reduce,
    "tree": collectives.tree_all_reduce,
    "ring": collectives.ring_all_reduce,
    "halving-doubling": collectives.halving_doubling_all_reduce,
}


def counted(run, n):
    matrix = [[0] * n for _ in range(n)]
    for (src, dst), (moved, _) in run.meter.pairs.items():
        matrix[src][dst] = moved
    return matrix


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("n", [2, 5, 8, 12])
def test_the_byte_matrices_are_those_of_real_runs(name, n):
    run = simulate(REAL[name], n, (torch.ones(101),))
    assert counted(run, n) == matrix_of(name, n, 101, 4, 1)


@pytest.mark.parametrize(("n", "per_node"), [(8, 4), (8, 2), (12, 3), (9, 3)])
def test_the_hierarchys_matrix_is_that_of_a_real_run(n, per_node):
    run = simulate(collectives.hierarchical_all_reduce, n, (torch.ones(101), per_node))
    assert counted(run, n) == matrix_of("hierarchical", n, 101, 4, per_node)


def test_the_all_to_alls_matrix_is_that_of_a_real_run():
    def trade(comm, x):
        return collectives.pairwise_all_to_all(
            comm, [torch.empty(len(x.tensor_split(6)[comm.rank])) for _ in range(6)], x.tensor_split(6)
        )

    assert counted(simulate(trade, 6, (torch.ones(101),)), 6) == matrix_of("all-to-all", 6, 101, 4, 1)


@pytest.mark.parametrize(("n", "per_node"), [(8, 4), (8, 2), (16, 4), (12, 3), (6, 3), (9, 3)])
def test_no_two_algorithms_share_a_matrix(n, per_node):
    seen = {name: matrix_of(name, n, 5000, 4, per_node) for name in TRAFFIC}
    assert set(TRAFFIC) == set(ALGORITHMS)
    assert len({str(matrix) for matrix in seen.values()}) == len(seen)


def test_sums_in_any_order_are_told_from_wrong_ones_by_the_textbook_bound():
    contract, card = judging("equal-up-to-rounding"), exercises.card("equal-up-to-rounding")
    for seed in range(8):
        for case in contract.cases(card.params, random.Random(seed)):
            got, inputs = case.args
            exact = sum(x.double() for x in inputs)
            unit = torch.finfo(got.dtype).eps / 2
            bound = (len(inputs) - 1) * unit * 1.01 * sum(x.double().abs() for x in inputs)
            ratio = ((got.double() - exact).abs() / bound.clamp_min(1e-300)).max().item()
            assert ratio <= 1 if case.secret else ratio > 2.2, case.name
    assert len(RIGHT_ORDERS) == len(WRONG_SUMS) == 3


def test_an_untouched_circle_is_found_and_a_broken_one_is_not():
    log = [(1.0, 0, "sends", 1), (1.0, 1, "sends", 2), (1.0, 2, "sends", 0), (0.5, 2, "computes", None)]
    assert circle_of(log) == [0, 1, 2] and circle_of([*log, (2.0, 2, "computes", None)]) == []


def test_every_statement_of_the_audit_has_its_key_and_controls_are_right_as_printed():
    assert set(KEYS) == set(facts.claims("06")) == {item.id for item in ITEMS}
    scale = {"GB": 1e9, "GB/s": 1e9, "milliseconds": 1e-3}
    for item in ITEMS:
        printed, key = float(facts.claim(item.id).value), KEYS[item.id]
        close = math.isclose(key.number * scale.get(item.unit, 1.0), printed, rel_tol=0.05)
        assert close == (key.said == "right"), item.id
    assert {key.said for key in KEYS.values()} == {"right", "wrong"}


def test_the_predicted_time_is_that_of_a_metered_run():
    card = exercises.card("predict-ring-time")
    n, moved = 4, 4 * 4000
    small = {**card.params, "ranks": n, "nbytes": moved}
    from course_lib.cluster import Topology

    run = simulate(
        collectives.ring_all_reduce,
        n,
        (torch.ones(moved // 4),),
        topology=Topology.flat(small["latency"], small["bandwidth"]),
    )
    assert run.seconds == pytest.approx(ring_time(small))
    assert ring_time(card.params) == pytest.approx(2.75751, rel=1e-4)
    assert "2.76 s" in judging(card.id).reveal(card.params)


def test_a_whole_tensor_ring_is_told_what_it_costs_and_what_a_ring_costs():
    report = grade(exercises.card("ring-all-reduce"), InProcess(bank_answer("ring-all-reduce", "half")))
    first = next(v for v in report.verdicts if not v.ok)
    assert first.message == "Whole tensors at every hop: 7.0·S bytes per rank, a ring needs 1.75·S."


def test_padding_is_named_where_it_costs():
    report = grade(exercises.card("ring-all-reduce"), InProcess(bank_answer("ring-all-reduce", "half", 1)))
    assert {v.mistake for v in report.verdicts if not v.ok} == {"padding"}


def test_memory_beyond_the_input_is_measured_and_named():
    report = grade(exercises.card("ring-all-reduce"), InProcess(bank_answer("ring-all-reduce", "half", 2)))
    assert {v.mistake for v in report.verdicts if not v.ok} == {"too-much-memory"}
    assert judging("ring-all-reduce").measured_by_worker == ("cost:memory",)


def test_core_takes_at_most_ninety_minutes_and_every_exercise_has_its_judge():
    assert sum(card.minutes for card in CARDS if card.kind == "core") <= 90
    assert set(ch06.JUDGINGS) == {card.id for card in CARDS} and set(ch06.DRILLS) == {
        drill.id for drill in exercises.drills("06")
    }
    assert len(ch06.DRILLS) >= 8
