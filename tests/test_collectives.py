"""Collectives equal the plain thing on any number of ranks and any size, and cost what the formulas say."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cluster import Adversary, RankError, Topology, collectives, interleavings, simulate
from course_lib.cluster.collectives import ALL_REDUCES, chunks_of
from tests.tables import each_of

LATENCY, BANDWIDTH = 3e-6, 2e9
WIRE = Topology.flat(LATENCY, BANDWIDTH)
REDUCES = {name: function for name, (function, _) in ALL_REDUCES.items()}
OPS = {
    "SUM": lambda stack: stack.sum(0),
    "AVG": lambda stack: stack.mean(0),
    "MAX": lambda stack: stack.amax(0),
    "MIN": lambda stack: stack.amin(0),
    "PRODUCT": lambda stack: stack.prod(0),
}


def secrets(ranks, shape, dtype=torch.float64, seed=0):
    """Different whole numbers on every rank, so that sums are exact in any order."""
    coin = torch.Generator().manual_seed(seed)
    return [torch.randint(-99, 99, shape, generator=coin).to(dtype) for _ in range(ranks)]


def plain_sum(world):
    return torch.stack(list(world)).sum(0).to(world[0].dtype)


def few_or_many(few, many):
    """Numbers of ranks: few in the quick tier, many in the slower one."""
    return pytest.mark.parametrize("counts", [few, pytest.param(many, marks=pytest.mark.slower)], ids=["few", "many"])


# --- values


@few_or_many([1, 2, 3, 4, 5, 7, 8], [12, 17])
@each_of("name", REDUCES)
def test_an_all_reduce_equals_the_plain_sum_on_every_rank(name, counts):
    for ranks in counts:
        for size in (0, 1, ranks - 1, ranks, 3 * ranks + 2):
            world = secrets(ranks, (size,), seed=size)
            run = simulate(REDUCES[name], ranks, per_rank=world)
            assert all(torch.equal(got, plain_sum(world)) for got in run.results), (name, ranks, size)


@settings(max_examples=25, deadline=None)
@given(
    ranks=st.integers(1, 9),
    shape=st.lists(st.integers(0, 5), max_size=3),
    seed=st.integers(0, 2**20),
    name=st.sampled_from([*REDUCES]),
    dtype=st.sampled_from([torch.int64, torch.int32, torch.float32, torch.bfloat16]),
)
def test_shape_dtype_and_layout_do_not_matter(ranks, shape, seed, name, dtype):
    world = [x % 8 for x in secrets(ranks, tuple(shape), dtype, seed)]  # small: exact in bfloat16 too
    world = [x.transpose(0, -1) if x.ndim > 1 else x for x in world]
    run = simulate(REDUCES[name], ranks, per_rank=world)
    assert all(torch.equal(got, plain_sum(world)) and got.dtype == dtype for got in run.results)


@each_of("name", REDUCES)
@each_of("op", OPS)
def test_every_operation_goes(name, op):
    world = secrets(6, (2, 5))
    run = simulate(REDUCES[name], 6, (), [(x, op) for x in world])
    assert all(torch.allclose(got, OPS[op](torch.stack(world))) for got in run.results)


@each_of("name", REDUCES)
def test_the_tensor_given_is_worked_on_in_place_whatever_its_layout(name):
    def both(comm, x):
        y = x.T
        got = REDUCES[name](comm, y)
        return x, got.data_ptr() == y.data_ptr()

    world = secrets(3, (4, 5))
    assert all(torch.equal(x, plain_sum(world)) and same for x, same in simulate(both, 3, per_rank=world).results)


@each_of("ranks", range(1, 10))
def test_reduce_scatter_leaves_chunk_r_on_rank_r_and_all_gather_completes_it(ranks):
    def halves(comm, x):
        chunk = collectives.ring_reduce_scatter(comm, x).clone()
        mine = torch.zeros(11, dtype=x.dtype)
        chunks_of(mine, comm.size)[comm.rank].copy_(chunk)
        return chunk, collectives.ring_all_gather(comm, mine)

    world = secrets(ranks, (11,))
    want = plain_sum(world)
    for rank, (chunk, whole) in enumerate(simulate(halves, ranks, per_rank=world).results):
        assert torch.equal(chunk, chunks_of(want, ranks)[rank]) and torch.equal(whole, want)


@each_of("ranks", [1, 2, 3, 6, 8, 13])
def test_a_tree_serves_any_root(ranks):
    for root in {0, ranks // 2, ranks - 1}:
        world = secrets(ranks, (2, 3))
        told = simulate(collectives.tree_broadcast, ranks, per_rank=[(x, root) for x in world])
        summed = simulate(collectives.tree_reduce, ranks, per_rank=[(x, root) for x in world])
        assert all(torch.equal(got, world[root]) for got in told.results)
        assert torch.equal(summed.results[root], plain_sum(world))


@each_of("nodes, per_node", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 4), (2, 5)])
@each_of("op", ["SUM", "AVG", "MAX"])
def test_hierarchical_equals_flat(nodes, per_node, op):
    world = secrets(nodes * per_node, (7,))
    run = simulate(collectives.hierarchical_all_reduce, len(world), (), [(x, per_node, op) for x in world])
    assert all(torch.allclose(got, OPS[op](torch.stack(world))) for got in run.results)


def test_ranks_that_do_not_fill_their_nodes_are_refused():
    with pytest.raises(RankError, match="6 ranks do not make nodes of 4"):
        simulate(collectives.hierarchical_all_reduce, 6, (torch.ones(3), 4))


@settings(max_examples=20, deadline=None)
@given(ranks=st.integers(1, 7), seed=st.integers(0, 2**20))
def test_all_to_all_transposes_parts_of_any_length(ranks, seed):
    coin = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 4, (ranks, ranks), generator=coin)
    world = [[torch.randn(int(counts[s, d]), generator=coin) for d in range(ranks)] for s in range(ranks)]
    run = simulate(collectives.all_to_all, ranks, per_rank=[(parts,) for parts in world])
    for dst, got in enumerate(run.results):
        assert all(torch.equal(got[src], world[src][dst]) for src in range(ranks))


# --- safety


SAFE = {
    **REDUCES,
    "reduce-scatter": collectives.ring_reduce_scatter,
    "all-gather": collectives.ring_all_gather,
    "broadcast": collectives.tree_broadcast,
}


@each_of("name", SAFE)
def test_nothing_relies_on_buffers_or_on_when_bytes_move(name):
    case = interleavings(SAFE[name], (2, 3, 4, 6), per_rank=lambda n: secrets(n, (9,)))
    assert case is None, str(case)


def test_hierarchical_and_all_to_all_are_safe_too():
    case = interleavings(collectives.hierarchical_all_reduce, 4, per_rank=[(x, 2) for x in secrets(4, (9,))])
    assert case is None, str(case)
    parts = [([torch.full((s + d,), float(s)) for d in range(4)],) for s in range(4)]
    case = interleavings(collectives.all_to_all, 4, per_rank=parts)
    assert case is None, str(case)


def test_an_unknown_operation_is_named():
    with pytest.raises(RankError, match="'sum'.*SUM, AVG"):
        simulate(collectives.ring_all_reduce, 2, (torch.ones(2), "sum"))


# --- cost


COSTS = [(name, function, cost) for name, (function, cost) in ALL_REDUCES.items()] + [
    ("reduce-scatter", collectives.ring_reduce_scatter, collectives.ring_half_cost),
    ("all-gather", collectives.ring_all_gather, collectives.ring_half_cost),
    ("broadcast", collectives.tree_broadcast, collectives.tree_half_cost),
    ("reduce", collectives.tree_reduce, collectives.tree_half_cost),
]


@few_or_many(range(1, 10), range(10, 18))
@each_of("name, function, cost", COSTS)
def test_the_clock_and_the_meter_agree_with_the_formula(name, function, cost, counts):
    for ranks in counts:
        size = 4 * ranks * (1 << (ranks.bit_length() - 1))  # whole chunks for rings, for halves and for pieces
        run = simulate(function, ranks, (torch.ones(size),), topology=WIRE)
        want = cost(4 * size, ranks, LATENCY, BANDWIDTH)
        assert run.seconds == pytest.approx(want.seconds, rel=1e-9, abs=1e-15), ranks
        if name != "reduce":  # there the busiest rank receives; each sends once
            assert max(run.meter.bytes_sent) == want.nbytes, ranks
        assert max(run.meter.steps) == want.steps, ranks


@each_of("ranks", range(1, 18))
def test_a_ring_sends_no_more_than_twice_what_is_not_its_smallest_chunk(ranks):
    for size in (1, 3, 10, 4 * ranks + 1):
        run = simulate(collectives.ring_all_reduce, ranks, (torch.ones(size),), topology=WIRE)
        assert max(run.meter.bytes_sent) <= 2 * 4 * (size - size // ranks)
        longest = 4 * math.ceil(size / ranks)
        assert run.seconds == pytest.approx(2 * (ranks - 1) * (LATENCY + longest / BANDWIDTH), abs=1e-15)


@each_of("ranks", [3, 6, 11])
def test_halving_and_doubling_keeps_its_bounds_on_uneven_sizes(ranks):
    for size in (1, 5, 37):
        run = simulate(collectives.halving_doubling_all_reduce, ranks, (torch.ones(size),))
        rounds = 2 * int(math.log2(ranks)) + 2
        assert max(run.meter.steps) <= rounds and max(run.meter.bytes_sent) <= 4 * (3 * size + rounds)


@each_of("nodes, per_node", [(2, 2), (2, 4), (4, 2), (3, 3)])
def test_a_hierarchy_sends_few_bytes_between_nodes(nodes, per_node):
    size = nodes * per_node * 6
    inside, across = (1e-6, 50e9), (10e-6, 5e9)
    topology = Topology.nodes(per_node, inside, across)
    run = simulate(
        collectives.hierarchical_all_reduce, nodes * per_node, (torch.ones(size), per_node), topology=topology
    )
    want = collectives.hierarchical_cost(4 * size, nodes, per_node, inside, across)
    assert run.seconds == pytest.approx(want.seconds) and max(run.meter.bytes_sent) == want.nbytes
    assert max(run.meter.steps) == want.steps
    assert run.meter.levels["network"][0] == pytest.approx(nodes * 2 * 4 * size * (1 - 1 / nodes))


@each_of("ranks", [1, 2, 5, 8])
def test_an_all_to_all_uses_every_link_once(ranks):
    def trade(comm, x):
        return collectives.pairwise_all_to_all(comm, list(torch.empty_like(x)), list(x))

    run = simulate(trade, ranks, (torch.ones(ranks, 6),), topology=WIRE)
    want = collectives.all_to_all_cost(4 * ranks * 6, ranks, LATENCY, BANDWIDTH)
    assert run.seconds == pytest.approx(want.seconds, abs=1e-15) and max(run.meter.bytes_sent) == want.nbytes
    assert all(messages == 1 for _, messages in run.meter.pairs.values())


def test_pieces_hide_latency_and_send_no_more():
    size, ranks = 1024, 8
    plain = simulate(collectives.ring_all_reduce, ranks, (torch.ones(size),), topology=WIRE)
    piped = simulate(collectives.pipelined_ring_all_reduce, ranks, (torch.ones(4096 * ranks),), topology=WIRE)
    whole = simulate(collectives.ring_all_reduce, ranks, (torch.ones(4096 * ranks),), topology=WIRE)
    assert piped.seconds < whole.seconds and piped.meter.bytes_sent == whole.meter.bytes_sent
    assert plain.seconds < whole.seconds


@each_of("ranks", [1, 2, 3, 5])
def test_a_scratch_given_twice_changes_no_sum(ranks):
    def twice(comm, x):
        scratch = x.new_full((x.numel(),), -7)
        for _ in range(2):
            collectives.pipelined_ring_all_reduce(comm, x, scratch=scratch)
        return x

    world = secrets(ranks, (13,))
    run = simulate(twice, ranks, per_rank=[(x.clone(),) for x in world])
    assert all(torch.equal(got, ranks * plain_sum(world)) for got in run.results)


@each_of(
    "scratch",
    [torch.zeros(2), torch.zeros(2, 8), torch.zeros(16, dtype=torch.float64)],
    ids=["too short", "not a row", "another dtype"],
)
def test_a_scratch_that_does_not_fit_is_refused(scratch):
    def reduce(comm, x):
        return collectives.pipelined_ring_all_reduce(comm, x, scratch=scratch)

    with pytest.raises(RankError, match=r"a flat tensor of 4 numbers of torch.float32"):
        simulate(reduce, 2, (torch.ones(8),))


@each_of("ranks", [4, 5, 8, 16, 17])
def test_ring_and_tree_take_equally_long_at_the_crossover(ranks):
    size = collectives.ring_tree_crossover(ranks, LATENCY, BANDWIDTH)
    ring, tree = (cost(size, ranks, LATENCY, BANDWIDTH) for cost in (collectives.ring_cost, collectives.tree_cost))
    assert ring.seconds == pytest.approx(tree.seconds)
    cheaper = collectives.tree_cost(size / 2, ranks, LATENCY, BANDWIDTH).seconds
    assert cheaper < collectives.ring_cost(size / 2, ranks, LATENCY, BANDWIDTH).seconds


@each_of("ranks", [1, 2, 3])
def test_up_to_three_ranks_the_ring_always_wins(ranks):
    assert collectives.ring_tree_crossover(ranks, LATENCY, BANDWIDTH) == 0.0
    for size in (1, 1e9):
        ring, tree = (cost(size, ranks, LATENCY, BANDWIDTH) for cost in (collectives.ring_cost, collectives.tree_cost))
        assert ring.seconds <= tree.seconds


def test_costs_take_many_sizes_at_once():
    sizes = np.array([1e3, 1e6, 1e9])
    for _, cost in ALL_REDUCES.values():
        assert cost(sizes, 8, LATENCY, BANDWIDTH).seconds.shape == (3,)


PUBLISHED = [  # 2 (N - 1) latency, and 2 (N - 1)/N of 140 GB of gradients: closed forms by hand
    ("latency of 1,024 ranks at 10 us", collectives.ring_cost(0, 1024, 10e-6, 1).seconds, 0.02046),
    ("bytes of 70B in bf16, 8 ranks", collectives.ring_cost(140e9, 8, 0, 1).nbytes, 245e9),
    ("bytes of 70B in bf16, 64 ranks", collectives.ring_cost(140e9, 64, 0, 1).nbytes, 275.625e9),
]


@each_of("what, got, want", PUBLISHED)
def test_numbers_by_hand(what, got, want):
    assert got == pytest.approx(want, rel=1e-9)


BENCHES = [  # nccl-tests' own report of one run: 8x H200, 16 GiB and 1 GiB (stas00/ml-engineering, network/README.md)
    ("8 ranks, 16 GiB", 8, 2**34, 275.58e9, 482.26e9),
    ("8 ranks, 1 GiB", 8, 2**30, 264.9e9, 463.58e9),
]


@each_of("what, ranks, nbytes, algorithm, bus", BENCHES)
def test_bus_bandwidth_is_the_factor_times_algorithm_bandwidth(what, ranks, nbytes, algorithm, bus):
    seconds = nbytes / algorithm
    assert collectives.algorithm_bandwidth(nbytes, seconds) == pytest.approx(algorithm)
    assert collectives.bus_bandwidth("all_reduce", nbytes, seconds, ranks) == pytest.approx(bus, rel=1e-3)


@each_of("name", ["ring", "halving-doubling"])
def test_at_its_bound_an_algorithm_shows_the_links_own_bandwidth(name):
    nbytes = 4 * 8 * 4096
    run = simulate(REDUCES[name], 8, (torch.ones(nbytes // 4),), topology=Topology.flat(0.0, BANDWIDTH))
    assert collectives.bus_bandwidth("all_reduce", nbytes, run.seconds, 8) == pytest.approx(BANDWIDTH)


@each_of(
    "call, text",
    (lambda: collectives.bus_bandwidth("allreduce", 1, 1, 2), "'allreduce'"),
    (lambda: collectives.bus_bandwidth("all_reduce", 1, 1, 1), "ranks"),
    (lambda: collectives.ring_cost(-1, 2, 0, 1), "nbytes"),
    (lambda: collectives.ring_cost(1, 2.5, 0, 1), "ranks"),
    (lambda: collectives.ring_cost(1, 2, 0, 0), "bandwidth"),
)
def test_bad_numbers_are_refused_in_words(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@each_of("adversary", [Adversary(0), Adversary(0, True), Adversary(math.inf, True)])
def test_each_rank_leaves_out_two_chunks_whenever_bytes_move(adversary):
    chunks = [4 * len(chunk) for chunk in chunks_of(torch.ones(13), 5)]
    run = simulate(collectives.ring_all_reduce, 5, per_rank=secrets(5, (13,), torch.float32), adversary=adversary)
    assert run.meter.bytes_sent == [2 * 4 * 13 - chunks[r] - chunks[(r + 1) % 5] for r in range(5)]
