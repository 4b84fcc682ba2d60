"""Chapter 18: attention in tiles and collective matmuls give what the plain ones give, with the traffic and the time of
their formulas."""

import os
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from course_chapters.ch18 import attention, collective_matmul, overlap_film, tile_film, triton_kernel
from course_chapters.ch18.fast_memory import FastMemory, FastMemoryFull
from course_lib.cluster import Topology, simulate
from course_lib.cluster.collectives import ring_half_cost
from tests.tables import each_of

SHAPES = [(48, 8, 16, 16), (37, 8, 16, 5), (20, 4, 7, 20), (1, 4, 3, 3), (24, 8, 5, 16)]  # tokens, width, tile


def both_passes(tokens, width, rows, columns, dtype, causal, capacity=None):
    """The slow memory after both passes in tiles, and the bytes of each pass."""
    coin = torch.Generator().manual_seed(tokens)
    *given, grad = torch.randn(4, tokens, width, generator=coin, dtype=torch.float64).to(dtype)
    memory = attention.slow_memory(*given, capacity)
    memory.slow("grad")[0].copy_(grad)
    with memory:
        attention.forward(memory, rows, columns, causal)
        moved = memory.traffic
        attention.backward(memory, rows, columns, causal)
    return memory, moved, memory.traffic - moved


@each_of("dtype, causal", [(d, c) for d in (torch.float64, torch.float32, torch.bfloat16) for c in (False, True)])
def test_both_passes_in_tiles_equal_plain_attention_and_move_the_bytes_of_the_formula(dtype, causal):
    for tokens, width, rows, columns in SHAPES:
        memory, forward, backward = both_passes(tokens, width, rows, columns, dtype, causal)
        leaves = [x.double().requires_grad_() for x in memory.slow("q", "k", "v")]
        out = F.scaled_dot_product_attention(*(x[None] for x in leaves), is_causal=causal)[0]
        out.backward(memory.slow("grad")[0].double())
        # a sum of n terms, and one rounding of the result to the dtype
        tolerance = torch.finfo(dtype).eps + tokens * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        for got, want in zip(memory.slow("out", "dq", "dk", "dv"), (out, *(x.grad for x in leaves)), strict=True):
            off = (got.double() - want).abs().max() / max(want.abs().max(), want.new_tensor(1.0))
            assert off.item() <= 2 * tolerance, (tokens, rows, columns)
        shape = tokens, width, rows, columns, dtype.itemsize, causal
        assert forward == attention.forward_traffic(*shape)
        assert backward == attention.backward_traffic(*shape)


def test_both_passes_fit_into_the_fast_memory_that_they_need():
    """Eight tiles of 16 rows: q, k, v, dk, dv, a gradient and two of scores; one byte less is too little."""
    both_passes(128, 16, 16, 16, torch.float32, False, capacity=8 * 1024)
    with pytest.raises(FastMemoryFull):
        both_passes(128, 16, 16, 16, torch.float32, False, capacity=8 * 1024 - 1)


def test_three_kernels_give_the_same_and_move_four_and_seven_matrices_of_scores():
    tiled, _, _ = both_passes(40, 8, 16, 8, torch.float32, False)
    plain = attention.slow_memory(*tiled.slow("q", "k", "v"))
    plain.slow("grad")[0].copy_(tiled.slow("grad")[0])
    moved = []
    for kernels in (attention.unfused, attention.unfused_backward):
        before = plain.traffic
        with plain:
            kernels(plain)
        moved.append(plain.traffic - before)
    assert tuple(moved) == attention.unfused_traffic(40, 8, 4)
    for name in ("out", "dq", "dk", "dv"):
        assert torch.allclose(*(memory.slow(name)[0] for memory in (plain, tiled)), atol=1e-5), name


