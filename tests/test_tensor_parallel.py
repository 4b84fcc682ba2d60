"""The parts of tensor parallelism: operators, layers, vocabulary and chance, each against what one rank computes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from course_lib.cluster import Mismatch, RankError, Topology, interleavings, simulate
from course_lib.cluster.parity import apart, tolerance
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
    copy_in,
    cross_entropy,
    gather,
    gather_in,
    gather_logits,
    inside,
    scatter_out,
    span,
    split,
    sum_out,
)
from tests.tables import each_of


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both_ways(comm, dim):
    """The whole from parts, and the sum's part again, with the gradient of both, along one dimension."""
    whole = numbers(2, 4, 6)
    part = whole.chunk(comm.size, dim)[comm.rank].clone().requires_grad_()
    gathered = gather_in(part, comm, dim)
    kept = scatter_out(gathered * 1.0, comm, dim)
    kept.sum().backward()
    return torch.equal(gathered, whole), torch.equal(kept, comm.size * part), part.grad.unique().tolist()


@each_of("dim", [-1, -2, 1, 2])
def test_a_dimension_may_be_counted_from_the_end(dim):
    assert simulate(both_ways, 2, (dim,)).results == [(True, True, [2.0])] * 2


# --- the conjugate operators


def region(comm, both=False):
    """Two products between the operators, checked against finite differences of what all ranks compute together."""
    a, b = (part.chunk(comm.size, dim)[comm.rank] for part, dim in ((numbers(3, 4), 1), (numbers(4, 3, seed=1), 0)))

    def through(x):
        y = sum_out(torch.tanh(copy_in(x, comm) @ a) @ b, comm)
        return copy_in(y, comm) if both else y  # an all-reduce on the way back at both ends

    x = numbers(2, 3, seed=2).requires_grad_()
    return [
        torch.autograd.gradcheck(through, x, raise_exception=False),
        torch.autograd.gradgradcheck(through, x, raise_exception=False),
    ]


@each_of("ranks", [1, 2, 4])
def test_f_and_g_have_the_gradients_of_the_product_across_ranks_twice(ranks):
    assert simulate(region, ranks).results == [[True, True]] * ranks


def test_an_all_reduce_on_both_ways_is_found_by_the_same_check():
    assert simulate(region, 2, args=(True,)).results == [[False, False]] * 2


def sequence_region(comm, dim):
    a, b = (part.chunk(comm.size, side)[comm.rank] for part, side in ((numbers(3, 8), 1), (numbers(8, 3, seed=1), 0)))
    x = numbers(4, 4, 3, seed=2).chunk(comm.size, dim)[comm.rank].clone().requires_grad_()
    y = scatter_out(torch.tanh(gather_in(x, comm, dim) @ a) @ b, comm, dim)
    (grad,) = torch.autograd.grad(y, x, numbers(4, 4, 3, seed=3).chunk(comm.size, dim)[comm.rank], create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), x)
    return y.detach(), grad.detach(), second


@each_of("dim", [0, 1])
@each_of("ranks", [1, 2, 4])
def test_gather_and_scatter_around_a_product_equal_one_rank(ranks, dim):
    want = simulate(sequence_region, 1, args=(dim,)).results[0]
    results = simulate(sequence_region, ranks, args=(dim,)).results
    for parts, whole in zip(zip(*results, strict=True), want, strict=True):
        assert apart(torch.cat(parts, dim), whole, 100) <= 1


