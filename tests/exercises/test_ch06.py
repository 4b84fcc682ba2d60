"""Chapter 06's exercises: byte matrices are those of real runs, ready-made collectives are seen, messages name the
cost."""

import random

import pytest
import torch
from contract.kit import functions, graded, mistakes

from course_chapters.ch06.exercises.judges.equal_up_to_rounding import RIGHT_ORDERS, WRONG_SUMS
from course_chapters.ch06.exercises.judges.name_the_algorithm import RUNS, matrix_of
from course_chapters.ch06.exercises.judges.predict_ring_time import ring_time
from course_chapters.ch06.exercises.name_the_algorithm import ALGORITHMS
from course_chapters.ch06.exercises.probes import from_messages
from course_grader import exercises
from course_grader.exercises.layouts import COLUMNS, SECOND
from course_grader.judging import judging
from course_grader.records import Outcome
from course_grader.worker.plain_values import Given
from course_lib.cluster import Comm, Topology, attempt, collectives, simulate
from tests.tables import each_of

# --- ready-made collectives


def test_an_answer_gets_no_ready_made_collective():
    def lazy(comm, x):
        comm.all_reduce(x)
        return x

    report = graded("ring-all-reduce", lazy)
    assert report.points == 0 and "comm.all_reduce is switched off" in report.verdicts[0].message


def test_a_collective_behind_the_scenes_is_seen_in_the_books():
    """Whoever gets at the communicator itself moves messages that no call of send or receive accounts for."""
    contract, card = judging("ring-all-reduce"), exercises.card("ring-all-reduce")
    case = contract.cases(card.params, random.Random(5))[0]

    def waits(comm, x):
        comm.barrier()
        return collectives.ring_all_reduce(comm, x)

    run = attempt(waits, case.ranks, per_rank=case.per_rank)
    found = contract.verdicts(card.params, case, Outcome.of(run))
    assert mistakes(found) & {"ready-made", "not-a-neighbor"}


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
        flat_x, flat_y, got_x, got_y = from_messages(look, Given((x, y, layout), {}), Comm([0]))
        assert (flat_x, flat_y) == (columns, second) and torch.equal(got_x, x) and torch.equal(got_y, y)


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


@each_of("name", REAL)
@each_of("n", [2, 5, 8, 12])
def test_the_byte_matrices_are_those_of_real_runs(name, n):
    run = simulate(REAL[name], n, (torch.ones(101),))
    assert counted(run, n) == matrix_of(name, n, 101, 4, 1)


@each_of("n, per_node", [(8, 4), (8, 2), (16, 4), (12, 3), (6, 3), (9, 3)])
def test_no_two_algorithms_share_a_matrix(n, per_node):
    seen = {name: matrix_of(name, n, 5000, 4, per_node) for name in RUNS}
    assert set(RUNS) == set(ALGORITHMS)
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
            assert ratio <= 1 if case.secret else not ratio <= 2.2, case.name  # a NaN is wrong too
    assert (len(RIGHT_ORDERS), len(WRONG_SUMS)) == (3, 5)


def test_the_predicted_time_is_that_of_a_metered_run():
    card = exercises.card("predict-ring-time")
    n, moved = 4, 4 * 4000
    small = {**card.params, "ranks": n, "nbytes": moved}
    wire = Topology.flat(small["latency"], small["bandwidth"])
    run = simulate(collectives.ring_all_reduce, n, (torch.ones(moved // 4),), topology=wire)
    assert run.seconds == pytest.approx(ring_time(small))
    assert ring_time(card.params) == pytest.approx(2.75751, rel=1e-4)
    assert "2.76 s" in judging(card.id).reveal(card.params)


def test_a_whole_tensor_ring_is_told_what_it_costs_and_what_a_ring_costs():
    report = graded("ring-all-reduce", functions("ring-all-reduce", "half")[0])
    first = next(v for v in report.verdicts if not v.ok)
    assert first.message == "Whole tensors at every hop: 7.0·S bytes per rank, a ring needs 1.75·S."
