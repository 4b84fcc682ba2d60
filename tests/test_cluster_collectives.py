"""Collectives: the values of the plain computation, the messages of the closed forms, for 1 to 17 ranks and uneven
sizes."""

import math

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cluster import AVG, MAX, MIN, PRODUCT, SUM, RankError, Topology, attempt, interleavings, simulate
from course_lib.cluster.collective import chunk_sizes
from tests.tables import each_of

RANKS = list(range(1, 18))


def inputs(ranks, size, dtype=torch.int64):
    coin = torch.Generator().manual_seed(ranks * 1000 + size)
    return [torch.randint(1, 4, (size,), generator=coin).to(dtype) for _ in range(ranks)]


def run_on(program, ranks, *args, **options):
    return simulate(program, ranks, args=args, **options)


# --- exact counts


@each_of("size", [0, 1, 5, 34])
@each_of("ranks", RANKS)
def test_all_reduce_goes_round_a_ring_twice(ranks, size):
    given = inputs(ranks, size)
    run = simulate(lambda comm, x: comm.all_reduce(x) or x, ranks, per_rank=given)
    assert all(torch.equal(result, sum(given)) for result in run.results)
    chunks = [8 * n for n in chunk_sizes(size, ranks)]
    expected = [
        2 * size * 8 - chunks[(r + 1) % ranks] - chunks[(r + 2) % ranks] if ranks > 1 else 0 for r in range(ranks)
    ]
    assert sum(run.meter.bytes_sent) == 2 * (ranks - 1) * size * 8
    assert sorted(run.meter.bytes_sent) == sorted(expected)
    assert run.meter.messages_sent == [2 * (ranks - 1)] * ranks and run.meter.steps == [2 * (ranks - 1)] * ranks
    assert set(run.meter.pairs) == {(r, (r + 1) % ranks) for r in range(ranks) if ranks > 1}


@each_of("ranks", RANKS)
def test_reduce_scatter_and_all_gather_are_its_two_halves(ranks):
    def scatter(comm, x):
        part = torch.zeros(3, dtype=x.dtype)
        comm.reduce_scatter_tensor(part, x)
        return part

    def gather(comm, part):
        whole = torch.zeros(3 * comm.size, dtype=part.dtype)
        comm.all_gather_into_tensor(whole, part)
        return whole

    given = inputs(ranks, 3 * ranks)
    one = simulate(scatter, ranks, per_rank=given)
    assert torch.equal(torch.cat(one.results), sum(given))
    two = simulate(gather, ranks, per_rank=one.results)
    assert all(torch.equal(result, sum(given)) for result in two.results)
    for run in (one, two):
        assert run.meter.bytes_sent == [(ranks - 1) * 24] * ranks and run.meter.steps == [ranks - 1] * ranks


@each_of("ranks", RANKS)
def test_broadcast_and_reduce_go_through_a_binomial_tree(ranks):
    given, root = inputs(ranks, 5), ranks // 2
    one = simulate(lambda comm, x: comm.broadcast(x, root) or x, ranks, per_rank=given)
    assert all(torch.equal(result, given[root]) for result in one.results)
    two = simulate(lambda comm, x: comm.reduce(x, root) or x, ranks, per_rank=given)
    assert torch.equal(two.results[root], sum(given))
    assert all(torch.equal(two.results[r], given[r]) for r in range(ranks) if r != root)
    rounds = math.ceil(math.log2(ranks))
    for run in (one, two):
        assert run.meter.total_bytes == (ranks - 1) * 40 and max(run.meter.steps) == rounds
    assert one.meter.bytes_received == [0 if r == root else 40 for r in range(ranks)]
    assert max(one.meter.messages_sent) == max(two.meter.messages_received) == rounds