def test_traffic_of_the_largest_tiles_that_fit_follows_the_paper():
    ratios = []
    for tokens, capacity in ((256, 8192), (256, 16384), (512, 16384), (1024, 32768)):
        memory = attention.slow_memory(*torch.zeros(3, tokens, 16), capacity)
        with memory:
            attention.forward(memory, capacity // (4 * 4 * 16), 8)  # q, out and scores of M / 4d queries
        theory = tokens**2 * 16**2 * 4 / (capacity / 4)  # N² d² / M of Dao et al. (2022), theorem 2, in bytes
        ratios.append(memory.traffic / theory)
    assert max(ratios) / min(ratios) < 1.3


def test_the_fast_memory_refuses_what_does_not_fit_or_lies_outside():
    memory = FastMemory(100, x=torch.zeros(30), y=torch.zeros(30))
    with memory:
        tile = memory.load("x", slice(0, 20))
        with pytest.raises(FastMemoryFull, match=r"holds 80 B of 100 B, and 40 B more do not fit"):
            memory.load("x", slice(20, 30))
        with pytest.raises(ValueError, match="25:35 is outside"):
            memory.load("x", slice(25, 35))
        with pytest.raises(ValueError, match="the tile"):
            memory.store("y", tile, slice(0, 10))
        with pytest.raises(ValueError, match="it has x, y"):
            memory.load("z", slice(0, 1))
        memory.store("y", tile.add_(1), slice(5, 25))
        del tile
        assert memory.live_bytes == 0
    assert memory.slow("y")[0].sum() == 20 and [(each.kind, each.nbytes) for each in memory.log] == [
        ("load", 80),
        ("store", 80),
    ]


LINKS = [  # latency s, bandwidth bytes/s, FLOP/s, launch s: each of the three chains is the longest somewhere
    (10e-6, 1e9, 1e12, 1e-6),
    (1e-6, 1e8, 1e9, 0.0),
    (1e-5, 1e7, 1e9, 5e-6),
    (3e-5, 1e9, 3e8, 1e-6),
    (1e-5, 2e8, 1e9, 2e-6),
]
ROWS, INNER, OUTER = 12, 16, 10


def on_ranks(ranks, way, link, rows, *options):
    coin = torch.Generator().manual_seed(ranks)
    given = [
        (torch.randn(rows, INNER, generator=coin), torch.randn(INNER, OUTER, generator=coin)) for _ in range(ranks)
    ]
    return simulate(lambda comm, x, w: way(comm, x, w, *options), ranks, (), given, Topology.flat(*link[:3]))


@each_of("ranks", [1, 2, 5])
def test_collective_matmuls_equal_the_plain_ones_in_values_bytes_and_the_formula_in_seconds(ranks):
    pairs = (
        (collective_matmul.gather_then_matmul, collective_matmul.gather_matmul, ROWS, INNER),
        (collective_matmul.matmul_then_scatter, collective_matmul.matmul_scatter, ROWS * ranks, OUTER),
    )
    for link in LINKS:
        for apart, under, rows, sent in pairs:
            times = ranks, 2 * ROWS * INNER * OUTER / link[2], 4 * ROWS * sent / link[1], link[0], link[3]
            plain = on_ranks(ranks, apart, link, rows, link[3])
            talk = ring_half_cost(times[2] * ranks, ranks, link[0], 1.0).seconds
            assert plain.seconds == pytest.approx(talk + ranks * times[1] + link[3])
            for pieces in (1, 3, 12):
                run = on_ranks(ranks, under, link, rows, pieces, link[3])
                assert all(torch.allclose(*both, atol=1e-4) for both in zip(run.results, plain.results, strict=True))
                assert run.meter.bytes_sent == plain.meter.bytes_sent
                assert run.seconds == pytest.approx(collective_matmul.pieces_seconds(*times, pieces))
                waits = run.seconds - ranks * times[1] - ranks * pieces * link[3]
                assert max(run.exposed()) == pytest.approx(waits, abs=1e-12)


def test_uneven_pieces_are_right_and_impossible_ones_are_refused():
    for under in (collective_matmul.gather_matmul, collective_matmul.matmul_scatter):
        results = [on_ranks(3, under, LINKS[0], 21, pieces).results for pieces in (1, 4)]
        assert all(torch.allclose(*both, atol=1e-5) for both in zip(*results, strict=True))
        with pytest.raises(Exception, match="rows make at most"):
            on_ranks(3, under, LINKS[0], 21, 30)
    with pytest.raises(Exception, match="pad them to 6"):
        on_ranks(3, collective_matmul.matmul_scatter, LINKS[0], 4)


def trained(gather, scatter, x, target, first, second):
    """Output, every gradient of the first of four steps of Adam, and the weights after the last."""
    leaves = [each.clone().requires_grad_() for each in (x, first, second)]
    adam, kept = torch.optim.Adam(leaves[1:], lr=0.05), []
    for _ in range(4):
        out = scatter(F.gelu(gather(leaves[0], leaves[1])), leaves[2])
        adam.zero_grad()
        (out - target).square().sum().backward()
        kept = kept or [out.detach(), *(each.grad.clone() for each in leaves)]
        adam.step()
    return *kept, *(each.detach() for each in leaves[1:])


@each_of("ranks, pieces", [(1, 2), (3, 1), (4, 2)])
def test_layers_with_collective_matmuls_train_as_the_whole_ones(ranks, pieces):
    coin = torch.Generator().manual_seed(ranks)
    shapes = ((4 * ranks, 6), (4 * ranks, 6), (6, 5 * ranks), (5 * ranks, 6))
    given = [torch.randn(shape, generator=coin, dtype=torch.float64) for shape in shapes]
    cut = [each.chunk(ranks, dim) for each, dim in zip(given, (0, 0, 1, 0), strict=True)]

    def on_rank(comm, *own):
        gather, scatter = collective_matmul.gather_linear, collective_matmul.linear_scatter
        return trained(lambda x, w: gather(comm, x, w, pieces), lambda x, w: scatter(comm, x, w, pieces), *own)

    found = simulate(on_rank, ranks, (), list(zip(*cut, strict=True))).results
    whole = trained(torch.matmul, torch.matmul, *given)
    for each, want, dim in zip(zip(*found, strict=True), whole, (0, 0, 1, 0, 1, 0), strict=True):
        torch.testing.assert_close(torch.cat(each, dim), want, rtol=1e-10, atol=1e-10)


@each_of("transfer, best", [(5e-6, 1), (9e-6, 1), (13e-6, 2), (20e-6, 6), (40e-6, 12)])
def test_more_pieces_help_only_where_hops_take_longer_than_products(transfer, best):
    product, latency, launch = 10e-6, 0.5e-6, 0.8e-6
    link = latency, 4 * ROWS * INNER / transfer, 2 * ROWS * INNER * OUTER / product
    equal = [pieces for pieces in range(1, ROWS + 1) if ROWS % pieces == 0]
    run = {p: on_ranks(4, collective_matmul.gather_matmul, link, ROWS, p, launch).seconds for p in equal}
    assert min(equal, key=run.__getitem__) == best
    chosen = collective_matmul.fewest_best_pieces(4, product, transfer, latency, launch, ROWS)
    assert (chosen > 1) == (best > 1)
    assert collective_matmul.pieces_seconds(4, product, transfer, latency, launch, chosen) <= run[best] * (1 + 1e-9)


def test_the_film_of_tiles_shows_each_tile_of_scores_once_and_keeps_the_outer_loop_s_tiles():
    for way, kept in (("forward", {"q"}), ("backward", {"k", "v"})):
        steps, plain = tile_film.record(way, 8, False)
        tiles = [(step.queries, step.keys) for step in steps if step.queries]
        assert len(tiles) == len(set(tiles)) == 9 and steps[-1].moved < plain
        assert {name for step in steps for name, _ in step.kept} == kept


def test_the_film_of_overlap_names_the_owner_of_each_message():
    for pieces in overlap_film.PIECES:
        run = overlap_film.record(pieces, "two products")
        for rank, messages in enumerate(run.messages):
            assert [bar.owner for bar in messages] == sorted(
                (bar.owner for bar in messages), key=lambda owner: (rank - owner) % 4
            )
            assert len(messages) == 3 * max(pieces, 1)


class Pointers:
    """Places in a flat tensor, as a stand-in for Triton passes them."""

    def __init__(self, tensor, places=0):
        self.tensor, self.places = tensor.view(-1), places

    def __add__(self, places):
        return Pointers(self.tensor, self.places + places)


class Builder:
    """The two calls of Triton's interpreter that reach memory; a place outside the tensor raises IndexError."""

    def create_masked_load(self, pointers, mask, other):
        return torch.full(mask.shape, other).masked_scatter(mask, pointers.tensor[pointers.places[mask]])

    def create_masked_store(self, pointers, value, mask):
        pointers.tensor[pointers.places[mask]] = value[mask]


def stand_in_for_triton(monkeypatch):
    """Modules that run a block program with torch, one program after another."""
    builder, programs = Builder(), []

    class Launched:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            def run(*given, **sizes):
                given = [Pointers(each) if isinstance(each, torch.Tensor) else each for each in given]
                for program in range(grid[0]):
                    programs.append(program)
                    self.kernel(*given, **sizes)

            return run

    language = SimpleNamespace(
        constexpr=int,
        program_id=lambda _: programs[-1],
        arange=torch.arange,
        sqrt=torch.sqrt,
        sum=SimpleNamespace(fn=torch.sum),  # compiled, as where torch imported Triton first
        load=lambda pointers, mask, other: builder.create_masked_load(pointers, mask, other),
        store=lambda pointers, value, mask: builder.create_masked_store(pointers, value, mask),
    )
    interpreter = SimpleNamespace(interpreter_builder=builder, InterpretedFunction=partial)
    triton = SimpleNamespace(jit=Launched, language=language, next_power_of_2=lambda n: 1 << (n - 1).bit_length())
    modules = {"triton": triton, "triton.language": language, "triton.runtime": SimpleNamespace()}
    for name, module in (modules | {"triton.runtime.interpreter": interpreter}).items():
        monkeypatch.setitem(sys.modules, name, module)


def test_the_kernel_in_triton_gives_the_norm_and_counts_each_number_once(monkeypatch):
    if not triton_kernel.is_installed():
        stand_in_for_triton(monkeypatch)
    x, y, weight = torch.randn(5, 37), torch.randn(5, 37), torch.randn(37)
    for _ in range(2):  # the count begins anew
        out, moved = triton_kernel.add_norm(x, y, weight)
        assert torch.allclose(out, F.rms_norm(x + y, (37,), weight, triton_kernel.EPSILON), atol=1e-5)
        assert (moved.loaded, moved.stored) == (3 * x.nbytes, x.nbytes)


def test_without_triton_the_page_says_how_to_install_it_and_nothing_is_left_behind(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert not triton_kernel.is_installed() and "pip install triton" in triton_kernel.INSTALL
    with pytest.raises(ImportError):
        triton_kernel.add_norm(torch.ones(1, 4), torch.ones(1, 4), torch.ones(4))
    assert os.environ["TRITON_INTERPRET"] == "0"