def replicated_region(comm):
    x = numbers(2, 4, 3).requires_grad_()
    y = gather(split(x, comm) * numbers(2, 4, 3, seed=1).chunk(comm.size, 1)[comm.rank], comm)
    (grad,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    return y.detach(), grad.detach(), second


def test_split_and_gather_leave_whole_gradients_on_every_rank():
    want = simulate(replicated_region, 1).results[0]
    for result in simulate(replicated_region, 4).results:
        assert all(apart(got, whole, 10) <= 1 for got, whole in zip(result, want, strict=True))


def test_operators_cost_what_their_pair_costs():
    def program(comm):
        x = torch.zeros(2, 4, 8, requires_grad=True)
        sum_out(copy_in(x, comm), comm).sum().backward()
        part = torch.zeros(2, 1, 8, requires_grad=True)
        scatter_out(gather_in(part, comm), comm).sum().backward()

    nbytes = 2 * 4 * 8 * 4
    assert simulate(program, 4).meter.bytes_sent == [(2 * 2 + 4) * nbytes * 3 // 4] * 4


# --- column, then row


class Pair(nn.Module):
    """Two linear layers with a bend between them; whole, or this rank's parts of the whole."""

    def __init__(self, width, inner, bias, comm=None, sequence=False):
        super().__init__()
        first, second = nn.Linear(width, inner, bias).double(), nn.Linear(inner, width, bias).double()
        for seed, parameter in enumerate((*first.parameters(), *second.parameters())):
            parameter.data = numbers(*parameter.shape, seed=10 + seed)
        self.first = ColumnParallelLinear.of(comm, first, sequence=sequence) if comm else first
        self.second = RowParallelLinear.of(comm, second, sequence=sequence) if comm else second

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def pair(comm, width, inner, bias, sequence):
    """Output and gradients, cut as they are on this rank."""
    model = Pair(width, inner, bias, comm, sequence)
    x = numbers(2, 4, width)
    x = (x.chunk(comm.size, 1)[comm.rank] if sequence else x).clone().requires_grad_()
    y = model(x)
    y.square().sum().backward()
    return y.detach(), x.grad, {name: each.grad for name, each in model.named_parameters()}


def whole_pair(width, inner, bias):
    model = Pair(width, inner, bias)
    x = numbers(2, 4, width).requires_grad_()
    y = model(x)
    y.square().sum().backward()
    return y.detach(), x.grad, {name: each.grad for name, each in model.named_parameters()}


@settings(max_examples=15, deadline=None)
@given(
    ranks=st.integers(1, 4), width=st.integers(1, 5), more=st.integers(0, 5), bias=st.booleans(), sequence=st.booleans()
)
def test_column_then_row_equals_the_two_layers_for_any_width(ranks, width, more, bias, sequence):
    ranks = {3: 2}.get(ranks, ranks) if sequence else ranks
    inner = ranks + more
    results = simulate(pair, ranks, args=(width, inner, bias, sequence)).results
    y, to_x, grads = whole_pair(width, inner, bias)
    scale = max(each.abs().max().item() for each in (y, to_x, *grads.values()))  # small ones are sums that cancel
    near = lambda got, want: (got - want).abs().max() <= tolerance(torch.float64, 500) * scale  # noqa: E731
    for rank, (got_y, got_x, got) in enumerate(results):
        tokens = slice(rank * 4 // ranks, (rank + 1) * 4 // ranks) if sequence else slice(None)
        assert near(got_y, y[:, tokens]) and near(got_x, to_x[:, tokens])
        cut = slice(*span(inner, ranks, rank))
        assert near(got["first.weight"], grads["first.weight"][cut])
        assert near(got["second.weight"], grads["second.weight"][:, cut])
        assert not bias or near(got["first.bias"], grads["first.bias"][cut])
    if bias:  # added once; with the sequence shared out every rank has a part of its gradient
        second = [each["second.bias"] for _, _, each in results]
        assert near(sum(second) if sequence else second[-1], grads["second.bias"])


def test_the_pair_costs_one_all_reduce_each_way():
    nbytes = 2 * 4 * 16 * 8
    assert simulate(pair, 4, args=(16, 32, True, False)).meter.bytes_sent == [2 * 2 * nbytes * 3 // 4] * 4
    # gathered once more, for the weight's gradient: only the own tokens were kept
    assert simulate(pair, 4, args=(16, 32, True, True)).meter.bytes_sent == [5 * nbytes * 3 // 4] * 4


@each_of("sequence", [False, True])
def test_the_pair_is_safe_under_all_adversaries(sequence):
    assert interleavings(pair, 2, args=(6, 8, True, sequence)) is None


def clocked(comm, overlap, sequence):
    x = torch.ones(8, 64 // (comm.size if sequence else 1), 64, requires_grad=True)
    layer = ColumnParallelLinear(comm, torch.ones(64, 64), overlap=overlap, sequence=sequence)
    layer(x).sum().backward()


@each_of("sequence", [False, True])
def test_the_input_gradients_sum_hides_behind_the_weights_gradient(sequence):
    wire = Topology.flat(1e-6, 10e9, 2e10)  # a product takes longer than its all-reduce
    waits, hides = (
        simulate(clocked, 2, args=(overlap, sequence), topology=wire, account=True) for overlap in (False, True)
    )
    assert waits.meter.bytes_sent == hides.meter.bytes_sent and waits.meter.flops == hides.meter.flops
    assert hides.seconds < waits.seconds
    left = 0.5 if sequence else 0.0  # the gather on the way in: the product waits for it
    assert max(hides.exposed()) == pytest.approx(left * max(waits.exposed()), abs=1e-12)


def test_with_the_sequence_shared_out_only_own_tokens_are_kept():
    def program(comm, sequence):
        x = torch.ones(8, 64 // (comm.size if sequence else 1), 64, requires_grad=True)
        y = ColumnParallelLinear(comm, torch.ones(8, 64), sequence=sequence)(x)
        return y

    whole, shared = (simulate(program, 4, args=(each,), account=True).meter.live_bytes[0] for each in (False, True))
    assert whole - shared == 8 * 64 * 64 * 4 * 3 / 4


def test_ranks_that_bring_unequal_tokens_are_told_and_do_not_hang():
    def program(comm):
        layer = ColumnParallelLinear(comm, torch.ones(4, 4), sequence=True)
        layer(torch.ones(1, 2 + comm.rank, 4))

    with pytest.raises(Mismatch, match="shape differs"):
        simulate(program, 2)


def test_unequal_widths_on_the_way_out_are_told():
    def program(comm):
        RowParallelLinear(comm, torch.ones(4 + comm.rank, 4))(torch.ones(1, 2, 4))

    with pytest.raises(Mismatch, match="shape differs"):
        simulate(program, 2)


@each_of(
    "program, words",
    (lambda comm: gather_in(split(torch.ones(1, 5, 2), comm), comm), "5 rows along dimension 1"),
    (lambda comm: ColumnParallelLinear.of(comm, nn.Linear(4, 1)), "1 outputs cannot be shared"),
    (lambda comm: RowParallelLinear.of(comm, nn.Linear(1, 4)), "1 inputs cannot be shared"),
    (lambda comm: VocabParallelEmbedding(comm, torch.ones(3, 2), 8), "holds 3 of 8 tokens"),
    (lambda comm: VocabParallelEmbedding.of(comm, nn.Embedding(8, 2))(torch.tensor([[8]])), "token 8 is not in"),
    (lambda comm: cross_entropy(comm, torch.ones(1, 1, 4), torch.tensor([[-1]]), 8), "target -1 is not in"),
    (lambda comm: cross_entropy(comm, torch.ones(1, 1, 8), torch.tensor([[1]]), 8), "holds 8 of 8 tokens"),
)
def test_what_cannot_be_shared_out_is_refused_in_words(program, words):
    with pytest.raises(RankError, match=words):
        simulate(program, 2)


# --- the vocabulary


def vocabulary(comm, vocab, sequence, scale):
    whole = nn.Embedding(vocab, 3).double()
    whole.weight.data = numbers(vocab, 3)
    tokens = torch.arange(24).view(2, 12) * 7 % vocab
    table = VocabParallelEmbedding.of(comm, whole, sequence=sequence)
    x = table(tokens)
    (
        x * (numbers(2, 12, 3, seed=1).chunk(comm.size, 1)[comm.rank] if sequence else numbers(2, 12, 3, seed=1))
    ).sum().backward()
    logits = (numbers(2, 12, vocab, seed=2) * scale)[..., slice(*span(vocab, comm.size, comm.rank))].requires_grad_()
    targets = tokens.clone()
    targets[0, 3] = -100
    loss = cross_entropy(comm, logits, targets, vocab)
    loss.backward()
    return x.detach(), table.weight.grad, loss.detach(), logits.grad, gather_logits(comm, logits, vocab)


@each_of("scale", [1.0, 1e4])
@each_of("sequence", [False, True])
@each_of("ranks, vocab", [(1, 8), (2, 8), (3, 8), (4, 11), (4, 4)])
def test_embedding_and_loss_equal_the_whole_vocabularys(ranks, vocab, sequence, scale):
    results = simulate(vocabulary, ranks, args=(vocab, sequence, scale)).results
    tokens = torch.arange(24).view(2, 12) * 7 % vocab
    weight, logits = (numbers(vocab, 3).requires_grad_(), (numbers(2, 12, vocab, seed=2) * scale).requires_grad_())
    x = F.embedding(tokens, weight)
    (x * numbers(2, 12, 3, seed=1)).sum().backward()
    targets = tokens.clone()
    targets[0, 3] = -100
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    vectors, rows, losses, to_logits, seen = zip(*results, strict=True)
    assert torch.equal(torch.cat(vectors, 1) if sequence else vectors[-1], x)
    assert apart(torch.cat(rows), weight.grad, 24) <= 1
    assert all(apart(each, loss.detach(), vocab) <= 1 for each in losses) and len(set(map(float, losses))) == 1
    assert apart(torch.cat(to_logits, -1), logits.grad, vocab) <= 1
    assert all(torch.equal(each, logits) for each in seen)


def test_the_loss_sends_three_numbers_a_token_whatever_the_vocabulary():
    def program(comm, vocab):
        logits = torch.zeros(2, 8, vocab // comm.size, requires_grad=True)
        cross_entropy(comm, logits, torch.zeros(2, 8, dtype=torch.int64), vocab).backward()

    for vocab in (8, 4096):
        assert simulate(program, 4, args=(vocab,)).meter.bytes_sent == [2 * 3 * 16 * 3 * 4 // 4] * 4


def test_a_loss_in_bfloat16_is_computed_in_fp32_and_its_gradient_is_bfloat16():
    def program(comm):
        logits = numbers(1, 4, 6).bfloat16().chunk(comm.size, -1)[comm.rank].clone().requires_grad_()
        loss = cross_entropy(comm, logits, torch.arange(4).view(1, 4), 6)
        loss.backward()
        return loss.detach(), logits.grad

    want = F.cross_entropy(numbers(1, 4, 6).bfloat16().float()[0], torch.arange(4))
    for loss, grad in simulate(program, 2).results:
        assert apart(loss, want, 6) <= 1 and grad.dtype is torch.bfloat16


def test_an_embedding_ignores_what_other_ranks_rows_hold():
    def program(comm):
        weight = torch.full((4, 2), float("nan"))
        weight[1 - comm.rank] = comm.rank + 1.0  # token 1 on rank 0, token 4 on rank 1
        return VocabParallelEmbedding(comm, weight, 8)(torch.tensor([[1, 4]]))

    for result in simulate(program, 2).results:
        assert torch.equal(result, torch.tensor([[[1.0, 1.0], [2.0, 2.0]]]))


# --- chance


def draws(comm):
    before = torch.rand(1000)
    with inside(comm):
        first = torch.rand(1000)
    with inside(comm):
        second = torch.rand(1000)
    return before, first, second, torch.rand(1000)


def test_ranks_draw_alike_outside_a_region_and_apart_within():
    runs = simulate(draws, 4).results
    before, first, second, after = zip(*runs, strict=True)
    for alike in (before, after):
        assert all(torch.equal(each, alike[0]) for each in alike)
    streams = torch.stack([*first, *second, before[0], after[0]])
    correlation = torch.corrcoef(streams) - torch.eye(len(streams))
    assert correlation.abs().max() < 5 / 1000**0.5  # of 45 pairs of independent streams, none is beyond 5 sigma


def test_inside_is_the_same_again_when_the_common_stream_is_set_back():
    def program(comm):
        state = torch.get_rng_state()
        once = draws(comm)
        torch.set_rng_state(state)
        return all(map(torch.equal, once, draws(comm)))

    assert all(simulate(program, 2).results)