@each_of("ranks", RANKS)
def test_gather_and_scatter_go_straight_to_and_from_the_root(ranks):
    root = ranks - 1

    def both(comm, x):
        parts = [torch.zeros(4, dtype=x.dtype) for _ in range(comm.size)] if comm.rank == root else None
        comm.gather(x, parts, dst=root)
        back = torch.zeros(4, dtype=x.dtype)
        comm.scatter(back, [part + 1 for part in parts] if parts else None, src=root)
        return back

    given = inputs(ranks, 4)
    run = simulate(both, ranks, per_rank=given)
    assert all(torch.equal(result, x + 1) for result, x in zip(run.results, given, strict=True))
    assert run.meter.bytes_sent == [(ranks - 1) * 32 if r == root else 32 for r in range(ranks)]
    assert max(run.meter.steps) == 2 * (ranks - 1)


@each_of("ranks", RANKS)
def test_all_gather_fills_a_list(ranks):
    def fill(comm, x):
        parts = [torch.zeros_like(x) for _ in range(comm.size)]
        comm.all_gather(parts, x)
        return torch.stack(parts)

    given = inputs(ranks, 3)
    run = simulate(fill, ranks, per_rank=given)
    assert all(torch.equal(result, torch.stack(given)) for result in run.results)
    assert run.meter.bytes_sent == [(ranks - 1) * 24] * ranks


@each_of("ranks", RANKS)
def test_all_to_all_with_uneven_splits_moves_each_row_once(ranks):
    counts = [[(src * 3 + dst * 5) % 4 for dst in range(ranks)] for src in range(ranks)]  # some are 0

    def exchange(comm, counts):
        r = comm.rank
        takes = [counts[src][r] for src in range(comm.size)]
        rows = torch.cat([torch.full((n, 2), 100 * r + dst) for dst, n in enumerate(counts[r])])
        out = torch.zeros(sum(takes), 2, dtype=rows.dtype)
        comm.all_to_all_single(out, rows, takes, counts[r])
        return out

    run = run_on(exchange, ranks, counts)
    for dst in range(ranks):
        want = torch.cat([torch.full((counts[src][dst], 2), 100 * src + dst) for src in range(ranks)])
        assert torch.equal(run.results[dst], want)
    off = [[counts[src][dst] * 16 for dst in range(ranks) if dst != src] for src in range(ranks)]
    assert run.meter.bytes_sent == [sum(row) for row in off]
    assert run.meter.messages_sent == [sum(n > 0 for n in row) for row in off]


@each_of("ranks", RANKS)
def test_a_barrier_is_empty_messages_in_few_rounds(ranks):
    run = simulate(lambda comm: comm.barrier(), ranks)
    assert run.meter.total_bytes == 0 and max(run.meter.steps) == math.ceil(math.log2(ranks))


def test_a_barrier_holds_everyone_until_the_last_is_there():
    def late(comm):
        comm.compute(float(comm.rank))
        comm.barrier()

    run = simulate(late, 4, topology=Topology.flat(0.0, 1.0))
    assert run.clock == [3.0] * 4


def test_the_time_of_a_ring_all_reduce_is_the_formulas():
    x, link = torch.zeros(8000, dtype=torch.uint8), Topology.flat(latency=0.5, bandwidth=1000.0)
    run = simulate(lambda comm: comm.all_reduce(x), 8, topology=link)
    assert run.seconds == pytest.approx(2 * 7 * (0.5 + 1000 / 1000.0))


# --- values


OPS = {
    SUM: lambda s: s.sum(0),
    PRODUCT: lambda s: s.prod(0),
    MAX: lambda s: s.amax(0),
    MIN: lambda s: s.amin(0),
    AVG: lambda s: s.mean(0),
}


