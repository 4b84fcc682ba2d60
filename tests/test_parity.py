"""Tolerances that roundings give, tight enough to tell a wrong sum; and what a run that averages must have sent."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.cluster import AVG, Topology, simulate
from course_lib.cluster.parity import adam_tolerance, apart, objections, step_bytes, tolerance, unit_roundoff
from tests.tables import each_of

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@each_of("kind", DTYPES)
def test_one_rounding_is_off_by_the_roundoff_at_most_and_may_be(kind):
    numbers = torch.linspace(1, 2, 1001, dtype=torch.float64)[:-1]
    if kind != torch.float64:
        errors = ((numbers.to(kind).double() - numbers) / numbers).abs()
        assert 0.5 * unit_roundoff(kind) < errors.max() <= unit_roundoff(kind)
    assert torch.tensor(1.0, dtype=kind) + unit_roundoff(kind) == 1.0
    assert torch.tensor(1.0, dtype=kind) + 2 * unit_roundoff(kind) > 1.0


def test_integers_are_refused_for_they_round_nothing():
    with pytest.raises(ValueError, match="torch.equal"):
        unit_roundoff(torch.int64)


def in_another_order(rows: torch.Tensor, ranks: int) -> torch.Tensor:
    """The sum of rows as ranks take it: each its own part, then the parts."""
    total = torch.zeros_like(rows[0])
    for part in rows.tensor_split(ranks):
        mine = torch.zeros_like(rows[0])
        for row in part:
            mine += row
        total += mine
    return total


@given(st.sampled_from([torch.float32, torch.bfloat16]), st.integers(2, 300), st.integers(2, 8), st.integers(0, 2**31))
def test_a_sum_over_ranks_is_within_the_tolerance_and_one_without_the_last_row_is_not(kind, terms, ranks, seed):
    rows = torch.randn(terms, 50, generator=torch.Generator().manual_seed(seed)).to(kind)
    plain = in_another_order(rows, 1)
    assert apart(in_another_order(rows, ranks), plain, terms) <= 1
    if kind == torch.float32:
        assert apart(in_another_order(rows[:-1], ranks), plain, terms) > 1


def test_the_tolerance_grows_with_the_terms_as_their_root_and_with_the_steps():
    u = unit_roundoff(torch.float32)
    assert tolerance(torch.float32, 4) == 8 * u, "few terms: the bound that no order breaks"
    assert tolerance(torch.float32, 4096) == 2 * tolerance(torch.float32, 1024)
    assert tolerance(torch.float32, 1024, steps=10) == 10 * tolerance(torch.float32, 1024)
    with pytest.raises(ValueError, match="terms"):
        tolerance(torch.float32, 0)


def test_apart_counts_in_units_of_the_tolerance_and_compares_like_with_like():
    want = torch.tensor([1.0, 4.0])
    got = want + torch.tensor([4 * tolerance(torch.float32, 100), 0.0])
    assert apart(got, want, 100) == pytest.approx(1.0, rel=0.05) and apart(want, want, 1) == 0.0
    assert apart(torch.ones(2), torch.zeros(2), 5) == float("inf") and apart(torch.zeros(2), torch.zeros(2), 5) == 0.0
    assert apart(torch.zeros(0), torch.zeros(0), 5) == 0.0
    with pytest.raises(ValueError, match="like with like"):
        apart(want.double(), want, 1)


@each_of("kind", [torch.float64, torch.float32])
def test_adams_weights_differ_by_what_the_gradients_error_allows(kind):
    """Gradients that differ by as much as the tolerance allows, some of them nothing but rounding."""
    terms, steps, rate = 100, 10, 1e-3
    coin = torch.Generator().manual_seed(0)
    weights = [torch.zeros(200, dtype=kind, requires_grad=True) for _ in range(2)]
    adams = [torch.optim.AdamW([weight], lr=rate) for weight in weights]
    largest, smallest = 0.0, torch.full((200,), torch.inf, dtype=kind)
    for _ in range(steps):
        gradient = torch.randn(200, generator=coin, dtype=kind) * (torch.arange(200) % 3 > 0)
        off = tolerance(kind, terms) * gradient.abs().max() * (2 * torch.rand(200, generator=coin, dtype=kind) - 1)
        largest, smallest = max(largest, gradient.abs().max().item()), torch.minimum(smallest, gradient.abs())
        for weight, adam, given_to in zip(weights, adams, (gradient, gradient + off), strict=True):
            weight.grad = given_to
            adam.step()
    off, allowed = (weights[0] - weights[1]).detach().abs(), adam_tolerance(kind, terms, steps, rate, largest, smallest)
    assert (off <= allowed).all() and off.max() > 0
    assert allowed.max() <= 2 * steps * rate
    assert allowed.median() < steps * rate * {torch.float64: 1e-9, torch.float32: 0.3}[kind]


# --- what a run must have sent

SIZE = 3000  # float32
SLOW = Topology.flat(1e-6, 1e9, 1e9)


def honest(comm):
    """Four buckets, each sent while the next is computed."""
    works = []
    for part in torch.ones(SIZE).split(SIZE // 4):
        comm.compute(50e-6)
        works.append(comm.all_reduce(part, op=AVG, async_op=True))
    comm.compute(50e-6)
    for work in works:
        work.wait()


def at_the_end(comm):
    comm.compute(250e-6)
    comm.all_reduce(torch.ones(SIZE), op=AVG)


def alone(comm):
    comm.compute(250e-6)


def own_group(comm):
    """Averages with its neighbor only."""
    groups = [comm.new_group([0, 1]), comm.new_group([2, 3])]
    comm.compute(250e-6)
    groups[comm.rank // 2].all_reduce(torch.ones(SIZE))


def through_rank_0(comm):
    whole = torch.ones(SIZE)
    comm.gather(whole, [torch.empty(SIZE) for _ in range(comm.size)] if comm.rank == 0 else None, 0)
    comm.compute(250e-6)
    for other in range(1, comm.size):
        if comm.rank == 0:
            comm.send(whole, other)
        elif comm.rank == other:
            comm.recv(whole, 0)


def twice(comm):
    for _ in range(2):
        honest(comm)


@each_of(
    "program, words",
    (honest, []),
    (alone, ["sent 0 B in all"]),
    (own_group, ["every rank's part must reach the sum", "hid 0 %"]),
    (at_the_end, ["hid 0 %"]),
    (through_rank_0, ["Rank 0 sent 36 kB; in a ring each rank sends 18 kB", "hid"]),
    (twice, ["Send each gradient once a step"]),
)
def test_what_a_run_did_not_do_is_said(program, words):
    run = simulate(program, 4, topology=SLOW)
    found = objections(run, 4 * SIZE, hidden=0.5)
    assert len(found) == len(words), found
    assert all(word in text for word, text in zip(words, found, strict=True)), found


def test_one_rank_owes_nothing():
    assert objections(simulate(at_the_end, 1), 4 * SIZE, hidden=0.8) == []


@each_of("ranks", [1, 2, 3, 5, 8])
def test_the_bytes_of_a_step_are_exact_even_where_chunks_are_uneven(ranks):
    buckets = [[torch.ones(7), torch.ones(3, 3)], [torch.ones(1)], [torch.ones(101, dtype=torch.float64)]]

    def program(comm):
        for bucket in buckets:
            comm.all_reduce(torch.cat([each.flatten() for each in bucket]))

    assert step_bytes(buckets, ranks) == simulate(program, ranks).meter.bytes_sent