@each_of("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int32])
@each_of("op", OPS)
def test_reductions(op, dtype):
    if op == AVG and not dtype.is_floating_point:
        with pytest.raises(RankError, match="would round"):
            simulate(lambda comm, x: comm.all_reduce(x, op=op), 2, per_rank=inputs(2, 3, dtype))
        return
    given = inputs(4, 6, dtype)
    results = simulate(lambda comm, x: comm.all_reduce(x, op=op) or x, 4, per_rank=given).results
    # small integers: exact
    assert all(torch.equal(result.double(), OPS[op](torch.stack(given).double())) for result in results)


def test_torchs_own_names_of_reductions_are_taken():
    run = simulate(
        lambda comm: [comm.all_reduce(x := torch.tensor([comm.rank + 1]), op=dist.ReduceOp.MAX), int(x)][1], 3
    )
    assert run.results == [3, 3, 3]


def test_tensors_of_any_layout_and_numpy_arrays():
    import numpy as np

    def mixed(comm):
        strided = torch.zeros(4, 6)[:, ::2]
        strided += comm.rank
        comm.all_reduce(strided)
        array = np.full((2, 2), float(comm.rank))
        comm.all_reduce(array)
        leaf = torch.ones(2, requires_grad=True)
        comm.broadcast(leaf, 0)
        return strided.tolist(), array.tolist()

    assert simulate(mixed, 3).results[1] == ([[3.0] * 3] * 4, [[3.0] * 2] * 2)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.sampled_from(["all_reduce", "broadcast", "gather", "rs", "a2a", "barrier"]), min_size=1, max_size=6),
    st.data(),
)
def test_programs_of_collectives_blocking_or_not_are_the_same(ranks, names, data):
    waits = data.draw(st.lists(st.integers(0, 3), min_size=len(names), max_size=len(names)))

    def program(comm, asynchronous):
        n, r, kept, open_works = comm.size, comm.rank, [], []
        for name, hold in zip(names, waits, strict=True):
            x = torch.arange(n * 2) + r
            y = torch.zeros(n * 2, dtype=x.dtype)
            half = torch.zeros(2, dtype=x.dtype)
            if name == "all_reduce":
                work, out = comm.all_reduce(x, async_op=asynchronous), x
            elif name == "broadcast":
                work, out = comm.broadcast(x, n - 1, async_op=asynchronous), x
            elif name == "gather":
                work, out = comm.all_gather_into_tensor(y, x[:2].clone(), async_op=asynchronous), y
            elif name == "rs":
                work, out = comm.reduce_scatter_tensor(half, x, async_op=asynchronous), half
            elif name == "a2a":
                work, out = comm.all_to_all_single(y, x, async_op=asynchronous), y
            else:
                work, out = comm.barrier(async_op=asynchronous), half
            kept.append(out)
            open_works.append(work)
            while asynchronous and len(open_works) > hold:
                open_works.pop(0).wait()
        for work in open_works if asynchronous else ():
            work.wait()
        return [out.tolist() for out in kept]

    blocking = simulate(program, ranks, args=(False,))
    overlapped = simulate(program, ranks, args=(True,))
    assert blocking.results == overlapped.results
    assert blocking.meter.pairs == overlapped.meter.pairs
    assert interleavings(program, ranks, args=(True,)) is None


def test_an_asynchronous_collective_hides_behind_computing():
    def step(comm, asynchronous):
        x = torch.zeros(1000, dtype=torch.uint8)
        work = comm.all_reduce(x, async_op=asynchronous)
        comm.compute(10.0, kind="backward")
        if work:
            work.wait()

    link = Topology.flat(0.0, 1000.0)
    blocking, hidden = (simulate(step, 4, args=(flag,), topology=link) for flag in (False, True))
    assert blocking.seconds == pytest.approx(11.5) and hidden.seconds == pytest.approx(10.0)
    assert blocking.exposed() == pytest.approx([1.5] * 4) and hidden.exposed() == pytest.approx([0.0] * 4)
    assert blocking.hidden() == pytest.approx([0.0] * 4) and hidden.hidden() == pytest.approx([1.5] * 4)


def test_reading_an_asynchronous_result_before_wait_is_caught():
    def hasty(comm):
        out = torch.zeros(comm.size)
        work = comm.all_gather_into_tensor(out, torch.ones(1), async_op=True)
        comm.compute(1.0)
        comm.barrier()
        total = float(out.sum())
        work.wait()
        return total

    run = attempt(hasty, 3)
    assert run.results == [3.0] * 3 and [hazard.act for hazard in run.hazards] == ["read"] * 3
    case = interleavings(hasty, 3)
    assert case is not None and case.adversary.late


# --- groups


def test_overlapping_groups_have_their_own_ranks_and_messages():
    def rows_and_columns(comm):
        rows = [comm.new_group(range(3 * i, 3 * i + 3)) for i in range(2)]
        columns = [comm.new_group([i, i + 3]) for i in range(3)]
        row = next(g for g in rows if g.rank >= 0)
        column = next(g for g in columns if g.rank >= 0)
        x, y = torch.tensor([comm.rank]), torch.tensor([comm.rank])
        row.all_reduce(x)
        column.all_reduce(y)
        z = torch.tensor([comm.rank])
        if column.rank == 0:
            column.send(z, 1)
        else:
            assert column.recv(z, 0) == 0
        return int(x), int(y), row.rank, column.rank, row.size, int(z)

    run = simulate(rows_and_columns, 6)
    assert run.results == [(3 if r < 3 else 12, 2 * (r % 3) + 3, r % 3, r // 3, 3, r % 3) for r in range(6)]
    assert interleavings(rows_and_columns, 6) is None


def test_messages_of_different_groups_do_not_meet():
    def cross(comm):
        pair = comm.new_group([1, 0])
        a, b = torch.zeros(1), torch.zeros(1)
        if comm.rank == 0:
            works = [comm.isend(torch.tensor([1.0]), 1), pair.isend(torch.tensor([2.0]), 1)]
        else:
            works = [pair.irecv(a, 0), comm.irecv(b, 0)]
        for work in works:
            work.wait()
        return a.item(), b.item()

    assert simulate(cross, 2).results[1] == (2.0, 1.0)


def test_a_group_numbers_its_ranks_in_increasing_order_as_torch_does():
    assert simulate(lambda comm: comm.new_group([3, 0, 2]).rank, 4).results == [0, -1, 1, 2]


def test_groups_of_another_kind_of_rank_are_refused():
    for ranks, word in (
        ([0, 0], "different ranks"),
        ([], "at least one"),
        ([5], "different ranks"),
        (["0"], "different ranks"),
    ):
        with pytest.raises(RankError, match=word):
            simulate(lambda comm, r: comm.new_group(r), 2, args=(ranks,))
    with pytest.raises(RankError, match="not in the group"):
        simulate(lambda comm: comm.new_group([0]).barrier(), 2)
    with pytest.raises(RankError, match="world's communicator"):
        simulate(lambda comm: comm.new_group([0, 1]).new_group([0]), 2)


def test_both_sides_of_a_boundary_agree_on_collectives():
    from test_cluster_remote import across, serving

    def program(comm, x):
        comm.all_reduce(x)
        out = torch.zeros(2 * comm.size)
        work = comm.all_gather_into_tensor(out, x[:2].clone(), async_op=True)
        sub = comm.new_group([2, 0])  # 0 is its rank 0
        if sub.rank >= 0:
            sub.broadcast(x, 0)
        work.wait()
        part = torch.zeros(2)
        comm.reduce_scatter_tensor(part, out, op=AVG)
        return x, out, part

    given = [torch.arange(5.0) * rank for rank in range(3)]
    here = simulate(program, 3, per_rank=given, topology=Topology.nodes(2))
    there = across(serving(program), 3, per_rank=given, topology=Topology.nodes(2))
    assert there.error is None and there.meter.as_dict() == here.meter.as_dict() and there.clock == here.clock
    assert all(
        torch.equal(a, b)
        for one, two in zip(here.results, there.results, strict=True)
        for a, b in zip(one, two, strict=True)
    )
